"""Maxima pass over NaN where the results are NaN anyway, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.ir.kernel import Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

TEXT = (Path(__file__).parents[2] / "specs" / "attention.wave.yaml").read_text(encoding="utf-8")


def skipping(text: str, target: str = "gfx942") -> list[Op]:
    (machine,) = machines(target)
    return [op for op in lower(loads(text), machine, after="skip-nan").walk() if op.get("skips_nan")]


def test_maxima_of_scores_pass_over_nan_that_weights_have() -> None:
    assert [op.name for op in skipping(TEXT)] == ["reduce", "elementwise", "elementwise"]


def test_machines_without_a_cheaper_maximum_stay_as_they_are() -> None:
    assert not skipping(TEXT, "sm_90")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  - {write: rounded, to: o}\n", "  - {write: rounded, to: o}\n  - {write: steps.largest, to: most}\n"),
        ("weight: {cast: power,", 'safe: "where(power > 0, power, 0)"\n        - weight: {cast: safe,'),
    ],
    ids=["a maximum is written", "weights lose NaN"],
)
def test_maxima_whose_nan_would_be_lost_keep_it(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    if "most" in new:
        text = text.replace(
            "role: output}\n", "role: output}\n  most: {shape: [B, H, M], dtype: f32, role: output}\n", 1
        )
    assert text != TEXT and not skipping(text)
