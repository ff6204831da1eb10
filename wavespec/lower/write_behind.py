"""Thread kernel in, thread kernel out: sums of tile registers are written beside the products of the next tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

from wavespec.ir.expr import Expr, const, less, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs, rewrite
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import CONSTANT, FOR, LOAD, LOAD_TILE, MMA, PREFETCH, STORE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.blocks_by_rows import blocks_by_rows
from wavespec.lower.drop_checks import holds_in
from wavespec.lower.row_of_sums import RowOfSums, row_of_sums
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
    Cases:  what is computed of a row before it is written, of inputs and of what the same row of a private memory had,
            is computed there.  Where something else is done than the same with every row, and where rows do not lie
            equally far from each other, all stays as it is.  Lines need no announcement any more.
    """

    name: ClassVar[str] = "write-behind"
    requires = (is_of_lanes, symbols_are_in_scope, waves_are_loops)

    def applies_to(self, machine: Machine) -> bool:
        return machine.shared.matrix_load == "tile"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, memories, counted = fresh_names(kernel), list[Memory](), list[Expr]()
        zeros = {op.result.name for op in kernel.walk() if op.is_(CONSTANT) and op["value"] == 0}
        made = {value.name: op for op in kernel.walk() for value in op.results}

        def change(op: Op) -> tuple[Op, ...]:
            tile = _tile_of(op, kernel, machine, made, fresh)
            if tile is None or tile.loop.operands[0].name not in zeros:
                return (op,)
            sums = Memory(fresh("sums"), tile.dtype, ("element",), (const(tile.elements),), "private")
            memories.append(sums)
            counted.append(symbol(fresh("row"), 0, tile.row.rows - 1))
            return _Written(op, tile, sums.name, counted[-1], kernel, fresh).ops()

        body = rewrite(kernel.body, change, FOR)
        return (
            replace(kernel.with_symbols(*counted), memories=(*kernel.memories, *memories), body=body)
            if memories
            else kernel
        )


@dataclass(frozen=True, slots=True)
class _Tile:
    """A loop of products, and what becomes of a row of its sums."""

    loop: Op
    row: RowOfSums

    @property
    def elements(self) -> int:
        return self.row.rows * self.row.columns

    @property
    def dtype(self) -> Any:
        return self.loop.result.vector.dtype


def _tile_of(
    op: Op, kernel: Kernel, machine: Machine, made: Mapping[str, Op], fresh: Callable[[str], str]
) -> _Tile | None:
    """The tile that each turn of a loop sums up and writes; None where turns do anything else."""
    loops = [one for one in op.body.ops if one.is_(FOR)]
    if op.operands or op["step"] != const(1) or op["lower"] != const(0) or len(loops) != 1:
        return None
    loop = loops[0]
    at = op.body.ops.index(loop)
    instruction = _row_of_products(loop, machine)
    if instruction is None:
        return None
    inputs = {one.name for one in kernel.memories if one.role == "input"}
    private = {one.name for one in kernel.memories if one.space == "private"}
    waiting = [one for one in op.body.ops[:at] if one.is_(LOAD) and one["memory"] in inputs]
    others = [one for one in op.body.ops[:at] if one not in waiting]
    ops = blocks_by_rows([*waiting, *op.body.ops[at + 1 :]], instruction.n, private, fresh)
    row = row_of_sums(ops, loop.result, instruction.m, instruction.n, made, partial(_holds_in_turns, op, kernel))
    if row is None or not _are_announced(others, row.written, inputs):
        return None
    read = {name for one in loop.body.ops if one.is_(LOAD_TILE) for name in (one["memory"], one.get("source"))}
    return _Tile(loop, row) if read.isdisjoint(row.written) else None


def _holds_in_turns(over: Op, kernel: Kernel, left: Expr, right: Expr) -> bool:
    return less(left, right) or holds_in(over, left, right, kernel.symbol(over["induction"]), 1)


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


def _are_announced(ops: Sequence[Op], written: Set[str], inputs: Set[str]) -> bool:
    """Whether all else in front of the products are announcements of what is written, which is no input."""
    return inputs.isdisjoint(written) and all(op.is_(PREFETCH) and op["memory"] in written for op in ops)


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
        turn, turns, rows = self.kernel.symbol(self.over["induction"]), self.over["upper"], self.tile.row.rows
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
        ops = self.tile.row.of(self.row, self.sums, {self.over["induction"]: turn}, self.fresh, build)
        bounds = {"lower": minimum(lower, waiting), "upper": minimum(upper, waiting), "step": const(1), "unroll": 1}
        attributes = attribute_pairs({"induction": self.row.args[0], **bounds})
        return Op(FOR.name, (), (), attributes, Region((), ops, ()), self.over.span)


_PLAIN: Final = {"buffer": const(0), "mask": (), "valid": None}
