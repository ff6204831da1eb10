"""The wheel `wavespec-kernels`: installed into a folder, its kernels run where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SMALL
from wavespec.generate import project_files, write_files
from wavespec.version import __version__

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys
for name in ("iree.compiler", "jinja2", "pydantic", "pydantic_core", "sympy", "yaml", "typer", "rich"):
    sys.modules[name] = None
import torch
from wavespec_kernels.small import small
assert torch.equal(small(torch.ones(5, 8).half(), torch.ones(3, 8).half()), torch.full((5, 3), 8.0))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one kernel, with its binaries."""
    root = tmp_path_factory.mktemp("project")
    (root / "specs").mkdir()
    (root / "specs" / "small.wave.yaml").write_text(SMALL)
    write_files(project_files(root), root)
    shutil.copytree(ROOT / "kernels", root / "kernels")
    (root / "wavespec").symlink_to(ROOT / "wavespec")
    return root


def installed(project: Path, folder: Path, targets: str) -> subprocess.CompletedProcess[str]:
    """`pip install` of the wheel for some targets into a folder."""
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(project / "kernels")]
    environment = {**os.environ, "WAVESPEC_KERNELS": targets}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=300)


def test_kernels_of_the_wheel_run_without_a_compiler(project: Path, tmp_path: Path) -> None:
    result = installed(project, tmp_path / "site", "cpu")
    assert result.returncode == 0, result.stderr
    names = {path.name for path in (tmp_path / "site" / "wavespec_kernels" / "small.artifacts").iterdir()}
    assert "cpu.json" in names and all(name.startswith("cpu.") for name in names)
    assert (tmp_path / "site" / f"wavespec_kernels-{__version__}+cpu.dist-info").is_dir()
    environment = {**os.environ, "WAVESPEC_CACHE": "0", "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, check=True, timeout=120)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [("sm_90", "small.artifacts/sm_90.ptx is missing"), ("gfx9999", "nothing is built for that")],
)
def test_a_wheel_without_binaries_is_not_built(project: Path, tmp_path: Path, targets: str, problem: str) -> None:
    (project / "generated" / "small.artifacts" / "sm_90.ptx").unlink(missing_ok=True)
    result = installed(project, tmp_path / "site", targets)
    assert result.returncode != 0 and problem in result.stderr + result.stdout
