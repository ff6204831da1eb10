"""A loop whose lanes load what its steps take themselves goes in; the loop in which each step loads what the next one
takes, and the first step's loads in front of it, come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import substituted
from wavespec.ir.thread_ops import DOT, LET, LOAD, MMA, MMA_ASYNC
from wavespec.schedule.prefetch import words


def loads_of_its_own(kernel: Kernel, loop: Op) -> tuple[Op, ...]:
    """Loads of a step, of inputs, at places that follow from the step, as does whether these are in the tensor.

    Beside products, those that no other workgroup makes, whose places follow from the number of the workgroup as well.
    What all of them load waits in a cache, and need not be loaded ahead; nor need what other loops of the kernel take.
    """
    inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
    at, made = loop["induction"], {name for op in loop.body.ops if op.get("symbol") for name in [op["symbol"]]}
    workgroup = {f"wg{axis}" for axis in range(len(kernel.grid))}
    has_products = any(op.is_(MMA) for op in loop.body.ops)
    if loop.get("once") or (not has_products and any(op.is_(MMA, MMA_ASYNC, DOT) for op in kernel.walk())):
        return ()

    def is_own(op: Op) -> bool:
        symbols = op["offset"].symbols
        is_for_one = not has_products or not workgroup.isdisjoint(symbols)
        return op["memory"] in inputs and at in symbols and is_for_one and made.isdisjoint(op.symbols)

    return tuple(op for op in loop.body.ops if op.is_(LOAD) and not op.operands and is_own(op))


def steps_ahead(loop: Op, loads: Sequence[Op], stages: int, limit: int | None) -> int:
    """How many steps later those are that loads are for.

    Beside products, whose registers others would take, one.  Else so many that each of ``stages`` has a step, as far as
    half of the registers of a lane, ``limit``, hold what waits.
    """
    if any(op.is_(MMA) for op in loop.body.ops):
        return 1
    of_step = max(1, sum(words(op.result) for op in loads))
    room = limit // 2 - sum(map(words, loop.operands)) if limit else stages * of_step
    return min(stages - 1, max(0, room) // of_step)


class RegistersAhead:
    """The loop, of which some loads work for a later step.

    Behind the last step they load nothing.  What fills the widest access beside products is for this lane alone, and
    passes the first cache by, which has what all workgroups load.

    Args:
        at: what counts the steps.
        distance: how many steps later.
        widest_bits: of an access.
    """

    def __init__(
        self,
        loop: Op,
        at: Expr,
        loads: Sequence[Op],
        fresh: Callable[[str], str],
        *,
        distance: int = 1,
        widest_bits: int,
    ) -> None:
        self.loop, self.at, self.loads, self.fresh = loop, at, loads, fresh
        self.distance, self.widest_bits = distance, widest_bits
        self.has_products = any(op.is_(MMA) for op in loop.body.ops)
        self.symbols: list[Expr] = []

    def ops(self) -> tuple[Op, ...]:
        """What takes the loop's place."""
        loop, body = self.loop, self.loop.body
        lower, upper, step = loop["lower"], loop["upper"], loop["step"]
        following = self.at + step * self.distance
        ahead = self._named(following)
        places = [lower + step * number for number in range(self.distance)]
        first = [self._load(op, place, upper) for place in places for op in self.loads]
        later = [self._load(op, ahead, upper) for op in self.loads]
        waiting = [Value(self.fresh(op.result.name), op.result.type) for op in first[len(self.loads) :]]
        carried = (*(op.result for op in self.loads), *waiting)
        rest = tuple(op for op in body.ops if op not in self.loads)
        let = Op(LET.name, attributes=(("symbol", ahead.args[0]), ("value", following)), span=loop.span)
        region = Region(
            (*body.arguments, *carried),
            (let, *later, *rest),
            (*body.yields, *waiting, *(op.result for op in later)),
        )
        ends = tuple(Value(self.fresh(value.name), value.type) for value in carried)
        operands = (*loop.operands, *(op.result for op in first))
        ahead_loop = replace(loop, operands=operands, results=(*loop.results, *ends), region=region)
        return (*first, ahead_loop.with_(unroll=self.distance) if self.distance > 1 else ahead_loop)

    def _named(self, value: Expr) -> Expr:
        name, low, high, divisor = self.at.args
        beyond = None if high is None else high + self.loop["step"].value * self.distance
        found = symbol(self.fresh(f"{name}_ahead"), low, beyond, divisor)
        self.symbols.append(found)
        return found

    def _load(self, op: Op, at: Expr, end: Expr) -> Op:
        """Of the step at a place, if there is one."""
        moved, vector = substituted(op, {self.at.args[0]: at}), op.result.vector
        said: dict[str, Any] = {} if moved["mask"] else {"idle": True}
        if vector.elements * vector.dtype.bits == self.widest_bits and self.has_products:
            said["cache"] = "streaming"
        result = Value(self.fresh(op.result.name), op.result.type)
        others = (one for one in moved["mask"] if one != (at, end))
        return replace(moved.with_(mask=((at, end), *others), **said), results=(result,))
