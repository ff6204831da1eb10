"""Work that makes trees and no cycles goes in; it is done while Python's garbage collector is off."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Generator[None]:
    """Leave cycles of objects alone meanwhile: all that passes make is a tree of immutable nodes, which Python walks
    over and over for the few cycles beside it, a quarter of the time that lowering takes.  Around many kernels it also
    saves the walk at the end of each, and processes that are forked inside inherit it."""
    was_on = gc.isenabled()
    if was_on:
        gc.collect(1)  # what is garbage by now would go to the oldest generation too, which is looked at very rarely
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():
                # To the oldest generation: as the youngest one, all that was made would be walked over at once.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
