"""A small kernel and its arguments go in; what its machine code leaves in its tensors, by an emulator, comes out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from tests.amd.amd_gemms import AnyGemm, built, loaded
from tests.kernels import Sizes, Subject, array_to_tensor, tensor_to_array
from wavespec.emit.interface import scalar_parameters
from wavespec.ir.dtype import DTYPES
from wavespec.runtime.launch_plan import LaunchPlan, make_plan
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.schema import KernelSpec
from wavespec.schema.checking.partly_written import partly_written
from wavespec.schema.resolve import numbers_of_contiguous
from wavespec.sim.elements import poisoned


@dataclass(frozen=True, slots=True)
class Case:
    """The kernel of a subject that is for some sizes; equal to that for all other sizes of the same case."""

    subject: Subject
    target: str
    number: int
    dtype: str = ""
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.subject.cases(self.target)[self.number].spec

    def run(self, sizes: Sizes, inputs: tuple[Tensor, ...]) -> list[Tensor]:
        """What a call writes; the emulator raises at a race or an access out of bounds."""
        held = emulated(self, sizes, inputs)
        return [held[name] for name in self.subject.written]


def emulated(
    case: AnyGemm,
    sizes: Mapping[str, int],
    inputs: Sequence[Tensor],
    scalars: Mapping[str, bool | int | float] | None = None,
) -> dict[str, Tensor]:
    """The tensors of ``case`` behind the call.  The emulator raises at a race or an access out of bounds."""
    plan = make_plan(built(case), {**numbers_of_contiguous(case.spec, sizes), **sizes})
    return run_emulated(loaded(case)[0], case.spec, plan, inputs, scalars)


def with_scalars(plan: LaunchPlan, spec: KernelSpec, scalars: Mapping[str, bool | int | float]) -> LaunchPlan:
    """The plan with the words of all scalars of a call that passes these."""
    arguments = ScalarArguments(spec.name, scalar_parameters(spec))
    return plan.with_words(arguments.words(arguments.named(scalars), plan.sizes))


def run_emulated(
    code: Any,
    spec: KernelSpec,
    plan: LaunchPlan,
    inputs: Sequence[Tensor],
    scalars: Mapping[str, bool | int | float] | None = None,
) -> dict[str, Tensor]:
    """The tensors of `spec` behind a call of its machine code as `plan` says, with these `scalars`: inputs first, then
    outputs."""
    plan = with_scalars(plan, spec, scalars or {})
    memory, given, zeroed = importlib.import_module("gfx_emulator").Memory(), iter(inputs), partly_written(spec)
    addresses: dict[str, int] = {}
    tensors = sorted(spec.tensors.items(), key=lambda item: item[1].role == "output")
    for (name, tensor), shape in zip(tensors, plan.shapes, strict=True):
        if tensor.role != "output":
            array = tensor_to_array(next(given), tensor.dtype)
        else:
            array = poisoned(DTYPES[tensor.dtype], int(np.prod(shape))).reshape(shape)
            array = np.zeros_like(array) if name in zeroed else array
        addresses[name] = memory.add(array, name)
    scratch = [memory.add(np.zeros(size, np.uint8), "scratch") for size in plan.scratch_bytes]
    if plan.workgroups:
        code.run(plan.grid, [*addresses.values(), *scratch, *plan.constants], mem=memory)
    return {name: array_to_tensor(memory.get(at), spec.tensors[name].dtype) for name, at in addresses.items()}
