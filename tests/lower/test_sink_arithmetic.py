"""Arithmetic around the loops moves down to its first use."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from tests.ops.epilogues import epilogue
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import LOAD, PURE
from wavespec.lower.sink_arithmetic import SinkArithmetic
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

STAGE = "sink-arithmetic"
RESIDUAL = ("more_tile: {read: more}", "sum_f32: {add: [sums.acc, more_tile]}", "y: {cast: sum_f32, dtype: bf16}")


TWO_PIECES = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol lane in 0..31 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (N: [64]) global input
    memory @y : f32 (N: [64]) global output
""")
ROW_OF_STORES = """
    %a = load {memory = "x", offset = [lane]} : f32x1
    %b = load {memory = "x", offset = [lane + 32]} : f32x1
    %unused = constant {value = 3.0} : f32x1
    %a.1 = elementwise %a, %a {function = "add"} : f32x1
    %b.1 = elementwise %b, %b {function = "add"} : f32x1
    %a.2 = cast %a.1 : f16x1
    %b.2 = cast %b.1 : f16x1
    %a.3 = cast %a.2 : f32x1
    %b.3 = cast %b.2 : f32x1
    store %a.3 {memory = "y", offset = [lane]}
    store %b.3 {memory = "y", offset = [lane + 32]}
"""


def test_pieces_are_finished_one_after_the_other_and_what_nothing_needs_is_gone() -> None:
    apart = ROW_OF_STORES.replace("    store", "    barrier\n    store")
    assert TWO_PIECES.after(SinkArithmetic(), NVIDIA, apart) == lines("""
        barrier
        %a = load {memory = "x", offset = [lane]} : f32x1
        %b = load {memory = "x", offset = [lane + 32]} : f32x1
        %a.1 = elementwise %a, %a {function = "add"} : f32x1
        %a.2 = cast %a.1 : f16x1
        %a.3 = cast %a.2 : f32x1
        store %a.3 {memory = "y", offset = [lane]}
        barrier
        %b.1 = elementwise %b, %b {function = "add"} : f32x1
        %b.2 = cast %b.1 : f16x1
        %b.3 = cast %b.2 : f32x1
        store %b.3 {memory = "y", offset = [lane + 32]}
    """)


ROW = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol lane in 0..31 by 1
    plan "auto" stages 1 group 0 resident 2
    wave wave_N 16
    memory @x : f32 (N: [256]) global input
    memory @weight : f32 (N: [4096]) global input
    memory @y : f32 (N: [4096]) global output
    memory @parts : f32 (element: [32]) shared [element/1: 32 by 1]
""")


def row_with_weights(loads: int) -> str:
    """A row of which each lane has 32 elements is joined, and each result is stored with a weight of its own."""
    made = [f'%x.{n} = load {{memory = "x", offset = [lane*4 + {n * 128}]}} : f32x4' for n in range(8)]
    sums = ["%x.0", *(f"%s.{n}" for n in range(1, 8))]
    made += [f'%s.{n} = elementwise {sums[n - 1]}, %x.{n} {{function = "add"}} : f32x4' for n in range(1, 8)]
    made += ['store %s.7 {memory = "parts", offset = [lane*4]}', "barrier"]
    for n in range(loads):
        made.append(f'%w.{n} = load {{memory = "weight", offset = [lane*4 + {n * 128}]}} : f32x4')
        made.append(f'%y.{n} = elementwise %w.{n}, %x.{n} {{function = "mul"}} : f32x4')
    made += [f'store %y.{n} {{memory = "y", offset = [lane*4 + {n * 128}]}}' for n in range(loads)]
    return "\n".join(made)


@pytest.mark.parametrize(("loads", "behind"), [(6, 0), (7, 7)], ids=["all stand ahead", "more than stand ahead"])
def test_loads_for_results_do_not_fill_registers_until_lanes_have_met(loads: int, behind: int) -> None:
    names = ROW.after(SinkArithmetic(), NVIDIA, row_with_weights(loads)).split("barrier")[1].split("\n")
    words = [line.split()[0] for line in names if line.strip() and line.strip() != "}"]
    assert sum(word.startswith("%w") for word in words) == behind
    assert (words[-3:] == ["store"] * 3) == (behind == 0), "each store stands behind what it needs"


def test_stores_in_a_row_stay_so() -> None:
    names = [line.split()[0] for line in TWO_PIECES.after(SinkArithmetic(), NVIDIA, ROW_OF_STORES).splitlines()[1:]]
    assert names == ["%a", "%b", "%a.1", "%a.2", "%a.3", "%b.1", "%b.2", "%b.3", "store", "store"]


def test_loads_stay_where_the_machine_reorders_them() -> None:
    apart = ROW_OF_STORES.replace("    store", "    barrier\n    store")
    names = [line.split()[0] for line in TWO_PIECES.after(SinkArithmetic(), CPU, apart).splitlines()[1:]]
    assert names[:4] == ["%a", "%b", "barrier", "%a.1"]


def test_what_depends_on_a_symbol_stays_behind_what_says_what_it_is() -> None:
    text = TWO_PIECES.changed(("symbol lane", "symbol at in 0..31 by 1\n    symbol lane"))
    kernel = text.kernel("""
        %where = constant {value = 3} : i32x1
        bind %where {symbol = "at", uniform = false}
        %a = load {memory = "x", offset = [at]} : f32x1
        barrier
        store %a {memory = "y", offset = [lane]}
    """)
    assert SinkArithmetic()(kernel, NVIDIA) is kernel


def test_a_kernel_without_arithmetic_stays_as_it_was() -> None:
    kernel = TWO_PIECES.kernel("""
        %zero = constant {value = 0.0} : f32x1
        store %zero {memory = "y", offset = [lane]}
        barrier
    """)
    assert SinkArithmetic()(kernel, NVIDIA) is kernel


def lowered(machine: Machine, stage: str = STAGE) -> Kernel:
    tensors = "more: {shape: [M, N], dtype: f32}"
    tile, wave = ((64, 128, 32), (32, 128)) if machine.concurrent_waves else ((12, 32, 2), (12, 32))
    return lower(
        epilogue(*RESIDUAL, result="bf16", operands="bf16", tensors=tensors, tile=tile, wave=wave), machine, after=stage
    )


def behind_loop(kernel: Kernel) -> list[Op]:
    last = max(number for number, op in enumerate(kernel.body) if op.name == "for")
    return list(kernel.body[last + 1 :])


def test_what_nothing_needs_is_gone_and_all_else_is_there_once() -> None:
    before, after = lowered(NVIDIA, "tile-to-thread"), lowered(NVIDIA)
    effects = [op for op in after.body if not op.is_(PURE, LOAD)]
    assert effects == [op for op in before.body if not op.is_(PURE, LOAD)]
    used = {value.name for op in after.walk() for value in (*op.operands, *(op.region.yields if op.region else ()))}
    results = [op.result.name for op in after.body if op.is_(PURE)]
    assert set(results) <= used and len(results) == len(set(results))


def test_loads_run_a_little_ahead_of_their_use() -> None:
    names = [op.name for op in behind_loop(lowered(NVIDIA)) if op.name in ("load", "elementwise")]
    loads = names.count("load")
    assert loads > names.index("elementwise") > 1, "some before the first use, not all"
    assert "load" not in names[-4:], "four elements each"
