"""Copies of a later step that are issued between the products of this one: order, groups, rounds written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import AMD_COPYING, NVIDIA, Gemm, run
from wavespec.ir.kernel import Kernel, Op

GEMM = Gemm(tile=(64, 64, 64), wave=(32, 32), stages=2, dims=("", "", "multiple_of: 8"))
LETTERS = {"async_wait": "<", "copy_async": "c", "async_commit": ">", "load": "r", "mma": "m", "schedule_fence": "|"}


def the_loop(kernel: Kernel) -> Op:
    (loop,) = (op for op in kernel.body if op.name == "for")
    return loop


def rounds(gemm: Gemm) -> str:
    ops = the_loop(gemm.lowered(AMD_COPYING, "pipeline-loops")).body.ops
    return "".join(LETTERS.get(op.name, "") for op in ops)


def groups(gemm: Gemm) -> list[list[tuple[str, int]]]:
    """Between fences, kinds and counts."""
    found: list[list[tuple[str, int]]] = [[]]
    for op in the_loop(gemm.lowered(AMD_COPYING, "pipeline-loops")).body.ops:
        if op.name == "schedule_fence":
            found.append([])
        elif op.name == "schedule_group":
            found[-1].append((op["kind"], op["count"]))
    return [part for part in found if part]


def test_copies_have_the_rest_of_their_round_to_land() -> None:
    once = replace(GEMM, schedule="loops: {k_loop: {unroll: 1}}")
    assert rounds(once) == "|<rrrr|ccccrrrrmmmm>|mmmm"


def test_a_product_is_issued_in_front_of_each_copy_and_each_load() -> None:
    first = [("matrix", 1), ("shared_load", 1), ("copy", 1)] * 4
    assert groups(replace(GEMM, schedule="loops: {k_loop: {unroll: 1}}")) == [first, [("matrix", 4)]]


def test_more_copies_than_products_are_shared_out() -> None:
    gemm = replace(GEMM, tile=(64, 32, 128), wave=(16, 32), schedule="loops: {k_loop: {unroll: 1}}")
    first, *_ = groups(gemm)
    assert [count for kind, count in first if kind == "copy"] == [3, 3]
    assert sum(count for kind, count in first if kind == "matrix") == 2


def test_a_round_is_written_out_for_each_of_two_buffers() -> None:
    kernel = GEMM.lowered(AMD_COPYING, "pipeline-loops")
    loop = the_loop(kernel)
    assert rounds(GEMM) == 2 * "|<rrrr|ccccrrrrmmmm>|mmmm"
    assert {op["buffer"].value for op in loop.body.ops if op.name in ("copy_async", "load")} == {0, 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "loops: {k_loop: {unroll: 1}}"},
        {"stages": 3},
        {"dtype": "f32", "tile": (128, 128, 64), "wave": (64, 64)},
    ],
    ids=["said-so", "three-buffers", "long-anyway"],
)
def test_otherwise_a_round_is_written_once(changes: dict[str, object]) -> None:
    gemm = replace(GEMM, **changes)  # pyright: ignore[reportArgumentType]
    loop = the_loop(gemm.lowered(AMD_COPYING, "pipeline-loops"))
    assert sum(op.name == "async_wait" for op in loop.body.ops) == 1


def test_with_three_stages_one_group_stays_in_flight() -> None:
    loop = the_loop(replace(GEMM, stages=3).lowered(AMD_COPYING, "pipeline-loops"))
    assert [op["pending"] for op in loop.body.ops if op.name == "async_wait"] == [1]


def test_one_barrier_serves_a_round() -> None:
    loop = the_loop(GEMM.lowered(AMD_COPYING))
    assert sum(op.name == "barrier" for op in loop.body.ops) == 2, "two rounds"


def test_machines_without_groups_have_none() -> None:
    kernel = GEMM.lowered(NVIDIA, "pipeline-loops")
    assert not any(op.name in ("schedule_group", "schedule_fence") for op in kernel.walk())


@pytest.mark.parametrize("k", [0, 8, 64, 72, 128, 192, 200])
def test_an_odd_number_of_steps_changes_nothing(k: int) -> None:
    report, expected = run(GEMM.spec, AMD_COPYING, {"M": 65, "N": 7, "K": k})
    assert not report.findings, str(report.findings[0])
    assert (report.tensors["c"] == expected).all()
