"""What a terminal gets to see: colours where they are wanted, and no characters that it would obey."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command
from wavespec.cli.terminal import print_diagnostics
from wavespec.diagnostics import WavespecError
from wavespec.schema import loads

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **environment: str) -> tuple[str, str]:
    """A diagnostic on that stream, and the same without colours."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WavespecError) as caught:
        loads(SMALL.replace("shape: [M, K]", "shape: [M, Z]"), "small.wave.yaml")
    monkeypatch.setattr(sys, "stderr", stream)
    print_diagnostics(caught.value.diagnostics)
    return stream.getvalue(), f"{caught.value}\n"


def test_diagnostics_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text, plain = printed(monkeypatch, Terminal())
    assert COLOUR.sub("", text) == plain
    assert "\x1b[1;31merror[undefined-name]:\x1b[0m" in text and re.search(r"\| +\x1b\[1;31m\^+", text)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    text, plain = printed(monkeypatch, Terminal(), **environment)
    assert text == plain


def test_files_get_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    text, plain = printed(monkeypatch, io.StringIO(), NO_COLOR="")
    assert text == plain


@pytest.mark.parametrize(
    "command", [("check",), ("check", "--fast"), ("run",), ("show",), ("expand",), ("build", "-o", "out")]
)
def test_names_of_files_are_not_obeyed(
    wavespec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    broken, missing = (Path(f"\x1b[31m{name}.wave.yaml") for name in ("broken", "missing"))
    broken.write_text(SMALL.replace("name: small", "nam: small"))
    for file in (broken, missing):
        result = wavespec(*command, file)
        assert result.code == 2 and "\\x1b[31m" in result.err
        assert "\x1b" not in result.out + result.err


def test_a_file_that_is_right_is_named_as_well(wavespec: Command, tmp_path: Path) -> None:
    file = tmp_path / "\x1b[31m.wave.yaml"
    file.write_text(SMALL)
    result = wavespec("check", "--fast", file)
    assert result.code == 0 and result.out.endswith("\\x1b[31m.wave.yaml: ok\n")
