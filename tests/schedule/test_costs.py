"""What operations take on a machine: units and clocks from its table."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, MACHINES, NVIDIA, Gemm
from wavespec.schedule.costs import cost_of, kind_of
from wavespec.targets.machine import Machine

PROMISED = ("", "", "multiple_of: 8")


@pytest.mark.parametrize("machine", [machine for machine in MACHINES if machine.resources], ids=lambda m: m.variant)
def test_every_operation_of_a_loop_has_a_cost(machine: Machine) -> None:
    assert machine.resources is not None
    kernel = Gemm(tile=(64, 64, 32), wave=(32, 32), dims=PROMISED).lowered(machine, "tile-to-thread")
    loop = next(op for op in kernel.walk() if op.name == "for")
    for op in loop.body.ops:
        cost = cost_of(kernel, op, machine)
        assert (cost.busy > 0) == bool(cost.unit) == bool(kind_of(kernel, op)), op.name
        assert cost.unit == "" or cost.unit in machine.resources.units
        assert cost.latency >= (cost.busy if kind_of(kernel, op) == "matrix" else 0)


def test_matrix_instructions_take_what_their_products_need() -> None:
    # https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/amd-cdna-3-white-paper.pdf
    # 2048 operations of f16 a clock and compute unit are 256 products for each of its four SIMDs.
    kernel = Gemm(tile=(64, 64, 32), wave=(32, 32), mma="f32_16x16x16_f16", dims=PROMISED).lowered(
        AMD, "tile-to-thread"
    )
    assert {cost_of(kernel, op, AMD).busy for op in kernel.walk() if op.name == "mma"} == {16 * 16 * 16 // 256}


def test_kinds_are_told_apart_by_memory() -> None:
    kernel = Gemm(dims=PROMISED).lowered(AMD, "tile-to-thread")
    loop = next(op for op in kernel.walk() if op.name == "for")
    kinds = [kind_of(kernel, op) for op in loop.body.ops]
    assert list(dict.fromkeys(kinds)) == ["global_load", "shared_store", "shared_load", "", "matrix"]
    kernel = Gemm(dims=PROMISED).lowered(NVIDIA, "tile-to-thread")
    loop = next(op for op in kernel.walk() if op.name == "for")
    assert kind_of(kernel, loop.body.ops[0]) == "copy"
