"""A property of a machine decides what it is named for, and nothing of a result, on machines that nobody builds too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, run, source
from tests.lower.hopper_gemms import TOGETHER, hopper_gemm
from tests.ops.mapped_kernels import assert_exact, copy
from tests.specs import without_target
from wavespec.diagnostics import WavespecError
from wavespec.emit.thread_to_mlir import unwritten
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.pipeline import lower
from wavespec.schema import loads, spec_for_target
from wavespec.targets.machine import Machine

SERIAL = Gemm("f32", tile=(24, 64, 8), wave=(None, None))
WIDE = Gemm(tile=(32, 64, 64))


def with_shared(machine: Machine, **changes: Any) -> Machine:
    return replace(machine, shared=replace(machine.shared, **changes))


def with_global(machine: Machine, **changes: Any) -> Machine:
    return replace(machine, globals=replace(machine.globals, **changes))


def softmax(machine: Machine, after: str = "") -> Kernel:
    spec = loads(source("softmax.wave.yaml"), "softmax.wave.yaml")
    return lower(spec_for_target(spec, machine.target), machine, after=after)


def ops(kernel: Kernel, name: str) -> list[Op]:
    return [op for op in kernel.walk() if op.name == name]


@pytest.mark.parametrize(
    ("gemm", "machine"),
    [
        (SERIAL, replace(CPU, out_of_order=False)),
        (SERIAL, replace(CPU, most_unrolled=256)),
        (SERIAL, replace(CPU, any_vector_length=False)),
        (SERIAL, replace(CPU, element_masks=False)),
        (SERIAL, with_shared(CPU, any_alignment=False)),
        (SERIAL, with_shared(CPU, private_rows=False)),
        (SERIAL, with_global(CPU, prefetch=False)),
        (WIDE, replace(NVIDIA, out_of_order=True)),
        (WIDE, replace(NVIDIA, most_unrolled=0)),
        (WIDE, replace(NVIDIA, any_vector_length=True)),
    ],
)
def test_results_are_the_same(gemm: Gemm, machine: Machine) -> None:
    report, expected = run(gemm.spec, machine, {"M": 29, "N": 70, "K": 19})
    assert report.findings == () and (report.tensors["c"] == expected).all()


@pytest.mark.parametrize(("machine", "alone"), [(CPU, True), (NVIDIA, False)])
def test_registers_hold_the_results_of_an_instruction_or_of_a_wave(machine: Machine, *, alone: bool) -> None:
    gemm = Gemm("f32", tile=(24, 64, 8), wave=(24, 64)) if alone else Gemm(wave=(32, 64))
    waves = {
        one: gemm.lowered(replace(machine, register_tile=one), "assign-tiles").wave_count
        for one in ("instruction", "wave")
    }
    row = machine.instruction(ops(gemm.lowered(machine, "assign-tiles"), "mma")[0]["instruction"])
    assert row is not None
    assert waves == {"instruction": gemm.tile[0] * gemm.tile[1] // (row.m * row.n), "wave": 1}


def test_loops_of_products_are_written_out_up_to_a_number_of_instructions() -> None:
    unrolled = {
        most: ops(WIDE.lowered(replace(NVIDIA, most_unrolled=most), "split-reduction"), "iterate")[1]["unroll"]
        for most in (0, 16)
    }
    assert unrolled == {0: 1, 16: 0}
    with pytest.raises(WavespecError, match="would be 16 matrix instructions of each wave in a row; at most 15 are"):
        WIDE.lowered(replace(NVIDIA, most_unrolled=15), "split-reduction")


def test_a_machine_that_reorders_leaves_loads_where_they_are() -> None:
    def loads_in_front(machine: Machine) -> int:
        (loop,) = (op for op in Gemm().lowered(machine).body if op.name == "for")
        names = [op.name for op in loop.body.ops if op.name in ("load", "store")]
        return names.index("store")

    assert loads_in_front(AMD) == 12, "of both operands"
    assert loads_in_front(replace(AMD, out_of_order=True)) == 4, "of the first"


def test_waves_that_take_turns_may_stage_the_rows_of_all() -> None:
    rows = {
        private: SERIAL.lowered(with_shared(CPU, private_rows=private), "promote-shared").memory("a.shared").shape[0]
        for private in (True, False)
    }
    assert {private: extent.value for private, extent in rows.items()} == {True: 12, False: 24}


def test_nothing_is_announced_where_it_is_of_no_use() -> None:
    assert ops(SERIAL.lowered(CPU), "prefetch") and ops(softmax(CPU), "prefetch")
    machine = with_global(CPU, prefetch=False)
    assert not ops(SERIAL.lowered(machine), "prefetch") and not ops(softmax(machine), "prefetch")


def test_what_is_kept_takes_half_of_a_cache() -> None:
    text = without_target(source("softmax.wave.yaml"), "sm_90").replace(
        "T, role: output}", "T, role: output, space: streamed}"
    )
    spec = loads(text.replace("N: {}", "N: {max: 65536}"), "softmax.wave.yaml")

    def kept(cache_bytes: int) -> bool:
        machine = replace(CPU, core_cache_bytes=cache_bytes)
        kernel = lower(spec_for_target(spec, "cpu"), machine, after="keep-results")
        return any(memory.name.endswith(".kept") for memory in kernel.memories)

    assert [kept(size) for size in (0, 8 * 65536 - 1, 8 * 65536)] == [False, False, True]


def test_vectors_of_any_elements_have_masks_for_each() -> None:
    shifted = copy("{N: N + P}")
    for machine in (replace(CPU, element_masks=False), replace(CPU, any_vector_length=False)):
        assert_exact(shifted, machine, {"M": 11, "N": 37, "V": 40})
    counts = {
        masks: sum(
            1 for op in ops(lower(shifted, replace(CPU, element_masks=masks)), "load") if op["valid"] is not None
        )
        for masks in (True, False)
    }
    assert counts[True] > counts[False]


def test_orders_of_workgroups_are_for_those_that_run_together() -> None:
    ordered = PersistWorkgroups()
    kernel = Gemm().lowered(NVIDIA, "sink-arithmetic")
    kernel = replace(kernel, distribution=replace(kernel.distribution, group=4, is_for_target=True))
    assert ordered(kernel, NVIDIA) == kernel
    with pytest.raises(WavespecError, match="run one after another on each core"):
        ordered(kernel, replace(NVIDIA, concurrent_workgroups=False))


def test_boxes_are_as_large_as_a_descriptor_takes() -> None:
    def rows(machine: Machine) -> set[int]:
        copies = ops(hopper_gemm(schedule=TOGETHER).lowered(machine, "distribute-copies"), "copy")
        return {extent for copy in copies for box in copy.get("boxes", ()) for (_, extent) in box[:1]}

    assert rows(NVIDIA) == {64} and rows(with_global(NVIDIA, bulk_box_elements=48)) == {32}
    assert rows(with_global(NVIDIA, bulk_box_dims=1)) == set(), "lanes copy what has more dims"


def test_rows_are_kept_apart_by_a_line() -> None:
    strides = {
        bytes_: SERIAL.lowered(with_shared(CPU, bank_bytes=bytes_), "promote-shared").memory("a.shared").arrangement
        for bytes_ in (32, 64)
    }
    assert {size: place.digits[0].stride for size, place in strides.items() if place} == {32: 8 + 8, 64: 8 + 16}


def test_registers_are_handed_over_in_steps() -> None:
    roles = "waves: {producers: 1, registers: {producer: 40, consumer: 256}}, workgroups: {persistent: true}"
    for step, most in ((8, 232), (32, 192)):
        with pytest.raises(WavespecError, match=f"the others can have {most}"):
            hopper_gemm(schedule=roles).lowered(replace(NVIDIA, register_step=step))
        assert replace(NVIDIA, register_step=step).registers_at_launch(384) == {8: 168, 32: 160}[step]


def test_a_workgroup_has_as_many_barriers_as_the_machine() -> None:
    gemm = hopper_gemm()
    kernel = gemm.lowered(NVIDIA)
    assert any(op.get("first") is not None for op in ops(kernel, "barrier"))
    with pytest.raises(AssertionError, match=r"needs \d barriers, the machine has 1"):
        unwritten(kernel, replace(NVIDIA, barriers=1), "")
