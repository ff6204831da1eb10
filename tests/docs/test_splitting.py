"""The specs of docs/splitting.md: the pair is right by the lanes of every target, the others are those that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.elements import Array
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

_ROOT = Path(__file__).parents[2]
_TEXT = (_ROOT / "docs" / "splitting.md").read_text("utf-8")
SPECS = {
    re.findall(r"^name: (\w+)$", block, re.M)[0]: block for block in re.findall(r"```yaml\n(.*?)```", _TEXT, re.DOTALL)
}


@pytest.mark.parametrize("name", ["gated_linear_attention_chunks", "attention_latent_decode"])
def test_a_whole_example_is_the_one_that_is_tested(name: str) -> None:
    assert SPECS[name] == (_ROOT / "tests" / "specs" / f"{name}.wave.yaml").read_text("utf-8")


def run(spec: KernelSpec, target: str, name: str, **arrays: Array) -> Array:
    """What the simulator writes, without a finding."""
    (machine, *_) = machines(target)
    sizes = {
        dim: size
        for tensor, array in arrays.items()
        for dim, size in zip(spec.tensors[tensor].shape, array.shape, strict=True)
    }
    if "M" in sizes:
        sizes["S"] = -(-sizes["M"] // 1024)
    report = simulate(lower(spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    return report.tensors[name]


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942", "gfx950"])
def test_two_kernels_make_one_sum(target: str) -> None:
    parts, join = loads(SPECS["sum_parts"]), loads(SPECS["sum_join"])
    x = np.random.default_rng(0).normal(size=(2100, 70)).astype(np.float32)
    part = run(parts, target, "part", x=x)
    assert part.shape == (3, 70)
    np.testing.assert_allclose(part, reference(parts, torch.from_numpy(x)), atol=1e-3)
    np.testing.assert_allclose(run(join, target, "y", part=part), x.sum(0, dtype=np.float64), atol=1e-3)
