"""A matrix product goes in; where its factors and its sums live in waves, lanes and registers comes out."""

from __future__ import annotations

from dataclasses import replace

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.names import wave_name
from wavespec.lower.choose_instructions import instruction_of
from wavespec.targets.machine import Machine, MatrixInstruction


def product_layouts(kernel: Kernel, op: Op, machine: Machine) -> tuple[Layout, Layout, Layout]:
    """Those of an mma's two factors and its sums: the instruction's, repeated over the wave tile."""
    row = instruction_of(op, machine)
    m, n, k = op["m"], op["n"], op["k"]
    names = {"m": m, "n": n, "k": k}
    tile = {dim: op.operands[2].tile.extent(dim) for dim in (m, n)}
    counts = dict(kernel.waves)
    wave_tile = {dim: tile[dim] // kernel.waves_along(dim) for dim in (m, n)}
    place = {dim: kernel.symbol(wave_name(dim)) * wave_tile[dim] for dim in (m, n) if wave_name(dim) in counts}
    steps = op.operands[0].tile.extent(k) // row.k
    wide = wide_steps(row, machine)
    wide = wide if steps % wide == 0 else 1

    def operand(layout: Layout, dim: str, issue: int) -> Layout:
        layout = layout.renamed(names)
        if wide == 1:
            return layout.shifted(place).repeated(dim, wave_tile[dim] // issue, issue).repeated(k, steps, row.k)
        run = layout.run_length(k)
        base = tuple((d, expr * wide if d == k else expr) for d, expr in layout.base)
        layout = replace(
            layout, base=base, axes=layout.axes or (RegisterAxis(1, ((k, 1),)),), inner=max(1, layout.inner)
        )
        layout = layout.shifted(place).repeated(dim, wave_tile[dim] // issue, issue)
        return layout.repeated(k, steps // wide, row.k * wide).repeated(k, wide, run)

    acc = row.acc.layout.renamed(names).shifted(place)
    acc = acc.repeated(m, wave_tile[m] // row.m, row.m).repeated(n, wave_tile[n] // row.n, row.n)
    return operand(row.a.layout, m, row.m), operand(row.b.layout, n, row.n), acc


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
