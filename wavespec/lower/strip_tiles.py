"""Tile kernel in, tile kernel out: what a loop computes of products wider than one register tile, it does strip by
strip."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, rewrite
from wavespec.ir.tile_ops import ITERATE, MMA, READ, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.in_place import reads_in_place
from wavespec.lower.phases_of_strips import Phases, Strips, can_be_cut
from wavespec.lower.split_reduction import remaining
from wavespec.lower.tile_properties import (
    loops_have_several_steps,
    products_have_instructions,
    products_read_their_operands,
    tiles_are_placed,
)
from wavespec.targets.machine import Machine


class StripTiles(Pass):
    """Give results of products the registers of one instruction, whatever the tile of their loop.

    Before: the body of a loop along a dim computes with tiles of that dim, several instructions wide.
    After:  on machines whose registers hold the results of one instruction, operations on such tiles stand in inner
            loops, one instruction wide each.  Reductions along the dim end a loop, because what uses them needs the
            whole row; so do products that a reduction follows, whose sums take all registers.  What a later loop needs
            of an earlier one is written to a private memory ``<name>.strips`` and read back.  What takes the whole
            tile, as scans do, and only what is read, is in front of the loops.  Code is as long for one strip as for
            many.
    Cases:  loops stay as they are where something needs a whole tile that only registers hold.
    """

    name: ClassVar[str] = "strip-tiles"
    requires = (products_have_instructions, products_read_their_operands, tiles_are_placed)
    drops = (loops_have_several_steps,)  # those over strips may have one: dims may have less than a tile

    def applies_to(self, machine: Machine) -> bool:
        return machine.register_tile == "instruction"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, symbols, memories = fresh_names(kernel), list[Expr](), list[Memory]()

        def change(op: Op) -> tuple[Op, ...]:
            strips = _strips(kernel, op, machine)
            if strips is None:
                return (op,)
            phases = Phases(kernel, op.body.ops, strips, fresh)
            ops = phases.stripped()
            symbols.append(strips.at)
            memories.extend(phases.memories.values())
            return (replace(op, region=replace(op.body, ops=ops)),)

        body = rewrite(kernel.body, change)
        kernel = replace(kernel.with_symbols(*symbols), body=body, memories=(*kernel.memories, *memories))
        return kernel


def _strips(kernel: Kernel, loop: Op, machine: Machine) -> Strips | None:
    """How to cut the tiles of a loop; None where it is not needed, or not possible."""
    if not loop.is_(ITERATE) or not loop["dim"] or loop.get("goes_on") is not None:
        return None
    if reads_in_place(kernel):  # reads are done again, which would find what was written
        return None
    dim, tile = loop["dim"], loop["step"].value
    products = [op for op in loop.body.ops if op.is_(MMA) and op["n"] == dim]
    widths = {instruction_of(op, machine).n for op in products}
    if len(widths) != 1 or kernel.waves_along(dim) > 1:
        return None
    (width,) = widths
    extent = remaining(kernel, dim, tile, width)
    strips = Strips(dim, tile, width, symbol(f"strip_{dim}", 0, tile - width, width), extent)
    whole = [op for op in loop.body.ops if op.is_(MMA) and op["k"] == dim]
    reads = {op.result.name for op in loop.body.ops if op.is_(READ) and not any(map(strips.has, op.operands))}
    fits = tile > width and tile % width == 0
    fits = fits and all(width % instruction_of(op, machine).k == 0 for op in whole)
    rows = [op for op in loop.body.ops if op.is_(MMA) and op["m"] == dim]
    fits = fits and all(width % instruction_of(op, machine).m == 0 for op in rows)
    fits = fits and all(value.name in reads for op in whole for value in op.operands[:2] if strips.has(value))
    fits = fits and not any(map(strips.has, (*loop.operands, *loop.body.yields)))
    return strips if fits and _every_operation_fits(loop, strips) else None


def _every_operation_fits(loop: Op, strips: Strips) -> bool:
    """Whether each can be cut, or is of a tile that nothing but reads and arithmetic on them has made, and so can be
    whole in front of the strips."""
    free = set[str]()
    for op in loop.body.ops:
        is_cut = can_be_cut(op, strips)
        is_free = not op.is_(MMA, WRITE) and not op.region
        is_free = is_free and all(value.name in free for value in op.operands if strips.has(value))
        if not is_cut and not is_free:
            return False
        free |= {value.name for value in op.results if is_free}
    return True
