"""What the grid counts one by one is a coordinate: tiles are matrices, accesses know their place along it."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, lines, run, source
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolve import cases_for_target
from wavespec.targets.machine import Machine


def batched(*changes: tuple[str, str]) -> KernelSpec:
    text = source("batched_matmul.wave.yaml")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "batched_matmul.wave.yaml")


def dims(kernel: Kernel) -> set[tuple[str, ...]]:
    return {value.tile.dims for op in kernel.walk() for value in op.results}


def test_batches_leave_the_tiles() -> None:
    before = lower(batched(), NVIDIA, after="spec-to-tile")
    after = lower(batched(), NVIDIA, after="drop-unit-dims")
    assert dims(before) == {("B", "M", "N"), ("B", "M", "K"), ("B", "N", "K")}
    assert dims(after) == {("M", "N"), ("M", "K"), ("N", "K")}


def test_tiles_of_more_than_one_stay() -> None:
    kernel = lower(batched(("B, tile: 1", "B, tile: 2")), NVIDIA, after="drop-unit-dims")
    assert ("B", "M", "N") in dims(kernel)


def test_operands_of_products_stay_matrices() -> None:
    spec = batched(("M, tile: BLOCK_M", "M, tile: 1"), ("  - {wave: M, tile: WAVE_M}\n", ""))
    kernel = lower(spec, NVIDIA, after="drop-unit-dims")
    assert dims(kernel) == {("M", "N"), ("M", "K"), ("N", "K")}


def test_accesses_keep_their_place() -> None:
    kernel = lower(batched(), AMD, after="promote-shared")
    assert all('("B", [wg2],)' in line for line in lines(kernel, "copy", "write"))
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
    spec = cases_for_target(batched(), "sm_90")[1].spec
    kernel = lower(spec, NVIDIA)
    assert {op["box"] for op in kernel.walk() if op.name == "bulk_copy"} == {(1, 128, 64)}
    report, expected = run(spec, NVIDIA, {"B": 2, "M": 65, "N": 72, "K": 136}, kernel=kernel)
    assert report.findings == () and (report.tensors["c"] == expected).all()
