"""Accesses at places that values say go in; one comparison of vectors for those with one size, and the checks that are left,
come out."""

from __future__ import annotations

from dataclasses import dataclass, field

from wavespec.emit.indices import Indices, is_natural, is_wide
from wavespec.emit.mlir_text import MlirText
from wavespec.ir.expr import Expr, const
from wavespec.ir.thread import Mask

_LEAST = 4
"""Places that are worth a vector."""


@dataclass(slots=True)
class PlacesInside:
    """Whether places that are read from tensors are from 0 to less than their size.

    Such places are elements of vectors that have been loaded, which the compiler behind compares as they are: one by
    one they would be taken apart, and wait in memory.
    """

    text: MlirText
    indices: Indices
    bits: dict[Expr, tuple[str, str, int]] = field(default_factory=dict[Expr, tuple[str, str, int]])
    """By a place: the vector of bits that says so, its type, and which of them."""
    vectors: dict[str, str] = field(default_factory=dict[str, str])
    """These vectors, each with its type."""

    def compare(self, pairs: Mask) -> None:
        """Compare all places of ``pairs`` with their sizes."""
        natural = {right for left, right in pairs if left is const(-1)}
        sizes: dict[Expr, list[Expr]] = {}
        for left, right in dict.fromkeys(pairs):
            if left in natural and left.kind == "symbol" and not is_wide(left) and not is_wide(right):
                sizes.setdefault(right, []).append(left)
        for size, places in sizes.items():
            if len(places) < _LEAST or not is_natural((size,)):
                continue
            type_, bits = f"vector<{len(places)}xi32>", f"vector<{len(places)}xi1>"
            elements = ", ".join(self.indices.integer(place, 32) for place in places)
            vector = self.text.op(f"vector.from_elements {elements} : {type_}")
            bound = self.text.op(f"vector.broadcast {self.indices.integer(size, 32)} : i32 to {type_}")
            inside = self.text.op(f"arith.cmpi ult, {vector}, {bound} : {type_}")
            self.vectors[inside] = bits
            self.bits |= {place: (inside, bits, number) for number, place in enumerate(places)}

    def of_all(self, pairs: Mask) -> str:
        """SSA name of an ``i1``: all places are inside, and the other comparisons hold."""
        names = [self.text.op(f"vector.reduction <and>, {v} : {bits} into i1") for v, bits in self.vectors.items()]
        return self._both(names, pairs)

    def of_one(self, pairs: Mask) -> str:
        """The same of one access."""
        found = [self.bits[left] for left, _ in pairs if left in self.bits]
        return self._both([self.text.op(f"vector.extract {v}[{at}] : i1 from {bits}") for v, bits, at in found], pairs)

    def _both(self, names: list[str], pairs: Mask) -> str:
        left_out = {(const(-1), place) for place in self.bits}
        rest = tuple(pair for pair in pairs if pair[0] not in self.bits and pair not in left_out)
        names = [*names, *([self.indices.holds(rest)] if rest or not names else [])]
        result = names[0]
        for name in names[1:]:
            result = self.text.op(f"arith.andi {result}, {name} : i1")
        return result
