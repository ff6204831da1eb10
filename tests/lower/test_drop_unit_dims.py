"""What the grid counts one by one is a coordinate: tiles are matrices, accesses know their place along it."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, run, source
from tests.lower.gemms import lines as operations
from tests.lower.ir_text import Text, lines
from wavespec.lower.drop_unit_dims import DropUnitDims
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.targets.machine import Machine

BATCHES = Text("""
    tile kernel @batched target sm_90 lanes 1
    symbol B in 0..64 by 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    split workgroup B 1 2
    split workgroup M 64 0
    split workgroup N 64 1
    split loop K 32 0
    plan "auto" stages 1 group 0
    memory @a : f16 (B: [B], M: [M], K: [K]) global input
    memory @b : f16 (B: [B], N: [N], K: [K]) global input
    memory @c : f32 (B: [B], M: [M], N: [N]) global output
""")
PRODUCTS = """
    %zero = register {value = 0.0} : tile<B, M, N, f32>
    %sum = iterate %zero {dim = "K"} : tile<B, M, N, f32> (%acc : tile<B, M, N, f32>) do
      %a = read {memory = "a"} : tile<B, M, K, f16>
      %b = read {memory = "b"} : tile<B, N, K, f16>
      %acc.1 = mma %a, %b, %acc : tile<B, M, N, f32>
      yield %acc.1
    end
    write %sum {memory = "c"}
"""


def test_batches_leave_the_tiles() -> None:
    assert BATCHES.after(DropUnitDims(), NVIDIA, PRODUCTS) == lines(PRODUCTS.replace("<B, ", "<"))


def test_tiles_of_more_than_one_stay() -> None:
    kernel = BATCHES.changed(("B 1 2", "B 2 2")).kernel(PRODUCTS)
    assert DropUnitDims()(kernel, NVIDIA) is kernel


def test_operands_of_products_stay_matrices() -> None:
    text = BATCHES.changed(("M 64 0", "M 1 0"))
    assert text.after(DropUnitDims(), NVIDIA, PRODUCTS) == lines(PRODUCTS.replace("<B, ", "<"))


def test_dims_that_a_reduction_is_over_stay() -> None:
    sums = """
        %a = read {memory = "a"} : tile<B, M, K, f16>
        %sum = reduce %a {dim = "B", divided = false, function = "add"} : tile<M, K, f16>
    """
    kernel = BATCHES.kernel(sums)
    assert DropUnitDims()(kernel, NVIDIA) is kernel


def test_an_index_along_them_is_a_number() -> None:
    index = '%i = index {dim = "B"} : tile<B, M, i32>'
    assert BATCHES.after(DropUnitDims(), NVIDIA, index) == lines(index.replace("<B, ", "<"))


def batched(*changes: tuple[str, str]) -> KernelSpec:
    text = source("batched_matmul.wave.yaml")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "batched_matmul.wave.yaml")


def test_accesses_keep_their_place() -> None:
    kernel = lower(batched(), AMD, after="promote-shared")
    assert all('("B", [wg2],)' in line for line in operations(kernel, "copy", "write"))
    assert kernel.memory("a.shared").dims == ("M", "K")


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_products_of_batches_are_exact(machine: Machine) -> None:
    report, expected = run(batched(), machine, {"B": 3, "M": 5, "N": 7, "K": 35})
    assert report.findings == () and (report.tensors["c"] == expected).all()


@pytest.mark.parametrize("order", ["M, B, K", "M, K, B", "B, K, M"])
def test_any_place_of_the_batch(order: str) -> None:
    spec = batched(("[B, M, K]", f"[{order}]"))
    report, expected = run(spec, AMD, {"B": 2, "M": 5, "N": 7, "K": 35})
    assert report.findings == () and (report.tensors["c"] == expected).all()


def test_boxes_of_one_batch() -> None:
    spec = cases_for_target(batched(), "sm_90")[5].spec
    kernel = lower(spec, NVIDIA)
    assert {op["box"] for op in kernel.walk() if op.name == "bulk_copy"} == {(1, 64, 64)}
    assert {op["box"] for op in kernel.walk() if op.name == "bulk_store"} == {(1, 64, 64)}
    report, expected = run(spec, NVIDIA, {"B": 2, "M": 65, "N": 72, "K": 136}, kernel=kernel)
    assert report.findings == () and (report.tensors["c"] == expected).all()
