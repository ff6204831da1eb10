"""Vectors go in; one comes out that has what the elements of each come to: each shuffle serves two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.transpose import LANE_BYTES, halves_of_lanes


def rows_joined(text: MlirText, rows: Sequence[str], width: int, element: str, join: Callable[[str, str], str]) -> str:
    """The elements of each of a power of two of vectors joined, in their order from the first element on.

    Each stage halves what there is of each row, and the vectors: inside of 16 bytes neighbours are side by side, then
    16 bytes of several rows.  A vector that is the last one is joined with itself.
    """
    type_, left = f"vector<{width}x{element}>", list(rows)
    per_lane = min(width, LANE_BYTES * 8 // int(element.lstrip("bfi")))
    lanes, run = width // per_lane, 1
    patterns = list[tuple[list[int], list[int]]]()
    while run < per_lane:
        patterns.append(halves_of_lanes(width, per_lane, run))
        run *= 2
    whole = [[lane * per_lane + i for lane in range(first, 2 * lanes, 2) for i in range(per_lane)] for first in (0, 1)]
    patterns += [(whole[0], whole[1])] * (lanes.bit_length() - 1)
    for pattern in patterns:
        pairs = [(left[at], left[min(at + 1, len(left) - 1)]) for at in range(0, len(left), 2)]
        halves = [[text.op(f"vector.shuffle {a}, {b} {one} : {type_}, {type_}") for one in pattern] for a, b in pairs]
        left = [join(low, high) for low, high in halves]
    (result,) = left
    return result
