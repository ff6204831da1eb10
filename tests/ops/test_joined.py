"""`scan` and `reduce` with statements of their own: exact on whole numbers, however the elements are spread."""

from __future__ import annotations

import jsonschema
import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA
from tests.ops.joinings import HEADER, Recurrence, tensors
from wavespec.ops.joining import Joining, Step
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.json_schema import json_schema
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

EACH = [NVIDIA, AMD, CPU]


def names(machine: Machine) -> str:
    return machine.variant


def check(given: Recurrence, machine: Machine, sizes: tuple[int, int], *, whole: bool = False) -> None:
    report = given.run(machine, sizes, whole=whole)
    assert report.ok, report.render()
    for name, right in zip(("y", "end"), given.expected(given.inputs(sizes)), strict=True):
        np.testing.assert_array_equal(report.tensors[name], right, err_msg=name)


@pytest.mark.parametrize("machine", MACHINES, ids=names)
@pytest.mark.parametrize("sizes", [(8, 128), (7, 70), (1, 1), (5, 0), (9, 191)], ids=str)
def test_recurrences_of_any_length(machine: Machine, sizes: tuple[int, int]) -> None:
    check(Recurrence(), machine, sizes)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i16", "i8"])
def test_every_type_that_is_computed_with(machine: Machine, dtype: str) -> None:
    check(Recurrence(dtype=dtype), machine, (3, 7))


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_columns(machine: Machine) -> None:
    check(Recurrence(dim="M", tile=(8, 256), wave=(8, 256)), machine, (21, 300))


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=names)
def test_waves_along_the_dim_are_joined_in_their_order(machine: Machine) -> None:
    check(Recurrence(tile=(2, 512), wave=(1, 128)), machine, (3, 700))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", ["M", "N"])
def test_whole_dims_forwards_and_backwards_and_their_ends(machine: Machine, dim: str, *, reverse: bool) -> None:
    check(Recurrence(dim=dim, reverse=reverse), machine, (5, 64) if dim == "N" else (64, 6), whole=True)


@pytest.mark.parametrize("dim", ["M", "N"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_reference_is_what_a_loop_computes(dim: str, *, reverse: bool) -> None:
    for whole, sizes in ((False, (9, 37)), (False, (3, 0)), (True, (5, 64) if dim == "N" else (64, 5))):
        given = Recurrence(dim=dim, dtype="i64", reverse=reverse and whole)
        inputs = given.inputs(sizes)
        found = reference(given.whole if whole else given.spec, *tensors(inputs))
        for actual, right in zip(found, given.expected(inputs), strict=True):
            np.testing.assert_array_equal(actual.numpy(), right)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), machine=st.sampled_from(EACH), dim=st.sampled_from(["M", "N"]))
def test_no_way_to_spread_the_elements_changes_the_result(data: st.DataObject, machine: Machine, dim: str) -> None:
    tile = [data.draw(st.sampled_from(sizes)) for sizes in ((1, 2, 8), (32, 64, 256))]
    wave = [max(1, extent // data.draw(st.sampled_from((1, 2, 4)))) for extent in tile]
    sizes = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 300))
    check(Recurrence(dim=dim, tile=(tile[0], tile[1]), wave=(wave[0], wave[1])), machine, sizes)


SEGMENTS = f"""{HEADER}dims: {{M: {{}}, N: {{value: 96}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  starts: {{shape: [M, N], dtype: i32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
  most: {{shape: [M], dtype: f32, role: output}}
  place: {{shape: [M], dtype: i32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
graph:
  - part: {{read: x}}
  - start: {{read: starts}}
  - run:
      scan: N
      carry: {{is_new: start, sum_so_far: part}}
      identity: {{is_new: 0, sum_so_far: 0}}
      combine:
        - sum_so_far: "where(start != 0, part, sum_so_far + part)"
        - is_new: maximum(is_new, start)
  - {{write: run.sum_so_far, to: y}}
  - columns: {{index: N}}
  - at: {{take: columns, dims: [M, N]}}
  - largest:
      reduce: N
      carry: {{top: part, where_top: at}}
      identity: {{top: -.inf, where_top: 2147483647}}
      combine:
        - is_larger: part > top
        - where_top: {{where: [is_larger, at, where_top]}}
        - top: {{where: [is_larger, part, top]}}
  - {{write: largest.top, to: most}}
  - {{write: largest.where_top, to: place}}
"""


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_sums_of_segments_and_pairs_of_types(machine: Machine) -> None:
    """Elements of two types are joined together, and an order of which the first counts."""
    spec, random = loads(SEGMENTS), np.random.default_rng(0)
    x = random.integers(-3, 4, (5, 96)).astype(np.float32)
    starts = (random.random((5, 96)) < 0.1).astype(np.int32)
    right, total = np.zeros_like(x), np.zeros(5, np.float32)
    for at in range(96):
        total = np.where(starts[:, at] != 0, x[:, at], total + x[:, at])
        right[:, at] = total
    report = simulate(lower(spec, machine), machine, {"x": x, "starts": starts}, {"M": 5, "N": 96})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], right)
    np.testing.assert_array_equal(report.tensors["most"], x.max(1))
    np.testing.assert_array_equal(report.tensors["place"], x.argmax(1))
    for actual, expected in zip(
        reference(spec, torch.tensor(x), torch.tensor(starts)), (right, x.max(1), x.argmax(1)), strict=True
    ):
        np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize(("word", "torchs"), [("cumsum", "cumsum"), ("cummax", "cummax"), ("cumprod", "cumprod")])
def test_scans_of_the_language_go_backwards(machine: Machine, word: str, torchs: str) -> None:
    spec = loads(
        f"""{HEADER}dims: {{M: {{}}, N: {{value: 64}}}}
tensors:
  x: {{shape: [M, N], dtype: f16}}
  y: {{shape: [M, N], dtype: f16, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}]
graph:
  - whole: {{read: x}}
  - running: {{{word}: whole, dim: N, reverse: true}}
  - {{write: running, to: y}}
"""
    )
    low, high = (-1, 2) if word == "cumprod" else (-9, 10)
    x = np.random.default_rng(0).integers(low, high, (6, 64)).astype(np.float16)
    report = simulate(lower(spec, machine), machine, {"x": x}, {"M": 6, "N": 64})
    assert report.ok, report.render()
    right = getattr(torch, torchs)(torch.tensor(x).double().flip(1), 1)
    right = (right if isinstance(right, torch.Tensor) else right.values).flip(1)
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), right.numpy())
    assert torch.equal(reference(spec, torch.tensor(x)).double(), right)


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("joinings")
    m, n = k.dim("M"), k.dim("N", value=64)
    x = k.input("x", [m, n], "f32")
    y, most = k.output("y", [m, n], "f32"), k.output("most", [m], "f32")
    k.workgroup(m, 4, axis=0)
    part = k.read("part", x)
    with k.joined("scan", "run", n, {"total": 0}, reverse=True, total=part) as run:
        k.elementwise("add", "total", run["total"], part)
    with k.joined("reduce", "all_of_it", n, {"top": -1}, top=part) as whole:
        k.elementwise("maximum", "top", whole["top"], part)
    k.write(run["total"], y)
    k.write(whole["top"], most)
    spec = loads(
        f"""{HEADER}dims: {{M: {{}}, N: {{value: 64}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
  most: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}]
graph:
  - part: {{read: x}}
  - run:
      scan: N
      carry: {{total: part}}
      identity: {{total: 0}}
      reverse: true
      combine: [total: {{add: [total, part]}}]
  - all_of_it:
      reduce: N
      carry: {{top: part}}
      identity: {{top: -1}}
      combine: [top: {{maximum: [top, part]}}]
  - {{write: run.total, to: y}}
  - {{write: all_of_it.top, to: most}}
"""
    )
    assert k.build() == spec
    assert loads(dump_yaml(spec)) == spec
    jsonschema.Draft202012Validator(json_schema()).validate(yaml.safe_load(dump_yaml(spec)))


def test_how_elements_are_joined_survives_as_text() -> None:
    steps = (Step("number", "f32", (), -float("inf")), Step("mul", "f32", (0, 3)), Step("cast", "i32", (5,)))
    joining = Joining(("f32", "i32"), (float("-inf"), -7), steps, (5, 6))
    assert Joining.parse(str(joining)) == joining
    alone = Joining(("f32",), (0.5,), (), (1,))
    assert Joining.parse(str(alone)) == alone
