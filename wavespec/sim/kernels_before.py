"""A case and the tensors of a call go in; what the kernels that the call runs first add to them comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wavespec.ir.kernel import Kernel
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.sim.values import Array
from wavespec.targets.machine import Machine


def simulate_before(
    case: TargetCase,
    kernels: Sequence[Kernel],
    machine: Machine,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, bool | int | float],
) -> tuple[dict[str, Array], list[SimulationReport]]:
    """The tensors that the last kernel of a case finds, and a report of each kernel before it.

    Args:
        kernels: those before the last one, or the first of these, after all passes.
        tensors: of the call, by name; as in `simulate`.
        sizes: of the dims of the call; a kernel makes those that follow from others by itself.
    """
    known, reports = dict(tensors), list[SimulationReport]()
    for spec, kernel in zip(case.before, kernels, strict=False):
        read = {name: known[name] for name, tensor in spec.tensors.items() if tensor.role != "output"}
        reports.append(simulate(kernel, machine, read, _sizes_of(spec, sizes), scalars=scalars))
        known |= {name: reports[-1].tensors[name] for name, tensor in spec.tensors.items() if tensor.role != "input"}
        known |= _as_read_behind(case.kernels[len(reports) :], known, sizes)
    return known, reports


def _as_read_behind(
    kernels: Sequence[KernelSpec], known: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """What these kernels read, with the dims that it has there: what lays it out has those that stay side by side as
    one."""
    return {
        name: known[name].reshape([own[dim] for dim in tensor.shape])
        for reader in kernels
        for own in (_sizes_of(reader, sizes),)
        for name, tensor in reader.tensors.items()
        if tensor.role != "output" and name in known
    }


def _sizes_of(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    free = {name: sizes[name] for name, dim in spec.dims.items() if dim.equals is None and name in sizes}
    return complete_sizes(spec, free)
