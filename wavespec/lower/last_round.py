"""Tiles and processors go in; how workgroups share out the tiles of the last round comes out.

A round is as many tiles as there are processors.  Each tile of full rounds has one workgroup; those that are left have
as many as there are processors for it, or three in two rounds of thirds.  What a workgroup does at a time, a tile or a
part of one, is a piece; pieces are in the order of tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.lower.tile_walk import MOST_TILES
from wavespec.ops.shared_sum import MOST_PARTS

_SOME = 3
PART = symbol("part_of_steps", 0, MOST_PARTS - 1)
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
"""Those that `LastRound` gives values."""


@dataclass(frozen=True, slots=True)
class LastRound:
    """So many ``tiles`` on so many ``processors``, where at ``most`` so many workgroups share out one."""

    tiles: Expr
    processors: int
    most: int

    @property
    def pieces(self) -> Expr:
        """Workgroups of the last round."""
        return self._rest * self._parts

    @property
    def workgroups(self) -> Expr:
        """Those of all rounds."""
        return self._whole + self.pieces

    @property
    def most_pieces(self) -> int:
        """Workgroups of the last round, whatever there are of tiles."""
        return self.processors * (2 if self.most >= _SOME else 1)

    def once(self) -> dict[str, Expr]:
        """What is the same for all pieces, as values of symbols."""
        return {_WHOLE.args[0]: self._whole, _EACH.args[0]: self._parts}

    @staticmethod
    def pieces_of(tiles: Expr) -> Expr:
        """How many pieces the first ``tiles`` have, behind `once`."""
        return tiles + maximum(0, tiles - _WHOLE) * (_EACH - 1)

    @staticmethod
    def at(number: Expr) -> tuple[Expr, dict[str, Expr]]:
        """The tile of piece ``number``, and values of the other `SYMBOLS`, behind `once`, in order."""
        values = {
            _PIECE: maximum(0, number - _WHOLE),
            _IN_LAST: _is_at_most(_WHOLE, number),
            SHARED_TILE: _PIECE // _EACH,
            PART: _PIECE - SHARED_TILE * _EACH,
            PARTS: const(1) + (_EACH - 1) * _IN_LAST,
            _TILE: minimum(number, _WHOLE + SHARED_TILE),
        }
        return _TILE, {known.args[0]: value for known, value in values.items()}

    @property
    def _rest(self) -> Expr:
        return self.tiles % self.processors

    @property
    def _whole(self) -> Expr:
        """Tiles of full rounds."""
        return self.tiles // self.processors * self.processors

    @property
    def _parts(self) -> Expr:
        """How many workgroups each tile of the last round has."""
        rest, parts = self._rest, const(1)  # without a division by what is known in a launch alone
        for count in range(2, self.most + 1):
            parts = parts + _is_at_most(rest * count, self.processors)
        if self.most >= _SOME:
            is_more = _is_at_most(self.processors + 1, rest * 2)
            parts = parts + is_more * _is_at_most(rest * _SOME, self.processors * 2) * (_SOME - 1)
        return parts


def _is_at_most(left: Expr | int, right: Expr | int) -> Expr:
    """1 where it is, else 0."""
    return minimum(1, maximum(0, const(1) + right - left))
