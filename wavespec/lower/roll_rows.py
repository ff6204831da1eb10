"""Thread kernel in, thread kernel out: rows that are computed alike, one below the other, are computed in a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs
from wavespec.ir.rewriting import uses_of
from wavespec.ir.thread_ops import CAST, ELEMENTWISE, FOR, LOAD, PURE, STORE
from wavespec.lower.announce_rows import LINE_BITS
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.equal_steps import UnevenSteps, in_steps
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

_LEAST_ROWS: Final = 8


class RollRows(Pass):
    """Compute rows that are computed alike in a loop over them.

    Before: a block loads rows of inputs, computes with each by itself, and stores more of them in a memory of the
            workgroup than registers hold: all that is loaded, all that is computed, all that is stored.
    After:  a loop over the rows, whose step has one of them, at the place of the last store; what all rows have in
            common stands before it.  Where a loop around goes on in the same rows, each step announces (``prefetch``)
            the lines of its row that the next step of that loop reads: so many rows are more than machines follow.
    Cases:  rows that are only copied stay as they are, and so does a block whose rows are not equally far apart.
    """

    name: ClassVar[str] = "roll-rows"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves and machine.vector_registers > 0

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        rolling = _Rolling(kernel, machine)
        body = rolling.block(kernel.body, (), ())
        return replace(kernel.with_symbols(*rolling.added), body=body) if rolling.added else kernel


class _Rolling:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine, self.fresh = kernel, machine, fresh_names(kernel)
        self.inputs = {memory.name for memory in kernel.memories if memory.role == "input" and memory.space == "global"}
        self.added: list[Expr] = []

    def block(self, ops: tuple[Op, ...], yields: Sequence[Value], loops: tuple[Op, ...]) -> tuple[Op, ...]:
        """The operations of a block; ``loops``: those around it, the innermost one last."""
        for memory in dict.fromkeys(op["memory"] for op in ops if op.is_(STORE)):
            if self.kernel.memory(memory).space == "shared":
                ops = self._rolled(ops, memory, {value.name for value in yields}, loops)
        return tuple(self._inside(op, loops) if op.region else op for op in ops)

    def _inside(self, op: Op, loops: tuple[Op, ...]) -> Op:
        region = op.body
        ops = self.block(region.ops, region.yields, (*loops, op) if op.is_(FOR) else loops)
        return op if ops == region.ops else replace(op, region=replace(region, ops=ops))

    def _rolled(self, ops: tuple[Op, ...], memory: str, yielded: Set[str], loops: Sequence[Op]) -> tuple[Op, ...]:
        """With those that fill a memory in a loop, or as they are."""
        places = [at for at, op in enumerate(ops) if any(one.get("memory") == memory for one in op.walk())]
        stores = [at for at in places if ops[at].is_(STORE)]
        is_together = places[places.index(stores[0]) :][: len(stores)] == stores
        if len(stores) <= self.machine.vector_registers or not is_together:
            return ops
        pieces = _pieces(ops, stores, self.inputs)
        own = {at for piece in pieces for at in piece}
        made = {value.name for at in own for value in ops[at].results}
        others = {value.name for at, op in enumerate(ops) if at not in own for value in uses_of(op)}
        if made & (others | yielded) or not any(ops[at].is_(CAST | ELEMENTWISE) for at in pieces[0]):
            return ops
        loop = self._loop(pieces, ops, loops)
        last = stores[-1]
        return (
            ops
            if loop is None
            else tuple(loop if at == last else op for at, op in enumerate(ops) if at not in own or at == last)
        )

    def _loop(self, pieces: Sequence[Sequence[int]], ops: Sequence[Op], loops: Sequence[Op]) -> Op | None:
        """Over rows of as few pieces as are equally far apart; None where no rows are."""
        name = self.fresh("row")
        for size in (size for size in range(1, len(pieces) // _LEAST_ROWS + 1) if len(pieces) % size == 0):
            starts = range(0, len(pieces), size)
            rows = [sorted(at for piece in pieces[start : start + size] for at in piece) for start in starts]
            index = symbol(name, 0, len(rows) - 1)
            try:
                body = tuple(_step(rows, ops, index))
            except UnevenSteps:
                continue
            self.added.append(index)
            over = {"induction": name, "lower": const(0), "upper": const(len(rows)), "step": const(1)}
            region = Region((), (*self._announced(body, loops), *body), ())
            return Op("for", (), (), attribute_pairs({**over, "unroll": 1}), region, ops[rows[-1][-1]].span)
        return None

    def _announced(self, body: Sequence[Op], loops: Sequence[Op]) -> Iterator[Op]:
        """The lines that a row reads in the next step of the innermost loop that goes on in it."""
        if not self.machine.globals.prefetch:
            return
        seen: list[tuple[str, Expr]] = []
        for op in body:
            if not op.is_(LOAD) or op.result.vector.elements == 1:
                continue
            ahead, line = _ahead(op["offset"], loops), LINE_BITS // op.result.vector.dtype.bits
            near = [op["offset"].beyond(place) for memory, place in seen if memory == op["memory"]]
            if ahead and not any(way is not None and abs(way) < line for way in near):
                seen.append((op["memory"], op["offset"]))
                place = {"memory": op["memory"], "offset": op["offset"] + ahead}
                yield Op("prefetch", attributes=attribute_pairs(place), span=op.span)


def _ahead(offset: Expr, loops: Sequence[Op]) -> int:
    """Elements between a step of that loop and the next one."""
    factors = {term.args[0]: by for by, term in offset.terms() if term.kind == "symbol"}
    found = (loop for loop in reversed(loops) if loop["induction"] in factors and loop["step"].is_const)
    return next((factors[loop["induction"]] * loop["step"].value for loop in found), 0)


def _pieces(ops: Sequence[Op], stores: Sequence[int], inputs: Set[str]) -> list[list[int]]:
    """Places of operations: what stores need, those that need something in common together, but not what all need."""
    makers = {value.name: at for at, op in enumerate(ops) for value in op.results}
    needed = [_needed(ops, store, makers, inputs) for store in stores]
    common = set[int].intersection(*needed)
    pieces: list[set[int]] = []
    for one in needed:
        own = one - common
        joined = [piece for piece in pieces if piece & own]
        pieces = [piece for piece in pieces if not piece & own] + [own.union(*joined)]
    return [sorted(piece) for piece in pieces]


def _needed(ops: Sequence[Op], store: int, makers: Mapping[str, int], inputs: Set[str]) -> set[int]:
    found, left = {store}, [store]
    while left:
        for value in ops[left.pop()].operands:
            at = makers.get(value.name)
            if at is None or at in found:
                continue
            if ops[at].is_(PURE) or (ops[at].is_(LOAD) and ops[at]["memory"] in inputs):
                found.add(at)
                left.append(at)
    return found


def _step(rows: Sequence[Sequence[int]], ops: Sequence[Op], index: Expr) -> Iterator[Op]:
    """The operations of the row with the index.

    Raises:
        UnevenSteps: rows are not alike.
    """
    if len({len(row) for row in rows}) > 1:
        raise UnevenSteps
    known: list[dict[str, Value]] = [{} for _ in rows]  # what the first row has for values of each
    for at in range(len(rows[0])):
        alike = [ops[row[at]] for row in rows]
        first = alike[0]
        keys = [key for key, _ in first.attributes]
        for names, op in zip(known, alike, strict=True):
            taken = tuple(names.get(value.name, value) for value in op.operands)
            types = [value.type for value in op.results]
            if (op.name, taken, types) != (first.name, first.operands, [value.type for value in first.results]):
                raise UnevenSteps
            if op.region or [key for key, _ in op.attributes] != keys:
                raise UnevenSteps
            names |= {value.name: new for value, new in zip(op.results, first.results, strict=True)}
        values = in_steps([tuple(value for _, value in op.attributes) for op in alike], index)
        yield replace(first, attributes=tuple(zip(keys, values, strict=True)))
