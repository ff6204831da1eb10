"""A loop carries what each register has so far, and joins lanes and waves behind it; results stay exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.rows import Rows
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.defer_reductions import DeferReductions
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine


def loop_of(kernel: Kernel) -> Op:
    return next(op for op in kernel.walk() if op.name == "iterate")


@pytest.mark.parametrize("word", ["sum", "max", "mean"])
def test_loop_joins_element_by_element_and_one_reduction_is_behind_it(word: str) -> None:
    kernel = lower(Rows(word).spec, NVIDIA, after="defer-reductions")
    assert [op.name for op in loop_of(kernel).body.ops] == ["read", "join"]
    assert [op.name for op in kernel.body] == ["register", "register", "iterate", "reduce", "write"]


def test_small_floats_are_carried_in_f32() -> None:
    kernel = lower(Rows(dtype="bf16").spec, NVIDIA, after="defer-reductions")
    (carried,) = loop_of(kernel).body.arguments
    assert carried.tile.dtype.name == "f32"
    assert kernel.body[-2].result.tile.dtype.name == "bf16"


def test_tiles_of_more_registers_than_are_free_are_reduced_in_each_step() -> None:
    kernel = lower(Rows(tile=(8, 1024), wave=(8, 1024)).spec, NVIDIA, after="defer-reductions")
    assert [op.name for op in loop_of(kernel).body.ops] == ["read", "reduce"]


def test_reduction_that_the_loop_uses_as_well_stays() -> None:
    kernel = lower(Rows().spec, NVIDIA, after="inline-steps")
    loop = loop_of(kernel)
    total = loop.body.yields[0]
    again = Op("elementwise", (total, total), (replace(total, name="again"),), (("function", "add"),))
    used = replace(loop, region=replace(loop.body, ops=(*loop.body.ops, again)))
    changed = DeferReductions()(replace(kernel, body=tuple(used if op is loop else op for op in kernel.body)), NVIDIA)
    assert [op.name for op in loop_of(changed).body.ops] == ["read", "reduce", "elementwise"]


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize(("word", "dtype"), [("sum", "f32"), ("max", "i8"), ("min", "f16"), ("prod", "f64")])
def test_results_are_exact_at_every_edge(word: str, dtype: str, machine: Machine) -> None:
    for sizes in ((5, 130), (3, 64), (2, 1), (1, 0)):
        if word == "prod" and sizes[1] > 64:
            sizes = (5, 9)
        report, expected = Rows(word, dtype=dtype, init=1).run(machine, sizes)
        assert report.ok, report.render()
        assert np.array_equal(report.tensors["y"].astype(np.float64), expected)
