"""Tile kernel in, tile kernel out: a mean, and how far elements are from it, are exchanged together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.layout import Layout
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import without_unused
from wavespec.ir.tile_ops import ELEMENTWISE, PURE, READ, REDUCE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.exchanges import alone, are_exchanged, is_wide, places_of, starts_from, waiting
from wavespec.lower.tile_properties import tiles_have_layouts
from wavespec.targets.machine import Machine


class SpreadOnce(Pass):
    """Exchange a mean, and the mean of the squares of how far elements are from it, together.

    Before: waves that share out a row, and workgroups of a cluster, wait for the mean of all of it, and with the
            squares of how far each element is from that once more for their mean.
    After:  each wave has the mean of its own elements, and the sum of the squares of how far these are from that;
            ``join_spreads`` finds both of the whole row behind one exchange.  How far an element is from the mean of
            all is how far it is from that of its wave, and that from this.  Rows in several steps of a loop stay as
            they are.
    """

    name: ClassVar[str] = "spread-once"
    requires = (tiles_have_layouts,)

    def applies_to(self, machine: Machine) -> bool:
        return (
            machine.lanes > 1 and machine.fused_steps and bool(machine.clusters)
        )  # it was measured where workgroups exchange as well

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.schedules:
            return kernel
        for variance in [op for op in kernel.body if op.is_(REDUCE) and op["function"] == "add" and op["divided"]]:
            if (found := _spread(kernel, machine, variance)) is not None:
                kernel = replace(kernel, body=_joined(kernel, found, fresh_names(kernel)))
        return kernel


@dataclass(frozen=True, slots=True)
class _Spread:
    """The operations of a row: its mean, what follows from that, how far elements are from it, and the squares."""

    mean: Op
    """Of elements, or of what they are less than a number of the row."""
    less: Op
    squares: Op
    variance: Op


def _spread(kernel: Kernel, machine: Machine, variance: Op) -> _Spread | None:
    """What belongs to a mean of squares, if it is of how far elements are from their mean, and waves exchange it."""
    made = {value.name: op for op in kernel.body for value in op.results}
    squares = made.get(variance.operands[0].name)
    if not _is(squares, "mul") or squares.operands[0] != squares.operands[1]:
        return None
    less = made.get(squares.operands[0].name)
    if not _is(less, "sub") or (mean := _mean_of(made, *less.operands)) is None:
        return None
    spread = _Spread(mean, less, squares, variance)
    are_of_f32 = all(op.result.tile.dtype == DTYPES["f32"] for op in (mean, less, squares, variance))
    starts = starts_from(made, mean, 0.0) and starts_from(made, variance, 0.0)
    alike = mean["dim"] == variance["dim"] and places_of(mean) == places_of(variance)
    is_row = are_of_f32 and starts and alike and not is_wide(variance) and _is_run(kernel, variance)
    return spread if is_row and are_exchanged(kernel, machine, variance) and _may_wait(kernel, spread) else None


def _is(op: Op | None, function: str) -> bool:
    return op is not None and op.is_(ELEMENTWISE) and op["function"] == function


def _mean_of(made: Mapping[str, Op], each: Value, middle: Value) -> Op | None:
    """The reduction that finds ``middle``, if that is the mean of ``each``, by itself or beside a number of the row."""
    maker = made.get(middle.name)
    if maker is None:
        return None
    if maker.is_(REDUCE):
        return maker if _is_mean(maker) and maker.operands[0] == each else None
    if not _is(maker, "add"):
        return None
    for number, beyond in (maker.operands, maker.operands[::-1]):
        mean = made.get(beyond.name)
        if mean is not None and mean.is_(REDUCE) and _is_mean(mean):
            shifted = made.get(mean.operands[0].name)
            if _is(shifted, "sub") and shifted.operands == (each, number):
                return mean
    return None


def _is_mean(op: Op) -> bool:
    return op["function"] == "add" and op["divided"]


def _is_run(kernel: Kernel, op: Op) -> bool:
    """Whether a wave has elements that follow one another, so that edges say how many are in the row."""
    layout, dim = op.operands[0].tile.layout, op["dim"]
    assert layout is not None
    if any(axis.extent > 1 and axis.strides != ((dim, axis.stride(dim)),) for axis in layout.axes):
        return False
    offsets = layout.base_of(dim) - _first(layout, dim)
    if offsets.symbols - {"lane"}:
        return False
    own = [places[dim] for places in layout.register_offsets()]
    lanes = (offsets.evaluate({"lane": lane}) for lane in range(kernel.lanes))
    return sorted(lane + one for lane in lanes for one in own) == list(range(layout.elements * kernel.lanes))


def _first(layout: Layout, dim: str) -> Expr:
    return layout.base_of(dim).substitute({"lane": const(0)})


def _count(kernel: Kernel, op: Op) -> Expr:
    """How many elements of the row a wave has."""
    layout, dim = op.operands[0].tile.layout, op["dim"]
    assert layout is not None
    start = dict(op["origin"])[dim] + _first(layout, dim)
    end = minimum(start + layout.elements * kernel.lanes, op["size"])
    return maximum(end - maximum(start, const(0)), const(0))


def _may_wait(kernel: Kernel, found: _Spread) -> bool:
    """Whether what needs the mean may go behind the mean of squares: that needs nothing of it, nor does memory."""
    late = waiting(kernel.body, found.mean, found.variance, ())
    names = {value.name for op in late for value in op.results}
    return all(op.is_(PURE) for op in late) and found.mean.operands[0].name not in names


def _joined(kernel: Kernel, found: _Spread, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with one exchange, and what waited for the first one behind it."""
    body, mean, less, variance = kernel.body, found.mean, found.less, found.variance
    late = waiting(body, mean, variance, (found.squares,))
    count, result = _count(kernel, mean), list[Op]()
    own, distance, squares, total = (
        Value(fresh(op.result.name), op.result.type) for op in (mean, less, found.squares, variance)
    )
    for op in body:
        if op is mean:
            *before, each = _without_edge(kernel, op, fresh)
            some = maximum(count, const(1))  # a wave with nothing of the row has a mean, too
            result += [*before, alone(each, own, count=some)]
            result.append(replace(less, operands=(each.operands[0], own), results=(distance,)))
        elif op is variance:
            result.append(replace(found.squares, operands=(distance, distance), results=(squares,)))
            result.append(alone(replace(op, operands=(squares,)), total, divided=False))
            kept = {key: op[key] for key in ("dim", "size", "signal", "index") if op.get(key) is not None}
            pairs = attribute_pairs({**kept, "count": count})
            result.append(Op("join_spreads", (own, total), (mean.result, op.result), pairs, span=op.span, node=op.node))
            result += late
        elif op not in late and op is not found.squares:
            result.append(op)
    return without_unused(_from_own(result, found, own, distance, fresh), lambda op: op.is_(PURE))


def _without_edge(kernel: Kernel, mean: Op, fresh: Callable[[str], str]) -> list[Op]:
    """The mean; of rows that start anywhere, of numbers that are 0 beyond the edge, so that these alone are kept."""
    reads = [op for op in kernel.body if op.is_(READ) and op.get("around") and mean["dim"] in op["masked"]]
    if not reads or not mean["masked"]:
        return [mean]
    value = mean.operands[0]
    whole = Value(fresh(value.name), value.type)
    edge = {key: mean[key] for key in ("dim", "masked", "origin", "size")}
    pad = Op("pad", (value,), (whole,), attribute_pairs({**edge, "value": 0.0}), span=mean.span, node=mean.node)
    return [pad, replace(mean, operands=(whole, *mean.operands[1:])).with_(masked=False)]


def _from_own(
    body: Sequence[Op], found: _Spread, own: Value, own_distance: Value, fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """How far elements are from the mean of all is how far they are from that of their wave, and that from this, so
    that nothing but that is kept of them; a product with a number of the row takes it in."""
    distance, mean, made = found.less.result, found.mean.result, list[Op]()

    def new(function: str, *operands: Value, of: Op, result: Value) -> Value:
        pairs = attribute_pairs({"function": function})
        made.append(Op("elementwise", operands, (result,), pairs, span=of.span, node=of.node))
        return result

    apart = Value(fresh("apart"), mean.type)
    for op in body:
        if op is found.less:
            new("sub", own, mean, of=op, result=apart)
            new("add", own_distance, apart, of=op, result=distance)
        elif _is(op, "mul") and distance in op.operands and (by := _of_row(op, distance)) is not None:
            moved = new("mul", apart, by, of=op, result=Value(fresh(apart.name), apart.type))
            new("fma", own_distance, by, moved, of=op, result=op.result)
        else:
            made.append(op)
    return tuple(made)


def _of_row(op: Op, distance: Value) -> Value | None:
    """What a product multiplies it by, if that is one number for all of the row."""
    (other,) = [value for value in op.operands if value != distance] or (distance,)
    return None if other.tile.dims else other
