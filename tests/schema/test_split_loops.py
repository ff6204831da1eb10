"""Which loops of products workgroups may share out: those that the pass takes, as far as the graph is recognised."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.bare import planned_anew, without_plan
from tests.kernels import SPECS
from wavespec.schema import load, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.reading.spec_to_yaml import dump_yaml

ATTENTION = dump_yaml(without_plan(load(SPECS / "attention.wave.yaml")))


def may_be_split(changes: Sequence[tuple[str, str]] = ()) -> bool:
    text = ATTENTION
    for old, new in changes:
        assert old in text, text
        text = text.replace(old, new)
    roles = roles_of(without_plan(loads(text, "attention.wave.yaml")))
    assert roles is not None and roles.kind == "attention"
    return roles.split


def test_sums_that_are_relative_to_extremes_are_joined() -> None:
    assert may_be_split()
    assert may_be_split([("scores: products", "scores: products * 0.5 + f32(index(N))")])


def test_loops_may_begin_and_end_anywhere() -> None:
    assert may_be_split([("iterate: N\n", "iterate: N\n      start: min(N, 5)\n      end: N - 1\n")])


REFUSED = {
    "a sum that starts from a number": ("none: {register: [B, H, M], dtype: f32, value: 0}", "none: {register: [B, H, M], dtype: f32, value: 1}"),
    "an extreme that is used behind the loop": ("steps.total, 1)", "steps.total + steps.largest, 1)"),
    "a sum that is scaled in one operation": ("total * shrink + part", "fma(total, shrink, part)"),
    "an extreme of another kind": ("{max: scores, dim: N}", "{min: scores, dim: N}"),
    "rows that are joined behind the loop": ("share: 1 /", "rows: {sum: steps.total, dim: M}\n  - share: rows * 0 + 1 /"),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_is_no_such_sum_is_not_shared_out(change: tuple[str, str]) -> None:
    assert not may_be_split([change])


def test_few_queries_of_few_heads_share_out_their_keys() -> None:
    cases = cases_for_target(planned_anew(load(SPECS / "attention_gqa.wave.yaml")), "sm_90")

    def split(b: int, m: int, n: int) -> int:
        sizes = {"B": b, "H": 32, "G": 8, "M": m, "N": n, "D": 128, "E": 128}
        schedule = case_for_sizes(cases, sizes).spec.schedule
        return 1 if schedule is None or schedule.workgroups is None else schedule.workgroups.split

    assert [split(1, 1, 8192), split(3, 1, 8192), split(8, 1, 8192), split(16, 1, 8192)] == [8, 4, 2, 1]
    assert [split(1, 1, 511), split(1, 1, 600)] == [1, 4]
    assert [split(1, 16, 8192), split(1, 17, 8192), split(1, 64, 8192), split(1, 65, 8192)] == [8, 4, 2, 1]
