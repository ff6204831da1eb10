"""A tile kernel goes in; which operands lanes decode on the way into a product, and what of their tensors is staged for
that, comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.layout import row_major, swizzled_slabs
from wavespec.ir.tile_ops import MMA
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.distribute_copies import boxes_of
from wavespec.lower.read_behind import read_behind
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_LINE_BYTES, _SWIZZLED_BYTES = 128, (32, 64)


def decoded_values(kernel: Kernel, machine: Machine) -> frozenset[str]:
    """Values that follow element by element from what is read, and that products take from registers: each lane can
    read what it decodes.  Nothing else uses them but such products, and what is decoded of them.

    No others where waves share what they would decode: each would do all of it.
    """
    behind = [
        follows
        for op in _products_by_unit(kernel, machine)
        if kernel.waves_along(op["m" if _is_swapped(op) else "n"]) == 1
        if (follows := read_behind(kernel, op.operands[1 if _is_swapped(op) else 0]))
    ]
    used = _uses_beside_registers(kernel, machine)
    while True:
        found = frozenset[str]().union(*behind)
        kept = [one for one in behind if all(used.get(name, set[str]()) <= found for name in one)]
        if len(kept) == len(behind):
            return found
        behind = kept


def laid_down_values(kernel: Kernel, machine: Machine) -> frozenset[str]:
    """Values that follow element by element from what is read, and that waves lay down where the matrix unit takes the
    other operand of a product from."""
    products = _products_by_unit(kernel, machine)
    return frozenset[str]().union(*(read_behind(kernel, op.operands[0 if _is_swapped(op) else 1]) for op in products))


def _products_by_unit(kernel: Kernel, machine: Machine) -> list[Op]:
    products = [op for op in kernel.walk() if op.is_(MMA)] if kernel.distribution.roles.producers else []
    return [op for op in products if instruction_of(op, machine).reads_shared]


def _is_swapped(product: Op) -> bool:
    return product["instruction"].endswith(":swapped")


def _uses_beside_registers(kernel: Kernel, machine: Machine) -> dict[str, set[str]]:
    """What is made of each value, by name, but products that take it from registers."""
    used: dict[str, set[str]] = {}
    by_unit = {id(op) for op in _products_by_unit(kernel, machine)}
    for op in kernel.walk():
        made = {value.name for value in op.results} or {op.name}
        left = (1 if _is_swapped(op) else 0) if id(op) in by_unit else None
        for number, value in enumerate(op.operands):
            if number != left:
                used.setdefault(value.name, set()).update(made)
        for value in op.region.yields if op.region else ():
            used.setdefault(value.name, set()).update(made)
    return used


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
