"""Fixtures of the command line tests: a command, and a small spec in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command


@pytest.fixture(scope="session")
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def wavespec(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cache_directory: Path, tmp_path: Path
) -> Command:
    monkeypatch.setenv("WAVESPEC_CACHE_DIR", str(cache_directory))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A spec that builds fast, in the working directory of the commands."""
    path = tmp_path / "small.wave.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return Path(path.name)
