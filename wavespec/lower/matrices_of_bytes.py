"""Loads of a tile of bytes in, matrix loads out, for columns that are dealt to lanes as these hand them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.expr_value import evaluated
from wavespec.ir.kernel import Kernel, Memory, Op, Value, VectorType, attribute_pairs
from wavespec.ir.thread_ops import BULK_COPY, LOAD, LOAD_MATRIX, PACK, SLICE

_ROWS, _COLUMNS = 8, 16
"""Of a matrix of bytes."""
_FRAGMENT, _PAIR, _WORD = 8, 2, 4
_BELOW = 8
"""Rows between the two that a lane has of a fragment."""
_WARP, _ROWS_OF_WARP = 32, 16
_MOST_LANES = 1 << 12


@dataclass(frozen=True)
class MatricesOfBytes:
    """The loads of one tile in the steps of a loop, by the row and fragment that the first lane has of it."""

    kernel: Kernel
    memory: Memory
    loads: dict[tuple[int, int], Op]
    base: Expr
    """The row of lane 0, beside that of the load."""
    fresh: Callable[[str], str]

    @classmethod
    def of(cls, kernel: Kernel, loop: Op, name: str, fresh: Callable[[str], str]) -> MatricesOfBytes | None:
        """None where they are not all pairs of fragments of all columns of a step, as products have sums."""
        memory, ops = kernel.memory(name), loop.body.ops
        copied, read = (
            [n for n, op in enumerate(ops) if op.is_(one) and op["memory"] == name] for one in (BULK_COPY, LOAD)
        )
        if memory.arrangement is None or len(memory.dims) != 2 or not read:
            return None
        if max(copied) > read[0]:
            return None
        places = _Places.of(kernel, memory, [ops[number]["offset"] for number in read])
        if places is None:
            return None
        loads = dict[tuple[int, int], Op]()
        for number in read:
            op = ops[number]
            is_plain = op.result.vector.elements == _PAIR and not op["mask"] and op.get("valid") is None
            found = places.first(op["offset"]) if is_plain and not op.get("around") else None
            if found is None or found in loads:
                return None
            loads[found] = op
        rows, fragments = sorted({row for row, _ in loads}), loop["step"].value // _FRAGMENT
        whole = {(row, number) for row in rows for number in range(fragments)}
        pairs = all(row + (-_BELOW if number % 2 else _BELOW) in rows for number, row in enumerate(rows))
        return cls(kernel, memory, loads, places.base, fresh) if loads.keys() == whole and pairs else None

    def replaced(self) -> dict[int, tuple[Op, ...]]:
        """By `id` of a load, what stands for it: that in front of others of theirs, the matrix load and all slices."""
        order = {id(op): number for number, op in enumerate(self.loads.values())}
        made: dict[int, tuple[Op, ...]] = {id(op): () for op in self.loads.values()}
        parts = max(number for _, number in self.loads) // 2 + 1
        for row in sorted({row for row, _ in self.loads})[::2]:
            for part in range(0, parts, 2):
                ones = [
                    (number, half, self.loads[row + below * _BELOW, part + across + half * parts])
                    for number, (across, below) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1)))
                    for half in range(2)
                ]
                first = min((op for *_, op in ones), key=lambda op: order[id(op)])
                made[id(first)] = tuple(self._at_once(row, part, ones))
        return made

    def _at_once(self, row: int, part: int, ones: list[tuple[int, int, Op]]) -> list[Op]:
        lane, (*_, load) = self.kernel.symbol("lane"), ones[0]
        below, across = lane // _ROWS % 2, lane // (2 * _ROWS) % 2
        at = self.base + lane // _WARP * _ROWS_OF_WARP + lane % _ROWS + below * _BELOW + row
        place = dict(zip(self.memory.dims, (at, (across + part) * _COLUMNS), strict=True))
        dtype = load.result.vector.dtype
        whole = Value(self.fresh(load.result.name), VectorType(dtype, 4 * _WORD))
        kept = {key: load[key] for key in ("memory", "buffer") if load.get(key) is not None}
        attributes = {**kept, "offset": self.memory.offset(place), "count": 4, "transposed": False}
        made = [Op(LOAD_MATRIX.name, (), (whole,), attribute_pairs(attributes), span=load.span)]
        for number, half, op in ones:
            pair = [Value(self.fresh(op.result.name), VectorType(dtype, 1)) for _ in range(_PAIR)]
            for place, one in enumerate(pair):
                start = attribute_pairs({"start": number * _WORD + place * _PAIR + half, "size": 1})
                made.append(Op(SLICE.name, (whole,), (one,), start, span=op.span))
            made.append(Op(PACK.name, tuple(pair), op.results, span=op.span))
        return made


@dataclass(frozen=True)
class _Places:
    """What lanes of all waves have of a tile, in numbers."""

    lanes: dict[str, Any]
    rows: Any
    """Of each element in memory, -1 for what has none."""
    columns: Any
    moved: Any
    """Rows of lanes, beside that of the first one."""
    base: Expr

    @classmethod
    def of(cls, kernel: Kernel, memory: Memory, offsets: list[Expr]) -> _Places | None:
        import numpy as np  # no other pass needs it, and whoever imports them should not wait for it

        names = sorted({name for offset in offsets for name in offset.symbols} - {"lane"})
        highs = [kernel.symbol(name).high for name in names]
        if any(kernel.symbol(name).low != 0 for name in names) or None in highs:
            return None
        counts = [kernel.lanes, *(high + 1 for high in highs if high is not None)]
        if np.prod(counts) > _MOST_LANES:
            return None
        grid = np.indices(counts).reshape(len(counts), -1)
        lanes = dict(zip(("lane", *names), grid, strict=True))
        rows, columns = _coordinates(memory)
        lane, moved, base = lanes["lane"], np.zeros_like(grid[0]), const(0)
        origin = rows[evaluated(offsets[0], dict.fromkeys(lanes, 0))]
        for name in names:
            step = int(rows[evaluated(offsets[0], {one: int(one == name) for one in lanes})] - origin)
            moved, base = moved + step * lanes[name], base + kernel.symbol(name) * step
        moved = moved + lane // _WARP * _ROWS_OF_WARP + lane // 4 % _ROWS
        return cls(lanes, rows, columns, moved, base)

    def first(self, offset: Expr) -> tuple[int, int] | None:
        """Row and fragment of the first lane, where the others have what theirs of its product have."""
        at = evaluated(offset, self.lanes) + 0 * self.moved  # one for each lane, also where it is a number
        if at.min() < 0 or at.max() >= len(self.rows):
            return None
        rows, columns = self.rows[at] - self.moved, self.columns[at] - self.lanes["lane"] % 4 * _PAIR
        row, column = int(rows[0]), int(columns[0])
        same = (rows == row).all() and (columns == column).all()
        return (row, column // _FRAGMENT) if same and column % _FRAGMENT == 0 else None


def _coordinates(memory: Memory) -> tuple[Any, Any]:
    """Row and column of each element of a tile, by where it lies."""
    import numpy as np

    row, column = memory.dims
    shape = [extent.value for extent in memory.shape]
    grid = np.indices(shape).reshape(2, -1)
    place = {dim: symbol(f"at {dim}", 0, size - 1) for dim, size in zip(memory.dims, shape, strict=True)}
    at = evaluated(memory.offset(place), {f"at {row}": grid[0], f"at {column}": grid[1]})
    rows, columns = (np.full(int(at.max()) + 1, -1) for _ in range(2))
    rows[at], columns[at] = grid
    return rows, columns
