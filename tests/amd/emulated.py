"""A small kernel and its arguments go in; what its machine code leaves in its tensors, by an emulator, comes out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from tests.amd.amd_gemms import AnyGemm, loaded
from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.emit.interface import launch_interface
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.runtime.launch_plan import make_plan
from wavespec.schema.resolved import resolve
from wavespec.sim.elements import poisoned
from wavespec.targets.machine import machines


def emulated(case: AnyGemm, sizes: Mapping[str, int], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """The tensors of ``case`` behind the call; its outputs come last.  The emulator raises at a race or an access out
    of bounds."""
    spec, (machine,) = case.spec, machines(case.target)
    plan = make_plan(launch_interface(lower(spec, machine), machine, resolve(spec, case.target)), sizes)
    memory, given = importlib.import_module("gfx_emulator").Memory(), iter(inputs)
    addresses: dict[str, int] = {}
    for (name, tensor), shape in zip(spec.tensors.items(), plan.shapes, strict=True):
        if tensor.role == "output":
            array = poisoned(DTYPES[tensor.dtype], int(np.prod(shape))).reshape(shape)
        else:
            array = tensor_to_array(next(given), tensor.dtype)
        addresses[name] = memory.add(array, name)
    loaded(case)[0].run(plan.grid, [*addresses.values(), *plan.constants], mem=memory)
    return {name: array_to_tensor(memory.get(at), spec.tensors[name].dtype) for name, at in addresses.items()}
