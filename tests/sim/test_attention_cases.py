"""Attention by the asynchronous matrix unit: every case with waves that only copy, in the simulator, partial tiles
included, on a machine of two processors, which have several tiles each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from tests.kernels import Sizes, Subject, check_error, subjects
from tests.sim.plan_variations import simulated
from tests.sim.planted_bugs import dropped
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

HOPPER = replace(machines("sm_90")[0], processors=2)
ATTENTIONS = [
    subject
    for subject in subjects("sm_90")
    if subject.name.startswith("attention") and not subject.name.endswith("_f16")  # as bf16, step by step
]
WITH_PRODUCERS = [
    (subject, number)
    for subject in ATTENTIONS
    for number, case in enumerate(subject.cases("sm_90"))
    if case.spec.schedule and case.spec.schedule.waves and case.spec.schedule.waves.producers
]
HEADS = {64: 16, 128: 72, 256: 136}  # elements, by what a tile has room for


def on_few(subject: Subject, number: int) -> Kernel:
    """A case on that machine; those of which several share a processor are in twos there."""
    spec = subject.cases("sm_90")[number].spec
    assert spec.schedule is not None
    workgroups = spec.schedule.workgroups
    if workgroups is not None and workgroups.count:
        fewer = workgroups.model_copy(update={"count": 2 * HOPPER.processors})
        spec = spec.model_copy(update={"schedule": spec.schedule.model_copy(update={"workgroups": fewer})})
    return lower(spec, HOPPER)


@pytest.mark.parametrize(("subject", "number"), WITH_PRODUCERS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    kernel = on_few(subject, number)
    (head,) = (HEADS[split.tile] for split in kernel.distribution.loops if split.dim == "D")
    keys = _size(subject, kernel, "N", 171)
    rows, queries = _size(subject, kernel, "T", 150), _size(subject, kernel, "M", 200)
    check(subject, kernel, {"M": queries, "N": keys, "D": head, "T": rows, "S": 270, "L": 3, "P": 190})


def _size(subject: Subject, kernel: Kernel, dim: str, about: int) -> int:
    """One that the case is for, near another."""
    if dim not in subject.spec.dims or subject.spec.dims[dim].equals is not None:
        return about
    size = kernel.size(dim)
    return max(size.low or 0, min(about + -about % size.divisor, size.high or about))


def check(subject: Subject, kernel: Kernel, some: Sizes) -> None:
    sizes = {"B": 1, "H": 2 * _neighbours(kernel), "G": 1, "E": 24, **some}
    derived = {name for name, dim in subject.spec.dims.items() if dim.equals is not None}
    sizes = {dim: size for dim, size in sizes.items() if dim in subject.spec.dims.keys() - derived}
    names = (name for name, tensor in subject.spec.tensors.items() if tensor.role != "output")
    inputs = tuple(map(partial(as_expanded, kernel), subject.inputs(sizes), names))
    numbers = _numbers(subject, kernel)
    results = simulated(subject, kernel, HOPPER, _complete(subject, kernel, sizes), inputs, **numbers)
    if not numbers:
        return subject.check(inputs, results, sizes)
    exact, own = (reference(subject.spec, *inputs, compute=of, **numbers) for of in (torch.float64, None))
    check_error(subject.name, results[0], exact, own)


def _numbers(subject: Subject, kernel: Kernel) -> dict[str, float]:
    """Scalars that a case takes from another number on than the one that a call has otherwise."""
    found = {name: kernel.symbol(f"{name}.scalar").low or 0 for name in subject.spec.scalars if name == "window"}
    return {name: low for name, low in found.items() if low > 1}


def _neighbours(kernel: Kernel) -> int:
    """How many heads are rows side by side, 1 where it is none, or all that share keys."""
    (count,) = {
        int(split.dim.removeprefix("H_by_")) for split in kernel.distribution.workgroup if "_by_" in split.dim
    } or {1}
    return count


def _complete(subject: Subject, kernel: Kernel, sizes: Sizes) -> Sizes:
    """With the sizes that follow from others, rows of a group among them."""
    complete, count = subject.complete(sizes), _neighbours(kernel)
    if count > 1:
        together = kernel.size("H_M").divisor
        rows = -(-complete["M"] * count // together) * together
        return {**complete, "H_M": rows, f"H_by_{count}": complete["H"] // count}
    packed = any(split.dim == "H_M" for split in kernel.distribution.workgroup)
    return {**complete, "H_M": complete["H"] // complete["G"] * complete["M"]} if packed else complete


def as_expanded(kernel: Kernel, tensor: Tensor, name: str) -> Tensor:
    """An input with one element along dims whose stride is 0 in a case, for all places there."""
    for axis, stride in enumerate(kernel.memory(name).strides):
        if stride == const(0):
            tensor = tensor.narrow(axis, 0, 1).expand(tensor.shape)
    return tensor


def test_these_are_the_cases() -> None:
    assert len(WITH_PRODUCERS) == 118 and {number for _, number in WITH_PRODUCERS} == set(range(17))


def test_results_leave_by_boxes_of_one_head() -> None:
    for subject, number in WITH_PRODUCERS[:3]:
        stores = [op for op in on_few(subject, number).walk() if op.name == "bulk_store"]
        assert stores and {op["box"] for op in stores} == {(1, 1, 64, 64)}, subject.name


(CAUSAL,) = (subject for subject in ATTENTIONS if subject.name == "attention_masked_causal")


@pytest.mark.parametrize(("rows", "keys"), [(300, 300), (200, 16), (130, 400), (260, 260)])
@pytest.mark.parametrize("heads", [3, 4], ids=["a head without a neighbour", "heads in twos"])
def test_causal_tiles_of_a_workgroup_differ_in_steps(heads: int, rows: int, keys: int) -> None:
    check(CAUSAL, on_few(CAUSAL, 2), {"H": heads, "M": rows, "N": keys, "D": 72})


@pytest.mark.parametrize("signal", ["q.shared.full", "at_N-k.full", "at_N-v.full"])
def test_a_wait_that_is_missing_is_found(signal: str) -> None:
    kernel = dropped("signal_wait", signal=signal)(lower(CAUSAL.cases("sm_90")[2].spec, HOPPER))
    with pytest.raises(AssertionError, match="unwaited-copy"):
        check(CAUSAL, kernel, {"H": 6, "M": 200, "N": 200, "D": 72})


@pytest.mark.parametrize("name", ["attention_ragged_full", "attention_ragged_causal"])
def test_tiles_of_many_short_batches_are_walked_over(name: str) -> None:
    """Six of them, some empty, of 500 rows in all: rounds of buffers and tiles go on from batch to batch."""
    (ragged,) = (subject for subject in ATTENTIONS if subject.name == name)
    kernel = lower(ragged.cases("sm_90")[1].spec, HOPPER)
    check(ragged, kernel, {"D": 72, "T": 500, "S": 600, "L": 7})
    assert any(op.name == "bulk_store" for op in kernel.walk()) and len(kernel.grid) == 1


(PAGED,) = (subject for subject in ATTENTIONS if subject.name == "attention_paged")


@pytest.mark.parametrize(("number", "rows"), [(0, 64), (1, 32), (2, 64), (2, 128), (2, 192), (3, 32), (3, 96)])
def test_pages_are_copied_as_boxes(number: int, rows: int) -> None:
    """Of 0 to all keys, whatever the others hold, in pages of which a step has several, or a part."""
    kernel = on_few(PAGED, number)
    assert not any(op.name == "copy_async" for op in kernel.walk())
    check(PAGED, kernel, {"B": 3, "M": 70, "D": 16 if number < 2 else 72, "T": rows, "L": 1 + 300 // rows, "P": 30})


(WINDOW,) = (subject for subject in ATTENTIONS if subject.name == "attention_masked_window")


def test_tiles_of_windows_differ_in_steps() -> None:
    """Of those of three heads, taken from a counter: all are there."""
    check(WINDOW, on_few(WINDOW, 3), {"H": 3, "M": 500, "N": 500, "D": 72})


@pytest.mark.parametrize("name", ["attention_biased_bias", "attention_biased_mask"])
def test_few_queries_take_the_cases_of_rows_that_start_anywhere(name: str) -> None:
    """Of an odd number of keys, of none, and none of a query."""
    (biased,) = (subject for subject in ATTENTIONS if subject.name == name)
    number = len(biased.cases("sm_90")) - 3  # heads of 128, single elements
    for rows, keys in ((1, 67), (3, 2), (40, 0), (0, 4)):
        check(biased, on_few(biased, number), {"M": rows, "N": keys, "D": 72})
