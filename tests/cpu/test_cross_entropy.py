"""Loss per row and then its mean or sum: as torch has them, whichever rows are ignored, on this machine's CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.kernels import check_error
from wavespec.pipeline import compile
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load

SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="module")
def kernels() -> tuple[Kernel, Kernel]:
    losses, mean = (compile(load(SPECS / f"{name}.wave.yaml")) for name in ("cross_entropy", "cross_entropy_mean"))
    return losses, mean


@pytest.mark.parametrize("ignored", [0, 1, 36, 37], ids="{} ignored".format)
def test_mean_and_sum_are_those_of_torch(kernels: tuple[Kernel, Kernel], ignored: int) -> None:
    """Of nothing the mean is no number, and the sum 0."""
    losses, reduce = kernels
    random = torch.Generator().manual_seed(ignored)
    x, target = torch.randn(37, 50, generator=random), torch.randint(0, 50, (37,), generator=random)
    target[torch.randperm(37, generator=random)[:ignored]] = -100
    found = reduce(losses(x, target), target)
    for result, reduction in zip(found, ("mean", "sum"), strict=True):
        exact, theirs = (torch.nn.functional.cross_entropy(one, target, reduction=reduction) for one in (x.double(), x))
        check_error(reduction, result, exact, theirs, least_ulps=4)
