"""Tile kernel in, tile kernel out: computed operands of products are laid down where the machine reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, TileType, Value, attribute_pairs, rewrite
from wavespec.ir.names import wave_name
from wavespec.ir.tile_ops import ALIKE, MMA, READ
from wavespec.lower.arrange_staged import arrange_staged
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.check_shared import check_shared
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.decoded_operands import (
    decoded_values,
    kept_operands,
    operands_of_lanes,
    unpacked_operands,
)
from wavespec.lower.product_layouts import product_layouts
from wavespec.lower.promote_shared import unlike
from wavespec.lower.thread_properties import memories_are_filled_first, shared_memory_fits
from wavespec.lower.tile_properties import (
    products_have_instructions,
    products_read_their_operands,
    tiles_are_placed,
    tiles_have_extents,
)
from wavespec.ops.extract import registers_of
from wavespec.ops.take import SharedInTurns
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import Fragment


class StageOperands(Pass):
    """Have every product find its operands in memory, or in registers where it takes them from.

    Before: an operand of an mma may be any value.
    After:  what follows the sums of another product, which the instruction has where it takes this operand, is padded
            with zeros beyond the edge of the dim that is summed over, and `extract`ed.  What lanes compute from staged
            tiles is padded, and stays in registers as well, where no waves share it; so does what they make of elements
            that share bytes in a tensor, and on machines whose waves take turns what is computed of tensors for
            instructions that take operands from anywhere.
            What else is no ``read``, or a ``direct`` one, or is read at computed places where waves take turns, is
            padded, written to a shared memory ``<name>.shared`` in
            the arrangement of the operand, and read there; ``by_unit`` a right one that the matrix unit takes from it,
            or both, in two buffers, where both are decoded from what is staged.
            The bias that an instruction wants is added.  The memory holds the tile of the workgroup, or of one wave
            where waves run one after another.  What products use in several ways is laid down in each.  Barriers come
            from the accesses, as for every other staged tile.
    Errors: ``shared-memory-exceeded`` at the loop's tile; ``values-not-shared`` at the product.
    """

    name: ClassVar[str] = "stage-operands"
    requires = (products_have_instructions, tiles_have_extents, tiles_are_placed)
    ensures = (products_read_their_operands, shared_memory_fits, memories_are_filled_first)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, added = fresh_names(kernel), dict[str, Memory]()
        reads = {op.result.name for op in kernel.walk() if op.is_(READ) and not _is_computed(op, machine)}
        makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
        decoded, in_place = decoded_values(kernel), kept_operands(kernel)
        unpacked, of_lanes = unpacked_operands(kernel, machine), operands_of_lanes(kernel, machine)

        def change(op: Op) -> tuple[Op, ...]:
            row, before, operands = instruction_of(op, machine), list[Op](), list(op.operands)
            for number, fragment in enumerate((row.a, row.b)):
                value = operands[number]
                if value.name in reads:
                    continue
                is_right = number == (0 if op["instruction"].endswith(":swapped") else 1)
                # The left one is taken from registers, unless both are decoded.
                both = all(one.name in decoded and one.name not in in_place for one in op.operands[:2])
                by_unit = row.reads_shared and (is_right or both)
                if value.name in of_lanes:
                    before += _in_registers(kernel, op, value, fragment, fresh)
                    operands[number] = before[-1].result
                    continue
                if value.name in unpacked or (value.name in in_place and _is_staged(kernel, value, makers)):
                    before.append(_padded(kernel, op, value, fresh))
                    operands[number] = before[-1].result
                    continue
                if not by_unit and is_in_place(kernel, op, number, makers, machine):
                    kept, operands[number] = _kept(kernel, op, value, fresh)
                    before += kept
                    continue
                if kernel.producers and kernel.distribution.roles.order == "ping_pong":
                    raise SharedInTurns(op.span, value.name)
                memory = _memory(kernel, op, value, fragment, machine)
                # While a product of the matrix unit reads one buffer, the next step fills the other.
                memory = unlike(replace(memory, buffers=2) if both else memory, added)
                added[memory.name] = memory
                staged, operands[number] = _through(kernel, op, value, memory, fragment.bias, by_unit, fresh)
                before += staged
            return (*before, replace(op, operands=tuple(operands)))

        body = rewrite(kernel.body, change, MMA)
        if body is kernel.body:
            return kernel
        kernel = replace(kernel, body=body, memories=(*kernel.memories, *added.values()))
        check_shared(kernel, machine)
        return kernel


def _is_computed(read: Op, machine: Machine) -> bool:
    """Whether what a read makes is to be laid down like what is computed: machines whose waves take turns would look
    up computed places anew for every wave of the other side."""
    return bool(read.get("direct")) or (bool(read.operands) and not machine.concurrent_waves)


def is_in_place(kernel: Kernel, product: Op, number: int, makers: Mapping[str, Op], machine: Machine) -> bool:
    """Whether each lane has the elements of an operand that the instruction wants from it."""
    value, row = product.operands[number], instruction_of(product, machine)
    fragment = (row.a, row.b)[number]
    if not machine.concurrent_waves or fragment.bias or value.tile.dtype != fragment.dtype:
        return False
    sources = followed(value, makers)
    if not sources:
        return False
    wanted = product_layouts(kernel, product, machine)[number]
    first, *others = (product_layouts(kernel, one, machine)[2] for one in sources)
    if any(one != first for one in others):
        return False
    try:
        registers_of(first, wanted, dict.fromkeys(wanted.dims, 0))
    except KeyError:
        return False
    return True


def _is_staged(kernel: Kernel, value: Value, makers: Mapping[str, Op]) -> bool:
    """Whether a value is computed from what is staged in shared memory, where a lane reads one element as well as
    another; what is read elsewhere is read for several."""
    maker = makers[value.name]
    if maker.is_(READ):
        return maker.get("at") is not None or kernel.memory(maker["memory"]).space == "shared"
    return all(_is_staged(kernel, one, makers) for one in maker.operands)


def followed(value: Value, makers: Mapping[str, Op]) -> list[Op]:
    """The products whose sums a value is distributed like, as far as that is known here."""
    found, seen, waiting = list[Op](), set[str](), [value]
    while waiting:
        one = waiting.pop()
        maker = makers.get(one.name)
        if maker is None or one.name in seen:
            continue
        seen.add(one.name)
        if maker.is_(MMA):
            found.append(maker)
        elif maker.is_(ALIKE):
            waiting += (other for other in maker.operands if set(other.tile.dims) == set(value.tile.dims))
    return found


def _kept(kernel: Kernel, product: Op, value: Value, fresh: Callable[[str], str]) -> tuple[list[Op], Value]:
    """The operations that hand an operand on in registers, and what they make."""
    pad, part = _padded(kernel, product, value, fresh), Value(fresh(value.name), value.tile)
    origin = attribute_pairs({"origin": tuple((dim, const(0)) for dim in value.tile.dims)})
    return [pad, Op("extract", pad.results, (part,), origin, span=product.span, node=product.node)], part


def _in_registers(
    kernel: Kernel, product: Op, value: Value, fragment: Fragment, fresh: Callable[[str], str]
) -> list[Op]:
    """The operations that make an operand what the instruction takes, the last of them."""
    pad = _padded(kernel, product, value, fresh)
    if value.tile.dtype == fragment.dtype:
        return [pad]
    converted = Value(fresh(value.name), replace(value.tile, dtype=fragment.dtype))
    return [pad, Op("cast", pad.results, (converted,), (), span=product.span, node=product.node)]


def _padded(kernel: Kernel, product: Op, value: Value, fresh: Callable[[str], str]) -> Op:
    k = product["k"]
    edge = {"dim": k, "origin": ((k, kernel.symbol(f"at_{k}")),), "size": kernel.size(k), "value": 0}
    padded = Value(fresh(value.name), value.tile)
    return Op("pad", (value,), (padded,), attribute_pairs(edge), span=product.span, node=product.node)


def _memory(kernel: Kernel, product: Op, value: Value, fragment: Fragment, machine: Machine) -> Memory:
    """Where an operand is laid down, the dim that is summed over last."""
    free = next(dim for dim in value.tile.dims if dim != product["k"])
    extents = {dim: value.tile.extent(dim) for dim in (free, product["k"])}
    if machine.shared.private_rows:
        extents[free] //= kernel.waves_along(free)
    sizes = tuple(map(const, extents.values()))
    memory = Memory(f"{value.name}.shared", fragment.dtype, tuple(extents), sizes, "shared", span=product.span)
    return arrange_staged(memory, product, fragment, machine, product.span)


def _through(
    kernel: Kernel, product: Op, value: Value, memory: Memory, bias: int, by_unit: bool, fresh: Callable[[str], str]
) -> tuple[list[Op], Value]:
    """The operations that lay an operand down and read it, and what was read."""
    tile, ops = value.tile, [_padded(kernel, product, value, fresh)]
    read = Value(fresh(value.name), replace(tile, dtype=memory.dtype))
    if bias:
        biased = replace(read, name=fresh(value.name))
        ops.append(Op("cast", ops[0].results, (biased,), attribute_pairs({"bias": bias}), span=product.span))
    place = attribute_pairs({"memory": memory.name, "origin": tuple(origin_in(kernel, memory, tile).items())})
    ops += [
        Op("write", ops[-1].results, (), place, span=product.span, node=product.node),
        Op("read", (), (read,), place, span=product.span, node=product.node),
    ]
    if by_unit:
        ops[-1] = ops[-1].with_(by_unit=True)
    return ops, read


def origin_in(kernel: Kernel, memory: Memory, tile: TileType) -> dict[str, Expr]:
    """Where the tile of a workgroup starts in a memory that has room for it, or for the rows of one wave."""
    origin = dict.fromkeys(memory.dims, const(0))
    for dim, extent in zip(memory.dims, memory.shape, strict=True):
        if extent.value < tile.extent(dim):
            origin[dim] -= kernel.symbol(wave_name(dim)) * extent.value
    return origin
