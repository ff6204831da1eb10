"""The last product of a step runs beside the first of the next one: which loops, in what order, and never too early."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import NVIDIA
from tests.schedule.products_of_sums import products_of_sums, run
from tests.sim.planted_bugs import Bug, altered, planted
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.sim.interleaving import Order

KERNEL = lower(products_of_sums(), NVIDIA)
RELEASE = "if"
OUTLINE = ("signal_wait", "mma_async", "mma_wait", RELEASE)


def loops(kernel: Kernel) -> list[Op]:
    """Those of the waves that compute."""
    consumer = [op for op in kernel.body if op.name == "role"][1]
    return [op for op in consumer.body.ops if op.name == "for"]


def outline(loop: Op) -> list[str]:
    """Waits, products, by the memory that they read, and releases of a step."""
    found = list[str]()
    for op in loop.body.ops:
        if op.name == "mma_async":
            found.append(op["b_memory"].partition(".")[0])
        elif op.name == "mma_wait":
            found.append(f"wait {op['pending']}")
        elif op.name in OUTLINE:
            inner = op.body.ops[0]["signal"] if op.name == RELEASE else op["signal"]
            found.append(f"{inner.removeprefix('at_N-')}")
    return found


def test_products_of_two_steps_are_in_flight_together() -> None:
    *firsts, others, rest, last = loops(KERNEL)
    begins, ends = ["b.full", "b", "wait 0", "b.empty"], ["v.full", "v", "wait 0", "v.empty"]
    assert [outline(first) for first in firsts] == [begins, begins], "a whole tile, or what is left of one"
    for each in (others, rest):
        assert outline(each) == ["b.full", "b", "v.full", "v", "wait 1", "b.empty", "wait 0", "v.empty"]
    assert outline(last) == ends


def test_loops_have_all_steps_between_them() -> None:
    """The first step may be what is left of a tile, and so may the last one: nothing is awaited in between."""
    bounds = [(str(loop["lower"]), str(loop["upper"])) for loop in loops(KERNEL)]
    assert bounds == [
        ("0", "min(N - N%16, 16)"),
        ("N - N%16", "min(N, 16)"),
        ("16", "N - N%16"),
        ("max(N - N%16, 16)", "N"),
        ("max(((N + 15)//16)*16 - 16, 0)", "N"),
    ]


def test_whole_tiles_check_nothing() -> None:
    *steps, _ = loops(KERNEL)
    assert [sum(op.name == "pad" for op in loop.body.ops) for loop in steps] == [0, 4, 0, 4]


def test_a_late_product_reads_and_releases_the_buffer_of_its_own_step() -> None:
    _, _, others, _, last = loops(KERNEL)
    for loop, index in ((others, "(at_N//16 + 2)%3"), (last, "(at_N//16)%3")):
        (product,) = (op for op in loop.body.ops if op.name == "mma_async" and op["b_memory"] == "v.shared")
        (arrive,) = loop.body.ops[-1 if loop is last else _place(loop, RELEASE, 1)].body.ops
        assert (str(product["b_buffer"]), str(arrive["index"])) == (index, index)


def test_registers_of_the_factor_are_tied_to_the_wait_for_what_reads_them() -> None:
    _, _, others, *_ = loops(KERNEL)
    wait = others.body.ops[_place(others, RELEASE, 1) - 1]
    made = {value.name for op in others.body.ops if op.name == "elementwise" for value in op.results}
    assert wait.name == "mma_wait" and len(wait.operands) > 1
    assert {value.name for value in wait.operands[1:]} <= made


def _place(loop: Op, name: str, nth: int = 0) -> int:
    return [number for number, op in enumerate(loop.body.ops) if op.name == name][nth]


def test_what_the_first_product_reads_is_copied_again_beside_the_last_one() -> None:
    """K of the step after next is on its way while a step is at its weights; one signal for K and V held both."""
    _, _, others, *_ = loops(KERNEL)
    (arrive,) = others.body.ops[_place(others, RELEASE)].body.ops
    assert (arrive["signal"], str(arrive["index"])) == ("at_N-b.empty", "(at_N//16)%3")
    made = next(number for number, op in enumerate(others.body.ops) if op.name == "elementwise")
    assert _place(others, RELEASE) < made


REPEATED = """        - inside:
            repeat: 2
            carry: {raised: more}
            body:
              - raised: raised + 1
        - weight: f16(inside.raised)
"""


@pytest.mark.parametrize(
    "changes",
    [
        (("stages: 3", "stages: 1"),),
        (
            ("acc: nothing}", "acc: nothing, twice: nothing}"),
            ("v_tile, scaled]}", "v_tile, scaled]}\n        - twice: acc * 2"),
            ("write: steps.acc", "write: steps.twice"),
        ),
        (("        - weight: f16(more)\n", REPEATED),),
    ],
    ids=["one buffer", "sums that are used in the step", "a region in the step"],
)
def test_loop_stays_one(changes: tuple[tuple[str, str], ...]) -> None:
    kernel = lower(products_of_sums(*changes), NVIDIA)
    assert len(loops(kernel)) == 2, "whole tiles, and what is left of one"


BARE = products_of_sums(("        - scaled: maximum(acc, -1000000)\n", ""), ("v_tile, scaled]", "v_tile, acc]"))


@pytest.mark.parametrize("size", [0, 1, 16, 33, 80])
def test_sums_that_nothing_is_done_to_stay_in_their_registers(size: int) -> None:
    kernel = lower(BARE, NVIDIA)
    *_, others, _, _ = loops(kernel)
    assert outline(others) == ["b.full", "b", "v.full", "v", "wait 1", "b.empty", "wait 0", "v.empty"]
    report, is_right = run(kernel, (70, size, 16, 24), "forward")
    assert report.ok, report.render()
    assert is_right


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize("size", [0, 1, 16, 32, 33, 80, 95])
def test_any_number_of_steps_is_exact_and_free_of_races(size: int, order: Order) -> None:
    report, is_right = run(KERNEL, (70, size, 16, 24), order)
    assert report.ok, report.render()
    assert is_right


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_lanes_copy_beside_what_a_single_lane_has_copied_once(order: Order) -> None:
    """Where E may be empty no box has its rows, and lanes copy them; the box in front of the loop is copied once still."""
    kernel = lower(products_of_sums(("E: {min: 8, multiple_of: 8}", "E: {multiple_of: 8}")), NVIDIA)
    assert {m.name: m.arrivals for m in kernel.memories if m.name.endswith("full")} == {
        "at_N.full": 129,
        "a.shared.full": 1,
    }
    report, is_right = run(kernel, (70, 50, 16, 24), order)
    assert report.ok, report.render()
    assert is_right


def released_before_the_wait(op: Op) -> tuple[Op, ...]:
    if op.name != "for" or RELEASE not in [inner.name for inner in op.body.ops]:
        return (op,)
    ops = list(op.body.ops)
    for at in [number for number, one in enumerate(ops) if one.name == RELEASE]:
        ops[at - 1 : at + 1] = ops[at], ops[at - 1]
    return (replace(op, region=replace(op.body, ops=tuple(ops))),)


def next_buffer(index: Expr) -> Expr:
    return (index + 1) % 3


BUGS: dict[str, tuple[Bug, str]] = {
    "release in front of the wait": (planted(released_before_the_wait), "race"),
    "sums that are not awaited": (altered("mma_wait", "pending", lambda n: n + 1, pending=0), "unwaited-product"),
    "first product that is not awaited": (
        altered("mma_wait", "pending", lambda n: n + 1, pending=1),
        "unwaited-product",
    ),
    "late product that reads the buffer of the next step": (
        altered("mma_async", "b_buffer", next_buffer, b_memory="v.shared"),
        "wrong",
    ),
    "release of the buffer of the next step": (
        altered("signal_arrive", "index", next_buffer, signal="at_N-v.empty"),
        "signal-overrun",
    ),
    "wait for the buffer of the next step": (
        altered("signal_wait", "index", next_buffer, signal="at_N-v.full"),
        "unwaited-copy",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_mistakes_are_found(bug: str) -> None:
    plant, kind = BUGS[bug]
    report, is_right = run(plant(KERNEL), (64, 112, 16, 16))
    assert kind in report.kinds() | (set() if is_right else {"wrong"})


def test_loops_over_whole_tiles_and_what_is_left_share_their_buffers() -> None:
    signals = {m.name: (m.buffers, m.arrivals) for m in KERNEL.memories if m.space == "signal"}
    rings = {f"at_N-{name}.{state}": (3, 1) for name in "bv" for state in ("full", "empty")}
    assert signals == rings | {"a.shared.full": (1, 1)}
    producer = next(op for op in KERNEL.body if op.name == "role")
    (loop,) = (op for op in producer.walk() if op.name == "for")
    assert (str(loop["lower"]), str(loop["upper"])) == ("0", "N"), "one loop over both"


SIZES = st.tuples(st.integers(1, 140), st.integers(0, 100), st.sampled_from([8, 16]), st.sampled_from([8, 16, 40]))
BLOCKS = st.tuples(
    st.integers(1, 4), st.sampled_from([64, 128]), st.sampled_from([16, 32, 48]), st.sampled_from([16, 32])
)


@settings(max_examples=20, deadline=None)
@given(SIZES, BLOCKS)
def test_any_sizes_tiles_and_stages_are_exact(
    sizes: tuple[int, int, int, int], blocks: tuple[int, int, int, int]
) -> None:
    stages, rows, columns, results = blocks
    spec = products_of_sums(
        ("stages: 3", f"stages: {stages}"),
        ("BLOCK_M: 64", f"BLOCK_M: {rows}"),
        ("BLOCK_N: 16", f"BLOCK_N: {columns}"),
        ("BLOCK_E: 16", f"BLOCK_E: {results}"),
    )
    report, is_right = run(lower(spec, NVIDIA), sizes)
    assert report.ok, report.render()
    assert is_right
