"""Transposes of square blocks in vector registers, by shuffles that map to single instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wavespec.emit.mlir_text import MlirText

_Shuffle = Callable[[str, str, list[int]], str]
LANE_BYTES = 16  # x86 shuffles move elements inside 16-byte lanes cheaply, whole lanes otherwise


def transposed_lines(text: MlirText, lines: Sequence[str], width: int, element: str) -> list[str]:
    """Transpose ``width`` vectors of ``width`` elements; returns the columns.

    Stages with strides 1, 2, ... inside a 16-byte lane interleave neighbouring rows (unpack low / high); then lanes are
    exchanged between rows.  Every stage is ``width`` two-operand shuffles.
    """
    assert len(lines) == width, f"a block of {len(lines)} x {width} is not square"
    bits = int(element.lstrip("bfi"))
    per_lane = LANE_BYTES * 8 // bits
    lanes = width // per_lane
    rows = list(lines)
    type_ = f"vector<{width}x{element}>"

    def shuffle(a: str, b: str, pattern: list[int]) -> str:
        return text.op(f"vector.shuffle {a}, {b} {pattern} : {type_}, {type_}")

    # Inside lanes: after stage s, the rows of a group of 2^(s+1) hold runs of 2^(s+1) elements of one column.
    run = 1
    while run < per_lane:
        rows = _butterfly(rows, run, *halves_of_lanes(width, per_lane, run), shuffle)
        run *= 2
    return _exchange_lanes(rows, per_lane, lanes, shuffle)


def halves_of_lanes(width: int, per_lane: int, run: int) -> tuple[list[int], list[int]]:
    """Of two vectors of ``width`` elements, runs of both in turn: those of the lower halves of all lanes, and those of
    the higher ones."""
    low, high = (
        [
            lane * per_lane + half * (per_lane // 2) + part * run + i + (width if second else 0)
            for lane in range(width // per_lane)
            for part in range(per_lane // 2 // run)
            for second in (False, True)
            for i in range(run)
        ]
        for half in (0, 1)
    )
    return low, high


def _butterfly(rows: list[str], distance: int, low: list[int], high: list[int], shuffle: _Shuffle) -> list[str]:
    result = list(rows)
    group = 2 * distance
    for start in range(0, len(rows), group):
        for i in range(distance):
            a, b = rows[start + i], rows[start + i + distance]
            result[start + 2 * i], result[start + 2 * i + 1] = shuffle(a, b, low), shuffle(a, b, high)
    return result


def _exchange_lanes(rows: list[str], per_lane: int, lanes: int, shuffle: _Shuffle) -> list[str]:
    """Row ``g·per_lane + c`` has, in lane l, rows of group g of column ``l·per_lane + c``; gather a column's lanes."""

    def pick(selection: list[int]) -> list[int]:
        return [lane * per_lane + i for lane in selection for i in range(per_lane)]

    columns: list[str] = [""] * len(rows)
    for c in range(per_lane):
        found: dict[tuple[int, ...], list[str]] = {(): [rows[g * per_lane + c] for g in range(lanes)]}
        while len(next(iter(found.values()))) > 1:
            split: dict[tuple[int, ...], list[str]] = {}
            for key, vectors in found.items():
                even, odd = pick(list(range(0, 2 * lanes, 2))), pick(list(range(1, 2 * lanes, 2)))
                pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
                split[(*key, 0)] = [shuffle(a, b, even) for a, b in pairs]
                split[(*key, 1)] = [shuffle(a, b, odd) for a, b in pairs]
            found = split
        for key, (vector,) in found.items():
            lane = sum(bit << position for position, bit in enumerate(key))
            columns[lane * per_lane + c] = vector
    return columns
