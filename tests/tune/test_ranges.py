"""The sizes that a measured workload is taken to speak for."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import SMALL
from tests.specs import KERNELS
from wavespec.schema import load, loads
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.models import Case
from wavespec.schema.resolve import complete_sizes
from wavespec.tune.ranges import ranges

SPEC = loads(SMALL)


def test_border_between_two_sizes_is_their_geometric_mean() -> None:
    first, second = ranges(SPEC, [{"M": 4, "N": 512, "K": 64}, {"M": 64, "N": 512, "K": 64}])
    assert first[:2] == ["M > 2", "M <= 16"] and second[:2] == ["M > 16", "M <= 128"]


def test_alone_a_size_speaks_for_half_to_twice_of_it() -> None:
    (conditions,) = ranges(SPEC, [{"M": 100, "N": 1024, "K": 512}])
    expected = ["M > 50", "M <= 200", "N > 512", "N <= 2048", "N % 16 == 0", "K > 256", "K <= 1024", "K % 16 == 0"]
    assert conditions == expected


def test_multiples_are_asked_of_contiguous_dims_beyond_what_the_spec_promises() -> None:
    (conditions,) = ranges(SPEC, [{"M": 16, "N": 17, "K": 24}])
    assert not [condition for condition in conditions if "%" in condition]


SIZES = st.fixed_dictionaries(
    {"M": st.integers(0, 99), "N": st.integers(0, 99), "K": st.integers(0, 12).map((8).__mul__)}
)


@given(st.lists(SIZES, min_size=1, max_size=4, unique_by=lambda sizes: tuple(sizes.values())))
def test_a_workload_is_in_its_own_range_and_in_no_other(workloads: list[dict[str, int]]) -> None:
    found = ranges(SPEC, workloads)
    holds = [[all(parse_expression(c).evaluate(w) for c in conditions) for conditions in found] for w in workloads]
    assert all(holds[index][index] for index in range(len(workloads)))
    assert not any(holds[one][other] for one, other in combinations(range(len(workloads)), 2))


def test_a_dim_that_follows_from_others_has_no_borders() -> None:
    text = SMALL.replace("dims: {", "dims: {A: {equals: M * 2}, ", 1)
    (conditions,) = ranges(loads(text), [{"M": 100, "N": 1024, "K": 512, "A": 200}])
    assert [c for c in conditions if "A" in c] == [] and "M > 50" in conditions


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name.removesuffix(".wave.yaml"))
def test_the_range_of_every_workload_is_a_case(path: Path) -> None:
    spec = load(path)
    workloads = [complete_sizes(spec, sizes) for sizes in spec.workloads]
    for conditions in ranges(spec, workloads):
        assert Case(when=tuple(map(parse_expression, conditions))).when
