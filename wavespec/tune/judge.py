"""Results of a kernel and of two references go in; whether the kernel is right comes out. Needs torch only.

The rule is that of docs/decisions/0007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ALLOWED_RATIO = 2.0
"""How many times torch's own error in the same dtypes a kernel may have."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Largest absolute errors against the f64 reference."""

    error: float
    torch_error: float
    """Of torch computing the graph in the dtypes of the spec; at least one unit in the last place of the result."""

    @property
    def ratio(self) -> float:
        return 0.0 if self.error == 0 else self.error / self.torch_error if self.torch_error else float("inf")

    @property
    def ok(self) -> bool:
        return self.ratio <= ALLOWED_RATIO

    def joined(self, other: Accuracy) -> Accuracy:
        """Of both sets of results together."""
        return Accuracy(max(self.error, other.error), max(self.torch_error, other.torch_error))


def accuracy_of(outputs: Sequence[Tensor], exact: Sequence[Tensor], rounded: Sequence[Tensor]) -> Accuracy:
    """How far `outputs` are from the truth `exact`, and how far torch's results `rounded` are: the worst output.

    What is not finite counts as right where torch has the same; what torch alone gets wrong is not compared.
    """
    worst = Accuracy(0.0, 0.0)
    for output, truth, torch_output in zip(outputs, exact, rounded, strict=True):
        torch_errors = _errors(torch_output, truth)
        compared = torch_errors.isfinite()
        error, torch_error = _largest(_errors(output, truth)[compared]), _largest(torch_errors[compared])
        if output.dtype.is_floating_point and truth.numel():
            least = torch.finfo(output.dtype).eps * _largest(truth[truth.isfinite()].abs())
            torch_error = max(torch_error, least)
        one = Accuracy(error, torch_error)
        worst = max(worst, one, key=lambda accuracy: accuracy.ratio)
    return worst


def random_tensor(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Normal numbers, or integers from the whole range up to 8 bits, on the device of the generator; pairs of f4 of any
    bits, and scales from 1/128 to 128."""
    device = generator.device
    if dtype == torch.float4_e2m1fn_x2:
        return torch.randint(0, 256, shape, generator=generator, device=device).to(torch.uint8).view(dtype)
    if dtype == torch.float8_e8m0fnu:
        return torch.randint(120, 135, shape, generator=generator, device=device).to(torch.uint8).view(dtype)
    if dtype.is_floating_point:
        value = torch.randn(shape, generator=generator, dtype=torch.float32, device=device)
    elif dtype == torch.bool:
        value = torch.randint(0, 2, shape, generator=generator, device=device)
    else:
        least, most = max(torch.iinfo(dtype).min, -128), min(torch.iinfo(dtype).max, 127)
        value = torch.randint(least, most + 1, shape, generator=generator, device=device)
    return value.to(dtype)


def random_integers(use: str, size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers of the shape and type of `like` that make sense for their use along a dim of `size`: see `Meaning`."""
    beyond = size if use == "places" else size + 1
    most = min(beyond, torch.iinfo(like.dtype).max + 1)
    numbers = torch.randint(0, max(most, 1), like.shape, generator=generator, device=generator.device)
    if use == "starts" and numbers.numel():
        numbers = numbers.sort().values
        numbers[..., 0], numbers[..., -1] = 0, most - 1
    return numbers.to(like.dtype)


def _errors(actual: Tensor, truth: Tensor) -> Tensor:
    """Absolute, of each element; infinite where just one of both is not a number, or they are different infinities."""
    actual, truth = actual.to(torch.float64), truth.to(torch.float64)
    is_same = (actual == truth) | (actual.isnan() & truth.isnan())
    return torch.where(is_same, 0.0, (actual - truth).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
