"""Tile kernel in, tile kernel out: every loop, tile and memory access knows its extent and where it starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where, raise_all
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Distribution, Kernel, Op, Split, TileType, Value, VectorType, retype, rewrite
from wavespec.ir.names import wave_name
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import ACROSS, BIND, ITERATE, JOINED, MMA, SCAN, TAKE, TILE_OPS, TOPK
from wavespec.lower.base import Pass
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.empty_dims import dims_not_needed, is_needed_once
from wavespec.lower.resolve_places import resolve_places
from wavespec.lower.thread_properties import symbols_are_in_scope
from wavespec.lower.tile_properties import products_have_instructions, tiles_are_placed, tiles_have_extents
from wavespec.lower.tiles_of_waves import tiles_of_waves
from wavespec.lower.untiled_dims import reduction_split, untiled_dim
from wavespec.ops.index_map import moved_dims
from wavespec.schedule.buffer_ring import TURN, WAVES_IN_TURN
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction


class TooManyThreads(WavespecError, code="too-many-threads"):
    def __init__(self, where: Where, kernel: Kernel, machine: Machine) -> None:
        super().__init__(
            where,
            f"{kernel.wave_count + kernel.producers} waves of {kernel.lanes} lanes are {kernel.threads} threads; "
            f"{machine.variant} runs at most {machine.max_threads} in a workgroup.",
            hints=["Make the wave tiles larger or the workgroup tiles smaller."],
        )


class OutsideLoop(WavespecError, code="outside-loop"):
    def __init__(self, where: Where, name: str, dim: str) -> None:
        super().__init__(
            where,
            f"'{name}' has the dim '{dim}', which is walked over in tiles, "
            f"and is not inside an 'iterate' over '{dim}'.",
            hints=[f"Move it into the 'iterate' over '{dim}', or delete the tiling of '{dim}'."],
        )


class LargerThanTile(WavespecError, code="larger-than-tile"):
    def __init__(self, where: Where, dim: str, tile: int) -> None:
        super().__init__(
            where,
            f"Nothing walks over {dim!r} with 'iterate', so one tile of {tile} elements has to hold all of it; "
            "it may be larger.",
            hints=[f"Promise {{{dim}: {{max: {tile}}}}} in 'dims', use a larger tile, or add 'iterate: {dim}'."],
        )


class EmptyTile(WavespecError, code="empty-tile"):
    def __init__(self, where: Where, name: str, dim: str) -> None:
        super().__init__(
            where,
            f"One workgroup would hold '{name}' along all of '{dim}', whose size is always 0 here.",
            hints=[f"Add {{workgroup: {dim}, tile: ..., axis: ...}} to 'constraints', or leave the case out."],
        )


class TakenApart(WavespecError, code="taken-apart"):
    def __init__(self, where: Where, name: str, dim: str) -> None:
        super().__init__(
            where,
            f"A workgroup, or a step of a loop, has a part of '{name}' along '{dim}', "
            f"and elements of all of '{dim}' are taken.",
            hints=[
                f"Give '{dim}' one tile: {{tiling: {dim}, tile: ...}} of at least its largest size, "
                f"which is no 'iterate' over '{dim}'.",
                "Of a tensor, 'read' takes elements from anywhere: it has 'at' as well.",
            ],
        )


class FoundApart(WavespecError, code="found-apart"):
    """``tile``: what a workgroup, or a step, has of the ``count`` elements that are found."""

    def __init__(self, where: Where, dim: str, tile: int, count: int) -> None:
        super().__init__(
            where,
            f"'topk' finds all {count} elements along '{dim}' at once; a tile of {tile} has a part of them.",
            hints=[f"Delete the tile of '{dim}', or make it {count}."],
        )


class NotUniform(WavespecError, code="not-uniform"):
    def __init__(self, where: Where, value: Value) -> None:
        dims = ", ".join(value.tile.dims)
        super().__init__(
            where,
            f"'{value.name}' is a number for each element of [{dims}]; "
            "a condition or a bound takes one for a workgroup.",
            hints=["Reduce it, or give workgroups a tile of 1 of its dims."],
        )


class TurnsNotPossible(WavespecError, code="turns-not-possible"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "Waves take turns tile by tile, so a workgroup needs more than one tile.",
            hints=["Add 'workgroups: {persistent: true}' to the schedule."],
        )


class ClusterNotPossible(WavespecError, code="cluster-not-possible"):
    def __init__(self, where: Where, cluster: int, machine: Machine) -> None:
        sizes = " or ".join(map(str, machine.clusters))
        hint = (
            f"{machine.variant} has clusters of {sizes}, for schedules that are 'persistent' and have a producer."
            if sizes
            else f"{machine.variant} has no clusters; leave out 'cluster' for this target."
        )
        super().__init__(where, f"A cluster of {cluster} workgroups is not possible here.", hints=[hint])


class RegistersNotPossible(WavespecError, code="registers-not-possible"):
    def __init__(self, where: Where, why: str, hint: str) -> None:
        super().__init__(where, f"Registers cannot be shared like this: {why}.", hints=[hint])


_SHORTEST_TILE = 64
"""Elements: the widest access of bytes."""
_FEWEST_REGISTERS = 24
"""Of a lane, below which addresses alone do not fit."""


class AssignTiles(Pass):
    """Turn the distribution into extents, origins, the grid and the waves of a workgroup.

    Before: types have dims without extents; reads and writes touch whole tensors.
    After:  every type has its extents; ``iterate`` has ``induction``, ``extent`` and ``step``; reads and writes have
            ``origin``, one coordinate per dim (with a mapping, of the tile, else of the tensor); the kernel has its
            grid and its waves.  On a machine whose waves run one after another a wave takes exactly one matrix
            instruction, whatever the wave constraint says.
            Where waves that compute take turns at whole tiles, there are two of each.  Dims that share an axis of the
            launch have one each in the grid, ``joined``.
            A dim with a tiling that no loop walks over has one tile, at 0.  The grid has a tile of an empty dim
            too, where something is written that lacks the dim, and so do loops that write such a thing; the other
            dims of the grid are ``present``.
    Errors: ``tile-not-divisible``, ``too-many-threads``, ``larger-than-tile``, ``found-apart``, ``products-repeated``,
            ``sums-not-shared``, ``results-not-shared`` at the constraint; ``outside-loop``, ``untiled-dim``,
            ``reduction-split``, ``taken-apart`` at the operation; ``turns-not-possible``, ``cluster-not-possible``,
            ``registers-not-possible`` at the schedule.
    """

    name: ClassVar[str] = "assign-tiles"
    requires = (products_have_instructions,)
    ensures = (tiles_have_extents, tiles_are_placed, symbols_are_in_scope)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        sizes = kernel.all_sizes
        products = [(op, instruction_of(op, machine)) for op in kernel.walk() if op.is_(MMA)]
        kernel = replace(kernel, distribution=_of_dims(kernel.distribution, sizes))
        plan = _with_short_steps(kernel, machine, products)
        kernel = replace(kernel, distribution=plan)
        walked = {op["dim"] for op in kernel.walk() if op.is_(ITERATE)}
        raise_all(_larger(plan, sizes, walked))
        raise_all(_taken_apart(kernel, {split.dim for split in plan.workgroup} | walked))
        raise_all(_found_apart(kernel, sizes))
        raise_all(_unplaced(kernel, kernel.body, sizes, {s.dim for s in plan.loops} - walked, set()))
        extents = {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
        wave_tiles = tiles_of_waves(kernel, machine, products)
        has = {dim for op in kernel.walk() for value in op.results for dim in value.tile.dims}
        split = [s for s in plan.workgroup if s.dim in has]
        split += [loop for loop in plan.loops if loop.dim in wave_tiles]
        axes = {wave.dim: wave.axis for wave in plan.waves}
        split.sort(key=lambda s: -axes.get(s.dim, 0))
        waves = tuple((wave_name(s.dim), s.tile // wave_tiles[s.dim]) for s in split)
        if plan.roles.producers and plan.roles.order == "ping_pong":
            if not plan.persistent:
                raise TurnsNotPossible(plan.roles.span)
            waves = ((TURN, WAVES_IN_TURN), *waves)
        lanes = max((row.lanes for _, row in products), default=machine.lanes)
        if plan.cluster > 1 and not (plan.persistent and plan.roles.producers and plan.cluster in machine.clusters):
            raise ClusterNotPossible(plan.workgroups_span, plan.cluster, machine)
        cluster = plan.cluster * plan.split
        kernel = replace(kernel, waves=waves, lanes=lanes, producers=plan.roles.producers, cluster=cluster)
        if machine.concurrent_waves and kernel.threads > machine.max_threads:
            raise TooManyThreads(plan.waves[0].span if plan.waves else None, kernel, machine)

        _check_registers(kernel, machine, products)
        kernel = _with_room(kernel, machine)
        _check_room(kernel, machine)
        kernel, origins = _placed(kernel, sizes)
        types: dict[str, TileType | VectorType] = {
            value.name: replace(
                value.tile, extents=tuple(extents.get(dim, 0) or _whole(sizes[dim]) for dim in value.tile.dims)
            )
            for op in kernel.walk()
            for value in (*op.results, *(op.region.arguments if op.region else ()))
        }

        kernel = _with_places(kernel, sizes, origins, extents)

        def change(op: Op) -> tuple[Op, ...]:
            if op.is_(ITERATE):
                return (_loop(kernel, op, sizes[op["dim"]], extents[op["dim"]]) if op["dim"] else op,)
            wanted = TILE_OPS[op.name].set_by(self.name)
            if "origin" in wanted:
                op = op.with_(origin=tuple((dim, origins.get(dim, const(0))) for dim in _placed_dims(kernel, op)))
            return (op.with_(size=sizes[op["dim"]]) if "size" in wanted else op,)

        return replace(kernel, body=tuple(retype(op, types) for op in rewrite(kernel.body, change)))


def _check_registers(kernel: Kernel, machine: Machine, products: list[tuple[Op, MatrixInstruction]]) -> None:
    """All lanes together have no more registers than they start with, and sums fit those of the waves that compute."""
    roles = kernel.distribution.roles
    few, many = roles.registers
    if not many:
        return
    where = roles.registers_span
    if not kernel.producers:
        why, hint = "no wave only copies, and could do with fewer", "Leave out 'registers', or add 'producers: 1'."
        raise RegistersNotPossible(where, why, hint)
    waves = kernel.wave_count // (WAVES_IN_TURN if TURN in dict(kernel.waves) else 1)
    together = machine.workgroups_together(kernel.distribution.workers)
    needed = kernel.lanes * (kernel.producers * few + kernel.wave_count * many)
    # Waves hand each other what they start with; of the file that is as much as all lanes can have alike, in steps.
    there = machine.registers_at_launch(kernel.threads * together) * kernel.threads
    if needed > there:
        free = there // kernel.lanes - kernel.producers * few
        most = free // kernel.wave_count // machine.register_step * machine.register_step
        of = f" of {together} workgroups" if together > 1 else ""
        why = f"the waves{of} would have {needed * together}, they start with {there * together}"
        raise RegistersNotPossible(where, why, f"With {few} for a producer, the others can have {most}.")
    tiles = {split.dim: split.tile for split in kernel.distribution.workgroup}
    for op, row in products:
        sums = tiles.get(op["m"], row.m) * tiles.get(op["n"], row.n) // waves // kernel.lanes * row.acc.dtype.bytes // 4
        if sums >= many:
            why = f"the sums of '{op.result.name}' alone take {sums} of each lane"
            raise RegistersNotPossible(where, why, "Give 'consumer' more, or use smaller wave tiles.")


def _with_room(kernel: Kernel, machine: Machine) -> Kernel:
    """As many workgroups on a processor as lanes leave room for, where the schedule says their registers."""
    plan = kernel.distribution
    if not plan.registers:
        return kernel
    step = max(1, machine.register_step)
    each = -(-plan.registers // step) * step
    room = machine.register_file // (each * kernel.threads) if machine.limits_registers else 1
    left = each if plan.fitted else 0  # of launches with fewer waves there are more
    return replace(kernel, distribution=replace(plan, resident=max(1, room), registers=left))


def _check_room(kernel: Kernel, machine: Machine) -> None:
    """As many workgroups as a processor is to hold leave their lanes a few registers each."""
    plan = kernel.distribution
    if plan.resident == 1:
        return
    if not machine.limits_registers:
        why = f"{machine.variant} leaves none for other workgroups"
        raise RegistersNotPossible(plan.workgroups_span, why, "Leave out 'resident' for this target.")
    lanes = kernel.threads * plan.resident
    each = machine.register_file // lanes // machine.register_step * machine.register_step
    if each < _FEWEST_REGISTERS:
        why = f"{plan.resident} workgroups of {kernel.threads} lanes leave each lane {each}"
        raise RegistersNotPossible(plan.workgroups_span, why, "Use fewer 'resident' ones.")


def _of_dims(plan: Distribution, sizes: Mapping[str, Expr]) -> Distribution:
    """The distribution of the dims that tensors have; others have nothing to split."""

    def kept(splits: tuple[Split, ...]) -> tuple[Split, ...]:
        return tuple(split for split in splits if split.dim in sizes)

    return replace(plan, workgroup=kept(plan.workgroup), loops=kept(plan.loops), waves=kept(plan.waves))


def _with_short_steps(kernel: Kernel, machine: Machine, products: list[tuple[Op, MatrixInstruction]]) -> Distribution:
    """The distribution with loops whose steps go no further than instructions should sum at once, than what is computed
    of a row has registers for, and than code should that goes through elements one by one.  Where a loop counts its
    tiles, or may end at one, they are those of the spec; sums of a dim that no loop walks over are cut later, by
    `shorten-sums`.  Where waves write out all of a tile, one that no loop walks over is less than twice as long as the
    dim may be."""
    loops = [op for op in kernel.walk() if op.is_(ITERATE) and op["dim"]]
    walked = {loop["dim"] for loop in loops}
    longest = {op["k"]: row.chain for op, row in products if row.chain and op["k"] in walked}
    along = [(loop["dim"], op) for loop in loops for op in loop.walk() if op.is_(JOINED, SCAN, TOPK)]
    if machine.longest_scan:
        scans = {dim for dim, op in along if op["dim"] == dim}
        longest |= {dim: min(longest.get(dim, machine.longest_scan), machine.longest_scan) for dim in scans}
    if machine.step_elements and not products:
        rows = {memory.contiguous_dim for memory in kernel.memories if memory.dims}
        longest |= dict.fromkeys(walked & rows - {dim for dim, _ in along}, machine.step_elements)
    counted = {loop["dim"] for loop in loops if loop.get("stride") is not None or loop.get("goes_on") is not None}
    cut = {dim: most for dim, most in longest.items() if dim not in counted}
    plan = kernel.distribution
    if machine.turn_elements and not products:
        cut |= {s.dim: _near(s.tile, kernel.size(s.dim)) for s in plan.loops if s.dim not in walked}
    return replace(plan, loops=tuple(replace(s, tile=min(s.tile, cut.get(s.dim, s.tile))) for s in plan.loops))


def _near(tile: int, size: Expr) -> int:
    """The tile, halved as long as all of a dim fits, and the widest accesses do."""
    while size.high is not None and not tile % 2 and tile // 2 >= max(size.high, _SHORTEST_TILE):
        tile //= 2
    return tile


def _placed(kernel: Kernel, sizes: Mapping[str, Expr]) -> tuple[Kernel, dict[str, Expr]]:
    """The kernel with its grid and every symbol of a place; where the tile of each split dim starts."""
    origins: dict[str, Expr] = {}
    axes: dict[int, Expr] = {}
    added: list[Expr] = []
    if kernel.distribution.split > 1:  # workgroups of one tile are neighbours
        axes[0] = const(kernel.cluster)
        added.append(symbol("wg0", 0, kernel.cluster - 1))
    kernel = _with_axes(kernel, first=len(axes))
    not_needed = dims_not_needed(kernel)
    for split in kernel.distribution.workgroup:
        size, axis = sizes[split.dim], split.axis
        last = None if size.high is None else max(0, (size.high - 1) // split.tile)
        if last is not None and axis == 0:  # clusters are whole: the last ones may lie beyond the edge
            last += -(last + 1) % kernel.cluster
        added.append(symbol(f"wg{axis}", 0, last))
        origins[split.dim] = added[-1] * split.tile
        axes[axis] = maximum(int(split.dim in not_needed), ceildiv(size, split.tile))
    added += [symbol(name, 0, count - 1) for name, count in kernel.waves]
    added.append(symbol("lane", 0, kernel.lanes - 1))
    walked = {op.get("dim") for op in kernel.walk() if op.is_(ITERATE)}
    for split in (split for split in kernel.distribution.loops if split.dim in walked):
        size = sizes[split.dim]
        last = None if size.high is None else max(0, (size.high - 1) // split.tile * split.tile)
        added.append(symbol(f"at_{split.dim}", 0, last, split.tile))
        origins[split.dim] = added[-1]
    grid = tuple(axes.get(axis, const(1)) for axis in range(max(axes, default=0) + 1))
    present = tuple(split.dim for split in kernel.distribution.workgroup if split.dim not in not_needed)
    return replace(kernel.with_symbols(*added), grid=grid, present=present), origins


def _with_axes(kernel: Kernel, first: int) -> Kernel:
    """The kernel with a grid axis for each dim, from ``first`` on; dims of one axis in the order of the spec."""
    splits = kernel.distribution.workgroup
    numbers: dict[str, int] = {}
    joined: list[int] = []
    for axis in range(max((split.axis for split in splits), default=-1) + 1):
        here = [split.dim for split in splits if split.axis == axis]
        numbers |= {dim: first + at for at, dim in enumerate(here)}
        joined += [first + at for at in range(1, len(here))]
        first += max(1, len(here))
    workgroup = tuple(replace(split, axis=numbers[split.dim]) for split in splits)
    return replace(kernel, distribution=replace(kernel.distribution, workgroup=workgroup), joined=tuple(joined))


def _larger(plan: Distribution, sizes: Mapping[str, Expr], walked: Collection[str]) -> Iterator[WavespecError]:
    """Dims that nothing walks over, and that are not known to fit one tile."""
    for split in plan.loops:
        high = sizes[split.dim].high
        if split.dim not in walked and (high is None or high > split.tile):
            yield LargerThanTile(split.span, split.dim, split.tile)


def _with_places(
    kernel: Kernel, sizes: Mapping[str, Expr], origins: Mapping[str, Expr], tiles: Mapping[str, int]
) -> Kernel:
    """The kernel with the places of tiles in conditions and bounds, and without the symbols that stood for them."""
    split = frozenset(split.dim for split in kernel.distribution.workgroup)
    kept = tuple(known for known in kernel.symbols if known.args[0].partition(".")[2] not in ("start", "end"))
    return replace(kernel, symbols=kept, body=resolve_places(kernel.body, sizes, origins, tiles, split))


def _loop(kernel: Kernel, op: Op, size: Expr, tile: int) -> Op:
    """The loop over the tiles that have an element between its bounds, or over the one of an empty dim."""
    extent = minimum(size, maximum(0, op.get("extent", size)))
    if is_needed_once(kernel, op):
        extent = maximum(1, size)
    op = op.with_(induction=f"at_{op['dim']}", extent=extent, step=const(tile), unroll=1)
    lower = op.get("lower")
    return op if lower is None else op.with_(lower=maximum(0, lower // tile * tile))


def _placed_dims(kernel: Kernel, op: Op) -> tuple[str, ...]:
    """The dims along which it matters where the tile of an operation begins."""
    if op.get("over") is not None:
        return op["over"]
    return kernel.memory(op["memory"]).dims if op.get("memory") else (op["dim"],)


def _taken_apart(kernel: Kernel, parted: Collection[str]) -> Iterator[WavespecError]:
    """Values of which elements are taken that others have: ``parted`` are dims that have several tiles."""
    for op in kernel.walk():
        if op.is_(TAKE):
            yield from (TakenApart(op.span, op.operands[0].name, dim) for dim in moved_dims(op) if dim in parted)


def _found_apart(kernel: Kernel, sizes: Mapping[str, Expr]) -> Iterator[WavespecError]:
    """Tiles of fewer elements than a `topk` finds: each would have the largest ones, whatever its place."""
    plan = kernel.distribution
    counts = {op["k"]: sizes[op["k"]].value for op in kernel.walk() if op.is_(TOPK)}
    for split in (*plan.workgroup, *plan.loops):
        if split.tile < counts.get(split.dim, 0):
            yield FoundApart(split.span, split.dim, split.tile, counts[split.dim])


def _unplaced(
    kernel: Kernel, ops: tuple[Op, ...], sizes: Mapping[str, Expr], inside: Collection[str], told: set[str]
) -> Iterator[WavespecError]:
    """Values that no tile bounds: ``inside`` are the dims of one tile, and of the loops around.  Of a dim that has no
    tile, or the wrong one, the first value tells, and ``told`` has it then."""
    plan = kernel.distribution
    tiled, walked = {split.dim for split in plan.workgroup}, {split.dim for split in plan.loops}
    for op in ops:
        if op.is_(BIND) and op.operands[0].tile.dims:
            yield NotUniform(op.span, op.operands[0])
        if op.is_(ACROSS) and op["dim"] in tiled - told:
            told.add(op["dim"])
            yield reduction_split(kernel, op)
        for value in op.results:
            for dim in value.tile.dims:
                if dim in walked and dim not in inside:
                    yield OutsideLoop(op.span, value.name, dim)
                if dim in walked | tiled | told:
                    continue
                if not sizes[dim].is_const:
                    told.add(dim)
                    yield untiled_dim(kernel, op, value.name, dim)
                elif not sizes[dim].value:
                    told.add(dim)
                    yield EmptyTile(op.span, value.name, dim)
        if op.region:
            around = (op["dim"],) if op.get("dim") else ()
            yield from _unplaced(kernel, op.region.ops, sizes, {*inside, *around}, told)


def _whole(size: Expr) -> int:
    return size.value if size.is_const else 0
