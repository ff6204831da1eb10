"""The loop of a consumer whose waves lay down both operands of its product in; the loop in which a step is decoded
beside the product of the step before, out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs
from wavespec.ir.thread_ops import FENCE_ASYNC, MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, STORE

_MEMORIES = ("a_memory", "b_memory")
_BUFFERS = 2


def decode_ahead(
    kernel: Kernel, loop: Op, ops: Sequence[Op], step: Expr, release: Op, fresh: Callable[[str], str]
) -> tuple[Op, Op] | None:
    """The loop, and the wait for the product of its last step; None for loops of another kind.

    ``ops``: those of a step, the wait for its product last.  A step fills the buffer that the product of the step
    before does not read, awaits that product, and issues its own, which is in flight from there to the same place of
    the next step.  Between the two all waves meet, so that nobody fills what others still multiply, and then the
    step's tiles have been read: ``release``.
    """
    *before, wait = ops
    own = {op["memory"] for op in before if op.is_(STORE)}
    read = {op.get(memory) for op in before if op.is_(MMA_ASYNC) for memory in _MEMORIES}
    fences = [number for number, op in enumerate(before) if op.is_(MMA_FENCE)]
    if not own or read != own or len(fences) != 1 or not wait.is_(MMA_WAIT):
        return None
    if any(kernel.memory(name).buffers != _BUFFERS for name in own) or not _carries(loop, wait):
        return None
    product = before[fences[0] :]
    if any(not op.is_(MMA_FENCE, MMA_ASYNC, MMA_COMMIT) for op in product):
        return None
    in_flight = {result.name: value for result, value in zip(wait.results, wait.operands, strict=True)}
    carried = [
        argument
        for argument, value in zip(loop.body.arguments, loop.body.yields, strict=True)
        if value.name in in_flight
    ]
    awaited = {value.name: replace(value, name=fresh(value.name)) for value in carried}
    last = _waiting(wait, carried, list(awaited.values()))
    decoding = [_of_buffer(op, own, step % _BUFFERS) for op in before[: fences[0]]]
    fence = [op for op in decoding if op.is_(FENCE_ASYNC)][-1:]
    decoding = [op for op in decoding if not op.is_(FENCE_ASYNC)]
    issued = [
        replace(op, operands=tuple(awaited.get(value.name, value) for value in op.operands))
        for op in (_of_buffer(op, own, step % _BUFFERS) for op in product)
    ]
    yields = tuple(in_flight.get(value.name, value) for value in loop.body.yields)
    results = {
        result.name: replace(result, name=fresh(result.name))
        for result, value in zip(loop.results, loop.body.yields, strict=True)
        if value.name in in_flight
    }
    region = Region(loop.body.arguments, (*decoding, *fence, last, *issued, release), yields)
    changed = replace(loop, results=tuple(results.get(one.name, one) for one in loop.results), region=region)
    ended = [value for value in loop.results if value.name in results]
    return changed, _waiting(wait, list(results.values()), ended)


def _carries(loop: Op, wait: Op) -> bool:
    """Whether what a step waits for is what it hands to the next."""
    return {value.name for value in wait.results} <= {value.name for value in loop.body.yields}


def _waiting(wait: Op, operands: Sequence[Value], results: Sequence[Value]) -> Op:
    pending = attribute_pairs({"pending": 0})
    return replace(wait, operands=tuple(operands), results=tuple(results), attributes=pending)


def _of_buffer(op: Op, own: set[str], index: Expr) -> Op:
    """The operation in the step's buffer of what these waves fill."""
    if op.is_(STORE) and op["memory"] in own:
        return op.with_(buffer=index)
    if op.is_(MMA_ASYNC):
        return op.with_(a_buffer=index, b_buffer=index)
    return op
