"""`wavespec check`: what it prints and returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import GEMM, SMALL, Command


def test_good_specs_are_listed(wavespec: Command, small: Path) -> None:
    result = wavespec("check", small, GEMM)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"small.wave.yaml: ok\n{GEMM}: ok\n"


def test_every_mistake_is_shown_with_its_line(wavespec: Command, small: Path) -> None:
    small.write_text(SMALL.replace("tile: BLOCK_M", "tiel: BLOCK_M").replace("{read: b}", "{raed: b}"))
    result = wavespec("check", small)
    assert (result.code, result.out) == (2, "")
    assert "small.wave.yaml:11:20: error[unknown-field]" in result.err
    assert "11 |   - {workgroup: M, tiel: BLOCK_M, axis: 0}" in result.err
    assert "Did you mean 'tile'?" in result.err
    assert "error[unknown-op]: 'raed' is not an op." in result.err
    assert "Did you mean 'read'?" in result.err
    assert result.err.rstrip().endswith("mistakes in 1 of 1 file.")


def test_json_holds_every_file(wavespec: Command, small: Path) -> None:
    bad = Path("bad.wave.yaml")
    bad.write_text(SMALL.replace("kind: Kernel", "kind: Kernal"))
    result = wavespec("check", small, bad, "--json")
    assert result.code == 2
    assert result.data["ok"] is False
    assert [file["ok"] for file in result.data["files"]] == [True, False]
    (diagnostic,) = result.data["files"][1]["diagnostics"]
    assert diagnostic["span"]["line"] == 2


def test_a_tuned_file_is_checked_with_the_spec_beside_it(wavespec: Command, small: Path) -> None:
    measured = "      measured: {machine: a machine, timings: []}\n"
    settings = f"    - when: [M <= 64]\n      params: {{BLOCK_M: 48}}\n{measured}"
    tuned = small.with_name("small.tuned.yaml")
    tuned.write_text(f"apiVersion: wavespec/v1\nkind: Tuned\nkernel: small\ntargets:\n  cpu:\n{settings}")
    assert wavespec("check", tuned).out == "small.tuned.yaml: ok\n"
    tuned.write_text(tuned.read_text().replace("BLOCK_M: 48", "BLOCK_M: 47"))  # no multiple of an instruction's rows
    result = wavespec("check", tuned)
    assert result.code == 2 and "error[tile-not-divisible]" in result.err and "unknown-value" not in result.err


def test_a_missing_file_is_a_diagnostic(wavespec: Command) -> None:
    result = wavespec("check", "nothing.wave.yaml")
    assert result.code == 2
    assert "error[unreadable-file]: 'nothing.wave.yaml' cannot be read: no such file or directory." in result.err


def test_a_spec_that_a_machine_cannot_run_is_found_with_target(wavespec: Command, small: Path) -> None:
    # (1024 + 32) x 32 x 2 bytes are more than the 64 KiB of LDS.
    small.write_text(SMALL.replace("BLOCK_M: 32", "BLOCK_M: 1024"))
    result = wavespec("check", small, "--target", "gfx942")
    assert result.code == 2
    assert "small.wave.yaml:" in result.err


def test_by_default_a_spec_is_checked_for_all_machines_that_it_is_for(wavespec: Command, small: Path) -> None:
    """SMALL names the CPU alone; 1024 rows do not fit what a GPU's workgroup shares."""
    small.write_text(SMALL.replace("BLOCK_M: 32", "BLOCK_M: 1024"))
    result = wavespec("check", small)
    assert result.code == 2 and "error[shared-memory-exceeded]" in result.err
    assert "= note: For gfx942." in result.err
    assert "= hint: A kernel that is not for gfx942 says so: 'only: [" in result.err
    assert wavespec("check", small, "--fast").out == "small.wave.yaml: ok\n"
    assert wavespec("check", small, "--target", "cpu").code == 0


def test_what_was_found_right_is_not_lowered_again(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wavespec("check", small).code == 0
    lowered: list[object] = []
    monkeypatch.setattr(
        "wavespec.check_builds.problems_of_case", lambda parts: lowered.extend(parts) or [() for _ in parts]
    )
    assert wavespec("check", small).code == 0 and not lowered
    small.write_text(SMALL.replace("BLOCK_M: 32", "BLOCK_M: 64"))
    assert wavespec("check", small).code == 0 and lowered


def test_a_mistake_of_the_kernel_is_no_mistake_of_its_cases(wavespec: Command, small: Path) -> None:
    cases = "  gfx942:\n    cases:\n      - {when: [M <= 16], params: {BLOCK_M: 64}}\n"
    cases += "      - when: [M <= 64]\n        params: {BLOCK_M: 1024}\n"
    small.write_text(SMALL.replace("workloads:", f"{cases}workloads:"))
    result = wavespec("check", small)
    assert result.code == 2 and "1 mistake in 1 of 1 file." in result.err
    assert "small.wave.yaml:30:15: error[shared-memory-exceeded]" in result.err
    assert "= note: In the case at line 30: when [M <= 64]." in result.err
    built = wavespec("build", small, "--target", "gfx942", "-o", "out")
    assert built.code == 2 and "= note: In the case at line 30: when [M <= 64]." in built.err
    shown = wavespec("show", small, "--target", "gfx942", "--case", "1")
    assert shown.code == 2 and "= note: In the case at line 30: when [M <= 64]." in shown.err
    small.write_text(small.read_text().replace("{mma: auto}", "{mma: none}"))
    result = wavespec("check", small)
    assert result.err.count("error[unknown-matrix-instruction]: gfx942") == 1 and "In the case" not in result.err


def test_unknown_target_names_the_nearest(wavespec: Command, small: Path) -> None:
    result = wavespec("check", small, "--target", "gfx924")
    assert result.code == 2
    assert "--target: error[unknown-target]: 'gfx924' is not a target." in result.err
    assert "Did you mean 'gfx942'?" in result.err


def test_hostile_files_are_refused_without_a_traceback(wavespec: Command, tmp_path: Path) -> None:
    for number, text in enumerate(("[" * 5000, "a: &a [*a]", "\x00", "!!python/object/apply:os.system [id]", "")):
        path = tmp_path / f"hostile{number}.wave.yaml"
        path.write_text(text)
        assert wavespec("check", path).code == 2


def test_what_all_variants_of_a_target_say_is_said_once(wavespec: Command, tmp_path: Path) -> None:
    spec = tmp_path / "copied.wave.yaml"
    spec.write_text(
        "apiVersion: wavespec/v1\nkind: Kernel\nname: copied\ndims: {M: {}}\n"
        "tensors: {x: {shape: [M], dtype: f32}, y: {shape: [M], dtype: f32, role: output}}\n"
        "constraints: [{workgroup: M, tile: 64, axis: 0}]\ngraph: [value: {read: x}, {write: value, to: y}]\n"
        "schedule: {workgroups: {persistent: true}}\n"
    )
    result = wavespec("check", spec, "--target", "cpu")
    assert result.code == 2 and result.err.count("error[") == 1
    assert "persistence-not-possible]: cpu does not say how many processors it has" in result.err
