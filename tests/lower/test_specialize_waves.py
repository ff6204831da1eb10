"""Roles: one fills shared memory, the other uses it, and signals tie every buffer's fill to its use."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA, Gemm, lines, run
from tests.lower.hopper_gemms import CLUSTERS, PERSISTENT, PING_PONG, TOGETHER, hopper_gemm
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import BULK_COPY, READS_MEMORY
from wavespec.pipeline import lower
from wavespec.schema import loads

STAGE = "specialize-waves"


def roles(gemm: Gemm) -> tuple[Op, Op]:
    producer, consumer = (op for op in gemm.lowered(NVIDIA, STAGE).body if op.name == "role")
    return producer, consumer


def names(op: Op) -> set[str]:
    return {inner.name for inner in op.walk()}


def signals(kernel: Kernel) -> dict[str, tuple[int, int]]:
    return {m.name: (m.buffers, m.arrivals) for m in kernel.memories if m.space == "signal"}


def test_one_role_copies_and_the_other_computes() -> None:
    producer, consumer = roles(hopper_gemm())
    assert "bulk_copy" in names(producer) and not names(producer) & {"mma_async", "store", "bulk_store"}
    assert {"mma_async", "bulk_store"} <= names(consumer) and "bulk_copy" not in names(consumer)


def test_the_waves_that_copy_come_behind_those_that_compute() -> None:
    producer, consumer = roles(hopper_gemm())
    assert (producer["first"].value, producer["waves"]) == (2, 1)
    assert (consumer["first"].value, consumer["waves"]) == (0, 2)


def test_registers_go_to_the_waves_that_compute() -> None:
    schedule = "waves: {producers: 1, registers: {producer: 40, consumer: 232}}"
    assert [role["registers"] for role in roles(hopper_gemm(schedule=schedule))] == [40, 232]


def test_a_buffer_is_filled_after_it_is_empty_and_read_after_it_is_full() -> None:
    kernel = hopper_gemm(schedule=TOGETHER, stages=4).lowered(NVIDIA, STAGE)
    waits = lines(kernel, "signal_wait")
    assert waits == [
        'signal_wait {index = [(at_K//64)%4], phase = [0 - (at_K//256)%2 + 1], signal = "at_K.empty"}',
        'signal_wait {index = [(at_K//64)%4], phase = [(at_K//256)%2], signal = "at_K.full"}',
    ]
    assert signals(kernel) == {"at_K.full": (4, 1), "at_K.empty": (4, 2)}


def test_announced_bytes_are_those_of_the_boxes() -> None:
    arrive = lines(hopper_gemm().lowered(NVIDIA, STAGE), "signal_arrive")[0]
    assert f"bytes = {(128 + 64) * 64 * 2}," in arrive


def test_products_of_the_step_before_are_awaited_and_its_buffer_emptied() -> None:
    _, consumer = roles(hopper_gemm(schedule=TOGETHER))
    (loop,) = (op for op in consumer.walk() if op.name == "for")
    wait, release = loop.body.ops[-2:]
    assert (wait.name, wait["pending"]) == ("mma_wait", 1)
    (arrive,) = release.body.ops
    assert str(arrive["index"]) == "(at_K//64 + 2)%3", "with three buffers the one before is two ahead"
    after = consumer.body.ops[consumer.body.ops.index(loop) + 1]
    assert (after.name, after["pending"]) == ("mma_wait", 0)
    assert loop.body.yields[0].name in {op.results[0].name for op in loop.body.ops if op.name == "mma_async"}


def test_steps_are_counted_on_over_tiles() -> None:
    lets = [text for text in lines(hopper_gemm(schedule=PERSISTENT).lowered(NVIDIA, STAGE), "let") if "done" in text]
    assert len(lets) == 2 and len(set(lets)) == 1, "both roles count alike"
    assert lets[0].endswith("[(round*((K + 63)//64))%6]}"), "two rounds of three buffers tell all phases apart"


def test_waves_in_turn_take_every_other_tile_and_signal_each_other() -> None:
    gemm = hopper_gemm(tile=(64, 64, 64), schedule=PING_PONG)
    kernel = gemm.lowered(NVIDIA, STAGE)
    assert signals(kernel) == {"at_K.full": (3, 1), "at_K.empty": (3, 1), "turn.next": (2, 1)}
    producer, consumer = (next(op for op in role.walk() if op.name == "for") for role in kernel.body)
    assert (str(producer["lower"]), producer["step"].value) == ("0", 1)
    assert (str(consumer["lower"]), consumer["step"].value) == ("turn", 2)


@pytest.mark.parametrize("schedule", [TOGETHER, CLUSTERS, PING_PONG])
def test_one_buffer_is_emptied_in_the_step_that_uses_it(schedule: str) -> None:
    report, expected = run(hopper_gemm(stages=1, schedule=schedule).spec, NVIDIA, {"M": 136, "N": 72, "K": 200})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_a_turn_ends_when_all_waves_that_have_it_say_so() -> None:
    gemm = hopper_gemm(stages=2, schedule=PING_PONG.replace("true", "true, count: 1"))
    assert signals(gemm.lowered(NVIDIA, STAGE))["turn.next"] == (2, 2)
    report, expected = run(gemm.spec, NVIDIA, {"M": 128, "N": 136, "K": 64})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(("promise", "copy"), [("multiple_of: 2", "copy_async"), ("", "store")])
def test_rows_that_boxes_cannot_start_at_are_copied_by_lanes(promise: str, copy: str) -> None:
    gemm = hopper_gemm(dims=("", "multiple_of: 8", promise), stages=4)
    producer, consumer = roles(gemm)
    assert copy in names(producer) and "bulk_copy" not in names(producer)
    landed = any(op.get("landed") for op in consumer.walk() if op.name == "signal_wait")
    assert landed or "fence_async" in names(producer), "the matrix unit has to see what lanes wrote"
    assert signals(gemm.lowered(NVIDIA, STAGE))["at_K.full"] == (4, 128)


def test_nobody_waits_for_copies_of_lanes_but_who_uses_them() -> None:
    producer, consumer = roles(hopper_gemm(dims=("", "multiple_of: 8", "multiple_of: 2"), stages=2))
    assert "async_wait" not in names(producer), "copies of both buffers may be on their way"
    (arrive,) = (op for op in producer.walk() if op.name == "signal_arrive")
    waits = [op for op in consumer.walk() if op.name == "signal_wait"]
    assert arrive["landed"] and all(op["landed"] for op in waits if op["signal"] == arrive["signal"])


def test_from_three_buffers_on_who_copies_says_late_that_copies_have_landed() -> None:
    """One step later, when it has waited for all but the last group; then who multiplies makes nothing visible."""
    producer, consumer = roles(hopper_gemm(dims=("", "multiple_of: 8", "multiple_of: 2"), stages=4))
    waits = [op["pending"] for op in producer.walk() if op.name == "async_wait"]
    assert waits == [1, 0], "in a step for the one before, and behind the loop for the last one"
    signal = "at_K.full"
    assert not any(op.get("landed") for op in producer.walk() if op.name == "signal_arrive" and op["signal"] == signal)
    assert not any(op.get("landed") for op in consumer.walk() if op.name == "signal_wait" and op["signal"] == signal)


def test_lanes_that_only_stand_by_wait_for_no_buffer() -> None:
    """Nobody counts on them, so they might sleep while a signal completes two phases."""
    (extend,) = (subject for subject in subjects("sm_90") if subject.name == "attention_extend")
    kernel = lower(extend.cases("sm_90")[0].spec, NVIDIA, after=STAGE)
    (queries,) = (op for op in kernel.walk() if op.name == "if" and _fills(op, "q_tile.shared"))
    assert "signal_wait" in names(queries), "one lane has queries copied by boxes"
    (keys, *_) = (op for op in kernel.walk() if op.name == "for" and "copy_async" in {one.name for one in op.body.ops})
    assert "signal_wait" in {one.name for one in keys.body.ops}, "all lanes gather keys"


def _fills(op: Op, memory: str) -> bool:
    return any(one.name == "bulk_copy" and one["memory"] == memory for one in op.body.ops)


def test_without_producers_nothing_changes() -> None:
    gemm = Gemm(dims=("", "", "multiple_of: 8"))
    assert gemm.lowered(NVIDIA, STAGE) == gemm.lowered(NVIDIA, "sink-arithmetic")


_SECOND = """  - again:
      iterate: K
      carry: {more: k_loop.acc}
      body:
        - a_again: {read: a}
        - d_tile: {read: d}
        - more: {mma: [a_again, d_tile, more]}
  - {write: again.more, to: c}
"""
_REPEATED = """  - steps:
      repeat: 3
      carry: {sums: zero}
      body:
        - k_loop:
            iterate: K
            carry: {acc: sums}
            body:
              - a_tile: {read: a}
              - b_tile: {read: b}
              - acc: {mma: [a_tile, b_tile, acc]}
        - sums: k_loop.acc + 1
  - {write: steps.sums, to: c}
"""
SIZES = {"M": 330, "N": 136, "K": 200}


def two_loops(schedule: str) -> str:
    """Both over K, and both read ``a``."""
    text = hopper_gemm(tile=(64 if schedule is PING_PONG else 128, 64, 64), schedule=schedule).text
    text = text.replace("  c: {", "  d: {shape: [N, K], dtype: f16, space: shared}\n  c: {")
    return text.replace("  - {write: k_loop.acc, to: c}\n", _SECOND)


def test_loops_behind_one_another_fill_the_same_buffers() -> None:
    kernel = lower(loads(two_loops(PERSISTENT), "gemm.wave.yaml"), NVIDIA)
    assert list(signals(kernel)) == ["at_K.full", "at_K.empty"]
    shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
    assert {"a.shared", "b.shared"} <= shared and not {"a.shared1", "d.shared"} & shared


def test_loops_whose_tiles_differ_have_buffers_and_signals_of_their_own() -> None:
    text = (
        two_loops(PERSISTENT).replace("        - a_again: {read: a}\n", "").replace("mma: [a_again,", "mma: [e_tile,")
    )
    text = text.replace("        - d_tile: {read: d}\n", "        - d_tile: {read: d}\n        - e_tile: {read: e}\n")
    text = text.replace("  d: {shape", "  e: {shape: [M, K], dtype: f16, space: global}\n  d: {shape")
    kernel = lower(loads(text, "gemm.wave.yaml"), NVIDIA)
    assert list(signals(kernel)) == ["at_K.full", "at_K.empty", "at_K.1.full", "at_K.1.empty"]


@pytest.mark.parametrize("schedule", [TOGETHER, PERSISTENT, CLUSTERS, PING_PONG])
def test_two_loops_over_one_dim(schedule: str) -> None:
    """The producer runs ahead from the first into the second; a wave that has its turn keeps it for both."""
    report, expected = run(loads(two_loops(schedule), "gemm.wave.yaml"), NVIDIA, SIZES)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize("schedule", [PERSISTENT, PING_PONG])
def test_a_turn_is_for_all_products_of_a_tile(schedule: str) -> None:
    text = hopper_gemm(tile=(64 if schedule is PING_PONG else 128, 64, 64), schedule=schedule).text
    text = text[: text.index("  - k_loop:")] + _REPEATED + text[text.index("schedule:") :]
    report, expected = run(loads(text, "gemm.wave.yaml"), NVIDIA, SIZES)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


_INSIDE = """        - a_tile: {read: a}
        - b_tile: {read: b}
        - first: {mma: [a_tile, b_tile, acc]}
        - inside:
            HEAD
            carry: {more: first}
            body:
              - more: {mma: [a_tile, b_tile, more]}
        - acc: inside.more
"""


@pytest.mark.parametrize("head", ["repeat: 2", 'if: "start(N) < end(M)"'])
@pytest.mark.parametrize("schedule", [TOGETHER, PING_PONG])
def test_a_loop_or_a_branch_in_a_step_reads_the_buffer_of_the_step(schedule: str, head: str) -> None:
    text = hopper_gemm(tile=(64 if schedule is PING_PONG else 128, 64, 64), schedule=schedule).text
    text = text[: text.index("        - a_tile")] + _INSIDE.replace("HEAD", head) + text[text.index("  - {write") :]
    lower_half = "  - half: where(index(M) >= index(N), k_loop.acc, 0)\n  - {write: half, to: c}\n"
    spec = loads(text.replace("  - {write: k_loop.acc, to: c}\n", lower_half), "gemm.wave.yaml")
    report, expected = run(spec, NVIDIA, SIZES)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


_BEHIND = """  - half: f16(k_loop.acc)
  - w_tile: {read: w}
  - zeros: {register: [M, L], dtype: f32, value: 0}
  - y: {mma: [half, w_tile, zeros]}
  - {write: y, to: c}
"""


def product_behind(schedule: str) -> str:
    text = hopper_gemm(schedule=schedule).text.replace("  - {write: k_loop.acc, to: c}\n", _BEHIND)
    text = text.replace("  N: {multiple_of: 8}", "  N: {value: 64}\n  L: {value: 64}").replace(
        "c: {shape: [M, N]", "c: {shape: [M, L]"
    )
    text = text.replace("  - {workgroup: N, tile: BN, axis: 1}\n", "").replace("  - {wave: N, tile: 64}\n", "")
    text = text.replace("  c: {", "  w: {shape: [L, N], dtype: f16}\n  c: {")
    return text


def test_a_product_behind_the_loop_has_its_operand_copied_once() -> None:
    spec = loads(product_behind(TOGETHER), "gemm.wave.yaml")
    report, expected = run(spec, NVIDIA, {"M": 200, "N": 64, "K": 136, "L": 64})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_a_product_behind_the_loop_of_a_walk_over_tiles_stages_nothing() -> None:
    """A walk over tiles is no loop whose steps a producer fills buffers for."""
    with pytest.raises(WavespecError, match=r"error\[staged-outside-loop\]"):
        lower(loads(product_behind(PERSISTENT.replace("group: 2, ", "")), "gemm.wave.yaml"), NVIDIA)


def test_results_that_lanes_store_are_no_copies() -> None:
    """Rows of results that no box takes are stored as they are, whatever the spec says of them."""
    text = hopper_gemm(tile=(64, 64, 64), dims=("", "", "multiple_of: 8"), stages=2).text
    text = text.replace("role: output", "role: output, space: shared")
    spec = loads(text, "gemm.wave.yaml")
    assert {memory.name for memory in lower(spec, NVIDIA).memories if memory.space == "shared"} == {
        "a.shared",
        "b.shared",
    }
    report, expected = run(spec, NVIDIA, {"M": 70, "N": 67, "K": 136})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(("name", "least"), [("attention_biased_bias", 4), ("attention_biased_mask", 3)])
def test_what_lanes_read_beside_products_has_arrived_where_a_copy_may_fill_its_buffer(name: str, least: int) -> None:
    # A barrier orders loads with other lanes, and with no bulk copy: where products keep shared memory busy, biases of
    # the next step but one were read now and then.
    subject = next(one for one in subjects("sm_90") if one.name == name)
    found = 0
    for case in subject.cases("sm_90"):
        if case.spec.tensors[name.rpartition("_")[-1]].space != "shared":
            continue
        kernel = lower(case.spec, NVIDIA)
        copied = {op["memory"] for op in kernel.walk() if op.is_(BULK_COPY)}
        for region in [op.region.ops for op in kernel.walk() if op.region is not None]:
            read = [n for n, op in enumerate(region) if op.is_(READS_MEMORY) and op["memory"] in copied]
            if read:
                behind = [op.name for op in region[read[-1] + 1 :]]
                assert behind.index("fence_async") < behind.index("barrier")
                found += 1
    assert found >= least
