"""An expression of places goes in; the names in it that mean nothing come out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where
from wavespec.schema.expressions import PLACES, Call, Expression, Name
from wavespec.schema.models import KernelSpec
from wavespec.schema.resolve import UndefinedName, part_of


def check_place(
    spec: KernelSpec, expression: Expression, where: Where, broken: frozenset[str]
) -> Iterator[WavespecError]:
    """``expression``, written at ``where``, has parameters, dims, and their tiles."""
    tiled = {id(node) for call in expression.walk() if _is_place(call) for node in call.children}
    for node in expression.walk():
        if not isinstance(node, Name) or node.name in spec.dims or node.name in broken:
            continue
        if id(node) in tiled:
            yield UndefinedName(part_of(where, node), node.name, "a dim", list(spec.dims))
        elif node.name not in spec.params:
            yield UndefinedName(part_of(where, node), node.name, "a dim or a parameter", [*spec.dims, *spec.params])


def _is_place(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in PLACES
