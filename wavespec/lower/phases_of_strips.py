"""Operations on tiles go in; the same operations in loops over strips of one of their dims, a loop for each phase, come
out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Region, TileType, Value, attribute_pairs
from wavespec.ir.layout import row_major
from wavespec.ir.rewriting import renamed
from wavespec.ir.tile_ops import ACROSS, ALIKE, CAST, COPY, INDEX, MMA, PURE, READ, REDUCE, REGISTER, TAKE, WRITE
from wavespec.lower.defer_reductions import identity_tile, joined_parts
from wavespec.lower.stage_operands import origin_in
from wavespec.ops.index_map import stays_along

_ALONG = PURE | ALIKE | MMA | REDUCE
"""Operations of which a part along a dim is the operation on a part of its operands."""


@dataclass(frozen=True, slots=True)
class Strips:
    """Which dim is cut, how wide its tile and its strips are, where a strip starts in the tile, and where they end."""

    dim: str
    tile: int
    width: int
    at: Expr
    extent: Expr

    def has(self, value: Value) -> bool:
        return self.dim in value.tile.dims

    def narrow(self, tile: TileType) -> TileType:
        extents = (self.width if dim == self.dim else e for dim, e in zip(tile.dims, tile.extents, strict=True))
        return replace(tile, extents=tuple(extents))

    def joins(self, op: Op) -> bool:
        """Whether its result is of all strips together; a reduction along another dim is one of each."""
        return op.is_(REDUCE) and op["dim"] == self.dim

    def moved(self, op: Op) -> Op:
        origin = op.get("origin")
        if origin is None:
            return op
        return op.with_(origin=tuple((dim, at + self.at if dim == self.dim else at) for dim, at in origin))


def can_be_cut(op: Op, strips: Strips) -> bool:
    """Whether a part of an operation along the dim is that on a part of its operands, or it has nothing of it."""
    values = [value for inner in op.walk() for value in (*inner.results, *inner.operands)]
    along = [value for value in values if strips.has(value)]
    alike = all(value.tile.extent(strips.dim) == strips.tile for value in along)
    # Of each element along the dim by itself.
    apart = stays_along(op, strips.dim) if op.is_(TAKE) else op.is_(ACROSS) and op["dim"] != strips.dim
    return not along or ((apart or op.is_(_ALONG)) and alike)


@dataclass(slots=True)
class _Phase:
    """What stands before a loop over strips, and what in it."""

    before: list[Op] = field(default_factory=list[Op])
    inside: list[Op] = field(default_factory=list[Op])


class Phases:
    """Operations in phases: in each, some for the whole tile, then a loop over strips."""

    def __init__(
        self,
        kernel: Kernel,
        ops: Sequence[Op],
        strips: Strips,
        fresh: Callable[[str], str],
        outside: Mapping[str, Op] | None = None,
        around: Sequence[Value] = (),
        carried: Sequence[tuple[Value, Value]] = (),
    ) -> None:
        """
        Args:
            outside: reads and the like in front of the operations, by their results, that may be done again.
            around: other values in front of them that they take.
            carried: of a loop whose body they are, what a step starts from, and what the next one does.
        """
        self.kernel, self.given, self.strips, self.fresh = kernel, ops, strips, fresh
        self.outside = outside or {}
        self.around = [value for value in around if strips.has(value)]
        self.carried = [pair for pair in carried if any(map(strips.has, pair))]
        self.yields = [value for _, value in self.carried if strips.has(value)]
        self.phases: list[_Phase] = [_Phase()]
        # Of values along the dim: the phase, and what makes them.
        self.made = {name: (-1, op) for name, op in self.outside.items() if strips.has(op.result)}
        self.made |= {value.name: (0, ops[0]) for value in self.around}
        self.whole = {value.name for value in self.around}  # values along the dim that are made in front of the strips
        self.placed = set[str]()  # values along the dim that are whole somewhere
        self.memories: dict[str, Memory] = {}  # of values that a later phase uses, or strips of whole ones
        self._divide()
        self.staying = {old.name: new.name for old, new in self.carried if self._stays(old, new)}
        """What a step finds in memory, strip by strip, and what it leaves there in its place."""

    def stripped(self) -> tuple[Op, ...]:
        self.memories = {name: self._memory(value) for name, value in self._kept().items()}
        self.memories |= {new: self.memories[old] for old, new in self.staying.items()}
        before = [op for value in self.around if value.name not in self.staying for op in self._written_whole(value)]
        left = self.staying.values()
        after = [
            self._access("read", value, (), (value,), const(0)) for value in self._joined() if value.name not in left
        ]
        return (*before, *(op for phase in self.phases for op in self._ops(phase)), *after)

    def whole_to_memory(self, value: Value, argument: Value) -> Op:
        """What puts the value to where a loop carries an argument."""
        return self._access("write", argument, (value,), (), const(0))

    def whole_from_memory(self, value: Value, argument: Value) -> Op:
        """What takes the value from where a loop carries an argument."""
        return self._access("read", argument, (), (value,), const(0))

    # -------------------------------------------------------------------------------------------------------- phases

    def _divide(self) -> None:
        """Every operation into the first phase in which what it needs is there."""
        strips, ready, written = self.strips, dict[str, int](), dict[str, int]()
        for op in self.given:
            phase = max((ready.get(v.name, 0) for inner in op.walk() for v in inner.operands), default=0)
            along = any(map(strips.has, (*op.results, *op.operands)))
            if not along or (op.is_(MMA) and op["k"] == strips.dim):
                for inner in op.walk():
                    phase = max(phase, written.get(inner.get("memory", ""), 0))
                self._at(phase).before.append(op)
            elif not can_be_cut(op, strips):
                self._at(phase).before.append(op)
                self.made |= {value.name: (phase, op) for value in op.results if strips.has(value)}
                self.whole |= {value.name for value in op.results if strips.has(value)}
            elif op.is_(READ, REGISTER, INDEX) or self._is_read_otherwise(op):  # done again wherever it is used
                self.made[op.result.name] = (-1, op)
                phase = max(phase, written.get(op.get("memory", ""), 0))
            else:
                sums = any(inner.is_(MMA) for inner in self._at(phase).inside)
                phase += strips.joins(op) and sums
                self._at(phase).inside.append(op)
                self.made |= {value.name: (phase, op) for value in op.results if strips.has(value)}
                if op.is_(WRITE):
                    written[op["memory"]] = phase + 1
            for memory in (inner["memory"] for inner in op.walk() if inner.is_(WRITE, COPY)):
                written[memory] = max(written.get(memory, 0), phase)
            after = phase + strips.joins(op)
            ready |= {value.name: after for value in op.results}
        self._make_wholes()

    def _stays(self, old: Value, new: Value) -> bool:
        """Whether a loop may carry a value in memory: strips alone take it, none of them behind the one that makes what
        comes in its place; and each wave has elements of its own."""
        tile, inner, outer = old.tile, (v.name for p in self.phases for op in p.before for v in _taken(op)), self.yields
        apart = prod(map(self.kernel.waves_along, tile.dims)) == prod(count for _, count in self.kernel.waves)
        made = self.made.get(new.name, (-1, None))
        once = sum(value.name in (old.name, new.name) for value in outer) == 1
        if not (apart and once and made[0] >= 0 and new.name not in self.whole) or old.name in inner:
            return False
        if old.name not in self.whole or tile != new.tile:
            return False
        order = [op for phase in self.phases for op in phase.inside]
        last = next(n for n, op in enumerate(order) if new in op.results)
        uses = [n for n, op in enumerate(order) if any(value.name == old.name for value in self._needs(op))]
        return max(uses, default=0) <= last

    def _is_read_otherwise(self, op: Op) -> bool:
        """Whether it converts what is read, which takes less than to keep it."""
        return op.is_(CAST) and all(self.made[one.name][0] < 0 for one in op.operands if one.name in self.made)

    def _make_wholes(self) -> None:
        """What an operation on the whole tile takes is made whole in front of it, once for those of several phases."""
        self.placed = {*self.whole, *self.outside}
        for phase in self.phases:
            before = list[Op]()
            for op in phase.before:
                before += [*self._wholes(_taken(op)), op]
            phase.before = before
        read = [value for value in self.yields if value.name in self.made and self.made[value.name][0] < 0]
        self._at(0).before += self._wholes(read)

    def _wholes(self, values: Sequence[Value]) -> Iterator[Op]:
        for value in values:
            if value.name in self.made and value.name not in self.placed:
                self.placed.add(value.name)
                made = self.made[value.name][1]
                yield from self._wholes(made.operands)
                yield made

    def _at(self, number: int) -> _Phase:
        while len(self.phases) <= number:
            self.phases.append(_Phase())
        return self.phases[number]

    def _kept(self) -> dict[str, Value]:
        """Values along the dim that a later phase uses, or that strips use of a whole one."""
        used = [(n, value) for n, phase in enumerate(self.phases) for op in phase.inside for value in self._needs(op)]
        kept = (v for n, v in used if 0 <= self.made[v.name][0] < n or v.name in self.whole)
        return {value.name: value for value in (*kept, *self._joined())}

    def _joined(self) -> list[Value]:
        """Values that strips make and that are taken whole behind them."""
        made = self.made.keys() - self.placed
        return list({value.name: value for value in self.yields if value.name in made}.values())

    def _needs(self, op: Op) -> Iterator[Value]:
        """The values along the dim that an operation takes; before one that is read again, the places where it is."""
        for value in op.operands:
            if value.name in self.made:
                phase, made = self.made[value.name]
                if phase < 0:
                    yield from self._needs(made)
                yield value

    def _memory(self, value: Value) -> Memory:
        """The rows of one wave; those of all where they stay, as waves take turns in between."""
        tile, waves = value.tile, self.kernel.waves_along
        stays = value.name in self.staying
        extents = tuple(tile.extent(dim) // (1 if stays else waves(dim)) for dim in tile.dims)
        arrangement = row_major(tile.dims, extents)
        sizes = tuple(map(const, extents))
        return Memory(f"{value.name}.strips", tile.dtype, tile.dims, sizes, "private", arrangement=arrangement)

    # --------------------------------------------------------------------------------------------------------- loops

    def _ops(self, phase: _Phase) -> list[Op]:
        before = [one for op in phase.before for one in (op, *self._kept_whole(op))]
        if not phase.inside:
            return before
        strips, names, inside = self.strips, dict[str, Value](), list[Op]()
        for op in phase.inside:
            for value in self._needs(op):
                if value.name not in names:
                    inside.append(self._again(value, names))
            if not strips.joins(op):
                inside.append(self._narrowed(op, names))
                kept = [value for value in op.results if value.name in self.memories]
                inside += [self._access("write", value, (names[value.name],), (), strips.at) for value in kept]
        reductions = [op for op in phase.inside if strips.joins(op)]
        starts = [identity_tile(op, strips.narrow(op.operands[0].tile), self.fresh) for op in reductions]
        arguments = [Value(self.fresh(start.result.name), start.result.type) for start in starts]
        yields, ends = list[Value](), list[Op]()
        for op, argument in zip(reductions, arguments, strict=True):
            part = names[op.operands[0].name]
            join, end = joined_parts(strips.moved(op), argument, part, self.fresh)
            inside.append(join)
            yields.append(join.result)
            ends.append(end)
        results = tuple(end.operands[0] for end in ends)
        bounds = {"extent": strips.extent, "step": const(strips.width)}
        attributes = {"dim": strips.dim, "induction": strips.at.args[0], "unroll": 1, **bounds}
        region = Region(tuple(arguments), tuple(inside), tuple(yields))
        operands = tuple(start.result for start in starts)
        loop = Op("iterate", operands, results, attribute_pairs(attributes), region, phase.inside[0].span)
        return [*before, *starts, loop, *ends]

    def _kept_whole(self, op: Op) -> list[Op]:
        return [write for value in op.results if value.name in self.whole for write in self._written_whole(value)]

    def _written_whole(self, value: Value) -> list[Op]:
        return [self._access("write", value, (value,), (), const(0))] if value.name in self.memories else []

    def _again(self, value: Value, names: dict[str, Value]) -> Op:
        """Of a value that is not made in this loop: what makes or reads a strip of it."""
        phase, made = self.made[value.name]
        if phase < 0:
            return self._narrowed(made, names)
        names[value.name] = self._part(value)
        return self._access("read", value, (), (names[value.name],), self.strips.at)

    def _narrowed(self, op: Op, names: dict[str, Value]) -> Op:
        results = tuple(self._part(value) if self.strips.has(value) else value for value in op.results)
        narrowed = replace(self.strips.moved(renamed(op, names)), results=results)
        names |= {value.name: part for value, part in zip(op.results, results, strict=True)}
        return narrowed

    def _part(self, value: Value) -> Value:
        return Value(self.fresh(value.name), self.strips.narrow(value.tile))

    def _access(self, name: str, value: Value, operands: tuple[Value, ...], results: tuple[Value, ...], at: Expr) -> Op:
        """A strip, or all, to or from where the value is kept, in the layout that it has anyway."""
        memory = self.memories[value.name]
        origin = origin_in(self.kernel, memory, value.tile)
        origin[self.strips.dim] += at
        attributes = {"memory": memory.name, "origin": tuple(origin.items())}
        return Op(name, operands, results, attribute_pairs(attributes), span=self.made[value.name][1].span)


def _taken(op: Op) -> tuple[Value, ...]:
    """What an operation, or one in it, takes."""
    return tuple(value for inner in op.walk() for value in inner.operands)
