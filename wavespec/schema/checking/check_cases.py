"""The cases of a kernel's targets go in; conditions without a meaning and cases that no call takes come out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import Related, WavespecError, Where, quote
from wavespec.schema.checking.check_constraints import check_condition
from wavespec.schema.language.conditions import are_implied, narrowed_dims
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Case, KernelSpec, TargetOverride
from wavespec.schema.resolve import ContradictoryCase, constant_values, spec_with_override


class UnreachableCase(WavespecError, code="unreachable-case"):
    def __init__(self, where: Where, case: Case, earlier: Case) -> None:
        conditions = ", ".join(map(str, earlier.when))
        super().__init__(
            where,
            f"No call takes this case: an earlier one takes all with {quote(conditions)}.",
            hints=["Put the narrower case first, or delete it."],
            related=[Related(span, "taken first")] if (span := earlier.span_of("when")) else [],
        )


def check_cases(spec: KernelSpec, broken: frozenset[str], *, is_whole: bool) -> Iterator[WavespecError]:
    for settings in spec.targets.values():
        sound: list[Case] = []
        for case in settings.cases:
            errors = list(_conditions(spec, case, broken))
            yield from errors
            if not errors and (problem := _contradiction(spec, settings, case)):
                errors.append(problem)
                yield problem
            if errors:
                continue
            # A condition that could not be read may be what tells the cases apart.
            if is_whole and (covering := next((one for one in sound if _covers(spec, settings, one, case)), None)):
                yield UnreachableCase(case.where("when"), case, covering)
            sound.append(case)


def _conditions(spec: KernelSpec, case: Case, broken: frozenset[str]) -> Iterator[WavespecError]:
    for index, condition in enumerate(case.when):
        yield from check_condition(spec, condition, case.where("when", index), broken)


def _contradiction(spec: KernelSpec, settings: TargetOverride, case: Case) -> WavespecError | None:
    values = _values(spec, settings, case)
    dims = narrowed_dims(spec.dims | spec.numbers, case.when, values) if values is not None else None
    if not isinstance(dims, Expression):
        return None
    return ContradictoryCase(case.where("when", case.when.index(dims)), dims)


def _covers(spec: KernelSpec, settings: TargetOverride, earlier: Case, case: Case) -> bool:
    """Whether every call of `case` is one of `earlier` too."""
    values = _values(spec, settings, case)
    names = {name for condition in (*earlier.when, *case.when) for name in condition.names()}
    # A parameter that is not the same in both cases says nothing about one in terms of the other.
    sizes = spec.dims | spec.numbers
    if values is None or (not names <= sizes.keys() and values != _values(spec, settings, earlier)):
        return False
    return are_implied(earlier.when, case.when, sizes, values)


def _values(spec: KernelSpec, settings: TargetOverride, case: Case) -> dict[str, int] | None:
    """The parameters of a case; `None` where they have no values, which is reported as such."""
    try:
        return constant_values(spec_with_override(spec_with_override(spec, settings), case))
    except WavespecError:
        return None
