"""A tile kernel goes in; which operands lanes decode on the way into a product, and what of their tensors is staged for
that, comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.layout import row_major, swizzled_slabs
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, MMA, READ, REGISTER
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.distribute_copies import boxes_of
from wavespec.lower.product_layouts import elements_along
from wavespec.lower.read_behind import read_behind
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_LINE_BYTES, _SWIZZLED_BYTES, _SWIZZLED_ROWS, _CHUNK_BITS = 128, (32, 64), 8, 128
_STEPS = CAST | ELEMENTWISE


def decoded_values(kernel: Kernel) -> frozenset[str]:
    """Values beside waves that only copy that products alone use, and that follow element by element from what is read:
    boxes of its tensors are staged, and lanes read there what they decode."""
    operands = (value for op in _products(kernel) for value in op.operands[:2])
    alone = frozenset(name for value in operands for name in _chain(kernel, value))
    return alone | _shared_values(kernel) | laid_down_values(kernel)


def kept_operands(kernel: Kernel) -> frozenset[str]:
    """Those of them that stay in registers, from where their product takes them: each lane decodes what it needs.

    No others where waves share what they would decode, each all of it, or where both operands are decoded: what both
    waves have of one is laid down, and then the other is as well, so that products need no registers but their sums.
    """
    found, shared = set[str](), _shared_values(kernel)
    for op in _products(kernel):
        value, other = op.operands[:2][::-1] if _is_swapped(op) else op.operands[:2]
        alone = kernel.waves_along(op["m"] if _is_swapped(op) else op["n"]) == 1
        is_alone = bool(_chain(kernel, value))
        if (alone and is_alone and not _chain(kernel, other)) or (value.name in shared and not is_alone):
            found.add(value.name)
    return frozenset(found)


def unpacked_operands(kernel: Kernel, machine: Machine) -> dict[str, int]:
    """Values that no matrix unit reads itself, that follow element by element from elements of tensors that share
    bytes, and that one wave alone multiplies by: each lane reads and converts what it multiplies, in the tensor or
    where waves that only copy have staged it.

    Of each, elements along the dim that is summed over that a lane has in a row: what the widest access moves, or fewer
    where a wave has no more.
    """
    found, copied = dict[str, int](), bool(kernel.distribution.roles.producers)
    for op in kernel.walk() if machine.concurrent_waves else ():
        row = instruction_of(op, machine) if op.is_(MMA) else None
        if row is None or row.reads_shared:
            continue
        for value, dim, fragment in ((op.operands[0], op["n"], row.a), (op.operands[1], op["m"], row.b)):
            reads = [one for one in kernel.walk() if one.is_(READ) and one.result.name in _chain(kernel, value)]
            are_shared = waves_of_sum(kernel, op, machine) > 1
            packed = [one.result for one in reads if _is_converted(kernel, one, fragment.dtype, are_shared=are_shared)]
            staged = not copied and any(kernel.memory(one["memory"]).staged for one in reads)
            if len(set(packed)) != 1 or staged or kernel.waves_along(dim) > 1:
                continue
            if fragment.bias or value.tile.dtype != fragment.dtype:
                continue
            own = elements_along(fragment.layout, "k")
            depth = value.tile.extent(op["k"]) // waves_of_sum(kernel, op, machine)
            run = machine.globals.access_bytes * 8 // packed[0].tile.dtype.bits
            while depth % (row.k // own * run):
                run //= 2
            if run > own:
                found[value.name] = run
    return found


def _is_converted(kernel: Kernel, read: Op, dtype: DType, *, are_shared: bool) -> bool:
    """Whether lanes convert what is read in a row: elements that share bytes and, where waves share out what a product
    sums over, all that have fewer bits than an instruction takes, but those that many of a tile have in common."""
    memory = kernel.memory(read["memory"])
    return memory.dtype.is_packed or (are_shared and memory.dtype.bits < dtype.bits and not read.get("at"))


def operands_of_lanes(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """Operands of products that take them from anywhere, on machines whose waves take turns, that follow element by
    element from what is read, and all that they follow from: they are computed in registers, in front of each product.
    Of each, the dim that is summed over."""
    found = dict[str, str]()
    for op in kernel.walk() if not machine.concurrent_waves else ():
        row = instruction_of(op, machine) if op.is_(MMA) else None
        if row is not None:
            for value, fragment in zip(op.operands, (row.a, row.b), strict=False):
                if fragment.staging == "none" and not fragment.bias:
                    found |= dict.fromkeys(_chain(kernel, value), op["k"])
    return found


def laid_down_values(kernel: Kernel) -> frozenset[str]:
    """Values that follow element by element from what is read, and that waves lay down where the matrix unit takes the
    other operand of a product from."""
    products = _products(kernel)
    return frozenset[str]().union(*(read_behind(kernel, op.operands[0 if _is_swapped(op) else 1]) for op in products))


def _shared_values(kernel: Kernel) -> frozenset[str]:
    """Values that several products take from registers, such as parts of a number, and all that they follow from.
    Nothing else uses them but such products, and what is decoded of them."""
    behind = [
        follows
        for op in _products(kernel)
        if kernel.waves_along(op["m" if _is_swapped(op) else "n"]) == 1
        if (follows := read_behind(kernel, op.operands[1 if _is_swapped(op) else 0]))
    ]
    used = _uses_beside_registers(kernel)
    while True:
        found = frozenset[str]().union(*behind)
        kept = [one for one in behind if all(used.get(name, set[str]()) <= found for name in one)]
        if len(kept) == len(behind):
            return found
        behind = kept


def _products(kernel: Kernel) -> list[Op]:
    """Those beside waves that only copy, whether a matrix unit reads shared memory or lanes read it for them."""
    return [op for op in kernel.walk() if op.is_(MMA)] if kernel.distribution.roles.producers else []


def _chain(kernel: Kernel, operand: Value) -> set[str]:
    """The names of a computed operand and all that it follows from; none where something else uses or makes that."""
    makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
    used = (value for op in kernel.walk() for value in (*op.operands, *(op.region.yields if op.region else ())))
    uses = Counter(value.name for value in used)
    found, waiting = set[str](), [operand]
    while waiting:
        name = waiting.pop().name
        maker = makers.get(name)
        if maker is None or uses[name] != 1 or not maker.is_(_STEPS | READ | REGISTER):
            return set()
        found.add(name)
        waiting += maker.operands if maker.is_(_STEPS) else ()
    return found if len(found) > 1 else set()


def _is_swapped(product: Op) -> bool:
    return product["instruction"].endswith(":swapped")


def _uses_beside_registers(kernel: Kernel) -> dict[str, set[str]]:
    """What is made of each value, by name, but products that take it from registers."""
    used: dict[str, set[str]] = {}
    products = {id(op) for op in _products(kernel)}
    for op in kernel.walk():
        made = {value.name for value in op.results} or {op.name}
        left = (1 if _is_swapped(op) else 0) if id(op) in products else None
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
        whole = group % extent == 0 or extent % group == 0
        if not whole or group * count % extent or starts[along].divisor % extent:
            return None
        origin.append((dim, starts[along] // (group * count) * count))
        # Groups are counted from the tile on, and one that holds all of it is one place for all of its elements.
        groups = const(0) if group % extent == 0 else (index_of(along) - starts[along]) // group
        inside.append((dim, (starts[along] // group + groups) % count))
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
    bits = tile.bytes_of(8)  # of one element, as many as bytes of eight
    is_whole = row_bytes % _LINE_BYTES == 0 or row_bytes in _SWIZZLED_BYTES
    # Swizzles move chunks, across which elements of six bits lie, and look at addresses, which count rows from the tile
    # on where those before it are whole rounds of eight.
    if not is_whole or _CHUNK_BITS % bits or (extents[0] > 1 and extents[0] % _SWIZZLED_ROWS):
        return replace(tile, arrangement=row_major(tile.dims, extents))
    row, column = tile.dims
    return replace(tile, arrangement=swizzled_slabs((row, column), (extents[0], extents[1]), bits))
