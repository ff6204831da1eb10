"""The ranks in the registers of one lane, of which `topk` finds the largest, time after time."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.reduce import identity


class Candidates:
    """Ranks of which the largest is searched, word by word: candidates are those that are like it so far.

    ``compared``: the next word of each, less than any other where a rank is no candidate.
    """

    def __init__(self, build: ThreadBuilder, hint: str, words: Sequence[Sequence[Value]]) -> None:
        self.build, self.hint, self.words = build, hint, words
        self.compared, self.is_like = self.front(0), list[Value]()

    def front(self, number: int) -> Sequence[Value]:
        """Word ``number`` of those that may be the largest."""
        return self.words[number]

    def narrow(self, number: int, largest: Value) -> None:
        """Only those whose word ``number`` is the largest one stay."""
        self.is_like = [self._equal(word, largest) for word in self.compared]
        if number + 1 < len(self.words):
            pairs = zip(self.is_like, self.front(number + 1), strict=True)
            self.compared = [self.select(is_like, word, self.nothing(word)) for is_like, word in pairs]

    def go_on(self) -> None:
        """The candidate that is left goes away, and the search begins again."""
        self.words = [self.without(words) for words in self.words]
        self.compared = self.front(0)

    def without(self, words: Sequence[Value]) -> list[Value]:
        """Of each rank the same word, without the candidate's."""
        pairs = zip(self.is_like, words, strict=True)
        return [self.select(is_like, self.nothing(word), word) for is_like, word in pairs]

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return self.build.elementwise("where", condition, then, otherwise, hint=self.hint)

    def nothing(self, like: Value) -> Value:
        """Less than any word."""
        dtype = like.vector.dtype
        return self.build.constant(identity("maximum", dtype), dtype, like.vector.elements)

    def _equal(self, word: Value, largest: Value) -> Value:
        size = word.vector.elements
        if largest.vector.elements < size:
            largest = self.build.broadcast(largest, size)
        return self.build.elementwise("eq", word, largest, hint=self.hint)


class InOrder(Candidates):
    """Ranks that are in order: only the first may be the largest, and makes way for the next."""

    def front(self, number: int) -> Sequence[Value]:
        return self.words[number][:1]

    def without(self, words: Sequence[Value]) -> list[Value]:
        (is_first,), after = self.is_like, [*words[1:], self.nothing(words[0])]
        return [self.select(is_first, later, word) for word, later in zip(words, after, strict=True)]
