"""Tile kernel in, tile kernel out: rows behind a product whose elements something joins are computed one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.names import wave_name
from wavespec.ir.rewriting import renamed
from wavespec.ir.tile_ops import ACROSS, ALIKE, INDEX, JOIN, MMA, PURE, READ, REGISTER, TAKE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.in_place import reads_in_place
from wavespec.lower.stage_operands import origin_in
from wavespec.lower.tile_properties import (
    loops_have_several_steps,
    products_have_instructions,
    products_read_their_operands,
    tiles_are_placed,
)
from wavespec.ops.index_map import stays_along
from wavespec.targets.machine import Machine

_STEP_ROWS = 1
"""One has enough elements to compute with, as something joins them."""


class WalkRows(Pass):
    """Compute what follows a product row by row, where something joins the elements of its rows.

    Before: what is behind the last product computes with all rows that a wave has, which are those of an instruction.
    After:  on machines whose registers hold the results of one instruction, results that are several of them wide are
            laid down in a private memory ``<name>.rows``, and what is behind is a loop over rows.  What the rows before
            have is read again, or kept in the same way.  Code is as long for one row as for many.
    Cases:  the kernel stays as it is where nothing joins elements along the columns of the product; where rows have
            something to do with each other, or what is changed is read before.
    """

    name: ClassVar[str] = "walk-rows"
    requires = (products_have_instructions, products_read_their_operands, tiles_are_placed)
    drops = (loops_have_several_steps,)  # a wave may have one row

    def applies_to(self, machine: Machine) -> bool:
        return machine.register_tile == "instruction"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        number = next((n for n, op in reversed([*enumerate(kernel.body)]) if _products(op)), None)
        if number is None or reads_in_place(kernel):  # reads are done again, which would find what was written
            return kernel
        before, behind = kernel.body[: number + 1], kernel.body[number + 1 :]
        rows = _rows(kernel, before[-1], behind, machine)
        if rows is None:
            return kernel
        walk = _Walk(kernel, rows, before, fresh_names(kernel))
        body = (*before, *walk.walked(behind))
        memories = (*kernel.memories, *walk.memories.values())
        return replace(kernel.with_symbols(rows.at), body=body, memories=memories)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The dim of rows, how many a wave has of it, how many waves there are, and the first row of a step in those."""

    dim: str
    own: int
    waves: int
    at: Expr

    def has(self, value: Value) -> bool:
        return self.dim in value.tile.dims

    def narrow(self, value: Value, name: str) -> Value:
        """A step of it, of each wave."""
        tile, step = value.tile, self.waves * _STEP_ROWS
        extents = (step if dim == self.dim else e for dim, e in zip(tile.dims, tile.extents, strict=True))
        return Value(name, replace(tile, extents=tuple(extents)))

    def moved(self, op: Op, wave: Expr) -> Op:
        """The operation for a step: its tiles have the rows of all waves behind each other."""
        origin, shift = op.get("origin"), self.at + wave * (self.own - _STEP_ROWS)
        if origin is None:
            return op
        return op.with_(origin=tuple((dim, at + shift if dim == self.dim else at) for dim, at in origin))


def _products(op: Op) -> list[Op]:
    return [inner for inner in op.walk() if inner.is_(MMA)]


def _rows(kernel: Kernel, product: Op, behind: Sequence[Op], machine: Machine) -> _Rows | None:
    """The rows of a product, if what is behind it is to be done row by row, and can be."""
    products = _products(product)
    sides = {(op["m"], op["n"]) for op in products}
    if len(sides) != 1:
        return None
    ((dim, columns),) = sides
    tile, instruction = products[-1].result.tile, instruction_of(products[-1], machine)
    waves = kernel.waves_along(dim)
    own, wide = tile.extent(dim) // waves, tile.extent(columns) // kernel.waves_along(columns)
    joins = any(op.is_(ACROSS) and op["dim"] == columns for op in behind)
    if not joins or own <= _STEP_ROWS or own * wide <= instruction.m * instruction.n:
        return None
    rows = _Rows(dim, own, waves, symbol(f"row_{dim}", 0, own - _STEP_ROWS, _STEP_ROWS))
    return rows if all(_is_of_rows(op, rows, tile.extent(dim)) for op in behind) else None


def _is_of_rows(op: Op, rows: _Rows, tile: int) -> bool:
    """Whether a row of its results is the operation on a row of its operands, or rows have nothing to do with it."""
    along = [value for inner in op.walk() for value in (*inner.results, *inner.operands) if rows.has(value)]
    if not along:
        return True
    if op.region or any(value.tile.extent(rows.dim) != tile for value in along):
        return False
    if op.is_(ACROSS):
        return op["dim"] != rows.dim
    if op.is_(TAKE):
        return stays_along(op, rows.dim)
    return op.is_(PURE | ALIKE) and not op.is_(JOIN)


class _Walk:
    """What is behind a product, row by row; ``before``: the product and what is in front of it."""

    def __init__(self, kernel: Kernel, rows: _Rows, before: Sequence[Op], fresh: Callable[[str], str]) -> None:
        self.kernel, self.rows, self.fresh = kernel, rows, fresh
        self.wave = kernel.symbol(wave_name(rows.dim)) if rows.waves > 1 else const(0)
        self.made = {value.name: op for op in before for value in op.results}
        self.memories = dict[str, Memory]()  # of values that were made before
        self.kept, self.inside = list[Op](), list[Op]()
        self.names = dict[str, Value]()

    def walked(self, behind: Sequence[Op]) -> tuple[Op, ...]:
        free = list[Op]()
        for op in behind:
            if any(map(self.rows.has, (*op.results, *op.operands))):
                for value in op.operands:
                    self._bring(value)
                self._narrowed(op)
            else:
                free.append(op)
        rows = self.rows
        attributes = {"induction": rows.at.args[0], "extent": self._there(), "step": const(_STEP_ROWS), "unroll": 1}
        region = Region((), tuple(self.inside), ())
        loop = Op("iterate", (), (), attribute_pairs({"dim": "", **attributes}), region, self.inside[0].span)
        return (*self.kept, *free, loop)

    def _there(self) -> Expr:
        """The rows of a wave that exist."""
        rows, kernel = self.rows, self.kernel
        split = next((split for split in kernel.distribution.workgroup if split.dim == rows.dim), None)
        if split is None:
            return const(rows.own)
        start = kernel.symbol(f"wg{split.axis}") * split.tile + self.wave * rows.own
        return minimum(rows.own, kernel.size(rows.dim) - start)

    def _bring(self, value: Value) -> None:
        """A row of a value that was made before: done again, or from memory."""
        if value.name not in self.made or value.name in self.names or not self.rows.has(value):
            return
        made = self.made[value.name]
        if made.is_(READ, REGISTER, INDEX) and not made.get("by_unit"):
            for operand in made.operands:
                self._bring(operand)
            self._narrowed(made)
            return
        self.memories[value.name] = memory = self._memory(value)
        self.names[value.name] = part = self.rows.narrow(value, self.fresh(value.name))
        whole = origin_in(self.kernel, memory, value.tile)
        self.kept.append(self._access("write", (value,), (), memory, whole, made))
        step = {**whole, self.rows.dim: self.rows.at - self.wave * _STEP_ROWS}
        self.inside.append(self._access("read", (), (part,), memory, step, made))

    def _narrowed(self, op: Op) -> None:
        rows = self.rows
        results = tuple(
            rows.narrow(value, self.fresh(value.name)) if rows.has(value) else value for value in op.results
        )
        self.inside.append(replace(rows.moved(renamed(op, self.names), self.wave), results=results))
        self.names |= {value.name: part for value, part in zip(op.results, results, strict=True)}

    def _memory(self, value: Value) -> Memory:
        """The rows of one wave."""
        tile = value.tile
        extents = tuple(tile.extent(dim) // self.kernel.waves_along(dim) for dim in tile.dims)
        arrangement = row_major(tile.dims, extents)
        sizes = tuple(map(const, extents))
        return Memory(f"{value.name}.rows", tile.dtype, tile.dims, sizes, "private", arrangement=arrangement)

    @staticmethod
    def _access(
        name: str,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        memory: Memory,
        origin: dict[str, Expr],
        made: Op,
    ) -> Op:
        attributes = {"memory": memory.name, "origin": tuple(origin.items())}
        return Op(name, operands, results, attribute_pairs(attributes), span=made.span)
