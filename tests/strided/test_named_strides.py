"""Strides that a spec writes down, `strides: [LD, 1]`: what they mean as YAML and Python, in kernels, and in calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.runtime.generated import import_wrapper
from wavespec.cli.measure import as_views, random_inputs
from wavespec.generate import kernel_files, write_files
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import best_variant, build, compile, lower
from wavespec.runtime import ArgumentError, Kernel
from wavespec.runtime.manifest import artifact_to_manifest, pack_artifact, unpack_artifact
from wavespec.runtime.tensor_strides import copied
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import numbers_of_contiguous
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: added
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32, strides: [LD, 1]}
  y: {shape: [M, N], dtype: f32, strides: [N + PAD, 1]}
  z: {shape: [M, N], dtype: f32, role: output, strides: [OUT, 1]}
params: {PAD: 8}
constraints: [{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 64, axis: 1}]
graph:
  - left: {read: x}
  - right: {read: y}
  - both: left + 2 * right
  - {write: both, to: z}
"""


@cache
def added(**strides: str) -> Kernel:
    return compile(spec(**strides), "cpu")


def spec(**strides: str) -> KernelSpec:
    """The spec with other strides of the tensors."""
    text = TEXT
    for name, entries in strides.items():
        line = next(line for line in text.splitlines() if line.startswith(f"  {name}: "))
        text = text.replace(line, f"{line[: line.index('strides:')]}strides: {entries}}}")
    return loads(text)


def rows(m: int, n: int, stride: int, start: int = 0) -> Tensor:
    """Whole numbers whose rows are so far apart."""
    whole = torch.randint(-9, 10, (start + m * max(stride, n) + n,)).float()
    return whole.as_strided((m, n), (stride, 1), start)


def test_yaml_and_python_say_the_same() -> None:
    k = KernelBuilder("added")
    m, n = k.dim("M"), k.dim("N")
    pad = k.param("PAD", 8)
    x = k.input("x", [m, n], "f32", strides=["LD", 1])
    y = k.input("y", [m, n], "f32", strides=[n + pad, 1])
    z = k.output("z", [m, n], "f32", strides=["OUT", 1])
    k.workgroup(m, 4, axis=0)
    k.workgroup(n, 64, axis=1)
    k.write(k.formula("both", f"{k.read('left', x)} + 2 * {k.read('right', y)}"), z)
    assert k.build() == spec() == loads(dump_yaml(spec()))


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942"])
def test_the_kernel_has_the_name_once_and_computes_the_others(target: str) -> None:
    kernel = lower(spec(y="[4096, 1]", z="[LD, 1]"), machines(target)[0])
    text = print_kernel(kernel)
    places = {memory.name: [str(one) for one in memory.strides] for memory in kernel.memories if memory.is_strided}
    assert places == {"x": ["x.stride.M", "1"], "y": ["4096", "1"], "z": ["x.stride.M", "1"]}
    assert print_kernel(parse_kernel(text)) == text


def test_what_conditions_promise_of_a_name_holds_wherever_it_stands() -> None:
    text = TEXT.replace("[OUT, 1]", "[LD, 1]") + "targets: {sm_90: {cases: [{when: [LD % 6 == 0, LD <= 600]}]}}\n"
    text = text.replace("graph:", "  - {assume: alignment(z) % 4 == 0}\ngraph:").replace(
        "constraints: [{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 64, axis: 1}]",
        "constraints:\n  - {workgroup: M, tile: 4, axis: 0}\n  - {workgroup: N, tile: 64, axis: 1}",
    )
    kernel = lower(cases_for_target(loads(text), "sm_90")[0].spec, machines("sm_90")[0])
    (found,) = {one for memory in kernel.memories for one in memory.strides if one.symbols >= {"x.stride.M"}}
    assert (found.low, found.high, found.divisor) == (0, 600, 12)


@pytest.mark.compiles
def test_manifests_keep_what_is_promised() -> None:
    artifact = build(spec(), "cpu", only=best_variant("cpu"))
    assert artifact.stride_names == ("LD", "OUT")
    assert [one["promised"] for one in artifact_to_manifest(artifact)["tensors"]] == [
        ["LD", 1],
        [("add", "N", 8), 1],
        ["OUT", 1],
    ]
    assert unpack_artifact(pack_artifact(artifact)).tensors == artifact.tensors


@pytest.mark.compiles
@given(
    st.integers(1, 9),
    st.integers(1, 70),
    st.integers(0, 90),
    st.integers(0, 40),
    st.integers(0, 20),
)
def test_rows_are_as_far_apart_as_a_call_says(m: int, n: int, stride: int, more: int, start: int) -> None:
    x, y = rows(m, n, stride, start), rows(m, n, n + 8, start)
    out = rows(m, n, n + more)
    before, expected = out.as_strided((m, n + more), (n + more, 1)).clone(), x + 2 * y
    for _ in range(3):  # the full way, a known call, and a direct one
        made = added()(x, y)
        assert torch.equal(made, expected) and made.is_contiguous()
        added()(x, y, out=out)
        assert torch.equal(out, expected)
    assert torch.equal(out.as_strided((m, n + more), (n + more, 1))[:, n:], before[:, n:])


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
@given(st.integers(1, 9), st.integers(1, 70), st.integers(0, 90), st.integers(0, 40))
def test_lanes_find_rows_where_they_are(target: str, m: int, n: int, stride: int, more: int) -> None:
    x, y, z = rows(m, n, stride, 3), rows(m, n, n + 8), torch.zeros(m, n + more)[:, :n]
    sizes, (machine,) = {"M": m, "N": n}, machines(target)
    report = simulate(_lowered(target), machine, {"x": x.numpy(), "y": y.numpy(), "z": z.numpy()}, sizes)
    assert report.findings == ()
    assert np.array_equal(report.tensors["z"], reference(spec(), x, y).numpy())


@cache
def _lowered(target: str) -> Any:
    return lower(spec(), machines(target)[0])


@pytest.mark.compiles
def test_results_of_a_call_have_the_strides_that_are_written() -> None:
    x, y = rows(5, 6, 11), rows(5, 6, 14)
    for strides, expected in {
        "[OUT, 1]": 6,
        "[LD, 1]": 11,
        "[N + PAD, 1]": 14,
        "[2 * LD, 1]": 22,
        "[64, 1]": 64,
    }.items():
        for _ in range(3):
            made = added(z=strides)(x, y)
            assert made.stride() == (expected, 1) and torch.equal(made, x + 2 * y)


@pytest.mark.compiles
def test_a_name_that_nothing_binds_has_rows_behind_each_other() -> None:
    """One row has no stride, whatever torch says of it, and so has what is empty."""
    kernel = added(z="[LD, 1]")
    one = rows(1, 6, 3)
    assert kernel(one, rows(1, 6, 14)).stride() == (6, 1)
    assert kernel(torch.empty(4, 0), torch.empty(4, 0)).shape == (4, 0)


def _refused(kernel: Kernel, *tensors: Tensor, out: Tensor | None = None) -> str:
    with pytest.raises(ArgumentError) as error:
        kernel(*tensors, out=out)
    return str(error.value)


@pytest.mark.compiles
def test_other_strides_are_refused_by_name() -> None:
    x, y = rows(5, 6, 11), rows(5, 6, 14)
    same, number = added(y="[LD, 1]", z="[LD, 1]"), added(y="[64, 1]")
    assert _refused(added(), x, x) == "added: argument 'y' has stride 11 along 'M', expected N + 8 = 14."
    assert _refused(number, x, y) == "added: argument 'y' has stride 14 along 'M', expected 64."
    assert (
        _refused(same, x, y) == "added: argument 'y' has stride 14 along 'M', expected LD = 11, as 'x' has along 'M'."
    )
    text = _refused(same, x, x, out=torch.empty(5, 6))
    assert text == "added: argument 'out' has stride 6 along 'M', expected LD = 11, as 'x' has along 'M'."
    assert "expected 1 along 'N', its last dim." in _refused(added(), rows(6, 5, 11).T, y)
    one = rows(1, 6, 5)
    assert torch.equal(same(x[:1], one), x[:1] + 2 * one)  # one row has none


@pytest.mark.compiles
def test_results_that_would_meet_themselves_are_refused() -> None:
    row = torch.ones(6).expand(5, 6)
    text = _refused(added(y="[LD, 1]", z="[LD, 1]"), row, row)
    assert text == (
        "added: result 'z' of shape [5, 6] would have strides (0, 1) = (LD, 1), by which elements share memory; expected "
        "each at a place of its own."
    )
    assert "has a stride N - 8 = -2, expected at least 0" in _refused(
        added(z="[N - 8, 1]"), rows(5, 6, 11), rows(5, 6, 14)
    )
    assert torch.equal(added(y="[LD, 1]")(row, row), 3 * row)


IN_PLACE = """apiVersion: wavespec/v1
kind: Kernel
name: raised
dims: {B: {}, M: {}, N: {}}
tensors:
  x: {shape: [B, M, N], dtype: f32, strides: [BATCH, LD, 1]}
  y: {shape: [B, M, N], dtype: f32, role: inout, strides: [N, ROW, 1]}
constraints: [{workgroup: M, tile: 2, axis: 0}, {workgroup: N, tile: 64, axis: 1}, {workgroup: B, tile: 1, axis: 2}]
graph:
  - value: {read: x}
  - {write: value, to: y, combine: add}
"""


@pytest.mark.compiles
def test_what_is_changed_in_place_lies_as_the_spec_says() -> None:
    """Heads beside each other in rows, as `x.view(M, B, N).transpose(0, 1)` has them."""
    kernel = compile(loads(IN_PLACE), "cpu")
    x, whole = torch.randn(3, 5, 7)[:, :, 1:], torch.randn(5, 3 * 6)
    y, other = (one.view(5, 3, 6).transpose(0, 1) for one in (whole, whole.clone()))
    for _ in range(3):
        kernel(x, y)
        other += x
        assert torch.equal(y, other)
    text = _refused(kernel, x, torch.randn(3, 5, 6))
    assert text == "raised: argument 'y' has stride 30 along 'B', expected N = 6."


FOLDED = """apiVersion: wavespec/v1
kind: Kernel
name: doubled
dims: {M: {fold: leading}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32, strides: [LD, 1]}
  y: {shape: [M, N], dtype: f32, role: output, strides: [2 * LD, 1]}
constraints: [{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 64, axis: 1}]
graph:
  - value: {read: x}
  - twice: value * 2
  - {write: twice, to: y}
"""


def _compiled(text: str, folder: Any) -> Any:
    spec = loads(text)
    write_files(kernel_files(spec, ["cpu"], "specs/a.wave.yaml", command="wavespec build"), folder)
    return import_wrapper(folder / f"{spec.name}.py")


@pytest.mark.compiles
def test_graphs_of_torch_know_the_strides_of_results(tmp_path: Any) -> None:
    doubled = _compiled(FOLDED, tmp_path).doubled
    graph: Any = torch.compile(doubled, backend="aot_eager", fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    whole = torch.randn(3, 4, 9)
    for x in (whole[..., :6], whole[0, :, :6], whole[:, :1, :6], whole[0, 0, :6], whole[:1, :1, :6], whole[:0, :, :6]):
        expected, made = doubled(x), graph(x)
        assert made.stride() == expected.stride() and torch.equal(made, 2 * x) and torch.equal(expected, 2 * x)
    assert doubled(whole[..., :6]).stride() == (72, 18, 1)
    torch.library.opcheck(  # pyright: ignore[reportUnknownMemberType]
        doubled.__globals__["_doubled_op"], (whole[..., :6],)
    )


def test_docstrings_say_the_strides(tmp_path: Any) -> None:
    text = _compiled(TEXT, tmp_path).added.__doc__
    assert "x: float32 [M, N]; of strides (LD, 1)." in text and "of strides (N + 8, 1)" in text
    assert "LD is the stride that a call has, the same wherever it stands." in text


def test_dense_strides_are_those_that_rows_need() -> None:
    given = spec(y="[LD, 1]", z="[2 * LD, 1]")
    numbers = numbers_of_contiguous(given, {"M": 3, "N": 5})
    assert numbers["LD"] == 5 and numbers["stride(z, M)"] == 10
    assert numbers_of_contiguous(given, {"M": 3, "N": 5, "LD": 8})["stride(z, M)"] == 16


def test_a_case_is_picked_by_a_name() -> None:
    given = loads(TEXT + "targets: {cpu: {cases: [{when: [LD % 4 == 0]}]}}\n")
    cases = cases_for_target(given, "cpu")
    assert case_for_sizes(cases, {"M": 3, "N": 8}) is cases[0]
    assert case_for_sizes(cases, {"M": 3, "N": 8, "LD": 9}) is cases[1]


def test_commands_lay_inputs_out_as_the_spec_says() -> None:
    sizes = {"M": 3, "N": 5}
    x, y = random_inputs(spec(), sizes, 0, "cpu")
    assert (x.stride(), y.stride()) == ((5, 1), (13, 1))
    (wide, same), outputs = as_views(spec(), [x, y], sizes, 3)
    assert (wide.stride(), same.stride(), outputs["out"][0].stride()) == ((8, 1), (13, 1), (8, 1))
    assert torch.equal(wide, x) and torch.equal(same, y) and wide.storage_offset() == 3
    assert torch.equal(copied(y), y) and copied(y).stride() == (13, 1)
