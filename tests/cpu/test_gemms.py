"""The GEMMs of ``specs/`` in every variant for this machine's CPU, and small tiles of them at every edge."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import Gemm
from wavespec.pipeline import best_variant, build
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load
from wavespec.targets.machine import Machine, machines
from wavespec.targets.matrix_instruction import MatrixInstruction

pytestmark = pytest.mark.rare

SPECS = Path(__file__).parents[2] / "specs"
FILES = {"f32": "gemm_f32", "f16": "gemm", "bf16": "gemm_bf16", "i8": "gemm_i8"}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
DTYPES = tuple(FILES)


MACHINES = {machine.variant: machine for machine in machines("cpu")}


@cache
def kernel(dtype: str, variant: str = "") -> Kernel:
    spec = load(SPECS / f"{FILES[dtype]}.wave.yaml")
    return Kernel(build(spec, "cpu", only=MACHINES[variant] if variant else best_variant("cpu")))


def whole_numbers(dtype: str, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Small enough that every sum is exact."""
    generator = torch.Generator().manual_seed(m * 7 + n * 5 + k)
    shapes = (m, k), (n, k)
    a, b = (torch.randint(-4, 5, shape, generator=generator).to(TORCH[dtype]) for shape in shapes)
    return a, b


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() @ b.double().T


def check(callable_: Kernel, dtype: str, m: int, n: int, k: int) -> None:
    a, b = whole_numbers(dtype, m, n, k)
    actual = callable_(a, b)
    assert actual.shape == (m, n)
    assert torch.equal(actual.double(), product(a, b)), (dtype, m, n, k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_is_written_and_nothing_around_it(dtype: str) -> None:
    a, b = whole_numbers(dtype, 37, 45, 48)
    room = torch.full((39, 45), 99, dtype=torch.int32 if dtype == "i8" else torch.float32)
    out = room[1:38]
    assert kernel(dtype)(a, b, out=out) is out
    assert torch.equal(out.double(), product(a, b))
    assert (room[0] == 99).all() and (room[38] == 99).all()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_variant_is_exact(dtype: str, machine: Machine) -> None:
    missing = set(machine.requires) - cpu_features()
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    for sizes in ((600, 530, 1040), (780, 800, 400), (30, 300, 400), (300, 30, 400), (5, 3, 0), (1, 1, 16)):
        check(kernel(dtype, machine.variant), dtype, *sizes)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_long_sums_err_as_those_of_torch(dtype: str) -> None:
    """Sums over all of K in one register would err 1.7 times as much; by how much is measured over all elements."""
    for k in (512, 2064):
        generator = torch.Generator().manual_seed(k)
        a, b = (torch.randn(rows, k, generator=generator).to(TORCH[dtype]) for rows in (200, 190))
        errors = [
            torch.linalg.vector_norm(one.double() - product(a, b))
            for one in (kernel(dtype)(a, b), a.float() @ b.float().T)
        ]
        assert errors[0] <= 1.4 * errors[1], (k, errors)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("sizes", [(50, 70, 2048), (700, 70, 2048)], ids=str)
def test_the_largest_products_of_bytes_are_exact(machine: Machine, sizes: tuple[int, int, int]) -> None:
    if set(machine.requires) - cpu_features():
        pytest.skip("not on this CPU")
    m, n, k = sizes
    for left, right in ((-128, -128), (-128, 127), (127, -128)):
        a, b = torch.full((m, k), left, dtype=torch.int8), torch.full((n, k), right, dtype=torch.int8)
        assert (kernel("i8", machine.variant)(a, b) == left * right * k).all()


def row_of(dtype: str, *, inner: bool) -> MatrixInstruction:
    """The best outer or inner product of this machine for a type."""
    rows = (row for row in best_variant("cpu").instructions if dtype in {kind.name for kind in row.inputs})
    return next(row for row in rows if row.emit.startswith("inner:") == inner)


@cache
def small(dtype: str, value: int, *, inner: bool) -> Kernel:
    """Tiles so small that little sizes meet every edge; ``value`` is what the sums start at."""
    best, row = best_variant("cpu"), row_of(dtype, inner=inner)
    tile = 2 * row.m, 2 * row.n, 2 * row.k
    gemm = Gemm(dtype=dtype, tile=tile, wave=(None, None), value=value, mma=row.name)
    return Kernel(build(gemm.spec, "cpu", only=best))


@settings(max_examples=60)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from([0, -2]),
    st.booleans(),
    st.integers(0, 150),
    st.integers(0, 150),
    st.integers(0, 300),
)
def test_any_size_is_exact(dtype: str, value: int, inner: bool, m: int, n: int, k: int) -> None:
    a, b = whole_numbers(dtype, m, n, k)
    assert torch.equal(small(dtype, value, inner=inner)(a, b).double(), product(a, b) + value)
