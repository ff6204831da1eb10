"""Members of the family `linear`, which differ in an input, an activation and a type, by the lanes of each machine."""

from __future__ import annotations

import pytest

from tests.families.linear import ACTIVATIONS, TYPES, arguments, check, family
from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

EVERY = [(activation, bias, dtype) for activation in ACTIVATIONS for bias in ("plain", "bias") for dtype in TYPES]
QUICK = [("none", "plain", "f16"), ("gelu", "bias", "bf16")]


@pytest.mark.parametrize(
    ("activation", "bias", "dtype"),
    [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.rare) for one in EVERY],
)
@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
def test_a_member(target: str, activation: str, bias: str, dtype: str) -> None:
    spec, machine = family("linear").member(f"ACTIVATION={activation},BIAS={bias},T={dtype}").spec, machines(target)[0]
    given = arguments(TYPES[dtype], (70,), 37, 72)[: 3 if bias == "bias" else 2]
    names = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    arrays = {name: tensor_to_array(x, dtype) for name, x in zip(names, given, strict=True)}
    report = simulate(lower(spec, machine), machine, arrays, {"M": 70, "N": 37, "K": 72})
    assert report.ok, report.render()
    check(array_to_tensor(report.tensors["y"], dtype), activation, *given)
