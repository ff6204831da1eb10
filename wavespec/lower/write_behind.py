"""Thread kernel in, thread kernel out: sums of tile registers are written beside the products of the next tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs, rewrite
from wavespec.ir.rewriting import substituted
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ACCUMULATE, CONSTANT, FOR, LOAD_TILE, MMA, PREFETCH, SLICE, STORE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, waves_are_loops
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_ROWS: Final = 2
"""Rows of sums, at least, that a step of products writes: a line or two each, in the time of four products."""


class WriteBehind(Pass):
    """Write the sums of a tile row by row beside the products of the next one.

    Before: each turn of a loop over tiles is a loop of products in tile registers, then all that is written of its
            sums.
    After:  the sums go to a memory of their own; steps of the next turn's products write rows of it, a loop behind them
            those that there were no steps for, and one behind the last turn its rows.
    Why:    sums are there long after the last product was issued, and lines of results come from far: with all of that
            at once no product is made meanwhile.
    Cases:  sums that are computed with before they are written stay as they are, and where rows do not lie equally far
            from each other.  Lines need no announcement any more.
    """

    name: ClassVar[str] = "write-behind"
    requires = (is_of_lanes, symbols_are_in_scope, waves_are_loops)

    def applies_to(self, machine: Machine) -> bool:
        return machine.shared.matrix_load == "tile"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, memories, counted = fresh_names(kernel), list[Memory](), list[Expr]()
        zeros = {op.result.name for op in kernel.walk() if op.is_(CONSTANT) and op["value"] == 0}

        def change(op: Op) -> tuple[Op, ...]:
            tile = _tile_of(op, kernel, machine)
            if tile is None or tile.loop.operands[0].name not in zeros:
                return (op,)
            sums, row = (
                Memory(fresh("sums"), tile.dtype, ("element",), (const(tile.elements),), "private"),
                fresh("row"),
            )
            memories.append(sums)
            counted.append(symbol(row, 0, tile.rows - 1))
            return _Written(op, tile, sums.name, counted[-1], kernel, fresh).ops()

        body = rewrite(kernel.body, change, FOR)
        return (
            replace(kernel.with_symbols(*counted), memories=(*kernel.memories, *memories), body=body)
            if memories
            else kernel
        )


@dataclass(frozen=True, slots=True)
class _Tile:
    """A loop of products, and what it takes to write row 0 of its sums: each write with its place among the sums, and
    how far the expressions of a row are from those of the row before."""

    loop: Op
    rows: int
    columns: int
    writes: tuple[tuple[Op, int], ...]
    apart: tuple[dict[str, Any], ...]

    @property
    def elements(self) -> int:
        return self.rows * self.columns

    @property
    def dtype(self) -> Any:
        return self.loop.result.vector.dtype


def _tile_of(op: Op, kernel: Kernel, machine: Machine) -> _Tile | None:
    """The tile that each turn of a loop sums up and writes; None where turns do anything else."""
    loops = [one for one in op.body.ops if one.is_(FOR)]
    if op.operands or op["step"] != const(1) or op["lower"] != const(0) or len(loops) != 1:
        return None
    loop = loops[0]
    at = op.body.ops.index(loop)
    row = _row_of_products(loop, machine)
    writes = None if row is None else _writes(op.body.ops[at + 1 :], loop)
    if row is None or not writes or not _are_announced(op.body.ops[:at], writes, kernel):
        return None
    read = {name for one in loop.body.ops if one.is_(LOAD_TILE) for name in (one["memory"], one.get("source"))}
    return _in_rows(loop, row, writes) if read.isdisjoint(one["memory"] for one, _ in writes) else None


def _row_of_products(loop: Op, machine: Machine) -> MatrixInstruction | None:
    """The instruction of a loop that loads tiles and adds up one product, and nothing else."""
    products = [op for op in loop.body.ops if op.is_(MMA)]
    others = [op for op in loop.body.ops if not op.is_(MMA, LOAD_TILE)]
    if (
        len(products) != 1
        or others
        or len(loop.operands) != 1
        or loop["lower"] != const(0)
        or not loop["step"].is_const
    ):
        return None
    row = machine.instruction(products[0]["instruction"])
    return row if row is not None and row.in_tile_registers else None


def _writes(ops: Sequence[Op], loop: Op) -> list[tuple[Op, int]]:
    """What is written of the sums, with its place among these; nothing where something else is done."""
    places = {op.result.name: op["start"] for op in ops if op.is_(SLICE) and op.operands[0].name == loop.result.name}
    writes = [op for op in ops if op.is_(ACCUMULATE, STORE) and op.operands[0].name in places]
    return [(op, places[op.operands[0].name]) for op in writes] if len(writes) == len(places) == len(ops) / 2 else []


def _are_announced(ops: Sequence[Op], writes: Sequence[tuple[Op, int]], kernel: Kernel) -> bool:
    """Whether all that stands in front of the products are announcements of what is written, which nothing reads."""
    written = {op["memory"] for op, _ in writes}
    are_results = all(kernel.memory(name).role != "input" for name in written)
    return are_results and all(op.is_(PREFETCH) and op["memory"] in written for op in ops)


def _in_rows(loop: Op, row: MatrixInstruction, writes: Sequence[tuple[Op, int]]) -> _Tile | None:
    """The writes as those of row 0, if all rows are alike."""
    each, left = divmod(len(writes), row.m)
    if left or any(start // row.n != number // each for number, (_, start) in enumerate(writes)):
        return None
    first = tuple(writes[:each])
    apart = tuple(_apart(op, other) for (op, _), (other, _) in zip(first, writes[each : 2 * each], strict=True))
    for number, (op, start) in enumerate(writes):
        model, place = first[number % each]
        there = _moved(model, apart[number % each], const(number // each))
        if start != place + number // each * row.n or there.attributes != op.attributes or there.name != op.name:
            return None
    return _Tile(loop, row.m, row.n, first, apart)


def _apart(op: Op, other: Op) -> dict[str, Any]:
    """How far the expressions of an access are from those of the same one a row before."""
    mask = [
        (left - before, right - end) for (before, end), (left, right) in zip(op["mask"], other["mask"], strict=False)
    ]
    return {"offset": other["offset"] - op["offset"], "mask": mask}


def _moved(op: Op, apart: dict[str, Any], rows: Expr) -> Op:
    """An access of row 0, so many rows further down."""
    pairs = zip(op["mask"], apart["mask"], strict=False)
    mask = tuple((left + rows * down, right + rows * away) for (left, right), (down, away) in pairs)
    return op.with_(offset=op["offset"] + rows * apart["offset"], mask=mask)


@dataclass(frozen=True, slots=True)
class _Written:
    """A loop over tiles that writes what the turn before has summed up."""

    over: Op
    tile: _Tile
    sums: str
    row: Expr
    kernel: Kernel
    fresh: Callable[[str], str]

    def ops(self) -> tuple[Op, ...]:
        turn, turns, rows = self.kernel.symbol(self.over["induction"]), self.over["upper"], self.tile.rows
        loop = self.tile.loop
        step, index, waiting = loop["step"].value, self.kernel.symbol(loop["induction"]), minimum(turn, 1) * rows
        most = loop["upper"].high
        each = max(_ROWS, rows if most is None else -(-rows * step // max(most, step)))
        beside = self._rows(index // step * each, (index // step + 1) * each, waiting, turn - 1)
        products = replace(loop, region=replace(loop.body, ops=(*loop.body.ops, beside)))
        behind = self._rows((loop["upper"] + (step - 1)) // step * each, waiting, waiting, turn - 1)
        kept = attribute_pairs({**_PLAIN, "memory": self.sums, "offset": const(0)})
        store = Op(STORE.name, (loop.result,), (), kept, span=loop.span)
        body = replace(self.over.body, ops=(products, behind, store))
        last = self._rows(const(0), const(rows), minimum(maximum(turns, 0), 1) * rows, turns - 1)
        return replace(self.over, region=body), last

    def _rows(self, lower: Expr, upper: Expr, waiting: Expr, turn: Expr) -> Op:
        """A loop that writes rows of the tile of a turn, as far as there are so many."""
        build = ThreadBuilder(self.fresh)
        build.span = self.over.span
        of_turn, stores = {self.over["induction"]: turn}, list[Op]()
        for (op, start), apart in zip(self.tile.writes, self.tile.apart, strict=True):
            size = op.operands[0].vector.elements
            value = build.load(self.sums, self.tile.dtype, size, self.row * self.tile.columns + start)
            stores.append(replace(substituted(_moved(op, apart, self.row), of_turn), operands=(value,)))
        bounds = {"lower": minimum(lower, waiting), "upper": minimum(upper, waiting), "step": const(1), "unroll": 1}
        attributes = attribute_pairs({"induction": self.row.args[0], **bounds})
        return Op(FOR.name, (), (), attributes, Region((), (*build.ops, *stores), ()), self.over.span)


_PLAIN: Final = {"buffer": const(0), "mask": (), "valid": None}
