"""Loops of waves that only copy divide no index in their steps: quotients and remainders have loops of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.simulated_kernels import NVIDIA, kernel
from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import FOR
from wavespec.lower.nest_digits import NestDigits
from wavespec.sim.simt import simulate

SYMBOLS = """symbol K in 0..100000 by 4
symbol C in 0..1000 by 4
symbol S in 1..1000 by 1
symbol at_K in 0..100000 by 4"""
SIZES = ["memory @X : f32 (K: [K], C: [C], S: [S]) global input", "memory @Y : i32 (K: [K]) global output"]


def walk(step: int = 4, by: str = "C") -> Kernel:
    """A lane stores for every step the quotient of its index, split further, and the remainder."""
    return kernel(NVIDIA, SIZES, body_of(step, by), symbols=SYMBOLS)


def body_of(step: int, by: str) -> str:
    return f"""
    if {{mask = (([lane], [1],),)}} () do
      for {{induction = "at_K", lower = [0], step = [{step}], unroll = 1, upper = [K]}} () do
        %a = coordinates {{places = ([at_K//{by}//S], [at_K//{by}%S], [at_K%{by}], [at_K],)}} : i32x4
        store %a {{memory = "Y", offset = [at_K]}}
        yield
      end
      yield
    end"""


def nested(one: Kernel) -> Kernel:
    return replace(NestDigits()(replace(one, producers=1), NVIDIA), producers=0)


def stored(one: Kernel, k: int, c: int, s: int) -> np.ndarray:
    report = simulate(one, NVIDIA, {"X": np.zeros((k, c, s), np.float32)}, {"K": k, "C": c, "S": s})
    assert report.ok, report.render()
    return report.tensors["Y"]


@pytest.mark.parametrize(("k", "c", "s"), [(96, 8, 3), (100, 12, 2), (4, 40, 3), (0, 8, 3), (400, 400, 1)])
def test_every_step_has_its_digits(k: int, c: int, s: int) -> None:
    """Also where the last quotient has fewer remainders than the size, or none has as many."""
    np.testing.assert_array_equal(stored(nested(walk()), k, c, s), stored(walk(), k, c, s))


def test_steps_divide_no_index() -> None:
    outer, inner = (op for op in nested(walk()).walk() if op.is_(FOR))
    assert (outer["induction"], inner["induction"]) == ("at_K.quotient", "at_K.remainder")
    coordinates = next(op for op in inner.walk() if op.get("places"))
    assert str(coordinates["places"]) == "(at_K.quotient//S, at_K.quotient%S, at_K.remainder, at_K)"


def test_the_number_of_quotients_takes_32_bits() -> None:
    """Of the largest sizes too: a division in 64 bits, in front of the first copy, is a call."""
    largest = "symbol K in 0..2147418112 by 64\nsymbol C in 0..2147418112 by 64\nsymbol S in 1..1000 by 1\n"
    one = kernel(NVIDIA, SIZES, body_of(64, "C"), symbols=largest + "symbol at_K in 0..2147418048 by 64")
    outer, _ = (op for op in nested(one).walk() if op.is_(FOR))
    assert all(node.high is not None and node.high < 2**31 for node in outer["upper"].walk())


@pytest.mark.parametrize("other", [walk(step=8), walk(by="S"), walk(by="12")], ids=["steps", "size", "constant"])
def test_other_loops_stay(other: Kernel) -> None:
    """Steps would meet no multiples of the size; a division by a constant is no division."""
    assert nested(other) == other


def test_kernels_whose_waves_are_alike_stay() -> None:
    assert NestDigits()(walk(), NVIDIA) is not None and NestDigits()(walk(), NVIDIA) == walk()
