"""A tile kernel goes in; which operands lanes decode on the way into a product, and what of their tensors is staged for
that, comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.layout import row_major, swizzled_slabs
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, MMA, READ
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.distribute_copies import boxes_of
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_LINE_BYTES, _SWIZZLED_BYTES = 128, (32, 64)
_STEPS = CAST | ELEMENTWISE


def decoded_values(kernel: Kernel, machine: Machine) -> frozenset[str]:
    """Values that nothing but one product uses, which takes them from registers, and that follow element by element
    from what is read: each lane can read what it decodes.

    No others where waves share what they would decode: each would do all of it.
    """
    makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
    uses: dict[str, int] = {}
    for op in kernel.walk():
        for value in (*op.operands, *(op.region.yields if op.region else ())):
            uses[value.name] = uses.get(value.name, 0) + 1
    found = set[str]()
    for op in kernel.walk():
        if not op.is_(MMA) or not kernel.producers or not instruction_of(op, machine).reads_shared:
            continue
        is_swapped = op["instruction"].endswith(":swapped")
        value, other = op.operands[1 if is_swapped else 0], op["m" if is_swapped else "n"]
        behind, waiting, alone = set[str](), [value], kernel.waves_along(other) == 1
        while waiting and alone:
            one = waiting.pop()
            maker = makers.get(one.name)
            alone = maker is not None and uses[one.name] == 1 and maker.is_(_STEPS | READ)
            if maker is not None and maker.is_(_STEPS):
                waiting += maker.operands
            behind.add(one.name)
        if alone and not makers[value.name].is_(READ):
            found |= behind
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What of a tensor a tile is decoded from.

    ``shared``: where it is staged.  ``origin``: its first element in the tensor.  ``at``: where in it each element of
    the tile is, as in a mapping of a spec.
    """

    shared: Memory
    origin: tuple[tuple[str, Expr], ...]
    at: tuple[tuple[str, Expr], ...]


def staged_part(read: Op, kernel: Kernel, machine: Machine) -> StagedPart | None:
    """What of its tensor a read with a mapping is staged from, one box; None where the machine cannot copy that.

    Places count along one dim of the tile each, maybe in groups: ``K // 128``.  A row of the part has as many bytes as
    boxes have at least, and holds the groups of the whole tile.
    """
    source, tile, starts = kernel.memory(read["memory"]), read.result.tile, dict(read["origin"])
    origin, inside, extents = list[tuple[str, Expr]](), list[tuple[str, Expr]](), list[int]()
    for dim, place in read["at"]:
        along, group = _groups(place)
        if along not in tile.dims or machine.globals.bulk_row_bytes == 0:
            return None
        extent = tile.extent(along)
        count = -(-extent // group)
        if dim == source.contiguous_dim:
            count = max(count, machine.globals.bulk_row_bytes // source.dtype.bytes)
        if group * count % extent or starts[along].divisor % extent:
            return None
        origin.append((dim, starts[along] // (group * count) * count))
        # A tile that lies inside of one group has one place, the same for all of its elements.
        inside.append((dim, (starts[along] // group if group % extent == 0 else place) % count))
        extents.append(count)
    shape = tuple(map(const, extents))
    shared = arranged(Memory(f"{read.result.name}.shared", source.dtype, source.dims, shape, "shared", staged=True))
    if len(source.dims) != 2 or not boxes_of(source, shared, machine):
        return None
    return StagedPart(shared, tuple(origin), tuple(inside))


def _groups(place: Expr) -> tuple[str, int]:
    """The dim that a place counts along, and how many neighbours along it have one; an empty one of other places."""
    group = 1
    if place.kind == "floordiv" and place.args[1].is_const:
        place, group = place.args[0], place.args[1].value
    (name, *others) = place.symbols or ("",)
    dim = name.removesuffix(".i")
    return (dim, group) if not others and place is index_of(dim) else ("", 1)


def arranged(tile: Memory) -> Memory:
    """The staged tile, packed as its tensor is, in the arrangement of boxes that keeps rows off each other's banks."""
    tile = replace(tile, packed=tile.dtype.is_packed)
    extents = tuple(extent.value for extent in tile.shape)
    row_bytes = tile.bytes_of(extents[-1])
    if row_bytes % _LINE_BYTES and row_bytes not in _SWIZZLED_BYTES:
        return replace(tile, arrangement=row_major(tile.dims, extents))
    row, column = tile.dims
    bits = tile.bytes_of(8)  # of one element, as many as bytes of eight
    return replace(tile, arrangement=swizzled_slabs((row, column), (extents[0], extents[1]), bits))
