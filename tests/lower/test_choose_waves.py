"""Where a spec names no waves, tiles are shared out among as many as they are worth."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import Machine

PRODUCT = """
apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {M: {}, N: {}, K: {}}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  w: {shape: [N, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - w_tile: {read: w}
        - acc: {mma: [x_tile, w_tile, acc]}
  - {write: steps.acc, to: y}
"""

TWO_PRODUCTS = """
apiVersion: wavespec/v1
kind: Kernel
name: two_products
dims: {M: {}, N: {}, K: {}, R: {max: 64}}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  w: {shape: [N, K], dtype: bf16, space: shared}
  a: {shape: [R, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
  z: {shape: [M, R], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {tiling: R, tile: 64}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - none: {register: [M, R], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero, low: none}
      body:
        - x_tile: {read: x}
        - w_tile: {read: w}
        - a_tile: {read: a}
        - acc: {mma: [x_tile, w_tile, acc]}
        - low: {mma: [x_tile, a_tile, low]}
  - {write: steps.acc, to: y}
  - {write: steps.low, to: z}
"""

SUMS = """
apiVersion: wavespec/v1
kind: Kernel
name: sums
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {tiling: N, tile: 512}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - {write: steps.total, to: y}
"""


def waves_of(text: str, machine: Machine, *changes: tuple[str, str]) -> dict[str, int]:
    plan = lower(loads(changed(text, *changes), "given.wave.yaml"), machine, after="choose-waves").distribution
    return {split.dim: split.tile for split in plan.waves}


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


SCAN = changed(
    SUMS,
    ("N: {}", "N: {max: 8192}"),
    ("y: {shape: [M]", "y: {shape: [M, N]"),
    (
        "        - total:",
        "        - running: {cumsum: part, dim: N, init: total}\n        - {write: running, to: y}\n        - total:",
    ),
    ("  - {write: steps.total, to: y}\n", ""),
)


@pytest.mark.parametrize("machine", [NVIDIA, AMD])
def test_results_of_products_are_shared_out_in_squares(machine: Machine) -> None:
    assert waves_of(PRODUCT, machine) == {"M": 32, "N": 32}


def test_waves_share_out_what_all_products_have() -> None:
    assert waves_of(TWO_PRODUCTS, NVIDIA) == {"M": 16}


def test_sums_that_one_wave_has_no_registers_for_build() -> None:
    assert lower(loads(TWO_PRODUCTS, "given.wave.yaml"), NVIDIA).wave_count == 4


def test_a_wave_has_registers_for_its_sums() -> None:
    larger = ("tile: 64, axis: 0", "tile: 128, axis: 0"), ("tile: 64, axis: 1", "tile: 256, axis: 1")
    assert waves_of(PRODUCT, NVIDIA, *larger) == {"M": 64, "N": 64}


@pytest.mark.parametrize("text", [SUMS, SCAN])
@pytest.mark.parametrize("machine", [NVIDIA, AMD])
def test_rows_go_to_waves_and_stay_whole(machine: Machine, text: str) -> None:
    assert waves_of(text, machine) == {"M": 1}


def test_a_small_tile_has_one_wave() -> None:
    assert waves_of(SUMS, NVIDIA, ("tile: 4", "tile: 1"), ("tile: 512", "tile: 64")) == {}


def test_a_long_row_has_one_wave_as_long_as_it_has_registers() -> None:
    assert waves_of(SUMS, NVIDIA, ("tile: 4", "tile: 1"), ("tile: 512", "tile: 4096")) == {}
    assert waves_of(SUMS, NVIDIA, ("tile: 4", "tile: 1"), ("tile: 512", "tile: 16384")) == {"N": 4096}


def test_elements_that_a_scan_goes_along_stay_in_one_wave() -> None:
    assert waves_of(SCAN, NVIDIA, ("tile: 4", "tile: 1"), ("tile: 512", "tile: 8192")) == {}


def test_waves_of_the_spec_stay() -> None:
    assert waves_of(SUMS, NVIDIA, ("constraints:\n", "constraints:\n  - {wave: M, tile: 4}\n")) == {"M": 4}


def test_waves_that_take_turns_are_not_chosen() -> None:
    assert waves_of(SUMS, CPU) == {}


def test_waves_along_results_that_no_workgroup_splits_are_refused() -> None:
    text = changed(TWO_PRODUCTS, ("constraints:\n", "constraints:\n  - {wave: R, tile: 32}\n"))
    with pytest.raises(WavespecError, match="results-not-shared") as caught:
        lower(loads(text, "given.wave.yaml"), NVIDIA)
    assert "in place of the tiling" in str(caught.value)


def test_sums_of_a_wave_of_the_spec_that_do_not_fit_are_told_to_use_more() -> None:
    text = changed(TWO_PRODUCTS, ("constraints:\n", "constraints:\n  - {wave: M, tile: 64}\n"))
    with pytest.raises(WavespecError, match="schedule-takes-registers") as caught:
        lower(loads(text, "given.wave.yaml"), NVIDIA)
    assert "among more waves" in str(caught.value) and "fewer stages" not in str(caught.value)
