"""A kernel of the tests goes in; the same one without a word of how its work is split comes out."""

from __future__ import annotations

from wavespec.schema.language.constraints import Device, Tiling, Wave, Workgroup
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.plans.planned import planned


def without_plan(spec: KernelSpec) -> KernelSpec:
    """The kernel with what is computed alone: no tiles, no schedules, nothing that differs per machine."""
    kept = tuple(one for one in spec.constraints if not isinstance(one, Device | Tiling | Wave | Workgroup))
    tensors = {name: one.model_copy(update={"space": "global"}) for name, one in spec.tensors.items()}
    return spec.model_copy(update={"constraints": kept, "tensors": tensors, "targets": {}, "schedule": None})


def planned_anew(spec: KernelSpec) -> KernelSpec:
    """The kernel with the plan that the compiler makes of it."""
    return planned(without_plan(spec))
