"""Values of expressions are kept for as long as their symbols mean the same, and no longer."""

from __future__ import annotations

import numpy as np

from wavespec.ir.expr import symbol
from wavespec.ir.kernel import Kernel
from wavespec.sim.symbols import SymbolValues

KERNEL = Kernel("small", "thread", "gfx942", (), (), (), lanes=4)
SIZE, LANE, STEP = symbol("size"), symbol("lane"), symbol("step")


def test_what_is_the_same_for_all_lanes_is_a_number() -> None:
    symbols = SymbolValues(KERNEL, {"size": 5}, (), 0, 4)
    assert symbols.value(SIZE * 2 + 1) == 11 and isinstance(symbols.value(SIZE * 2 + 1), int)
    assert np.array_equal(symbols.per_thread(SIZE + LANE), [5, 6, 7, 8])
    assert np.array_equal(symbols.per_thread(SIZE), [5, 5, 5, 5])


def test_each_step_of_a_loop_has_values_of_its_own() -> None:
    symbols = SymbolValues(KERNEL, {}, (), 0, 4)
    symbols.open("step")
    found: list[list[int]] = []
    for step in range(3):
        symbols.set("step", step)
        found.append(symbols.per_thread((LANE + STEP) % 2).tolist())
    symbols.close()
    assert found == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]


def test_a_name_that_means_something_else_inside_means_the_same_again_behind() -> None:
    symbols = SymbolValues(KERNEL, {"size": 5}, (), 0, 4)
    before = symbols.value(SIZE + 1)
    symbols.open("size", 7)
    symbols.open("step", 2)
    inside = symbols.value(SIZE + 1), symbols.value(SIZE + STEP)
    symbols.close()
    symbols.close()
    assert (before, inside, symbols.value(SIZE + 1)) == (6, (8, 9), 6)
