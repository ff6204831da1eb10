"""Barriers: as few as the hazards need, and each of them needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, run
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.parser import parse_kernel
from wavespec.lower.place_barriers import PlaceBarriers

PROMISED = ("", "", "multiple_of: 8")
SIZES = {"M": 64, "N": 64, "K": 192}


def barriers_per_step(kernel: Kernel) -> int:
    (loop,) = (op for op in kernel.walk() if op.name == "for")
    return sum(op.name == "barrier" for op in loop.body.ops)


def without(kernel: Kernel, number: int) -> Kernel:
    """The kernel with one of its barriers taken out."""
    seen = -1

    def change(op: Op) -> tuple[Op, ...]:
        nonlocal seen
        seen += op.name == "barrier"
        return () if op.name == "barrier" and seen == number else (op,)

    return replace(kernel, body=rewrite(kernel.body, change))


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_a_pipelined_step_needs_one_barrier(stages: int) -> None:
    assert barriers_per_step(Gemm(dims=PROMISED, stages=stages).lowered(NVIDIA)) == 1


@pytest.mark.parametrize("machine", [NVIDIA, AMD])
def test_one_buffer_needs_two(machine: object) -> None:
    assert barriers_per_step(Gemm(dims=PROMISED).lowered(machine)) == 2  # pyright: ignore[reportArgumentType]


def test_no_shared_memory_needs_none() -> None:
    kernel = Gemm(dims=PROMISED, spaces=("global", "global")).lowered(NVIDIA)
    assert not [op for op in kernel.walk() if op.name == "barrier"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_taking_out_any_barrier_is_found_at_the_line_of_the_spec(stages: int) -> None:
    gemm = Gemm(dims=PROMISED, stages=stages)
    kernel = gemm.lowered(NVIDIA)
    count = sum(op.name == "barrier" for op in kernel.walk())
    assert count == 2
    reads = {i for i, text in enumerate(gemm.text.splitlines(), 1) if "{read: " in text}
    for number in range(count):
        report, _ = run(gemm.spec, NVIDIA, SIZES, kernel=without(kernel, number))
        races = [finding for finding in report.findings if finding.kind == "race"]
        assert races, f"barrier {number} of {stages} stages is not needed"
        assert {race.span.line for race in races if race.span} <= reads


def test_all_barriers_make_it_clean() -> None:
    for stages in (1, 2, 3):
        report, expected = run(Gemm(dims=PROMISED, stages=stages).spec, NVIDIA, SIZES)
        assert not report.findings
        np.testing.assert_array_equal(report.tensors["c"], expected)


ROTATION = """\
thread kernel @rotate target sm_90 lanes 32
symbol lane in 0..31 by 1
symbol step in 0..7 by 1
plan "auto" stages 1 group 1
grid [1]
memory @out : f32 (d0: [32]) global output
memory @s : f32 (d0: [32]) shared [d0/1: 32 by 1] x3
{
  %zero = constant {value = 0.0} : f32x1
  store %zero {buffer = [0], memory = "s", offset = [lane]}
  for {induction = "step", lower = [0], step = [1], unroll = 1, upper = [8]} () do
    store %zero {buffer = [(WRITTEN)%3], memory = "s", offset = [lane]}
    %loaded = load {buffer = [step%3], memory = "s", offset = [31 - lane]} : f32x1
    store %loaded {memory = "out", offset = [lane]}
    yield
  end
}
"""


@pytest.mark.parametrize(("written", "expected"), [("step", 1), ("step + 1", 1), ("step + 2", 1), ("step*2", 2)])
def test_buffers_of_a_rotation_are_told_apart(written: str, expected: int) -> None:
    from wavespec.lower.place_barriers import PlaceBarriers

    kernel = PlaceBarriers()(parse_kernel(ROTATION.replace("WRITTEN", written)), NVIDIA)
    assert barriers_per_step(kernel) == expected


@pytest.mark.parametrize("sizes", [(64, 64, 96), (70, 33, 104)])
def test_waves_that_are_apart_get_as_many_barriers_as_it_takes(sizes: tuple[int, int, int]) -> None:
    gemm = Gemm(dims=PROMISED, tile=(64, 64, 32), wave=(32, 32), schedule="waves: {order: ping_pong}")
    kernel = gemm.lowered(AMD, "pipeline-loops")
    loops = [op for op in kernel.body if op.name == "for"]
    bare = replace(kernel, body=rewrite(kernel.body, lambda op: () if op.name == "barrier" else (op,)))
    assert [barriers_per_step(kernel), barriers_per_step(bare)] == [4, 0] and len(loops) == 1
    placed = PlaceBarriers()(bare, AMD)
    assert barriers_per_step(placed) == 4, (
        "two between a step's writes and reads, two between its reads and the next writes"
    )
    report, expected = run(gemm.spec, AMD, dict(zip("MNK", sizes, strict=True)), kernel=placed)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


STORED_AS_MATRICES = """\
thread kernel @stored target sm_90 lanes 32
symbol lane in 0..31 by 1
plan "auto" stages 1 group 1
grid [1]
memory @s : f16 (d0: [256]) shared [d0/1: 256 by 1]
{
  %zero = constant {value = 0.0} : f16x8
  store_matrix %zero {buffer = [0], count = 4, memory = "s", offset = [lane*8]}
  %loaded = load {memory = "s", offset = [248 - lane*8]} : f16x8
}
"""


def test_whatever_is_declared_to_touch_memory_is_ordered() -> None:
    kernel = PlaceBarriers()(parse_kernel(STORED_AS_MATRICES), NVIDIA)
    assert [op.name for op in kernel.body] == ["constant", "store_matrix", "barrier", "load"]
