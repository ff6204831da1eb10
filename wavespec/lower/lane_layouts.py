"""A product of vectors, lane by lane, in; where its operands and results are out."""

from __future__ import annotations

import math

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.names import wave_name
from wavespec.targets.machine import Machine


def lane_layouts(kernel: Kernel, op: Op, machine: Machine) -> tuple[Layout, Layout, Layout]:
    """Those of a `dot`'s two factors and its sums.

    A vector of sums runs along the last dims of ``b``, from one into the next where it has all of that.  ``b`` has such
    vectors for each group of elements along k.  A fragment of ``a`` has, of every matrix that such a vector is of, as
    many elements along k as fill a vector together.
    """
    row = machine.instruction(op["instruction"])
    assert row is not None
    (a, b, acc), k = (value.tile for value in op.operands), op["dim"]
    counts = dict(kernel.waves)
    extents = {dim: acc.extent(dim) // kernel.waves_along(dim) for dim in acc.dims}
    base = {dim: kernel.symbol(wave_name(dim)) * extents[dim] for dim in acc.dims if wave_name(dim) in counts}
    lanes, left = dict[str, int](), machine.vector_bytes // acc.dtype.bytes
    for dim in reversed([dim for dim in b.dims if dim in acc.dims]):
        lanes[dim] = math.gcd(extents[dim], left)
        left //= lanes[dim]
        if lanes[dim] < extents[dim]:
            break
    inner = tuple(RegisterAxis(lanes[dim], ((dim, 1),)) for dim in reversed(lanes) if lanes[dim] > 1)
    sums = Layout(tuple((dim, base.get(dim, const(0))) for dim in acc.dims), inner, len(inner))
    for dim in acc.dims:
        step = lanes.get(dim, 1)
        if extents[dim] > step:
            sums = sums.repeated(dim, extents[dim] // step, step)

    def along_k(dims: tuple[str, ...], run: int) -> Layout:
        layout = sums.projected(tuple(dim for dim in dims if dim != k))
        axis = (RegisterAxis(run, ((k, 1),)),) if run > 1 else ()
        layout = Layout((*layout.base, (k, const(0))), (*layout.axes, *axis), layout.inner + len(axis))
        layout = layout.repeated(k, a.extent(k) // run, run)
        return Layout(tuple((dim, layout.base_of(dim)) for dim in dims), layout.axes, layout.inner)

    matrices = math.prod(extent for dim, extent in lanes.items() if dim in a.dims)
    group = max(1, math.prod(lanes.values()) // matrices // row.k)
    run = row.k * math.gcd(a.extent(k) // row.k, group)
    return along_k(a.dims, run), along_k(b.dims, row.k), sums
