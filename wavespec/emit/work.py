"""A resolved kernel goes in; how much it computes, as an expression of the sizes of a call, comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Final

from wavespec.runtime.size_expr import SizeExpr
from wavespec.schema.language.expressions import EvaluationError, Expression
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import Elementwise, Op, Register, Repeat, Size, Structured
from wavespec.schema.resolved import Computation

_SIMPLE: Final = frozenset(
    [
        "add",
        "sub",
        "mul",
        "fma",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "clamp",
        "where",
        "neg",
        "abs",
        "relu",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "floor",
        "ceil",
        "trunc",
        "round",
        "copysign",
    ]
)
"""Functions that are an instruction or two."""
_SERIES: Final = 10
"""Instructions of the others: quotients take as long as a polynomial."""
UNTOLD: Final = 1 << 18
"""Of a kernel with a loop whose steps only values or sizes tell, beside one step: as many as no launch has that keeps
Python's lock (`runtime/workgroups.py`), since it may take seconds."""


def work_of(computation: Computation, sizes: Mapping[str, SizeExpr], steps_of: Mapping[str, int]) -> SizeExpr:
    """The instructions of a call, were each for one element: what is read, computed and written, each as many times as
    the dims have places that it is done for; of loops whose steps only values or sizes tell one step, and `UNTOLD`.

    Args:
        sizes: of all dims.
        steps_of: the values of names that may stand in the number of steps of a loop.
    """
    counted: Counter[tuple[SizeExpr, ...]] = Counter()
    is_untold = False
    for weight, dims, repeated in _instructions(computation.statements, computation.value_dims, ()):
        steps = [steps for one in repeated if (steps := _number(one, steps_of)) is not None]
        is_untold = is_untold or len(steps) < len(repeated)
        extents = [sizes[dim] for dim in sorted(dims)]
        known = prod(extent for extent in (*extents, *steps) if isinstance(extent, int))
        counted[tuple(extent for extent in extents if not isinstance(extent, int))] += weight * known
    counted[()] += UNTOLD * is_untold
    factors = [
        (*extents, *([count] if count != 1 or not extents else [])) for extents, count in counted.items() if count
    ]
    terms = [reduce(lambda left, right: ("mul", left, right), one) for one in factors]
    return reduce(lambda left, right: ("add", left, right), terms) if terms else 0


def _instructions(
    ops: Sequence[Op], dims: Mapping[str, tuple[str, ...]], repeated: tuple[Expression, ...]
) -> Iterator[tuple[int, frozenset[str], tuple[Expression, ...]]]:
    """Of each op: its instructions for an element, the dims of all elements, the numbers of steps of loops around."""
    for op in ops:
        if isinstance(op, Structured):
            around = (*repeated, op.steps) if isinstance(op, Repeat) else repeated
            for field in op.bodies:
                yield from _instructions(getattr(op, field), dims, around)
        elif not isinstance(op, Register | Size):
            names = [getattr(op, "name", ""), *words_of(op)]
            is_long = isinstance(op, Elementwise) and op.function.word not in _SIMPLE
            yield _SERIES if is_long else 1, frozenset(dim for name in names for dim in dims.get(name, ())), repeated


def _number(steps: Expression, values: Mapping[str, int]) -> int | None:
    try:
        return int(steps.evaluate(values)) if values.keys() >= {*steps.names()} else None
    except EvaluationError:  # `size(S)` is known inside the graph only
        return None
