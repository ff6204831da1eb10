"""The second walk over a row fetches the next one."""

from __future__ import annotations

from pathlib import Path

from tests.lower.gemms import CPU, NVIDIA, Gemm
from wavespec.ir.kernel import Op
from wavespec.pipeline import lower
from wavespec.schema import load, spec_for_target
from wavespec.targets.machine import Machine

SPECS = Path(__file__).parents[2] / "specs"


def hints(name: str, machine: Machine) -> list[list[Op]]:
    kernel = lower(spec_for_target(load(SPECS / f"{name}.wave.yaml"), machine.target), machine, after="fetch-ahead")
    loops = [op for op in kernel.walk() if op.name == "for" and op["induction"] == "at_N"]
    return [[op for op in loop.body.ops if op.name == "prefetch"] for loop in loops]


def test_second_walk_over_a_row_announces_the_next_one() -> None:
    places = hints("softmax", CPU)
    assert [len(found) for found in places] == [0, 0, 4, 0, 0, 0], (
        "of the maximum, the sum, the results and their edges"
    )
    last = "min(min(M - wg0*16, 16) - 1, wave_M + 1)"
    assert all(op["memory"] == "x" and last in str(op["offset"]) for op in places[2])


def test_what_is_read_once_or_by_waves_that_run_together_is_not_announced() -> None:
    assert not any(op.name == "prefetch" and op["memory"] in "ab" for op in Gemm("f32").lowered(CPU, "").walk())
    assert not any(hints("softmax", NVIDIA))
