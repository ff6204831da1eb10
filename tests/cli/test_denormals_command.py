"""`wavespec run` of a kernel that may take small numbers for 0: results with and without them are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command
from tests.ops.test_denormals import SMALL, SPEC


@pytest.mark.compiles
def test_a_run_knows_both_truths(wavespec: Command, tmp_path: Path) -> None:
    path, numbers = tmp_path / "scaled.wave.yaml", tmp_path / "x.npy"
    np.save(numbers, np.array(SMALL[:3] + SMALL[4:7] + [1e-39, 3e-39], np.float32))
    for how in ("flush", "keep"):
        path.write_text(SPEC.replace("denormals: flush", f"denormals: {how}"), encoding="utf-8")
        result = wavespec("run", path, "--input", f"x={numbers}", "--repeats", "1")
        assert result.code == 0, result.out + result.err
        result = wavespec("run", path, "--input", f"x={numbers}", "--simulate", "--target", "sm_90")
        assert result.code == 0, result.out + result.err
