"""The order of the tiles of a dim: which one the workgroup at each place of its axis computes."""

from __future__ import annotations

from wavespec.ir.expr import Expr, symbol

INDEX = symbol("tile.index", 0, None)
"""Stands for the place of a workgroup among those along the dim."""
COUNT = symbol("tile.count", 1, None)
"""Stands for the number of tiles of the dim."""


def tile_at(order: Expr | None, index: Expr, count: Expr) -> Expr:
    """The tile of the workgroup at ``index`` of ``count``; ``order`` is of `INDEX` and `COUNT`, None the same order."""
    if order is None:
        return index
    return order.substitute({INDEX.args[0]: index, COUNT.args[0]: count})
