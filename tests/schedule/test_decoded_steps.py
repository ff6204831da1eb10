"""Operands are decoded beside products: in what order, and what the simulator finds where that is not kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import SPECS, Subject, subjects
from tests.lower.gemms import NVIDIA, lines
from tests.sim.plan_variations import simulated
from tests.sim.planted_bugs import Bug, altered, dropped, planted
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.cases import cases_for_target

BY_NAME = {subject.name: subject for subject in subjects("sm_90")}
WEIGHTS, SCALED = BY_NAME["linear_i4"], BY_NAME["matmul_mxf8"]
FEW_ROWS, MANY_ROWS = 22, 45
"""Cases of `linear_i4` with tiles of 24 rows and of 256."""
SIZES = {"M": 70, "N": 72, "K": 1024}
BOTH = """apiVersion: wavespec/v1
kind: Kernel
extends: matmul_mxf8.wave.yaml
name: decoded
targets:
  sm_90:
    cases:
      - when: [N % 8 == 0, K % 512 == 0, K / 32 % 16 == 0]
        tensors: {a: {space: shared}, b: {space: shared}, a_scale: {space: shared}, b_scale: {space: shared}}
        params: {BLOCK_M: 128, BLOCK_N: 256, BLOCK_K: 64, WAVE_M: 64, WAVE_N: 256}
        schedule: {stages: 3, waves: {producers: 1, registers: {producer: 24, consumer: 240}}}
"""


def kernel_of(subject: Subject) -> Kernel:
    """Of weights that with tiles of 256 x 128, which shares out no round here; of MX one that decodes both factors beside the product."""
    if subject is SCALED:
        return lower(cases_for_target(loads(BOTH, "decoded", directory=SPECS), "sm_90")[0].spec, NVIDIA)
    spec = subject.cases("sm_90")[MANY_ROWS].spec
    return lower(spec.model_copy(update={"schedule": spec.schedule.model_copy(update={"workgroups": None})}), NVIDIA)


def loops(kernel: Kernel) -> list[Op]:
    """Of the waves that compute."""
    consumer = [op for op in kernel.body if op.name == "role"][1]
    return [op for op in consumer.body.ops if op.name == "for"]


def steps(kernel: Kernel, loop: int = 0) -> list[str]:
    """A loop of the waves that compute: names of what is no arithmetic."""
    kinds = ("signal_wait", "load", "store", "barrier", "mma_fence", "mma_async", "mma_commit", "mma_wait", "if")
    names = [op.name for op in loops(kernel)[loop].body.ops if op.name in kinds]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


def test_the_next_factor_is_decoded_beside_the_products_of_a_step() -> None:
    kernel = kernel_of(WEIGHTS)
    decoding = ["signal_wait", "load", "barrier"]
    product = ["mma_fence", "mma_async", "mma_commit"]
    step = [*product, *decoding, "mma_wait", "if"]
    assert [steps(kernel, number) for number in range(4)] == [decoding, step * 2, step, [*product, "mma_wait", "if"]]
    for loop in loops(kernel)[1:]:
        wait = next(op for op in loop.body.ops if op.name == "mma_wait")
        products = [op for op in loop.body.ops if op.name == "mma_async"][:4]
        assert {op.operands[0].name for op in products} < {value.name for value in wait.operands}, "kept until then"


def test_few_products_are_issued_as_soon_as_their_part_of_the_factor_is_decoded() -> None:
    """Those with fewer sums than parts of a factor, beside which nothing could be decoded."""
    kernel = lower(WEIGHTS.cases("sm_90")[FEW_ROWS].spec, NVIDIA)
    part = ["mma_fence", "mma_async", "mma_commit"]
    assert steps(kernel) == ["signal_wait", "load", *part * 16, "mma_wait", "barrier", "if"]
    (wait,) = [op for op in kernel.walk() if op.name == "mma_wait"]
    products = [op for op in kernel.walk() if op.name == "mma_async"]
    assert {op.operands[0].name for op in products} < {value.name for value in wait.operands}, "kept until then"


def test_scales_that_lanes_read_from_a_tensor_are_asked_for_in_front_of_the_products() -> None:
    """Asked for beside products of the step before, they came 8 to 12 % later."""
    spec = WEIGHTS.spec
    case = spec.targets["sm_90"].cases[-1]
    assert case.schedule
    plain = case.schedule.model_copy(update={"materialize": {}, "workgroups": None})
    case = case.model_copy(update={"tensors": {"w": case.tensors["w"]}, "schedule": plain})
    override = spec.targets["sm_90"].model_copy(update={"cases": (case,)})
    spec = spec.model_copy(update={"targets": {"sm_90": override}})
    kernel = lower(cases_for_target(spec, "sm_90")[0].spec, NVIDIA)
    assert any(op.name == "load" and op["memory"] == "scale" for op in kernel.walk())
    assert steps(kernel)[:3] == ["signal_wait", "load", "mma_fence"]


def test_a_step_is_decoded_beside_the_product_of_the_step_before() -> None:
    kernel = kernel_of(SCALED)
    product = ["barrier", "mma_async", "mma_commit"]
    assert steps(kernel) == ["signal_wait", "load", "store", "mma_wait", "mma_fence", *product, "if"]
    assert len(lines(kernel, "mma_wait")) == 2, "the last product is awaited behind the loop"


@pytest.mark.parametrize("subject", [WEIGHTS, SCALED], ids=lambda subject: subject.name)
def test_they_are_right_without_a_race(subject: Subject) -> None:
    sizes = subject.complete(SIZES)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel_of(subject), NVIDIA, sizes, inputs), sizes)


def moved_to_front(kernel: Kernel) -> Kernel:
    """A buffer is emptied before it was read."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for" or not any(inner.name == "mma_async" for inner in op.body.ops):
            return (op,)
        first, *others, release = op.body.ops
        return (replace(op, region=replace(op.body, ops=(first, release, *others))),)

    return planted(change)(kernel)


def without_meeting(kernel: Kernel) -> Kernel:
    """A buffer is emptied by one wave when others may still decode from it."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for":
            return (op,)
        return (replace(op, region=replace(op.body, ops=tuple(one for one in op.body.ops if one.name != "barrier"))),)

    return planted(change)(kernel)


def one_buffer(kernel: Kernel) -> Kernel:
    """A step lays its operands down where the product of the step before reads."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name == "store" and op["memory"].endswith("_tile.3.shared"):
            return (op.with_(buffer=const(0)),)
        return (op.with_(a_buffer=const(0), b_buffer=const(0)),) if op.name == "mma_async" else (op,)

    return planted(change)(kernel)


@pytest.mark.parametrize(
    ("subject", "bug"),
    [
        (WEIGHTS, without_meeting),
        (WEIGHTS, moved_to_front),
        (WEIGHTS, dropped("signal_wait", 1)),
        (SCALED, dropped("barrier", 0)),
        (SCALED, dropped("fence_async", 0)),
        (SCALED, altered("mma_wait", "pending", lambda _: 1)),
        (SCALED, moved_to_front),
        (SCALED, one_buffer),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_is_out_of_order_is_found(subject: Subject, bug: Bug) -> None:
    kernel, sizes = kernel_of(subject), subject.complete(SIZES)
    inputs = subject.inputs(sizes)
    with pytest.raises(AssertionError):
        subject.check(inputs, simulated(subject, bug(kernel), NVIDIA, sizes, inputs), sizes)
