"""Functions of Python that are machine code do what they say on aarch64, too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.aarch64 import functions
from tests.aarch64.emulated import ROOT, needs_emulator


@needs_emulator
@pytest.mark.rare
def test_machine_code_of_another_processor_is_right() -> None:
    command = ["qemu-aarch64", "-cpu", "max", "-L", ROOT, ROOT / "usr/bin/python3", "-S", functions.__file__]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("right\n", "")
