"""Every kernel of ``specs/`` as machine code, executed by an emulator of the instruction set: right, no race, no scratch."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from torch import Tensor

from tests.amd.amd_gemms import figures, loaded, require_emulator
from tests.edges import EDGES, Edge
from tests.kernels import Sizes, Subject, array_to_tensor, subjects, tensor_to_array
from wavespec.emit.interface import launch_interface
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.runtime.launch_plan import LaunchPlan, make_plan
from wavespec.schema import KernelSpec
from wavespec.schema.checking.partly_written import partly_written
from wavespec.schema.resolved import resolve
from wavespec.sim.elements import poisoned
from wavespec.targets.machine import machines

require_emulator()
pytestmark = pytest.mark.amd

TARGETS = ("gfx942", "gfx950")


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

    def plan(self, sizes: Sizes) -> LaunchPlan:
        (machine,) = machines(self.target)
        return make_plan(launch_interface(lower(self.spec, machine), machine, resolve(self.spec, self.target)), sizes)

    def run(self, sizes: Sizes, inputs: tuple[Tensor, ...]) -> list[Tensor]:
        """The outputs; the emulator raises at a race or an access out of bounds."""
        plan, given, zeroed = self.plan(sizes), iter(inputs), partly_written(self.spec)
        memory, addresses = importlib.import_module("gfx_emulator").Memory(), list[int]()
        tensors = sorted(self.spec.tensors.items(), key=lambda item: item[1].role == "output")
        for (name, tensor), shape in zip(tensors, plan.shapes, strict=True):
            if tensor.role != "output":
                array = tensor_to_array(next(given), tensor.dtype)
            else:
                array = poisoned(DTYPES[tensor.dtype], int(np.prod(shape))).reshape(shape)
                array = np.zeros_like(array) if name in zeroed else array
            addresses.append(memory.add(array, name))
        scratch = [memory.add(np.zeros(size, np.uint8), "scratch") for size in plan.scratch_bytes]
        if plan.workgroups:
            loaded(self)[0].run(plan.grid, [*addresses, *scratch, *plan.constants], mem=memory)
        held = {name: memory.get(address) for address, (name, _) in zip(addresses, tensors, strict=False)}
        return [array_to_tensor(held[name], self.spec.tensors[name].dtype) for name in self.subject.written]


@pytest.mark.parametrize("subject", subjects(*TARGETS), ids=lambda subject: subject.name)
@pytest.mark.parametrize("target", TARGETS)
def test_every_small_size(target: str, subject: Subject) -> None:
    # gfx950 has other copies and matrix instructions, which the first size meets; how edges are treated is the same.
    chosen = subject.row.small[:1] if target == "gfx950" else subject.row.small
    for sizes in map(subject.complete, chosen):
        case, inputs = Case(subject, target, subject.case(target, sizes)), subject.inputs(sizes)
        subject.check(inputs, case.run(sizes, inputs), sizes)
        assert (figures(case)["vgpr_spill"], figures(case)["scratch_bytes_per_lane"]) == (0, 0)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge) -> None:
    inputs, sizes = edge.inputs(), edge.of.complete(edge.sizes)
    case = Case(edge.of, "gfx942", edge.of.case("gfx942", sizes))
    edge.check(inputs, tuple(case.run(sizes, tuple(inputs.values()))))
