"""The cases of a kernel and machines go in; which of these have which case comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.language.models import KernelSpec
from wavespec.targets.machine import Machine


def machines_of(case: TargetCase, chosen: Sequence[Machine]) -> tuple[Machine, ...]:
    """Those of some variants of a target that have the case."""
    if case.case is None or not case.case.variants:
        return tuple(chosen)
    return tuple(one for one in chosen if one.variant in case.case.variants)


def cases_on(spec: KernelSpec, target: str, chosen: Sequence[Machine]) -> tuple[TargetCase, ...]:
    """The kernels that some of these variants of the target have, in the order in which a call looks for its own; the
    last one is for all sizes."""
    return tuple(case for case in cases_for_target(spec, target) if machines_of(case, chosen))
