"""`wavespec run --simulate`: each kind of mistake at its line, with wave and lane; sizes that fit; where it stops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.cli.command import GEMM, SMALL, Command
from tests.sim.planted_bugs import Bug, altered, dropped, off_by_one, swapped_operands, unswizzled
from wavespec.cli import simulate
from wavespec.cli.measure import random_inputs
from wavespec.cli.stops import BreakAt
from wavespec.ir.expr import symbol
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.sim.reference import reference

SPECS = Path(__file__).parents[2] / "specs"
LINES = {text.strip(): f"{number}:" for number, text in enumerate(SMALL.splitlines(), 1)}
X, Y, WRITE = LINES["- x: {read: a}"], LINES["- y: {read: b}"], LINES["- {write: loop.acc, to: c}"]
SCATTER = """\
apiVersion: wavespec/v1
kind: Kernel
name: scatter
dims: {N: {}, V: {value: 64}}
tensors:
  x: {shape: [N], dtype: f32}
  at: {shape: [N], dtype: i32}
  y: {shape: [V], dtype: f32, role: output}
constraints:
  - {workgroup: N, tile: 64, axis: 0}
graph:
  - value: {read: x}
  - place: {read: at}
  - {write: value, to: y, at: {V: place}}
"""
"""Elements may have one place: which of them is there in the end, nobody knows."""


def plant(monkeypatch: pytest.MonkeyPatch, *bugs: Bug) -> None:
    """Put mistakes into every kernel that is simulated from here on."""

    def wrong(*arguments: object, **options: object) -> object:
        kernel = lower(*arguments, **options)  # pyright: ignore[reportArgumentType]
        for bug in bugs:
            kernel = bug(kernel)
        return kernel

    monkeypatch.setattr(simulate, "lower", wrong)


@pytest.fixture
def small(small: Path, tmp_path: Path) -> Path:
    """The spec with one wave in a workgroup, and every line where it was."""
    path = tmp_path / small
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{hardware: {mma: auto}}", "{wave: M, tile: BLOCK_M}"), encoding="utf-8")
    return small


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942", "gfx950"])
def test_a_right_kernel_is_clean_on_every_target(wavespec: Command, small: Path, target: str) -> None:
    result = wavespec("run", small, "--simulate", "--target", target)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"small on {target}, simulated, M=40 N=24 K=64: ok\n  largest error  ")
    assert result.out.endswith("\n  found          nothing\n") and "median time" not in result.out


@pytest.mark.parametrize(
    ("target", "bug", "line", "words"),
    [
        ("gfx942", dropped("barrier", 1), X, r"error\[race\]: 'load' reads what another thread wrote"),
        ("gfx942", dropped("store", memory="b.shared"), Y, r"error\[unwritten-read\]: 'load' reads element 0 of @b"),
        ("gfx942", off_by_one("store"), WRITE, r"error\[out-of-bounds\]: 'store' touches element 960 of @c, which"),
        ("sm_90", dropped("async_commit"), X, r"error\[unwaited-copy\]: 'load_matrix' reads element"),
        (
            "sm_90",
            altered("load_matrix", "offset", lambda at: at + 1, memory="b.shared"),
            Y,
            r"error\[misaligned\]: 'load_matrix' moves 16 bytes at byte 2 of @b.shared, which is not a multiple of 16",
        ),
        (
            "gfx942",
            altered("store", "offset", lambda at: at + 1, memory="b.shared"),
            Y,
            r"warning\[misaligned\]: 'store' moves 16 bytes at byte 1026 of @b.shared",
        ),
    ],
    ids=["race", "uninitialised", "out of bounds", "copy in flight", "misaligned", "misaligned, split"],
)
def test_a_planted_mistake_is_shown_at_its_line(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch, target: str, bug: Bug, line: str, words: str
) -> None:
    plant(monkeypatch, bug)
    result = wavespec("run", small, "--simulate", "--target", target)
    assert result.code == 1
    found = re.search(rf"^small\.wave\.yaml:{line}\d+: {words}.*$", result.err, re.MULTILINE)
    assert found, result.err
    assert re.search(r"(lane \d+|several lanes) of (wave \d+ of )?workgroup \d+", found.group())


def test_bank_conflicts_are_warnings_with_lanes_and_elements(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, *(unswizzled(name, memory="a.shared") for name in ("load", "store")))
    result = wavespec("run", small, "--simulate", "--target", "gfx942", "--json")
    assert result.code == 0 and result.data["results"][0]["verdict"] == "ok"
    found = result.data["results"][0]["findings"]
    assert {one["code"] for one in found} == {"bank-conflict"} and {one["severity"] for one in found} == {"warning"}
    assert {f"{one['span']['line']}:" for one in found} == {X}
    assert re.search(
        r"takes \d+ cycles of shared memory in a workgroup, \d+ without bank conflicts: lanes 0, 2, 4 and 6 of wave 0 "
        r"ask one bank for elements 0, 64, 128 and 192, one after the other\.",
        next(one["message"] for one in found if one["message"].startswith("'load'")),
    )


def test_a_wrong_result_is_told(wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, swapped_operands("mma"))
    result = wavespec("run", small, "--simulate", "--target", "gfx942")
    assert result.code == 1 and "M=40 N=24 K=64: WRONG\n" in result.out


def test_a_race_of_a_spec_is_found_without_a_machine(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "scatter.wave.yaml").write_text(SCATTER)
    result = wavespec("run", "scatter.wave.yaml", "--simulate", "--dim", "N=128", "--target", "sm_90")
    assert result.code == 1
    assert re.search(r"^scatter\.wave\.yaml:14:5: error\[race\]: 'store' writes different values", result.err, re.M)
    assert re.search(r"error\[output-conflict\]: Workgroups 0 and 1 store different values to", result.err)


def test_sizes_that_take_long_are_refused_with_some_that_fit(wavespec: Command, small: Path) -> None:
    options = ("--simulate", "--target", "gfx942")
    result = wavespec("run", small, *options, "--dim", "M=40000", "--dim", "N=640", "--dim", "K=64")
    assert result.code == 2 and result.out == ""
    assert "error[too-large-to-simulate]: small does about " in result.err
    fitting = re.search(r"These sizes fit: (.*)\.", result.err)
    assert fitting and re.fullmatch(r"--dim M=\d+ --dim N=640 --dim K=64", fitting[1])


def test_workloads_are_made_smaller(
    wavespec: Command, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "MOST_OPERATIONS", 1000)
    large = SMALL.replace("- {M: 40, N: 24, K: 64}", "- {M: 4096, N: 40, K: 80}\n  - {M: 8192, N: 40, K: 80}")
    (tmp_path / small).write_text(large)
    result = wavespec("run", small, "--simulate", "--target", "gfx942")
    assert result.code == 0, result.err
    (note,) = result.err.splitlines()
    assert re.fullmatch(r"small: M=\d+ N=40 K=80 in place of M=4096 N=40 K=80", note)
    assert result.out.count("simulated") == 1


def test_sizes_keep_what_the_spec_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SMALL.replace("constraints:", "constraints:\n  - {assume: K >= 4 * BLOCK_M}")
    (tmp_path / "small.wave.yaml").write_text(text)
    monkeypatch.setattr(simulate, "MOST_OPERATIONS", 200)
    one = simulate.Simulator(load(tmp_path / "small.wave.yaml"), "gfx942", {})
    ((_, sizes),) = one.sizes([{"M": 64, "N": 64, "K": 4096}], is_asked=False)
    assert sizes["K"] == 128 and sizes["M"] < 64
    with pytest.raises(simulate.BadSize, match=r"K=64 breaks the assumption 'K >= 4 \* BLOCK_M'"):
        one.sizes([{"M": 64, "N": 64, "K": 64}], is_asked=True)


@pytest.mark.parametrize("target", ["gfx942", "sm_90"])
def test_what_lanes_have_behind_the_last_step_is_the_result(small: Path, tmp_path: Path, target: str) -> None:
    spec, sizes = load(tmp_path / small), {"M": 32, "N": 32, "K": 64}
    one, at = simulate.Simulator(spec, target, {}), BreakAt("acc", step=1)
    inputs = [tensor.round() for tensor in random_inputs(spec, sizes, 0, "cpu")]
    stop_at = at.stop_at(one, sizes)
    one.call(sizes, inputs, stop_at)
    (stop,) = at.seen(stop_at)
    assert stop.counters["at_K"] == 32
    held = torch.cat([torch.as_tensor(registers.values).flatten() for registers in stop.registers])
    exact = reference(spec, *inputs)
    assert torch.equal(held.double().sort().values, exact.flatten().sort().values)


def test_waves_with_roles_stop_each_at_its_own_time() -> None:
    """Producers that wait for a wave that stands still are in no deadlock."""
    spec, sizes = load(GEMM), {"M": 128, "N": 256, "K": 512}
    one, at = simulate.Simulator(spec, "sm_90", {}), BreakAt("acc", step=1)
    stop_at = at.stop_at(one, sizes)
    _, found = one.call(sizes, random_inputs(spec, sizes, 0, "cpu"), stop_at)
    stops, kernel = at.seen(stop_at), stop_at.kernel
    assert [stop.first // kernel.lanes for stop in stops] == list(range(kernel.wave_count))
    assert not [one for one in found if one.is_error]


def test_what_ends_before_the_place_says_why(wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, altered("for", "upper", lambda upper: upper + 32 * symbol("lane", 0, 63)))
    result = wavespec("run", small, "--simulate", "--target", "gfx942", "--break", "acc")
    assert result.code == 1 and "error[non-uniform-loop]" in result.err
    assert result.out.splitlines() == [
        "small on gfx942, simulated, M=40 N=24 K=64: UNSAFE",
        "  ended before '--break'",
    ]


def test_the_table_is_cut_and_a_lane_is_whole(wavespec: Command, small: Path) -> None:
    options = ("run", small, "--simulate", "--target", "gfx942", "--dim", "M=40", "--dim", "N=24", "--dim", "K=64")
    result = wavespec(*options, "--break", "acc", "--step", "1")
    first, place, wave, head, *rows, last = result.out.splitlines()
    assert (result.code, first) == (0, "small on gfx942, simulated, M=40 N=24 K=64: stopped")
    assert place.startswith("  behind 'mma' of 'acc' at small.wave.yaml:") and place.endswith(
        "workgroup 0 of small: at_K=32"
    )
    assert wave == "  wave 0" and head.split()[0] == "lane"
    assert [row.split()[0] for row in rows] == [str(lane) for lane in range(8)]
    assert last == "    … 56 more lanes and 8 more registers: '--lane N' shows one lane whole"
    whole = wavespec(*options, "--break", WRITE.strip(":"), "--lane", "17", "--workgroup", "1").out
    assert "(@c at [33, 4])" in whole and re.search(r"\(@c at (outside|\[33, 20\])\)", whole)
    data = wavespec(*options, "--break", "acc", "--lane", "3", "--json").data["results"][0]
    assert data["verdict"] == "stopped" and list(data["stops"][0]["registers"]["acc.20"]) == ["3"]


PARTS = ("run", SPECS / "linear_i4.wave.yaml", "--simulate", "--target", "cpu:x86_64_v4_bf16", "--member", "T=bf16")
PARTS = (*PARTS, "--dim", "M=33", "--dim", "N=16", "--dim", "K=128", "--break")


def test_any_kernel_of_a_call_can_be_stopped(wavespec: Command) -> None:
    """Weights are decoded by a kernel that runs first; what is read of `w` is none of the last one."""
    first = wavespec(*PARTS, "w_tile", "--json").data["results"][0]
    assert first["verdict"] == "stopped" and {one["kernel"] for one in first["stops"]} == {"linear_i4_weight"}
    last = wavespec(*PARTS, "x_tile")
    assert last.code == 0 and "workgroup 0 of linear_i4" in last.out and "linear_i4_weight" not in last.out
    chosen = wavespec(*PARTS, "weight", "--kernel", "linear_i4_weight").out
    assert "workgroup 0 of linear_i4_weight" in chosen
    wrong = wavespec(*PARTS, "x_tile", "--kernel", "linear_i4_weight")
    assert wrong.code == 2 and "error[no-such-place]" in wrong.err
    unknown = wavespec(*PARTS, "x_tile", "--kernel", "linear_i4_weights")
    assert unknown.code == 2 and "Did you mean 'linear_i4_weight'?" in unknown.err


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--break", "acc"), "options-apart", "Add '--simulate'."),
        (("--simulate", "--step", "2"), "options-apart", "There is no place to stop at."),
        (("--simulate", "--lane", "0"), "options-apart", "There is no place to stop at."),
        (("--simulate", "--strided", "8"), "options-apart", "takes contiguous tensors"),
        (("--simulate", "--debug", "acc"), "options-apart", "'--break NAME' shows what lanes have of a value."),
        (("--simulate", "--break", "ac"), "no-such-place", "Did you mean 'acc'?"),
        (("--simulate", "--break", "2"), "no-such-place", "Lines with operations are 16, 18, 21, 22, 23 and 24."),
        (("--simulate", "--break", "acc", "--step", "2"), "not-reached", "come by 'acc' at most 2 times."),
        (("--simulate", "--break", "acc", "--workgroup", "2"), "not-in-kernel", "has 2 workgroups, counted from 0."),
        (("--simulate", "--break", "acc", "--wave", "1"), "not-in-kernel", "The kernel has one wave, 0."),
        (("--simulate", "--break", "acc", "--lane", "64"), "not-in-kernel", "has 64 lanes, counted from 0."),
    ],
)
def test_what_cannot_be_shown_is_told(
    wavespec: Command, small: Path, options: tuple[str, ...], code: str, words: str
) -> None:
    result = wavespec("run", small, "--target", "gfx942", *options)
    assert result.code == 2 and f"error[{code}]: " in result.err and words in result.err
