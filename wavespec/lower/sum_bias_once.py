"""Thread kernel in, thread kernel out: what a biased operand adds to a column is summed once, not beside each tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, VectorType, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.rewriting import copied, without_unused
from wavespec.ir.thread_ops import CONSTANT, FILLS, FOR, LOAD, MMA, NAMES_A_SYMBOL, PURE, WRITES_MEMORY
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, waves_are_loops
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_FILLED: Final = WRITES_MEMORY | FILLS


class SumBiasOnce(Pass):
    """Take the bias of one operand away by sums that are made where the other one is packed.

    Before: the emitter sums beside each product what the bias of ``a`` adds to each column of ``b``: a product more for
            each vector of ``b``.
    After:  where a loop of products is in one that packs nothing of ``b`` and whose turns all read the same of it, the
            sums are made in front of that one, negated, in a private memory; sums of products start there, and the
            product is ``unbiased``.
    Cases:  of ``b`` in place, and of a loop of one turn, nothing is saved; both stay as they are.
    """

    name: ClassVar[str] = "sum-bias-once"
    requires = (is_of_lanes, symbols_are_in_scope, waves_are_loops)

    def applies_to(self, machine: Machine) -> bool:
        return any(row.a.bias and row.b.in_panels for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        sums = _Sums(kernel, machine, fresh_names(kernel))
        body = sums.block(kernel.body, ())
        if not sums.memories:
            return kernel
        body = without_unused(body, lambda op: op.is_(CONSTANT))  # the zeros that sums started at
        return replace(kernel, body=body, memories=(*kernel.memories, *sums.memories))


@dataclass(frozen=True, slots=True)
class _Site:
    """A loop of products, and what its sums of columns depend on."""

    loop: Op
    product: Op
    row: MatrixInstruction
    columns: Value
    """Operand ``b``, whichever way round the product is used."""
    reads: tuple[Op, ...]
    """What makes ``b``, in the order of the loop."""
    again: int
    """How deep the loop is whose turns all read the same of ``b``."""
    between: tuple[Op, ...]
    """The loops inside of that one which tell one part of ``b`` from another."""


class _Sums:
    def __init__(self, kernel: Kernel, machine: Machine, fresh: Callable[[str], str]) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh
        self.memories: list[Memory] = []
        self.before: dict[int, list[Op]] = {}
        """In front of loops that are walked through, by how deep these are."""

    def block(self, ops: Sequence[Op], around: tuple[Op, ...]) -> tuple[Op, ...]:
        result: list[Op] = []
        for op in ops:
            if not op.is_(FOR):
                result.append(op)
                continue
            site = _site(op, around, self.machine)
            if site is not None and (memory := self._memory(site)) is not None:
                result += self._starting(site, memory)
                continue
            inside = self.block(op.body.ops, (*around, op))
            result += self.before.pop(len(around), [])
            changed = len(inside) != len(op.body.ops) or any(
                one is not other for one, other in zip(inside, op.body.ops, strict=True)
            )
            result.append(replace(op, region=replace(op.body, ops=inside)) if changed else op)
        return tuple(result)

    def _memory(self, site: _Site) -> Memory | None:
        """A number for each column of all that the loops in between walk over, where there is room for that."""
        turns = [_turns(loop) for loop in site.between]
        if None in turns:
            return None
        shape = (*(count for count in turns if count is not None), site.row.n)
        dtype, dims = DTYPES[site.row.acc.dtype.name], (*(loop["induction"] for loop in site.between), "column")
        taken = [memory for memory in (*self.kernel.memories, *self.memories) if memory.space != "global"]
        needed = sum(memory.elements.value * memory.dtype.bytes * memory.buffers for memory in taken)
        if needed + math.prod(shape) * dtype.bytes > self.machine.shared.bytes:
            return None
        name = self.fresh("bias_sums")
        sizes = tuple(map(const, shape))
        return Memory(name, dtype, dims, sizes, "private", arrangement=row_major(dims, shape))

    def _starting(self, site: _Site, memory: Memory) -> list[Op]:
        """The loop, whose sums start with those of the bias, which are made in front of the loop that it repeats in."""
        self.memories.append(memory)
        parts = self._parts(site)
        self.before.setdefault(site.again, []).extend(self._made(site, memory, parts))
        loop, product, row = site.loop, site.product, site.row
        at = loop.body.arguments.index(product.operands[2])
        loads = [
            self._op("load", (), memory.dtype, size, memory=memory.name, offset=self._place(site, memory) + start,
                     buffer=const(0), mask=(), valid=None)
            for start, size in parts
        ]  # fmt: skip
        lines = tuple(load.result for load in loads) * row.m
        start = self._op("pack", lines, memory.dtype, row.m * row.n)
        before = loop.operands[at]
        ops = [*loads, start]
        if not self._is_zero(before):
            ops.append(self._op("elementwise", (before, start.result), memory.dtype, row.m * row.n, function="add"))
        operands = tuple(ops[-1].result if number == at else value for number, value in enumerate(loop.operands))
        inner = tuple(op.with_(unbiased=True) if op is product else op for op in loop.body.ops)
        return [*ops, replace(loop, operands=operands, region=replace(loop.body, ops=inner))]

    def _made(self, site: _Site, memory: Memory, parts: Sequence[tuple[int, int]]) -> list[Op]:
        """Loops that sum the columns and keep the sums, negated and times the bias."""
        row, names = site.row, dict[str, Value]()
        inside = [copied(op, self.fresh, names) for op in site.reads]
        columns = names.get(site.columns.name, site.columns)
        every = self._op("constant", (), row.a.dtype, row.k, value=row.a.bias)
        zeros = [self._op("constant", (), memory.dtype, size, value=0) for _, size in parts]
        sums = tuple(self._value(memory.dtype, size) for _, size in parts)
        dots: list[Op] = []
        for (start, size), total in zip(parts, sums, strict=True):
            part = self._op("slice", (columns,), row.b.dtype, size * row.k, start=start * row.k, size=size * row.k)
            told = {"instruction": row.name, "start": 0, "runs": 1}
            dots += [part, self._op("dot", (every.result, part.result, total), memory.dtype, size, **told)]
        totals = tuple(self._value(memory.dtype, size) for _, size in parts)
        region = Region(sums, (*inside, *dots), tuple(dot.result for dot in dots[1::2]))
        loop = replace(site.loop, operands=tuple(zero.result for zero in zeros), results=totals, region=region)
        ops: list[Op] = [every, *zeros, loop]
        for (start, size), zero, total in zip(parts, zeros, totals, strict=True):
            less = self._op("elementwise", (zero.result, total), memory.dtype, size, function="sub")
            place = {"memory": memory.name, "offset": self._place(site, memory) + start, "buffer": const(0)}
            ops += [less, Op("store", (less.result,), (), attribute_pairs({**place, "mask": (), "valid": None}))]
        for around in reversed(site.between):
            ops = [replace(around, operands=(), results=(), region=Region((), tuple(ops), ()))]
        return ops

    def _parts(self, site: _Site) -> list[tuple[int, int]]:
        """First column and number of columns of each vector of the machine."""
        width = self.machine.vector_bytes // site.row.acc.dtype.bytes
        return [(start, width) for start in range(0, site.row.n, width)]

    def _place(self, site: _Site, memory: Memory) -> Expr:
        place = const(0)
        for loop, extent in zip(site.between, memory.shape[1:], strict=True):
            place = (place + self.kernel.symbol(loop["induction"]) // loop["step"]) * extent
        return place

    def _is_zero(self, value: Value) -> bool:
        return any(op.is_(CONSTANT) and op.result == value and op["value"] == 0 for op in self.kernel.walk())

    def _value(self, dtype: Any, elements: int) -> Value:
        return Value(self.fresh("bias_sum"), VectorType(dtype, elements))

    def _op(self, name: str, operands: tuple[Value, ...], dtype: Any, elements: int, **attributes: Any) -> Op:
        return Op(name, operands, (self._value(dtype, elements),), attribute_pairs(attributes))


def _site(loop: Op, around: tuple[Op, ...], machine: Machine) -> _Site | None:
    """Of a loop of one biased product; None where its sums are not to be made elsewhere."""
    products = [op for op in loop.body.ops if op.is_(MMA)]
    if len(products) != 1 or loop.get("goes_on") is not None or loop.get("once"):
        return None
    (product,), row = products, instruction_of(products[0], machine)
    straight = machine.instruction(product["instruction"].partition(":")[0])
    if (
        straight is None
        or not straight.a.bias
        or not straight.b.in_panels
        or product.operands[2] not in loop.body.arguments
    ):
        return None
    columns = product.operands[0 if row is not straight else 1]
    reads = _reads(loop, columns)
    if not reads:
        return None
    memories = {op["memory"] for op in reads if op.is_(LOAD)}
    needed = _bounds(loop).union(*(op.symbols for op in reads)) - {loop["induction"]}
    for again, outer in enumerate(around):
        between = tuple(one for one in around[again + 1 :] if one["induction"] in needed)
        if _repeats(outer, memories, needed.union(*map(_bounds, between)), between):
            return _Site(loop, product, straight, columns, reads, again, between)
    return None


def _reads(loop: Op, columns: Value) -> tuple[Op, ...]:
    """What makes a value from memory alone, in the order of the loop; nothing where something else is needed."""
    wanted, found = {columns.name}, list[Op]()
    for op in reversed(loop.body.ops):
        made = {value.name for value in op.results}
        if wanted.isdisjoint(made):
            continue
        if not op.is_(PURE, LOAD):
            return ()
        wanted = wanted - made | {value.name for value in op.operands}
        found.append(op)
    return () if wanted else tuple(reversed(found))


def _bounds(loop: Op) -> frozenset[str]:
    return loop["lower"].symbols | loop["upper"].symbols | loop["step"].symbols


def _repeats(outer: Op, memories: set[str], needed: frozenset[str], between: Sequence[Op]) -> bool:
    """Whether the turns of a loop, of which there may be several, read the same of memories that none of them fills."""
    inside = [op for op in outer.body.ops for op in op.walk()]
    changing = {outer["induction"], *(op["symbol"] for op in inside if op.is_(NAMES_A_SYMBOL))}
    changing |= {op["induction"] for op in inside if op.is_(FOR)} - {loop["induction"] for loop in between}
    if not changing.isdisjoint(needed) or any(op.is_(_FILLED) and op.get("memory") in memories for op in inside):
        return False
    return not outer.get("once") and _turns(outer) != 1


def _turns(loop: Op) -> int | None:
    """The most turns of a loop that counts from zero and carries nothing; None for others, or where it is not known."""
    upper, step = loop["upper"], loop["step"]
    if loop.operands or loop.get("once") or loop.get("goes_on") is not None:
        return None
    if loop["lower"] != const(0) or not step.is_const or upper.high is None:
        return None
    return -(-upper.high // step.value)
