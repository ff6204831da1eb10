"""Tile kernels go in; what breaks a property that passes rely on comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.tile_ops import (
    ACROSS,
    CAST,
    CLUSTER_EXTREME,
    CLUSTER_SUM,
    COPY,
    DOT,
    ELEMENTWISE,
    EXTRACT,
    INDEX,
    ITERATE,
    JOIN,
    MMA,
    PAD,
    PURE,
    READ,
    REDUCE,
    SIZE,
    SPREAD_SUM,
    TILE_OPS,
    TOPK,
    WAVE_SUM,
    WRITE,
)
from wavespec.lower.contracts import Breach, Property, property_of
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.lower.stands_once import stands_once
from wavespec.targets.machine import Machine

_START: Final = 2
"""The operand of a product that it adds to."""


@property_of("tile")
def is_of_tiles(kernel: Kernel, machine: Machine) -> Iterable[Breach]:
    """Operations are about whole tiles."""
    return ()  # what `check` says of the level is all


@property_of("tile")
def products_have_three_operands(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Products have two factors and a sum, no scales."""
    for op in _products(kernel):
        if len(op.operands) != 3:
            yield op, f"it has {len(op.operands)} operands"


@property_of("tile")
def unit_dims_are_dropped(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """No tile has a dim that the grid counts one by one, unless an operation is about it or a matrix needs it."""
    plan = kernel.distribution
    units = {split.dim for split in plan.workgroup if split.tile == 1} - {split.dim for split in plan.loops}
    units -= {op.get("dim") for op in kernel.walk() if not op.is_(INDEX, SIZE)}
    units -= {op["k"] for op in kernel.walk() if op.is_(TOPK)}
    for op in (*_products(kernel), *(op for op in kernel.walk() if op.is_(DOT))):
        lhs, rhs, acc = (set(value.tile.dims) for value in op.operands[:3])
        units -= {dim for own in (lhs, rhs) if len(own) == 2 for dim in own} | ((lhs & rhs) - acc)
    for op, value in _values(kernel):
        for dim in units.intersection(value.tile.dims):
            yield op, f"%{value.name} has dim '{dim}', of which a workgroup has one"


@property_of("tile")
def products_are_of_matrices(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Operands and results of products have two dims."""
    for op in _products(kernel):
        for value in (*op.operands[:3], *op.results):
            if len(value.tile.dims) != 2:
                yield op, f"%{value.name} is {value.tile}"


@property_of("tile")
def products_have_instructions(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Every product names an instruction that the machine has, and which dims are its m, n and k."""
    for op in _products(kernel):
        name = op.get("instruction")
        if name is None or machine.instruction(name) is None:
            yield op, "it names no instruction" if name is None else f"{machine.variant} has no '{name}'"
        missing = [key for key in ("m", "n", "k") if op.get(key) is None]
        if missing:
            yield op, f"it lacks '{missing[0]}'"


@property_of("tile")
def reads_are_for_one_use(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """What is read for a product is used by products alone that want it staged and converted alike."""
    ways: dict[str, set[tuple[object, ...]]] = {}
    for op in kernel.walk():
        row = machine.instruction(op["instruction"]) if op.is_(MMA) else None
        for number, value in enumerate(op.operands):
            part = (row.a, row.b)[number] if row and number < 2 else None
            way = (part.dtype, part.bias, part.staging, part.from_shared) if part else ()
            ways.setdefault(value.name, set()).add(way)
        for value in op.region.yields if op.region else ():
            ways.setdefault(value.name, set()).add(())
    for op in kernel.walk():
        if op.is_(READ) and len(ways.get(op.result.name, ())) > 1:
            yield op, f"%{op.result.name} is used in {len(ways[op.result.name])} ways"


@property_of("tile")
def tiles_have_extents(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Every tile knows its extent along each of its dims."""
    for op, value in _values(kernel):
        if not all(value.tile.extents):
            yield op, f"%{value.name} is {value.tile}"


@property_of("tile")
def tiles_are_placed(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Accesses have an origin, loops an induction, bounds and a step: all that assign-tiles gives them."""
    for op in kernel.walk():
        given = TILE_OPS[op.name].set_by("assign-tiles") if not op.is_(ACROSS) else ()  # what joins parts is nowhere
        for key in sorted(given):
            if key not in dict(op.attributes):
                yield op, f"it lacks '{key}'"


@property_of("tile")
def loops_have_several_steps(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """A loop without products, which no schedule names, has more than one step for some size, or may have none."""
    for op in _loops_of_no_product(kernel):
        most, is_branch = op["extent"].high, not op["dim"] and (op["extent"].low or 0) < 1
        may_have_none = is_branch or any(op.get(key) is not None for key in ("lower", "stride", "goes_on"))
        if not may_have_none and most is not None and most <= op["step"].value:
            yield op, f"its extent is {op['extent']}, at most {most}, and its step {op['step']}"


@property_of("tile")
def staged_tensors_are_copied(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """A tensor that goes through shared memory is read there, but by reads that say they are direct or in place."""
    staged = {memory.name for memory in kernel.memories if memory.space == "global" and memory.staged}
    for op in kernel.walk():
        if op.is_(READ) and op["memory"] in staged and not op.get("direct") and op.get("clamped") is None:
            yield op, f"%{op.result.name} is read from '@{op['memory']}' itself"


@property_of("tile")
def products_read_their_operands(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Both factors of a product come from memory, laid down as its instruction reads them, or are where it has them: as
    parts of what is in registers, or padded, as lanes decode it, and converted for it where that is all."""
    makers = _makers(kernel)
    for op in _products(kernel):
        for value in op.operands[:2]:
            maker = makers.get(value.name)
            if maker is not None and maker.is_(CAST) and (padded := makers.get(maker.operands[0].name)):
                maker = padded if padded.is_(PAD) else maker
            if maker is None or not maker.is_(READ, EXTRACT, PAD) or maker.get("direct"):
                yield op, f"%{value.name} is made by '{maker.name if maker else 'a loop'}'"


@property_of("tile")
def parts_are_joined(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """What each register has joined so far is used by nothing but what joins the rest along the same dim, by the same
    function."""
    parts: dict[str, tuple[str, str]] = {}
    loops = [op for op in kernel.walk() if op.is_(ITERATE)]
    for op in kernel.walk():
        if op.is_(JOIN):
            parts |= dict.fromkeys((op.operands[0].name, op.result.name), (op["dim"], op["function"]))
    for loop in (*loops, *reversed(loops)):  # outwards and inwards: what is carried on are parts, too
        carried = zip(loop.operands, loop.body.arguments, loop.body.yields, loop.results, strict=True)
        for given, *others in carried:
            kind = next((parts[value.name] for value in (given, *others) if value.name in parts), None)
            parts |= {value.name: kind for value in others} if kind else {}
    for op in kernel.walk():
        for number, value in enumerate(() if op.is_(ITERATE) else op.operands):
            joins = op.is_(JOIN, REDUCE) and number == 0 and (op["dim"], op["function"]) == parts.get(value.name)
            if value.name in parts and not joins:
                yield op, f"%{value.name} is joined in parts"


@property_of("tile")
def shares_are_summed_up(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Of a loop whose steps workgroups share out, nothing is used but what joins all of them, or goes on with a
    share."""
    if kernel.distribution.split == 1:
        return

    def takes_a_share(op: Op | None) -> bool:
        lower: Expr | None = op.get("lower") if op and op.is_(ITERATE) else None
        return lower is not None and "wg0" in lower.symbols

    shares = {value.name for op in kernel.walk() if takes_a_share(op) for value in op.results}
    for op in kernel.walk():
        joins = op.is_(CLUSTER_EXTREME, CLUSTER_SUM) or (op.is_(REDUCE) and op.get("signal") is not None)
        for value in () if joins or takes_a_share(op) else op.operands:
            if value.name in shares and op.is_(ELEMENTWISE | CAST):  # scaled, to be joined
                shares.add(op.result.name)
            elif value.name in shares:
                yield op, f"%{value.name} is the sum of some steps"


@property_of("tile")
def waves_are_summed_up(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """What waves have summed along a dim that they share out is used by what adds up all of them, or goes on."""
    parts = {op.result.name for op in kernel.walk() if op.is_(MMA) and waves_of_sum(kernel, op, machine) > 1}
    for op in kernel.walk():
        adds_up = op.is_(WAVE_SUM | SPREAD_SUM) or (op.is_(CLUSTER_SUM) and bool(op.get("dim")))
        for number, value in enumerate(() if adds_up else op.operands):
            if value.name in parts and not (op.is_(MMA) and number == _START):
                yield op, f"%{value.name} is the sum of one wave"


@property_of("tile")
def sums_start_apart(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """In a loop no product adds to what arithmetic of the same step made."""
    for loop in kernel.walk():
        ops = loop.region.ops if loop.is_(ITERATE) and loop.region else ()
        computed = {op.result.name for op in ops if op.is_(ELEMENTWISE)}
        for op in ops:
            if op.is_(MMA) and op.operands[2].name in computed:
                yield op, f"it adds to %{op.operands[2].name}"


@property_of("tile")
def operands_are_read_beside_products(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Factors that take registers are read in the block of their product."""
    makers = _makers(kernel)
    blocks = [kernel.body, *(op.region.ops for op in kernel.walk() if op.region)]
    for ops in blocks:
        here = {value.name for op in ops for value in op.results}
        for op in ops:
            for value in op.operands[:2] if op.is_(MMA) else ():
                if value.name not in here and not makers[value.name].get("by_unit"):
                    yield op, f"%{value.name} is read in another block"


@property_of("tile")
def tiles_have_layouts(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Every tile has its place in waves, lanes and registers, but what the matrix unit reads by itself."""
    for op, value in _values(kernel):
        if value.tile.layout is None and not op.get("by_unit"):
            yield op, f"%{value.name} is {value.tile}"


@property_of("tile")
def copies_are_distributed(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Every copy says what each lane moves, or which boxes an engine does."""
    for op in kernel.walk():
        if op.is_(COPY) and op.get("layout") is None and not op.get("boxes"):
            yield op, "it has neither 'layout' nor 'boxes'"


@property_of("tile")
def edges_are_masked(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """Where the last tile may be partial, accesses to tensors and what joins elements check bounds; or whole tiles
    alone are left in the loop around them."""
    yield from _unmasked(kernel)


@property_of("tile")
def accesses_are_masked(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """The same of accesses alone: what joins elements may have found them replaced."""
    yield from (found for found in _unmasked(kernel) if found[0].is_(READ, WRITE, COPY))


def _unmasked(kernel: Kernel) -> Iterator[tuple[Op, str]]:
    plan = kernel.distribution
    tiles = {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
    tiles |= {split.dim: split.tile * plan.cluster for split in plan.workgroup if split.axis == 0}

    def block(ops: tuple[Op, ...], whole: Mapping[str, str]) -> Iterator[tuple[Op, str]]:
        for op in ops:
            places = _origin(op)
            for dim, size in _bounded(kernel, op):
                start = places.get(dim)
                inside = start is not None and whole.get(dim, "") in start.symbols
                if dim in tiles and size.divisor % tiles[dim] and not inside and not _is_checked(op, dim):
                    yield op, f"it checks no bounds along '{dim}'"
            if op.region:
                yield from block(op.region.ops, {**whole, **_whole_steps(op, kernel)})

    yield from block(kernel.body, {})


@property_of("tile")
def whole_steps_check_nothing(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """A loop without products, which no schedule names, checks bounds along its dim in its last step alone."""
    for loop in _loops_of_no_product(kernel):
        if loop["unroll"] == 0 or any(loop.get(key) is not None for key in ("lower", "stride", "goes_on")):
            continue
        if loop["step"] == const(1):  # of single elements, only the step of an empty dim checks bounds
            continue
        if stands_once(loop, kernel, machine):
            continue
        for op in loop.walk()[1:]:
            start = _origin(op).get(loop["dim"], const(0))
            if start is kernel.symbol(loop["induction"]) and not start.is_const and _is_checked(op, loop["dim"]):
                yield op, f"it checks bounds along '{loop['dim']}' in every step"


@property_of("tile")
def nothing_is_computed_twice(kernel: Kernel, machine: Machine) -> Iterator[Breach]:
    """No two operations make the same of the same values, or read the same, where schedules name none of them."""
    written = {op["memory"] for op in kernel.walk() if op.is_(WRITE, COPY)}

    def block(ops: tuple[Op, ...], around: frozenset[Any]) -> Iterator[Breach]:
        known = set(around)
        for op in ops:
            is_read = op.is_(READ) and op["memory"] not in written and not op.get("by_unit")
            if op.is_(PURE) or (is_read and kernel.memory(op["memory"]).space == "global"):
                key = (op.name, op.operands, key_of_attributes(op), op.result.type)
                if key in known:
                    yield op, f"%{op.result.name} is there already"
                known.add(key)
            if op.region:
                yield from block(op.region.ops, frozenset(known))

    if not kernel.distribution.schedules:
        yield from block(kernel.body, frozenset())


def _products(kernel: Kernel) -> Iterator[Op]:
    return (op for op in kernel.walk() if op.is_(MMA))


def _values(kernel: Kernel) -> Iterator[tuple[Op, Value]]:
    """All values, each with the operation that makes it."""
    for op in kernel.walk():
        for value in (*op.results, *(op.region.arguments if op.region else ())):
            yield op, value


def _makers(kernel: Kernel) -> dict[str, Op]:
    return {value.name: op for op in kernel.walk() for value in op.results}


def _loops_of_no_product(kernel: Kernel) -> Iterator[Op]:
    """Loops that no pass has to overlap the steps of."""
    scheduled = {schedule.loop for schedule in kernel.distribution.schedules}
    for op in kernel.walk():
        if op.is_(ITERATE) and op.node not in scheduled and not any(one.is_(MMA) for one in op.walk()):
            yield op


def _bounded(kernel: Kernel, op: Op) -> Iterable[tuple[str, Expr]]:
    """The dims along which an operation may have to check bounds, with their sizes."""
    if "masked" not in TILE_OPS[op.name].attributes:
        return ()
    if op.get("dim") is not None:
        return ((op["dim"], op["size"]),) if op.get("origin") is not None else ()
    memory = kernel.memory(op.get("source") or op["memory"])
    if memory.space != "global":
        return ()
    if op.get("at"):
        sizes = kernel.all_sizes
        return tuple((dim, sizes[dim]) for dim in op["over"])
    return tuple(zip(memory.dims, memory.shape, strict=True))


def _origin(op: Op) -> Mapping[str, Expr]:
    return dict(op.get("origin") or ())


def _is_checked(op: Op, dim: str) -> bool:
    masked = op.get("masked")
    if isinstance(masked, bool):
        return masked and op["dim"] == dim
    return dim in (masked or ()) or dim in (op.get("clamped") or ())


def _whole_steps(loop: Op, kernel: Kernel) -> Mapping[str, str]:
    """The dim and the induction of a loop that takes whole tiles alone: of a span, ``span - span % step``; or as many
    steps as are written, which end inside of the dim."""
    if not loop.get("dim"):
        return {}
    extent, step = loop["extent"] - (loop.get("lower") or 0), loop["step"]
    rests = [rest for rest in extent.walk() if rest.kind == "mod" and rest.args[1] is step]
    is_divided = step.is_const and extent.divisor % step.value == 0
    are_whole = rests and is_divided  # what is left may be that of a like sum
    room = kernel.all_sizes[loop["dim"]].beyond(loop["extent"])
    are_inside = is_divided and extent.is_const and room is not None and room >= 0
    is_whole = are_whole or are_inside or any(extent is rest.args[0] - rest for rest in rests)
    return {loop["dim"]: loop["induction"]} if is_whole else {}


TILE_PROPERTIES: Final[tuple[Property, ...]] = tuple(one for one in globals().values() if isinstance(one, Property))
