"""Hypothesis profiles: `fast` by default, `HYPOTHESIS_PROFILE=random` for other examples each time (`--hypothesis-seed=7`:
those of a time before), `HYPOTHESIS_PROFILE=long` for minutes of search; how many processes run tests at once; and which
of them run when (`rungs.py`).

    make fast       -m "not compiles and not slow and not rare": no machine code, what takes moments
    make test       -m "not rare": also every kernel on every target
    make check      -m "not long", as CI does: also every instruction, function and type by itself
    make long       all
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.rungs import mark_by_seconds

_MOST_WORKERS = 8  # each has torch and a compiler in memory
if "PYTEST_XDIST_WORKER" in os.environ:  # torch's threads would spin on cores that other processes need
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

os.environ.setdefault("WAVESPEC_CHECK_PASSES", "1")  # every lowering; `=0` for figures of time
gc.set_threshold(20_000)  # as the command line does: lowering makes objects, but no cycles

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
_FOUND = (Phase.explicit, Phase.generate)  # shrinking a failure takes minutes: the long profile does it
settings.register_profile(
    "fast", max_examples=16, deadline=None, derandomize=True, phases=_FOUND, suppress_health_check=_SLOW
)
settings.register_profile(
    "random", max_examples=60, deadline=None, print_blob=True, phases=_FOUND, suppress_health_check=_SLOW
)
settings.register_profile("long", max_examples=1500, deadline=None, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


_COMPILING = ("aarch64", "amd", "cpu", "fuzz", "gpu", "independent")
"""Folders of tests that run machine code."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in _COMPILING:
            item.add_marker("compiles")
    mark_by_seconds(items)


def _not_marked(*_: object) -> NoReturn:
    pytest.fail("This test has machine code made: mark it with `compiles`, or the quick tests are not quick.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test without the mark compiles nothing, whether or not the cache would know the code."""
    if item.get_closest_marker("compiles") is not None:
        return (yield)
    with mock.patch("wavespec.emit.compiler._cached", _not_marked):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means."""
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


@pytest.fixture
def tiles_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """For specs that show which elements a step had: what they make depends on the tile, and is refused otherwise."""
    monkeypatch.setattr("wavespec.schema.checking.check_spec.check_loops", lambda _: ())
