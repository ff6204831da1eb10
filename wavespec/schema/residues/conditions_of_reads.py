"""A spec goes in; the one in which reads at places that a condition puts outside of the tensor are 0 by that condition,
comes out: `where(c, pixel, 0)` for a pixel at `where(c, row, -1)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import AnyOp, Formula, Read, Structured
from wavespec.schema.residues.read_graph import ReadGraph
from wavespec.schema.residues.written_sums import SumWriter


def with_conditions_of_reads(graph: ReadGraph) -> KernelSpec:
    spec = graph.spec
    return spec.model_copy(update={"graph": tuple(_replaced(spec.graph, graph))})


def _replaced(body: Sequence[AnyOp], graph: ReadGraph) -> Iterator[AnyOp]:
    for op in body:
        if isinstance(op, Structured):
            yield op.with_bodies(lambda inner: _replaced(inner, graph))
            continue
        found = _conditions(op, graph) if isinstance(op, Read) else {}
        if not isinstance(op, Read) or not found:
            yield op
            continue
        places = {**op.at, **{dim: place for dim, (_, place) in found.items()}}
        inner = op.model_copy(update={"name": free_name(graph.spec, f"{op.name}_anywhere"), "at": places})
        condition = reduce(lambda left, right: Binary("&", left, right), (one for one, _ in found.values()))
        yield inner
        yield Formula(name=op.name, text=str(Call("where", (condition, Name(inner.name), Num(0)))))


def _conditions(op: Read, graph: ReadGraph) -> dict[str, tuple[Expression, Expression]]:
    """By the dims of a tensor, the condition on which a place is inside, and the place then."""
    found: dict[str, tuple[Expression, Expression]] = {}
    places = SumWriter(graph.indices, {}, of_formulas=False)
    for dim, place in op.at.items():
        match graph.trees.get(place.name) if isinstance(place, Name) else None:
            case Call(function="where", arguments=(condition, inside, outside)):
                known, number = graph.indices.formula(inside), graph.indices.formula(outside)
                is_outside = number is not None and number.number is not None and number.number < 0
                found |= {dim: (condition, places.write(known))} if known is not None and is_outside else {}
            case _:
                pass
    return found
