"""Settings of schedules that change nothing: complained of where they are written, not where they are shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL
from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import load, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import Machine

OWN = "  cpu: {params: {BLOCK_M: 24}}\n"
UNROLL = "{loops: {loop: {unroll: 2}}}"


def text(targets: str, rest: str = "") -> str:
    return SMALL.replace(OWN, targets) + rest


def useless(source: str, machine: Machine) -> list[tuple[str, int]]:
    """The settings that the passes have no use for, with their lines, of all kernels together."""
    spec = loads(source, "small.wave.yaml")
    found: list[tuple[str, int]] = []
    for case in cases_for_target(spec, machine.target):
        try:
            lower(case.spec, machine)
        except WavespecError as error:
            for one in error.diagnostics:
                assert one.code == "useless-setting" and one.span is not None
                found.append((one.message.split("'")[1], one.span.line))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("schedule", [UNROLL, "{workgroups: {group: 4}}"])
def test_setting_for_a_target_that_has_no_use_for_it_is_a_mistake(schedule: str) -> None:
    cpu = f"  cpu:\n    params: {{BLOCK_M: 24}}\n    schedule: {schedule}\n"
    setting = "unroll" if schedule == UNROLL else "group"
    assert useless(text(cpu), CPU) == [(setting, 28)]


@pytest.mark.parametrize("schedule", [UNROLL, "{workgroups: {group: 4}}"])
def test_schedule_of_all_targets_may_say_what_one_has_no_use_for(schedule: str) -> None:
    shared = text(OWN, f"schedule: {schedule}\n")
    assert useless(shared, CPU) == useless(shared, AMD) == []
    setting = "unroll" if schedule == UNROLL else "group"
    assert useless(f"{shared}only: [cpu]\n", CPU) == [(setting, 29)], "there is no other"


def test_setting_of_a_case_is_complained_of_there() -> None:
    cases = f"  cpu:\n    params: {{BLOCK_M: 24}}\n    cases:\n      - when: [M <= 24]\n        schedule: {UNROLL}\n"
    assert useless(text(cases), CPU) == [("unroll", 30)]


def test_loop_that_reads_nothing_staged_has_no_use_for_a_schedule() -> None:
    tensors = "tensors: {a: {space: global}, b: {space: global}}"
    target = f"  gfx942: {{cases: [{{when: [M <= 8], {tensors}, schedule: {UNROLL}}}]}}\n"
    with pytest.raises(WavespecError, match=r"small\.wave\.yaml:27:.*\[useless-setting\]: 'unroll'"):
        loads(text(OWN + target), "small.wave.yaml")
    turns = "{waves: {order: ping_pong}}"
    assert useless(text(OWN + f"  gfx942: {{schedule: {turns}, {tensors}}}\n"), AMD) == [("order", 27)]


def test_case_shares_the_schedule_of_its_target() -> None:
    tensors = "tensors: {a: {space: global}, b: {space: global}}"
    target = f"  gfx942: {{schedule: {UNROLL}, cases: [{{when: [M <= 8], {tensors}}}]}}\n"
    for rest in ("", "only: [gfx942]\n"):
        assert useless(text(OWN + target, rest), AMD) == []
    few = cases_for_target(loads(text(OWN + target)), "gfx942")[0]
    assert loads_plain(dump_yaml(few.spec)) == few.spec, "as when it is tuned"


@pytest.mark.parametrize("machine", [AMD, NVIDIA])
def test_settings_with_a_meaning_are_none(machine: Machine) -> None:
    schedule = "{auto: modulo, loops: {loop: {buffers: 2, unroll: 2}}, workgroups: {group: 4}}"
    assert useless(text(OWN + f"  {machine.target}: {{schedule: {schedule}}}\n"), machine) == []


def test_what_a_base_says_is_no_mistake_of_the_spec_that_extends_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "base.wave.yaml").write_text(text("  gfx942: {schedule: {stages: 2}}\n"))
    child = tmp_path / "child.wave.yaml"
    head = "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n"
    child.write_text(f"{head}targets: {{gfx942: {{schedule: {{waves: {{order: ping_pong}}}}}}}}\n")
    assert load(child).targets["gfx942"].schedule is not None
    child.write_text(f"{head}targets: {{gfx942: {{schedule: {{auto: modulo, waves: {{order: ping_pong}}}}}}}}\n")
    with pytest.raises(WavespecError, match=r"child\.wave\.yaml:5:31: error\[useless-setting\]: 'auto'"):
        load(child)


@pytest.mark.parametrize("waves", ["early_wait: true", "producers: 1, order: in_parts, early_wait: true"])
def test_an_early_wait_for_what_no_step_waits_for_is_a_mistake(waves: str) -> None:
    spec = text(OWN, f"schedule: {{stages: 2, waves: {{{waves}}}}}\nonly: [sm_90]\n")
    with pytest.raises(WavespecError, match=r"\[useless-setting\]: 'early_wait'"):
        useless(spec, CPU)
