"""An expression of places goes in; the names in it that mean nothing come out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_scalars import refuse_fraction
from wavespec.schema.language.dtypes import INTEGERS, DType
from wavespec.schema.language.expressions import PLACES, Call, Expression, Name
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops.mma import DtypeMismatch
from wavespec.schema.resolve import UndefinedName, part_of


def check_place(
    spec: KernelSpec,
    expression: Expression,
    where: Where,
    broken: frozenset[str],
    dtype_of: Callable[[str], DType | None] = lambda _: None,
    carried: Collection[str] = (),
) -> Iterator[WavespecError]:
    """``expression``, written at ``where``, has parameters, dims, their tiles, and values that are whole numbers.

    Args:
        dtype_of: the element type of a value.
        carried: values that are likely to be meant.
    """
    known, what = (
        [*carried, *spec.dims, *spec.params, *spec.scalars],
        "a value, a dim or a parameter" if carried else "a dim or a parameter",
    )
    tiled = {id(node) for call in expression.walk() if _is_place(call) for node in call.children}
    for node in expression.walk():
        if not isinstance(node, Name) or node.name in spec.dims or node.name in broken:
            continue
        if id(node) in tiled:
            yield UndefinedName(part_of(where, node), node.name, "a dim", list(spec.dims))
        elif node.name in spec.scalars:
            yield from refuse_fraction(spec, node, part_of(where, node))
            dtype_of(node.name)  # that it is used
        elif (dtype := dtype_of(node.name)) is not None:
            if dtype not in INTEGERS:
                message = f"Places are whole numbers; {quote(node.name)} is {dtype}."
                hints = ["Convert it first: '- name: {cast: ..., dtype: i32}'."]
                yield DtypeMismatch(part_of(where, node), message, hints=hints, about=[node.name])
        elif node.name not in spec.params:
            yield UndefinedName(part_of(where, node), node.name, what, known)


def _is_place(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in PLACES
