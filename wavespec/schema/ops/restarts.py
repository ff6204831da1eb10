"""Joining the elements along a dim goes in; out comes the report that a loop over it would forget the steps before."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.ops.base import Scope, ValueOp


class RestartsEachStep(WavespecError, code="restarts-each-step"):
    def __init__(self, where: Where, word: str, dim: str, hint: str) -> None:
        super().__init__(
            where,
            f"Without 'init', {quote(word)} starts again in every step of the loop over {quote(dim)}: "
            "what the steps before have made is lost.",
            hints=[hint],
        )


class NotWalkedBackwards(WavespecError, code="not-walked-backwards"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"The loop over {quote(dim)} comes to its last tile last, where 'reverse' starts.",
            hints=["Leave out the loop: a workgroup then has all of the dim. Or read places the other way round."],
        )


def check_carries_on(op: ValueOp, scope: Scope, dims: tuple[str, ...], starts: str) -> None:
    """Report an `op` along ``dims`` that redefines a value carried by a loop over one of them; ``starts``: its `init`.

    One that makes a value of its own is a part, which others may join to what is carried.
    """
    for dim in dims:
        if scope.is_carried(op.name, dim):
            hint = f"Write 'init: {starts}', or give the part of one step a name that is not carried."
            scope.report(RestartsEachStep(op.where_key("name"), op.word, dim, hint))
