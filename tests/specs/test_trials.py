"""Kernels that someone wrote with the documentation alone: right on CPUs, by the lanes of GPUs, and as machine code."""

from __future__ import annotations

import pytest

from tests.kernels import elements_to_tensor, tensor_to_elements, tensors_of
from tests.specs.trials import TRIALS, Trial
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

_RARELY = (
    "align_experts",
    "attention_capped_window",
    "attention_evoformer",
    "causal_conv1d",
    "gated_linear_attention_chunks",
    "gated_linear_attention_steps",
    "max_pool2d",
    "sort_rows",
)
"""Compiling takes three seconds and more; lanes run them every time."""


def names(trial: Trial) -> str:
    return trial.name


@pytest.mark.compiles
@pytest.mark.parametrize(
    "trial",
    [pytest.param(one, marks=pytest.mark.rare if one.name in _RARELY else (), id=one.name) for one in TRIALS],
)
def test_on_this_cpu(trial: Trial) -> None:
    kernel = Kernel(build(trial.spec, "cpu", only=best_variant("cpu")))
    trial.check(tensors_of(kernel(*trial.inputs, out=None, **trial.numbers)))


@pytest.mark.parametrize("target", ["sm_90", "gfx942", pytest.param("gfx950", marks=pytest.mark.rare)])
@pytest.mark.parametrize("trial", TRIALS, ids=names)
def test_by_lanes(trial: Trial, target: str) -> None:
    """Without a race, and nothing is read that was not written."""
    (machine,), tensors = machines(target), trial.spec.tensors
    given = [name for name, tensor in tensors.items() if tensor.role != "output"]
    arrays = {
        name: tensor_to_elements(tensor, tensors[name].dtype) for name, tensor in zip(given, trial.inputs, strict=True)
    }
    spec = trial.for_target(target)
    sizes = complete_sizes(spec, trial.sizes)
    report = simulate(lower(spec, machine), machine, arrays, sizes, scalars=trial.numbers)
    assert report.ok, report.render()
    trial.check([elements_to_tensor(report.tensors[name], tensors[name].dtype) for name in trial.written])
