"""Thread kernel in, thread kernel out: on machines that run waves one after another, waves become loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, const, less, maximum, minimum
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Split, Value, attribute_pairs, rewrite
from wavespec.ir.names import wave_name
from wavespec.ir.rewriting import renamed, without_unused
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    BIND,
    CONSTANT,
    FOR,
    LOAD,
    MMA,
    PURE,
    SLICE,
    STORE,
)
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.check_shared import SharedMemoryExceeded
from wavespec.lower.empty_dims import of_grid
from wavespec.lower.kept_between_turns import KeptBetweenTurns
from wavespec.lower.places_of_turns import PlacesOfTurns
from wavespec.lower.planned_tiles import hints_of_plan
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, waves_are_loops
from wavespec.lower.touched_by import Inside, Noted, Run, inside_of
from wavespec.targets.machine import Machine


class SerializeWaves(Pass):
    """Run the waves of a workgroup in loops, each operation at the outermost level where it means the same.

    Before: operations speak of wave symbols; loops carry registers of every wave.
    After:  ``for`` loops over the wave symbols, the last wave symbol innermost.  What depends on no wave symbol
            (packing a panel) runs once, what depends on the outer one (copying a wave's rows) once per outer wave.
            The kernel has no waves left, and loads nothing that nobody uses.  Waves beyond the edge of a tensor are not
            run, but one of an empty dim.
    Cases:  a loop around all waves cannot keep their registers.
            1. An accumulator that starts at zero and ends in a plain store, where no other workgroup or wave stores,
               lives in the output: each step adds its sum there, and announces that when it starts (``prefetch``,
               where the machine has it).
            2. One that starts at zero and goes elsewhere does so in a private memory; what uses it is done when the
               loop is, wave after wave.
            3. Any other carried value lives in a private memory between the steps.
    Errors: ``shared-memory-exceeded`` where the private memories do not fit beside the staged tiles.
    """

    name: ClassVar[str] = "serialize-waves"
    requires = (is_of_lanes, symbols_are_in_scope)
    ensures = (waves_are_loops,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        serializer = _Serializer(kernel, machine)
        places = PlacesOfTurns(dict(kernel.waves), serializer.local, kernel.symbol)
        body = serializer.kept(places(serializer.block(kernel.body)))
        body = without_unused(body, lambda op: op.is_(LOAD, PURE))
        memories = tuple(replace(one, buffers=one.buffers * places.copies.get(one.name, 1)) for one in kernel.memories)
        local = [*(memory for memory in memories if memory.space != "global"), *serializer.private]
        needed = sum(memory.elements.value * memory.dtype.bytes * memory.buffers for memory in local)
        if needed > machine.shared.bytes:
            tiles = (*kernel.distribution.workgroup, *local)
            where = next((one.span for one in tiles if one.span), None)
            raise SharedMemoryExceeded(where, needed, machine, local, hints_of_plan(kernel))
        return replace(kernel, body=body, waves=(), memories=(*memories, *serializer.private))


class _Serializer:
    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel, self.machine = kernel, machine
        self.order = [name for name, _ in kernel.waves]
        self.fresh = fresh_names(kernel)
        self.found_empty = of_grid(kernel)
        # A symbol that stands for a value needs the loops that the value does.
        self.depths = {name: number for number, name in enumerate(self.order, 1)}
        self.memory_depths: dict[str, int] = {}
        self.private: list[Memory] = []
        self.local = {memory.name for memory in kernel.memories if memory.space != "global"}
        self.shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
        self._noted: dict[int, Noted] = {}
        self._changes = 0

    # ------------------------------------------------------------------------------------------------------ nests

    def inside(self, op: Op) -> Inside:
        """What there is in an operation, looked up once: the same ones are asked for again at every level."""
        return self._noted_of(op).inside

    def _noted_of(self, op: Op) -> Noted:
        noted = self._noted.get(id(op))
        if noted is None:
            inner = [self.inside(one) for one in op.region.ops] if op.region else ()
            noted = self._noted[id(op)] = Noted(op, inside_of(op, inner))
        return noted

    def depth(self, op: Op) -> int:
        """How many wave loops have to be around ``op``."""
        return self._depth(self.inside(op))

    def _depth(self, inside: Inside) -> int:
        depth = 0
        for depths, names in ((self.depths, inside.uses), (self.memory_depths, inside.loaded)):
            for name in names:
                if (known := depths.get(name, 0)) > depth:
                    depth = known
        return depth

    def block(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """Serialise a list that no wave loop is around yet."""
        ops = list(ops)
        for number, op in enumerate(ops):
            if op.is_(FOR) and self._mixes_levels(op):
                rest = ops[number + 1 :]
                before, loop, after = self.without_carried(op, rest) if op.operands else ([], op, rest)
                return self.nest(ops[:number] + before) + self.block_loop(loop) + self.block(after)
            self._note(op)  # what stands before a loop says how many wave loops its values need
        return self.nest(ops)

    def block_loop(self, op: Op) -> tuple[Op, ...]:
        return (replace(op, region=Region((), self.block(op.body.ops), ())),)

    def _mixes_levels(self, op: Op) -> bool:
        """Whether a loop stages something for several waves at once, so that it has to stay around the wave loops; what
        is private each wave may make for itself."""
        noted = self._noted_of(op)
        if noted.mixes_changes != self._changes:
            before = self._changes
            noted.mixes = self._finds_mixed(op)
            noted.mixes_changes = before if before == self._changes else -1
        return noted.mixes

    def _finds_mixed(self, op: Op) -> bool:
        found = [(self._note(inner), self.inside(inner)) for inner in op.body.ops]
        deepest = max((depth for depth, _ in found), default=0)
        if any(inner.is_(FOR) and self._mixes_levels(inner) for inner in op.body.ops):
            return True
        laid_down = self.local & frozenset[str]().union(*[one.stored for depth, one in found if depth == deepest])
        outer = [inside for depth, inside in found if depth < deepest]
        return any(inside.stored & self.shared or inside.loaded & laid_down for inside in outer)

    def _note(self, op: Op) -> int:
        """The depth of ``op``, remembered for what uses its results and what it stages; a loop that will be around
        wave loops stages each memory as deep as the operation in it does."""
        noted = self._noted.get(id(op)) or self._noted_of(op)
        if noted.changes == self._changes:  # it would say the same
            return noted.depth
        before = self._changes
        around = op.region is not None and op.is_(FOR) and self._mixes_levels(op)
        inside = noted.inside
        noted.depth = depth = self._depth(inside)
        for name in inside.made:
            self._remember(self.depths, name, depth)
        for memory in () if around or not inside.stored else inside.stored & self.local:
            at_one_place = self._depth_at_one_place(inside, memory, depth)
            self._remember(self.memory_depths, memory, max(at_one_place, self.memory_depths.get(memory, 0)))
        if before == self._changes:
            noted.changes = before
        return depth

    def _remember(self, depths: dict[str, int], name: str, depth: int) -> None:
        if depths.get(name, 0) != depth:
            self._changes += 1
        depths[name] = depth

    def _depth_at_one_place(self, inside: Inside, memory: str, depth: int) -> int:
        """How many wave loops have to be around what loads what an operation lays down: those of waves that each do so
        at the same place.  What waves lay down side by side is there for all when the last one has."""
        side_by_side = inside.places.get(memory, frozenset())
        names = self.order[:depth]
        return max((number for number, name in enumerate(names, 1) if name not in side_by_side), default=0)

    def nest(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """Wrap runs of operations into wave loops, by how many they need."""
        return self._level(list(ops), 0)

    def _level(self, ops: list[Op], level: int) -> tuple[Op, ...]:
        result: list[Op] = []
        inside = Run()
        for op in ops:
            if self._note(op) > level:
                inside.append(op, self.inside(op))
                continue
            if inside.ops and not inside.may_follow(self.inside(op)):
                result += self._wave_loop(inside.ops, level)
                inside = Run()
            result.append(op)
        return tuple(result + (self._wave_loop(inside.ops, level) if inside.ops else []))

    def _wave_loop(self, ops: list[Op], level: int) -> list[Op]:
        name, count = self.kernel.waves[level]
        upper = self._waves_inside(name, count)
        bounds = {"lower": const(0), "upper": upper, "step": const(1)}
        attributes = attribute_pairs({"induction": name, **bounds, "unroll": 1})
        inside = rewrite(self._level(ops, level + 1), lambda op: (self._without_checks(op, name, count),))
        return [Op("for", (), (), attributes, Region((), inside, ()), ops[0].span)]

    def _without_checks(self, op: Op, name: str, count: int) -> Op:
        """The access without the check that the bounds of the loop over single rows have made."""
        if not op.get("mask"):
            return op
        split, size = self._split(name)
        if split.tile != count or split.dim in self.found_empty:
            return op
        checked = (self.kernel.symbol(f"wg{split.axis}") * split.tile + self.kernel.symbol(name), size)
        return op.with_(mask=tuple(pair for pair in op["mask"] if pair != checked))

    def _waves_inside(self, name: str, count: int) -> Expr:
        split, size = self._split(name)
        start = self.kernel.symbol(f"wg{split.axis}") * split.tile
        inside = ceildiv(size - start, split.tile // count)
        return minimum(count, maximum(1, inside) if split.dim in self.found_empty else inside)

    def _split(self, name: str) -> tuple[Split, Expr]:
        """What the waves of that name are the parts of, and the size of its dim."""
        split = next(s for s in self.kernel.distribution.workgroup if wave_name(s.dim) == name)
        return split, self.kernel.size(split.dim)

    def kept(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """The nests, with what leaves a wave loop in memory."""
        own = {memory.name for memory in self.private}
        return KeptBetweenTurns(self.order, own, self._private, self.fresh)(ops)

    # ---------------------------------------------------------------------------------------------------- carried

    def without_carried(self, op: Op, after: list[Op]) -> tuple[list[Op], Op, list[Op]]:
        """The loop with its carried values in memory: operations before it, the loop, operations after it."""
        self._note_carried(op)
        zeros = {o.result.name for o in self.kernel.walk() if o.is_(CONSTANT) and o["value"] == 0}
        ends_early = op.get("goes_on") is not None
        if ends_early or not all(value.name in zeros for value in op.operands) or not _only_accumulates(op):
            return self._in_private(op, after)
        chain = self._plain_stores(op, after)
        if chain is None:
            return self._added_up(op, after)
        stored = set(map(id, chain))
        return *self._in_output(op, chain), [other for other in after if id(other) not in stored]

    def _plain_stores(self, op: Op, after: list[Op]) -> list[Op] | None:
        """The slices and stores that the results go to, if they go nowhere else; None otherwise."""
        known = {value.name for value in op.results}
        chain: list[Op] = []
        for other in after:
            if not any(value.name in known for inner in other.walk() for value in inner.operands):
                continue
            stores = other.is_(STORE) and self._is_of_one(other)
            if not stores and not other.is_(SLICE):
                return None
            known |= {value.name for value in other.results}
            chain.append(other)
        places = [(other["memory"], other["offset"]) for other in chain if other.is_(STORE)]
        return chain if len({*places}) == len(places) else None

    def _is_of_one(self, store: Op) -> bool:
        """Whether a store is to a tensor, at a place of this workgroup, wave and element alone: it depends on their
        numbers, and no mapping makes several elements one.  There one of them is to stay, not their sum."""
        if self.kernel.memory(store["memory"]).space != "global" or store.get("mapped"):
            return False
        declared = {known.args[0] for known in self.kernel.symbols}
        numbers = {f"wg{axis}" for axis in range(len(self.kernel.grid))} & declared
        numbers |= {name for name, count in self.kernel.waves if count > 1}
        bound = {op["symbol"] for op in self.kernel.walk() if op.is_(BIND)}
        return numbers <= store["offset"].symbols and bound.isdisjoint(store.symbols)

    def _in_output(self, op: Op, chain: list[Op]) -> tuple[list[Op], Op]:
        """Case 1: the sums of a step are added to the output."""
        last = {result.name: value for result, value in zip(op.results, op.body.yields, strict=True)}
        tail = [renamed(other, last) for other in chain]
        return self._in_memory(
            op, [other for other in tail if other.is_(SLICE)], [other for other in tail if other.is_(STORE)]
        )

    def _added_up(self, op: Op, after: list[Op]) -> tuple[list[Op], Op, list[Op]]:
        """Case 2: the sums of a step are added to private memories, vector register by vector register."""
        spills, outer = ThreadBuilder(self.fresh), ThreadBuilder(self.fresh)
        outside: dict[str, Value] = {}
        for argument, last, result in zip(op.body.arguments, op.body.yields, op.results, strict=True):
            name, start = self._private(result, self.depths[argument.name])
            size, dtype = last.vector.elements, last.vector.dtype
            width = max(1, self.machine.vector_bytes // dtype.bytes)
            for at in range(0, size, width):
                spills.store(spills.slice(last, at, min(width, size - at)), name, start + at)
            outside[result.name] = outer.load(name, dtype, size, start, hint=result.name)
        slices, stores = ([o for o in spills.ops if (o.is_(STORE)) == stored] for stored in (False, True))
        return *self._in_memory(op, slices, stores), [*outer.ops, *(renamed(o, outside) for o in after)]

    def _in_memory(self, op: Op, slices: list[Op], stores: list[Op]) -> tuple[list[Op], Op]:
        """What stands before the loop, and the loop: sums start at zero in every step, and are added to where they are
        stored.  The first step only stores; where it need not be there, zeros are stored before."""
        body = op.body
        first = {argument.name: zero for argument, zero in zip(body.arguments, op.operands, strict=True)}
        runs = less(op["lower"], op["upper"]) or _has_an_empty_step(op)
        onto = ((op["lower"], self.kernel.symbol(op["induction"])),) if runs else ()
        sums = [replace(store.without("cache"), name=ACCUMULATE.name).with_(onto=onto) for store in stores]
        places = [attribute_pairs({"memory": other["memory"], "offset": other["offset"]}) for other in sums]
        announced = places if self.machine.globals.prefetch else ()
        hints = [Op("prefetch", attributes=place, span=op.span) for place in announced]
        start = next(number for number, inner in enumerate(body.ops) if any(v.name in first for v in inner.operands))
        ops = [renamed(inner, first) for inner in body.ops]
        upper = maximum(op["upper"], op["lower"] + 1) if runs else op["upper"]  # an empty sum is to be written ...
        if upper != op["upper"]:  # ... of nothing that could be read
            ops = list(rewrite(tuple(ops), lambda inner: (self._where_it_runs(inner, op),), LOAD))
        region = Region((), (*ops[:start], *hints, *ops[start:], *slices, *sums), ())
        loop = replace(op.with_(upper=upper), operands=(), results=(), region=region)
        return [] if runs else self._zeros_in(stores), loop

    def _zeros_in(self, stores: Sequence[Op]) -> list[Op]:
        build = ThreadBuilder(self.fresh)
        for store in stores:
            kind = store.operands[0].vector
            zero = build.constant(0.0 if kind.dtype.is_float else 0, kind.dtype, kind.elements)
            build.ops.append(replace(store, operands=(zero,)))
        return build.ops

    def _where_it_runs(self, op: Op, loop: Op) -> Op:
        if self.kernel.memory(op["memory"]).role != "input":
            return op
        return op.with_(mask=((self.kernel.symbol(loop["induction"]), loop["upper"]), *op["mask"]))

    def _in_private(self, op: Op, after: list[Op]) -> tuple[list[Op], Op, list[Op]]:
        """Case 3: loaded before each step and stored after it."""
        build, inner, outer = (ThreadBuilder(self.fresh) for _ in range(3))
        body, spills = op.body, ThreadBuilder(self.fresh)
        inside: dict[str, Value] = {}
        outside: dict[str, Value] = {}
        for first, argument, last, result in zip(op.operands, body.arguments, body.yields, op.results, strict=True):
            size, dtype = argument.vector.elements, argument.vector.dtype
            name, start = self._private(argument, self.depths[argument.name])
            build.store(first, name, start)
            inside[argument.name] = inner.load(name, dtype, size, start, hint=argument.name)
            spills.store(last, name, start)
            outside[result.name] = outer.load(name, dtype, size, start, hint=result.name)
        ops = (*inner.ops, *(renamed(o, inside) for o in body.ops), *(renamed(o, inside) for o in spills.ops))
        loop = replace(op, operands=(), results=(), region=Region((), ops, ()))
        return build.ops, loop, [*outer.ops, *(renamed(o, outside) for o in after)]

    def _note_carried(self, op: Op) -> None:
        """Remember how many wave loops each carried value needs: as many as what is yielded for it."""
        pairs = list(zip(op.body.arguments, op.body.yields, op.operands, strict=True))
        for _ in self.order:
            for argument, *others in pairs:
                known = (self.depths.get(value.name, 0) for value in (argument, *others))
                self._remember(self.depths, argument.name, max(known))
            for inner in op.body.ops:
                self._note(inner)

    def _private(self, value: Value, depth: int) -> tuple[str, Expr]:
        """A new memory with one place per wave for a value that ``depth`` wave loops are around: its name, and where
        the place of this wave starts."""
        wave, waves = const(0), 1
        for name, count in self.kernel.waves[:depth]:
            wave, waves = wave * count + self.kernel.symbol(name), waves * count
        name, size = f"carried.{len(self.private)}", value.vector.elements
        self.private.append(Memory(name, value.vector.dtype, ("element",), (const(waves * size),), "private"))
        return name, wave * size


def _has_an_empty_step(op: Op) -> bool:
    """Whether a loop that has no step can run one that adds nothing: one over all of a dim, whose products are each in
    a loop over what there is of the dim in a step.  What others multiply is there without a step, or is made of the
    zeros that are loaded then, of which functions are seldom zero."""
    if op.get("once") or op["lower"] != const(0) or op["upper"].kind != "symbol":
        return False
    nothing = {op["upper"].args[0]: 0, op["induction"]: 0}
    products = [inner for inner in op.body.ops if any(one.is_(MMA) for one in inner.walk())]
    return all(one.is_(FOR) and one["upper"].substitute(nothing) == const(0) for one in products)


def _only_accumulates(op: Op) -> bool:
    """Whether each carried value is only added to: an accumulator of matrix products, directly or through inner loops,
    which ends as the same value; and nothing else is a product, which would be computed of nothing where the loop has
    no steps."""
    sums = {value.name: number for number, value in enumerate(op.body.arguments)}
    for inner in op.body.ops:
        for number, value in enumerate(inner.operands):
            if value.name not in sums:
                continue
            if inner.is_(MMA) and number == 2:
                sums[inner.result.name] = sums[value.name]
            elif inner.is_(FOR) and _only_accumulates(inner):
                sums[inner.results[number].name] = sums[value.name]
            else:
                return False
    products = (inner for inner in op.body.ops if inner.is_(MMA, FOR))
    return all(value.name in sums for inner in products for value in inner.results) and all(
        sums.get(value.name) == number for number, value in enumerate(op.body.yields)
    )
