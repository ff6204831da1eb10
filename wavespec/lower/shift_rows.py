"""Tile kernel in, tile kernel out: tiles of rows that start anywhere begin where a wide access may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, TileType, rewrite
from wavespec.ir.names import wave_name
from wavespec.ir.rewriting import substituted
from wavespec.ir.tile_ops import CAST, COPY, ELEMENTWISE, INDEX, ITERATE, JOIN, MMA, READ, REDUCE, REGISTER, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.in_place import reads_in_place
from wavespec.lower.tile_properties import tiles_are_placed, tiles_have_extents
from wavespec.targets.machine import Machine

_FOLLOW = READ | WRITE | REDUCE | JOIN | INDEX | ELEMENTWISE | CAST | REGISTER | ITERATE
"""Operations that mean the same where their tile begins elsewhere."""


class ShiftRows(Pass):
    """Begin tiles of rows that start anywhere at the wide access in which the row does.

    Before: a tile begins at an element of the row, which may be no multiple of a wide access of the machine.
    After:  where a wave has one row at a time, tiles along it begin up to an access less one element further in front,
            so that all of them are aligned.  Accesses that are so have ``around``: loads take all of an access of which
            one element is in the row, and stores leave out what is not.  What joins elements leaves out those in front
            of the row as well as those behind it.  Loops take a step more where that is what it takes.
    """

    name: ClassVar[str] = "shift-rows"
    requires = (tiles_have_extents, tiles_are_placed)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not machine.globals.reads_around or any(op.is_(MMA, COPY) for op in kernel.walk()):
            return kernel
        if reads_in_place(kernel):  # what is around a row is that of others, who may have written it
            return kernel
        for split in kernel.distribution.loops:
            rows = _rows_along(kernel, split.dim, machine)
            if rows is not None and _fits(kernel, split.dim, split.tile, rows):
                kernel = _with_further_steps(kernel, split.dim, split.tile, rows)
                kernel = replace(kernel, body=rewrite(kernel.body, rows.shifted))
        return kernel


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows along a dim: accesses to those of ``aligned`` memories are so ``shift`` elements in front of a multiple of
    ``width``; others are ``read`` as well."""

    dim: str
    width: int
    shift: Expr
    aligned: frozenset[str]
    read: frozenset[str]

    def shifted(self, op: Op) -> tuple[Op, ...]:
        if op.is_(ITERATE) and op["dim"] == self.dim:
            return (op.with_(extent=op["extent"] + (self.width - 1)),)
        origin = op.get("origin")
        if origin is None or self.dim not in dict(origin):
            return (op,)
        op = op.with_(origin=tuple((dim, at - self.shift if dim == self.dim else at) for dim, at in origin))
        return (op.with_(around=True) if self._is_around(op) else op,)

    def _is_around(self, op: Op) -> bool:
        """Whether an access is to rows: aligned ones, or some that are read beside them."""
        return (op.is_(READ) and op["memory"] in self.read) or (op.is_(WRITE) and op["memory"] in self.aligned)


def _rows_along(kernel: Kernel, dim: str, machine: Machine) -> _Rows | None:
    """The rows along a dim, where some start anywhere and everything goes along with them."""
    ops = [op for op in kernel.walk() if _has(op, dim)]
    if not all(op.is_(_FOLLOW) and not op.get("at") for op in ops) or any(_is_staged(kernel, op) for op in ops):
        return None
    starts: dict[str, set[Expr]] = {}
    for op in ops:
        memory = kernel.memory(op["memory"]) if op.is_(READ, WRITE) else None
        if memory is None or not _is_of_rows(kernel, op, memory, dim):
            continue
        starts.setdefault(memory.name, set()).add(_start(kernel, op, memory, dim))
    if not starts:
        return None
    memories = [kernel.memory(name) for name in starts]
    width = machine.globals.access_bytes // min(memory.dtype.bytes for memory in memories)
    shifts = {name: {start % width for start in found} for name, found in starts.items()}
    (shift, *_) = next(iter(shifts.values()))
    alike = frozenset(name for name, found in shifts.items() if found == {shift})
    return None if shift.is_const or not alike else _Rows(dim, width, shift, alike, frozenset(starts))


def _has(op: Op, dim: str) -> bool:
    """Whether an operation is about elements along a dim."""
    return dim in dict(op.get("origin") or ()) or any(dim in v.tile.dims for v in (*op.results, *op.operands))


def _is_staged(kernel: Kernel, op: Op) -> bool:
    """Whether a tile is read from shared memory, to which copies bring it from an element of the tensor on."""
    return op.is_(READ) and kernel.memory(op["memory"]).staged


def _is_of_rows(kernel: Kernel, op: Op, memory: Memory, dim: str) -> bool:
    """Whether an access is to rows of a tensor of which a wave has one."""
    if memory.space != "global" or memory.contiguous_dim != dim or memory.dtype.is_packed or op.get("combine"):
        return False
    tile: TileType = (*op.results, *op.operands)[0].tile
    extents = zip(tile.dims, tile.extents, strict=True)
    return all(of == dim or extent == kernel.waves_along(of) for of, extent in extents)


def _start(kernel: Kernel, op: Op, memory: Memory, dim: str) -> Expr:
    """Where the row of an access starts in the tensor."""
    waves = dict(kernel.waves)
    origin = {
        of: const(0) if of == dim else at + (kernel.symbol(wave_name(of)) if waves.get(wave_name(of), 1) > 1 else 0)
        for of, at in op["origin"]
    }
    return memory.offset(origin)


def _fits(kernel: Kernel, dim: str, tile: int, rows: _Rows) -> bool:
    """Whether tiles of one step have room for the longest row and what is in front of it, and loops take all steps."""
    size = kernel.all_sizes[dim]
    loops = [op for op in kernel.walk() if op.is_(ITERATE) and op["dim"] == dim]
    if any(f"at_{dim}" in _without_origin(op).symbols for op in kernel.walk()):
        return False  # a condition, or bounds of a loop inside: of the tile as it was
    is_split = kernel.distribution.split > 1  # workgroups take steps in turns, whatever their number
    others = ("stride", "goes_on", "once") if is_split else ("lower", "stride", "goes_on", "once")
    if size.high is None or any(op.get(key) is not None for op in loops for key in others):
        return False
    starts = (dict(op.get("origin") or ()).get(dim) for op in kernel.walk())
    in_one_step = any(start is not None and f"at_{dim}" not in start.symbols for start in starts)
    return not in_one_step or size.high + rows.width - 1 <= tile * kernel.distribution.split


def _without_origin(op: Op) -> Op:
    return replace(op, attributes=tuple(pair for pair in op.attributes if pair[0] != "origin"))


def _with_further_steps(kernel: Kernel, dim: str, tile: int, rows: _Rows) -> Kernel:
    """The kernel with an induction that reaches as far as shifted tiles do."""
    high = kernel.all_sizes[dim].high
    before = next((known for known in kernel.symbols if known.args[0] == f"at_{dim}"), None)
    if high is None or before is None:
        return kernel
    after = symbol(f"at_{dim}", 0, (high + rows.width - 2) // tile * tile, tile)
    symbols = tuple(after if known is before else known for known in kernel.symbols)
    body = tuple(substituted(op, {f"at_{dim}": after}) for op in kernel.body)
    return replace(kernel, symbols=symbols, body=body)
