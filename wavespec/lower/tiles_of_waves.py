"""A tile kernel in, what each wave takes of the tile of a workgroup, and of the steps of a loop, out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import WavespecError, Where, raise_all
from wavespec.ir.kernel import Kernel, Op, Split
from wavespec.ir.tile_ops import WRITE
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_INSTRUCTION = "the matrix instruction's extent"
_SHORTEST_ROW = 64
"""Elements of a row, at least, in what one turn takes."""
_MOST_OF_A_WAVE = 4096
"""Elements of a value that a turn has written out because the spec says so: eight times what registers hold of f32."""
_ONE_BY_ONE = 8
"""Elements that become as much code as one that is combined with a tensor alone: two dozen lines, in two forms."""


class TileNotDivisible(WavespecError, code="tile-not-divisible"):
    def __init__(self, where: Where, what: str, tile: int, by: str, part: int) -> None:
        near = max(part, tile // part * part)
        super().__init__(
            where,
            f"The {what} of {tile} elements is not a multiple of {by}, {part}.",
            hints=[f"Use a multiple of {part}, such as {near}."],
        )


class ProductsRepeated(WavespecError, code="products-repeated"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"Waves along '{dim}', which no product has, would each compute and store all products again.",
            hints=["Leave out the wave tile, or 'producers' of the schedule."],
        )


class SumsNotShared(WavespecError, code="sums-not-shared"):
    def __init__(self, where: Where, dim: str, row: MatrixInstruction) -> None:
        super().__init__(
            where,
            f"Waves that share out '{dim}', over which products sum, multiply what is in their registers; "
            f"{row.name} reads shared memory itself.",
            hints=["Leave out the wave tile, or 'producers' of the schedule."],
        )


class ResultsNotShared(WavespecError, code="results-not-shared"):
    """``summed``: whether a product sums over the dim as well, so that no workgroup can have a part of it."""

    def __init__(self, where: Where, dim: str, summed: bool) -> None:
        super().__init__(
            where,
            f"Waves share out results of products along dims that workgroups split; '{dim}' has a tiling.",
            hints=[
                f"Another product sums over '{dim}': give results a dim of their own, of the same size, and "
                "{workgroup: ..., tile: ..., axis: ...}; D and E of specs/attention.wave.yaml are two such."
                if summed
                else f"Write {{workgroup: {dim}, tile: ..., axis: ...}} in place of the tiling."
            ],
        )


def tiles_of_waves(
    kernel: Kernel, machine: Machine, products: Sequence[tuple[Op, MatrixInstruction]]
) -> dict[str, int]:
    """Elements that one wave takes, of the tile of a workgroup, and of dims that products sum over.

    Raises:
        WavespecError: tiles that instructions, or waves, do not divide.
    """
    issue: dict[str, int] = {}
    for op, row in products:
        for dim, extent in ((op["m"], row.m), (op["n"], row.n), (op["k"], row.k)):
            issue[dim] = math.lcm(extent, issue.get(dim, 1))
    # Of tiles that nobody wrote, a mistake is where they are used.
    used = {op[name]: op.span for op, _ in reversed(products) for name in ("m", "n", "k")}
    tiles: dict[str, int] = {}
    errors = [
        *_of_workgroups(kernel, machine, issue, used, tiles),
        *_of_loops(kernel, machine, products, issue, used, tiles),
        *_of_whole_dims(kernel, products, issue),
    ]
    raise_all(errors)
    return tiles if products or not machine.turn_elements else _of_short_turns(kernel, tiles, machine.turn_elements)


def _of_workgroups(
    kernel: Kernel, machine: Machine, issue: Mapping[str, int], used: Mapping[str, Where], tiles: dict[str, int]
) -> Iterator[WavespecError]:
    """Adds what waves take of the tiles of workgroups; yields what is wrong with these."""
    written = {split.dim: split for split in kernel.distribution.waves}
    for split in kernel.distribution.workgroup:
        wave = written.get(split.dim)
        tile = wave.tile if wave else split.tile
        if machine.register_tile == "instruction":
            tile = issue.get(split.dim, split.tile if issue else tile)
        place, part = split.span or used.get(split.dim), issue.get(split.dim, 1)
        where = (wave.span if wave else None) or place
        if machine.register_tile == "wave" and tile % part:
            yield TileNotDivisible(where, f"wave tile of {split.dim}", tile, _INSTRUCTION, part)
        elif split.tile % tile:
            by = "the wave tile" if machine.register_tile == "wave" else _INSTRUCTION
            yield TileNotDivisible(place, f"workgroup tile of {split.dim}", split.tile, by, tile)
        tiles[split.dim] = tile


def _of_loops(
    kernel: Kernel,
    machine: Machine,
    products: Sequence[tuple[Op, MatrixInstruction]],
    issue: Mapping[str, int],
    used: Mapping[str, Where],
    tiles: dict[str, int],
) -> Iterator[WavespecError]:
    """Adds what waves take of the steps of loops; yields what is wrong with these."""
    written = {split.dim: split for split in kernel.distribution.waves}
    free = {op[name] for op, _ in products for name in ("m", "n")}
    for split in kernel.distribution.loops:
        part = issue.get(split.dim, 1)
        if split.dim in written and machine.register_tile == "wave":
            wave = written[split.dim]
            if split.dim not in issue:
                tiles[split.dim] = wave.tile
                if kernel.distribution.roles.producers:
                    yield ProductsRepeated(wave.span, split.dim)
            elif split.dim not in free and wave.tile != split.tile:
                tiles[split.dim] = wave.tile
                yield from _of_sums(split, wave, part, products)
            elif split.dim in free and wave.tile != split.tile:
                summed = any(op["k"] == split.dim for op, _ in products)
                yield ResultsNotShared(wave.span, split.dim, summed)
        if split.tile % part:
            where = split.span or used.get(split.dim)
            yield TileNotDivisible(where, f"tile of {split.dim}", split.tile, _INSTRUCTION, part)


def _of_whole_dims(
    kernel: Kernel, products: Sequence[tuple[Op, MatrixInstruction]], issue: Mapping[str, int]
) -> Iterator[WavespecError]:
    """What is wrong with sizes that have no tile."""
    has_tile = {split.dim for split in (*kernel.distribution.workgroup, *kernel.distribution.loops)}
    for dim, part in issue.items():
        size = kernel.size(dim)
        if dim not in has_tile and size.is_const and size.value % part:
            (op, *_) = (op for op, _ in products if dim in (op["m"], op["n"], op["k"]))
            yield TileNotDivisible(op.span, f"size of {dim}", size.value, _INSTRUCTION, part)


def _of_sums(
    split: Split, wave: Split, part: int, products: Sequence[tuple[Op, MatrixInstruction]]
) -> Iterator[WavespecError]:
    """What is wrong with waves that share out a dim that products sum over."""
    unit = next((row for op, row in products if op["k"] == split.dim and row.reads_shared), None)
    if unit is not None:
        yield SumsNotShared(wave.span, split.dim, unit)
    elif wave.tile % part:
        yield TileNotDivisible(wave.span, f"wave tile of {split.dim}", wave.tile, _INSTRUCTION, part)
    elif split.tile % wave.tile:
        yield TileNotDivisible(split.span, f"tile of {split.dim}", split.tile, "the wave tile", wave.tile)


def _of_short_turns(kernel: Kernel, tiles: Mapping[str, int], most: int) -> dict[str, int]:
    """The tiles, halved as long as a turn has more elements of some value than there should be code for.

    Rows are shortened last: they are read and written as they lie in memory, 64 elements at a time or more.  Dims whose
    waves the spec has stay, unless those have more than ``_MOST_OF_A_WAVE`` elements, of which those that are combined
    with a tensor, one by one, count for several.
    """
    written = {split.dim for split in kernel.distribution.waves}
    steps = {split.dim: split.tile for split in kernel.distribution.loops}
    rows = {memory.contiguous_dim for memory in kernel.memories if memory.dims}
    values = [value.tile.dims for op in kernel.walk() for value in op.results]
    combined = {op.operands[0].tile.dims for op in kernel.walk() if op.is_(WRITE) and op.get("combine")}
    shorter = dict(tiles)

    def elements(dims: Sequence[str]) -> int:
        return math.prod(shorter.get(dim, steps.get(dim, 1)) for dim in dims)

    def counted(dims: Sequence[str]) -> int:
        return elements(dims) * (_ONE_BY_ONE if dims in combined else 1)

    is_much = bool(written) and max(map(counted, values), default=0) > _MOST_OF_A_WAVE
    weight, stay = (counted, set[str]()) if is_much else (elements, written)
    while (largest := max(values, key=weight, default=())) and weight(largest) > most:
        free = [dim for dim in largest if dim in shorter and dim not in stay and not shorter[dim] % 2]
        free = [dim for dim in free if dim not in rows or shorter[dim] >= 2 * _SHORTEST_ROW]
        if not free:
            break
        shorter[min(free, key=lambda dim: dim in rows)] //= 2
    return shorter
