"""A spec and a target go in; plain specs for the sizes of each case, and for all sizes, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from wavespec.schema.language.conditions import are_implied, narrowed_dims
from wavespec.schema.language.constraints import Assume, Wave
from wavespec.schema.language.expressions import Binary, Compare, EvaluationError, Expression, Num
from wavespec.schema.language.least_cases import Contestant, comparisons, runs
from wavespec.schema.language.models import Case, KernelSpec
from wavespec.schema.materialize import kernels_of
from wavespec.schema.resolve import (
    constant_values,
    is_for_others,
    numbers_of_contiguous,
    override_of,
    resolve_params,
    spec_for_target,
    spec_with_override,
)
from wavespec.schema.whole_accesses import whole_accesses
from wavespec.targets.names import ALIGNED, ONE_LANE


@dataclass(frozen=True, slots=True)
class TargetCase:
    """A kernel for one target and some sizes of a call."""

    when: tuple[Expression, ...]
    """Conditions on dims and parameters, all of which hold for these sizes; none for all sizes."""
    spec: KernelSpec
    """The plain spec, whose dims promise what the conditions say."""
    before: tuple[KernelSpec, ...] = ()
    """Kernels that a call runs first, whose results `spec` has among its inputs."""
    case: Case | None = None
    """What the spec was made of, with its places; none for all sizes."""
    least: Expression | None = None
    """The further condition that no case behind it in its choice takes less; none of the last one, and of cases in no
    choice."""
    is_default: bool = False
    """Whether it is for the sizes that the cases of the target leave."""

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """All that has to hold of a call that takes it, if it took none before."""
        return self.when if self.least is None else (*self.when, self.least)

    @property
    def kernels(self) -> tuple[KernelSpec, ...]:
        """What a call runs, one after another."""
        return (*self.before, self.spec)


def cases_for_target(spec: KernelSpec, target: str) -> tuple[TargetCase, ...]:
    """The kernels of `target`, in the order in which a call looks for its own; the last one is for all sizes.

    Cases for other parameters than the kernel has are none of them.

    Raises:
        UnknownTarget: `target` is no target of wavespec.
    """
    plain = spec_for_target(spec, target)
    override = override_of(spec, target)
    written = override.cases if override is not None else ()
    cases = [(number, one) for number, one in zip(runs(written), written, strict=True) if not is_for_others(plain, one)]
    if not cases and target in ALIGNED and (aligned := _with_whole_accesses(plain)):
        return aligned, TargetCase((), plain)
    possible = [(number, made) for number, one in cases if (made := _target_case(plain, one, target))]
    return (*_compared(plain, possible), TargetCase((), plain, is_default=bool(cases)))


def case_for_sizes(cases: Sequence[TargetCase], sizes: Mapping[str, int]) -> TargetCase:
    """The first of `cases` whose conditions hold for a call with `sizes`; with the defaults of whole scalars, and with
    strides of contiguous tensors, which start where memory does, unless `sizes` has them."""

    def holds(case: TargetCase, condition: Expression) -> bool:
        try:
            return bool(condition.evaluate({**resolve_params(case.spec), **numbers, **sizes}))
        except EvaluationError:  # It divides by an empty dim.
            return False

    spec = cases[-1].spec
    defaults = {name: one.number for name, one in spec.scalars.items() if not one.is_float}
    numbers = {name: int(number) for name, number in defaults.items() if number is not None}
    numbers |= numbers_of_contiguous(spec, sizes)
    return next(case for case in cases if all(holds(case, condition) for condition in case.conditions))


def _compared(plain: KernelSpec, cases: Sequence[tuple[int | None, TargetCase]]) -> Iterator[TargetCase]:
    """The cases, those of a choice, which have its number, with what they are chosen by."""
    for number, run in groupby(cases, lambda one: one[0]):
        members = [case for _, case in run]
        if number is None:
            yield from members
            continue
        contestants = [
            Contestant(one.case, _known(spec_with_override(plain, one.case))) for one in members if one.case is not None
        ]
        for member, least in zip(members, comparisons(contestants), strict=True):
            yield replace(member, least=least)


def _known(spec: KernelSpec) -> dict[str, int]:
    # A dim is never replaced by its value: inside the case it may have one that a condition itself asks for.
    return {name: value for name, value in constant_values(spec).items() if name not in spec.dims}


def _target_case(plain: KernelSpec, case: Case, target: str) -> TargetCase | None:
    """None where no call meets the conditions, as of a spec that gives a dim of its base one size."""
    changed = spec_with_promises(plain, case)
    dims = narrowed_dims(plain.dims | plain.numbers, case.when, constant_values(changed))
    if isinstance(dims, Expression):
        return None
    narrowed = changed.model_copy(
        update={
            "dims": {name: dim for name, dim in dims.items() if name in plain.dims},
            "workloads": (),  # Those of all cases.
        }
    )
    *before, spec = kernels_of(narrowed.with_own_schedule(case.schedule is not None), one_lane=target in ONE_LANE)
    return TargetCase(case.when, spec, tuple(before), case)


def spec_with_promises(spec: KernelSpec, case: Case) -> KernelSpec:
    """The spec with what a case says, and assumes those of its conditions that no size of a dim can promise."""
    changed = spec_with_override(spec, case)
    return changed.model_copy(update={"constraints": (*changed.constraints, *_promises(changed, case.when))})


def _is_multiple_of_dims(spec: KernelSpec, condition: Expression) -> bool:
    """Whether it is `H % (G * 4) == 0`, of several dims."""
    match condition:
        case Compare(op="==", left=Binary(op="%"), right=Num(value=0)):
            return len(spec.dims.keys() & {*condition.names()}) > 1
        case _:
            return False


def _with_whole_accesses(plain: KernelSpec) -> TargetCase | None:
    """Of a spec that leaves it to the compiler how work is split, as it names no waves: the kernel for sizes with which
    all rows start where a widest access may; none where these are all sizes, or no size is one."""
    if any(isinstance(one, Wave) for one in plain.constraints):
        return None
    when = whole_accesses(plain, plain.tensors)
    dims = narrowed_dims(plain.dims, when, constant_values(plain))
    if not when or isinstance(dims, Expression):
        return None
    return TargetCase(when, plain.model_copy(update={"dims": dims, "workloads": ()}))


def _promises(spec: KernelSpec, when: Sequence[Expression]) -> Iterator[Assume]:
    """Conditions on strides, alignments and scalars, which no dim can promise, and where rows are packed those that one
    dim is a multiple of others, unless the spec assumes them itself."""
    known = [one.condition for one in spec.constraints if isinstance(one, Assume)]
    has_packed_rows = spec.schedule is not None and bool(spec.schedule.pack)
    for condition in when:
        is_of_numbers = not spec.numbers.keys().isdisjoint(condition.names())
        if not is_of_numbers and not (has_packed_rows and _is_multiple_of_dims(spec, condition)):
            continue
        if not are_implied([condition], known, spec.dims | spec.numbers, constant_values(spec)):
            known.append(condition)
            yield Assume(condition=condition)
