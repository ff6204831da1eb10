"""Vectors in, the vector whose elements are the sums of the elements of each out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.transpose import LANE_BYTES


def joined_lanes(text: MlirText, vectors: Sequence[str], width: int, element: str, verb: str) -> str:
    """The vector with the sum of the elements of each of at most ``width`` vectors of ``width`` elements, in their order;
    elements beyond these have any value.

    Each stage halves the number of vectors: what has a run of elements of each of several vectors, and another one like
    it, become one with runs of half the length, by two shuffles and an addition.  A transpose, whose lines are added
    up, has ``width`` shuffles in every stage.

    Args:
        verb: the operation that adds two vectors.
    """
    joining = _Joining(text, width, int(element.lstrip("bfi")), element, verb)
    order = joining.order()
    places: list[str | None] = [None] * width
    for number, vector in enumerate(vectors):
        places[order.index(number)] = vector
    found = joining.joined(places)
    assert found is not None, "no vectors"
    return found


@dataclass(frozen=True, slots=True)
class _Joining:
    text: MlirText
    width: int
    bits: int
    element: str
    verb: str

    def joined(self, vectors: Sequence[str | None]) -> str | None:
        run = self.width // 2
        while run:
            vectors = [self._both(vectors[at], vectors[at + 1], run) for at in range(0, len(vectors), 2)]
            run //= 2
        return vectors[0]

    def order(self) -> list[int]:
        """Which vector, as an element of the result, each of those that are joined is."""
        runs = [[at] * self.width for at in range(self.width)]
        run = self.width // 2
        while run:
            low = self._halves(run)[0]
            pairs = zip(runs[::2], runs[1::2], strict=True)
            runs = [[(one + other)[at] for at in low] for one, other in pairs]
            run //= 2
        (placed,) = runs
        return [placed.index(at) for at in range(self.width)]

    def _both(self, one: str | None, other: str | None, run: int) -> str | None:
        """Runs of ``run`` sums of both, where each has runs of twice as many."""
        if one is None:
            assert other is None, "vectors are behind those that are not there"
            return None
        type_ = f"vector<{self.width}x{self.element}>"
        halves = (
            self.text.op(f"vector.shuffle {one}, {other or one} {half} : {type_}, {type_}")
            for half in self._halves(run)
        )
        low, high = halves
        return self.text.op(f"{self.verb} {low}, {high} : {type_}")

    def _halves(self, run: int) -> tuple[list[int], list[int]]:
        """The lower halves of runs of ``2 * run`` elements of two vectors, and the higher ones: those of one, then those of
        the other, in each 16 bytes where they are shorter than these, since shuffles within them are cheap."""
        block = min(self.width, LANE_BYTES * 8 // self.bits)
        block = block if run < block else self.width
        low, high = (
            [
                which * self.width + start + two + half * run + at
                for start in range(0, self.width, block)
                for which in (0, 1)
                for two in range(0, block, 2 * run)
                for at in range(run)
            ]
            for half in (0, 1)
        )
        return low, high
