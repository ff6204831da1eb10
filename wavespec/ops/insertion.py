"""Ranks of a tile and those found before go in; those found with the larger ones of the tile among them come out.

Code is one loop that takes the largest rank of the tile as long as that is larger than the last one found. Few tiles of
a long row have one that is: where elements can be compared with the last one found, the loop, and what makes ranks of
them, is in a branch; of tiles of which several lanes have a larger one, as the first of all, lanes sort what they have.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.butterfly import butterfly
from wavespec.ops.candidates import Candidates
from wavespec.ops.contexts import ThreadContext

_SEVERAL = 6
"""Lanes that have a larger rank, from which on it is sooner done to sort all than to insert one after the other."""

Words = list[list[list[Value]]]
"""By word and group: the ranks of a group, or what is found of it."""


class Insertion:
    """``largest_of``: what the largest of each group is, whichever lane has it; ``others``: bits of the lane number in
    which lanes differ that have other groups."""

    def __init__(
        self,
        context: ThreadContext,
        hint: str,
        largest_of: Callable[[Sequence[Sequence[Value]]], list[Value]],
        others: Sequence[int],
    ) -> None:
        self.context, self.hint, self.largest_of, self.others = context, hint, largest_of, others

    def where_larger(
        self, flags: Sequence[Value], lanes: Sequence[int], ranks: Words, known: Words, sort: Callable[[Words], Words]
    ) -> Words:
        """The same in a branch, taken where a flag, an i32, of one of the lanes that differ in these bits is 1."""
        context, outer = self.context, self.context.build
        flag = functools.reduce(lambda one, other: outer.elementwise("maximum", one, other, hint=self.hint), flags)
        (total,) = butterfly(context, "add", [flag], lanes, self.hint)
        several, one, none = (outer.constant(value, flag.vector.dtype, 1) for value in (_SEVERAL, 1, 0))
        larger = self._bound("larger", outer.elementwise("minimum", total, one, hint=self.hint))
        is_many = outer.elementwise("le", several, total, hint=self.hint)
        many = self._bound("many", outer.elementwise("where", is_many, one, none, hint=self.hint))

        def both(known: Words) -> Words:
            known = self._branch("sorted", many, known, sort)
            return self.inserted(ranks, known, (1 - many) * len(known[0][0]))

        return self._branch("any", larger, known, both)

    def _bound(self, name: str, value: Value) -> Expr:
        build = self.context.build
        made = symbol(build.fresh(f"{self.hint}.{name}"), 0, 1)
        self.context.symbols.append(made)
        build.add("bind", (value,), (), symbol=made.args[0], uniform=True, of_wave=True)
        return made

    def _branch(self, name: str, condition: Expr, known: Words, change: Callable[[Words], Words]) -> Words:
        """What is known, changed where the condition is 1."""
        context, outer = self.context, self.context.build
        at = symbol(outer.fresh(f"{self.hint}.{name}"), 0, 1)
        context.symbols.append(at)
        carried = tuple(_flat(known))
        arguments = tuple(Value(outer.fresh(value.name), value.type) for value in carried)
        context.build = inner = outer.nested()
        yields = tuple(_flat(change(_like(known, iter(arguments)))))
        context.build = outer
        results = outer.loop(at.args[0], 0, condition, 1, carried, arguments, tuple(inner.ops), yields, once=True)
        return _like(known, iter(results))

    def inserted(self, ranks: Words, known: Words, most: Expr | None = None) -> Words:
        """What is known, with the larger ranks among it; ``most``: as many of them, where it is not all."""
        context, outer = self.context, self.context.build
        count = len(known[0][0])
        largest = self._largest(self._groups(ranks))
        goes_on = symbol(outer.fresh(f"{self.hint}.larger"), 0, 1)
        context.symbols += [goes_on, at := symbol(outer.fresh(f"{self.hint}.taken"), 0, count)]
        self._bind(goes_on.args[0], largest, known)
        carried = (*_flat(ranks), *_flat(known), *_flat([largest]))
        arguments = tuple(Value(outer.fresh(value.name), value.type) for value in carried)
        following = iter(arguments)
        ranks, known, (largest,) = (_like(one, following) for one in (ranks, known, [largest]))
        context.build = outer.nested()
        groups = self._groups(ranks)
        for number, of_groups in enumerate(largest):
            for group, one in zip(groups, of_groups, strict=True):
                group.narrow(number, one)
        for group in groups:
            group.go_on()
        known = self._among(known, largest)
        largest = self._largest(groups)
        self._bind(goes_on.args[0], largest, known)
        left = [[list(group.words[number]) for group in groups] for number in range(len(ranks))]
        yields = (*_flat(left), *_flat(known), *_flat([largest]))
        inner, context.build = context.build, outer
        results = outer.loop(
            at.args[0],
            0,
            count if most is None else most,
            1,
            carried,
            arguments,
            tuple(inner.ops),
            yields,
            goes_on=goes_on,
        )
        behind = iter(results[sum(1 for _ in _flat(ranks)) :])
        return _like(known, behind)

    def _groups(self, ranks: Words) -> list[Candidates]:
        return [Candidates(self.context.build, self.hint, group) for group in zip(*ranks, strict=True)]

    def _largest(self, groups: Sequence[Candidates]) -> list[list[Value]]:
        """The words of the largest rank of each group."""
        found: list[list[Value]] = []
        for number in range(len(groups[0].words)):
            found.append(self.largest_of([group.compared for group in groups]))
            for group, one in zip(groups, found[-1], strict=True):
                group.narrow(number, one)
        for group in groups:
            group.compared = group.front(0)
        return found

    def _among(self, known: Words, largest: list[list[Value]]) -> Words:
        """What is known, in order, with the largest in front of the first that is less; the last one makes way."""
        build = self.context.build
        found: Words = [[] for _ in known]
        for number in range(len(largest[0])):
            new = [words[number] for words in largest]
            is_larger = [self._is_larger(new, one) for one in zip(*(words[number] for words in known), strict=True)]
            for words, taken, results in zip(known, new, found, strict=True):
                word, moved = words[number], [taken]
                for place, earlier in enumerate(word[:-1]):
                    moved.append(build.elementwise("where", is_larger[place], earlier, taken, hint=self.hint))
                pairs = zip(is_larger, moved, word, strict=True)
                results.append([build.elementwise("where", *one, hint=self.hint) for one in pairs])
        return found

    def _is_larger(self, new: Sequence[Value], one: Sequence[Value]) -> Value:
        """Whether a rank is larger, by the first word in which they differ."""
        build: ThreadBuilder = self.context.build
        (*earlier, (last, other)) = zip(new, one, strict=True)
        result = build.elementwise("lt", other, last, hint=self.hint)
        for word, other in reversed(earlier):
            differs = build.elementwise("ne", word, other, hint=self.hint)
            larger = build.elementwise("lt", other, word, hint=self.hint)
            result = build.elementwise("where", differs, larger, result, hint=self.hint)
        return result

    def _bind(self, name: str, largest: list[list[Value]], known: Words) -> None:
        """Let a symbol be 1 where a lane of the wave has something to insert."""
        build, flag = self.context.build, DTYPES["i32"]
        flags: list[Value] = []
        for number in range(len(largest[0])):
            new, last = [word[number] for word in largest], [word[number][-1] for word in known]
            is_larger = self._is_larger(new, last)
            size = is_larger.vector.elements
            one, none = (build.constant(value, flag, size) for value in (1, 0))
            chosen = build.elementwise("where", is_larger, one, none, hint=self.hint)
            flags.append(build.reduce("maximum", chosen, self.hint) if size > 1 else chosen)
        total = flags[0]
        for other in flags[1:]:
            total = build.elementwise("maximum", total, other, hint=self.hint)
        (total,) = butterfly(self.context, "maximum", [total], self.others, self.hint)
        build.add("bind", (total,), (), symbol=name, uniform=True, of_wave=True)


def _flat(words: Sequence[Sequence[Sequence[Value]]] | Sequence[Sequence[list[Value]]]) -> Iterator[Value]:
    return itertools.chain.from_iterable(itertools.chain.from_iterable(words))


def _like(words: Words, values: Iterator[Value]) -> Words:
    """Other values in the same places."""
    return [[[next(values) for _ in group] for group in of_word] for of_word in words]
