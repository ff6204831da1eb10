"""Slices of k: which there are, and what is issued in turn with their products."""

from __future__ import annotations

from dataclasses import replace

from tests.lower.gemms import AMD, NVIDIA, Gemm
from wavespec.ir.kernel import Op
from wavespec.schedule.slices import in_groups, slices_of

LETTERS = {"load": "r", "store": "s", "mma": "m", "schedule_fence": "|"}
GEMM = Gemm(tile=(64, 64, 32), wave=(32, 32), stages=2, dims=("", "", "multiple_of: 8"))


def body(gemm: Gemm) -> list[Op]:
    (loop,) = (op for op in gemm.lowered(AMD, "pipeline-loops").body if op.name == "for")
    return list(loop.body.ops)


def letters(ops: list[Op]) -> str:
    return "".join("g" if op.node.endswith(".load") else LETTERS.get(op.name, "") for op in ops)


def groups(ops: list[Op]) -> list[tuple[str, int]]:
    return [(op["kind"], op["count"]) for op in ops if op.name == "schedule_group"]


def test_a_body_that_does_more_than_multiply_has_no_slices() -> None:
    ops = [Op("load"), Op("slice"), Op("mma"), Op("mma"), Op("load"), Op("mma")]
    assert [(part.loads, part.mmas) for part in slices_of(ops, range(6))] == [([0, 1], [2, 3]), ([4], [5])]
    assert slices_of([*ops, Op("elementwise")], range(7)) == []
    assert slices_of([Op("load")], range(1)) == []


def test_moves_go_with_the_first_products_and_loads_with_those_of_the_slice_before() -> None:
    ops = [Op("load"), Op("mma"), Op("mma"), Op("load"), Op("mma"), Op("copy_async"), Op("async_commit")]
    order, between = in_groups(ops, slices_of(ops, range(5)), [5], "copy", [6])
    assert order == [0, 5, 3, 1, 2, 6, 4]
    assert [place for place, op in between if op.name == "schedule_fence"] == [1, 6]
    found = [(place, op["kind"], op["count"]) for place, op in between if op.name == "schedule_group"]
    assert found == [(5, "matrix", 1), (5, "shared_load", 1), (5, "copy", 1), (5, "matrix", 1), (7, "matrix", 1)]


def test_loads_into_registers_are_under_the_first_products() -> None:
    ops = body(replace(GEMM, mma="f32_32x32x8_f16"))
    assert letters(ops) == "rr|ggrrmm|mm|ss"
    assert groups(ops) == [*[("matrix", 1), ("shared_load", 1), ("global_load", 1)] * 2, ("matrix", 2)]


def test_machines_without_groups_keep_loads_in_front() -> None:
    gemm = replace(GEMM, dims=("", "", ""))
    (loop,) = (op for op in gemm.lowered(NVIDIA, "pipeline-loops").body if op.name == "for")
    assert loop.body.ops[0].node.endswith(".load") and not groups(list(loop.body.ops))
