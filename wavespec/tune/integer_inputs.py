"""A graph goes in; which numbers each of its integer inputs has to hold, so that a run shows something, comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wavespec.schema import KernelSpec
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.expressions import Expression, Name
from wavespec.schema.ops import Binary, Cast, Choice, Index, Read, Take, ValueOp, Written, walk
from wavespec.schema.ops.base import Op

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an integer input is used for: `places` along a dim; `counts` of its elements, which are compared with their
    places; or `starts` of parts of it, in order, the last one the end."""

    use: Literal["places", "counts", "starts"]
    dim: str


def meanings(spec: KernelSpec) -> dict[str, Meaning]:
    """The integer inputs of which the graph says what they are used for."""
    uses = _Uses(spec)
    return {
        name: meaning
        for name, tensor in spec.tensors.items()
        if tensor.role != "output" and tensor.dtype[0] in "iu" and (meaning := uses.meaning(name)) is not None
    }


class _Uses:
    def __init__(self, spec: KernelSpec) -> None:
        self._tensor_of: dict[str, str] = {}
        """Value: the tensor whose numbers it holds."""
        self._dim_of: dict[str, str] = {}
        """Value: the dim along which it is the place."""
        self._found: dict[str, dict[str, str]] = {"places": {}, "counts": {}, "added": {}}
        """By the kind of use, tensor: dim."""
        self._reads: dict[str, set[str]] = {}
        """Tensor: the places that are read, as the spec has them."""
        for op in walk(plain_graph(spec)[0]):
            self._look_at(op)

    def meaning(self, tensor: str) -> Meaning | None:
        if dim := self._found["places"].get(tensor):
            return Meaning("places", dim)
        read = self._reads.get(tensor, set())
        if any(f"{place} + 1" in read for place in read) and (dim := self._found["added"].get(tensor)):
            return Meaning("starts", dim)
        dim = self._found["counts"].get(tensor)
        return Meaning("counts", dim) if dim else None

    def _look_at(self, op: Op) -> None:
        if isinstance(op, Read):
            self._reads.setdefault(op.tensor, set()).update(map(str, op.at.values()))
        if isinstance(op, Read | Written | Take):
            self._look_at_places(op.at)
        if isinstance(op, Binary) and op.word in _COMPARISONS:
            self._look_at_comparison(op)
        if isinstance(op, ValueOp):  # a name may have been that of another value
            self._define(self._tensor_of, op.name, self._tensor_behind(op))
            self._define(self._dim_of, op.name, op.dim if isinstance(op, Index) else "")

    def _define(self, known: dict[str, str], name: str, what: str) -> None:
        known.pop(name, None)
        if what:
            known[name] = what

    def _tensor_behind(self, op: Op) -> str:
        """The one tensor whose numbers the value holds, or others in place of some."""
        match op:
            case Read():
                return op.tensor
            case Cast():
                return self._tensor_of.get(op.value, "")
            case Choice():
                found = {self._tensor_of.get(str(one), "") for one in (op.then, op.otherwise)} - {""}
                return found.pop() if len(found) == 1 else ""
            case _:
                return ""

    def _look_at_comparison(self, op: Binary) -> None:
        for index, number in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            dim, tensor = self._dim_of.get(str(index), ""), self._tensor_of.get(str(number), "")
            if dim and tensor:
                self._found["places" if op.word in ("eq", "ne") else "counts"].setdefault(tensor, dim)

    def _look_at_places(self, at: Mapping[str, Expression]) -> None:
        for dim, place in at.items():
            use = "places" if isinstance(place, Name) else "added"
            for name in place.names():
                if name in self._tensor_of:
                    self._found[use].setdefault(self._tensor_of[name], dim)
