"""A loop and a plan in; the loop with steps overlapping, and what runs before and after it, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wavespec.ir.expr import Expr, at_most, const, less, maximum, minimum, symbol
from wavespec.ir.kernel import Op, Region, Value
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import substituted
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    ASYNC_COMMIT,
    ASYNC_WAIT,
    ATOMIC,
    BIND,
    COPY_ASYNC,
    LOAD,
    LOAD_MATRIX,
    LOAD_TILE,
    MMA,
    MOVES,
    STORE,
)
from wavespec.schedule.feeding import bound_symbols, symbols_of, used_values
from wavespec.schedule.loop_plan import LoopPlan

_MOVES = MOVES | LOAD | LOAD_MATRIX | LOAD_TILE


class SoftwarePipeline:
    """Rewrites one loop after a `LoopPlan`.

    Round t of the new loop runs stage s for step t - s; the first rounds, in which only early stages have a step,
    stand before the loop.  There is no epilogue: the last rounds run early stages for steps that do not exist.
    What these load is zeros (``mask``), or, where the hardware checks ranges and no sum sees it, whatever is there
    at the last step that exists (docs/decisions/0013); to tensors they write nothing.  A value that crosses rounds is
    carried by the loop; a symbol that stands for one is bound anew in front of who uses it, since steps of several
    rounds use it at a time.
    """

    def __init__(
        self,
        loop: Op,
        at: Expr,
        plan: LoopPlan,
        fresh: Callable[[str], str],
        symbols: Sequence[Expr] = (),
        *,
        range_checked: bool = False,
    ) -> None:
        self.loop, self.at, self.plan, self.fresh = loop, at, plan, fresh
        self.ops = loop.body.ops
        self.lower, self.upper, self.step = loop["lower"], loop["upper"], loop["step"]
        self.induction = loop["induction"]
        body = loop.body
        self.maker = {value.name: number for number, op in enumerate(self.ops) for value in op.results}
        self.made = {value.name: value for op in self.ops for value in op.results}
        asked = loop.symbols
        self.bound = {name: value for name, value in bound_symbols(self.ops).items() if name not in asked}
        self.known = {known.args[0]: known for known in symbols if known.args[0] in self.bound}
        self.standing: dict[tuple[str, str], Expr] = {}
        """By symbol and value: the symbol that stands for it in the block that is being written."""
        self.symbols: dict[str, Expr] = {}
        """What stands for values in the pipelined loop and before it."""
        self.uses = [used_values(op, self.bound) for op in self.ops]
        self.asked = [_named(op, self.bound) for op in self.ops]
        """By operation: the symbols that stand for values which it names."""
        self.lines = {name: [name] for name in self.made}
        """By result: the lines that it is in."""
        self.before: dict[str, str] = {}
        """By argument: the line of values that it continues, which has the name of the result that is yielded; the
        argument's own where another one continues that already, from another start."""
        for argument, value in zip(body.arguments, body.yields, strict=True):
            line = argument.name if value.name in self.before.values() else value.name
            self.before[argument.name] = line
            if line != value.name:
                self.lines[value.name].append(line)
                self.maker[line], self.made[line] = self.maker[value.name], value
        self.first = {a.name: v for a, v in zip(body.arguments, loop.operands, strict=True)}
        last = plan.stages - 1
        sums = {self.maker[value.name] for value in body.yields} | {n for n, op in enumerate(self.ops) if op.is_(MMA)}
        self.whole_rounds = plan.unroll == 1 or _are_whole(self.upper - self.lower, self.step * plan.unroll)
        self.sums_beyond_end = not self.whole_rounds or any(plan.stage[number] < last for number in sums)
        self.repeats = range_checked and not self.sums_beyond_end

    def pipelined(self) -> tuple[Op, ...]:
        """The operations that take the loop's place."""
        before: list[Op] = []
        history: dict[tuple[str, int], Value] = {}
        for round_ in range(self.plan.stages - 1):
            self._round(before, round_, history, prologue=True)
        slots = self._slots()
        self.standing.clear()
        carried = {slot: replace(self.made[slot[0]], name=self.fresh(slot[0])) for slot in slots}
        inits = [self._initial(name, age, history) for name, age in slots]
        ops: list[Op] = []
        inside = {(name, -age): value for (name, age), value in carried.items()}
        for round_ in range(self.plan.unroll):
            self._round(ops, round_, inside, prologue=False)
            ops += [added for at, added in self.plan.between if at == len(self.plan.order)]
        yields = tuple(inside[name, self.plan.unroll - age] for name, age in slots)
        results = {slot: replace(carried[slot], name=self.fresh(slot[0])) for slot in slots}
        results.update({(line, 1): old for line, old in zip(self.before.values(), self.loop.results, strict=True)})
        region = Region(tuple(carried.values()), tuple(ops), yields)
        attributes = {"step": self.step * self.plan.unroll}
        loop = replace(
            self.loop.with_(**attributes), operands=tuple(inits), results=tuple(results.values()), region=region
        )
        return (*before, *self.plan.around[0], loop, *self._drain(), *self.plan.around[1])

    def _drain(self) -> list[Op]:
        """What lands the copies that the last rounds have issued, those behind the last commit included."""
        place = {number: at for at, number in enumerate(self.plan.order)}
        copies, commits, waits = (
            [number for number, op in enumerate(self.ops) if op.is_(which)]
            for which in (COPY_ASYNC, ASYNC_COMMIT, ASYNC_WAIT)
        )
        behind = [self.ops[one] for one in commits if any(place[copy] > place[one] for copy in copies)]
        return [*behind, *(self.ops[one].with_(pending=0) for one in waits)]

    def zeros_change_nothing(self) -> bool:
        """Whether a step that loads zeros leaves what the loop carries as it is: sums of products of what is loaded."""
        return all(self.ops[self.maker[value.name]].is_(MMA) for value in self.loop.body.yields) and all(
            self._is_moved(op.operands[0]) + self._is_moved(op.operands[1]) > 0 for op in self.ops if op.is_(MMA)
        )

    def _is_moved(self, value: Value) -> float:
        """1 for what is zero where zeros are loaded, 0 for another number, less than nothing for any value at all."""
        number = self.maker.get(value.name)
        if number is None:
            return 0
        op = self.ops[number]
        if not op.is_(_MOVES):
            return float("-inf")
        least = min((self._is_moved(operand) for operand in op.operands), default=1)
        return min(least, 0) if op.get("bias") else least

    # ------------------------------------------------------------------------------------------------ values in time

    def _age(self, value: Value, user: int) -> tuple[str, int] | None:
        """The line that an operand is of and how many rounds old it is; None: it is from outside."""
        name = self.before.get(value.name, value.name)
        if name not in self.maker:
            return None
        return name, self.plan.stage[user] - self.plan.stage[self.maker[name]] + (value.name in self.before)

    def _slots(self) -> list[tuple[str, int]]:
        """What the loop carries: lines by how many rounds old they are; first what it carried before."""
        needed = dict.fromkeys(self.before.values(), 1)
        for number, values in enumerate(self.uses):
            for value in values:
                if (made := self._age(value, number)) is not None:
                    needed[made[0]] = max(needed.get(made[0], 0), made[1])
        return [(name, age) for name, oldest in needed.items() for age in range(1, oldest + 1)]

    def _initial(self, name: str, age: int, history: Mapping[tuple[str, int], Value]) -> Value:
        round_ = self.plan.stages - 1 - age
        if (name, round_) in history:
            return history[name, round_]
        return next(self.first[argument] for argument, line in self.before.items() if line == name)

    # ------------------------------------------------------------------------------------------------------- a round

    def _round(self, into: list[Op], round_: int, history: dict[tuple[str, int], Value], *, prologue: bool) -> None:
        """One round: before the loop it is the ``round_``-th of all, inside the ``round_``-th of an iteration."""
        last = self.plan.stages - 1
        for place, number in enumerate(self.plan.order):
            stage, op = self.plan.stage[number], self.ops[number]
            if prologue and stage > round_:
                continue
            if not prologue:
                into += [replace(added, span=op.span) for at, added in self.plan.between if at == place]
            if op.is_(BIND) and op["symbol"] in self.bound:
                continue
            ahead = round_ - stage if prologue else last - stage + round_
            position = (self.lower if prologue else self.at) + self.step * ahead
            exists = stage == last and self.whole_rounds and not prologue
            moved = self._at(op, position, exists=exists, inside=not prologue)
            if op.is_(ASYNC_WAIT):
                moved = moved.with_(pending=self._pending(number))
            operands = tuple([self._operand(value, number, round_, history, prologue) for value in op.operands])
            asked = self.asked[number]
            held = {name: self._operand(self.bound[name], number, round_, history, prologue) for name in asked}
            moved = substituted(moved, self._bind(into, held, op))
            results = tuple([Value(self.fresh(value.name), value.type) for value in op.results])
            for old, new in zip(op.results, results, strict=True):
                history.update({(line, round_): new for line in self.lines[old.name]})
            into.append(replace(moved, operands=operands, results=results))

    def _bind(self, into: list[Op], held: Mapping[str, Value], user: Op) -> dict[str, Expr]:
        """Symbols for values that a user of other symbols means; those that do not stand for them yet are bound."""
        for name, value in held.items():
            if (name, value.name) not in self.standing:
                known = self.known[name]
                new = known if name not in self.symbols else symbol(self.fresh(name), *known.args[1:])
                self.symbols[new.args[0]] = self.standing[name, value.name] = new
                into.append(Op("bind", (value,), attributes=(("symbol", new.args[0]),), span=user.span))
        return {name: self.standing[name, value.name] for name, value in held.items()}

    def _operand(
        self, value: Value, user: int, round_: int, history: Mapping[tuple[str, int], Value], prologue: bool
    ) -> Value:
        made = self._age(value, user)
        if made is None:
            return value
        name, age = made
        if prologue and round_ - age < self.plan.stage[self.maker[name]]:  # of a step before the first
            return self.first[value.name]
        return history[name, round_ - age]

    def _pending(self, wait: int) -> int:
        """Groups that were closed behind the one that is awaited."""
        commit = next(number for number, op in enumerate(self.ops) if op.is_(ASYNC_COMMIT))
        order, stage = self.plan.order, self.plan.stage
        return stage[wait] - stage[commit] - (order.index(wait) < order.index(commit))

    def _at(self, op: Op, position: Expr, *, exists: bool, inside: bool) -> Op:
        """The operation for the step at ``position``, which may not exist unless ``exists``; ``inside``: the loop has
        a step."""
        place, bound = position, position
        loads = op.is_(COPY_ASYNC) or (op.is_(LOAD) and op["memory"] not in self.plan.buffers)
        writes = op.is_(STORE, ATOMIC, ACCUMULATE) and op["memory"] not in self.plan.buffers
        if self.repeats and not exists and loads:
            # The last step that exists, again; a mask only where there may be none at all.
            place, bound = self._last_or(position), self.lower
            exists = inside or less(self.lower, self.upper)
        moved = substituted(op, {self.induction: place})
        if op.get("memory") in self.plan.buffers:
            count = self.plan.buffers[op["memory"]]
            moved = moved.with_(buffer=(position // self.step) % count if count > 1 else const(0))
        if exists or not (loads or writes):
            return moved
        bounded = any(right is self.upper and at_most(bound, left) for left, right in moved["mask"])
        return moved if bounded else moved.with_(mask=((bound, self.upper), *moved["mask"]))

    def _last_or(self, position: Expr) -> Expr:
        """The position, or that of the last step that exists where it is beyond."""
        steps, step = self.upper - self.lower, self.step
        last = self.upper - step if _are_whole(steps, step) else self.lower + (steps - 1) // step * step
        return minimum(position, last if less(self.lower, self.upper) else maximum(self.lower, last))


def _are_whole(extent: Expr, step: Expr) -> bool:
    """Whether steps surely end where the extent does."""
    return step.is_const and extent.divisor % step.value == 0


def _named(op: Op, bound: Mapping[str, Value]) -> list[str]:
    """The symbols that an operation names, of those."""
    named = symbols_of(op) if bound else ()
    return [name for name in bound if name in named]
