"""How far tiles along a dim of the grid have something to do: carried on to what walks over them."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    context.build.add("tiles_end", (), (), dim=op["dim"], extent=op["extent"])
