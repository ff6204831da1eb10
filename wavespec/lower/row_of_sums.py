"""What stands behind a loop of products goes in; what becomes of one row of their sums, and how far it is from there to
the next row, comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ACCUMULATE, BROADCAST, CAST, ELEMENTWISE, LOAD, PACK, SLICE, STORE

_COMPUTED = BROADCAST | CAST | ELEMENTWISE | PACK | SLICE


@dataclass(frozen=True, slots=True)
class RowOfSums:
    """What is computed of row 0, each operation behind those that it takes.

    ``apart``: how far the expressions of an access are from those of the same one a row before.
    """

    sums: Value
    rows: int
    columns: int
    ops: tuple[Op, ...]
    apart: tuple[dict[str, Any], ...]

    @property
    def written(self) -> frozenset[str]:
        """The memories that the row is written to."""
        return frozenset(op["memory"] for op in self.ops if op.is_(ACCUMULATE, STORE))

    def of(
        self, row: Expr, memory: str, at: Mapping[str, Expr], fresh: Callable[[str], str], build: ThreadBuilder
    ) -> tuple[Op, ...]:
        """The same of any row of sums that are in a memory; ``at``: what symbols are replaced by."""
        names, result = dict[str, Value](), list[Op]()
        for op, apart in zip(self.ops, self.apart, strict=True):
            if self.is_of_sums(op):
                size, start = op.result.vector.elements, row * self.columns + op["start"]
                names[op.result.name] = build.load(memory, op.result.vector.dtype, size, start)
                result.append(build.ops.pop())
            else:
                result.append(copied(substituted(_moved(op, apart, row), at), fresh, names))
        return tuple(result)

    def is_of_sums(self, op: Op) -> bool:
        return op.is_(SLICE) and op.operands[0].name == self.sums.name


def row_of_sums(
    ops: Sequence[Op],
    sums: Value,
    rows: int,
    columns: int,
    around: Mapping[str, Op],
    holds: Callable[[Expr, Expr], bool],
) -> RowOfSums | None:
    """None where anything else is done than the same with every row, element by element.

    ``around``: what makes the values that all rows take; ``holds``: whether a check is known to hold.
    """
    made = {value.name: op for op in ops for value in op.results}
    writes = [op for op in ops if op.is_(ACCUMULATE, STORE)]
    each, left = divmod(len(writes), rows)
    if left or not each or not all(_is_computed(op) or op.is_(ACCUMULATE, STORE) for op in ops):
        return None
    chains = [_chain(writes[each * row : each * (row + 1)], made) for row in range(rows)]
    used = {id(op) for chain in chains for op in chain}
    if (
        len(used) < len(ops)
        or not all(_are_read_first(chain, ops) for chain in chains)
        or len({len(chain) for chain in chains}) > 1
    ):
        return None
    found = RowOfSums(sums, rows, columns, *_model(chains, sums, columns))
    reads_its_own = all(_is_own(op, apart, found) for op, apart in zip(found.ops, found.apart, strict=True))
    same = reads_its_own and all(_is_row(found, chain, row, around, holds) for row, chain in enumerate(chains))
    return found if same else None


def _is_computed(op: Op) -> bool:
    return op.region is None and op.is_(_COMPUTED | LOAD)


def _model(
    chains: Sequence[Sequence[Op]], sums: Value, columns: int
) -> tuple[tuple[Op, ...], tuple[dict[str, Any], ...]]:
    """What is computed of row 0, and how far its accesses are from those of the next one.  Where that has more checks,
    as a row that is always there needs none, row 0 has them as well."""
    first, second, third = (chains[min(row, len(chains) - 1)] for row in range(3))
    if all(len(one.get("mask", ())) == len(other.get("mask", ())) for one, other in zip(first, second, strict=True)):
        return tuple(first), tuple(_apart(op, other) for op, other in zip(first, second, strict=True))
    apart = tuple(_apart(op, other) for op, other in zip(second, third, strict=True))
    return tuple(
        op.with_(start=op["start"] - columns)
        if op.is_(SLICE) and op.operands[0].name == sums.name
        else _moved(op, away, const(-1))
        for op, away in zip(second, apart, strict=True)
    ), apart


def _is_own(op: Op, apart: Mapping[str, Any], found: RowOfSums) -> bool:
    """Whether what an operation loads was not written beside another row."""
    if not op.is_(LOAD) or op["memory"] not in found.written:
        return True
    first, *others = (one for one in found.ops if one.is_(ACCUMULATE, STORE) and one["memory"] == op["memory"])
    if others or not first.is_(STORE):
        return False
    inside, down, end = op["offset"] - first["offset"], apart["offset"], first.operands[0].vector.elements
    is_near = inside.is_const and 0 <= inside.value <= end - op.result.vector.elements
    return is_near and down.is_const and abs(down.value) >= end


def _are_read_first(chain: Sequence[Op], ops: Sequence[Op]) -> bool:
    """Whether what a row has in a memory is loaded before it is stored there."""
    places = {id(op): at for at, op in enumerate(ops)}
    writes = {op["memory"]: places[id(op)] for op in reversed(chain) if op.is_(ACCUMULATE, STORE)}
    return all(places[id(op)] < writes.get(op["memory"], len(ops)) for op in chain if op.is_(LOAD))


def _chain(writes: Sequence[Op], made: Mapping[str, Op]) -> tuple[Op, ...]:
    """What accesses take, each operation once, behind its operands; then the accesses, side by side."""
    found = dict[int, Op]()

    def visit(operands: Sequence[Value]) -> None:
        for value in operands:
            op = made.get(value.name)
            if op is not None and id(op) not in found:
                visit(op.operands)
                found[id(op)] = op

    for write in writes:
        visit(write.operands)
    return (*found.values(), *writes)


def _is_row(
    found: RowOfSums,
    chain: Sequence[Op],
    row: int,
    around: Mapping[str, Op],
    holds: Callable[[Expr, Expr], bool],
) -> bool:
    """Whether a chain does with its row what is done with row 0."""
    numbers = [{value.name: at for at, op in enumerate(ops) for value in op.results} for ops in (found.ops, chain)]
    for model, apart, op in zip(found.ops, found.apart, chain, strict=True):
        if found.is_of_sums(op):
            inside = 0 <= op["start"] - row * found.columns <= found.columns - op.result.vector.elements
            model = model.with_(start=model["start"] + row * found.columns) if found.is_of_sums(model) else model
            if not inside:
                return False
        elif any(value.name == found.sums.name for value in op.operands):
            return False
        there = _moved(model, apart, const(row))
        if row == 0 and apart and all(pair in op["mask"] or holds(*pair) for pair in there["mask"]):
            there = there.with_(mask=tuple(pair for pair in there["mask"] if pair in op["mask"]))
        same = there.name == op.name and there.attributes == op.attributes
        if not same or [one.type for one in model.results] != [one.type for one in op.results]:
            return False
        if list(_sources(model, numbers[0], around)) != list(_sources(op, numbers[1], around)):
            return False
    return True


def _sources(op: Op, numbers: Mapping[str, int], around: Mapping[str, Op]) -> Iterator[object]:
    """Where operands come from: what the chain has made, or values around it, of which slices are known by what they
    are slices of."""
    for value in op.operands:
        made = around.get(value.name)
        if value.name in numbers or made is None or not made.is_(SLICE):
            yield numbers.get(value.name, value.name)
        else:
            yield made.operands[0].name, made["start"], value.vector.elements


def _apart(op: Op, other: Op) -> dict[str, Any]:
    """How far the expressions of an access are from those of the same one a row before."""
    if not op.is_(LOAD, STORE, ACCUMULATE) or not other.is_(LOAD, STORE, ACCUMULATE):
        return {}
    mask = [
        (left - before, right - end) for (before, end), (left, right) in zip(op["mask"], other["mask"], strict=False)
    ]
    return {"offset": other["offset"] - op["offset"], "mask": mask}


def _moved(op: Op, apart: dict[str, Any], rows: Expr) -> Op:
    """An access of row 0, so many rows further down; other operations have no place."""
    if not apart:
        return op
    pairs = zip(op["mask"], apart["mask"], strict=False)
    mask = tuple((left + rows * down, right + rows * away) for (left, right), (down, away) in pairs)
    return op.with_(offset=op["offset"] + rows * apart["offset"], mask=mask)
