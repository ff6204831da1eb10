"""`repeat`: a loop over no dim, with values carried from step to step."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wavespec.diagnostics import WavespecError
from wavespec.ir.expr import Expr, const, maximum, symbol
from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.ops.index_map import evaluate
from wavespec.ops.iterate import loop_to_tile
from wavespec.schema.language.expressions import Compare, Num
from wavespec.schema.ops import Repeat

if TYPE_CHECKING:
    import torch

_MOST_WRITTEN_OUT = 256


class ReferenceTooLong(WavespecError, code="reference-too-long"):
    def __init__(self, statement: Repeat) -> None:
        super().__init__(
            statement.where("steps"),
            f"Calls of torch that stand for this loop are those of all its steps, and it may have more than "
            f"{_MOST_WRITTEN_OUT}.",
            hints=["Compare with torch at sizes for which it has fewer."],
        )


def to_tile(statement: Repeat, context: TileContext) -> None:
    values = context.bound(statement.steps, statement.span_of("steps"))
    steps = maximum(0, context.expressions.place(statement.steps, statement.where("steps"), values))
    last = None if steps.high is None else max(0, steps.high - 1)
    at = symbol(context.fresh(f"step_of_{statement.name}"), 0, max(1, last) if last is not None else None)
    context.symbols.append(at)
    attributes = {"dim": "", "induction": at.args[0], "extent": steps, "step": const(1), "unroll": 1}
    loop_to_tile(statement, context, attributes, functools.partial(_count, statement, at))


def _count(statement: Repeat, at: Expr, body: TileContext) -> None:
    """Give the number of the step its name in the body: a place, and a value."""
    if statement.index is not None:
        value = body.tile(statement.index, (), "i32")
        body.scalars = {**body.scalars, statement.index: at}
        body.add("size", (), (value,), statement.span, node=statement.index, extent=at)
        body.names[statement.index] = value


def reference(statement: Repeat, context: ReferenceContext) -> None:
    """Step by step; elements that the loop has ended for stay as they are.

    Of tensors without data, which are traced, all steps are written out.
    """
    import torch

    for name, first in statement.carry.items():
        context.define(name, context.dims[first], context.names[first])
    step = 0
    while not (over := evaluate(Compare(">=", Num(step), statement.steps), context))[1].all():
        ended = [over] if statement.until is None else [over, evaluate(statement.until, context)]
        holds = _known(ended[-1][1].all())
        if holds:
            break
        if holds is None and step == _MOST_WRITTEN_OUT:
            raise ReferenceTooLong(statement)
        before = {name: context.names[name] for name in statement.carry}
        if statement.index is not None:
            device = next(iter(context.tensors.values())).device
            context.define(statement.index, (), torch.tensor(step, dtype=torch.int32, device=device))
        left = [(dims, ~where) for dims, where in ended]
        context.conditions.extend(left)
        context.run(statement.body)
        del context.conditions[len(context.conditions) - len(left) :]
        for name, value in before.items():
            for where in ended:
                context.names[name] = context.where(where, name, value, context.names[name])
        step += 1
    for name in statement.carry:
        context.define(f"{statement.name}.{name}", context.dims[name], context.names[name])


def _known(holds: torch.Tensor) -> bool | None:
    """Whether something holds; None of a tensor without data."""
    from torch._subclasses.fake_tensor import DataDependentOutputException

    try:
        return bool(holds)
    except DataDependentOutputException:
        return None
