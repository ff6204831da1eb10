"""Where a spec names no tiles, what a machine has no room for is told in words of the spec."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Memory
from wavespec.lower.check_shared import SharedMemoryExceeded
from wavespec.pipeline import emit
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.targets.machine import machines

(*_, AVX2) = machines("cpu")
TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: route
dims: {T: {}, D: {}, X: {value: 4096}, K: {value: 8}}
tensors:
  x: {shape: [T, D], dtype: bf16}
  router: {shape: [X, D], dtype: bf16}
  found: {shape: [T, K], dtype: f32, role: output}
graph:
  - zero: {register: [T, X], dtype: f32, value: 0}
  - sums:
      iterate: D
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - router_tile: {read: router}
        - acc: {mma: [x_tile, router_tile, acc]}
  - largest: {topk: sums.acc, dim: X, k: K}
  - {write: largest, to: found}
"""


def last_for(text: str, target: str) -> KernelSpec:
    return cases_for_target(loads(text, "route.wave.yaml"), target)[-1].spec


def test_registers_are_told_by_dims_and_types() -> None:
    with pytest.raises(WavespecError) as caught:
        emit(last_for(TEXT, "sm_90"), NVIDIA)
    (found,) = caught.value.diagnostics
    assert found.code == "too-many-registers"
    assert found.message == "'largest_rank' takes 2048 registers of each lane; sm_90 has 255."
    assert found.hints == (
        "Promise fewer elements of dims that a value needs all of, by 'max' or 'value' in 'dims', or take element "
        "types of fewer bits.",
        "Or name the tiles: as 'constraints' have none, the compiler chose them: 16 of 'D' and 16 of 'T'.",
        "Or have a kernel write the product, and another one what joins elements of its rows.",
    )
    assert found.span is not None


def test_code_is_told_so_too_at_a_statement() -> None:
    text = TEXT.replace("value: 4096", "value: 256")
    with pytest.raises(WavespecError) as caught:
        emit(last_for(text, "cpu"), replace(AVX2, most_lines=1000))
    (found,) = caught.value.diagnostics
    assert found.code == "too-much-code" and "smaller tiles" not in found.hints[0]
    assert found.span is not None


def test_memories_that_are_alike_are_told_once() -> None:
    """Sums of 128 strips were 128 notes."""
    memories = [
        Memory(f"carried.{number}", DTYPES["f32"], ("element",), (const(3072),), "private") for number in range(128)
    ]
    (found,) = SharedMemoryExceeded(None, 4_000_000, AVX2, memories).diagnostics
    assert found.notes == ("128 of carried: 3072 x 4 bytes x 1 stage(s)",)


def test_tiles_that_a_spec_names_are_what_its_hints_speak_of() -> None:
    tiles = "constraints:\n  - {workgroup: T, tile: 64, axis: 0}\n  - {tiling: D, tile: 32}\ngraph:"
    with pytest.raises(WavespecError) as caught:
        emit(last_for(TEXT.replace("graph:", tiles), "sm_90"), NVIDIA)
    (found,) = caught.value.diagnostics
    assert found.hints == ("Lower the tile of 'workgroup: T' (64).",)


def test_what_the_matrix_unit_reads_itself_takes_no_registers() -> None:
    """A tile that only its instructions read was told as the largest value, with 8192 registers."""
    tiles = """constraints:
  - {workgroup: T, tile: 64, axis: 0}
  - {tiling: D, tile: 64}
  - {wave: T, tile: 64}
schedule: {stages: 2, waves: {producers: 1}}
graph:"""
    text = TEXT.replace("graph:", tiles).replace("bf16}", "bf16, space: shared}").replace("value: 4096", "value: 256")
    with pytest.raises(WavespecError) as caught:
        emit(last_for(text, "sm_90"), NVIDIA)
    (found,) = caught.value.diagnostics
    assert "'largest_rank' takes 256 registers" in found.message and "router_tile" not in found.notes[0]
