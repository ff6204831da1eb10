"""A launch through IREE takes 32 tensors: more are refused by name before anything is built."""

from __future__ import annotations

import pytest
import torch

from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.targets import TARGETS, machines

LIMITED = [target for target in TARGETS if machines(target)[0].most_tensors]


def sum_of(inputs: int) -> KernelSpec:
    """y[M] = the sum of so many vectors."""
    lines = [
        "apiVersion: wavespec/v1",
        "kind: Kernel",
        "name: many",
        "dims: {M: {}}",
        "tensors:",
        *(f"  x{index}: {{shape: [M], dtype: f32}}" for index in range(inputs)),
        "  y: {shape: [M], dtype: f32, role: output}",
        "constraints: [{workgroup: M, tile: 64, axis: 0}]",
        "graph:",
        "  - s0: {read: x0}",
        *(f"  - v{index}: {{read: x{index}}}\n  - s{index}: s{index - 1} + v{index}" for index in range(1, inputs)),
        f"  - {{write: s{inputs - 1}, to: y}}",
    ]
    return loads("\n".join(lines), "many.wave.yaml")


@pytest.mark.parametrize("target", LIMITED)
def test_more_tensors_than_a_launch_takes_are_refused(target: str) -> None:
    machine = machines(target)[0]
    lower(sum_of(31), machine)
    with pytest.raises(WavespecError) as caught:
        lower(sum_of(33), machine)
    assert str(caught.value).startswith(
        "many.wave.yaml:38:8: error[too-many-tensors]: The kernel has 34 tensors; a launch on "
        f"{target} takes at most 32.\n"
    )


def test_targets_without_the_limit_take_more() -> None:
    for target in sorted(set(TARGETS) - set(LIMITED)):
        lower(sum_of(40), machines(target)[0])


@pytest.mark.compiles
def test_as_many_tensors_as_a_launch_takes_run() -> None:
    inputs = [torch.full((100,), float(index)) for index in range(31)]
    result = Kernel(build(sum_of(31), "cpu", only=best_variant("cpu")))(*inputs)
    assert torch.equal(result, torch.full((100,), 465.0))
