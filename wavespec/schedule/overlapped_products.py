"""Loops of a consumer, one going on where another ends, in; out come loops in which the last product of a step runs
beside the first of the next one, and while that is made ready for its own last product."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wavespec.ir.expr import Expr, const, less, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, Region, Value, WaveRoles, attribute_pairs
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread_ops import (
    BROADCAST,
    FOR,
    IF,
    MMA_ASYNC,
    MMA_COMMIT,
    MMA_FENCE,
    MMA_WAIT,
    MOVES,
    SIGNAL_ARRIVE,
    SIGNAL_WAIT,
)
from wavespec.schedule.behind_joins import behind_joins, made_of_joins
from wavespec.schedule.buffer_ring import trips

_SPARE = 2 / 3
"""Of the registers of a lane: what products may take where two rows of steps follow each other.  With more, the
assembler has products wait for each other (heads of 128 take 160 of 216, heads of 64 take 128 of 208)."""
_BUFFER = ("b_buffer", "index", "phase")
"""Attributes that say which buffer is read, awaited or given back."""


def overlapped_products(
    kernel: Kernel, loops: Sequence[Op], registers: int, fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """For each loop the first step of all, if that is one of its own, up to its last product; for each the other steps,
    each with the last product of the step before; and that of the last step.  The loops themselves where they have one
    step, or their products depend on each other in another way, or where that would keep all buffers of a tile.

    Each step ends with the release of its buffer.  In a round the last product of the step before is issued behind the
    first one of this step, and awaited before anything changes what it reads: its sums, and the registers of its
    factor.

    Where a step has one product, whose factor lanes make of what they read, all of the next factor is made beside it,
    in registers of its own, and a round has two steps.

    Loops over several dims that fill the same buffers are one row of steps where their last products are the same: the
    step before the first of one is the last of another.  They stay apart where ``registers`` of a lane suffice for a
    first step beside the sums of the loop before: then waves that multiply in step get out of it there, so that one has
    the matrix unit while another does its arithmetic.
    """
    if not loops:
        return ()
    parts = [tuple(part) for _, part in itertools.groupby(loops, key=lambda loop: loop["induction"])]
    found = _overlapped(kernel, parts, fresh) if len(parts) == 1 or _takes(loops) > registers * _SPARE else None
    if found is None and len(parts) > 1:
        return tuple(op for part in parts for op in overlapped_products(kernel, part, registers, fresh))
    return tuple(loops) if found is None else found


def _takes(loops: Sequence[Op]) -> int:
    """Registers of a lane for the products of a step and the factor that one of them makes."""
    products = [op for op in loops[0].body.ops if op.is_(MMA_ASYNC)]
    sums = {value.name: value for op in loops[0].body.ops if op.is_(MMA_WAIT) for value in op.results}
    factors = {op.operands[0].name: op.operands[0] for op in products if len(op.operands) > 1}
    held = [value.vector for value in (*sums.values(), *factors.values())]
    return sum(vector.elements * vector.dtype.bits // 32 for vector in held)


def _overlapped(kernel: Kernel, parts: Sequence[tuple[Op, ...]], fresh: Callable[[str], str]) -> tuple[Op, ...] | None:
    steps = [[_Step.of(loop) for loop in part] for part in parts]
    known = [step for row in steps for step in row if step is not None]
    if len(known) < sum(map(len, parts)) or len({step.types for step in known}) > 1:
        return None
    last = parts[-1][-1]
    if any(_keeps_all(kernel, step) for step in known) or any(known[0].ends() != step.ends() for step in known):
        return None
    behind, before = list[Expr](), [const(0)]
    for part in parts:
        whole, step = part[-1].with_(lower=part[0]["lower"]), part[0]["step"]
        if less(whole["upper"] - whole["lower"], step + 1):
            return None
        # Its first step is the first of all where there were none before.
        behind.append(whole["lower"] + step - minimum(before[-1], 1) * step)
        before.append(before[-1] + trips(whole))
    starts, writing = parts[0][0].operands, iter(known)
    roles = kernel.distribution.roles

    def written(loop: Op) -> _Loops:
        at = kernel.symbol(loop["induction"])
        return _Loops(next(writing), replace(loop, operands=starts), at, fresh, roles)

    writers = [[written(loop) for loop in part] for part in parts]
    found = [*writers[0][0].starts()]
    carried = writers[0][0].carried(found)
    for row, bound in zip(writers, behind, strict=True):
        for writer in row:
            found.append(writer.first(carried, minimum(bound, writer.loop["upper"])))
            carried = found[-1].results
    for row, bound in zip(writers, behind, strict=True):
        for writer in row:
            lower = bound if writer is row[0] else maximum(writer.loop["lower"], bound)
            others = writer.others(carried, lower)
            found += (others,) if writer.step.issue else _in_pairs(others, writer.at, fresh)
            carried = found[-1].results
    whole = replace(last, operands=starts).with_(lower=parts[-1][0]["lower"])
    writer = _Loops(known[-1], whole, kernel.symbol(whole["induction"]), fresh, roles)
    return *found, writer.last(carried[-len(known[-1].handed) :], before[-2])


def _in_pairs(loop: Op, at: Expr, fresh: Callable[[str], str]) -> tuple[Op, Op]:
    """The loop with two steps a round, so that what one hands to the next stays in its registers; and the step that is
    left, if there is one."""
    distance, names = loop["step"], dict[str, Value]()
    names |= {old.name: new for old, new in zip(loop.body.arguments, loop.body.yields, strict=True)}
    second = [copied(substituted(op, {loop["induction"]: at + distance}), fresh, names) for op in loop.body.ops]
    yields = tuple(names[value.name] for value in loop.body.yields)
    whole = loop["lower"] + trips(loop) // 2 * 2 * distance
    results = tuple(replace(value, name=fresh(value.name)) for value in loop.results)
    region = Region(loop.body.arguments, (*loop.body.ops, *second), yields)
    rounds = replace(loop.with_(upper=whole, step=distance * 2), results=results, region=region)
    rest = copied(replace(loop, operands=results).with_(lower=whole), fresh, {})
    return rounds, replace(rest, results=loop.results)


def _keeps_all(kernel: Kernel, step: _Step) -> bool:
    """Whether the last product reads the tile that the first one reads: two steps then have one each until it is done,
    and of two there is none left to fill meanwhile."""
    first, last = (
        {op[key] for op in ops if op.is_(MMA_ASYNC) for key in ("a_memory", "b_memory") if op.get(key)}
        for ops in (step.issue, step.product)
    )
    return any(kernel.memory(name).buffers == 2 for name in first & last)


def waits_early(op: Op) -> bool:
    """Whether a step of a loop computes behind the wait for its last product with what lanes told each other before."""
    ops = op.body.ops if op.is_(FOR) else ()
    waits = [number for number, one in enumerate(ops) if one.is_(MMA_WAIT)]
    if not waits or not any(one.is_(MMA_ASYNC) for one in ops):  # a loop around has waits of products inside of it
        return False
    last, joined = ops[waits[-1]], made_of_joins(ops[: waits[-1]])
    told = {result.name for value, result in zip(last.operands, last.results, strict=True) if value.name in joined}
    for one in ops[waits[-1] + 1 :]:
        if not told.isdisjoint(_names(one.operands)):
            if not one.is_(MOVES | BROADCAST) and len(one.operands) > 1:
                return True
            told |= _names(one.results)
    return False


def issues_in_parts(op: Op) -> bool:
    """Whether a step of a loop issues products of a group behind a wait that leaves a part of that in flight."""
    ops = op.body.ops if op.is_(FOR) else ()
    waits = [number for number, one in enumerate(ops) if one.is_(MMA_WAIT) and one["pending"]]
    return bool(waits) and any(one.is_(MMA_ASYNC) for one in ops[waits[0] :])


@dataclass(frozen=True, slots=True)
class _Step:
    """The operations of one step, in order."""

    issue: tuple[Op, ...]
    """Up to the first products."""
    give: tuple[Op, ...]
    """What gives the next wave its turn at issuing products, behind all that are issued at a time."""
    middle: tuple[Op, ...]
    """What can run beside the last product of the step before."""
    late: tuple[Op, ...]
    """What cannot: it uses the sums of that, or makes the factor of the next."""
    product: tuple[Op, ...]
    """The last product."""
    wait: Op
    release: Op
    handed: tuple[Value, ...]
    """What the last product uses of the others."""
    added_to: tuple[Value, ...]
    """Those of them that it adds to, for each of its sums: what is carried in their place."""
    guarded: tuple[Value, ...]
    """What ``late`` makes the factor of, or the factor itself where it is made before."""

    @property
    def types(self) -> tuple[object, ...]:
        """Of what one step hands to the next, and which of it is added to."""
        place = [value.name for value in self.handed]
        return tuple(value.type for value in self.handed), tuple(place.index(value.name) for value in self.added_to)

    def ends(self) -> list[object]:
        """The last product, its wait and the release, without names, and without the number of the buffer."""
        names, found = {value.name: number for number, value in enumerate(self.handed)}, list[object]()
        for op in (*self.product, self.wait, *self.release.body.ops):
            attributes = [(key, value) for key, value in op.attributes if key not in _BUFFER]
            found.append((op.name, [names[value.name] for value in op.operands], attributes))
            names |= {value.name: len(names) + number for number, value in enumerate(op.results)}
        return found

    @classmethod
    def of(cls, loop: Op) -> _Step | None:
        ops = loop.body.ops
        if loop.get("once") or loop.get("goes_on") is not None or not ops[-1].is_(IF):
            return None
        if any(op.region is not None and not _is_release(op) for op in ops[:-1]):
            return None
        commits = [number for number, op in enumerate(ops) if op.is_(MMA_COMMIT)]
        if not commits or not ops[-2].is_(MMA_WAIT):
            return None
        start = max(number for number in range(commits[-1]) if ops[number].is_(MMA_FENCE))
        if len(commits) == 1:
            return cls._decoded(loop, start)
        if commits[-1] != len(ops) - 3:
            return None
        if any(not op.is_(MMA_FENCE, MMA_ASYNC, MMA_COMMIT) for op in ops[start:-2]):
            return None
        start -= ops[start - 1].is_(SIGNAL_WAIT)  # for what it reads
        wait, release, product, others = ops[-2], ops[-1], ops[start:-2], ops[:start]
        sums = _names(wait.results)
        if not sums <= _names(loop.body.yields):
            return None
        carried = {
            argument.name
            for argument, value in zip(loop.body.arguments, loop.body.yields, strict=True)
            if value.name in sums
        }
        added_to = tuple(_added_to(value, product) for value in wait.operands)
        # Where nothing changes the sums of the step before, the product adds to what the loop carries.
        handed = (*_used(product, others), *(one for one in loop.body.arguments if one.name in _names(added_to)))
        if not _names(added_to) <= _names(handed):
            return None
        factors = _names(value for op in product if op.is_(MMA_ASYNC) for value in op.operands[:-1])
        moved, guarded = _moved(others, factors & _names(handed))
        late = _users(others, carried | _names(value for op in moved for value in op.results), moved)
        made_late = _names(value for op in late for value in op.results)  # of parts of a factor, all but the first
        guarded = tuple(value for value in guarded if value.name not in made_late)
        if any(op.is_(MMA_ASYNC, MMA_COMMIT, MMA_WAIT) for op in late) or not guarded:
            return None
        kept = set(map(id, late))
        first = commits[0] + 1
        issue, give = others[:first], others[first : first + _is_release(others[first])]
        if any(id(op) in kept for op in issue):
            return None
        middle = tuple(op for op in others[first + len(give) :] if id(op) not in kept)
        return cls(issue, give, middle, tuple(late), product, wait, release, handed, added_to, guarded)

    @classmethod
    def _decoded(cls, loop: Op, start: int) -> _Step | None:
        """One with a single product, beside which the next one's factor is made, all in registers of its own; around
        that are the wait for the wave's turn and what gives it to the next one, where waves take turns."""
        start -= loop.body.ops[start - 1].is_(SIGNAL_WAIT)
        others, (*product, wait, release) = loop.body.ops[:start], loop.body.ops[start:]
        factors, yields = _used(product, others), _names(loop.body.yields)
        sums = [
            result.name
            for result, value in zip(wait.results, wait.operands, strict=True)
            if value.name not in _names(factors)
        ]
        added_to = tuple(_added_to(value, product) for value in wait.operands)
        handed = (*factors, *(one for one in loop.body.arguments if one.name in _names(added_to)))
        alone = _names(loop.body.arguments).isdisjoint(value.name for op in others for value in op.operands)
        if not (factors and alone and yields.issuperset(sums) and _names(added_to) <= _names(handed)):
            return None
        return cls((), (), others, (), tuple(product), wait, release, handed, added_to, factors)


def _is_release(op: Op) -> bool:
    """Whether all it does is to signal, that buffers are empty or that another wave has its turn."""
    return op.is_(IF) and all(inner.is_(SIGNAL_ARRIVE) for inner in op.body.ops)


def _names(values: Iterable[Value]) -> set[str]:
    return {value.name for value in values}


def _used(ops: Sequence[Op], makers: Sequence[Op]) -> tuple[Value, ...]:
    """The results of ``makers`` that ``ops`` use."""
    made = _names(value for op in makers for value in op.results)
    used = {value.name: value for op in ops for value in op.operands if value.name in made}
    return tuple(used.values())


def _added_to(value: Value, product: Sequence[Op]) -> Value:
    """What the first of the operations that make a sum adds to."""
    makers = {op.result.name: op for op in product if op.is_(MMA_ASYNC)}
    while value.name in makers:
        value = makers[value.name].operands[-1]
    return value


def _moved(ops: Sequence[Op], wanted: set[str]) -> tuple[list[Op], tuple[Value, ...]]:
    """The conversions and moves that end in ``wanted``, and what they begin with."""
    found, needed = list[Op](), set(wanted)
    for op in reversed(ops):
        if op.is_(MOVES) and not needed.isdisjoint(_names(op.results)):
            found.append(op)
            needed |= _names(op.operands)
    made = _names(value for op in found for value in op.results)
    start = {value.name: value for op in reversed(found) for value in op.operands if value.name not in made}
    return found[::-1], tuple(start.values()) if wanted <= made else ()


def _users(ops: Sequence[Op], names: set[str], with_: Sequence[Op]) -> list[Op]:
    """The operations that use values of these names, or what such make; ``with_`` some more."""
    known, found, more = set(names), list[Op](), set(map(id, with_))
    for op in ops:
        if id(op) in more or not known.isdisjoint(_names(op.operands)):
            known |= _names(op.results)
            found.append(op)
    return found


class _Loops:
    """Writes the three loops; values of a step are ``names``, what they are called where they are made."""

    def __init__(self, step: _Step, loop: Op, at: Expr, fresh: Callable[[str], str], roles: WaveRoles) -> None:
        self.step, self.loop, self.at, self.fresh, self.roles = step, loop, at, fresh, roles
        sums = _names(step.wait.results)
        carried = list(zip(loop.operands, loop.body.arguments, loop.body.yields, loop.results, strict=True))
        self.own = [one for one in carried if one[2].name not in sums]
        self.sums = [one for one in carried if one[2].name in sums]
        place = {value.name: number for number, value in enumerate(step.wait.results)}
        self.added_to = [step.added_to[place[value.name]] for _, _, value, _ in self.sums]
        """By sum, what is carried in its place."""

    def starts(self) -> tuple[Op, ...]:
        """What is handed to the first step of all and nobody uses."""
        unknown = [value for value in self.step.handed if value.name not in {one.name for one in self.added_to}]
        return tuple(Op("constant", (), (value,), attribute_pairs({"value": 0})) for value in self._new(unknown, {}))

    def carried(self, starts: Iterable[Op]) -> tuple[Value, ...]:
        """What the first step of all begins with."""
        known = {value.name: start for value, (start, _, _, _) in zip(self.added_to, self.sums, strict=True)}
        unused = (op.result for op in starts)
        handed = (known[value.name] if value.name in known else next(unused) for value in self.step.handed)
        return *(start for start, _, _, _ in self.own), *handed

    def first(self, starts: tuple[Value, ...], upper: Expr) -> Op:
        """The first step up to its last product, if there is one."""
        loop, step = self.loop, self.step
        names = {argument.name: start for start, argument, _, _ in self.sums}
        arguments = self._new((argument for _, argument, _, _ in self.own), names)
        unused = self._new(step.handed, {})
        body = self._copied((*step.issue, *step.give, *step.middle, *step.late), names)
        made = (*(value for _, _, value, _ in self.own), *step.handed)
        region = Region((*arguments, *unused), body, tuple(names[value.name] for value in made))
        return replace(loop.with_(upper=upper), operands=starts, results=self._new(made, {}), region=region)

    def others(self, starts: tuple[Value, ...], lower: Expr) -> Op:
        """The steps from a place on, each with the last product of the one before."""
        loop, step, names, before = self.loop, self.step, dict[str, Value](), dict[str, Value]()
        arguments = self._new((argument for _, argument, _, _ in self.own), names)
        handed = self._new(step.handed, before)
        # The tile of the product is awaited once more behind it: that is over, but its branch keeps the assembler from
        # moving what stands behind the wait for the product in front of it.  Without one a wait is not early.
        is_early = self.roles.early_wait and step.product[0].is_(SIGNAL_WAIT)
        parts = behind_joins(step.middle, _names(step.guarded)) if is_early else None
        issue = self._copied(step.issue, names)
        product = self._copied(step.product, before, late=True)
        again = self._copied(step.product[:1], before, late=True) if parts else ()
        middle = _awaiting_one_more(self._copied(parts.joins if parts else step.middle, names))
        if self.roles.order == "in_parts":
            product, middle = _in_parts(product, middle)
        product += self._copied(step.give, names)
        guarded = parts.told if parts else step.guarded
        tied = tuple(names[value.name] for value in guarded)
        sums = tuple(before[value.name] for value in step.wait.operands)
        results = (*self._new(step.wait.results, before), *self._new(guarded, names))
        wait = replace(step.wait, operands=(*sums, *tied), results=results)
        names |= {argument.name: before[value.name] for _, argument, value, _ in self.sums}
        body = (*issue, *product, *middle, wait, *again, *self._copied((step.release,), before, late=True))
        body += self._copied((*(parts.behind if parts else ()), *step.late), names)
        made = (*(value for _, _, value, _ in self.own), *step.handed)
        region = Region((*arguments, *handed), body, tuple(names[value.name] for value in made))
        ends = (*(result for _, _, _, result in self.own), *self._new(step.handed, {}))
        return replace(loop.with_(lower=lower), operands=starts, results=ends, region=region)

    def last(self, handed: tuple[Value, ...], before: Expr) -> Op:
        """The last product of all, if there was one: of a step ``before`` those of this loop where it has none."""
        loop, step = self.loop, self.step
        names = {value.name: made for value, made in zip(step.handed, handed, strict=True)}
        starts = tuple(names[value.name] for value in self.added_to)
        arguments = self._new(self.added_to, names)
        is_late = before != const(0)
        body = self._copied((*step.product, step.wait, step.release), names, late=is_late)
        region = Region(arguments, body, tuple(names[value.name] for _, _, value, _ in self.sums))
        if is_late:  # a step late, so that no place is below 0
            first = loop["step"] - minimum(before, 1) * loop["step"]
            lower = loop["lower"] + maximum(first, trips(loop) * loop["step"])
            loop = loop.with_(upper=loop["upper"] + loop["step"])
        else:
            lower = maximum(loop["lower"], loop["lower"] + (trips(loop) - 1) * loop["step"])
        ends = tuple(result for _, _, _, result in self.sums)
        return replace(loop.with_(lower=lower), operands=starts, results=ends, region=region)

    def _new(self, values: Iterable[Value], names: dict[str, Value]) -> tuple[Value, ...]:
        values = tuple(values)
        names |= {value.name: replace(value, name=self.fresh(value.name)) for value in values}
        return tuple(names[value.name] for value in values)

    def _copied(self, ops: Iterable[Op], names: dict[str, Value], *, late: bool = False) -> tuple[Op, ...]:
        """The operations under new names; ``late``: of the step before."""
        induction: str = self.loop["induction"]
        before = {induction: self.at - self.loop["step"]} if late else {}
        return tuple(copied(substituted(op, before) if late else op, self.fresh, names) for op in ops)


def _awaiting_one_more(ops: Iterable[Op]) -> tuple[Op, ...]:
    """The operations with waits that leave the product of the step before in flight, up to the next group."""
    found, behind = list[Op](), True
    for op in ops:
        behind = behind and not op.is_(MMA_COMMIT)
        found.append(op.with_(pending=op["pending"] + 1) if op.is_(MMA_WAIT) and behind else op)
    return tuple(found)


def _in_parts(product: tuple[Op, ...], middle: tuple[Op, ...]) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """The product of the step before, cut short, and what follows the scores of a step with the rest of it in between.

    A quarter is issued at once, and runs while the scores are awaited.  The rest is issued behind these and behind what
    gives their buffer back; the assembler spreads it over the arithmetic, in which the matrix unit would else have
    nothing of this wave.
    """
    places = [number for number, op in enumerate(product) if op.is_(MMA_ASYNC)]
    waits = [number for number, op in enumerate(middle) if op.is_(MMA_WAIT)]
    if len(places) < 4 or not waits:
        return product, middle
    cut, commit = places[len(places) // 4], product[-1]
    behind = waits[0] + 1
    behind += behind < len(middle) and _is_release(middle[behind])
    return (*product[:cut], commit), (*middle[:behind], *product[cut:], *middle[behind:])
