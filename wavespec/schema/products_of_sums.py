"""A graph whose sums of products are written element by element goes in; the same with products of matrices comes out.

`sum over d of f32(a[r, d]) * f32(b[n, d])` is what an `mma` of `a` and `b` makes of numbers of 16 bits, whose products
f32 holds. A factor that is computed in f32 is three numbers of bf16, which together are all of its bits; of infinities
these make NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import free_name, words_of
from wavespec.schema.ops import (
    ELEMENTWISE,
    OPS,
    AnyOp,
    Cast,
    Index,
    Iterate,
    Mma,
    Op,
    Read,
    Reduce,
    Register,
    Size,
    Structured,
    ValueOp,
    ValueType,
    walk,
)
from wavespec.schema.unused_ops import without_unused

_EXACT: Final = ("bf16", "f16")
"""Types whose products f32 holds, and which matrix units multiply."""
_PARTED: Final = "bf16"
"""The type of a part of a number of f32: it has all of its powers of two."""
_DROPPED: Final = (*ELEMENTWISE, Cast, Index, Mma, Read, Reduce, Register, Size)


def with_products(spec: KernelSpec, rows: str) -> KernelSpec:
    """The spec with plain ops, and with a product of matrices for each sum of products that has ``rows`` in one factor
    alone, and other rows in the other one.

    ``spec``: with tiles for its loops.
    """
    ops, types = plain_graph(spec)
    graph = _Sums(spec, ops, types, rows).body(ops)
    return spec.model_copy(update={"graph": without_unused(graph, is_dropped)})


class _Sums:
    """The sums of products among plain ops."""

    def __init__(self, spec: KernelSpec, ops: Sequence[AnyOp], types: Mapping[str, ValueType], rows: str) -> None:
        self.spec, self.types, self.rows = spec, types, rows
        every = list(walk(ops))
        self.made: dict[str, Op] = {op.name: op for op in every if isinstance(op, ValueOp)}
        used = [word for op in every if not isinstance(op, Structured) for word in words_of(op)]
        bounds = [word for op in every if isinstance(op, Iterate) for word in words_of((op.start, op.end, op.until))]
        self.used = [*used, *bounds]
        self.added = {name: op for op in every for name in self._added_once(op)}
        """By sum that nothing else uses, what adds it to something."""

    def body(self, ops: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
        found = list[Any]()
        for op in ops:
            if isinstance(op, Structured):
                found.append(op.with_bodies(self.body))
            elif factors := self._factors(op):
                if (name := _name(op)) not in self.added:
                    zero = free_name(self.spec, f"{name}_zero")
                    found.append(Register(name=zero, shape=self.types[name].dims, dtype="f32", value=0))
                    found += self._product(name, factors, zero)
            elif summed := next((name for name, adding in self.added.items() if adding is op), ""):
                (other,) = (one for one in words_of(op) if one != summed)
                if factors := self._factors(self.made[summed]):
                    found += self._product(_name(op), factors, other)
            else:
                found.append(op)
        return tuple(found)

    def _added_once(self, op: Op) -> Iterator[str]:
        """The sums of products that an addition to numbers of the same dims uses, and nothing else does."""
        if not isinstance(op, OPS["add"]):
            return
        words = words_of(op)
        for name, other in ((words[0], words[-1]), (words[-1], words[0])):
            summed = self.made.get(name)
            if (
                len(words) != 2
                or not isinstance(summed, Reduce)
                or other not in self.types
                or not self._factors(summed)
            ):
                continue
            if {*self.types[other].dims} == {*self.types[name].dims} and self.used.count(name) == 1:
                yield name
                return

    def _factors(self, op: Op | None) -> tuple[str, str] | None:
        """What a sum multiplies, that with the rows first; nothing where it is of something else."""
        if not isinstance(op, Reduce):
            return None
        product = self.made.get(op.values[0])
        if op.word != "sum" or op.init is not None or len(op.along) != 1 or not isinstance(product, OPS["mul"]):
            return None
        factors = words_of(product)
        if self.types[op.name].dtype != "f32" or len(factors) != 2 or not self.types.keys() >= {*factors}:
            return None
        lhs, rhs = sorted(factors, key=lambda name: self.rows not in self.types[name].dims)
        of_lhs, of_rhs, own = {*self.types[lhs].dims}, {*self.types[rhs].dims}, {*self.types[op.name].dims}
        are_matrices = self.rows in of_lhs - of_rhs and (of_rhs - of_lhs) & own and {*op.along} <= of_lhs & of_rhs
        if not are_matrices or of_lhs | of_rhs != own | {*op.along}:
            return None
        narrow = self._narrow(rhs)
        if not narrow or self.types[narrow].dtype not in (self.types[self._narrow(lhs) or lhs].dtype, _PARTED):
            return None
        return lhs, rhs

    def _narrow(self, name: str) -> str:
        """The value of 16 bits that one of f32 is, if it is one."""
        op = self.made.get(name)
        is_one = isinstance(op, Cast) and op.value in self.types and self.types[op.value].dtype in _EXACT
        return op.value if is_one and isinstance(op, Cast) else ""

    def _product(self, name: str, factors: tuple[str, str], acc: str) -> Iterator[AnyOp]:
        """The product of matrices that adds to ``acc``: of a factor of f32 that of its parts, the smallest first."""
        lhs, rhs = factors[0], self._narrow(factors[1])
        if (narrow := self._narrow(lhs)) and self.types[narrow].dtype == self.types[rhs].dtype:
            yield Mma(name=name, lhs=narrow, rhs=rhs, acc=acc)
            return
        high, middle, low, left, least = (
            free_name(self.spec, f"{lhs}_{part}") for part in ("high", "middle", "low", "left", "least")
        )
        yield Cast(name=high, value=lhs, dtype=_PARTED)
        yield from self._rest(left, lhs, high)
        yield Cast(name=middle, value=left, dtype=_PARTED)
        yield from self._rest(least, left, middle)
        yield Cast(name=low, value=least, dtype=_PARTED)
        sums = [acc, *(free_name(self.spec, f"{name}_of_{part}") for part in ("low", "middle")), name]
        for part, before, sum_ in zip((low, middle, high), sums, sums[1:], strict=False):
            yield Mma(name=sum_, lhs=part, rhs=rhs, acc=before)

    def _rest(self, name: str, value: str, part: str) -> Iterator[AnyOp]:
        wide = free_name(self.spec, f"{part}_wide")
        yield Cast(name=wide, value=part, dtype="f32")
        made: Any = OPS["sub"](**{"name": name, "lhs": value, "rhs": wide})
        yield made


def _name(op: Op) -> str:
    return getattr(op, "name", "")


def is_dropped(op: AnyOp) -> bool:
    """Whether a graph does as well without it, where nothing uses it."""
    return isinstance(op, _DROPPED)
