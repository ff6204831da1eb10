"""Copies into shared memory on the emulator: exact results, what the loop consists of, and faults that are noticed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tests.amd.amd_gemms import AnyGemm, Gemm, count, figures, loaded, loop, opcodes, require_emulator, run
from tests.amd.emulated import emulated
from wavespec.schema import KernelSpec, loads

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]

COPY = "buffer_load_dwordx4"
CASES = [
    Gemm("f16", tile=(128, 128, 64)),
    Gemm("bf16", tile=(128, 256, 64), waves=(2, 4)),
    Gemm("i8", tile=(128, 128, 64)),
    Gemm("f32", tile=(128, 128, 32)),
    Gemm("f16", tile=(64, 64, 32), waves=(1, 2)),
    Gemm("f16", "f32_32x32x16_f16", tile=(128, 128, 64)),
]
GROUP = 16
"""What K is a multiple of, for every type."""


def scheduled(case: Gemm, schedule: str = "{stages: 2}") -> Gemm:
    sizes = ("", "", f"multiple_of: {GROUP}")
    return Gemm(case.dtype, case.mma, case.tile, case.waves, sizes, "gfx950", schedule)


DEFAULT = scheduled(CASES[0])


def lines(gemm: AnyGemm, opcode: str, *, copies: bool = False) -> list[Any]:
    """Instructions of the code object, by opcode; ``copies``: of those, the ones into shared memory."""
    return [one for one in loaded(gemm)[0].ins if one.base == opcode and bool(one.mod.get("lds")) == copies]


@pytest.mark.parametrize("order", ["fwd", "rev", 5])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dtype}-{case.tile}-{case.mma}")
def test_results_are_exact_for_any_size_and_order_of_waves(case: Gemm, order: str) -> None:
    m, n, k = case.tile
    sizes = ((m + 3, 70, k + GROUP), (5, 3, GROUP), (9, 7, 0), (m, n, 2 * k), (3, n + 1, 3 * k))
    assert [size for size in sizes if not run(scheduled(case), *size, order).right] == []


NODES = (
    "nodes: {a_tile.load: 0, b_tile.load: 0, a_tile: 1, b_tile: 1, acc: 2}, "
    "clusters: [[a_tile, b_tile], [a_tile.load, b_tile.load], [acc]]"
)


@pytest.mark.parametrize(
    "schedule", ["{stages: 3}", "{stages: 2, auto: modulo}", "{stages: 4}", f"{{loops: {{k_loop: {{{NODES}}}}}}}"]
)
@pytest.mark.parametrize("case", CASES[1:4], ids=lambda case: case.dtype)
def test_other_schedules_are_exact(case: Gemm, schedule: str) -> None:
    m, _, k = case.tile
    sizes = ((m + 3, 70, k + GROUP), (5, 3, GROUP), (9, 7, 0), (3, 70, 4 * k))
    assert [size for size in sizes if not run(scheduled(case, schedule), *size).right] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dtype}-{case.tile}-{case.mma}")
def test_no_banks_collide(case: Gemm) -> None:
    statistics = run(scheduled(case), 128, 128, 128).statistics
    assert statistics["lds_cycles"] == statistics["lds_ideal_cycles"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dtype}-{case.tile}-{case.mma}")
def test_nothing_goes_through_registers_and_nothing_is_spilled(case: Gemm) -> None:
    gemm = scheduled(case)
    assert count(opcodes(gemm), "ds_write") == 0
    assert len(lines(gemm, COPY, copies=True)) == count(opcodes(gemm), "buffer_load") > 0
    notes = figures(gemm)
    assert (notes["scratch_bytes_per_lane"], notes["vgpr_spill"], notes["sgpr_spill"]) == (0, 0, 0)


def test_loop_has_less_of_everything_than_through_registers() -> None:
    """The figures that docs/decisions/0021 has: of two steps, and of one through registers."""
    body, notes = loop(DEFAULT), figures(DEFAULT)
    matrix, products = count(body, "v_mfma"), 32
    steps = matrix // products
    assert steps == 2
    assert len(body) - matrix < 58 * steps
    assert count(body, "s_waitcnt") < 11 * steps
    assert count(body, "s_barrier") < 2 * steps
    assert notes["vgpr"] + notes["agpr"] < 176


def test_only_the_first_wait_of_a_round_is_for_memory() -> None:
    kernel, _ = loaded(DEFAULT)
    names = opcodes(DEFAULT)
    end = max(at for at, one in enumerate(kernel.ins) if "branch" in one.base and kernel.labels[one.ops[0]] <= at)
    body = kernel.ins[kernel.labels[kernel.ins[end].ops[0]] : end]
    waits = [one.text for one in body if one.base == "s_waitcnt" and "vmcnt" in one.text]
    assert len(waits) == count([one.base for one in body], "s_barrier") == 2, names
    assert all("vmcnt(0)" in wait for wait in waits)


def test_with_three_stages_the_copies_of_one_step_stay_in_flight() -> None:
    gemm = scheduled(CASES[0], "{stages: 3}")
    waits = [one.text for one in loaded(gemm)[0].ins if one.base == "s_waitcnt" and "vmcnt" in one.text]
    assert any("vmcnt(8)" in wait for wait in waits)


def test_rows_of_any_length_go_through_registers() -> None:
    gemm = Gemm(tile=(128, 128, 64), sizes=("", "", ""), target="gfx950", schedule="{stages: 2}")
    assert lines(gemm, COPY, copies=True) == []


@contextmanager
def instead(one: Any, run_: Callable[[Any], Any]) -> Iterator[None]:
    """The instruction does something else."""
    before = one.fn
    one.fn = run_
    try:
        yield
    finally:
        one.fn = before


def goes_wrong(gemm: Gemm) -> str:
    """What the emulator says of a kernel with a fault, ``wrong`` for a wrong result."""
    error = importlib.import_module("gfx_emulator").EmuError
    try:
        return "" if run(gemm, 128, 128, 192).right else "wrong"
    except error as raised:
        return str(raised)


def test_every_wait_for_copies_is_needed() -> None:
    waits = [one for one in lines(DEFAULT, "s_waitcnt") if "vmcnt" in one.text]
    silent = [one.text for one in waits[:-1] if not _said(one, lambda _: None)]
    assert len(waits) >= 2 and silent == []


def test_every_barrier_is_needed() -> None:
    assert [one.text for one in lines(DEFAULT, "s_barrier") if not _said(one, lambda _: None)] == []


def test_places_in_shared_memory_count() -> None:
    copy = lines(DEFAULT, COPY, copies=True)[0]

    def elsewhere(wave: Any) -> Any:
        wave.S[124] += 1024
        return before(wave)

    before = copy.fn
    assert _said(copy, elsewhere)


def test_reads_have_returned_when_others_may_copy_over_them() -> None:
    waits = [one for one in lines(DEFAULT, "s_waitcnt") if "lgkmcnt(0)" in one.text]
    assert any("outstanding" in _said(one, lambda _: None) for one in waits)


def _said(one: Any, run_: Callable[[Any], Any]) -> str:
    with instead(one, run_):
        return goes_wrong(DEFAULT)


@dataclass(frozen=True)
class Falling:
    """Two products one behind the other, of as many steps as there are rows before a tile: none for the first tile."""

    schedule: str
    dtype: str = "f16"
    target: str = "gfx950"
    tile: tuple[int, int, int] = (64, 64, 32)

    @property
    def spec(self) -> KernelSpec:
        step = """
      iterate: K
      end: start(M)
      carry: {acc: BEFORE}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}"""
        return loads(f"""\
apiVersion: wavespec/v1
kind: Kernel
name: falling
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 32}}}}
tensors:
  a: {{shape: [M, K], dtype: f16, space: shared}}
  b: {{shape: [N, K], dtype: f16, space: shared}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 32}}
  - {{wave: N, tile: 32}}
  - {{hardware: {{mma: auto}}}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - first:{step.replace("BEFORE", "zero")}
  - second:{step.replace("BEFORE", "first.acc")}
  - {{write: second.acc, to: c}}
schedule: {self.schedule}
""")


@pytest.mark.parametrize("schedule", ["{stages: 2}", "{stages: 3}", "{stages: 4}"])
def test_copies_of_loops_without_steps_are_awaited_too(schedule: str) -> None:
    """What a loop copies ahead has landed before the next one copies to the same place, and before the end."""
    case = Falling(schedule)
    assert lines(case, COPY, copies=True)
    for m, n, k in ((64, 64, 64), (200, 70, 128), (130, 3, 32), (65, 1, 0)):
        a, b = (torch.randint(-3, 4, (rows, k)).half() for rows in (m, n))
        steps = torch.arange(m)[:, None] // 64 * 64 > torch.arange(k)
        found = emulated(case, {"M": m, "N": n, "K": k}, (a, b))["c"]
        assert torch.equal(found.double(), 2 * (a.double() * steps) @ b.double().T), (m, n, k)
