"""Steps of loops that join scores have the width of the instruction that multiplies them, where tile registers do."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.ir.tile_ops import MMA
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

VARIANTS = {machine.variant: machine for machine in machines("cpu")}
TEXT = (Path(__file__).parents[2] / "specs" / "attention.wave.yaml").read_text(encoding="utf-8")


def steps(variant: str, text: str = TEXT) -> tuple[int, set[str]]:
    """Keys of a step, and the instructions of both products."""
    kernel = lower(loads(text), VARIANTS[variant], after="narrow-steps")
    (keys,) = (split.tile for split in kernel.distribution.loops if split.dim == "N")
    return keys, {op["instruction"] for op in kernel.walk() if op.is_(MMA)}


def test_scores_in_tile_registers_are_one_instruction_wide_and_have_few_rows() -> None:
    assert steps("x86_64_amx") == (64, {"amx_bf16_16x64x32"})


@pytest.mark.parametrize("variant", ["x86_64_v4_bf16", "x86_64_v3"])
def test_steps_stay_as_they_are_where_vector_registers_hold_sums(variant: str) -> None:
    assert steps(variant)[0] == 128


def test_steps_of_no_whole_number_of_instructions_stay() -> None:
    keys, _ = steps("x86_64_amx", TEXT.replace("BLOCK_N: 128, WAVE_M: 192", "BLOCK_N: 32, WAVE_M: 192"))
    assert keys == 32
