"""A class in; the methods that it has for operations, by the names of both, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wavespec.ir.declarations import Declarations


def methods_of(owner: type, ops: Declarations) -> Mapping[str, Callable[..., Any]]:
    """For each operation that the class has a method for, that method: ``_load`` for ``load``."""
    found = ((one.name, getattr(owner, f"_{one.name}", None)) for one in ops.all())
    return {name: method for name, method in found if method is not None}
