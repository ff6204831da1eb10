"""The copies of a tile kernel in; how wide they are, and whether lanes can do them one behind another, out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.tile_ops import COPY
from wavespec.targets.machine import Machine


def copies_in_lane_order(kernel: Kernel, machine: Machine) -> bool:
    """Whether all tiles are staged by asynchronous copies that write in the order of lanes.

    One tile that goes through registers decides for all: loads and copies are counted together, so its stores would
    wait for the copies as well.  Where steps do not overlap, the registers are free while they are waited for; waves
    that take turns move data in phases, which have a place for stores only.
    """
    plan = kernel.distribution
    schedules = (plan.schedule_of(""), *plan.schedules)
    overlapping = any(one.stages > 1 or one.auto or one.nodes or one.clusters for one in schedules)
    if not machine.globals.async_copies.in_lane_order or not overlapping or plan.roles.order == "ping_pong":
        return False
    copies = [op for op in kernel.walk() if op.is_(COPY)]
    if any(op.get("at") for op in copies):  # lanes may find their elements anywhere
        return False
    tiles = [(kernel.memory(op["source"]), kernel.memory(op["memory"])) for op in copies]
    # Copies take a buffer for each stage, loads into registers one for all.
    buffers = max(2, *(max(one.stages, one.buffers, 1 + max(dict(one.nodes).values(), default=0)) for one in schedules))
    needed = sum(shared.elements.value * shared.dtype.bytes for _, shared in tiles) * buffers
    return needed <= machine.shared.bytes and all(
        _is_in_lane_order(kernel, source, shared, machine) for source, shared in tiles
    )


def _is_in_lane_order(kernel: Kernel, source: Memory, shared: Memory, machine: Machine) -> bool:
    """Whether consecutive threads can copy what is consecutive in shared memory, one access each, with nothing left
    over: rows without padding, and a swizzle that looks the same to every round of accesses."""
    assert shared.arrangement is not None
    height, depth = (extent.value for extent in shared.shape)
    width = copy_width(source, shared, machine)
    per_row, threads, swizzle = depth // width, kernel.threads, shared.arrangement.swizzle
    rows_at_once = threads // per_row
    if (
        source.dtype != shared.dtype
        or source.dtype.is_packed
        or width * source.dtype.bytes not in machine.globals.async_copies.bytes
    ):
        return False
    if threads % per_row or height % rows_at_once or shared.elements.value != height * depth:
        return False
    if source.shape[-1].divisor % width:  # part of an access may be beyond the end of a row
        return False
    if swizzle is None:
        return True
    period = swizzle.period * swizzle.width * swizzle.fold
    return swizzle.chunk == width and (height == rows_at_once or rows_at_once % period == 0)


def copy_width(source: Memory, shared: Memory, machine: Machine) -> int:
    """Elements that one lane can move at once: limited by the machine, by what is known of alignment, and by the
    arrangement."""
    assert shared.arrangement is not None
    column = source.contiguous_dim
    width = min(machine.globals.access_bytes // source.dtype.bytes, machine.shared.access_bytes // shared.dtype.bytes)
    width = 1 << min(width, shared.arrangement.run(column)).bit_length() - 1
    while shared.shape[-1].value % width:
        width //= 2
    while width > 1 and not machine.globals.aligned(source.row_divisor, width, source.dtype.stored_bits):
        width //= 2
    return width
