"""Epilogues on this machine's CPU: exact on whole numbers, as close as torch on others, at every edge."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tests.ops.epilogues import epilogue
from wavespec.pipeline import best_variant, build
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, load
from wavespec.schema.ops import FUNCTIONS
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

SPECS = Path(__file__).parents[2] / "specs"
NAMES = ("matmul_bf16", "matmul_f16", "linear_gelu", "linear_residual")
VARIANTS = [machine.variant for machine in machines("cpu")]
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
SIZES = ((1, 1, 1), (37, 70, 33), (0, 5, 16), (5, 3, 0), (577, 513, 35), (50, 40, 1100))


@cache
def spec(name: str) -> KernelSpec:
    return load(SPECS / f"{name}.wave.yaml")


@cache
def kernel(name: str, variant: str = "") -> Kernel:
    machine = next((m for m in machines("cpu") if m.variant == variant), best_variant("cpu"))
    if missing := set(machine.requires) - cpu_features():
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    return Kernel(build(spec(name), "cpu", only=machine))


def inputs(name: str, sizes: tuple[int, int, int], *, whole: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(sizes))
    extents = dict(zip("MNK", sizes, strict=True))
    made: list[torch.Tensor] = []
    for tensor in spec(name).tensors.values():
        shape = [extents[dim] for dim in tensor.shape]
        numbers = torch.randint(-2, 3, shape, generator=generator) if whole else torch.randn(shape, generator=generator)
        if tensor.role == "input":
            made.append(numbers.to(TORCH[tensor.dtype]))
    return made


@pytest.mark.parametrize("name", [name for name in NAMES if name != "linear_gelu"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_whole_numbers_are_exact(name: str, sizes: tuple[int, int, int]) -> None:
    given = inputs(name, sizes, whole=True)
    result = kernel(name)(*given)
    assert torch.equal(result, reference(spec(name), *given).to(result.dtype))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(64, 64, 64), (200, 190, 1033)], ids=str)
def test_errors_are_at_most_twice_those_of_torch(name: str, sizes: tuple[int, int, int]) -> None:
    given = inputs(name, sizes, whole=False)
    exact, torchs = reference(spec(name), *given), reference(spec(name), *given, compute=None)
    assert (kernel(name)(*given).double() - exact).abs().max() <= 2 * (torchs.double() - exact).abs().max()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_exact(variant: str) -> None:
    for sizes in ((70, 50, 1033), (5, 3, 0)):
        given = inputs("linear_residual", sizes, whole=True)
        result = kernel("linear_residual", variant)(*given)
        assert torch.equal(result, reference(spec("linear_residual"), *given).bfloat16()), sizes


@pytest.mark.parametrize("word", [function.word for function in FUNCTIONS if function.operands == 1])
def test_functions_err_at_most_twice_as_much_as_torch(word: str) -> None:
    made = epilogue(f"y: {{{word}: sums.acc}}")
    call, one = Kernel(build(made, "cpu", only=best_variant("cpu"))), torch.ones(1, 1)
    for limit in (1.0, 20.0):
        x = torch.linspace(-limit, limit, 20_001)[:, None]
        exact, torchs = reference(made, x, one), reference(made, x, one, compute=None)
        allowed = max((torchs.double() - exact).abs().max(), 2.0**-24 * exact.abs().max())
        assert (call(x, one).double() - exact).abs().max() <= 2 * allowed, limit


def test_not_a_number_and_infinity_pass_through() -> None:
    made = epilogue("low: {minimum: [sums.acc, 4]}", "y: {relu: low}")
    call, infinity = Kernel(build(made, "cpu", only=best_variant("cpu"))), float("inf")
    x = torch.tensor([[float("nan")], [infinity], [-infinity], [2.0]])
    torch.testing.assert_close(
        call(x, torch.ones(1, 1)).flatten(), torch.tensor([float("nan"), 4, 0, 2]), equal_nan=True
    )


def test_machine_code_for_tile_registers_can_be_made() -> None:
    build(spec("linear_gelu"), "cpu", only=machines("cpu")[0])
