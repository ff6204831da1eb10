"""A case of a kernel, a machine and inputs go in; what the simulator makes of the kernels that a call runs comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from tests.kernels import Sizes, Subject, elements_to_tensor, tensor_to_elements
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.sim.values import Array
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
    for spec, kernel in zip(case.before, kernels[:-1], strict=True):
        own = complete_sizes(spec, {name: size for name, size in sizes.items() if name in _asked(spec.dims)})
        found = simulate(kernel, machine, _read(spec.tensors, arrays), own, scalars=scalars)
        assert found.ok, f"{spec.name} of {dict(sizes)}:\n{found.render()}"
        arrays |= {name: found.tensors[name] for name, tensor in spec.tensors.items() if tensor.role == "output"}
    asked = {name: size for name, size in sizes.items() if name in _asked(case.spec.dims)}
    own = complete_sizes(case.spec, asked)
    report = simulate(kernels[-1], machine, _read(case.spec.tensors, arrays), own, scalars=scalars)
    assert report.ok, f"{dict(sizes)}:\n{report.render()}"
    return [elements_to_tensor(report.tensors[name], tensors[name].dtype) for name in subject.written]


def _asked(dims: Mapping[str, object]) -> list[str]:
    """The dims that do not follow from others, which a case may make in a way of its own."""
    return [name for name, dim in dims.items() if getattr(dim, "equals", None) is None]


def _read(tensors: Mapping[str, object], arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if name in tensors}
