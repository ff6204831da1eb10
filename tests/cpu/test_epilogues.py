"""Epilogues on this machine's CPU: exact on whole numbers, as close as torch on others, at every edge."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tests.ops.epilogues import PLACES, epilogue, every_function, words_for
from wavespec.pipeline import best_variant, build
from wavespec.runtime.checks import DTYPES as TORCH
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, load
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

pytestmark = pytest.mark.rare

SPECS = Path(__file__).parents[2] / "specs"
NAMES = ("matmul", "linear_gelu", "linear_residual")
VARIANTS = [machine.variant for machine in machines("cpu")]
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


@pytest.mark.parametrize(
    ("dtype", "part"),
    [("bf16", 0), ("f64", 1), *((dtype, part) for dtype in ("f32", "i32", "u8", "bool") for part in range(3))],
)
def test_every_function_is_as_near_as_torch_and_exact_on_whole_numbers(dtype: str, part: int) -> None:
    words = words_for(dtype)[part::3]
    made = every_function(words, dtype)
    call, random = Kernel(build(made, "cpu", only=best_variant("cpu"))), torch.Generator().manual_seed(0)
    kind, shape = TORCH[dtype], (67, 51)
    a, flag = 2 * torch.randn(67, 1, generator=random), torch.rand(shape, generator=random) < 0.5
    other = (2 * torch.randn(shape, generator=random)).to(kind)
    if not kind.is_floating_point:
        a = torch.randint(0 if dtype == "u8" else -5, 6, (67, 1), generator=random).float()
        other = torch.randint(0 if dtype == "bool" else 1, 5, shape, generator=random).to(kind)
    given = a, torch.ones(51, 1), other, flag
    for word, found, exact, torchs in zip(
        (*words, "where"), call(*given), reference(made, *given), reference(made, *given, compute=None), strict=True
    ):
        assert found.dtype == torchs.dtype, word
        if not found.is_floating_point():
            assert torch.equal(found, torchs), word
            continue
        finite = torchs.isfinite()
        assert torch.equal(found.isfinite(), finite), word
        error, theirs = ((x.double() - exact)[finite].abs().max() for x in (found, torchs))
        assert error <= 2 * max(theirs, 2.0**-24 * exact[finite].abs().max()), (word, error, theirs)


def test_small_floats_are_rounded_after_each_op() -> None:
    """IREE took what was rounded to bf16 and widened again for the number itself."""
    made = epilogue(
        "small: {cast: sums.acc, dtype: bf16}", "one_less: {sub: [small, 1]}", "y: {cast: one_less, dtype: f32}"
    )
    x = torch.tensor([[1.0001], [1.003], [1.007], [2.003]])
    result = Kernel(build(made, "cpu", only=best_variant("cpu")))(x, torch.ones(1, 1))
    assert torch.equal(result, (x.bfloat16() - 1).float())


@pytest.mark.parametrize("sizes", [(37, 70, 3), (200, 190, 33)], ids=str)
def test_elements_know_their_place_and_their_bits(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    made = epilogue(*PLACES)
    a, b = torch.randint(-2, 3, (m, k)).float(), torch.randint(-2, 3, (n, k)).float()
    result = Kernel(build(made, "cpu", only=best_variant("cpu")))(a, b)
    assert torch.equal(result, reference(made, a, b, compute=None))


def test_not_a_number_and_infinity_pass_through() -> None:
    made = epilogue("low: {minimum: [sums.acc, 4]}", "y: {relu: low}")
    call, infinity = Kernel(build(made, "cpu", only=best_variant("cpu"))), float("inf")
    x = torch.tensor([[float("nan")], [infinity], [-infinity], [2.0]])
    torch.testing.assert_close(
        call(x, torch.ones(1, 1)).flatten(), torch.tensor([float("nan"), 4, 0, 2]), equal_nan=True
    )


def test_machine_code_for_tile_registers_can_be_made() -> None:
    build(spec("linear_gelu"), "cpu", only=machines("cpu")[0])
