"""Hypothesis profiles: `fast` by default, `HYPOTHESIS_PROFILE=long` for minutes of search; and how many processes run
tests at once."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, Phase, settings

_MOST_WORKERS = 8  # each has torch and a compiler in memory
if "PYTEST_XDIST_WORKER" in os.environ:  # torch's threads would spin on cores that other processes need
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

gc.set_threshold(20_000)  # as the command line does: lowering makes objects, but no cycles

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
_FOUND = (Phase.explicit, Phase.generate)  # shrinking a failure takes minutes: the long profile does it
settings.register_profile(
    "fast", max_examples=25, deadline=None, derandomize=True, phases=_FOUND, suppress_health_check=_SLOW
)
settings.register_profile("long", max_examples=1500, deadline=None, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means."""
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))
