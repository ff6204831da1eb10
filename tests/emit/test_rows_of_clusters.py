"""What stands in front of the loads of a row that a cluster shares."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.test_meet_once import ROWS, SHARED
from wavespec.pipeline import emit
from wavespec.schema import loads


def in_front_of_rows(workgroups: str) -> str:
    text = ROWS.replace("resident: 2", workgroups).replace("max: 1024", "max: 4096")
    module = emit(loads(text, "rows.wave.yaml"), NVIDIA).text
    return module.partition("llvm.load")[0]


def test_rows_are_on_their_way_before_all_waves_have_begun() -> None:
    """Signals are used by the wave that makes them, or behind the wait for the cluster in front of what is sent."""
    text = in_front_of_rows(SHARED)
    assert "nvvm.cluster.arrive" in text
    assert "nvvm.barrier" not in text and "nvvm.cluster.wait" not in text


def test_workgroups_that_stay_meet_first() -> None:
    assert "nvvm.cluster.wait" in in_front_of_rows(f"persistent: true, count: 1, {SHARED}")
