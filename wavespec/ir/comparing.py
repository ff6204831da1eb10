"""Whether two kernels are the same, and attributes of operations as what is the same compares."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from dataclasses import fields

from wavespec.ir.kernel import Kernel, Op


def is_same(before: Kernel, after: Kernel) -> bool:
    """Whether two kernels agree in everything, also in what operations say of the spec, which ``==`` leaves out."""
    if before is after:
        return True
    return (
        _own(before) == _own(after)
        and all(one.span is other.span for one, other in zip(before.memories, after.memories, strict=True))
        and _are_same(before.body, after.body)
    )


_own = operator.attrgetter(*[field.name for field in fields(Kernel) if field.init and field.name != "body"])


def key_of_attributes(op: Op) -> tuple[Hashable, ...]:
    """What is equal for operations with the same attributes alone: 0.0 and -0.0, which ``==`` takes for one, differ."""
    return tuple((key, repr(value) if isinstance(value, float) else value) for key, value in op.attributes)


def _are_same(before: tuple[Op, ...], after: tuple[Op, ...]) -> bool:
    return before is after or (len(before) == len(after) and all(map(_is_same_op, before, after)))


def _is_same_op(before: Op, after: Op) -> bool:
    if before is after:
        return True
    if before.node != after.node or before.span is not after.span:
        return False
    if before.attributes is not after.attributes and (
        before.attributes != after.attributes or repr(before.attributes) != repr(after.attributes)  # -0.0 == 0
    ):
        return False
    if (before.name, before.operands, before.results) != (after.name, after.operands, after.results):
        return False
    if before.region is None or after.region is None:
        return before.region is after.region
    ends = ((region.arguments, region.yields) for region in (before.region, after.region))
    return operator.eq(*ends) and _are_same(before.region.ops, after.region.ops)
