"""The IR: a kernel of operations over values, the same frozen classes at tile level and at thread level.

Tile level: values are whole tiles (`TileType`).  Thread level: values are the registers of one lane (`VectorType`), one
operation per instruction-sized step.  ``docs/architecture.md`` prints one kernel after every stage.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import chain
from typing import Literal

from wavespec.diagnostics import Span, Where
from wavespec.ir.declarations import Group
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.expr import total as total_of
from wavespec.ir.layout import Arrangement
from wavespec.ir.names import wave_name
from wavespec.ir.nodes import node, replace
from wavespec.ir.op import Op, Region, TileType, Value, VectorType
from wavespec.ir.op import attribute_pairs as attribute_pairs
from wavespec.ir.quotients import joined

Space = Literal["global", "shared", "private", "signal", "counter", "handed"]


@node
class Memory:
    """A named piece of memory.

    ``global``: a tensor argument, row-major, ``shape`` in elements.  ``shared``: a tile staged by one workgroup,
    ``shape`` constant, placed by ``arrangement``, ``buffers`` copies of it.  ``private``: scratch of one workgroup.
    ``staged``: of a tensor, whether its tiles go through shared memory; of shared memory, whether it holds such tiles.
    ``mapped``: an index mapping says which elements a workgroup accesses.
    ``zeroed``: of an output, whether it starts as zeros, because not every element is written in every call.
    ``packed``: shared memory in which small elements share bytes, as they do in tensors.
    ``own``: shared memory of which a lane reads what it put there itself, so that nobody has to meet.
    ``shares``: the shared memory whose bytes it has, as waves that only copy fill one for a loop and then this one, or
    as results leave through a tile that nothing reads any more.
    ``over``: the shared memories of a loop whose bytes it takes once that loop has ended.
    ``strides``, ``start``: of a tensor whose elements are where a call says, see `wavespec.ir.strided`.
    ``signal``: ``buffers`` objects in shared memory that waves wait for, ``arrivals`` complete a phase of one.
    ``counter``: numbers that the workgroups of a launch have in common; they are 0 when a launch starts and when it
    ends.  ``handed``: what workgroups of a launch write for each other; nobody relies on what it holds before.
    """

    name: str
    dtype: DType
    dims: tuple[str, ...]
    shape: tuple[Expr, ...]
    space: Space
    role: Literal["input", "output", "inout"] | None = None
    arrangement: Arrangement | None = None
    buffers: int = 1
    staged: bool = False
    mapped: bool = False
    zeroed: bool = False
    arrivals: int = 0
    packed: bool = False
    own: bool = False
    shares: str = ""
    over: tuple[str, ...] = ()
    strides: tuple[Expr, ...] = ()
    start: Expr | None = None
    span: Span | None = field(default=None, compare=False)

    @property
    def is_strided(self) -> bool:
        """Whether a call says where elements are: ``start`` and a stride for every dim, in elements."""
        return self.start is not None

    @property
    def row_divisor(self) -> int:
        """What divides the places, in elements, at which any row of a tensor starts and ends."""
        length = self.row_length.divisor
        if self.start is None:
            return length
        return math.gcd(length, self.start.divisor, *(stride.divisor for stride in self.strides[:-1]))

    @property
    def is_line(self) -> bool:
        """Whether a tensor is one row, which starts where the tensor does."""
        return self.space == "global" and len(self.dims) == 1 and self.start is None

    @property
    def is_packed(self) -> bool:
        """Whether elements share bytes."""
        return self.dtype.is_packed and (self.packed or self.space == "global")

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements, which begin and end with a byte."""
        return elements * (self.dtype.bits if self.is_packed else 8 * self.dtype.bytes) // 8

    @property
    def contiguous_dim(self) -> str:
        """The dim whose neighbours are neighbours in memory: the last one that has several; none of a single number."""
        return self.dims[self._row_axis] if self.dims else ""

    @property
    def row_length(self) -> Expr:
        """Elements along that dim."""
        return self.shape[self._row_axis]

    @property
    def _row_axis(self) -> int:
        if self.space != "global" or self.is_strided:
            return -1
        return max((axis for axis, extent in enumerate(self.shape) if extent != const(1)), default=-1)

    @property
    def nearest_dim(self) -> str:
        """The same of an arrangement in panels, which may have the elements of any dim side by side."""
        digits = self.arrangement.digits if self.arrangement is not None else ()
        return digits[-1].dim if digits else self.contiguous_dim

    @property
    def elements(self) -> Expr:
        """Elements of the memory (of one buffer), padding included."""
        if self.arrangement is not None:
            return const(self.arrangement.elements)
        if self.start is not None:  # up to the last one of all
            return self.offset({dim: extent - 1 for dim, extent in zip(self.dims, self.shape, strict=True)}) + 1
        total = const(1)
        for extent in self.shape:
            total = total * extent
        return total

    def offset(self, coordinates: Mapping[str, Expr]) -> Expr:
        """Element offset of a coordinate (in the first buffer)."""
        if self.arrangement is not None:
            return self.arrangement.offset(coordinates)
        if self.start is not None:
            return total_of(
                [(self.start, 1), *((coordinates[d] * s, 1) for d, s in zip(self.dims, self.strides, strict=True))]
            )
        total = const(0)
        for dim, extent in zip(self.dims, self.shape, strict=True):
            total = joined(total, coordinates[dim], extent)
        return total

    def unswizzled_offset(self, coordinates: Mapping[str, Expr]) -> Expr:
        """`offset` for copy engines and matrix units, which swizzle addresses themselves."""
        assert self.arrangement is not None
        return replace(self.arrangement, swizzle=None).offset(coordinates)


@node
class Split:
    """One line of the distribution: ``tile`` elements of ``dim`` per workgroup, wave or loop step.

    ``axis``: of a launch, as the spec has it; from `AssignTiles` on of the kernel's grid, where each dim has its own.
    ``order``: the tile at each place along it, in the terms of `wavespec.ir.tile_order`; None for the same number.
    """

    dim: str
    tile: int
    axis: int = 0
    order: Expr | None = None
    span: Span | None = field(default=None, compare=False)


def _nowhere(*_: str | int) -> Where:
    return None


@node
class LoopSchedule:
    """What a spec says of the steps of a loop, `LoopSchedule` of `schema.language.models`, with its defaults filled in.

    ``buffers``: copies of a staged tile, 0 = as few as the stages allow.  ``unroll``: steps written out in one round, 0
    = as the plan has them.  ``where``: the place of a part in the spec;
    ``where_key``: of its name.
    """

    loop: str = ""
    stages: int = 1
    auto: Literal["", "prefetch", "modulo"] = ""
    nodes: tuple[tuple[str, int], ...] = ()
    clusters: tuple[tuple[str, ...], ...] = ()
    buffers: int = 0
    unroll: int = 0
    where: Callable[..., Where] = field(default=_nowhere, compare=False)
    where_key: Callable[..., Where] = field(default=_nowhere, compare=False)


WaveOrder = Literal["together", "in_parts", "in_turn", "ping_pong"]


@node
class WaveRoles:
    """What waves do beside computing their part: ``producers`` more of them only copy.

    ``together``: all other waves work on one tile; ``in_parts``: they do, and issue most of a step's last product
    between the arithmetic of the next; ``in_turn``: they do, and issue their products one behind the other;
    ``ping_pong``: they take turns, a tile each.  ``early_wait``: they wait for a step's last product as soon as lanes
    have told each other of the sums of the next.  ``registers``: of a lane of a producer and of the others, 0 = as
    compiled.  ``buffers``: copies of the tiles of tensors that lanes read beside products; ``where``: the place of a
    setting in the spec.
    """

    producers: int = 0
    order: WaveOrder = "together"
    registers: tuple[int, int] = (0, 0)
    span: Span | None = field(default=None, compare=False)
    registers_span: Span | None = field(default=None, compare=False)
    buffers: tuple[tuple[str, int], ...] = ()
    where: Callable[..., Where] = field(default=_nowhere, compare=False)
    early_wait: bool = False


@node
class Distribution:
    """How the spec's constraints split the work; `AssignTiles` turns it into extents, origins and the grid."""

    workgroup: tuple[Split, ...] = ()
    loops: tuple[Split, ...] = ()
    waves: tuple[Split, ...] = ()
    instruction: str = "auto"
    stages: int = 1
    group: int = 0
    """Workgroups along axis 0 that run together with their neighbours along axis 1; 0 = as the machine likes it."""
    chiplets: bool | None = None
    """Whether each chiplet of a machine gets neighbours; None = where tiles come in groups."""
    persistent: bool = False
    """Whether one workgroup per processor walks over the tiles."""
    workers: int = 0
    """How many of these workgroups there are, whatever the processors; 0 = one for each."""
    cluster: int = 1
    """Workgroups along axis 0 that can write each other's shared memory."""
    split: int = 1
    """Workgroups that share out the steps of the loop over one tile; they are a cluster along an axis of their own."""
    last_round: int = 1
    """Workgroups, at most so many, that share out the steps of the loop over a tile of the last round; 1 = one has
    all."""
    resident: int = 1
    """Workgroups that a processor has room for at once; 1 = as many as it happens to."""
    registers: int = 0
    """Of a lane: workgroups are as many as these leave room for; 0 = as ``resident`` says."""
    fitted: bool = False
    """Whether a launch has no more waves than there are elements for."""
    roles: WaveRoles = WaveRoles()
    auto: Literal["", "prefetch", "modulo"] = ""
    schedules: tuple[LoopSchedule, ...] = ()
    """Of the loops that have one of their own; `stages` and `auto` hold for the others."""
    vectors: tuple[Split, ...] = ()
    """Neighbours along dims that each lane has together, in tiles that no product distributes; empty: as it suits."""
    instruction_span: Span | None = field(default=None, compare=False)
    stages_span: Span | None = field(default=None, compare=False)
    workgroups_span: Span | None = field(default=None, compare=False)
    group_span: Span | None = field(default=None, compare=False)
    chiplets_span: Span | None = field(default=None, compare=False)
    is_for_target: bool = field(default=False, compare=False)
    """Whether the schedule was written for this target alone, so that all of it should have a meaning."""
    chosen: bool = field(default=False, compare=False)
    """Whether the compiler chose `waves`, as the spec names none."""
    is_planned: bool = field(default=False, compare=False)
    """Whether it chose all tiles, as the spec names none."""

    @property
    def has_orders(self) -> bool:
        """Whether a dim has an order of tiles of its own, which a machine's would undo."""
        return any(split.order is not None for split in self.workgroup)

    def schedule_of(self, loop: str) -> LoopSchedule:
        """The schedule of the loop called ``loop``."""
        whole = LoopSchedule(loop, self.stages, self.auto, where=lambda *_: self.stages_span)
        return next((schedule for schedule in self.schedules if schedule.loop == loop), whole)


@node
class Kernel:
    """A kernel at one level of the lowering.

    ``symbols``: every integer symbol with its range.  ``grid``: workgroups per axis; ``joined``: axes that share one of
    the launch with the axis before them.  ``waves``: wave symbol and count, slowest first; ``lanes`` per wave;
    ``producers`` more waves, behind the others, only copy.  ``cluster`` workgroups run at the same time and can write
    each other's shared memory; symbol ``rank`` tells them apart.  ``sizes``: of dims that no tensor has.  ``notes``:
    what passes have to say about their choices.  ``present``: dims that have an element wherever a workgroup runs.
    ``scalars``: numbers that a call passes, in order; each is a symbol, one of floating point by its bits.
    ``flushes``: numbers of f32 below the smallest normal one may count as 0.  ``launched``: how many of the waves of a
    workgroup a launch has, the first ones, at least one; none = all.  The others would find nothing to do.
    """

    name: str
    level: Literal["tile", "thread"]
    target: str
    symbols: tuple[Expr, ...]
    memories: tuple[Memory, ...]
    body: tuple[Op, ...]
    distribution: Distribution = Distribution()
    grid: tuple[Expr, ...] = ()
    waves: tuple[tuple[str, int], ...] = ()
    lanes: int = 1
    producers: int = 0
    cluster: int = 1
    sizes: tuple[tuple[str, Expr], ...] = ()
    notes: tuple[str, ...] = ()
    joined: tuple[int, ...] = ()
    present: tuple[str, ...] = ()
    scalars: tuple[tuple[str, DType], ...] = ()
    flushes: bool = False
    launched: Expr | None = None
    # Passes walk over it a few times each, and most leave it as it is.
    _all: tuple[Op, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def memory(self, name: str) -> Memory:
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise KeyError(f"kernel '{self.name}' has no memory '@{name}'")

    def size(self, dim: str) -> Expr:
        """The size of a dim, of the tensors that have it or by itself."""
        for memory in self.memories:
            if memory.space == "global" and dim in memory.dims:
                return memory.shape[memory.dims.index(dim)]
        return dict(self.sizes)[dim]

    @property
    def present_sizes(self) -> dict[str, Expr]:
        """By symbol, the sizes of dims that are not empty where a workgroup runs, as they are known there."""
        sizes = [size for dim, size in self.all_sizes.items() if dim in self.present and size.kind == "symbol"]
        return {name: symbol(name, max(low, by), high, by) for name, low, high, by in (size.args for size in sizes)}

    @property
    def all_sizes(self) -> dict[str, Expr]:
        """The sizes of all dims."""
        tensors = (memory for memory in self.memories if memory.space == "global")
        return dict(self.sizes) | {d: e for m in tensors for d, e in zip(m.dims, m.shape, strict=True)}

    @property
    def scratch(self) -> tuple[Memory, ...]:
        """Memory that the workgroups of a launch have in common beside tensors, counters first."""
        spaces = ("counter", "handed")
        return tuple(memory for space in spaces for memory in self.memories if memory.space == space)

    def symbol(self, name: str) -> Expr:
        """The declared symbol, or 0 for an identifier with a single value (a wave or lane of one)."""
        for known in self.symbols:
            if known.args[0] == name:
                return known
        return const(0)

    def with_symbols(self, *added: Expr) -> Kernel:
        """The kernel with symbols declared (again: no change)."""
        fresh = [s for s in dict.fromkeys(added) if s.kind == "symbol" and s not in self.symbols]
        return replace(self, symbols=(*self.symbols, *fresh))

    def waves_along(self, dim: str) -> int:
        """Into how many parts the waves of a workgroup split its tile of ``dim``."""
        return dict(self.waves).get(wave_name(dim), 1)

    @property
    def wave_count(self) -> int:
        total = 1
        for _, count in self.waves:
            total *= count
        return total

    @property
    def wave_number(self) -> Expr:
        """The number of a wave that computes, among those of its workgroup."""
        number = const(0)
        for name, count in self.waves:
            number = number * count + self.symbol(name)
        return number

    @property
    def threads(self) -> int:
        """Lanes of one workgroup."""
        return (self.wave_count + self.producers) * self.lanes

    def walk(self) -> tuple[Op, ...]:
        """All operations, in program order."""
        known = self._all
        if known is None:
            known = tuple(chain.from_iterable([op.walk() for op in self.body]))
            object.__setattr__(self, "_all", known)
        return known


def rewrite(ops: tuple[Op, ...], change: Callable[[Op], tuple[Op, ...]], of: Group | None = None) -> tuple[Op, ...]:
    """Apply ``change`` to every operation, or to those ``of`` a group, innermost first; each becomes any number of
    operations.

    What ``change`` gives back as it is stays the same object, up to all of ``ops``.
    """
    result: list[Op] = []
    for op in ops:
        if op.region and (of is None or op.contains(of)):
            inside = rewrite(op.region.ops, change, of)
            if inside is not op.region.ops:
                op = replace(op, region=replace(op.region, ops=inside))
        if of is None or op.name in of.names:
            result.extend(change(op))
        else:
            result.append(op)
    return ops if len(result) == len(ops) and all(map(operator.is_, result, ops)) else tuple(result)


def retype(op: Op, types: Mapping[str, TileType | VectorType]) -> Op:
    """The operation with the types of the named values replaced, inside its region as well."""

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([Value(v.name, types[v.name]) if v.name in types else v for v in values])

    region = op.region
    if region:
        region = Region(of(region.arguments), tuple(retype(inner, types) for inner in region.ops), of(region.yields))
    return replace(op, operands=of(op.operands), results=of(op.results), region=region)
