"""`wavespec show`, `schema`, `cache`, and what all commands share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import GEMM, Command
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.contracts import CHECK_PASSES
from wavespec.lower.fold_grid import FoldGrid
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.pipeline import STAGES
from wavespec.version import __version__


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage not in ("mlir", "isa")])
def test_every_stage_prints_a_kernel_that_parses_back(wavespec: Command, small: Path, stage: str) -> None:
    result = wavespec("show", small, "--target", "gfx942", "--after", stage)
    assert (result.code, result.err) == (0, "")
    assert print_kernel(parse_kernel(result.out)) == result.out


def test_mlir_names_the_lines_of_the_spec(wavespec: Command, small: Path) -> None:
    result = wavespec("show", small, "--target", "gfx942", "--after", "mlir")
    assert 'loc("small.wave.yaml":' in result.out
    assert "amdgpu.mfma" in result.out


@pytest.mark.compiles
@pytest.mark.parametrize(("target", "word"), [("gfx942", "v_mfma_f32"), ("sm_90", "mma.sync"), ("cpu", "vfmadd")])
def test_isa_is_assembly(wavespec: Command, small: Path, target: str, word: str) -> None:
    result = wavespec("show", small, "--target", target, "--after", "isa")
    assert result.code == 0
    assert word in result.out


def test_stages_are_listed(wavespec: Command, small: Path) -> None:
    assert wavespec("show", small, "--stages").out.split() == list(STAGES)


def test_contracts_of_passes_are_checked_on_request(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHECK_PASSES, "0")
    monkeypatch.setattr(FoldGrid, "requires", (is_of_tiles,))
    assert wavespec("show", small, "--target", "gfx942").code == 0
    result = wavespec("show", small, "--target", "gfx942", "--check-passes")
    assert result.code != 0
    assert "before pass 'fold-grid', which requires it: kernel 'small': it is at thread level" in " ".join(
        result.err.split()
    )


def test_an_unknown_stage_lists_them(wavespec: Command, small: Path) -> None:
    result = wavespec("show", small, "--after", "assign-tile")
    assert result.code == 2
    assert "--after: error[unknown-stage]: 'assign-tile' is not a stage." in result.err
    assert f"note: The stages are {', '.join(STAGES)}." in result.err
    assert "Did you mean 'assign-tiles'?" in result.err


def test_an_unknown_variant_lists_them(wavespec: Command, small: Path) -> None:
    result = wavespec("show", small, "--variant", "x86_64_v5")
    assert result.code == 2
    assert "error[unknown-variant]: 'x86_64_v5' is not a variant of cpu." in result.err


def test_case_is_chosen_by_number_or_by_sizes(wavespec: Command, small: Path) -> None:
    text = small.read_text()
    case = "  cpu: {params: {BLOCK_M: 24}, cases: [{when: [M <= 8], params: {BLOCK_M: 12}}]}\n"
    small.write_text(text.replace("  cpu: {params: {BLOCK_M: 24}}\n", case))
    few, many = "split workgroup M 12 0", "split workgroup M 24 0"
    assert many in wavespec("show", small).out
    assert few in wavespec("show", small, "--case", "0").out
    assert few in wavespec("show", small, "--dim", "M=8", "--dim", "N=8", "--dim", "K=8").out
    assert many in wavespec("show", small, "--dim", "M=9", "--dim", "N=8", "--dim", "K=8").out
    unknown = wavespec("show", small, "--case", "1")
    assert unknown.code == 2 and "error[unknown-case]: small has case 0 only on cpu, not 1." in unknown.err


def test_schema_is_json_on_stdout_or_in_a_file(wavespec: Command) -> None:
    schema = wavespec("schema").data
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert wavespec("schema", "-o", "kernel.schema.json").code == 0
    assert json.loads(Path("kernel.schema.json").read_text()) == schema


@pytest.mark.compiles
def test_cache_is_counted_and_emptied(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WAVESPEC_CACHE_DIR", str(tmp_path / "cache"))
    wavespec("build", small, "--target", "gfx942", "-o", "out")
    (tmp_path / "cache" / "notes.txt").write_text("mine")
    for name in ("0a" * 32, "mine"):
        (tmp_path / "cache" / "tune" / name).mkdir(parents=True)
    assert wavespec("cache", "info", "--json").data["entries"] == 6, (
        "the kernel, its machine code, and that by its MLIR, for whole rows and for all"
    )
    assert "entries    6\n" in wavespec("cache", "info").out
    assert wavespec("cache", "clear").out == "6 entries deleted\n"
    left = {path.relative_to(tmp_path / "cache").as_posix() for path in (tmp_path / "cache").rglob("*")}
    assert left == {"notes.txt", "tune", "tune/mine"}


def test_no_command_is_the_help(wavespec: Command) -> None:
    result = wavespec()
    assert "Usage: wavespec" in result.out + result.err


def test_an_unknown_command_is_bad_input(wavespec: Command) -> None:
    assert wavespec("biuld").code == 2


def test_an_interrupt_is_exit_code_130(wavespec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wavespec.schema.reading.json_schema.json_schema", interrupted)
    assert wavespec("schema").code == 130


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys; from wavespec.cli import main; main(['--help']); main(['--version'])\n"
        "heavy = {'torch', 'numpy', 'sympy', 'pydantic', 'yaml', 'iree'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(f"wavespec {__version__}")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m wavespec show {GEMM} --target gfx942 --after mlir | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
