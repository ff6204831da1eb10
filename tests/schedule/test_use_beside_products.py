"""Sums of one step are used beside the product of the next: in what order, where, and never too early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from tests.sim.plan_variations import simulated
from tests.sim.planted_bugs import Bug, altered, planted
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml

SUBJECTS = {one.name: one for one in subjects("sm_90")}
BLOCKS = SUBJECTS["matmul_f8_blocks"]
SMALL, LAST = "few rows", "the largest tiles"
NUMBERS = {SMALL: 0, LAST: 8}


def spec_of(case: str) -> KernelSpec:
    return BLOCKS.cases("sm_90")[NUMBERS[case]].spec


def kernel_of(case: str) -> Kernel:
    return lower(spec_of(case), NVIDIA)


def loops(kernel: Kernel) -> list[Op]:
    """Those over steps, of the waves that compute."""
    consumer = [op for op in kernel.body if op.name == "role"][1]
    return [op for op in consumer.walk() if op.name == "for" and any(one.name == "mma_async" for one in op.body.ops)]


def outline(loop: Op) -> list[str]:
    """Products, waits, releases and what uses sums, in order; the same in a row once."""
    found = list[str]()
    for op in loop.body.ops:
        if op.name == "mma_wait":
            found.append(f"wait {op['pending']}")
        elif op.name == "if":
            found.append(f"release {op.body.ops[0]['index']}")
        elif op.name == "mma_async":
            found.append(f"product of {op['b_buffer']}")
        elif op.name == "elementwise" and op["function"] == "fma":
            found.append("use")
    return [one for number, one in enumerate(found) if number == 0 or found[number - 1] != one]


@pytest.mark.parametrize("case", NUMBERS)
def test_the_next_product_is_issued_before_sums_are_awaited(case: str) -> None:
    rounds, rest = loops(kernel_of(case))
    products = [one for one in outline(rounds) if one.startswith("product")]
    releases = [one for one in outline(rounds) if one.startswith("release")]
    expected = products[:1]
    for product, release in zip(products[1:], releases, strict=False):
        expected += [product, "wait 1", release, "use", "wait 1"]
    assert len(products) == len(releases) == 4
    assert outline(rounds) == [*expected, "wait 0", releases[-1], "use"]
    assert [one.split()[0] for one in outline(rest)] == ["product", "wait", "use", "release"]


def test_rounds_and_what_is_left_are_all_steps() -> None:
    rounds, rest = loops(kernel_of(SMALL))
    assert (str(rounds["lower"]), str(rounds["step"]), str(rounds["upper"])) == ("0", "512", "((K + 127)//512)*512")
    assert (rest["lower"], str(rest["step"]), str(rest["upper"])) == (rounds["upper"], "128", "K")


def test_sums_have_registers_of_sums_that_were_used() -> None:
    """Of the sums of four steps those of two are alive."""
    rounds, _ = loops(kernel_of(LAST))
    waited = [op.results[0].name for op in rounds.body.ops if op.name == "mma_wait"]
    starts = [op.operands[0].name for op in rounds.body.ops if op.name == "mma_async" and op.get("fresh")]
    assert len(starts) == 2 and set(starts) < set(waited)


def test_products_that_take_registers_over_start_at_zero_in_the_machine_code() -> None:
    """One of each step: those of a round, and that of the loop behind it."""
    steps = [op for loop in loops(kernel_of(LAST)) for op in loop.body.ops if op.name == "mma_fence"]
    assert len(steps) == 5 and emit(spec_of(LAST), NVIDIA).text.count("#nvvm.wgmma_scale_out<zero>") == 5


def test_lanes_without_registers_for_two_steps_keep_one() -> None:
    """Three waves share the registers of a processor."""
    text = dump_yaml(spec_of(LAST)).replace("BLOCK_M: 128", "BLOCK_M: 192").replace("stages: 6", "stages: 4")
    text = text.replace("producer: 40, consumer: 232", "producer: 32, consumer: 160")
    (loop,) = loops(lower(loads(text), NVIDIA))
    assert sum(op.name == "mma_commit" for op in loop.body.ops) == 1


@pytest.mark.parametrize("name", ["matmul_f8", "matmul_tf32", "gemm_f32", "linear_i4", "matmul_mxf8", "attention"])
def test_other_kernels_have_no_such_rounds(name: str) -> None:
    for case in SUBJECTS[name].cases("sm_90"):
        assert not any(op.get("fresh") for op in lower(case.spec, NVIDIA).walk() if op.name == "mma_async")


def awaited_late(kernel: Kernel) -> Kernel:
    """Sums are used while their product is in flight."""
    return altered("mma_wait", "pending", lambda _: 2, pending=1)(kernel)


def added_to_others(kernel: Kernel) -> Kernel:
    """A product adds to the sums that its registers held."""
    return altered("mma_async", "fresh", lambda _: False, fresh=True)(kernel)


def released_early(kernel: Kernel) -> Kernel:
    """A buffer is emptied when its product is issued."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for" or sum(one.name == "mma_commit" for one in op.body.ops) < 2:
            return (op,)
        releases = [one for one in op.body.ops if one.name == "if"]
        ops = [one for one in op.body.ops if one.name != "if"]
        commit = next(number for number, one in enumerate(ops) if one.name == "mma_commit")
        return (replace(op, region=replace(op.body, ops=(*ops[:commit], *releases, *ops[commit:]))),)

    return planted(change)(kernel)


def of_one_place(kernel: Kernel) -> Kernel:
    """All steps of a round are scaled by what belongs to the first."""

    def change(op: Op) -> tuple[Op, ...]:
        is_scale = op.name == "load" and op["memory"] == "a_scale"
        return (op.with_(offset=op["offset"] - op["offset"].constant_part() % 2),) if is_scale else (op,)

    return planted(change)(kernel)


@pytest.mark.parametrize("bug", [awaited_late, added_to_others, released_early, of_one_place])
def test_what_is_out_of_order_is_found(bug: Bug) -> None:
    sizes = BLOCKS.complete({"M": 5, "N": 8, "K": 656})
    inputs, kernel = BLOCKS.inputs(sizes), bug(kernel_of(SMALL))
    with pytest.raises(AssertionError):
        BLOCKS.check(inputs, simulated(BLOCKS, kernel, NVIDIA, sizes, inputs), sizes)


# Without 1 and 2, of which the simulator has no size in a minute: clusters are those of `test_share_last_round`.
@pytest.mark.parametrize(
    ("case", "rows", "columns"),
    [
        *((0, 5, 72), (3, 70, 72), (4, 70, 72), (5, 70, 72), (6, 70, 136), (7, 70, 72)),
        *((8, 70, 136), (9, 70, 136), (10, 200, 136), (11, 200, 136), (12, 70, 136)),
    ],
)
@pytest.mark.parametrize("deep", [128, 656])
def test_every_case_is_right_without_a_race(case: int, rows: int, columns: int, deep: int) -> None:
    """Rounds, what is left of one, and a part of a step."""
    sizes = BLOCKS.complete({"M": rows, "N": columns, "K": deep})
    kernel, inputs = lower(BLOCKS.cases("sm_90")[case].spec, NVIDIA), BLOCKS.inputs(sizes)
    BLOCKS.check(inputs, simulated(BLOCKS, kernel, NVIDIA, sizes, inputs), sizes)
