"""`spec -> YAML -> spec` loses nothing; a spec written in Python equals the one of the same YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs import KERNELS
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, check_spec, load, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.symbols import ceildiv, maximum, minimum

SPECS = Path(__file__).parents[2] / "specs"

GEMM = """\
apiVersion: wavespec/v1
kind: Kernel
name: gemm
doc: C = A · Bᵀ

dims:
  M: {}
  N: {min: 1}
  K: {multiple_of: 8}
params:
  BLOCK_M: 128
  BLOCK_K: max(BLOCK_M // 4, 16)

tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}

constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: BLOCK_K}
  - {wave: M, tile: BLOCK_M / 2}
  - {hardware: {mma: auto}}
  - {assume: K > 4 * BLOCK_K}

graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}

schedule: {stages: 2}

targets:
  cpu: {params: {BLOCK_M: 192}, hardware: {mma: auto}, tensors: {a: {space: global}}}

workloads:
  - {M: 1024, N: 1024, K: 1024}
"""


def gemm_in_python() -> KernelBuilder:
    kernel = KernelBuilder("gemm", doc="C = A · Bᵀ")
    m, n, k = kernel.dim("M"), kernel.dim("N", min=1), kernel.dim("K", multiple_of=8)
    block_m = kernel.param("BLOCK_M", 128)
    block_k = kernel.param("BLOCK_K", maximum(block_m // 4, 16))
    a = kernel.input("a", [m, k], "f16", space="shared")
    b = kernel.input("b", [n, k], "f16", space="shared")
    c = kernel.output("c", [m, n], "f32")
    kernel.workgroup(m, block_m, axis=0)
    kernel.workgroup(n, 64, axis=1)
    kernel.tiling(k, block_k)
    kernel.wave(m, block_m / 2)
    kernel.hardware(mma="auto")
    kernel.assume(k > 4 * block_k)
    zero = kernel.register("zero", [m, n], "f32", 0)
    with kernel.iterate("k_loop", k, acc=zero) as loop:
        kernel.mma("acc", kernel.read("a_tile", a), kernel.read("b_tile", b), loop["acc"])
    kernel.write(loop["acc"], c)
    kernel.schedule(stages=2)
    kernel.target("cpu", params={"BLOCK_M": 192}, mma="auto", spaces={"a": "global"})
    kernel.workload(M=1024, N=1024, K=1024)
    return kernel


def test_python_equals_yaml() -> None:
    assert gemm_in_python().build() == loads(GEMM)


def test_dumped_yaml_is_the_hand_written_one() -> None:
    assert dump_yaml(loads(GEMM)) == GEMM


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_specs_of_the_project_survive_yaml_and_json(path: Path) -> None:
    spec = load(path)
    assert loads(dump_yaml(spec)) == spec
    assert KernelSpec.model_validate_json(spec.model_dump_json()) == spec


def test_positions_do_not_count_in_equality() -> None:
    assert loads(GEMM, "x") == loads("# moved\n" + GEMM, "y")


def test_order_of_tensors_counts_and_that_of_dims_does_not() -> None:
    spec = loads(GEMM)
    swapped = spec.model_copy(update={"tensors": dict(reversed(spec.tensors.items()))})
    assert swapped != spec
    assert spec.model_copy(update={"dims": dict(reversed(spec.dims.items()))}) == spec


def test_mistakes_in_python_are_told_in_words() -> None:
    kernel = KernelBuilder("move")
    m = kernel.dim("M")
    a, b = kernel.input("a", [m, "P"], "f32"), kernel.output("b", [m], "f16")
    kernel.write(kernel.read("x", a), b)
    with pytest.raises(WavespecError) as raised:
        kernel.build()
    assert str(raised.value) == (
        "move.tensors.a.shape.1: error[undefined-name]: 'P' is not a dim.\n   = hint: Known here are 'M'."
    )


def test_wrong_types_in_python_are_told_in_words() -> None:
    kernel = KernelBuilder("move")
    kernel.input("a", [kernel.dim("M", multiple_of=0)], "f99")
    with pytest.raises(WavespecError) as raised:
        kernel.build()
    text = str(raised.value)
    assert "move.dims.M.multiple_of: error[out-of-range]: 'multiple_of' is at least 1, not 0." in text
    assert "move.tensors.a.dtype: error[unknown-value]" in text


def test_condition_in_python_prints_as_yaml() -> None:
    kernel = KernelBuilder("x")
    m, n = kernel.dim("M"), kernel.dim("N")
    assert str(minimum(m, 2) <= ceildiv(n + 1, 2) - 3 % m) == "min(M, 2) <= ceildiv(N + 1, 2) - 3 % M"
    assert str((-(m * 2)).equals(1 - n)) == "-(M * 2) == 1 - N"


NAME = st.from_regex(r"[a-z][a-z0-9_]{0,5}x", fullmatch=True)
EXPRESSION = st.sampled_from([16, 64, "P / 2", "max(P, 16)", "P - -4", "(P + 4) * 2", "ceildiv(P, 3)"])
# The numbers that each type of an accumulator holds and that are no integers.
FLOATS = {
    "f32": st.floats(allow_nan=False, width=32),
    "f64": st.floats(allow_nan=False),
    "i32": st.nothing(),
}
DOC = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" \n"), max_size=60)


@st.composite
def kernels(draw: st.DrawFn) -> KernelSpec:
    kernel = KernelBuilder(draw(NAME), doc=draw(DOC))
    sizes = st.fixed_dictionaries(
        {},
        optional={"multiple_of": st.integers(1, 4), "min": st.integers(0, 9), "max": st.integers(20, 2**31 - 2**16)},
    )
    m, n, k = (kernel.dim(name, **draw(sizes)) for name in "MNK")
    kernel.param("P", 64)
    for name in draw(st.lists(NAME.map(str.upper), unique=True, max_size=3)):
        kernel.param(name, draw(st.integers(-(2**62), 2**62)))
    dtype, total = draw(st.sampled_from([("f32", "f32"), ("bf16", "f32"), ("i8", "i32"), ("f64", "f64")]))
    a = kernel.input("a", draw(st.permutations([m, k])), dtype, draw(st.sampled_from(["shared", "global"])))
    b = kernel.input("b", draw(st.permutations([n, k])), dtype)
    c = kernel.output("c", draw(st.permutations([m, n])), total)
    order = draw(st.sampled_from([None, "count - 1 - index"]))
    kernel.workgroup(m, 64, axis=draw(st.integers(0, 2)), order=order)
    kernel.tiling(k, 32)
    kernel.hardware(draw(st.from_regex(r"[a-z0-9_]{1,9}", fullmatch=True)))
    shape = kernel._sections["tensors"]["c"]["shape"]
    start = kernel.register("start", shape, total, draw(st.integers(-9, 9) | FLOATS[total]))
    with kernel.iterate("loop", k, acc=start) as loop:
        kernel.mma("acc", kernel.read("left", a), kernel.read("right", b), loop["acc"])
    formulas = ["loop.acc + 1", "where(loop.acc > 0, loop.acc, P)", "-loop.acc * (2 + loop.acc)", "loop.acc % 3"]
    formulas += ["loop.acc * size(N)", f"loop.acc + {total}(index(N))"]
    formulas += ["loop.acc / sqrt(M)", "loop.acc * pi"] if total != "i32" else []
    value = loop["acc"]
    for number, text in enumerate(draw(st.lists(st.sampled_from(formulas), max_size=2))):
        value = kernel.formula(f"step{number}", text)
    kernel.write(value, c)
    for target in draw(st.lists(st.sampled_from(["cpu", "sm_90", "gfx950"]), unique=True)):
        kernel.target(target, {"P": draw(st.integers(1, 99))}, mma=draw(st.none() | st.just("auto")))
    return kernel.build()


@given(kernels())
def test_any_kernel_survives_yaml(spec: KernelSpec) -> None:
    text = dump_yaml(spec)
    again = loads(text)
    assert again == spec
    assert dump_yaml(again) == text
    assert not [diagnostic for diagnostic in check_spec(again) if diagnostic.is_error]


@given(DOC)
def test_any_doc_survives_yaml(doc: str) -> None:
    spec = loads(GEMM).model_copy(update={"doc": doc})
    assert loads(dump_yaml(spec)).doc == doc


@pytest.mark.parametrize(
    "doc",
    [
        "",
        " ",
        "no",
        "1",
        "null",
        "a: b",
        "a #b",
        "- a",
        "#",
        "'",
        '"',
        "a\nb",
        "a\n\nb\n",
        "a\n",
        "\n",
        " a\nb",
        "a\tb",
        "{{ x }}",
        "%s",
        '"""',
        "\\",
        "'''\n import os",
        "a\n b",
        "|",
        ">",
        "@x",
        "`x`",
        "a:",
        "---",
        "...",
        "é ᵀ 日本",
    ],
)
def test_awkward_doc_survives_yaml(doc: str) -> None:
    spec = loads(GEMM).model_copy(update={"doc": doc})
    assert loads(dump_yaml(spec)).doc == doc
