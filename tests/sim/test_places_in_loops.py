"""Loops whose steps overlap while the places of their tiles depend on data: right, without a race, on every GPU."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.kernels import Subject, subjects
from tests.rungs import often
from tests.sim.plan_variations import Variation, Varied, simulated
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import Machine, machines

TARGETS = ("sm_90", "gfx942", "gfx950")
_ROWS_AHEAD = {"rows.load": 0, "weights.load": 0, "rows.store": 1, "weights.store": 1, "rows": 2, "weights": 2}
SCHEDULES: dict[str, dict[str, Any]] = {
    "two": {"stages": 2},
    "three": {"stages": 3},
    "four": {"stages": 4},
    "prefetch": {"auto": "prefetch"},
    "modulo": {"stages": 2, "auto": "modulo"},
    "unrolled": {"loops": {"k_loop": {"stages": 2, "unroll": 2}}},
    "placed": {"loops": {"k_loop": {"nodes": {**_ROWS_AHEAD, "acc": 2}}}},
    "persistent": {"stages": 2, "workgroups": {"persistent": True, "count": 3}},
}
OF_SOME = [
    ("sm_90", {"stages": 3, "waves": {"producers": 1}}),
    ("sm_90", {"stages": 2, "waves": {"producers": 1}, "workgroups": {"persistent": True, "count": 3}}),
    ("gfx942", {"waves": {"order": "ping_pong"}}),
    ("gfx950", {"waves": {"order": "ping_pong"}}),
]


def varied(file: str, target: str, schedule: dict[str, Any], *changes: tuple[str, str]) -> Variation:
    """A kernel of the table with another schedule, and other words in its text."""
    subject: Subject = next(one for one in subjects(target) if one.file == file)
    text = dump_yaml(subject.spec)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    spec = yaml.safe_load(text)
    spec.pop("targets", None)
    return Variation(subject, target, yaml.safe_dump(spec | {"schedule": schedule}, sort_keys=False))


def check(one: Variation, *sizes: dict[str, int]) -> None:
    kernel = one.lowered()
    assert not isinstance(kernel, WavespecError), str(kernel)
    for of in sizes or one.subject.row.small:
        one.check(kernel, one.subject.complete(of))


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=list(SCHEDULES))
@pytest.mark.parametrize("target", often(TARGETS, ["sm_90"]))
def test_rows_of_groups(target: str, schedule: dict[str, Any]) -> None:
    check(varied("grouped_gemm", target, schedule))


@pytest.mark.parametrize(("target", "schedule"), OF_SOME, ids=str)
def test_rows_of_groups_by_waves_with_roles(target: str, schedule: dict[str, Any]) -> None:
    check(varied("grouped_gemm", target, schedule))


def test_one_operand_that_is_staged_through_registers() -> None:
    """Rows of any length, so that elements are loaded one by one."""
    changes = (
        ("K: {multiple_of: 8}", "K: {}"),
        ("w: {shape: [G, N, K], dtype: bf16, space: shared}", "w: {shape: [G, N, K], dtype: bf16}"),
    )
    check(varied("grouped_gemm", "sm_90", {"stages": 3}, *changes))


@pytest.mark.parametrize("schedule", [SCHEDULES["two"], SCHEDULES["three"], SCHEDULES["persistent"]], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_a_place_of_every_step(target: str, schedule: dict[str, Any]) -> None:
    """Pages of attention: a step loads where its keys are, and tests for the end, several steps ahead of its products."""
    changes = (("D: {max: 256}", "D: {max: 64}"), ("BLOCK_D: 256", "BLOCK_D: 64"), ("BLOCK_E: 256", "BLOCK_E: 64"))
    one = varied("attention_paged", target, schedule, *changes)
    check(one, {"B": 2, "H": 1, "M": 3, "P": 9, "T": 8, "L": 13, "N": 104, "D": 24, "E": 20})


@pytest.mark.parametrize("machine", machines("cpu"), ids=lambda machine: machine.variant)
def test_places_of_an_operand_that_is_not_staged(machine: Machine) -> None:
    """Products of two keys a step read the rows of those two, not of the first two of the tile."""
    subject: Subject = next(one for one in subjects("cpu") if one.name == "attention_paged_decode")
    spec = yaml.safe_load(dump_yaml(subject.spec))
    spec["targets"] = {"cpu": spec["targets"]["cpu"]}
    spec["tensors"]["values"]["space"] = "global"
    one = Varied(subject.file, subject.name, yaml.safe_dump(spec, sort_keys=False))
    sizes = {"B": 2, "H": 1, "M": 3, "P": 5, "T": 4, "L": 3, "D": 8, "E": 4}
    inputs = one.inputs(sizes, whole=True)
    results = simulated(
        one, lower(one.spec, machine), machine, one.complete(sizes), [value.clone() for value in inputs]
    )
    one.compare(one.expected(inputs), results, sizes, whole=True)
