"""The cases of a kernel's targets go in; conditions without a meaning and cases that no call takes come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.checking.check_constraints import check_asked, check_condition
from wavespec.schema.checking.check_schedules import is_inherited
from wavespec.schema.language.conditions import Conditions
from wavespec.schema.language.errors import UnknownVariant
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.least_cases import MOST_COMPARED, choices, runs
from wavespec.schema.language.models import Case, KernelSpec, TargetOverride
from wavespec.schema.resolve import constant_values, is_for_others, spec_with_override
from wavespec.targets.names import VARIANTS


class ContradictoryCase(WavespecError, code="contradictory-case"):
    def __init__(self, where: Where, condition: Expression) -> None:
        super().__init__(
            where,
            f"No call meets {quote(str(condition))}, the other conditions of this case and what 'dims' promises.",
        )


class UnreachableCase(WavespecError, code="unreachable-case"):
    def __init__(self, where: Where, case: Case, earlier: Case) -> None:
        conditions = ", ".join(map(str, earlier.when))
        super().__init__(
            where,
            f"No call takes this case: an earlier one takes all with {quote(conditions)}.",
            hints=["Put the narrower case first, or delete it."],
            related=[Related(span, "taken first")] if (span := earlier.span_of("when")) else [],
        )


class LeastOfOne(WavespecError, code="least-of-one"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "No case beside this one has 'least' for the same machines, so there is nothing to choose among.",
            hints=["Put the cases of one choice one behind the other, or leave 'least' out."],
        )


class LeastIsCondition(WavespecError, code="least-is-condition"):
    def __init__(self, where: Where, condition: Expression) -> None:
        super().__init__(
            where,
            f"{quote(str(condition))} is a condition; 'least' is a number, of which the least one is taken.",
            hints=["Conditions stand in 'when'."],
        )


class LongChoice(WavespecError, code="long-choice"):
    def __init__(self, where: Where, count: int) -> None:
        super().__init__(
            where,
            f"Of at most {MOST_COMPARED} neighbouring cases with 'least' one is taken; these are {count}.",
            hints=["Leave out those that are seldom the best."],
        )


def check_cases(spec: KernelSpec, broken: frozenset[str], *, is_whole: bool) -> Iterator[WavespecError]:
    for target, settings in spec.targets.items():
        sound: list[_Valued] = []
        if is_whole:
            yield from _choices(spec, settings.cases)
        for case, choice in zip(settings.cases, runs(settings.cases), strict=True):
            yield from _variants(case, target)
            if errors := list(_conditions(spec, case, broken)):
                yield from errors
                continue
            valued = _valued(spec, settings, case, choice)
            if valued.values is not None and is_for_others(spec_with_override(spec, settings), case):
                continue
            if condition := _contradiction(valued):
                where = case.where("when", case.when.index(condition))
                if not (isinstance(where, Span) and is_inherited(spec, where)):  # a base is for sizes of its own
                    yield ContradictoryCase(where, condition)
                continue
            # A condition that could not be read may be what tells the cases apart.
            if is_whole and (covering := next((one for one in sound if _covers(one, valued)), None)):
                yield UnreachableCase(case.where("when"), case, covering.case)
            sound.append(valued)


class _Valued(NamedTuple):
    """A case, its parameters and its conditions; `None` where parameters have no values, which is reported as such."""

    case: Case
    choice: int | None
    """Of which choice it is one, by its number."""
    values: dict[str, int] | None
    conditions: Conditions | None


def _choices(spec: KernelSpec, cases: Sequence[Case]) -> Iterator[WavespecError]:
    for choice in choices(cases):
        if len(choice) == 1:
            where = choice[0].where_key("least")
            if not (isinstance(where, Span) and is_inherited(spec, where)):  # its neighbours may be left out here
                yield LeastOfOne(where)
        elif len(choice) > MOST_COMPARED:
            yield LongChoice(choice[MOST_COMPARED].where("when"), len(choice))


def _variants(case: Case, target: str) -> Iterator[WavespecError]:
    for number, name in enumerate(case.variants):
        if name not in VARIANTS[target]:
            yield UnknownVariant(case.where("variants", number), name, target)


def _conditions(spec: KernelSpec, case: Case, broken: frozenset[str]) -> Iterator[WavespecError]:
    for index, condition in enumerate(case.when):
        yield from check_condition(spec, condition, case.where("when", index), broken)
    if case.least is not None and case.least.is_condition:
        yield LeastIsCondition(case.where("least"), case.least)
    elif case.least is not None:
        yield from check_asked(spec, case.least, case.where("least"), broken)


def _contradiction(valued: _Valued) -> Expression | None:
    """The condition that no call meets beside the others."""
    dims = valued.conditions.narrowed if valued.conditions is not None else None
    return dims if isinstance(dims, Expression) else None


def _covers(earlier: _Valued, later: _Valued) -> bool:
    """Whether every call of `later` is one of `earlier` too."""
    if earlier.choice is not None and earlier.choice == later.choice:
        return False
    if earlier.case.variants and not set(later.case.variants or ("",)) <= {*earlier.case.variants}:
        return False
    if earlier.conditions is None or later.conditions is None:
        return False
    # A parameter that is not the same in both cases says nothing about one in terms of the other.
    sizes, every = later.conditions.dims, (*earlier.case.when, *later.case.when)
    if later.values != earlier.values and any(name not in sizes for one in every for name in one.names()):
        return False
    return later.conditions.imply(earlier.conditions)


def _valued(spec: KernelSpec, settings: TargetOverride, case: Case, choice: int | None) -> _Valued:
    values = _values(spec, settings, case)
    conditions = None if values is None else Conditions(case.when, spec.dims | spec.numbers, values)
    return _Valued(case, choice, values, conditions)


def _values(spec: KernelSpec, settings: TargetOverride, case: Case) -> dict[str, int] | None:
    try:
        return constant_values(spec_with_override(spec_with_override(spec, settings), case))
    except WavespecError:
        return None
