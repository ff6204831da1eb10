"""Products take what was computed for them in the order in which lanes have it, and read the other operand so."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import cases_for_target
from wavespec.targets.machine import machines

SPECS = Path(__file__).parents[2] / "specs"


def lowered(target: str, after: str, name: str = "attention") -> Kernel:
    (machine,) = machines(target)
    return lower(cases_for_target(load(SPECS / f"{name}.wave.yaml"), target)[0].spec, machine, after=after)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_weights_stay_in_registers_in_runs_of_the_sums(target: str) -> None:
    kernel = lowered(target, "stage-operands")
    assert [op.get("run") for op in kernel.walk() if op.name == "mma"] == [None, 4]
    assert not [memory for memory in kernel.memories if memory.name.startswith("weight")]


def test_products_of_what_is_read_stay_as_they_are() -> None:
    (machine,) = machines("gfx942")
    kernel = lower(load(SPECS / "gemm.wave.yaml"), machine, after="match-operands")
    assert not [op for op in kernel.walk() if op.get("run")]


def test_values_lie_turned_and_lanes_turn_blocks() -> None:
    kernel = lowered("gfx942", "distribute-copies")
    shared = kernel.memory("v.shared")
    assert shared.arrangement is not None and shared.arrangement.run("N") == 4
    copy = next(op for op in kernel.walk() if op.name == "copy" and op["memory"] == "v.shared")
    assert copy["transpose"] == (4, 8, 1)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_columns_that_lanes_store_or_read_together_are_in_different_chunks(target: str) -> None:
    swizzle = lowered(target, "promote-shared").memory("v.shared").arrangement
    assert swizzle is not None and swizzle.swizzle is not None
    period, width, turn = swizzle.swizzle.period, swizzle.swizzle.width, swizzle.swizzle.turn

    def place(column: int) -> tuple[int, int]:
        return (column // period % width) ^ (column // turn % width), column % period

    assert len({place(column) for column in range(16)}) == 16
