"""A random spec without tiles goes in; whether all cases of its plans build, and calls are right, comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.fuzz.graph import RandomSpec
from tests.fuzz.judge import check, inputs_of
from tests.kernels import array_to_tensor, tensor_to_array
from tests.sim.cases import lowered_case
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.old_values import with_old_values
from wavespec.schema.resolve import complete_sizes
from wavespec.schema.resolved import computation_of
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TARGETS = ("sm_90", "gfx942")


def judge_planned(random: RandomSpec, targets: Sequence[str] = TARGETS, *, builds: bool = True) -> int:
    """How many calls were right; raises where a case does not build, or a call is wrong."""
    observed, calls = with_old_values(loads(random.text, "planned.wave.yaml")), 0
    spec = observed.spec
    if builds:
        (found,) = check_builds([spec], ["cpu", *targets], workers=1)
        if found:
            raise AssertionError("\n".join(f"{one.code}: {one.message} {one.notes}" for one in found))
    for target in targets:
        cases, lowered = cases_for_target(spec, target), dict[int, tuple[Kernel, ...]]()
        for given in random.sizes:
            sizes = complete_sizes(spec, given)
            case = case_for_sizes(cases, sizes)
            inputs = inputs_of(spec, sizes, whole=random.whole)
            kernels = lowered.setdefault(id(case), lowered_case(case, machines(target)[0]))
            written = _called(spec, case, kernels, target, sizes, inputs)
            try:
                check(observed, inputs, written, whole=random.whole)
            except AssertionError as error:
                raise AssertionError(f"{target}, {sizes}: {error}") from error
            calls += 1
    return calls


def failure(random: RandomSpec, targets: Sequence[str] = TARGETS, *, builds: bool = True) -> str:
    """What is wrong, or nothing."""
    try:
        judge_planned(random, targets, builds=builds)
    except (AssertionError, WavespecError) as error:
        return f"{error}\n{random.text}"
    return ""


def _called(
    spec: KernelSpec,
    case: TargetCase,
    kernels: Sequence[Kernel],
    target: str,
    sizes: Mapping[str, int],
    inputs: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    machine = machines(target)[0]
    names = (name for name, tensor in spec.tensors.items() if tensor.role != "output")
    arrays: dict[str, Any] = {
        name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in zip(names, inputs, strict=True)
    }
    arrays, reports = simulate_before(case, kernels[:-1], machine, arrays, sizes, {})
    dims = case.spec.dims.items()
    own = complete_sizes(case.spec, {name: sizes[name] for name, dim in dims if dim.equals is None and name in sizes})
    read = {name: array for name, array in arrays.items() if name in case.spec.tensors}
    report = simulate(kernels[-1], machine, read, own)
    for one in (*reports, report):
        assert one.ok, f"{target}, {dict(sizes)}: {one.render()}"
    arrays = {**arrays, **report.tensors}
    return [array_to_tensor(arrays[name], spec.tensors[name].dtype) for name in computation_of(spec).written]
