"""A kernel, sizes and a machine go in; what a call computes and moves, and how fast the machine could be, comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from wavespec.ir.dtype import DTYPES
from wavespec.schema import KernelSpec
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import Hardware
from wavespec.schema.ops import Iterate, Mma, Read, Written, walk
from wavespec.targets.machine import Card, machines


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time of a call: that of the arithmetic of its products at the peak, or of its bytes, whichever is
    longer."""

    card: str
    seconds: float


def floating_point_operations(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """Multiplications and additions of all matrix products of the graph."""
    return sum(_operations(spec, sizes).values())


def bytes_moved(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """Bytes of the elements of tensors that a call reads and writes, each once, as if caches held them all.

    Of a tensor that is read or written at places that values say, those that are named: at most as many as the value
    has, as of the table of an embedding.
    """
    graph, types = plain_graph(spec)
    read, written = dict.fromkeys(spec.tensors, 0), dict.fromkeys(spec.tensors, 0)
    for op in walk(graph):
        if isinstance(op, Read):
            read[op.tensor] += math.prod(sizes[dim] for dim in types[op.name].dims)
        elif isinstance(op, Written):
            count = math.prod(sizes[dim] for dim in types[op.value].dims)
            written[op.to] += count
            read[op.to] += count if op.combination else 0
    total = 0
    for name, tensor in spec.tensors.items():
        whole = math.prod(sizes[dim] for dim in tensor.shape)
        elements = min(whole, read[name]) + min(whole, written[name])
        total += elements * DTYPES[tensor.dtype].stored_bits // 8
    return total


def roofline(spec: KernelSpec, target: str, device: str, sizes: Mapping[str, int]) -> Roofline | None:
    """The least time on the device that its driver calls so; None where its peaks are not known, or how much of the
    work a call does: where loops leave out steps, or values say what is multiplied."""
    if does_a_part(spec):
        return None
    cards = [card for machine in machines(target) for card in machine.cards if device.startswith(card.name)]
    if not cards:
        return None
    card, is_tf32 = cards[0], _asks_for_tf32(spec)
    counted = _operations(spec, sizes)
    peaks = {dtype: _peak(card, "tf32" if dtype == "f32" and is_tf32 else dtype) for dtype in counted}
    if any(peak is None for peak in peaks.values()):
        return None
    computing = sum(count / (peaks[dtype] or 1) for dtype, count in counted.items()) / 1e9
    return Roofline(card.name, max(computing, bytes_moved(spec, sizes) / card.gbytes_per_second / 1e9))


def _operations(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """Of products, by the type of their operands."""
    graph, types = plain_graph(spec)
    found: dict[str, int] = {}
    for op in walk(graph):
        if isinstance(op, Mma):  # those of a loop's body work on whole dims: its tiles together are one pass over them
            count = 2 * math.prod(sizes[dim] for dim in {*types[op.lhs].dims, *types[op.rhs].dims})
            dtype = types[op.lhs].dtype
            found[dtype] = found.get(dtype, 0) + count
    return found


def does_a_part(spec: KernelSpec) -> bool:
    """Whether a call may do less than whole dims have, by bounds of its loops or by what tensors hold."""
    ops = list(walk(plain_graph(spec)[0]))
    bounds = [bound for op in ops if isinstance(op, Iterate) for bound in (op.start, op.end, op.step, op.until)]
    known = {*spec.dims, *spec.params, *spec.scalars}
    places = [at for op in ops if isinstance(op, Read | Written) for at in op.at.values()]
    moved = any(name not in known for place in places for name in place.names())
    return any(bound is not None for bound in bounds) or (moved and any(isinstance(op, Mma) for op in ops))


def _peak(card: Card, dtype: str) -> float | None:
    """Of the type, or of the one whose unit multiplies it."""
    return card.gflops.get(dtype) or card.gflops.get({"u8": "i8"}.get(dtype, dtype[:2]))


def _asks_for_tf32(spec: KernelSpec) -> bool:
    """Whether a plain spec asks for an instruction that rounds its operands."""
    return any(isinstance(one, Hardware) and (one.settings.mma or "").endswith("_tf32") for one in spec.constraints)
