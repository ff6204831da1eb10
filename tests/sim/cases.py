"""A case of a kernel, a machine and inputs go in; what the simulator makes of the kernels that a call runs comes out."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tests.kernels import Sizes, Subject, elements_to_tensor, tensor_to_elements
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


def lowered_case(case: TargetCase, machine: Machine) -> tuple[Kernel, ...]:
    """All that a call runs, one after another."""
    return tuple(lower(one, machine) for one in case.kernels)


def run_case(
    subject: Subject,
    case: TargetCase,
    kernels: Sequence[Kernel],
    machine: Machine,
    sizes: Sizes,
    inputs: Sequence[Tensor],
) -> list[Tensor]:
    """What a call writes; asserts that there is no race in any of ``kernels``, those of the case."""
    tensors = subject.spec.tensors
    names = (name for name, tensor in tensors.items() if tensor.role != "output")
    arrays = {name: tensor_to_elements(tensor, tensors[name].dtype) for name, tensor in zip(names, inputs, strict=True)}
    scalars = numbers_of_scalars(subject.spec, sizes, {})
    arrays, reports = simulate_before(case, kernels[:-1], machine, arrays, sizes, scalars)
    for spec, found in zip(case.before, reports, strict=True):
        assert found.ok, f"{spec.name} of {dict(sizes)}:\n{found.render()}"
    dims = case.spec.dims.items()
    own = complete_sizes(case.spec, {name: sizes[name] for name, dim in dims if dim.equals is None and name in sizes})
    read = {name: array for name, array in arrays.items() if name in case.spec.tensors}
    report = simulate(kernels[-1], machine, read, own, scalars=scalars)
    assert report.ok, f"{dict(sizes)}:\n{report.render()}"
    arrays = {**arrays, **report.tensors}  # a kernel before may write an output of the call
    return [elements_to_tensor(arrays[name], tensors[name].dtype) for name in subject.written]
