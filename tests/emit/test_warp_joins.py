"""What all lanes of a warp have is joined by one instruction for each word, where the machine has it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: joined
dims: {M: {}, N: {value: 128}}
tensors:
  x: {shape: [M, N], dtype: DTYPE}
  y: {shape: [M], dtype: DTYPE, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {wave: M, tile: 1}
graph:
  - part: {read: x}
  - total: {WORD: part, dim: N}
  - {write: total, to: y}
"""
KINDS = {"sum": "add", "max": "max", "min": "min"}


def spec_of(word: str, dtype: str) -> KernelSpec:
    return loads(SPEC.replace("DTYPE", dtype).replace("WORD", word))


def joins(word: str, dtype: str, machine: Machine = NVIDIA) -> list[str]:
    text = thread_to_mlir(lower(spec_of(word, dtype), machine), machine, "#layout").text
    return re.findall(r"nvvm\.redux\.sync (\w+) ", text)


@pytest.mark.parametrize("word", ["sum", "max", "min"])
def test_integers_of_32_bits_take_one(word: str) -> None:
    assert joins(word, "i32") == [KINDS[word]]


@pytest.mark.parametrize("word", ["max", "min"])
def test_lower_words_of_64_bits_have_no_sign(word: str) -> None:
    assert joins(word, "i64") == [KINDS[word], f"u{word}"]


def test_other_types_sums_of_64_bits_and_other_machines_exchange_what_lanes_have() -> None:
    assert joins("max", "f32") == joins("sum", "i64") == []
    assert "join_lanes" not in {op.name for op in lower(spec_of("max", "i32"), AMD).walk()}


@pytest.mark.parametrize("word", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_the_simulator_joins_lanes_of_a_wave(word: str, dtype: str) -> None:
    kind = np.int32 if dtype == "i32" else np.int64
    x = np.random.default_rng(0).integers(np.iinfo(kind).min // 64, np.iinfo(kind).max // 64, (7, 128), kind)
    report = simulate(lower(spec_of(word, dtype), NVIDIA), NVIDIA, {"x": x}, {"M": 7})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], getattr(x, word)(1))
