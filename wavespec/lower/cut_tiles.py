"""Tile kernel in, tile kernel out: what would fill registers many times over is computed strip by strip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm, prod
from typing import ClassVar

from wavespec.ir.expr import const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value
from wavespec.ir.tile_ops import COPY, INDEX, ITERATE, MMA, READ, REGISTER, SCAN, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.in_place import reads_in_place
from wavespec.lower.phases_of_strips import Phases, Strips, can_be_cut
from wavespec.lower.split_reduction import remaining
from wavespec.lower.tile_properties import (
    loops_have_several_steps,
    products_have_instructions,
    products_read_their_operands,
    tiles_are_placed,
)
from wavespec.targets.machine import Machine

_MOST_VECTORS = 2500
"""That operations of a block have written out: some 15,000 lines, five seconds of a compiler."""
_STRIP_VECTORS = 8
"""Of a value in a strip: enough to compute with, and few registers."""
_WORD_BYTES = 4
_STEPS_OF_SCANS = 8
"""Of a vector: four that move elements, and four that add them."""
_LITTLE = 16
"""A share of what is written out: loops that carry no more of it keep that in memory while strips are computed."""


class CutTiles(Pass):
    """Compute strip by strip what would fill the registers of a wave many times over.

    Before: a wave has all of a tile written out, vector by vector.
    After:  on machines whose waves take turns, where the operations of a kernel, or of a loop's body, have more than
            ``_MOST_VECTORS`` vectors, they stand in loops over strips of a dim, as those of `StripTiles`: what a later
            loop needs is read again, or kept in a private memory ``<name>.strips``.  Of the dims that allow it, it is
            the one with which least is written out.
            What a loop carries along the dim is in such a memory in the meantime, where it is little.
    Cases:  nothing is cut where something needs whole tiles that only registers hold, or what is changed is read.
    """

    name: ClassVar[str] = "cut-tiles"
    requires = (products_have_instructions, products_read_their_operands, tiles_are_placed)
    drops = (loops_have_several_steps,)  # those over strips may have one: dims may have less than a tile

    def applies_to(self, machine: Machine) -> bool:
        return machine.register_tile == "instruction"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return kernel if reads_in_place(kernel) else _Cutting(kernel, machine).cut()


class _Cutting:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh_names(kernel)

    def cut(self) -> Kernel:
        body = self._block(self.kernel.body, {})
        return replace(self.kernel, body=body)

    def _block(self, ops: Sequence[Op], outside: Mapping[str, Op], loop: Op | None = None) -> tuple[Op, ...]:
        """The operations of the kernel, or of the body of a loop, and of loops in them; ``outside``: reads and the like
        around them, by their results."""
        phases = self._phases(ops, loop, outside)
        return self._inside(ops if phases is None else self._stripped(phases), outside)

    def _inside(self, ops: Sequence[Op], outside: Mapping[str, Op]) -> tuple[Op, ...]:
        again = [op for op in _done_again(ops) if not op.operands]
        outside = {**outside, **{op.result.name: op for op in again}}
        return tuple(new for op in ops for new in (self._loop(op, outside) if op.is_(ITERATE) else (op,)))

    def _loop(self, loop: Op, outside: Mapping[str, Op]) -> tuple[Op, ...]:
        """A loop, and around it what puts to memory, and takes from there, what it carries in memory."""
        phases = self._phases(loop.body.ops, loop, outside)
        if phases is None:
            return (replace(loop, region=replace(loop.body, ops=self._inside(loop.body.ops, outside))),)
        ops = self._inside(self._stripped(phases), outside)
        stays = [argument.name in phases.staying for argument in loop.body.arguments]
        carried = [n for n, is_in_memory in enumerate(stays) if not is_in_memory]
        before = [
            phases.whole_to_memory(loop.operands[n], loop.body.arguments[n]) for n, one in enumerate(stays) if one
        ]
        after = [
            phases.whole_from_memory(loop.results[n], loop.body.arguments[n]) for n, one in enumerate(stays) if one
        ]
        body = loop.body
        region = Region(tuple(body.arguments[n] for n in carried), ops, tuple(body.yields[n] for n in carried))
        operands, results = (tuple(values[n] for n in carried) for values in (loop.operands, loop.results))
        return (*before, replace(loop, operands=operands, results=results, region=region), *after)

    def _stripped(self, phases: Phases) -> tuple[Op, ...]:
        ops = phases.stripped()
        kernel = self.kernel.with_symbols(phases.strips.at)
        memories = dict.fromkeys(phases.memories.values())  # one for what a loop carries in it, and goes on with
        self.kernel = replace(kernel, memories=(*kernel.memories, *memories))
        return ops

    def _phases(self, ops: Sequence[Op], loop: Op | None, outside: Mapping[str, Op]) -> Phases | None:
        strips = self._strips(ops, loop, outside)
        return None if strips is None else self._in_phases(strips, ops, loop, outside)

    def _in_phases(self, strips: Strips, ops: Sequence[Op], loop: Op | None, outside: Mapping[str, Op]) -> Phases:
        carried = [] if loop is None else [*zip(loop.body.arguments, loop.body.yields, strict=True)]
        around = _from_outside(ops, outside)
        return Phases(self.kernel, ops, strips, self.fresh, outside, around, carried)

    # ------------------------------------------------------------------------------------------------ what to cut, if
    def _strips(self, ops: Sequence[Op], loop: Op | None, outside: Mapping[str, Op]) -> Strips | None:
        """Those with which least is written out; None where that is little anyway, or nothing can be cut."""
        plain = [op for op in ops if not op.is_(ITERATE)]
        if sum(map(self._vectors, plain)) <= _MOST_VECTORS:
            return None
        whole = [*_carried(loop), *_from_outside(ops, outside)]
        tiles = {dim: value.tile.extent(dim) for op in plain for value in _values(op) for dim in value.tile.dims}
        kept = {dim: [value for value in whole if dim in value.tile.dims] for dim in tiles}
        for dims in ({dim for dim in kept if not kept[dim]}, {dim for dim in kept if kept[dim]}):
            found = [
                strips
                for dim in sorted(dims)
                if (strips := self._along(dim, tiles[dim], ops, loop, outside)) is not None
                if self._keeps_little(strips, kept[dim], ops, loop, outside)
            ]
            if found:
                return min(found, key=lambda strips: self._written_out(plain, strips))
        return None

    def _keeps_little(
        self, strips: Strips, kept: Sequence[Value], ops: Sequence[Op], loop: Op | None, outside: Mapping[str, Op]
    ) -> bool:
        """Whether little is in memory for the time of the strips alone; what stays there from step to step was in no
        registers either."""
        plain = [op for op in ops if not op.is_(ITERATE)]
        little = sum(map(self._vectors, plain)) // _LITTLE
        if sum(map(self._vectors_of, kept)) <= little:
            return True
        stay = self._in_phases(strips, ops, loop, outside).staying if loop is not None else {}
        moved = [value for value in kept if value.name not in stay and value.name not in stay.values()]
        return sum(map(self._vectors_of, moved)) <= little

    def _written_out(self, ops: Sequence[Op], strips: Strips) -> int:
        """Vectors, times elements of the tile along the dim, so that all numbers are whole."""
        elements = (strips.width if any(map(strips.has, _values(op))) else strips.tile for op in ops)
        return sum(self._vectors(op) * count for op, count in zip(ops, elements, strict=True))

    def _along(
        self, dim: str, tile: int, ops: Sequence[Op], loop: Op | None, outside: Mapping[str, Op]
    ) -> Strips | None:
        """Strips of a dim, if what there is can be cut along it."""
        width = self._width(dim, tile, ops)
        if self.kernel.waves_along(dim) > 1 or width >= tile or tile % width:
            return None
        # What a loop carries is read whole behind the strips; products of what is laid down go as far as its dim does.
        is_whole = loop is not None and (
            (loop["dim"] == dim and not self._go_in_steps(dim, width, ops))
            or any(dim in value.tile.dims for value in _carried(loop))
        )
        extent = const(tile) if is_whole else remaining(self.kernel, dim, tile, width)
        at = symbol(self.fresh(f"cut_{dim}"), 0, tile - width, width)
        strips = Strips(dim, tile, width, at, extent)
        scans = [op for op in ops if op.is_(SCAN) and op["dim"] == dim and self._is_little(op, ops)]
        whole = [op for op in ops if (op.is_(MMA) and op["k"] == dim) or (op.is_(ITERATE) and _only_takes(op, dim))]
        again = {id(op) for op in _done_again(ops)}
        fits = all(id(op) in again for op in ops if op.is_(READ) and strips.has(op.result))
        plain = [op for op in (*ops, *outside.values()) if op.is_(READ) and not any(map(strips.has, op.operands))]
        reads = {op.result.name for op in plain}
        fits = fits and all(value.name in reads for op in whole for value in _taken(op) if strips.has(value))
        return strips if fits and all(can_be_cut(op, strips) for op in ops if op not in [*whole, *scans]) else None

    def _is_little(self, op: Op, ops: Sequence[Op]) -> bool:
        """Whether an operation, and all that it takes of these, is little of what is written out."""
        made = {value.name: one for one in ops for value in one.results}
        needed, waiting = [op], [op]
        while waiting:
            for value in waiting.pop().operands:
                one = made.get(value.name)
                if one is not None and one not in needed:
                    needed.append(one)
                    waiting.append(one)
        little = sum(self._vectors(one) for one in ops if not one.is_(ITERATE)) // _LITTLE
        return not any(one.is_(ITERATE) for one in needed) and sum(map(self._vectors, needed)) <= little

    def _go_in_steps(self, dim: str, width: int, ops: Sequence[Op]) -> bool:
        """Whether all that is whole behind strips are products, which read so many elements of the dim at a time."""
        reads = {op.result.name for op in ops if op.is_(READ) and not op.operands}
        products = [op for op in ops if op.is_(MMA) and op["k"] == dim]
        rows = [instruction_of(op, self.machine) for op in products]
        are_read = all(value.name in reads for op in products for value in op.operands[:2])
        return are_read and not any(width % row.k for row in rows)

    def _width(self, dim: str, tile: int, ops: Sequence[Op]) -> int:
        """Elements of a strip: as instructions have, and vectors of what lies side by side; enough for a value."""
        products = [(op, instruction_of(op, self.machine)) for op in ops if op.is_(MMA)]
        sides = [{op["m"]: one.m, op["n"]: one.n, op["k"]: one.k}.get(dim, 1) for op, one in products]
        width = lcm(*sides)
        most = max(self._vectors(op) for op in ops if any(dim in value.tile.dims for value in _values(op)))
        along = self._along_vectors(dim, ops)
        while width < tile and (width % along or most * width < _STRIP_VECTORS * tile):
            width *= 2
        return width

    def _along_vectors(self, dim: str, ops: Sequence[Op]) -> int:
        """Elements of a dim that accesses take together: as many as bytes of a register where the largest tiles of
        tensors lie along it; where staged tiles do, as words of one, which blocks are turned for, or, where their rows
        are those of tensors decoded, as a register has of these."""
        accesses = [(op, self.kernel.memory(op["memory"])) for op in ops if op.is_(READ | WRITE)]
        tensors = [(op, memory) for op, memory in accesses if memory.space == "global"]
        most = max((self._vectors(op) for op, _ in tensors), default=0)
        if any(memory.nearest_dim == dim for op, memory in tensors if self._vectors(op) == most):
            return self.machine.vector_bytes
        staged = [m for op, m in accesses if op.is_(WRITE) and m.space != "global" and m.nearest_dim == dim]
        bits = [
            m.dtype.bits for op, m in tensors if op.is_(READ) and m.nearest_dim == dim and dim in op.result.tile.dims
        ]
        if any(_has_rows(memory) and min(bits, default=64) < memory.dtype.bits for memory in staged):
            return self.machine.vector_bytes * 8 // min(bits)
        return self.machine.vector_bytes // _WORD_BYTES if staged else 1

    def _vectors(self, op: Op) -> int:
        """Of what a wave has of the largest tile that an operation is about; those of scans count for each step."""
        steps = _STEPS_OF_SCANS if op.is_(SCAN) else 1
        return steps * max((self._vectors_of(value) for value in _values(op)), default=0)

    def _vectors_of(self, value: Value) -> int:
        tile, kernel = value.tile, self.kernel
        elements = prod(tile.extent(dim) // kernel.waves_along(dim) for dim in tile.dims)
        return -(-elements * tile.dtype.bits // (self.machine.vector_bytes * 8))


def _has_rows(memory: Memory) -> bool:
    """Whether a staged tile is arranged row by row, not in panels."""
    digits = memory.arrangement.digits if memory.arrangement is not None else ()
    return bool(digits) and [digit.dim for digit in digits].count(digits[-1].dim) == 1


def _values(op: Op) -> tuple[Value, ...]:
    return (*op.results, *op.operands)


def _only_takes(loop: Op, dim: str) -> bool:
    """Whether no loop in it carries anything of the dim, which is then whole for all of its steps."""
    return not any(dim in value.tile.dims for op in loop.walk() if op.is_(ITERATE) for value in _values(op))


def _taken(op: Op) -> tuple[Value, ...]:
    """What an operation on whole tiles takes: a product the two that it multiplies, a loop what is not made in it."""
    if not op.is_(ITERATE):
        return op.operands[:2]
    made = {
        value.name for inner in op.walk() for value in (*inner.results, *(inner.body.arguments if inner.region else ()))
    }
    return tuple(value for inner in op.walk() for value in inner.operands if value.name not in made)


def _done_again(ops: Sequence[Op]) -> Iterator[Op]:
    """Reads and the like that find later on what they find where they are."""
    written = set[str]()
    for op in reversed(ops):
        written |= {inner["memory"] for inner in op.walk() if inner.is_(WRITE, COPY)}
        if op.is_(REGISTER, INDEX) or (op.is_(READ) and op["memory"] not in written):
            yield op


def _from_outside(ops: Sequence[Op], outside: Mapping[str, Op]) -> tuple[Value, ...]:
    """What operations, but the loops among them, take that is neither made by one of them nor read again."""
    made = {value.name for op in ops for value in op.results} | outside.keys()
    taken = {value.name: value for op in ops if not op.is_(ITERATE) for value in op.operands}
    return tuple(value for name, value in taken.items() if name not in made)


def _carried(loop: Op | None) -> Iterator[Value]:
    if loop is not None:
        yield from (*loop.body.arguments, *loop.body.yields)
