"""How accesses with an index mapping become the loads and stores of one lane."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.names import operand_name
from wavespec.ir.thread import Mask, ThreadBuilder
from wavespec.ir.tile_ops import MMA
from wavespec.ops.accesses import Coordinates, copied_together, stored_later
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.index_map import contiguous_dim, index_of, value_symbol, windows_overlap
from wavespec.ops.mapped_loops import blocks, got, memory_for, put
from wavespec.ops.mapped_pieces import MappedPiece, MappedTensor, in_one_access, mapped_pieces, mapped_tensor
from wavespec.ops.turned_blocks import TurnedBlocks, in_parts_of_runs, in_runs, regroup, turned_blocks

_Key = tuple[int, Expr, Mask, Expr | None, Expr | None]
"""Of what is loaded at once: elements, offset, checks, how many exist, and how many of the first do not."""
PlacesRead = dict[tuple[str, Expr, Mask], Expr]
"""By tensor, offset and checks: what was read there, as a symbol."""


def read_mapped(op: Op, context: ThreadContext) -> tuple[Value, ...]:
    """Load a tile; its fragments in order."""
    layout = op.result.tile.layout
    assert layout is not None
    if not _is_long(op, layout, op.operands, context):
        return _loaded_tile(op, layout, context)
    memory = memory_for(op.result, context)
    with blocks(op, layout, widest_mapped(op, context), context) as (one, block):
        put(memory, block, _loaded_tile(one, block, context), context)
    return got(op.result, memory, context)


def _loaded_tile(op: Op, layout: Layout, context: ThreadContext) -> tuple[Value, ...]:
    memory, name = context.kernel.memory(op["memory"]), op.result.name
    pieces = _pieces_read(op, layout, context)
    loaded: list[Value] = []
    # Elements may be one and the same: neighbours, such as the scale of a block, or those that windows share.
    once: dict[_Key, Value] = {}
    # Lanes of a wave have few elements of a tile, and few registers: windows alone, in words that are converted whole.
    is_one_lane, has_products = context.kernel.lanes == 1, any(one.is_(MMA) for one in context.kernel.walk())
    is_shared = is_one_lane or (not has_products and windows_overlap(op, context.kernel.all_sizes))
    per_word = max(1, _WORD_BYTES // memory.dtype.bytes)
    wider = _wider_pieces(pieces) if is_shared and not is_one_lane else {}
    whole: dict[MappedPiece, Value] = {}
    for key, group in groupby(pieces, lambda p: (p.width, p.offset, p.mask, p.valid, p.front)):
        width = key[0]
        if key not in once or not is_shared:
            around, at = wider.get(key, (MappedPiece(0, *key), 0))
            if around not in whole or not is_shared:
                where = memory.name, memory.dtype, around.width, around.offset
                whole[around] = context.build.load(
                    *where, mask=around.mask, valid=around.valid, front=around.front, hint=name
                )
            one = context.build.slice(whole[around], at, width, name) if around.width > width else whole[around]
            word = math.gcd(width, per_word) if is_shared and not is_one_lane else width
            once[key] = context.build.pack([context.build.slice(one, at, word, name) for at in range(0, width, word)])
        value = once[key]
        count = len(list(group))
        loaded += [context.build.broadcast(value, count, name)] if width == 1 else [value] * count
    fragments = regroup(context.build, loaded, layout.fragment_elements, name)
    dtype = op.result.tile.dtype
    return tuple(context.build.cast(value, dtype, name, op.get("bias", 0)) for value in fragments)


def _wider_pieces(pieces: Sequence[MappedPiece]) -> dict[_Key, tuple[MappedPiece, int]]:
    """For pieces that lie in wider ones, which exist together with them, the widest of these, and where in it."""
    keys = dict.fromkeys((one.width, one.offset, one.mask, one.valid, one.front) for one in pieces)
    found: dict[_Key, tuple[MappedPiece, int]] = {}
    for key in keys:
        width, offset, mask, valid, _ = key
        for other in sorted(keys, key=lambda key: -key[0]):
            at = (
                offset.beyond(other[1]) if other[0] > width and other[2] == mask and valid is other[3] is None else None
            )
            if at is not None and 0 <= at <= other[0] - width:
                found[key] = MappedPiece(0, *other), at
                break
    return found


def _pieces_read(op: Op, layout: Layout, context: ThreadContext) -> list[MappedPiece]:
    """Those of the way with fewer loads: neighbours in one block have quotients that are one where what never carries
    into them is left out."""
    widest = widest_mapped(op, context)
    pieces = tile_pieces(op, layout, op.operands, widest, context)
    has_quotients = any(place.kind == "floordiv" for _, place in op["at"])
    if context.kernel.lanes == 1 and has_quotients:
        return _with_common_checks(pieces)
    if context.kernel.lanes == 1 or op.operands or not has_quotients:
        return pieces
    settled = tile_pieces(op, layout, (), widest, context, is_whole=True)
    return min(pieces, settled, key=lambda found: len({(one.width, one.offset, one.mask) for one in found}))


def _with_common_checks(pieces: Sequence[MappedPiece]) -> list[MappedPiece]:
    """What several elements share has the checks that hold for all of them together, so that one load reads it."""
    masks = defaultdict[Expr, set[Mask]](set)
    for piece in pieces:
        masks[piece.offset].add(piece.mask)
    return [piece.firm if piece.width == 1 and len(masks[piece.offset]) > 1 else piece for piece in pieces]


def write_mapped(op: Op, context: ThreadContext) -> None:
    """Store a tile from its fragments."""
    layout = op.operands[0].tile.layout
    assert layout is not None
    if not _is_long(op, layout, op.operands[1:], context):
        _store_tile(op, layout, context)
        return
    with blocks(op, layout, widest_mapped(op, context), context) as (one, block):
        _store_tile(one, block, context)


def _store_tile(op: Op, layout: Layout, context: ThreadContext) -> None:
    memory, build, size = context.kernel.memory(op["memory"]), context.build, layout.fragment_elements
    fragments = [build.cast(value, memory.dtype) for value in context.fragments[op.operands[0].name]]
    if turned := _blocks_across(op, layout, memory, context):
        runs = regroup(build, fragments, turned.width, op.operands[0].name)
        fragments = turned.of_fragments(build, [*runs], op.operands[0].name)
        layout, size = turned.lines, turned.width
    for piece in tile_pieces(op, layout, op.operands[1:], min(widest_mapped(op, context), size), context):
        number, first = divmod(piece.register, size)
        stored = build.slice(fragments[number], first, piece.width)
        build.store(stored, memory.name, piece.offset, mask=piece.mask, valid=piece.valid, mapped=True)


def _blocks_across(op: Op, layout: Layout, memory: Memory, context: ThreadContext) -> TurnedBlocks | None:
    """The blocks to turn in registers where vectors lie across the rows that a mapping writes."""
    if not context.machine.vector_bytes or len(op.operands) > 1 or memory.dtype.is_packed:
        return None
    dim = contiguous_dim(op, memory)
    for runs in (in_runs(layout), *in_parts_of_runs(layout, dim)):
        turned = turned_blocks(runs, dim, memory.dtype.bits)
        if turned is not None and _neighbours(op, turned.lines, (), memory) % turned.width == 0:
            return turned
    return None


_WORD_BYTES = 4
"""Of a register of a lane among others."""
_MOST_PIECES = 64
"""Accesses of one tile that are written out where places are made of values: each is a dozen lines of machine code."""


def _is_long(op: Op, layout: Layout, operands: Sequence[Value], context: ThreadContext) -> bool:
    """Whether the code for a tile had better be a loop; lanes that share a tile have few registers of it."""
    if context.kernel.lanes > 1 or not operands or layout.elements <= _MOST_PIECES:
        return False
    origin = context.origin(op)
    tiles = (indices_of(origin, place) for place in layout.coordinates())
    unknown = (
        {operand_name(number): _unknown(value, place) for number, value in enumerate(operands)}
        for place in layout.register_offsets()
    )
    tensor = mapped_tensor(op, context, context.kernel.memory(op["memory"]))
    pieces = mapped_pieces(tensor, tiles, unknown, widest_mapped(op, context), context.machine)
    return any(islice(pieces, _MOST_PIECES, None))


def _unknown(value: Value, place: Mapping[str, int]) -> Expr:
    """What a value holds for an element, when it is not known yet in which register."""
    return value_symbol(f"{value.name} at {[place[dim] for dim in value.tile.dims]}", value.tile.dtype)


def widest_mapped(op: Op, context: ThreadContext) -> int:
    """Elements of the widest access."""
    return max(1, context.machine.globals.access_bytes // context.kernel.memory(op["memory"]).dtype.bytes)


def mapped_places(op: Op, layout: Layout, context: ThreadContext) -> list[tuple[Expr, Mask]]:
    """Where each register of a tile that is written lives in the tensor, and when it does."""
    origin = context.origin(op)
    tensor = mapped_tensor(op, context, context.kernel.memory(op["memory"]))
    known = bound_values(op.operands[1:], layout, context)
    elements = (
        tensor.element(indices_of(origin, inside), values)
        for inside, values in zip(layout.coordinates(), known, strict=True)
    )
    return [(one.offset, one.mask) for one in elements]


def tile_pieces(
    op: Op,
    layout: Layout,
    operands: Sequence[Value],
    widest: int,
    context: ThreadContext,
    *,
    is_whole: bool | None = None,
) -> list[MappedPiece]:
    """``is_whole``: as `MappedTensor` has it, where not as the lanes of the kernel say."""
    origin, memory = context.origin(op), context.kernel.memory(op["memory"])
    tiles = [indices_of(origin, place) for place in layout.coordinates()]
    tensor = mapped_tensor(op, context, memory)
    tensor = tensor if is_whole is None else replace(tensor, is_whole=is_whole)
    size, known = layout.fragment_elements, bound_values(operands, layout, context)
    together = 1 << min(widest, size).bit_length() - 1
    are_neighbours = together > 1 and _neighbours(op, layout, operands, memory) % together == 0
    pieces: list[MappedPiece] = []
    for start in range(0, len(tiles), size):  # an access is part of one fragment
        end = start + size
        while are_neighbours and start < end:
            ends = [tensor.element(tiles[at], known[at]) for at in (start, start + together - 1)]
            piece = in_one_access(memory, ends, start, context.machine, width=together)
            if piece is None:
                break
            pieces.append(piece)
            start += together
        for piece in mapped_pieces(tensor, tiles[start:end], known[start:end], widest, context.machine):
            pieces.append(replace(piece, register=start + piece.register))
    return pieces


def _neighbours(op: Op, layout: Layout, operands: Sequence[Value], memory: Memory) -> int:
    """Registers of a fragment that are consecutive in the tensor from every multiple of that number on, read off the
    mapping: along their dim its place moves with the index, and all others stay."""
    dim = next((dim for dim, stride in layout.axes[-1].strides if stride == 1), "") if layout.axes else ""
    known = {operand_name(number) for number, value in enumerate(operands) if dim in value.tile.dims}
    moving, places = known | {index_of(dim).args[0]}, dict(op["at"])
    here = places.pop(memory.contiguous_dim, None)
    if here is None or any(moving & expr.symbols for expr in (here - index_of(dim), *places.values())):
        return 1
    return math.gcd(layout.run_length(dim), layout.fragment_elements)


def indices_of(origin: Coordinates, inside: Coordinates) -> Coordinates:
    """Of an element along all dims; one that the tile does not have stays at its origin."""
    return {dim: start + inside[dim] if dim in inside else start for dim, start in origin.items()}


def bound_values(operands: Sequence[Value], layout: Layout, context: ThreadContext) -> list[dict[str, Expr]]:
    """For every register of ``layout`` what the values hold for its element, as symbols bound to their registers."""
    known: list[dict[str, Expr]] = [{} for _ in range(layout.elements)]
    for number, operand in enumerate(operands):
        own, dims = operand.tile.layout, operand.tile.dims
        assert own is not None
        registers = [part for fragment in context.fragments[operand.name] for part in _singles(context.build, fragment)]
        held = {tuple(place[dim] for dim in dims): one for place, one in zip(own.coordinates(), registers, strict=True)}
        symbols: dict[str, Expr] = {}
        for table, place in zip(known, layout.coordinates(), strict=True):
            register = held[tuple(place[dim] for dim in dims)]
            if register.name not in symbols:
                symbols[register.name] = bind(context.build, context, register)
            table[operand_name(number)] = symbols[register.name]
    return known


def bind(build: ThreadBuilder, context: ThreadContext, register: Value) -> Expr:
    """A symbol for the integer in a register."""
    name = build.fresh(f"{register.name}.at")
    context.symbols.append(value_symbol(name, register.vector.dtype))
    build.add("bind", (register,), (), symbol=name)
    return context.symbols[-1]


def _singles(build: ThreadBuilder, value: Value) -> list[Value]:
    return [build.slice(value, number, 1, value.name) for number in range(value.vector.elements)]


def copy_mapped(build: ThreadBuilder, op: Op, context: ThreadContext, read: PlacesRead) -> Callable[[], None]:
    """Stage one tile as `copy_tile` does, element by element where its elements are not neighbours; ``read``: what
    places depend on and copies before it have read."""
    source, shared, machine = context.kernel.memory(op["source"]), context.kernel.memory(op["memory"]), context.machine
    layout: Layout = op["layout"]
    local, origin, width = list(layout.coordinates()), context.origin(op), copied_together(op)
    tiles = [indices_of(origin, inside) for inside in local]
    tensor = mapped_tensor(op, context, source)
    known = _loaded(build, op, tiles, context, read)
    widest = max(1, machine.globals.access_bytes // source.dtype.bytes)

    def cut(start: int, tensor: MappedTensor) -> list[MappedPiece]:
        part = slice(start, start + width)
        return list(mapped_pieces(tensor, tiles[part], known[part], widest, machine))

    groups = [(start, cut(start, tensor)) for start in range(0, len(local), width)]
    if any(len(pieces) > 1 for _, pieces in groups):  # neighbours in one block have quotients that are one
        settled_tensor = replace(tensor, is_whole=True)
        groups = [(start, min(pieces, cut(start, settled_tensor), key=len)) for start, pieces in groups]
    asynchronous = op.get("asynchronous") and all(len(pieces) == 1 and not pieces[0].valid for _, pieces in groups)
    waiting: list[tuple[Value, Coordinates, Mask]] = []
    for start, pieces in groups:
        inside = local[start]
        guard: Mask = op["guard"] + tuple((inside[d], shared.shape[shared.dims.index(d)]) for d in op["bounded"])
        if asynchronous:
            (piece,) = pieces
            mask, offset = (*piece.mask, *guard), shared.offset(inside)
            build.copy_async(source.name, piece.offset, shared.name, offset, width, mask=mask)
            continue
        parts = [
            build.load(
                source.name,
                source.dtype,
                piece.width,
                piece.offset,
                mask=(*piece.mask, *guard),
                valid=piece.valid,
                front=piece.front,
                hint=source.name,
            )
            for piece in pieces
        ]
        waiting.append((build.pack(parts, source.name), inside, guard))
    return stored_later(build, waiting, source, shared, op, machine)


def values_of_places(op: Op, context: ThreadContext) -> dict[str, Expr]:
    """What the places of a tile as a whole depend on, loaded once and by its symbol."""
    known: dict[str, Expr] = {}
    for name, memory_name, at in op["through"]:
        memory = context.kernel.memory(memory_name)
        one = MappedTensor(memory, at, ()).element({}, {**context.constants, **known})
        loaded = context.build.load(memory.name, memory.dtype, 1, one.offset, mask=one.mask, hint=memory.name)
        known[name] = bind(context.build, context, loaded)
    return known


def _loaded(
    build: ThreadBuilder, op: Op, tiles: Sequence[Coordinates], context: ThreadContext, read: PlacesRead
) -> list[dict[str, Expr]]:
    """For every element of a copy the values that its place depends on, read where it is copied.

    Elements beyond an edge are not copied, so any value does for them: rows of one page read its number once.
    """
    known: list[dict[str, Expr]] = [{} for _ in tiles]
    for name, memory_name, at in op["through"]:
        memory = context.kernel.memory(memory_name)
        dims = {dim: context.kernel.size(dim) for dim in op["masked"]}
        edges = tuple((dim, size) for dim, size in dims.items() if any(expr is index_of(dim) for _, expr in at))
        tensor = MappedTensor(memory, at, edges)
        for table, tile in zip(known, tiles, strict=True):
            element = tensor.element(tile, table)
            key = (memory.name, element.offset, element.mask)
            if key not in read:
                loaded = build.load(memory.name, memory.dtype, 1, element.offset, mask=element.mask, hint=memory.name)
                read[key] = bind(build, context, loaded)
            table[name] = read[key]
    return known
