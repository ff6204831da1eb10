"""Thread kernel in, thread kernel out: tile registers take rows from a tensor where these are as far apart there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Memory, Op, rewrite
from wavespec.ir.nodes import replace
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import FOR, LOAD, LOAD_TILE, PACK, STORE
from wavespec.lower.base import Pass
from wavespec.lower.choose_instructions import is_in_place
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine


class ReadInPlace(Pass):
    """Take the rows of a tile from the tensor, where all of them are there, in place of a copy of them.

    Before: a nest of two loops copies rows of an input as they are, and tiles behind it (``load_tile``) are all that
            reads the copy.
    After:  where all that would be copied is inside the input, the nest has no step, and tiles are read there
            (``source``); else all is as before.
    Cases:  of whole rows that each tile is read of once, the nest copies what is in the last tile if that is not all
            there.  What tiles are read of several times is better copied than read across the lines of a cache.
            Rows that a tile has a part of stay copied: where they are a power of two apart, the nearest cache holds few
            of such parts.  Whole rows lie side by side, and where the spec says so each part meets few of the other
            operand.
    """

    name: ClassVar[str] = "read-in-place"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return machine.shared.matrix_load == "tile"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        steps = {f"at_{split.dim}" for split in kernel.distribution.loops}
        for memory in kernel.memories:
            rows = _copied_rows(kernel, memory) if memory.staged else None
            if rows is not None and (is_in_place(kernel) or steps.isdisjoint(rows.start.symbols)):
                kernel = replace(kernel, body=rewrite(kernel.body, rows.change))
        return kernel


@dataclass(frozen=True, slots=True)
class _Nest:
    """Two loops that lay down rows of a staged memory, and nothing else.

    ``pitch``: elements from row to row of the memory; ``columns``: of tiles; ``once``: whether rows are cut
    into these, and each is read once.
    """

    memory: Memory
    outer: Op
    inner: Op
    pitch: int
    rows: int
    columns: int
    once: bool
    at_row: Expr
    at_depth: Expr

    @property
    def row(self) -> str:
        return self.outer["induction"]

    @property
    def depth(self) -> str:
        return self.inner["induction"]


@dataclass(frozen=True, slots=True)
class _CopiedRows:
    """Element ``d`` of row ``r`` of the memory is a copy of element ``start + r * stride + d`` of ``source``, of rows
    that are all there where ``inside`` holds, as far as there are so many elements as each of ``present`` says."""

    nest: _Nest
    source: str
    start: Expr
    stride: Expr
    inside: Mask
    present: tuple[Expr, ...]

    def change(self, op: Op) -> tuple[Op, ...]:
        """An operation of the kernel as it is now."""
        if op.is_(FOR) and op["induction"] == self.nest.depth:
            return (op.with_(lower=self._copied_from()),)
        if op.is_(FOR) and op["induction"] == self.nest.row:
            left = maximum(self.nest.inner["upper"] - self._copied_from(), 0)
            return (op.with_(upper=minimum(op["upper"], minimum(left, 1) * self.nest.rows)),)
        if not op.is_(LOAD_TILE) or op["memory"] != self.nest.memory.name:
            return (op,)
        row, depth = op["offset"] // self.nest.pitch, op["offset"] % self.nest.pitch
        offset = self.start + row * self.stride + depth
        mask = (*((depth + (op["columns"] - 1), there) for there in self.present), *self.inside)
        return (op.with_(source=self.source, source_offset=offset, source_stride=self.stride, mask=mask),)

    def _copied_from(self) -> Expr:
        """The first element that is copied of each row: all are, or what is in the last tile that is not all there."""
        beyond, whole = const(0), self.nest.inner["upper"]
        for left, right in self.inside:
            beyond = maximum(beyond, left + 1 - right)
        each = math.lcm(self.nest.inner["step"].value, self.nest.columns)
        for there in self.present:
            whole = minimum(whole, maximum(there, 0) // each * each)
        return minimum(whole, (1 - minimum(beyond, 1)) * self.nest.pitch)


def _copied_rows(kernel: Kernel, memory: Memory) -> _CopiedRows | None:
    """What a staged memory has copies of; None where that is not rows of an input, for tiles alone."""
    nest = _nest_of(kernel, memory)
    if nest is None:
        return None
    inputs = {one.name for one in kernel.memories if one.role == "input" and one.dtype == memory.dtype}
    found, moving = set[tuple[str, Expr, Expr]](), {nest.row, nest.depth}
    checks: dict[tuple[Expr, Expr], None] = {}
    present: dict[Expr, None] = {}
    for op, below, along in _loads(nest):
        rows = _rows_from(nest, op, below, along) if op.is_(LOAD) and op["memory"] in inputs else None
        checked = None if rows is None else _checks_of_rows(nest, op, below)
        if rows is None or checked is None:
            return None
        found.add(rows)
        checks |= dict.fromkeys(checked)
        present |= dict.fromkeys(_present(nest, op, along))
    if len(found) != 1 or any(moving & there.symbols for there in present):
        return None
    if not nest.once:
        checks |= dict.fromkeys((nest.inner["upper"] - 1, there) for there in present)
        present.clear()
    return _CopiedRows(nest, *found.pop(), tuple(checks), tuple(present))


def _nest_of(kernel: Kernel, memory: Memory) -> _Nest | None:
    """The nest that fills a memory of rows, in front of the tiles that are read of it."""
    accesses = [op for op in kernel.walk() if op.get("memory") == memory.name]
    arrangement = memory.arrangement
    if arrangement is None or arrangement.swizzle is not None or memory.buffers > 1:
        return None
    down, *along = arrangement.digits
    if len(along) != 1 or down.dim == along[0].dim or (down.step, along[0].stride) != (1, 1):
        return None
    for ops in _blocks(kernel.body):
        for number, outer in enumerate(ops):
            inner = outer.body.ops[-1] if outer.is_(FOR) and len(outer.body.ops) == 1 else None
            if inner is None or not inner.is_(FOR) or outer["lower"] != const(0) or inner["lower"] != const(0):
                continue
            stores = [op for op in inner.body.ops if op.is_(STORE)]
            if not stores or any(op["memory"] != memory.name for op in stores):
                continue
            tiles = [op for behind in ops[number + 1 :] for op in behind.walk() if op.is_(LOAD_TILE)]
            read = [op for op in tiles if op["memory"] == memory.name]
            whole = all((op["offset"] // down.stride).high == 0 and op["rows"] == down.extent for op in read)
            if read and whole and _are(accesses, [*stores, *read]):
                places = (kernel.symbol(loop["induction"]) for loop in (outer, inner))
                columns = math.lcm(*(op["columns"] for op in read))
                cut = all((op["offset"] % down.stride).divisor % op["columns"] == 0 for op in read)
                again = any(_turns_again(op, read) for behind in ops[number + 1 :] for op in behind.walk())
                return _Nest(memory, outer, inner, down.stride, down.extent, columns, cut and not again, *places)
    return None


def _turns_again(loop: Op, tiles: list[Op]) -> bool:
    """Whether turns of a loop read the same tile."""
    if not loop.is_(FOR) or loop["upper"].high == loop["step"].value:
        return False
    return any(op in tiles and loop["induction"] not in op["offset"].symbols for op in loop.walk())


def _are(some: list[Op], others: list[Op]) -> bool:
    return sorted(map(id, some)) == sorted(map(id, others))


def _blocks(ops: tuple[Op, ...]) -> Iterator[tuple[Op, ...]]:
    yield ops
    for op in ops:
        if op.region:
            yield from _blocks(op.region.ops)


def _loads(nest: _Nest) -> Iterator[tuple[Op, int, int]]:
    """What makes up the values that a step of the nest stores, each with its row and depth in the step: loads, or
    anything else."""
    made = {value.name: op for op in nest.inner.body.ops for value in op.results}
    first = {nest.row: 0, nest.depth: 0}
    for store in nest.inner.body.ops:
        if not store.is_(STORE):
            continue
        at = store["offset"].substitute(first).constant_part()
        is_of_rows = store["offset"] == nest.at_row * nest.pitch + nest.at_depth + at
        if not is_of_rows or store["mask"] or store["valid"] is not None:
            yield store, 0, 0
            return
        waiting = [store.operands[0]]
        while waiting:
            value = waiting.pop()
            maker = made[value.name]
            if maker.is_(PACK):
                waiting += reversed(maker.operands)
            else:
                yield maker, *divmod(at, nest.pitch)
                at += value.vector.elements


def _rows_from(nest: _Nest, load: Op, below: int, along: int) -> tuple[str, Expr, Expr] | None:
    """The tensor, where its row is that the tile begins with, and how far apart rows are, by one load."""
    place = load["offset"]
    stride = place.substitute({nest.row: nest.at_row + 1}) - place
    step = place.substitute({nest.depth: nest.at_depth + 1}) - place
    if load.get("front") is not None or step != const(1) or not stride.symbols.isdisjoint((nest.row, nest.depth)):
        return None
    return load["memory"], place.substitute({nest.row: 0, nest.depth: 0}) - stride * below - along, stride


def _checks_of_rows(nest: _Nest, load: Op, below: int) -> Mask | None:
    """What has to hold for checks of one load's row to hold for all rows; None where that is not known."""
    checks: list[tuple[Expr, Expr]] = []
    for left, right in load["mask"]:
        if nest.depth in left.symbols | right.symbols:
            continue
        if nest.row in left.symbols:
            left = left - nest.at_row - below + nest.rows - 1
        checks.append((left, right))
    return None if any(nest.row in left.symbols | right.symbols for left, right in checks) else tuple(checks)


def _present(nest: _Nest, load: Op, along: int) -> Iterator[Expr]:
    """How many elements of a row there are, by each check of a load's place in it."""
    valid = load["valid"]
    beside = [right - left for left, right in load["mask"] if nest.depth in left.symbols | right.symbols]
    for there in (*beside, *([] if valid is None else [valid])):
        yield there + nest.at_depth + along
