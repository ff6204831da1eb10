"""What tests of kernels on this machine's CPU share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wavespec.pipeline import best_variant
from wavespec.targets.machine import Machine


@pytest.fixture(scope="module")
def one_variant() -> Iterator[None]:
    """Projects are built for the variant alone that runs here: a quarter of the code."""

    def machines(target: str) -> tuple[Machine, ...]:
        return (best_variant(target),)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("wavespec.build_kernels.machines", machines)
        yield
