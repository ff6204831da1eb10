"""A product of few columns beside another one, made by a kernel before, in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.kernels import elements_to_tensor, tensor_to_elements
from tests.sim.cases import lowered_case
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
SPEC = load(Path(__file__).parents[2] / "benchmarks" / "specs" / "models" / "linear_lora_f32.wave.yaml")


@pytest.mark.parametrize(("m", "n", "k"), [(264, 72, 160), (257, 64, 200)])
def test_both_products_are_exact_on_whole_numbers(m: int, n: int, k: int) -> None:
    sizes = complete_sizes(SPEC, {"M": m, "N": n, "K": k})
    case = case_for_sizes(cases_for_target(SPEC, "sm_90"), sizes)
    assert len(case.before) == 1
    torch.manual_seed(0)
    shapes = {name: [sizes[dim] for dim in one.shape] for name, one in SPEC.tensors.items() if one.role == "input"}
    given = {name: torch.randint(-1, 2, shape).bfloat16() for name, shape in shapes.items()}
    arrays = {name: tensor_to_elements(tensor, "bf16") for name, tensor in given.items()}
    scalars = numbers_of_scalars(SPEC, sizes, {"alpha": 1.0})
    kernels = lowered_case(case, HOPPER)
    arrays, (made,) = simulate_before(case, kernels[:-1], HOPPER, arrays, sizes, scalars)
    assert made.ok, made.render()
    own = complete_sizes(case.spec, {name: size for name, size in sizes.items() if name in case.spec.dims})
    read = {name: array for name, array in arrays.items() if name in case.spec.tensors}
    report = simulate(kernels[-1], HOPPER, read, own, scalars=scalars)
    assert report.ok, report.render()
    x, w, bias, down, up = (given[name].double() for name in ("x", "w", "bias", "down", "up"))
    expected = (x @ w.T + (x @ down.T) @ up.T + bias).bfloat16()  # sums of x · down are whole numbers that bf16 has
    torch.testing.assert_close(elements_to_tensor(report.tensors["y"], "bf16"), expected, rtol=0, atol=0)
