"""A matrix product goes in; where its factors and its sums live in waves, lanes and registers comes out."""

from __future__ import annotations

from math import prod

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.names import wave_name
from wavespec.ir.nodes import replace
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_LANES_OF_ROW = 4
"""That have neighbours of one row of a fragment."""


def product_layouts(kernel: Kernel, op: Op, machine: Machine) -> tuple[Layout, Layout, Layout]:
    """Those of an mma's two factors and its sums: the instruction's, repeated over the wave tile."""
    row = instruction_of(op, machine)
    m, n, k = op["m"], op["n"], op["k"]
    names = {"m": m, "n": n, "k": k}
    tile = {dim: op.operands[2].tile.extent(dim) for dim in (m, n)}
    counts = dict(kernel.waves)
    wave_tile = {dim: tile[dim] // kernel.waves_along(dim) for dim in (m, n)}
    place = {dim: kernel.symbol(wave_name(dim)) * wave_tile[dim] for dim in (m, n) if wave_name(dim) in counts}
    shares = waves_of_sum(kernel, op, machine)
    depth = op.operands[0].tile.extent(k) // shares
    if shares > 1:
        place[k] = kernel.symbol(wave_name(k)) * depth
    rounds = depth_of_round(op, row, machine)
    wide = rounds // row.k if depth % rounds == 0 else 1

    def operand(layout: Layout, dim: str, issue: int) -> Layout:
        own = elements_along(layout, "k") if op.get("run") else layout.run_length("k")
        layout = _in_runs(layout.renamed(names), k, op.get("run") or own * wide, row.k).shifted(place)
        layout = layout.repeated(dim, wave_tile[dim] // issue, issue).repeated(k, depth // row.k // wide, row.k * wide)
        return layout if wide == 1 else layout.repeated(k, wide, own)

    layouts = (row.a.layout, row.b.layout, row.acc.layout)
    if op.get("run") and kernel.producers:
        taller = "m" if row.m > row.n else "n"
        layouts = tuple(_rows_apart(one, taller, kernel.symbol("lane")) for one in layouts)
    first, second, sums = layouts
    acc = sums.renamed(names).shifted(place)
    acc = acc.repeated(m, wave_tile[m] // row.m, row.m).repeated(n, wave_tile[n] // row.n, row.n)
    return operand(first, m, row.m), operand(second, n, row.n), acc


def _rows_apart(layout: Layout, row: str, lane: Expr) -> Layout:
    """The layout with rows in another order, the same for an operand and its sums: lanes that shared memory serves
    together have rows that are four apart, whose halves a swizzle exchanges, in place of neighbours."""
    group, apart = lane // _LANES_OF_ROW, lane // (2 * _LANES_OF_ROW) + lane // _LANES_OF_ROW % 2 * 4
    base = tuple((dim, apart if dim == row and expr is group else expr) for dim, expr in layout.base)
    return replace(layout, base=base)


def _in_runs(layout: Layout, k: str, run: int, depth: int) -> Layout:
    """The layout of an operand whose lanes have ``run`` elements along k in a row, in place of those of one step of
    ``depth``: in an instruction the order along k is free, as long as both operands agree."""
    own = layout.run_length(k)
    if run == own:
        return layout
    if run > own:
        base = tuple((dim, expr * (run // own) if dim == k else expr) for dim, expr in layout.base)
        axes, stride = list[RegisterAxis](), 1
        for axis in reversed(layout.axes or (RegisterAxis(1, ((k, 1),)),)):
            axes.append(replace(axis, strides=((k, stride),)) if axis.stride(k) else axis)
            stride *= axis.extent if axis.stride(k) else 1
        return Layout(base, tuple(reversed(axes)), max(1, layout.inner))
    base = tuple((dim, expr // own * run if dim == k else expr) for dim, expr in layout.base)
    groups = depth // own  # of lanes, whose runs lie one behind another
    axes = (*layout.axes[:-1], RegisterAxis(own // run, ((k, groups * run),)), RegisterAxis(run, ((k, 1),)))
    return Layout(base, axes, layout.inner + 1)


def depth_of_round(op: Op, row: MatrixInstruction, machine: Machine) -> int:
    """Elements along k of the steps that share runs: what an operand is read for at a time, at least."""
    if run := op.get("run"):
        return row.k * max(1, run // elements_along(row.a.layout, "k"))
    return row.k * wide_steps(row, machine)


def elements_along(layout: Layout, dim: str) -> int:
    """Elements along a dim that a lane has of one fragment."""
    return prod(axis.extent for axis in layout.axes[len(layout.repeats) :] if axis.stride(dim))


def wide_steps(row: MatrixInstruction, machine: Machine) -> int:
    """Steps of k that one widest shared-memory access feeds, when each lane's elements along k are one short run.

    The order of k inside a step is free as long as both operands agree, so a lane may take the elements of several
    steps from one run: `assign_layouts` spreads them.  1 where the machine loads whole fragments itself.
    """
    runs = [fragment.layout.run_length("k") for fragment in (row.a, row.b)]
    only_k = all(len(f.layout.axes) <= 1 for f in (row.a, row.b))
    if machine.shared.matrix_load or not only_k or runs[0] != runs[1]:
        return 1
    return max(1, machine.shared.access_bytes // (runs[0] * row.a.dtype.bytes))
