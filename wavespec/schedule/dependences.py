"""The body of a loop in; what has to come before what, over how many iterations, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BIND,
    COPY_ASYNC,
    LANES_FILL,
    MMA,
    MMA_ASYNC,
    MMA_WAIT,
    STORE,
    WRITES_MEMORY,
)
from wavespec.schedule.costs import kind_of
from wavespec.schedule.feeding import bound_symbols, symbols_of, used_values


@dataclass(frozen=True, slots=True)
class Dependence:
    """Operation ``after`` of step i + ``distance`` comes behind operation ``before`` of step i.

    ``kind``: ``value``; ``shared`` where lanes meet at a barrier in between; ``meeting`` for what is better kept
    apart, so that few barriers do; ``order`` where only the order counts.
    """

    before: int
    after: int
    distance: int
    kind: str
    why: str


def dependences(kernel: Kernel, loop: Op, buffers: Mapping[str, int]) -> list[Dependence]:
    """Every dependence of a loop whose staged tiles have ``buffers`` copies; operations by their number in the body."""
    ops = loop.body.ops
    return [
        *_values(loop),
        *_shared_memory(kernel, ops, buffers),
        *_groups(ops),
        *_outputs(kernel, ops),
    ]


def staged_memories(kernel: Kernel, ops: Sequence[Op]) -> tuple[str, ...]:
    """The shared memories that the operations write, in order."""
    written = (op["memory"] for op in ops if op.is_(LANES_FILL))
    return tuple(dict.fromkeys(name for name in written if kernel.memory(name).space == "shared"))


def stores_ahead(kernel: Kernel, ops: Sequence[Op]) -> list[int]:
    """Stores into shared memory of what is made of tensors alone, so that it can be stored for a later step."""
    staged, ahead = staged_memories(kernel, ops), list[int]()
    values, symbols = set[str](), set[str]()  # made of what is staged, or of products
    for number, op in enumerate(ops):
        used = (value.name for inner in op.walk() for value in inner.operands)
        is_of_step = not values.isdisjoint(used) or not symbols.isdisjoint(symbols_of(op))
        if op.is_(STORE) and op["memory"] in staged:
            if not is_of_step:
                ahead.append(number)
        elif is_of_step or op.is_(MMA, MMA_ASYNC, MMA_WAIT) or op.get("memory") in staged:
            values.update(value.name for value in op.results)
            symbols.update([op["symbol"]] if op.is_(BIND) else [])
    return ahead


def _values(loop: Op) -> Iterator[Dependence]:
    body = loop.body
    made = {value.name: number for number, op in enumerate(body.ops) for value in op.results}
    carried = {argument.name: value.name for argument, value in zip(body.arguments, body.yields, strict=True)}
    bound = bound_symbols(body.ops)
    for number, op in enumerate(body.ops):
        for value in used_values(op, bound):
            if value.name in made:
                yield Dependence(made[value.name], number, 0, "value", f"it uses %{value.name}")
            elif carried.get(value.name) in made:
                why = f"it uses %{carried[value.name]} of the step before"
                yield Dependence(made[carried[value.name]], number, 1, "value", why)


def _shared_memory(kernel: Kernel, ops: Sequence[Op], buffers: Mapping[str, int]) -> Iterator[Dependence]:
    """Writes of a step come before its reads; a read comes before the write that reuses its buffer.

    Lanes meet between all writes and all reads of a step, whichever memory they are of: one barrier serves them all.
    """
    staged = staged_memories(kernel, ops)
    writes = [n for n, op in enumerate(ops) if op.is_(LANES_FILL) and op["memory"] in staged]
    reads = [n for n, op in enumerate(ops) if kind_of(kernel, op) == "shared_load" and op["memory"] in staged]
    for write in writes:
        for read in reads:
            memory, other = ops[write]["memory"], ops[read]["memory"]
            if write > read:
                yield Dependence(read, write, 0, "shared", f"'{memory}' is read before it is written")
                continue
            kind = "shared" if memory == other else "meeting"
            yield Dependence(write, read, 0, kind, f"it reads what is written to '{memory}'")
            count = min(buffers.get(memory, 1), buffers.get(other, 1))
            why = f"'{memory}' has {count} buffer{'s' if count > 1 else ''}, which it writes anew"
            yield Dependence(read, write, count, kind, why)


def _groups(ops: Sequence[Op]) -> Iterator[Dependence]:
    """Asynchronous copies are closed by a commit, awaited by a wait, and read behind that."""
    commits = [number for number, op in enumerate(ops) if op.is_(ASYNC_COMMIT)]
    waits = [number for number, op in enumerate(ops) if op.is_(ASYNC_WAIT)]
    copies = [number for number, op in enumerate(ops) if op.is_(COPY_ASYNC)]
    copied = {ops[number]["memory"] for number in copies}
    for number, op in enumerate(ops):
        if op.is_(COPY_ASYNC):
            yield from (Dependence(number, commit, 0, "order", "it closes the group of copies") for commit in commits)
            yield from (Dependence(commit, number, 1, "order", "it is of the next group") for commit in commits)
            yield from (Dependence(number, wait, 0, "value", "it awaits the copy") for wait in waits)
        elif op.get("memory") in copied:
            yield from (Dependence(wait, number, 0, "shared", "its copies are awaited first") for wait in waits)
            why = "copies of a step are awaited together"
            yield from (Dependence(copy, number, 0, "order", why) for copy in copies)
    yield from (Dependence(c, w, 0, "order", "it awaits what was closed") for c in commits for w in waits)


def _outputs(kernel: Kernel, ops: Sequence[Op]) -> Iterator[Dependence]:
    """Accesses of a memory that the loop writes, other than staged tiles, keep their order."""
    staged = staged_memories(kernel, ops)
    written = {op["memory"] for op in ops if op.is_(WRITES_MEMORY)} - set(staged)
    touching = [number for number, op in enumerate(ops) if op.get("memory") in written]
    for at, before in enumerate(touching):
        for after in touching[at + 1 :]:
            why = f"both access '{ops[after]['memory']}'"
            yield Dependence(before, after, 0, "order", why)
            yield Dependence(after, before, 1, "order", why)
