"""The largest score so far is raised where a step has a much larger one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.lower.rows_of_scores import rows
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import BIND, ELEMENTWISE, FOR, SHUFFLE
from wavespec.lower.raise_late import RaiseLate


def branches(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(FOR) and op.get("once")]


def test_what_joins_lanes_and_multiplies_sums_stands_in_branches() -> None:
    kernel = RaiseLate()(rows(), NVIDIA)
    assert [op.get("of_any") for op in kernel.walk() if op.is_(BIND)] == [True, True]
    joins, scales, *_ = branches(kernel)
    assert joins["upper"] == scales["upper"] == kernel.symbol("raises")
    assert sum(op.is_(SHUFFLE) for op in joins.body.ops) == 2
    assert [op["function"] for op in scales.body.ops if op.is_(ELEMENTWISE)] == ["mul"]


def test_each_loop_asks_for_itself() -> None:
    assert len(branches(RaiseLate()(rows(), NVIDIA))) == 4


def test_rows_without_such_a_score_keep_theirs() -> None:
    joins = branches(RaiseLate()(rows(), NVIDIA))[0]
    (kept,) = joins.body.yields
    (choice,) = (op for op in joins.body.ops if kept in op.results)
    assert choice["function"] == "where" and choice.operands[2].name == "largest1"


def test_as_many_scores_as_sums_are_joined_in_every_step() -> None:
    kernel = rows(sums=64)
    assert RaiseLate()(kernel, NVIDIA) == kernel


def test_a_largest_score_that_is_a_result_is_that_of_all_steps() -> None:
    kernel = rows(behind='store %h2 {memory = "z", offset = [lane]}')
    assert RaiseLate()(kernel, NVIDIA) == kernel


def test_a_largest_score_that_is_used_between_loops_is_that_of_the_first() -> None:
    kernel = rows(between='store %h1 {memory = "z", offset = [lane]}')
    assert len(branches(RaiseLate()(kernel, NVIDIA))) == 2


@pytest.mark.parametrize("name", ["largest2", "top2", "larger2", "highest2"])
def test_what_leaves_a_loop_another_way_is_that_of_all_steps(name: str) -> None:
    """In place of the sum of powers: what was largest before the last step, or largest in it."""

    def change(loop: Op) -> tuple[Op, ...]:
        known = {
            value.name: value
            for value in (*loop.body.arguments, *(op.results[0] for op in loop.body.ops if op.results))
        }
        if name not in known:
            return (loop,)
        highest, _, sums = loop.body.yields
        return (replace(loop, region=replace(loop.body, yields=(highest, known[name], sums))),)

    kernel = rows()
    kernel = replace(kernel, body=rewrite(kernel.body, change, FOR))
    assert RaiseLate()(kernel, NVIDIA) == kernel


def test_machines_whose_products_lanes_await_are_left_alone() -> None:
    assert not RaiseLate().applies_to(CPU) and not RaiseLate().applies_to(AMD)
