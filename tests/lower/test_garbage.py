"""What passes make is gone when nobody has it: nothing of it refers to itself."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from wavespec.collector import without_collecting
from wavespec.ir.kernel import Op
from wavespec.lower.contracts import CHECK_PASSES
from wavespec.pipeline import emit
from wavespec.schema import load
from wavespec.targets import machines

SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_operations_are_gone_without_a_search_for_cycles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # ``check`` and ``generate`` lower hundreds of kernels with the collector off; what it would have to look for in
    # the largest ones took a seventh of their time.
    monkeypatch.setenv(CHECK_PASSES, "0")
    spec, machine = load(SPECS / "gemm.wave.yaml"), machines(target)[0]
    emit(spec, machine)  # fills caches
    gc.disable()
    gc.freeze()  # what there is by now is looked at no more
    try:
        emit(spec, machine)
        assert not [one for one in gc.get_objects() if type(one) is Op]
    finally:
        gc.unfreeze()
        gc.enable()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_before_is_gone_when_lowering_begins() -> None:
    # All that is there behind a lowering counts as old, which Python looks at when there is a quarter more of it: in
    # a process that lowers kernel after kernel never, whatever large things the few cycles in between refer to.
    garbage = weakref.ref(Cycle())
    with without_collecting():
        assert garbage() is None
