"""What has to come before what in the body of a loop, and over how many iterations."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm
from tests.schedule.products_of_sums import TEXT
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schedule import dependences as module
from wavespec.schedule.dependences import Dependence, dependences, staged_memories, stores_ahead
from wavespec.schedule.feeding import feeding, symbols_of
from wavespec.schema import loads
from wavespec.targets.machine import Machine

PROMISED = ("", "", "multiple_of: 8")
BUFFERS = {"a.shared": 3, "b.shared": 3}


def found(machine: Machine) -> tuple[Kernel, Op, list[Dependence]]:
    kernel = Gemm(dims=PROMISED).lowered(machine, "tile-to-thread")
    loop = next(op for op in kernel.walk() if op.name == "for")
    return kernel, loop, dependences(kernel, loop, BUFFERS)


def between(loop: Op, every: list[Dependence], before: str, after: str) -> set[tuple[int, str]]:
    """Distance and kind of the dependences between two nodes."""
    ops = loop.body.ops
    return {(d.distance, d.kind) for d in every if (ops[d.before].node, ops[d.after].node) == (before, after)}


def test_values_and_carried_values() -> None:
    _, loop, every = found(AMD)
    assert between(loop, every, "a_tile.load", "a_tile.store") == {(0, "value")}
    assert between(loop, every, "a_tile", "acc") == {(0, "value")}
    assert {distance for distance, _ in between(loop, every, "acc", "acc")} == {0, 1}


def test_a_staged_tile_is_written_before_it_is_read_and_read_before_its_buffer_is_written_anew() -> None:
    _, loop, every = found(AMD)
    assert between(loop, every, "a_tile.store", "a_tile") == {(0, "shared")}
    assert between(loop, every, "a_tile", "a_tile.store") == {(3, "shared")}
    assert between(loop, every, "b_tile.store", "a_tile") == {(0, "meeting")}, "one barrier serves both"


def test_groups_of_copies_are_closed_awaited_and_read_in_this_order() -> None:
    _, loop, every = found(NVIDIA)
    names = [op.name for op in loop.body.ops]
    commit, wait = names.index("async_commit"), names.index("async_wait")
    pairs = {(d.before, d.after, d.distance) for d in every}
    copies = [number for number, name in enumerate(names) if name == "copy_async"]
    loads = [number for number, name in enumerate(names) if name == "load_matrix"]
    assert {(copy, commit, 0) for copy in copies} | {(commit, copy, 1) for copy in copies} <= pairs
    assert {(wait, load, 0) for load in loads} | {(commit, wait, 0)} <= pairs


def test_the_order_of_the_program_keeps_every_dependence() -> None:
    for machine in (AMD, NVIDIA):
        assert all(d.before < d.after for d in found(machine)[2] if d.distance == 0)


def test_staged_memories_are_those_that_the_loop_fills() -> None:
    kernel, loop, _ = found(AMD)
    assert set(staged_memories(kernel, loop.body.ops)) == {"a.shared", "b.shared"}
    assert staged_memories(kernel, kernel.body) == ()


def test_each_operation_is_asked_at_most_once_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of many accesses took seconds: all operations were looked through for every store."""
    kernel, loop, _ = found(AMD)
    asked = list[Op]()
    monkeypatch.setattr(module, "symbols_of", lambda op: asked.append(op) or symbols_of(op))
    ahead = stores_ahead(kernel, loop.body.ops)
    assert 0 < len(asked) <= len(loop.body.ops)
    assert {loop.body.ops[number].node for number in ahead} == {"a_tile.store", "b_tile.store"}


def test_what_is_made_of_products_is_not_stored_ahead() -> None:
    """Sums that waves hand to each other through the memory of the workgroup belong to the step."""
    kernel = lower(loads(TEXT.split("schedule:")[0]), AMD, after="tile-to-thread")
    checked = 0
    for loop in (op for op in kernel.walk() if op.name == "for"):
        ops, staged = loop.body.ops, staged_memories(kernel, loop.body.ops)
        stores = [number for number, op in enumerate(ops) if op.name == "store" and op["memory"] in staged]

        def is_of_step(number: int, ops: Sequence[Op] = ops, staged: Sequence[str] = staged) -> bool:
            makers = [ops[maker] for maker in feeding(ops, [number])]
            return any(op.name == "mma" or op.get("memory") in staged for op in makers)

        assert stores_ahead(kernel, ops) == [number for number in stores if not is_of_step(number)]
        checked += len(stores)
    assert checked
