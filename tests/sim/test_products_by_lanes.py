"""Products of few rows that lanes add up: every such case of the specs in the simulator, of odd sizes and any K."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import subjects
from tests.lower.test_products_by_lanes import lowered as in_types
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

MACHINES = {name: machines(name)[0] for name in ("sm_90", "gfx942")}
CASES = {
    f"{target}-{number}": (case, machine)
    for target, machine in MACHINES.items()
    for subject in subjects(target)
    if subject.name == "gemm_f32"
    for number, case in enumerate(subject.cases(target))
    if lower(case.spec, machine, after="spec-to-tile").distribution.instruction == "lanes"
}
CHAINS = 128
"""As many sums as 32 lanes with four of them have."""


def product(kernel: Kernel, machine: Machine, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the kernel makes of operands, without a race."""
    report = simulate(kernel, machine, {"a": a, "b": b}, {"M": len(a), "N": len(b), "K": a.shape[1]})
    assert report.ok, report.render()
    return report.tensors["c"]


def sizes_of(case: TargetCase) -> list[tuple[int, int, int]]:
    """Rows, columns and K of calls that have the case, and not all of a tile, or a step."""
    conditions = [str(one) for one in case.case.when] if case.case else []
    rest = 0 if "K % 4 == 0" in conditions else 1
    most = 2 if "M <= 2" in conditions else 8
    if "K >= 4096" in conditions:  # shared out by workgroups, the last of which has the least
        return [(1, 5, 4100), (most, 3, 4612)]
    sizes = [(1, 5, 1540 + rest), (most, 3, 132 + rest)]
    return sizes if most == 2 else [*sizes, (11, 3, 140 + rest)]


def drawn(draw: str, rows: int, depth: int) -> np.ndarray:
    random = np.random.default_rng(rows)
    made = random.integers(-3, 4, (rows, depth)) if draw == "whole" else random.standard_normal((rows, depth))
    return made.astype(np.float32)


def by_chains(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product by so many chains of multiply-adds in f32, which are added in pairs."""
    padded = -a.shape[1] % CHAINS
    left, right = (np.pad(one, ((0, 0), (0, padded))).astype(np.float64) for one in (a, b))
    sums = np.zeros((len(a), len(b), CHAINS), np.float32)
    for at in range(0, left.shape[1], CHAINS):
        products = left[:, None, at : at + CHAINS] * right[None, :, at : at + CHAINS]
        sums = (products + sums).astype(np.float32)
    while sums.shape[2] > 1:
        sums = sums[..., ::2] + sums[..., 1::2]
    return sums[..., 0]


def error(result: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2)))


def test_there_are_such_cases() -> None:
    assert list(CASES) == [*(f"sm_90-{n}" for n in (0, 1, 2, 3, 4, 6, 7)), *(f"gfx942-{n}" for n in range(2))]


@pytest.mark.parametrize("name", CASES)
def test_whole_numbers_are_exact(name: str) -> None:
    case, machine = CASES[name]
    kernel = lower(case.spec, machine)
    for rows, columns, depth in sizes_of(case):
        a, b = drawn("whole", rows, depth), drawn("whole", columns, depth)
        np.testing.assert_array_equal(product(kernel, machine, a, b), a @ b.T)


@pytest.mark.parametrize("name", CASES)
def test_sums_are_as_exact_as_those_of_many_chains(name: str) -> None:
    case, machine = CASES[name]
    rows, columns, depth = sizes_of(case)[0]
    a, b = drawn("normal", rows, depth), drawn("normal", columns, depth)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    # Of a few numbers that are drawn, the largest error: one chain has three to eight times that.
    assert error(product(lower(case.spec, machine), machine, a, b), exact) <= 2.5 * error(by_chains(a, b), exact)


@pytest.mark.parametrize(("dtype", "sums"), [("f64", "f64"), ("f16", "f32")])
def test_other_types_are_right(dtype: str, sums: str) -> None:
    kernel, (rows, columns, depth) = in_types(dtype, sums), (2, 5, 1544)
    kind = np.dtype({"f64": "float64", "f16": "float16"}[dtype])
    a, b = (drawn("whole", count, depth).astype(kind) for count in (rows, columns))
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_array_equal(product(kernel, MACHINES["sm_90"], a, b), exact)
