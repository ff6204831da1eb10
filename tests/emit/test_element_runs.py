"""Elements whose places differ in numbers alone: which loads they become on CPUs, and what numbers vectors have."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels import SPECS
from wavespec.emit.element_runs import Checks, ElementRun, Parts, Places, in_steps, parts_side_by_side
from wavespec.emit.index_vectors import are_alike, columns_of
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.quotients import joined, without_remainders
from wavespec.pipeline import emit
from wavespec.schema import loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.resolve import complete_sizes
from wavespec.targets.machine import machines

MACHINES = {machine.variant: machine for machine in machines("cpu")}
MASKED, STORED, GATHERED = "llvm.intr.masked.load", "llvm.intr.masked.store", "vector.from_elements"
PIXEL, WIDTH, HEIGHT, STEP = symbol("m", 0, 2**20), symbol("W", 6, 2**20), symbol("H", 6, 2**20), symbol("step")


@cache
def text(variant: str, stride: int = 1, **sizes: int) -> str:
    """The code of `conv2d_nchw`, in bf16, for calls of these sizes with filters of 3 x 3."""
    spec = loads((SPECS / "conv2d_nchw.wave.yaml").read_text(), "conv2d_nchw.wave.yaml", SPECS)
    spec = spec.model_copy(update={"params": {**spec.params, "STRIDE": Num(stride)}})
    every = complete_sizes(spec, {"N": 1, "C": 16, "H": 60, "W": 60, "O": 8, "R": 3, "S": 3} | sizes)
    return emit(case_for_sizes(cases_for_target(spec, "cpu"), every).spec, MACHINES[variant]).text


def test_pixels_in_rows_are_a_load_for_each_tap_of_two_channels() -> None:
    """Of the taps in the middle of a line one is never outside of an image, and pixels that others lack are at one end
    of it: their loads are of other kinds."""
    assert text("x86_64_v4_bf16").count(MASKED) == 2 * 6


def test_pixels_of_two_images_are_two_loads() -> None:
    assert text("x86_64_v4_bf16", N=3, H=7, W=7).count(MASKED) == 2 * 2 * 9


def test_results_of_two_images_are_two_stores_of_a_vector() -> None:
    vectors = 8 * 2
    assert text("x86_64_v4_bf16", N=3, H=7, W=7).count(STORED) == 2 * vectors
    assert STORED not in text("x86_64_v3", N=3, H=7, W=7), "a masked store takes as long as ten others there"


@pytest.mark.parametrize(("variant", "stride"), [("x86_64_v4_bf16", 2), ("x86_64_v3", 1)])
def test_what_is_apart_or_has_no_masks_is_gathered(variant: str, stride: int) -> None:
    module = text(variant, stride)
    assert MASKED not in module
    assert module.count(GATHERED) >= 2 * 9


def test_a_vector_divides_once_for_a_panel() -> None:
    """Quotient and remainder by the width are one division, which no row of the panel repeats."""
    assert text("x86_64_v4_bf16").count("arith.divf") == 1


def test_lanes_may_differ_in_numbers_alone() -> None:
    lanes = tuple((PIXEL + number) // WIDTH * 3 + STEP for number in range(4))
    assert are_alike(lanes)
    assert not are_alike((PIXEL, STEP))
    assert not are_alike(((PIXEL - 5) // WIDTH, (PIXEL - 4) // WIDTH)), "vectors divide what is not below 0"


def test_columns_are_those_of_all_lanes_wherever_they_stand() -> None:
    a, b, c = (symbol(name) for name in "abc")
    assert columns_of([[(1, a), (2, b)], [(2, c), (1, a)]]) == [(1, (a, a)), (2, (b, c))]
    assert columns_of([[(1, a)], [(2, b)]]) is None


def test_places_in_two_parts_are_told_by_the_image() -> None:
    def places(count: int) -> tuple[Expr, ...]:
        pixels = [PIXEL + number for number in range(count)]
        return tuple(p // WIDTH // HEIGHT * STEP + p // WIDTH % HEIGHT * WIDTH + p % WIDTH for p in pixels)

    images = tuple((PIXEL + number) // WIDTH // HEIGHT for number in range(32))
    assert parts_side_by_side(places(32)) == Parts(images, WIDTH * HEIGHT)
    assert parts_side_by_side(tuple(place * 2 for place in places(4))) is None
    assert parts_side_by_side(tuple(STEP + number for number in range(4))) == Parts((), const(4))


def test_sizes_that_may_be_short_are_asked() -> None:
    """Of images of 36 pixels a vector of 37 may have parts of three."""
    run = ElementRun(37, Checks((), (), ()), Places(const(0), ()), Parts((), WIDTH * HEIGHT))
    assert run.asked == ((const(36), WIDTH * HEIGHT),)
    assert run._replace(length=36).asked == ()


@pytest.mark.parametrize("pixel", [0, 5, 41, 100])
def test_quotients_and_remainders_are_joined(pixel: int) -> None:
    high, low = PIXEL // WIDTH + STEP, PIXEL % WIDTH + 2
    assert joined(high, low, WIDTH) is STEP * WIDTH + PIXEL + 2
    taps = PIXEL // 3 % 3
    assert joined(joined(PIXEL // 9 + STEP, taps, const(3)), PIXEL % 3, const(3)) is STEP * 9 + PIXEL
    given = {"m": pixel, "W": 7, "H": 6, "step": 11}
    before = STEP * (low + 1) * (PIXEL // WIDTH % HEIGHT - 3) + low
    assert without_remainders(before).evaluate(given) == before.evaluate(given)


@pytest.mark.parametrize(("apart", "are_rows"), [(WIDTH * STEP, True), (const(2), True), (None, False)])
def test_rows_are_as_far_apart_as_a_size_says(apart: Expr | None, are_rows: bool) -> None:
    """Or as numbers do, of which a vector is made anyway."""
    places = [PIXEL * number if apart is None else PIXEL + apart * number for number in (0, 1, 2, 7)[: 4 - are_rows]]
    found = in_steps([*places, PIXEL * 9] if apart is None else places)
    assert found == (Places(PIXEL, (const(0),) * 3, apart) if are_rows else None)
