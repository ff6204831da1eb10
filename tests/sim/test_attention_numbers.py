"""The window and the soft cap of a call: loops that skip keys, masks at edges, weights in the range of f32, whatever the number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.kernels import Subject, check_error, subjects
from tests.sim.plan_variations import simulated
from tests.sim.test_attention_cases import HOPPER, on_few
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.runtime.checks import ArgumentError
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

MASKED = {
    one.name.removeprefix("attention_masked_"): one for one in subjects("sm_90") if one.file == "attention_masked"
}
MOST = 2**31 - 1


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int | None = None,
    soft_cap: float | None = None,
    compute: torch.dtype = torch.float64,
) -> Tensor:
    """What a call means, written with torch."""
    q, k, v = (one.to(compute) for one in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if soft_cap is not None:
        scores = soft_cap * (scores / soft_cap).tanh()
    if window is not None:
        behind = torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2]) - torch.arange(k.shape[2])
        scores = scores.masked_fill((behind < 0) | (behind >= window), -math.inf)
    return scores.softmax(-1).nan_to_num(0) @ v


def drawn(m: int, n: int, d: int, e: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(m + n)
    return tuple(torch.randn(1, 2, *rows, generator=random).bfloat16() for rows in ((m, d), (n, d), (n, e)))  # pyright: ignore


@pytest.mark.parametrize("window", [1, 2, 17, 40, 1000, MOST])
def test_windows_of_the_reference_are_those_of_torch(window: int) -> None:
    q, k, v = drawn(30, 40, 16, 8)
    found = reference(MASKED["window"].spec, q, k, v, window=window)
    torch.testing.assert_close(found, attended(q, k, v, window=window), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("soft_cap", [1e-6, 0.3, 20.0, 64.0])
def test_caps_of_the_reference_are_those_of_torch(soft_cap: float) -> None:
    q, k, v = drawn(30, 40, 16, 8)
    found = reference(MASKED["soft_cap"].spec, 30 * q, k, v, soft_cap=soft_cap)
    torch.testing.assert_close(found, attended(30 * q, k, v, soft_cap=soft_cap), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "numbers"), [("window", {"window": 0}), ("soft_cap", {"soft_cap": 65.0}), ("soft_cap", {"soft_cap": 0.0})]
)
def test_numbers_beyond_their_limits_are_refused(mask: str, numbers: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=rf"argument '{mask}' is .*, expected at (least|most) "):
        reference(MASKED[mask].spec, *drawn(3, 3, 8, 8), **numbers)


def check(subject: Subject, kernel: Kernel, sizes: dict[str, int], **numbers: float) -> None:
    inputs = subject.inputs(sizes)
    machine = HOPPER if kernel.target == HOPPER.target else machines(kernel.target)[0]
    (found,) = simulated(subject, kernel, machine, subject.complete(sizes), inputs, **numbers)
    exact, own = (reference(subject.spec, *inputs, compute=of, **numbers) for of in (torch.float64, None))
    check_error(f"{subject.name} {numbers}", found, exact, own)


@pytest.mark.parametrize(("number", "head", "window"), [(2, 72, 256), (2, 72, 300), (4, 136, 192), (4, 136, 331)])
def test_edges_of_windows_that_are_longer_than_a_tile_are_in_different_steps(
    number: int, head: int, window: int
) -> None:
    """Which have a case with heads of up to 128 and of up to 256 elements."""
    check(
        MASKED["window"],
        on_few(MASKED["window"], number),
        {"B": 1, "H": 1, "M": 300, "N": 620, "D": head, "E": 24},
        window=window,
    )


@pytest.mark.parametrize("window", [1, 100, 129, 300, pytest.param(MOST, marks=pytest.mark.rare)])
def test_windows_of_a_call_on_waves_with_roles(window: int) -> None:
    """Shorter than a step, one step and a row, and longer than all keys: steps of edges, whole steps, none. Long ones have a case of their own."""
    check(
        MASKED["window"],
        on_few(MASKED["window"], int(window > 1024)),
        {"B": 1, "H": 1, "M": 200, "N": 420, "D": 16, "E": 24},
        window=window,
    )


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    ("mask", "numbers"),
    [("window", {"window": n}) for n in (1, 33, 150, MOST)]
    + [("soft_cap", {"soft_cap": n}) for n in (1e-6, 0.5, 64.0)],
)
def test_numbers_of_a_call_in_waves_that_are_alike(mask: str, numbers: dict[str, float], target: str) -> None:
    subject, sizes = MASKED[mask], {"B": 1, "H": 1, "M": 20, "N": 190, "D": 24, "E": 24}
    whole = {name: number for name, number in numbers.items() if isinstance(number, int)}
    case = subject.cases(target)[subject.case(target, {**subject.complete(sizes), **whole})]
    check(subject, lower(case.spec, machines(target)[0]), sizes, **numbers)
