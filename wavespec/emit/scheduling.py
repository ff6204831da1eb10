"""Wishes for the order of instructions, where the compiler behind decides on its own: nothing comes of them."""

from __future__ import annotations

from wavespec.emit.function import Emitter
from wavespec.ir.kernel import Op


class LeftToTheCompiler(Emitter):
    """For machines that wishes are not passed on to."""

    def emit_schedule_fence(self, op: Op) -> None:
        """Operations may be moved across."""

    def emit_schedule_group(self, op: Op) -> None:
        """No number of operations of a kind has to come next."""

    def emit_priority(self, op: Op) -> None:
        """Waves have no priorities."""
