"""The cases of a kernel and machines go in; which of these have which case comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.language.constraints import Hardware
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Cast, Mma
from wavespec.schema.ops.structured import every
from wavespec.targets.machine import Machine


def machines_of(case: TargetCase, chosen: Sequence[Machine]) -> tuple[Machine, ...]:
    """Those of some variants of a target that have the case.  One that names variants and a matrix instruction is for
    kernels with a type that it multiplies, of inputs or of what these are converted to for a product: others of the
    same spec take the next."""
    if case.case is None or not case.case.variants:
        return tuple(chosen)
    return tuple(one for one in chosen if one.variant in case.case.variants and _multiplies(case, one))


def _multiplies(case: TargetCase, machine: Machine) -> bool:
    """Whether the instructions that a case names, as far as the machine has them, take what its kernel multiplies."""
    types = {tensor.dtype for tensor in case.spec.tensors.values() if tensor.role == "input"}
    multiplied = {name for product in every(Mma, case.spec.graph) for name in (product.lhs, product.rhs)}
    types |= {cast.dtype for cast in every(Cast, case.spec.graph) if cast.name in multiplied}
    named = [one.settings.mma or "" for one in case.spec.constraints if isinstance(one, Hardware)]
    rows = [row for row in map(machine.instruction, named) if row is not None]
    return all(any(dtype.name in types for dtype in row.inputs) for row in rows)


def cases_on(spec: KernelSpec, target: str, chosen: Sequence[Machine]) -> tuple[TargetCase, ...]:
    """The kernels that some of these variants of the target have, in the order in which a call looks for its own; the
    last one is for all sizes."""
    return tuple(case for case in cases_for_target(spec, target) if machines_of(case, chosen))
