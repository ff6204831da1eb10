"""What is emitted for CDNA: range checks by descriptors, branches for partial stores only, a vmfb."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, AMD_COPYING, Gemm
from wavespec.emit.code_figures import object_in
from wavespec.emit.thread_to_mlir import thread_to_mlir, unwritten
from wavespec.ir.parser import parse_kernel
from wavespec.pipeline import build_variant, emit
from wavespec.runtime.size_expr import evaluate
from wavespec.schema import KernelSpec, loads

DEFAULT = Gemm(tile=(128, 128, 32), wave=(64, 64), dims=("", "", "multiple_of: 8"))


def mlir(gemm: Gemm) -> str:
    """The module of a GEMM for the first CDNA machine."""
    return emit(gemm.spec, AMD).text


def loop(text: str) -> str:
    """The body of the only loop."""
    return text[text.index("scf.for") : text.index("scf.yield")]


def test_one_descriptor_per_tensor() -> None:
    assert mlir(DEFAULT).count("rocdl.make.buffer.rsrc") == 3


def test_descriptors_are_made_outside_of_loops() -> None:
    assert "rocdl.make.buffer.rsrc" not in loop(mlir(DEFAULT))


@pytest.mark.compiles
@pytest.mark.parametrize("group", ["", ", group: 2"])
def test_persistent_workgroups_make_descriptors_once_a_round(group: str) -> None:
    gemm = replace(DEFAULT, schedule=f"workgroups: {{persistent: true, count: 304{group}}}", stages=2)
    text = mlir(gemm)
    _, in_rounds, in_steps = text.split("scf.for")
    assert (in_rounds.count("rocdl.make.buffer.rsrc"), text.count("rocdl.make.buffer.rsrc")) == (2, 3)
    assert "rocdl.make.buffer.rsrc" not in in_steps[: in_steps.index("scf.yield")]
    assert build_variant(gemm.spec, AMD)[0].binaries, "the compiler takes it"


def test_rows_beyond_the_last_need_no_mask() -> None:
    body = loop(mlir(DEFAULT))
    assert body.count("arith.cmpi") == 1  # the end of K, the same for both tensors
    assert "arith.cmpi" not in loop(mlir(replace(DEFAULT, dims=("", "", "multiple_of: 32"))))


@pytest.mark.parametrize(
    ("dtype", "k", "loads"),
    [("f16", "", "i16"), ("f16", "multiple_of: 2", "vector<4xi32>"), ("f32", "", "vector<4xi32>")],
)
def test_loads_are_as_wide_as_alignment_to_words_allows(dtype: str, k: str, loads: str) -> None:
    found = re.findall(
        r"rocdl.raw.ptr.buffer.load .* : (\S+) loc", mlir(replace(DEFAULT, dtype=dtype, dims=("", "", k)))
    )
    assert set(found) == {loads}


def test_stores_share_one_branch() -> None:
    text = mlir(DEFAULT)
    assert text.count("scf.if") == 1
    assert text.count("rocdl.raw.ptr.buffer.store") == 16 + 64


def test_promise_on_rows_of_the_result_removes_the_branch() -> None:
    text = mlir(replace(DEFAULT, dims=("", "multiple_of: 4", "multiple_of: 8")))
    assert "scf.if" not in text
    assert text.count("rocdl.raw.ptr.buffer.store") == 16


def test_barriers_wait_for_shared_memory_only() -> None:
    found = set(re.findall(r"gpu.barrier.*(?= loc)", mlir(DEFAULT)))
    assert found == {"gpu.barrier memfence [#gpu.address_space<workgroup>]"}


def test_offsets_in_the_tensor_are_64_bits_wide() -> None:
    """A tensor may be larger than 4 GiB; the offsets inside of a tile are not."""
    text = mlir(DEFAULT)
    assert len(re.findall(r"llvm.inttoptr .* : i64 to", text)) == 3


@pytest.mark.compiles
def test_artifact_has_a_vmfb_and_the_code_in_it() -> None:
    artifact, compiled = build_variant(DEFAULT.spec, AMD, intermediates=True)
    (vmfb,) = artifact.binaries
    assert (vmfb.label, vmfb.format) == ("gfx942", "vmfb")
    assert object_in(vmfb.data) in compiled.dumped.values()
    assert any(name.endswith(".rocmasm") for name in compiled.dumped)
    assert artifact.backend == "hip"


def test_tiles_that_a_descriptor_cannot_reach_are_refused() -> None:
    limits = emit(DEFAULT.spec, AMD).interface.assumptions
    sizes = {"M": 1, "N": 1, "K": 2**31 // (128 * 2)}
    broken = [limit.text for limit in limits if not evaluate(limit.condition, sizes)]
    assert broken == [f"K*256 <= 2147483632 (bytes of '{name}' that one workgroup reaches)" for name in "ab"]
    assert all(evaluate(limit.condition, {**sizes, "K": sizes["K"] - 8}) for limit in limits)


def test_tiles_that_are_known_to_be_small_need_no_check() -> None:
    bounded = replace(DEFAULT, dims=("", "max: 4096", "multiple_of: 8, max: 4096"))
    assert [limit.text for limit in emit(bounded.spec, AMD).interface.assumptions] == ["N <= 4096", "K <= 4096"]


def passing(place: str) -> KernelSpec:
    """``y[m, n] = x[place, n]``, a loop over rows."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: passing
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: N, tile: 64, axis: 0}}
  - {{tiling: M, tile: 32}}
graph:
  - rows:
      iterate: M
      body:
        - part: {{read: x, dims: [M, N], at: {{M: {place}}}}}
        - {{write: part, to: y}}
"""
    )


@pytest.mark.parametrize(("place", "rows"), [("M + 5", 37), ("M", 32)])
def test_rows_beyond_the_last_are_where_offsets_do_not_wrap(place: str, rows: int) -> None:
    limits, sizes = emit(passing(place), AMD).interface.assumptions, {"M": 2, "N": 2**31 // (32 * 4)}
    broken = [limit.text for limit in limits if not evaluate(limit.condition, sizes)]
    reached = [f"N*{4 * rows}", "N*128"] if rows > 32 else ["N*128"] * 2
    named = zip("xy", reached, strict=True)
    assert broken == [
        f"{bytes_} <= 2147483632 (bytes of '{name}' that one workgroup reaches)" for name, bytes_ in named
    ]


def test_rows_that_a_loop_passes_by_have_a_mask() -> None:
    places = ("M", "7 * M", "M * size(N)", "M + size(N)")
    near, *far = (emit(passing(place), AMD).text.partition("scf.for")[2] for place in places)
    assert "arith.cmpi" not in near, "all rows are there"
    assert all("arith.cmpi" in text for text in far)


COPIED = replace(DEFAULT, stages=2)


def copying(gemm: Gemm) -> str:
    return emit(gemm.spec, AMD_COPYING).text


def test_copies_move_16_bytes_to_where_the_first_lane_of_a_wave_says() -> None:
    text = copying(COPIED)
    copies = re.findall(r'"rocdl.raw.ptr.buffer.load.async.lds"\((.*)\)', text)
    assert len(copies) == 3 * 4, "before the loop, and a round for each of two buffers"
    assert {operands.split(", ")[2] for operands in copies} == set(
        re.findall(r"(%\w+) = arith.constant 16 : i32", text)
    )
    assert "rocdl.raw.ptr.buffer.load %" not in text
    assert text.count("rocdl.readfirstlane") == 1, "places in shared memory are the wave's"


def test_waits_count_groups() -> None:
    for stages in (2, 3):
        body = loop(copying(replace(COPIED, stages=stages)))
        assert set(re.findall(r"rocdl.wait.asyncmark (\d)", body)) == {str(stages - 2)}
        assert body.count("rocdl.asyncmark") == body.count("gpu.barrier") == (2 if stages == 2 else 1)


def test_copies_that_are_masked_off_read_out_of_range() -> None:
    beyond = "0x7FFFFFF0" if "0x7FFFFFF0" in copying(COPIED) else "2147483632"
    assert re.search(rf"arith.constant {beyond} : i32", copying(COPIED))
    assert loop(copying(COPIED)).count("arith.select") == 2 * 4
    assert "arith.select" not in loop(copying(replace(COPIED, dims=("", "", "multiple_of: 64"))))


def test_groups_name_kinds_of_instructions() -> None:
    found = re.findall(r"rocdl.sched.group.barrier (\w+), (\d+), 0", loop(copying(COPIED)))
    assert set(found) == {("mfma_wmma", "1"), ("ldsdma", "1"), ("mfma_wmma", "12")}


def test_nothing_changes_without_copies() -> None:
    assert not re.search("asyncmark|readfirstlane|ldsdma", mlir(replace(DEFAULT, stages=2)))


def test_memories_of_odd_sizes_are_counted_with_what_is_left_free_between_them() -> None:
    """Whether a workgroup fits is asked of this number."""
    kernel = parse_kernel("""
thread kernel @odd target gfx942 lanes 64
plan "auto" stages 1 group 1
grid [1]
memory @one : f32 (d: [6]) shared [d/1: 6 by 1]
memory @other : i8 (d: [1]) shared [d/1: 1 by 1]
{
}
""")
    assert unwritten(kernel, AMD, "#layout").shared_bytes == 32 + 16


def test_parts_of_one_vector_are_read_apart_from_those_of_another() -> None:
    """What LLVM reads at once lies side by side, and would be moved to where the other parts are."""
    kernel = parse_kernel("""
thread kernel @parts target gfx942 lanes 64
symbol lane in 0..63 by 1
plan "auto" stages 1 group 1
grid [1]
memory @s : f32 (d: [256]) shared [d/1: 256 by 1]
memory @y : f32 (d: [256]) global output
{
  %a = load {memory = "s", offset = [lane]} : f32x1
  %b = load {memory = "s", offset = [lane + 64]} : f32x1
  %c = load {memory = "s", offset = [lane + 128]} : f32x1
  %d = load {memory = "s", offset = [lane + 192]} : f32x1
  %ab = pack %a, %b : f32x2
  %cd = pack %c, %d : f32x2
  store %ab {memory = "y", offset = [lane*4]}
  store %cd {memory = "y", offset = [lane*4 + 2]}
}
""")
    written = re.findall("sched_barrier|memref.load", thread_to_mlir(kernel, AMD, "#layout").text)
    assert written == ["sched_barrier", "memref.load", "memref.load"] * 2
