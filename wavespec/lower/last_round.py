"""The tiles of a launch and the processors go in; how workgroups share out the tiles of the last round comes out.

A round is as many tiles as the machine has processors.  Each tile of full rounds has one workgroup; those that are left
have as many as there are processors for it, or three in two rounds of thirds.
"""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel
from wavespec.lower.tile_walk import MOST_TILES, product
from wavespec.ops.shared_sum import MOST_PARTS
from wavespec.targets.machine import Machine

_SOME = 3
PART = symbol("part", 0, MOST_PARTS - 1)
"""Which part of the steps of its tile a workgroup has."""
PARTS = symbol("parts", 1, MOST_PARTS)
"""How many parts the tile of a workgroup has: 1 in all rounds but the last one."""
SHARED_TILE = symbol("shared_tile", 0, MOST_TILES)
"""The number of a workgroup's tile among those of the last round; 0 in others."""
_WHOLE = symbol("whole_tiles", 0, MOST_TILES)
_EACH = symbol("parts_of_last", 1, MOST_PARTS)
_PIECE = symbol("piece", 0, MOST_TILES)
_IN_LAST = symbol("in_last_round", 0, 1)
_TILE = symbol("tile_of_piece", 0, MOST_TILES)
SYMBOLS = (_WHOLE, _EACH, _PIECE, _IN_LAST, SHARED_TILE, PART, PARTS, _TILE)
"""Those that `pieces_in_order` gives values."""


def parts_of_last(kernel: Kernel, machine: Machine) -> Expr:
    """How many workgroups each tile of the last round has; the grid is one of tiles."""
    rest, processors, most = _rest(kernel, machine), machine.processors, kernel.distribution.last_round
    parts = const(1)  # without a division by what is known in a launch alone
    for count in range(2, most + 1):
        parts = parts + _is_at_most(rest * count, processors)
    if most >= _SOME:
        is_more = _is_at_most(processors + 1, rest * 2)
        parts = parts + is_more * _is_at_most(rest * _SOME, processors * 2) * (_SOME - 1)
    return parts


def pieces(kernel: Kernel, machine: Machine) -> Expr:
    """Workgroups of the last round."""
    return _rest(kernel, machine) * parts_of_last(kernel, machine)


def workgroups(kernel: Kernel, machine: Machine) -> Expr:
    """Those of all rounds."""
    return _whole(kernel, machine) + pieces(kernel, machine)


def pieces_in_order(kernel: Kernel, machine: Machine, number: Expr) -> tuple[Expr, dict[str, Expr]]:
    """The tile of workgroup ``number``, and values of `SYMBOLS`, in order."""
    values = {
        _WHOLE: _whole(kernel, machine),
        _EACH: parts_of_last(kernel, machine),
        _PIECE: maximum(0, number - _WHOLE),
        _IN_LAST: _is_at_most(_WHOLE, number),
        SHARED_TILE: _PIECE // _EACH,
        PART: _PIECE - SHARED_TILE * _EACH,
        PARTS: const(1) + (_EACH - 1) * _IN_LAST,
        _TILE: minimum(number, _WHOLE + SHARED_TILE),
    }
    return _TILE, {known.args[0]: value for known, value in values.items()}


def _rest(kernel: Kernel, machine: Machine) -> Expr:
    return product(kernel.grid) % machine.processors


def _whole(kernel: Kernel, machine: Machine) -> Expr:
    """Tiles of full rounds."""
    return product(kernel.grid) // machine.processors * machine.processors


def _is_at_most(left: Expr | int, right: Expr | int) -> Expr:
    """1 where it is, else 0."""
    return minimum(1, maximum(0, const(1) + right - left))
