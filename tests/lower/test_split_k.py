"""Split-K: workgroups of a cluster share out the steps of a loop, and add up their sums in each other's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, lines, operands, run
from tests.lower.hopper_gemms import hopper_gemm
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Op, rewrite
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate


def split_gemm(workgroups: int = 2, **others: Any) -> Gemm:
    return hopper_gemm(schedule=f"waves: {{producers: 1}}, workgroups: {{split: {workgroups}}}", **others)


def test_workgroups_of_a_tile_are_neighbours_on_an_axis_of_their_own() -> None:
    kernel = split_gemm(4).lowered(NVIDIA, "split-k")
    assert (kernel.cluster, [str(extent) for extent in kernel.grid]) == (4, ["4", "(M + 127)//128", "(N + 63)//64"])
    (loop,) = lines(kernel, "iterate")
    share = "(((K + 63)//64 + 3)//4)*64"
    assert f"lower = [min(K, wg0*{share})]" in loop.replace("(wg0*(((K + 63)//64 + 3)//4))*64", f"wg0*{share}")


def test_each_workgroup_goes_on_with_its_own_rows() -> None:
    kernel = split_gemm(4).lowered(NVIDIA, "split-k")
    (sums,) = lines(kernel, "cluster_sum")
    assert "tile<M: 32, N: 64, f32>" in sums and 'memory = "k_loop_acc.parts"' in sums
    (write,) = lines(kernel, "write")
    assert '("M", [wg0*32 + wg1*128],)' in write and '("N", [wg2*64],)' in write


def test_what_is_copied_is_not_shared_by_the_cluster() -> None:
    """Its workgroups are at different steps."""
    assert not [op for op in split_gemm().lowered(NVIDIA).walk() if op.name == "bulk_copy" and op.get("everywhere")]


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize(
    ("gemm", "size"),
    [
        (split_gemm(2), (200, 72, 328)),
        (split_gemm(4), (130, 64, 128)),  # two workgroups have no steps
        (split_gemm(4, tile=(64, 8, 128), wave=(64, 8), spaces=("global", "shared")), (16, 8, 152)),  # nor steps ahead
        (split_gemm(8), (128, 64, 0)),
        (replace(split_gemm(2), value=3), (70, 8, 200)),  # what the sums start from counts once
        (split_gemm(4, tile=(16, 64, 64), wave=(16, 64)), (5, 136, 1000)),
        (split_gemm(2, orders=("M, K", "N, K", "N, M"), dims=("multiple_of: 8", "", "multiple_of: 8")), (72, 200, 328)),
        (split_gemm(2, dims=("", "", "multiple_of: 2")), (130, 67, 202)),
        (split_gemm(4, tile=(128, 80, 64), wave=(64, 80)), (130, 168, 328)),  # twenty accesses a row
        (split_gemm(8, tile=(128, 96, 64), wave=(64, 96)), (70, 96, 1024)),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_sums_are_exact_in_any_order_of_waves(gemm: Gemm, size: tuple[int, int, int], order: Order) -> None:
    report, expected = run(gemm.spec, NVIDIA, dict(zip("MNK", size, strict=True)), order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


EPILOGUE = split_gemm(2).text.replace(
    "  - {write: k_loop.acc, to: c}\n",
    "  - scaled: {mul: [k_loop.acc, 2]}\n  - shifted: {add: [scaled, row]}\n  - y: {add: [shifted, start]}\n"
    "  - {write: y, to: c}\n",
)
EPILOGUE = EPILOGUE.replace("  - zero:", "  - row: {read: bias}\n  - start: {read: more}\n  - zero:").replace(
    "  c: {", "  bias: {shape: [M], dtype: f32}\n  more: {shape: [M, N], dtype: f32}\n  c: {"
)


def test_epilogue_and_what_it_reads_before_the_loop_are_for_the_same_rows() -> None:
    spec = loads(EPILOGUE, "gemm.wave.yaml")
    kernel = lower(spec, NVIDIA)
    m, n, k = 130, 72, 200
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    bias, more = random.integers(-9, 9, m).astype(np.float32), random.integers(-9, 9, (m, n)).astype(np.float32)
    tensors = {"a": a, "b": b, "bias": bias, "more": more}
    report = simulate(kernel, NVIDIA, tensors, {"M": m, "N": n, "K": k})
    assert report.ok, report.render()
    expected = 2 * (a.astype(np.float32) @ b.astype(np.float32).T) + bias[:, None] + more
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_places_behind_the_loop_are_those_of_the_rows() -> None:
    lower_half = "  - half: where(index(M) >= index(N), k_loop.acc, 0)\n  - turned: {take: half, dims: [M, N]}\n"
    text = split_gemm(2).text.replace("  - {write: k_loop.acc, to: c}\n", f"{lower_half}  - {{write: turned, to: c}}\n")
    report, expected = run(loads(text, "gemm.wave.yaml"), NVIDIA, {"M": 130, "N": 72, "K": 200})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), np.tril(expected.astype(np.float64)))


def test_what_a_step_combines_is_combined_by_the_workgroup_that_takes_the_step() -> None:
    text = split_gemm().text.replace("constraints:", "  d: {shape: [K], dtype: f32, role: inout}\nconstraints:")
    text = text.replace("  c: {", "  w: {shape: [N, K], dtype: f32}\n  c: {")
    step = "- {write: w_tile, to: d, at: {K: K}, combine: add}"
    text = text.replace("  - {write: k_loop", f"        - w_tile: {{read: w}}\n        {step}\n  - {{write: k_loop")
    spec, sizes = loads(text), {"M": 8, "N": 8, "K": 192}
    inputs = operands(spec, sizes) | {"d": np.zeros(192, np.float32)}
    report = simulate(lower(spec, NVIDIA), NVIDIA, inputs, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["d"], inputs["w"].sum(0))


@pytest.mark.parametrize("word", ["sum", "cumsum", "take"])
def test_what_needs_all_rows_is_refused(word: str) -> None:
    along = {"take": "{take: k_loop.acc, at: {M: M + 1}}"}.get(word, f"{{{word}: k_loop.acc, dim: M}}")
    text = split_gemm(2).text.replace("M: {}", "M: {value: 128}").replace("{workgroup: M", "{tiling: M")
    text = text.replace("tile: BM, axis: 0}", "tile: BM}").replace("axis: 1", "axis: 0")
    text = text.replace("  - {wave: M, tile: 64}\n", "")
    behind = f"  - whole: {along}\n  - joined: k_loop.acc + whole\n"
    text = text.replace("  - {write: k_loop.acc, to: c}\n", f"{behind}  - {{write: joined, to: c}}\n")
    with pytest.raises(WavespecError, match="along 'M' needs all of its rows"):
        lower(loads(text, "gemm.wave.yaml"), NVIDIA)


def test_sums_may_start_from_a_tensor() -> None:
    text = split_gemm(2).text.replace("  - zero: {register: [M, N], dtype: f32, value: 0}\n", "  - start: {read: c0}\n")
    text = text.replace("acc: zero", "acc: start").replace("  c: {", "  c0: {shape: [M, N], dtype: f32}\n  c: {")
    spec = loads(text, "gemm.wave.yaml")
    report, expected = run(spec, NVIDIA, {"M": 130, "N": 72, "K": 200})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(
    ("gemm", "message", "hint"),
    [
        (split_gemm(3), "no clusters of that size", "Use 2 or 4 or 8"),
        (
            hopper_gemm(schedule="waves: {producers: 1}, workgroups: {split: 2, persistent: true}"),
            "a workgroup for each tile",
            "Leave out 'persistent'",
        ),
        (split_gemm(8, tile=(64, 8, 64), wave=(64, 8)), "shared out evenly", "fewer workgroups"),
    ],
)
def test_what_cannot_be_split_is_refused_with_a_way_out(gemm: Gemm, message: str, hint: str) -> None:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(NVIDIA)
    (found,) = caught.value.diagnostics
    assert (found.code, message in found.message, any(hint in text for text in found.hints)) == (
        "split-not-possible",
        True,
        True,
    )


def test_machines_without_clusters_say_so() -> None:
    with pytest.raises(WavespecError, match="gfx942 has no clusters of that size"):
        Gemm(schedule="workgroups: {split: 2}").lowered(AMD)


def test_one_workgroup_is_no_split() -> None:
    gemm = split_gemm(1)
    assert gemm.lowered(NVIDIA, "split-k") == gemm.lowered(NVIDIA, "assign-tiles")


def _crowded() -> Gemm:
    """Eight stages of 24 KB leave no room for sums of 36 KB beside them."""
    return split_gemm(2, stages=8)


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_sums_lie_over_the_tiles_where_there_is_no_room_beside_them(order: Order) -> None:
    gemm = _crowded()
    (sums,) = [memory for memory in gemm.lowered(NVIDIA).memories if memory.over]
    assert (sums.name, sums.over) == ("k_loop_acc.parts", ("a.shared", "b.shared"))
    tiles, signals = 8 * 24576, 2 * 8 * 8 + 8
    assert emit(gemm.spec, NVIDIA).interface.shared_memory_bytes == tiles + signals
    kernel = gemm.lowered(NVIDIA)
    assert parse_kernel(print_kernel(kernel)) == kernel
    report, expected = run(gemm.spec, NVIDIA, {"M": 130, "N": 72, "K": 1000}, order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_sums_have_their_own_bytes_where_there_is_room() -> None:
    assert not [memory for memory in split_gemm(2, stages=3).lowered(NVIDIA).memories if memory.over]


def test_sums_laid_down_while_another_wave_multiplies_are_found() -> None:
    gemm, sizes = _crowded(), {"M": 130, "N": 72, "K": 1000}
    kernel = gemm.lowered(NVIDIA)

    def without(op: Op) -> tuple[Op, ...]:
        return () if op.name == "barrier" and op.get("waves") == kernel.wave_count else (op,)

    kernel = replace(kernel, body=rewrite(kernel.body, without))
    report = simulate(kernel, NVIDIA, operands(gemm.spec, sizes), sizes)
    assert "takes the bytes of what another thread reads" in report.render()
