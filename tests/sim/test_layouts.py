"""Products without tiles, of any type and layout of operands: they build for every machine, and are right on each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels import tensor_to_elements
from tests.layouts import LAYOUTS, gated, multiplied, product, weights, whole_numbers
from tests.rungs import often
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS

TYPES = ("bf16", "f16", "f32", "f64", "i8", "u8", "f8e4m3fn", "f8e5m2")
WITHOUT = {("u8", "gfx942"), ("u8", "gfx950")}
"""Machines that multiply no such numbers."""
NARROW = [{"N": 1}, {"N": 37}, {"M": 7}, {"K": 1}, {"K": 8}, {"K": 10}, {"M": 33, "N": 11, "K": 55}]
_NARROW_TYPES = ("bf16", "f32", "i8", "f8e5m2")


def check_build(spec: KernelSpec, targets: tuple[str, ...] = TARGETS) -> None:
    assert check_builds([spec], targets) == [()]


def check_result(spec: KernelSpec, target: str, sizes: dict[str, int]) -> None:
    """The kernels of a call, in the simulator."""
    check_case(spec, target, case_for_sizes(cases_for_target(spec, target), sizes), sizes)


def check_case(spec: KernelSpec, target: str, case: TargetCase, sizes: dict[str, int]) -> None:
    machine = machines(target)[0]
    inputs = whole_numbers(spec, sizes)
    arrays = {name: tensor_to_elements(one, spec.tensors[name].dtype) for name, one in inputs.items()}
    *before, last = (lower(one, machine) for one in case.kernels)
    known, reports = simulate_before(case, before, machine, arrays, sizes, {})
    read = {name: known[name] for name, tensor in case.spec.tensors.items() if tensor.role != "output"}
    reports.append(simulate(last, machine, read, sizes))
    for report in reports:
        assert report.ok, report.render()
    np.testing.assert_array_equal(reports[-1].tensors["c"].astype(np.float64), multiplied(spec, inputs).numpy())


def is_common(one: tuple[str, tuple[str, str]]) -> bool:
    return one[0] in ("i8", "f8e4m3fn", "f64") or one[1] == ("M, K", "K, N")


@pytest.mark.parametrize(("dtype", "layouts"), often([(dtype, one) for dtype in TYPES for one in LAYOUTS], is_common))
def test_all_types_and_layouts_build(dtype: str, layouts: tuple[str, str]) -> None:
    check_build(product(dtype, *layouts), tuple(target for target in TARGETS if (dtype, target) not in WITHOUT))


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("fixed", range(len(NARROW)), ids=[str(one) for one in NARROW])
@pytest.mark.parametrize("dtype", range(len(_NARROW_TYPES)), ids=_NARROW_TYPES)
def test_dims_of_few_elements_build_in_all_layouts(dtype: int, fixed: int) -> None:
    """Half of the layouts each, so that any two of a type, a dim and a layout meet."""
    layouts = [(*one, result) for one in LAYOUTS for result in ("M, N", "N, M")]
    for number, one in enumerate(layouts):
        if (number.bit_count() + dtype + fixed) % 2 == 0:
            check_build(product(_NARROW_TYPES[dtype], *one, fixed=NARROW[fixed]))


@pytest.mark.rare
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_products_beside_each_other_and_decoded_columns_build(layouts: tuple[str, str]) -> None:
    check_build(gated(*layouts))
    check_build(weights(*layouts))


@pytest.mark.parametrize(
    ("fixed", "layouts", "target"),
    [
        ({"N": 1}, ("M, K", "N, K"), "sm_90"),  # the matrix unit takes columns for its rows
        ({"M": 7}, ("K, M", "N, K"), "sm_90"),  # rows of one operand are no words
        ({"K": 8}, ("M, K", "N, K"), "gfx950"),  # a loop of one step
    ],
    ids=str,
)
def test_dims_of_few_elements_build(fixed: dict[str, int], layouts: tuple[str, str], target: str) -> None:
    check_build(product("bf16", *layouts, fixed=fixed), (target,))


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    ("dtype", "layouts"),
    often(
        [(dtype, one) for dtype in TYPES for one in LAYOUTS],
        lambda one: one[0] in ("i8", "f8e4m3fn", "f8e5m2", "f64", "u8") and one[1] == ("K, M", "K, N"),
    ),
)
def test_all_types_and_layouts_are_right(dtype: str, layouts: tuple[str, str], target: str) -> None:
    """With rows that start anywhere."""
    if (dtype, target) not in WITHOUT:
        check_result(product(dtype, *layouts), target, {"M": 35, "N": 37, "K": 41})


@pytest.mark.parametrize(
    ("dtype", "layouts"),
    often(
        [(dtype, one) for dtype in TYPES for one in LAYOUTS],
        lambda one: one in (("i8", ("M, K", "K, N")), ("f8e4m3fn", ("K, M", "N, K"))),
    ),
)
def test_all_types_and_layouts_are_right_where_rows_are_aligned(dtype: str, layouts: tuple[str, str]) -> None:
    check_result(product(dtype, *layouts), "sm_90", {"M": 80, "N": 96, "K": 64})


@pytest.mark.parametrize(
    ("dtype", "layouts", "sizes"),
    [
        ("f8e4m3fn", ("M, K", "K, N"), {"M": 72, "N": 160, "K": 304}),  # tiles of the lanes that turn are not whole
        ("i8", ("K, M", "K, N"), {"M": 144, "N": 16, "K": 80}),
        ("u8", ("K, M", "N, K"), {"M": 37, "N": 7, "K": 112}),  # rows that start anywhere
        ("f8e5m2", ("M, K", "K, N"), {"M": 1, "N": 37, "K": 48}),
        ("i8", ("K, M", "K, N"), {"M": 7, "N": 1, "K": 16}),
    ],
    ids=str,
)
def test_bytes_are_laid_out_along_steps_first(dtype: str, layouts: tuple[str, str], sizes: dict[str, int]) -> None:
    """In every case whose other conditions hold, though for larger sizes."""
    spec, found = product(dtype, *layouts), 0
    for case in cases_for_target(spec, "sm_90"):
        rows = [one for one in case.when if re.fullmatch(r"[MNK] (% \d+ =|>)= \d+", str(one))]
        if case.before and all(one.evaluate(sizes) for one in rows):
            check_case(spec, "sm_90", case, sizes)
            found += 1
    assert found


@pytest.mark.parametrize(("dtype", "target"), sorted(WITHOUT))
def test_what_nothing_multiplies_is_refused_by_name(dtype: str, target: str) -> None:
    machine = machines(target)[0]
    with pytest.raises(WavespecError) as raised:
        lower(cases_for_target(product(dtype), target)[-1].spec, machine)
    assert [one.code for one in raised.value.diagnostics] == ["no-matrix-instruction"]
