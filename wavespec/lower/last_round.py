"""The tiles of a launch and the processors go in; how workgroups share out the tiles of the last round comes out."""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.lower.tile_walk import MOST_TILES, product
from wavespec.ir.kernel import Kernel
from wavespec.targets.machine import Machine

MOST_PARTS = 16
_SOME = 3
"""Parts of tiles that are more than half as many as the processors and at most two thirds: two rounds of a third."""

PART = symbol("part", 0, MOST_PARTS - 1)
"""Which part of the steps of its tile a workgroup has."""
PARTS = symbol("parts", 1, MOST_PARTS)
"""How many parts the tile of a workgroup has: 1 in all rounds but the last one."""
SHARED_TILE = symbol("shared_tile", 0, MOST_TILES)
"""The number of a workgroup's tile among those of the last round; 0 in others."""


def is_shared(kernel: Kernel) -> bool:
    return kernel.distribution.last_round > 1 and SHARED_TILE in kernel.symbols


def whole_tiles(kernel: Kernel, machine: Machine) -> Expr:
    """Tiles of full rounds."""
    return product(kernel.grid) // machine.processors * machine.processors


def parts_of_last(kernel: Kernel, machine: Machine) -> Expr:
    """How many workgroups each tile of the last round has: as many as processors are there for it, where there are two
    or more; three where two rounds of a third take less than one."""
    rest, processors = product(kernel.grid) % machine.processors, const(machine.processors)
    each = processors // maximum(rest, 1)
    is_more = minimum(1, rest // (processors.value // 2 + 1)) * minimum(1, const(processors.value * 2 // _SOME) // maximum(rest, 1))
    return minimum(kernel.distribution.last_round, maximum(each, maximum(1, is_more * _SOME)))


def pieces(kernel: Kernel, machine: Machine) -> Expr:
    """Workgroups of the last round."""
    return product(kernel.grid) % machine.processors * parts_of_last(kernel, machine)


def pieces_in_order(kernel: Kernel, machine: Machine, number: Expr) -> tuple[Expr, dict[str, Expr]]:
    """The tile of workgroup ``number``, by the symbols of the dictionary, which have their values in front of it."""
    whole, each, piece, is_last = (
        symbol("whole_tiles", 0, MOST_TILES),
        symbol("parts_of_last", 1, MOST_PARTS),
        symbol("piece", 0, MOST_TILES),
        symbol("in_last_round", 0, 1),
    )
    values = {
        "whole_tiles": whole_tiles(kernel, machine),
        "parts_of_last": parts_of_last(kernel, machine),
        "piece": maximum(0, number - whole),
        "in_last_round": minimum(1, maximum(0, number - whole + 1)),
        "shared_tile": piece // each,
        "part": piece % each,
        "parts": const(1) + (each - 1) * is_last,
        "tile_of_piece": minimum(number, whole + SHARED_TILE),
    }
    return symbol("tile_of_piece", 0, MOST_TILES), values


def symbols_of_pieces() -> tuple[Expr, ...]:
    return (
        symbol("whole_tiles", 0, MOST_TILES),
        symbol("parts_of_last", 1, MOST_PARTS),
        symbol("piece", 0, MOST_TILES),
        symbol("in_last_round", 0, 1),
        symbol("tile_of_piece", 0, MOST_TILES),
        PART,
        PARTS,
        SHARED_TILE,
    )
