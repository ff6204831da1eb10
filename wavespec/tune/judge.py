"""Results of a kernel and of two references go in; whether the kernel is right comes out. Needs torch only.

The rule is that of docs/decisions/0007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

ALLOWED_RATIO = 2.0
"""How many times torch's own error in the same dtypes a kernel may have."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a result, by the name of the tensor, and what it should be."""

    tensor: str
    index: tuple[int, ...]
    computed: int | float
    expected: int | float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Largest absolute errors against the f64 reference."""

    error: float
    torch_error: float
    """Of torch computing the graph in the dtypes of the spec; at least one unit in the last place of the result."""
    worst: Element | None = field(default=None, compare=False)
    """Where the error is largest; None where nothing errs, or no element is known."""

    @property
    def ratio(self) -> float:
        return 0.0 if self.error == 0 else self.error / self.torch_error if self.torch_error else float("inf")

    @property
    def ok(self) -> bool:
        return self.ratio <= ALLOWED_RATIO

    def joined(self, other: Accuracy) -> Accuracy:
        """Of both sets of results together."""
        worst = max(self, other, key=lambda one: one.error).worst
        return Accuracy(max(self.error, other.error), max(self.torch_error, other.torch_error), worst)


def accuracy_of(
    outputs: Sequence[Tensor], exact: Sequence[Tensor], rounded: Sequence[Tensor], names: Sequence[str] = ()
) -> Accuracy:
    """How far `outputs` are from the truth `exact`, and how far torch's results `rounded` are: the worst output.

    What is not finite counts as right where torch has the same; what torch alone gets wrong is not compared.

    Args:
        names: of the outputs, where it matters which element is the worst.
    """
    worst = Accuracy(0.0, 0.0)
    for number, (output, truth, torch_output) in enumerate(zip(outputs, exact, rounded, strict=True)):
        torch_errors = _errors(torch_output, truth)
        compared = torch_errors.isfinite()
        errors = _errors(output, truth).where(compared, 0.0)
        error, torch_error = _largest(errors), _largest(torch_errors[compared])
        if output.dtype.is_floating_point and truth.numel():
            least = torch.finfo(output.dtype).eps * _largest(truth[truth.isfinite()].abs())
            torch_error = max(torch_error, least)
        element = _element(names[number], errors, output, truth) if names and error else None
        one = Accuracy(error, torch_error, element)
        worst = max(worst, one, key=lambda accuracy: accuracy.ratio)
    return worst


def _element(name: str, errors: Tensor, output: Tensor, truth: Tensor) -> Element:
    """The one with the largest error, the first of several."""
    index = tuple([int(place) for place in torch.unravel_index(errors.argmax(), errors.shape)])
    return Element(name, index, output[index].item(), truth[index].item())


def nearer(
    outputs: Sequence[Tensor],
    first: tuple[Sequence[Tensor], Sequence[Tensor]],
    other: tuple[Sequence[Tensor], Sequence[Tensor]],
) -> tuple[list[Tensor], list[Tensor]]:
    """Of two truths, each with torch's results for it, for each element that which it is nearer to."""
    exact, rounded = list[Tensor](), list[Tensor]()
    for output, *each in zip(outputs, *first, *other, strict=True):
        truth, theirs, other_truth, others = each
        is_nearer = _errors(output, other_truth) < _errors(output, truth)
        exact.append(torch.where(is_nearer, other_truth, truth))
        rounded.append(torch.where(is_nearer, others, theirs))
    return exact, rounded


def _errors(actual: Tensor, truth: Tensor) -> Tensor:
    """Absolute, of each element; infinite where just one of both is not a number, or they are different infinities."""
    actual, truth = actual.to(torch.float64), truth.to(torch.float64)
    is_same = (actual == truth) | (actual.isnan() & truth.isnan())
    return torch.where(is_same, 0.0, (actual - truth).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
