"""Products that vectors of their results are multiplied by, of operands that are read where they lie, on this CPU."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.kernels import SPECS
from wavespec.pipeline import best_variant
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target

FEW, SMALL, NARROW = {"m": 2, "k": 70, "n": 300}, {"m": 33, "k": 40, "n": 50}, {"m": 20, "k": 9, "n": 7}


def spec(formula: str) -> KernelSpec:
    """Of a formula as `torch.einsum` has it, in f32."""
    factors, result = formula.split("->")
    left, right = factors.split(",")
    summed = next(dim for dim in left if dim in right and dim not in result)
    shapes = [", ".join(dims.upper()) for dims in (left, right, result)]
    return loads(
        f"""
        apiVersion: wavespec/v1
        kind: Kernel
        name: product
        dims: {{{", ".join(f"{dim}: {{}}" for dim in sorted({*left, *right} and {*(left + right).upper()}))}}}
        tensors:
          x: {{shape: [{shapes[0]}], dtype: f32}}
          y: {{shape: [{shapes[1]}], dtype: f32}}
          z: {{shape: [{shapes[2]}], dtype: f32, role: output}}
        graph:
          - zero: {{register: [{shapes[2]}], dtype: f32, value: 0}}
          - sums:
              iterate: {summed.upper()}
              carry: {{acc: zero}}
              body:
                - left: {{read: x}}
                - right: {{read: y}}
                - acc: {{mma: [left, right, acc]}}
          - {{write: sums.acc, to: z}}
        """,
        "product.wave.yaml",
        SPECS,
    )


@cache
def kernel(formula: str) -> KernelsOfCases:
    return KernelsOfCases(spec(formula), best_variant("cpu"))


def by_lanes(formula: str, sizes: dict[str, int]) -> bool:
    """Whether lanes multiply what they read."""
    named = {dim.upper(): size for dim, size in sizes.items()}
    case = case_for_sizes(cases_for_target(spec(formula), "cpu"), named)
    return any("lanes" in str(one) for one in case.spec.constraints)


@pytest.mark.parametrize("sizes", [FEW, {**FEW, "m": 1}, {**FEW, "m": 4}, SMALL, NARROW, {**NARROW, "k": 0}])
@pytest.mark.parametrize("formula", ["mk,kn->mn", "km,kn->mn", "mk,kn->nm", "bkcn,km->bmcn"])
def test_small_products_are_right(formula: str, sizes: dict[str, int]) -> None:
    extents = {**sizes, "b": 3, "c": 5}
    x, y = (torch.randn([extents[dim] for dim in dims]) for dims in formula.split("->")[0].split(","))
    wanted = torch.einsum(formula, x.double(), y.double())
    error = 2e-7 * max(1, extents["k"]) ** 0.5 * 8  # of sums in one chain
    torch.testing.assert_close(kernel(formula)(x, y).double(), wanted, atol=error, rtol=0)


@pytest.mark.parametrize("sizes", [FEW, SMALL, NARROW])
def test_lanes_multiply_where_results_lie_as_an_operand_does(sizes: dict[str, int]) -> None:
    assert by_lanes("mk,kn->mn", sizes)
    assert by_lanes("kn,km->mn", sizes)  # whichever factor it is
    assert not by_lanes("mk,nk->mn", sizes)
    assert not by_lanes("km,nk->mn", sizes)


def test_large_matrices_are_packed() -> None:
    assert not by_lanes("mk,kn->mn", {"m": 1000, "k": 1000, "n": 1000})
    assert not by_lanes("mk,kn->mn", {"m": 16, "k": 4000, "n": 4000})
