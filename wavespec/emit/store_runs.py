"""Stores whose vectors may stick out of a row, run by run: one test that all lanes share, two forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wavespec.emit.function import Function
from wavespec.ir.kernel import Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import CAST, SLICE, STORE


class Forms(NamedTuple):
    """Where ``test`` holds for all lanes, ``whole`` writes the stores of vectors; else ``apart`` those of elements.
    Without a test ``whole`` is for all sizes."""

    test: Mask
    whole: Callable[[], None]
    apart: Callable[[], None]


class StoreRuns:
    """Finds the runs.  What is computed between the stores of one is computed before them."""

    def __init__(self, function: Function, forms: Callable[[Sequence[Op]], Forms]) -> None:
        self.function, self.forms = function, forms

    def run(self, ops: Sequence[Op], start: int) -> int:
        if ops[start]["valid"] is None:
            return start
        stop = next((at for at in range(start, len(ops)) if not self._goes_on(ops[at])), len(ops))
        stores = [op for op in ops[start:stop] if op.is_(STORE)]
        self.function.block([op for op in ops[start:stop] if not op.is_(STORE)])
        self.function.text.span = stores[0].span
        forms = self.forms(stores)
        if not forms.test:
            forms.whole()
            return stop
        condition = self.function.indices.holds(forms.test)
        lines = [self.function.nested(form) for form in (forms.whole, forms.apart)]
        self.function.text.branch(condition, *lines)
        return stop

    def _goes_on(self, op: Op) -> bool:
        return op.is_(SLICE, CAST) or (op.is_(STORE) and self.function.memory_of(op).space == "global")
