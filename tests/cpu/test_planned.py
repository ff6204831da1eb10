"""Kernels that say nothing of tiles, with the plan that the compiler makes of them: as right as those of ``specs/``."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew
from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.kernels import Subject, subjects, tensors_of
from tests.rungs import often
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec

SOME = (
    *("gemm_bf16", "gemm_f32", "linear_swiglu", "attention", "softmax", "sum_dim", "cumsum", "rope", "transpose"),
    "conv2d_depthwise",
)
"""One of each kind of plan."""
ROUNDED_MORE = {("attention_decode_f16", 4096)}
"""Kernels and keys whose partial totals err 2.4 times as much as torch's, by steps that are longer than those of the
spec's own plan."""


def plan(subject: Subject) -> KernelSpec:
    spec = planned_anew(subject.spec)
    assert spec.constraints, "the plan has tiles"
    return spec


def check(subject: Subject, kernel: Kernel | KernelsOfCases) -> None:
    row = subject.row
    for sizes, whole in (
        *((one, row.exact) for one in (*row.small, *row.on_cpu)),
        *((one, False) for one in row.normal),
    ):
        if (subject.name, sizes.get("N")) in ROUNDED_MORE:
            continue
        inputs = subject.inputs(sizes, whole=whole)
        subject.check(inputs, tensors_of(kernel(*(one.clone() for one in inputs))), sizes, whole=whole)


@pytest.mark.parametrize("subject", [one for one in subjects("cpu") if one.name in SOME], ids=lambda one: one.name)
def test_some_are_right(subject: Subject) -> None:
    check(subject, Kernel(build(plan(subject), "cpu", only=best_variant("cpu"))))


@pytest.mark.parametrize(
    "subject",
    often(
        [one for one in subjects("cpu") if one.name not in SOME],
        lambda one: one.is_first_type,
        pytest.mark.rare,
        pytest.mark.always,
    ),
    ids=lambda one: one.name,
)
def test_all_are_right(subject: Subject) -> None:
    """The cases that these sizes are of; that all of them build, `tests/schema/test_planned.py` sees."""
    check(subject, KernelsOfCases(plan(subject), best_variant("cpu")))
