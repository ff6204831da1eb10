"""Products of f32 by a matrix unit of fewer bits: every such case of the specs in the simulator, which cuts off what the
unit does; partial tiles included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import subjects
from wavespec.ir.kernel import Op, rewrite
from wavespec.ir.thread_ops import BULK_COPY, FOR, MMA_WAIT
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
BY_UNIT = {
    f"{subject.name}-{number}": case.spec
    for subject in subjects("sm_90")
    if subject.name in ("gemm_f32", "matmul_tf32")
    for number, case in enumerate(subject.cases("sm_90"))
    if lower(case.spec, HOPPER, after="assign-tiles").producers
}
THREE_PRODUCTS = [name for name in BY_UNIT if name.startswith("gemm_f32")]
SIZES = {"M": 140, "N": 136, "K": 132}
DEEP = {
    **{f"matmul_tf32-{number}": 2052 for number in (0, 1, 11, 15, 19, 29)},
    **{f"matmul_tf32-{number}": 516 for number in (5, 6, 9, 10, 12, 14)},
    **{f"gemm_f32-{number}": 516 for number in (12, 13, 14, 15, 17, 18)},
    "gemm_f32-5": 1796,
}
"""Of cases that are for many steps, or share them out."""
ROWS = {
    **{f"gemm_f32-{number}": 37 for number in range(8, 12)},
    **{f"matmul_tf32-{number}": 13 for number in range(4)},
    **{f"matmul_tf32-{number}": 90 for number in range(4, 15)},
    "matmul_tf32-39": 1030,
}
"""Of cases that are for few, or for many."""


def product(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the kernel of a case makes of operands, without a race."""
    sizes = {"M": len(a), "N": len(b), "K": a.shape[1]}
    report = simulate(lower(BY_UNIT[name], HOPPER), HOPPER, {"a": a, "b": b}, sizes)
    assert report.ok, report.render()
    return report.tensors["c"]


def factors(draw: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    random, depth = np.random.default_rng(0), DEEP.get(name, SIZES["K"])
    shapes = (ROWS.get(name, SIZES["M"]), depth), (SIZES["N"], depth)
    made = [random.integers(-3, 4, s) if draw == "whole" else random.standard_normal(s) for s in shapes]
    return made[0].astype(np.float32), made[1].astype(np.float32)


def error(result: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2)))


def test_these_are_the_cases() -> None:
    assert list(BY_UNIT) == [
        *(f"gemm_f32-{n}" for n in (5, *range(8, 19))),
        *(f"matmul_tf32-{n}" for n in range(40)),
    ]


@pytest.mark.parametrize("name", BY_UNIT)
def test_whole_numbers_are_exact(name: str) -> None:
    a, b = factors("whole", name)
    np.testing.assert_array_equal(product(name, a, b), a @ b.T)


@pytest.mark.parametrize("name", THREE_PRODUCTS)
def test_three_products_err_at_most_twice_as_much_as_multiply_adds(name: str) -> None:
    a, b = factors("normal", name)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    added = np.zeros_like(exact, np.float32)
    for left, right in zip(a.T, b.T, strict=True):
        added = (np.outer(left.astype(np.float64), right) + added).astype(np.float32)
    assert error(product(name, a, b), exact) <= 2 * error(added, exact)


@pytest.mark.parametrize(
    ("dropped", "kind"), [("mma_wait", "unwaited-product"), ("fence_async", "unfenced"), ("barrier", "race")]
)
def test_what_orders_the_low_part_is_needed(dropped: str, kind: str) -> None:
    kernel = lower(BY_UNIT["gemm_f32-16"], HOPPER)
    first = {"mma_wait": 0, "fence_async": 0, "barrier": 1}[dropped]
    loop = next(op for op in kernel.walk() if op.is_(FOR) and any(one.is_(MMA_WAIT) for one in op.body.ops))
    gone = [op for op in loop.body.ops if op.name == dropped][first]
    names = {new.name: old for new, old in zip(gone.results, gone.operands, strict=True)}

    def change(op: Op) -> tuple[Op, ...]:
        used = tuple(names.get(value.name, value) for value in op.operands)
        return () if op is gone else (replace(op, operands=used) if used != op.operands else op,)

    a, b = factors("whole", "gemm_f32-16")
    broken = replace(kernel, body=rewrite(kernel.body, change))
    report = simulate(broken, HOPPER, {"a": a, "b": b}, SIZES)
    assert any(kind in found for found in report.kinds()), report.kinds()


def test_boxes_are_rounded_to_what_the_unit_takes() -> None:
    a, b = factors("normal", "matmul_tf32-18")
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    rounded = [(x * np.float32(8193) - (x * np.float32(8193) - x)).astype(np.float64) for x in (a, b)]
    assert error(product("matmul_tf32-18", a, b), exact) <= 1.1 * error(rounded[0] @ rounded[1].T, exact)


def test_a_unit_of_fewer_bits_does_not_see_the_others() -> None:
    kernel = lower(BY_UNIT["matmul_tf32-18"], HOPPER)
    body = rewrite(kernel.body, lambda op: (op.with_(kept_bits=0) if op.is_(BULK_COPY) else op,))
    a, b = factors("whole", "matmul_tf32-18")
    more = a * np.float32(1 + 10 * 2**-14)  # to the nearest number of 11 bits, that would be more
    report = simulate(replace(kernel, body=body), HOPPER, {"a": more, "b": b}, SIZES)
    np.testing.assert_array_equal(report.tensors["c"], a @ b.T)
