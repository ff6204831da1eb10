"""A loop over tiles that differ in steps goes in; the same, which carries how many rounds its rings made, comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs
from wavespec.schedule.buffer_ring import BufferRing, only_if

_COUNT = VectorType(DTYPES["i32"], 1)


def carrying_rounds(
    loop: Op, ops: Sequence[Op], rings: Iterable[BufferRing], fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """The loop over tiles with these operations; each count of rounds, modulo two, starts from 0, is what its symbol
    stands for in a tile, and goes on by the rounds of the tile."""
    counts = {ring.done: ring for ring in rings if ring.whole_rounds and ring.ends}
    before, binds, after = list[Op](), list[Op](), list[Op]()
    arguments, yields, results = list[Value](), list[Value](), list[Value]()
    for done, ring in counts.items():
        start, here, behind, end = (Value(fresh(done.args[0]), _COUNT) for _ in range(4))
        before.append(Op("constant", (), (start,), attribute_pairs({"value": 0})))
        binds.append(Op("bind", (here,), (), attribute_pairs({"symbol": done.args[0]})))
        total = (done + ceildiv(ring.steps, ring.stages)) % 2
        after.append(Op("coordinates", (), (behind,), attribute_pairs({"places": (total,)})))
        arguments.append(here)
        yields.append(behind)
        results.append(end)
    region = Region((*loop.body.arguments, *arguments), (*binds, *ops, *after), (*loop.body.yields, *yields))
    operands = (*loop.operands, *(op.result for op in before))
    return *before, replace(loop, operands=operands, results=(*loop.results, *results), region=region)


def left_of_round(ring: BufferRing, ops: Callable[[Expr, Expr], Sequence[Op]]) -> list[Op]:
    """What ``ops`` makes of the index and the phase of each buffer that the last round of a tile leaves out."""
    if not (ring.whole_rounds and ring.ends):
        return []
    steps = ring.steps
    missing, phase = (const(0) - steps) % ring.stages, (ring.done + (steps - 1) // ring.stages) % 2
    return [
        only_if(((const(number - 1), missing),), *ops(const(ring.stages - number), phase))
        for number in range(1, ring.stages)
    ]
