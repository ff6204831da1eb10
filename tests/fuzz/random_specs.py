"""A source of random numbers goes in; a valid spec, with sizes to run it at, comes out.

A spec is of one of the forms below, in random types, tiles and schedules.  Half of them compute on whole numbers with
ops that are exact, so that a result is right or wrong; the others on normal numbers, where it is as close as torch.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.flat import conversions, elementwise, mapped, taken
from tests.fuzz.graph import RandomSpec
from tests.fuzz.products import chain, product
from tests.fuzz.rows import bounded, extremes, reductions, scans
from tests.fuzz.steps import old_values, recurrence
from tests.fuzz.strided import strided
from tests.fuzz.valued import valued

FORMS = (
    reductions,
    scans,
    extremes,
    bounded,
    product,
    product,
    chain,
    elementwise,
    mapped,
    taken,
    conversions,
    recurrence,
)


def random_spec(random: Random) -> RandomSpec:
    """A spec of one of the forms."""
    if random.random() < 0.1:
        return old_values(random)
    spec = random.choice(FORMS)(random, random.random() < 0.6)
    spec = strided(spec, random) if random.random() < 0.3 else spec
    return valued(spec, random) if random.random() < 0.3 else spec
