"""Sums of few rows start at zero in each step where the matrix unit cuts off what it adds to large ones."""

from __future__ import annotations

import pytest

from tests.kernels import SPECS
from wavespec.ir.kernel import Kernel
from wavespec.lower.restart_sums import RestartSums
from wavespec.pipeline import lower
from wavespec.schema import load, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.families.load_family import load_family
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
FEW = {"M": 9, "N": 5120, "K": 8192}


def before(name: str, **sizes: int) -> Kernel:
    """The kernel of a case up to the pass."""
    path = SPECS / f"{name}.wave.yaml"
    spec = load_family(path).members[0].spec if name == "matmul" else load(path)
    return lower(case_for_sizes(cases_for_target(spec, "sm_90"), sizes).spec, HOPPER, after="sum-apart")


def steps(kernel: Kernel) -> list[str]:
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    return [op["function"] if op.name == "elementwise" else op.name for op in loop.body.ops]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("gemm", FEW), ("gemm_bf16", FEW), ("gemm_bf16", FEW | {"M": 24}), ("gemm_bf16", FEW | {"M": 96})],
    ids=["f16", "bf16", "a tile of some of the rows", "tiles of 96 rows"],
)
def test_sums_that_leave_registers_for_two_start_at_zero(name: str, sizes: dict[str, int]) -> None:
    kernel = RestartSums()(before(name, **sizes), HOPPER)
    assert steps(kernel)[-3:] == ["register", "mma", "add"]
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    *_, product, total = loop.body.ops
    assert total.operands == (loop.body.arguments[0], product.result) and loop.body.yields == total.results


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", FEW),
        ("gemm_bf16", {"M": 300, "N": 5120, "K": 8192}),
        ("gemm_bf16", {"M": 4096, "N": 4096, "K": 8192}),
        ("gemm_bf16", {"M": 24, "N": 25_600, "K": 5120}),
        ("gemm_i8", FEW),
        ("matmul_tf32", FEW),
    ],
    ids=[
        "results of 16 bits",
        "many rows",
        "many sums",
        "many sums of waves in turn",
        "whole numbers",
        "operands of few bits",
    ],
)
def test_others_are_added_to_as_they_are(name: str, sizes: dict[str, int]) -> None:
    kernel = before(name, **sizes)
    assert RestartSums()(kernel, HOPPER) is kernel


def test_short_sums_stay() -> None:
    text = (SPECS / "gemm.wave.yaml").read_text().replace("K: {multiple_of: 8}", "K: {multiple_of: 8, max: 2048}")
    case = case_for_sizes(cases_for_target(loads(text, "gemm.wave.yaml"), "sm_90"), {**FEW, "K": 1024})
    kernel = lower(case.spec, HOPPER, after="sum-apart")
    assert RestartSums()(kernel, HOPPER) is kernel


def test_chains_of_multiply_adds_are_as_long_as_a_step() -> None:
    kernel = RestartSums()(before("gemm_f32", M=300, N=1001, K=2047), HOPPER)
    assert steps(kernel)[-3:] == ["register", "mma", "add"]
