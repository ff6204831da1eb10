"""A loop over tiles that differ in steps goes in; the same, which carries how many steps its rings made, comes out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs
from wavespec.ir.thread_ops import BIND, FOR
from wavespec.schedule.buffer_ring import BufferRing

_COUNT = VectorType(DTYPES["i32"], 1)


def with_rounds(
    loop: Op, ops: Sequence[Op], rings: Mapping[int, Sequence[BufferRing]], fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """A loop around others with these operations in place of its own: it carries the steps of the rings of loops that
    it has itself, and hands on those that loops in it carry.  ``rings``: those of each loop as it was, by its `id`."""
    own = [ring for op in loop.body.ops for ring in rings.get(id(op), ())]
    inner = [ring for op in loop.body.ops for one in op.walk() if one is not op for ring in rings.get(id(one), ())]
    *before, loop = _handing_on(loop, ops, inner, fresh)
    return *before, *_carrying(loop, own, fresh)


def _carrying(loop: Op, rings: Iterable[BufferRing], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The loop over tiles with counts of steps, modulo two rounds; each starts from 0, is what its symbol stands for in
    a tile, and goes on by the steps of the tile."""
    counts = {ring.done: ring for ring in rings if ring.is_carried and ring.ends}
    before, binds, after = list[Op](), list[Op](), list[Op]()
    arguments, yields, results = list[Value](), list[Value](), list[Value]()
    for done, ring in counts.items():
        start, here, behind, end = (Value(fresh(done.args[0]), _COUNT) for _ in range(4))
        before.append(Op("constant", (), (start,), attribute_pairs({"value": 0})))
        binds.append(Op("bind", (here,), (), attribute_pairs({"symbol": done.args[0]})))
        total = (done + ring.steps) % (2 * ring.stages)
        after.append(Op("coordinates", (), (behind,), attribute_pairs({"places": (total,)})))
        arguments.append(here)
        yields.append(behind)
        results.append(end)
    region = Region((*loop.body.arguments, *arguments), (*binds, *loop.body.ops, *after), (*loop.body.yields, *yields))
    operands = (*loop.operands, *(op.result for op in before))
    return *before, replace(loop, operands=operands, results=(*loop.results, *results), region=region)


def _handing_on(
    loop: Op, ops: Sequence[Op], rings: Iterable[BufferRing], fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """The loop around one among ``ops`` that carries steps of these rings: it begins each time with the count that it
    ended with the last time."""
    counts = {ring.done.args[0] for ring in rings if ring.is_carried and ring.ends}
    place = next((n for n, op in enumerate(ops) if op.is_(FOR) and _counted(op, counts)), None)
    if place is None:
        return (replace(loop, region=replace(loop.body, ops=tuple(ops))),)
    inner = ops[place]
    starts = {operand.name: operand for operand in (inner.operands[number] for number in _counted(inner, counts))}
    before = tuple(op for op in ops if not starts.keys().isdisjoint(value.name for value in op.results))
    here = {name: replace(value, name=fresh(name)) for name, value in starts.items()}
    inside = [op for op in ops if op not in before]
    operands = tuple(here.get(value.name, value) for value in inner.operands)
    inside[inside.index(inner)] = replace(inner, operands=operands)
    yields = tuple(inner.results[number] for number in _counted(inner, counts))
    results = tuple(replace(value, name=fresh(value.name)) for value in yields)
    region = Region((*loop.body.arguments, *here.values()), tuple(inside), (*loop.body.yields, *yields))
    loop = replace(loop, operands=(*loop.operands, *starts.values()), results=(*loop.results, *results), region=region)
    return *before, loop


def _counted(loop: Op, counts: Container[str]) -> list[int]:
    """The places of what a loop carries that these symbols stand for in it."""
    bound = {op.operands[0].name for op in loop.body.ops if op.is_(BIND) and op["symbol"] in counts}
    return [number for number, argument in enumerate(loop.body.arguments) if argument.name in bound]
