"""The assumptions of a kernel go in; those that no call meets, and those that every call meets, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.language.conditions import narrowed_dims, promise_of
from wavespec.schema.language.constraints import AnyConstraint, Assume
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.resolve import constant_values


class ContradictoryAssumption(WavespecError, code="contradictory-assumption"):
    def __init__(self, where: Where, text: str, other: str, first: Span | None) -> None:
        super().__init__(
            where,
            f"No call meets {quote(text)} and {other}.",
            hints=["Delete one of them; what holds for some sizes only is a case of 'targets'."],
            related=[Related(first, "first")] if first else [],
        )


class UselessAssumption(WavespecError, code="useless-assumption", severity="warning"):
    def __init__(self, where: Where, text: str, other: str, first: Span | None) -> None:
        super().__init__(
            where,
            f"{quote(text)} always holds: {other} says so already.",
            hints=["Delete it."],
            related=[Related(first, "first")] if first else [],
        )


def check_assumptions(spec: KernelSpec) -> Iterator[WavespecError]:
    """Expects every condition to be one, of dims and parameters that exist."""
    try:
        values = constant_values(spec)
    except WavespecError:  # reported where parameters are checked
        return
    overrides = [over for settings in spec.targets.values() for over in (settings, *settings.cases)]
    for constraints in (spec.constraints, *(over.constraints for over in overrides if over.constraints is not None)):
        yield from _Assumptions(spec, values, constraints).problems()


class _Assumptions:
    def __init__(self, spec: KernelSpec, values: Mapping[str, int], constraints: Sequence[AnyConstraint]) -> None:
        self.spec, self.values, self.sizes = spec, values, spec.dims | spec.numbers
        self.all = [one for one in constraints if isinstance(one, Assume) and self._is_about_sizes(one.condition)]

    def problems(self) -> Iterator[WavespecError]:
        sound: list[Assume] = []
        for assume in self.all:
            where, text = assume.where("condition"), str(assume.condition)
            if not self._can_hold([*sound, assume]):
                yield ContradictoryAssumption(where, text, *self._other(assume, sound, implied=False))
            elif self._follows(assume, sound):
                yield UselessAssumption(where, text, *self._other(assume, sound, implied=True))
            else:
                sound.append(assume)

    def _is_about_sizes(self, condition: Expression) -> bool:
        names = condition.names()
        known = all(name in self.sizes or name in self.values for name in names)
        return condition.is_condition and known and any(name in self.sizes for name in names)

    def _can_hold(self, assumptions: Sequence[Assume]) -> bool:
        return not isinstance(self._narrowed(assumptions), Expression)

    def _follows(self, assume: Assume, sound: Sequence[Assume]) -> bool:
        promise, dims = promise_of(assume.condition, self.sizes, self.values), self._narrowed(sound)
        if promise is None or isinstance(dims, Expression):
            return False
        return promise.narrows(dims[promise.dim]) == dims[promise.dim]

    def _narrowed(self, assumptions: Sequence[Assume]) -> dict[str, Dim] | Expression:
        return narrowed_dims(self.sizes, [one.condition for one in assumptions], self.values)

    def _other(self, assume: Assume, sound: Sequence[Assume], *, implied: bool) -> tuple[str, Span | None]:
        """What stands against an assumption, or makes it useless, in words and where it was written."""

        def decides(others: Sequence[Assume]) -> bool:
            return self._follows(assume, others) if implied else not self._can_hold([*others, assume])

        if decides([]):
            name = next(name for name in assume.condition.names() if name in self.sizes)
            if name not in self.spec.dims:
                return f"what {quote(name)} is", None
            words = f"what 'dims' says of {quote(name)}" if not implied else "'dims'"
            return words, self.spec.key_span_of("dims", name)
        for other in sound:
            if decides([other]):
                return quote(str(other.condition)), other.span_of("condition")
        return "the assumptions before it together", None
