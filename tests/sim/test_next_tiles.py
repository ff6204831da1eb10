"""Tiles of operands in front of loops, and the next one: results leave through a tile where a schedule asks for two, and one
that has a buffer alone is given back in its last step.  Right in any order and where rows end; and mistakes put into such
kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.hopper_gemms import TOGETHER
from tests.sim.planted_bugs import Bug, altered, dropped, planted
from tests.sim.test_read_beside import KERNELS, lowered, run, with_room_for
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.nodes import replace
from wavespec.lower.promote_shared import SIGNALS_BYTES
from wavespec.schedule.buffer_ring import make

PLAIN = f"{TOGETHER}, workgroups: {{persistent: true, count: 1}}"
ONE, PERSISTENT = (PLAIN.replace("producers: 1", f"producers: 1, buffers: {{q: {count}}}") for count in (1, 2))
IN_TURN = PERSISTENT.replace("producers: 1", "producers: 1, order: in_turn")
MASKS, BIASES, ENDED = (
    KERNELS[name]
    .replace("y: {shape: [M, N], dtype: f32", "y: {shape: [M, N], dtype: f16")
    .replace("  - {write: t_loop.acc,", "  - rounded: f16(t_loop.acc)\n  - {write: rounded,")
    for name in ("masks", "biases", "tiles that differ in steps")
)
TILE, KEYS, MASK, BIAS = 2 * 128 * 64, 2 * 64 * 64, 128 * 64, 2 * 128 * 64
"""Bytes of a tile of queries, or of results, of a step of keys or of values, and of what lanes read beside these."""
TIGHT = {MASKS: 2 * TILE + 4 * KEYS + 2 * MASK, BIASES: 2 * TILE + 4 * KEYS + 2 * BIAS}
TIGHT[ENDED] = TIGHT[BIASES]


def tight(text: str, schedule: str = PERSISTENT, more: int = 0) -> Kernel:
    """The kernel where there is room for two tiles of queries, but for no results beside them, and so much more."""
    return lowered(text, schedule, with_room_for(TIGHT[text] + SIGNALS_BYTES + more))


def places(kernel: Kernel) -> dict[str, int]:
    """The buffers of queries, and of what results leave through, if these have bytes of their own."""
    return {one.name: one.buffers for one in kernel.memories if one.name in ("q.shared", "y.staged_64")}


@pytest.mark.parametrize(
    ("text", "schedule"),
    [(MASKS, PERSISTENT), (MASKS, IN_TURN), (BIASES, PERSISTENT), (ENDED, PERSISTENT)],
    ids=["masks", "in turn", "biases", "tiles that differ in steps"],
)
def test_results_are_right_in_any_order(text: str, schedule: str) -> None:
    kernel = tight(text, schedule)
    assert places(kernel) == {"q.shared": 2}
    for rows in (1, 129, 700):
        for order in ("forward", "reverse", 0, 1):
            report, expected = run(text, kernel, order, rows)
            assert report.ok, report.render()
            np.testing.assert_array_equal(report.tensors["y"], expected.astype(np.float16))


def test_results_have_bytes_of_their_own_where_there_is_room_and_where_their_bytes_are_too_few() -> None:
    assert places(tight(MASKS, more=TILE)) == {"q.shared": 2, "y.staged_64": 1}
    assert places(tight(MASKS, PLAIN)) == places(tight(MASKS, ONE)) == {"q.shared": 1, "y.staged_64": 1}
    fewer = lowered(MASKS, PERSISTENT, with_room_for(TIGHT[MASKS] + SIGNALS_BYTES - MASK))
    assert places(fewer) == {"q.shared": 1}  # nor is there room for results: they leave by lanes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y: {shape: [M, N], dtype: f16", "y: {shape: [M, N], dtype: f32"),
        ("  - {write: rounded,", "  - {write: t_loop.acc, to: z}\n  - {write: rounded,"),
    ],
    ids=["elements of other sizes", "two results"],
)
def test_results_that_do_not_lie_as_the_tile_does_stay_beside_it(old: str, new: str) -> None:
    text = MASKS.replace(old, new)
    if "f32" in new:
        text = text.replace("f16(t_loop.acc)", "t_loop.acc * 1")
    else:
        text = text.replace("  y: {", "  z: {shape: [M, N], dtype: f32, role: output}\n  y: {")
    kernel = lowered(text, PERSISTENT, with_room_for(TIGHT[MASKS] + SIGNALS_BYTES))
    assert not any(op.name == "bulk_store" and op["memory"] == "q.shared" for op in kernel.walk())


def gives_back(kernel: Kernel, step: str, ring: str = "q.shared") -> list[bool]:
    """For each loop of steps whether it gives back the tile of queries."""
    loops = [op for op in kernel.walk() if op.name == "for" and op.get("induction") == step]
    consumed = [loop for loop in loops if any(op.name == "mma_async" for op in loop.walk())]
    return [any(op.get("signal") == f"{ring}.empty" for op in loop.walk()) for loop in consumed]


@pytest.mark.parametrize("text", [MASKS, BIASES, ENDED], ids=["masks", "biases", "tiles that differ in steps"])
def test_a_buffer_alone_is_given_back_in_the_last_step(text: str) -> None:
    kernel = tight(text, ONE)
    *steps, behind = gives_back(kernel, "at_T")
    assert all(steps) and not behind
    for rows in (1, 129, 700):
        for order in ("forward", "reverse", 0, 1):
            report, expected = run(text, kernel, order, rows)
            assert report.ok, report.render()
            np.testing.assert_array_equal(report.tensors["y"], expected.astype(np.float16))


MOVED = MASKS.replace("{read: q}", "{read: q, at: {M: M + 1}}")
TWICE = MASKS.replace("- q_tile: {read: q}", "- q_tile: {read: q}\n  - below: {read: q, at: {M: M + 1}}").replace(
    "- s: {mma: [q_tile, k_tile, none]}",
    "- first: {mma: [q_tile, k_tile, none]}\n        - s: {mma: [below, k_tile, first]}",
)


@pytest.mark.parametrize(
    ("text", "ring"), [(MOVED, "q_tile.shared"), (TWICE, "below.shared-q.shared")], ids=["moved", "two ways"]
)
def test_a_buffer_alone_is_one_of_its_tensor_whatever_it_is_called(text: str, ring: str) -> None:
    """Tiles by a mapping are staged under the name of what is read; none was given back before the loops had ended."""
    kernel = lowered(text, ONE)
    *steps, behind = gives_back(kernel, "at_T", ring)
    assert all(steps) and not behind
    for rows in (1, 129, 700):
        report, expected = run(text, kernel, 0, rows)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected.astype(np.float16))


def test_tiles_without_steps_are_given_back_behind_them() -> None:
    """Rows in front of all columns: the first of 700 rows see none of 208."""
    kernel = tight(ENDED, ONE)
    report, expected = run(ENDED, kernel, rows=700)
    assert report.ok and not expected[:128].any(), report.render()
    bug = altered("signal_arrive", "signal", lambda name: "at_T-k.empty", signal="q.shared.empty")
    assert not run(ENDED, bug(kernel), rows=700)[0].ok


def test_others_are_given_back_behind_the_loops() -> None:
    """The assembler moves waits behind what gives a buffer back: some steps take longer by it."""
    for kernel, buffers in ((tight(MASKS, PLAIN), 1), (lowered(MASKS, PLAIN), 2)):
        assert places(kernel) == {"q.shared": buffers, "y.staged_64": 1} and not any(gives_back(kernel, "at_T"))
    assert places(lowered(MASKS, ONE)) == {"q.shared": 1, "y.staged_64": 1}


def test_one_buffer_of_what_no_tile_goes_on_with_is_refused() -> None:
    text = MASKS + "only: [sm_90]\n"
    with pytest.raises(WavespecError, match=r"biased\.wave\.yaml:\d+.*\[useless-setting\]: 'q'"):
        lowered(text, "waves: {producers: 1, buffers: {q: 1}}")
    lowered(text, ONE)


LAST_STEP: dict[str, tuple[Bug, Sequence[str]]] = {
    "never given back": (dropped("signal_arrive", signal="q.shared.empty"), ["deadlock"]),
    "given back in each step": (
        planted(
            lambda op: (
                (op.with_(mask=op["mask"][:1]),)
                if op.name == "if" and op.body.ops[0].get("signal") == "q.shared.empty"
                else (op,)
            )
        ),
        ["signal-overrun", "race", "wrong"],
    ),
}


@pytest.mark.parametrize("name", LAST_STEP)
def test_a_mistake_in_the_last_step_is_found(name: str) -> None:
    bug, kinds = LAST_STEP[name]
    report, expected = run(MASKS, bug(tight(MASKS, ONE)), rows=900)
    wrong = set[str]() if np.array_equal(report.tensors["y"], expected.astype(np.float16)) else {"wrong"}
    assert not (report.kinds() | wrong).isdisjoint(kinds), report.render()


def too_early(op: Op) -> tuple[Op, ...]:
    """A buffer that is given back while results in it may still be read."""
    if op.name != "if" or [inner.name for inner in op.body.ops] != ["bulk_wait", "signal_arrive"]:
        return (op,)
    return (replace(op, region=replace(op.body, ops=op.body.ops[1:])),)


def in_front(op: Op) -> tuple[Op, ...]:
    """A buffer that is given back behind the last loop that reads it, as those are that no results leave through."""
    if op.name != "if" or op.body.ops[0].name != "bulk_store":
        return (op,)
    arrive = make("signal_arrive", signal="q.shared.empty", index=op.body.ops[0]["buffer"], bytes=0)
    return (replace(op, region=replace(op.body, ops=(arrive, *op.body.ops))),)


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "stores that nobody waits for": (planted(too_early), ["race"]),
    "given back twice": (planted(in_front), ["signal-overrun"]),
    "never given back": (dropped("signal_arrive", signal="q.shared.empty"), ["deadlock"]),
    "the other buffer is stored": (
        altered("bulk_store", "buffer", lambda buffer: (buffer + 1) % 2),
        ["race", "wrong", "unwaited-copy"],
    ),
    "rows of the other wave": (altered("store_matrix", "offset", lambda offset: offset + 64 * 64), ["race", "wrong"]),
    "not visible to the machine that stores": (dropped("fence_async"), ["unfenced-access"]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    report, expected = run(MASKS, bug(tight(MASKS)), rows=900)
    wrong = set[str]() if np.array_equal(report.tensors["y"], expected.astype(np.float16)) else {"wrong"}
    assert not (report.kinds() | wrong).isdisjoint(kinds), report.render()
