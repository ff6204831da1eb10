"""Barriers: as few as the hazards need, and each of them needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, run
from tests.lower.ir_text import Text, lines
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


ROTATION = Text("""
    thread kernel @rotate target sm_90 lanes 32
    symbol lane in 0..31 by 1
    symbol step in 0..7 by 1
    plan "auto" stages 1 group 1
    grid [1]
    memory @out : f32 (d0: [32]) global output
    memory @s : f32 (d0: [32]) shared [d0/1: 32 by 1] x3
""")
STEPS = """
    %zero = constant {value = 0.0} : f32x1
    store %zero {buffer = [0], memory = "s", offset = [lane]}
    for {induction = "step", lower = [0], step = [1], unroll = 1, upper = [8]} () do
      store %zero {buffer = [(WRITTEN)%3], memory = "s", offset = [lane]}
      %loaded = load {buffer = [step%3], memory = "s", offset = [31 - lane]} : f32x1
      store %loaded {memory = "out", offset = [lane]}
      yield
    end
"""
PUT = 'store %zero {memory = "s", offset = [lane]}\n'
GET = '%got = load {memory = "s", offset = [lane + 1]} : f32x1\n'
COPY = 'copy_async {elements = 1, memory = "s", offset = [lane], source = "s", source_offset = [lane]}\nasync_commit\n'
WAIT = "async_wait {pending = 0}\n"


@pytest.mark.parametrize(("written", "expected"), [("step", 1), ("step + 1", 1), ("step + 2", 1), ("step*2", 2)])
def test_buffers_of_a_rotation_are_told_apart(written: str, expected: int) -> None:
    kernel = PlaceBarriers()(ROTATION.kernel(STEPS.replace("WRITTEN", written)), NVIDIA)
    assert barriers_per_step(kernel) == expected


@pytest.mark.parametrize(
    "body",
    [
        PUT + "BARRIER\n" + GET,
        GET + "BARRIER\n" + PUT,
        PUT + PUT,
        GET + GET.replace("%got", "%again"),
        PUT + GET.replace('{memory = "s"', '{buffer = [1], memory = "s"'),
        COPY + WAIT + "BARRIER\n" + GET,
        COPY + 'store %zero {memory = "out", offset = [lane]}\n',
        PUT + "BARRIER\n" + GET + "BARRIER\n" + PUT,
        PUT + "barrier\n" + GET,
    ],
    ids=["read after write", "write after read", "own elements", "reads", "other buffers", "copy", "no access", "both", "one is there"],
)  # fmt: skip
def test_lanes_meet_between_accesses_that_conflict(body: str) -> None:
    zero = "%zero = constant {value = 0.0} : f32x1\n"
    expected = lines(zero + body.replace("BARRIER", "barrier"))
    assert ROTATION.after(PlaceBarriers(), NVIDIA, zero + body.replace("BARRIER\n", "")) == expected


def test_one_buffer_needs_two_in_each_step() -> None:
    body = STEPS.replace("[(WRITTEN)%3]", "[0]").replace("[step%3]", "[0]")
    assert barriers_per_step(PlaceBarriers()(ROTATION.kernel(body), NVIDIA)) == 2


def test_what_is_not_shared_and_lanes_that_are_alone_need_none() -> None:
    private = ROTATION.changed((") shared [", ") private [")).kernel(STEPS.replace("WRITTEN", "step"))
    alone = ROTATION.changed(("lanes 32", "lanes 1")).kernel(STEPS.replace("WRITTEN", "step"))
    assert PlaceBarriers()(private, NVIDIA) is private
    assert PlaceBarriers()(alone, NVIDIA) is alone


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
