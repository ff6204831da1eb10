"""A place of an index mapping goes in; whether no element of the dim is ever there comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.expressions import Binary, Call, Expression, Num, Unary
from wavespec.schema.language.expressions import Name as NameNode
from wavespec.schema.ops.base import Scope

_Sum = Counter[tuple[str, str]]
"""How often each index, ``("index", dim)``, each size and each 1, ``("", "")``, is in a sum."""
_ONE = ("", "")


class AlwaysOutside(WavespecError, code="always-outside", severity="warning"):
    def __init__(self, where: Where, place: Expression, dim: str, indices: Sequence[str]) -> None:
        super().__init__(
            where,
            f"{quote(str(place))} is outside of {quote(dim)} for every element, where reads are 0 and writes nothing.",
            hints=[f"{quote(name)} is the index there; its size is 'size({name})'." for name in indices],
        )


def is_always_outside(place: Expression, dim: str, dims: Sequence[str], scope: Scope) -> bool:
    """Whether a sum of indices along ``dims``, of sizes and of numbers is below 0, or not below the size of `dim`,
    whatever these are; of anything else nothing is known."""
    total = _sum_of(place, dims, scope)
    if total is None:
        return False
    behind = Counter(total)
    behind.subtract(_size(dim, scope))
    return _is_less(total, 0, scope) or _is_less(Counter({key: -count for key, count in behind.items()}), 1, scope)


def _is_less(total: _Sum, limit: int, scope: Scope) -> bool:
    """Whether a sum is less than a number for all indices and sizes: an index is at most its size and -1."""
    most = Counter(total)
    for (what, dim), count in total.items():
        if what == "index" and count > 0:
            del most[what, dim]
            most.update({key: times * count for key, times in _size(dim, scope).items()})
            most[_ONE] -= count
    return most[_ONE] < limit and all(count <= 0 for key, count in most.items() if key != _ONE)


def _size(dim: str, scope: Scope) -> _Sum:
    size = scope.size(dim)
    return Counter({("size", dim): 1} if size is None else {_ONE: size})


def _sum_of(node: Expression, dims: Sequence[str], scope: Scope) -> _Sum | None:
    match node:
        case Num(value=int(value)):
            return Counter({_ONE: value})
        case NameNode(name=name) if name in dims:
            return Counter({("index", name): 1})
        case NameNode(name=name) if (value := scope.param(name)) is not None:
            return Counter({_ONE: value})
        case Call(function="size", arguments=(argument,)):
            return _size(str(argument), scope)
        case Unary(op="-", operand=operand):
            return _times(_sum_of(operand, dims, scope), -1)
        case Binary(op=("+" | "-") as sign, left=left, right=right):
            first = _sum_of(left, dims, scope)
            second = _times(_sum_of(right, dims, scope), 1 if sign == "+" else -1)
            if first is None or second is None:
                return None
            first.update(second)
            return first
        case (
            Binary(op="*", left=Num(value=int(value)), right=other)
            | Binary(op="*", left=other, right=Num(value=int(value)))
        ):
            return _times(_sum_of(other, dims, scope), value)
        case _:
            return None


def _times(total: _Sum | None, count: int) -> _Sum | None:
    return None if total is None else Counter({key: times * count for key, times in total.items()})
