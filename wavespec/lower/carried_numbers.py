"""Numbers that symbols stand for go in; loops that carry them come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs

COUNT = VectorType(DTYPES["i32"], 1)
Numbers = Mapping[Expr, Value]
"""Values by the symbols that stand for them."""
Body = Callable[[Numbers], tuple[Sequence[Op], Numbers]]
"""Of what a loop carries in a step, what the step does, and what it makes of that for the next one."""


def bind(value: Value, symbol: Expr) -> Op:
    """The operation that says which value a symbol stands for from here on."""
    return Op("bind", (value,), attributes=attribute_pairs({"symbol": symbol.args[0]}))


def computed(value: Value, place: Expr) -> Op:
    """The operation that makes a value of an index expression."""
    return Op("coordinates", (), (value,), attribute_pairs({"places": (place,)}))


def constant(value: Value, held: int) -> Op:
    """The operation that makes a value of a number."""
    return Op("constant", (), (value,), attribute_pairs({"value": held}))


def loop_with(bounds: Mapping[str, object], starts: Numbers, body: Body, fresh: Callable[[str], str]) -> Op:
    """A loop of steps of one, in which symbols stand for what it carries; its results are in the order of ``starts``.

    ``bounds``: its other attributes; ``starts``: what is carried into the first step.
    """
    here = [Value(fresh(value.name), COUNT) for value in starts.values()]
    inside, following = body(dict(zip(starts, here, strict=True)))
    end = [Value(fresh(value.name), COUNT) for value in starts.values()]
    binds = [bind(value, symbol) for symbol, value in zip(starts, here, strict=True)]
    region = Region(tuple(here), (*binds, *inside), tuple(following[symbol] for symbol in starts))
    attributes = attribute_pairs({"step": const(1), "unroll": 1, **bounds})
    return Op("for", tuple(starts.values()), tuple(end), attributes, region)
