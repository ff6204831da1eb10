"""Copies of lanes go in; copies whose places in a tensor are made by one lane each, and handed to others, come out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, symbol, total
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread import Mask, ThreadBuilder
from wavespec.ir.thread_ops import BIND, COPY_ASYNC, LOAD, PURE
from wavespec.schedule.feeding import feeding

_LEAST_COPIES = 4
"""Of a tile by each lane; of fewer, a place costs as much as handing it on."""


def places_by_lanes(
    kernel: Kernel, ops: Sequence[Op], changing: Container[str], wave_lanes: int, fresh: Callable[[str], str]
) -> tuple[list[Op], list[Expr]]:
    """The operations of a step, and the symbols that they bind anew.

    The copies of a lane are those of one lane after the other at a distance, and neighbours copy parts of the same row.
    So each of them makes the place of one row: what of it ``changing`` symbols say, or a number below 0 where they
    leave the row out.  A row then takes two words of a neighbour and a sum, whatever makes a place, and each of its
    copies a comparison.

    Args:
        kernel: that the operations are of.
        ops: of a step, in order.
        changing: symbols that change from step to step.
        wave_lanes: that hand each other words.
        fresh: makes names.
    """
    found, symbols = list(ops), list[Expr]()
    for memory in dict.fromkeys(op["memory"] for op in ops if op.is_(COPY_ASYNC)):
        numbers = [number for number, op in enumerate(found) if op.is_(COPY_ASYNC) and op["memory"] == memory]
        rows = [_row(kernel, found, number, changing) for number in numbers]
        parts = _by_row(kernel, [row for row in rows if row is not None])
        alike = len(numbers) >= _LEAST_COPIES and None not in rows
        if alike and (width := _width(kernel, [row for row, *_ in parts], wave_lanes)) >= len(parts):
            copies = _handed(kernel, parts, width, fresh, symbols)
            instead = {number: () for number in numbers} | {numbers[0]: copies}
            found = [one for number, op in enumerate(found) for one in instead.get(number, (op,))]
    return _without_unused(found), symbols


@dataclass(frozen=True, slots=True)
class _Row:
    """A copy, what feeds its place, and the parts of its place and mask that change and that do not."""

    copy: Op
    chain: tuple[Op, ...]
    place: Expr
    outside: Mask
    rest: Expr
    inside: Mask

    def at(self, kernel: Kernel, lane: Expr) -> list[object]:
        """What changes, with that lane's numbers, and without names of values and symbols."""
        last = Op("place", attributes=attribute_pairs({"place": self.place, "mask": self.outside}))
        return _as_written(kernel, [substituted(op, {"lane": lane}) for op in (*self.chain, last)])


def _row(kernel: Kernel, ops: Sequence[Op], number: int, changing: Container[str]) -> _Row | None:
    """None where a place is not known to be 0 or more where the mask holds, or is made of more than loads of inputs."""
    copy, chain = ops[number], tuple(ops[one] for one in feeding(ops, [number]))
    inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
    for op in chain:
        if op.region is not None or not (op.is_(BIND | PURE) or (op.is_(LOAD) and op["memory"] in inputs)):
            return None
    offset: Expr = copy["source_offset"]
    terms = [(_changes(term, changing), term, factor) for factor, term in offset.terms()]
    place = total((term, factor) for changes, term, factor in terms if changes)
    mask: Mask = copy["mask"]
    outside = tuple(pair for pair in mask if any(_changes(part, changing) for part in pair))
    natural = {
        str(right.args[0]): symbol(str(right.args[0]))
        for left, right in outside
        if left == const(-1) and right.kind == "symbol"
    }
    least = place.substitute(natural).low
    if place.is_const or least is None or least < 0:
        return None
    return _Row(copy, chain, place, outside, offset - place, tuple(pair for pair in mask if pair not in outside))


def _changes(expr: Expr, changing: Container[str]) -> bool:
    return any(name in changing for name in expr.symbols)


def _by_row(kernel: Kernel, copies: Sequence[_Row]) -> list[list[_Row]]:
    """The copies, those of parts of the same row together."""
    found = list[tuple[list[object], list[_Row]]]()
    for copy in copies:
        here = copy.at(kernel, kernel.symbol("lane"))
        parts = next((parts for there, parts in found if there == here), None)
        if parts is None:
            found.append((here, [copy]))
        else:
            parts.append(copy)
    return [parts for _, parts in found]


def _width(kernel: Kernel, rows: Sequence[_Row], wave_lanes: int) -> int:
    """How many lanes next to each other copy parts of the same rows; 0 where copies are not those of one lane after the
    other."""
    first, lane = rows[0], kernel.symbol("lane")
    lanes = kernel.lanes * kernel.producers
    if any(first.at(kernel, lane + number * lanes) != row.at(kernel, lane) for number, row in enumerate(rows)):
        return 0
    own, width = first.at(kernel, lane), wave_lanes
    while width > 1 and first.at(kernel, lane // width * width) != own:
        width //= 2
    return width


def _handed(
    kernel: Kernel, rows: Sequence[Sequence[_Row]], width: int, fresh: Callable[[str], str], symbols: list[Expr]
) -> list[Op]:
    """What makes the place of one row, and the copies of each row behind what takes its place from the lane that made
    it."""
    first, lane, build = rows[0][0], kernel.symbol("lane"), ThreadBuilder(fresh)
    build.span, build.node = first.copy.span, first.copy.node
    own = lane + lane % width % len(rows) * (kernel.lanes * kernel.producers)
    names, bound = dict[str, Value](), {"lane": own}
    for op in first.chain:
        made = copied(substituted(op, bound), fresh, names)
        if op.is_(BIND):
            bound[op["symbol"]] = _anew(kernel.symbol(op["symbol"]), fresh(op["symbol"]))
            symbols.append(bound[op["symbol"]])
            made = made.with_(symbol=bound[op["symbol"]].args[0])
        build.ops.append(made)
    place = _number(build, first.place.substitute(bound))
    for pair in first.outside:
        below, beyond = (_number(build, part.substitute(bound)) for part in pair)
        within = build.elementwise("lt", below, beyond, hint="within")
        place = build.elementwise("where", within, place, build.constant(-1, DTYPES["i64"], 1), hint="place")
    for number, parts in enumerate(rows):
        taken, name = Value(fresh("place"), place.type), fresh(f"{first.copy['memory']}.place")
        symbols.append(symbol(name, None))
        span = parts[0].copy.span
        handed = attribute_pairs({"lane": number, "lanes": width})
        build.ops += [
            Op("from_lane", (place,), (taken,), handed, None, span),
            Op("bind", (taken,), attributes=attribute_pairs({"symbol": name}), span=span),
        ]
        build.ops += [
            part.copy.with_(source_offset=part.rest + symbols[-1], mask=(*part.inside, (const(-1), symbols[-1])))
            for part in parts
        ]
    return build.ops


def _number(build: ThreadBuilder, expr: Expr) -> Value:
    value = build.value("place", DTYPES["i64"], 1)
    build.add("coordinates", (), (value,), places=(expr,))
    return value


def _anew(known: Expr, name: str) -> Expr:
    """A symbol of another name."""
    return symbol(name, *known.args[1:])


def _as_written(kernel: Kernel, ops: Iterable[Op]) -> list[object]:
    values, symbols, found = dict[str, int](), dict[str, Expr](), list[object]()
    for old in ops:
        op = substituted(old, symbols)
        operands = tuple(values.get(value.name, value.name) for value in op.operands)
        attributes: Mapping[str, object] = dict(op.attributes)
        if op.is_(BIND):
            symbols[op["symbol"]] = _anew(kernel.symbol(op["symbol"]), f"bound {len(symbols)}")
            attributes = {key: value for key, value in op.attributes if key != "symbol"}
        found.append((op.name, operands, attributes, [value.type for value in op.results]))
        values |= {value.name: len(values) + number for number, value in enumerate(op.results)}
    return found


def _without_unused(ops: Sequence[Op]) -> list[Op]:
    """Operations without those that only made places of copies."""
    acting = [number for number, op in enumerate(ops) if not op.is_(BIND | PURE | LOAD)]
    kept = {*acting, *feeding(ops, acting)}
    return [op for number, op in enumerate(ops) if number in kept]
