"""Where every element of a tile lives: in the registers of lanes (`Layout`) or in a staged memory (`Arrangement`).

One formula serves every machine: ``coordinate[dim] = base[dim](wave, lane) + Σ registerᵢ · strideᵢ[dim]``.  MFMA and
``mma.sync`` fragments, ``wgmma`` accumulators, a CPU register tile and a 16-byte coalesced load are all instances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from wavespec.ir.expr import Expr, as_expr, total
from wavespec.ir.names import name_text
from wavespec.ir.nodes import node, replace

_SLAB_BYTES, _CHUNK_BYTES = 128, 16


@node
class RegisterAxis:
    """``extent`` registers; each step moves ``strides[dim]`` elements along every named dim."""

    extent: int
    strides: tuple[tuple[str, int], ...]

    def stride(self, dim: str) -> int:
        """Elements moved along ``dim`` by one step."""
        return dict(self.strides).get(dim, 0)


@node
class Layout:
    """The distribution of one tile over waves, lanes and registers.

    ``axes`` run from the slowest to the fastest register.  The last ``inner`` axes form one *fragment*, the value
    that one instruction takes or makes; the axes before them repeat the fragment.
    """

    base: tuple[tuple[str, Expr], ...]
    axes: tuple[RegisterAxis, ...]
    inner: int

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dim for dim, _ in self.base)

    @property
    def elements(self) -> int:
        """Elements that one lane holds."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def repeats(self) -> tuple[RegisterAxis, ...]:
        """The axes that repeat the fragment."""
        return self.axes[: len(self.axes) - self.inner]

    @property
    def fragment_elements(self) -> int:
        """Elements of one fragment."""
        return math.prod(axis.extent for axis in self.axes[len(self.axes) - self.inner :])

    def base_of(self, dim: str) -> Expr:
        """The part of the coordinate along ``dim`` that does not depend on the register."""
        return dict(self.base)[dim]

    def register_offsets(self, every: int = 1) -> tuple[Mapping[str, int], ...]:
        """For every register, or the first of ``every`` some, in order, its displacement along each dim."""
        return _register_offsets(self.dims, self.axes)[::every]

    def coordinates(self, every: int = 1) -> tuple[Mapping[str, Expr], ...]:
        """For every register, or the first of ``every`` some, in order, its coordinate along each dim."""
        return _coordinates(self.base, self.axes, every)

    def run_length(self, dim: str) -> int:
        """How many consecutive registers are consecutive along ``dim`` and equal in every other dim."""
        run = 1
        for axis in reversed(self.axes):
            if axis.extent > 1 and axis.strides != ((dim, run),):
                break
            run *= axis.extent
        return run

    def repeated(self, dim: str, count: int, stride: int) -> Layout:
        """The layout repeated ``count`` times along ``dim``, every ``stride`` elements; the new axis is the last
        repeat."""
        at = len(self.axes) - self.inner
        axis = RegisterAxis(count, ((dim, stride),))
        return replace(self, axes=(*self.axes[:at], axis, *self.axes[at:]))

    def projected(self, dims: Sequence[str]) -> Layout:
        """The layout of a tile with only some of the dims: each lane holds a value once per coordinate it has there."""
        kept = [tuple((d, s) for d, s in axis.strides if d in dims) for axis in self.axes]
        axes = tuple(
            RegisterAxis(axis.extent, strides) for axis, strides in zip(self.axes, kept, strict=True) if strides
        )
        inner = sum(1 for strides in kept[len(kept) - self.inner :] if strides)
        return Layout(tuple((dim, self.base_of(dim)) for dim in dims), axes, inner)

    def of_first(self, dim: str) -> Layout:
        """The same of the first element that each lane has along ``dim``."""
        kept = [not axis.stride(dim) for axis in self.axes]
        axes = tuple(axis for axis, is_kept in zip(self.axes, kept, strict=True) if is_kept)
        return Layout(self.base, axes, sum(kept[len(self.repeats) :]))

    def shifted(self, offsets: Mapping[str, Expr | int]) -> Layout:
        """The layout moved by ``offsets`` along the named dims."""
        return replace(self, base=tuple((dim, expr + as_expr(offsets.get(dim, 0))) for dim, expr in self.base))

    def renamed(self, names: Mapping[str, str]) -> Layout:
        """The layout with its dims renamed (``m`` of an instruction becomes ``M`` of a kernel)."""
        base = tuple((names[dim], expr) for dim, expr in self.base)
        axes = tuple(replace(axis, strides=tuple((names[d], s) for d, s in axis.strides)) for axis in self.axes)
        return replace(self, base=base, axes=axes)

    def __str__(self) -> str:
        base = ", ".join(f"{name_text(dim)} = {expr}" for dim, expr in self.base)
        outer, inner = self.repeats, self.axes[len(self.axes) - self.inner :]
        return f"{{{base}; {_axes_text(outer)} | {_axes_text(inner)}}}"


# Every operation on a tile asks where its elements are, and most tiles of a kernel lie alike.
@lru_cache(maxsize=1 << 7)
def _register_offsets(dims: tuple[str, ...], axes: tuple[RegisterAxis, ...]) -> tuple[Mapping[str, int], ...]:
    places = [dict.fromkeys(dims, 0)]
    for axis in axes:
        steps = [[(dim, digit * stride) for dim, stride in axis.strides] for digit in range(axis.extent)]
        places = [_moved(place, step) for place in places for step in steps]
    return tuple(places)


def _moved(place: dict[str, int], step: list[tuple[str, int]]) -> dict[str, int]:
    moved = place.copy()
    for dim, by in step:
        moved[dim] += by
    return moved


@lru_cache(maxsize=1 << 7)
def _coordinates(
    base: tuple[tuple[str, Expr], ...], axes: tuple[RegisterAxis, ...], every: int
) -> tuple[Mapping[str, Expr], ...]:
    offsets = _register_offsets(tuple([dim for dim, _ in base]), axes)[::every]
    along = {dim: {offset: start + offset for offset in {place[dim] for place in offsets}} for dim, start in base}
    return tuple([{dim: along[dim][offset] for dim, offset in place.items()} for place in offsets])


def _axes_text(axes: tuple[RegisterAxis, ...]) -> str:
    return ", ".join(f"{axis.extent} by " + " ".join(f"{name_text(d)} {s}" for d, s in axis.strides) for axis in axes)


def spread(
    dims: tuple[str, str], extents: tuple[int, int], width: int, thread: Expr, threads: int, columns: int = 0
) -> Layout:
    """Rows of a tile over the lanes of a workgroup, ``width`` elements a lane at once: neighbours take neighbours.

    Where the tile is no multiple of what all lanes take, some reach beyond it.  ``columns``: so many lanes take a row
    together, in several turns; 0: as many as it has room for.
    """
    (row, column), (height, depth) = dims, extents
    per_row = depth // width
    columns = columns or min(per_row, threads)
    rows_at_once = max(1, threads // columns)
    base = ((row, thread // columns), (column, thread % columns * width))
    layout = Layout(base, (RegisterAxis(width, ((column, 1),)),), 1)
    layout = layout.repeated(column, -(-per_row // columns), columns * width)
    return layout.repeated(row, -(-height // rows_at_once), rows_at_once)


def widest_spread(extents: tuple[int, int], widest: int, threads: int) -> int:
    """The most elements, at most ``widest``, that lanes can take at once so that `spread`, with `lanes_of_row`, gives
    every element to one of them; 0 where that is not possible."""
    height, depth = extents
    width = 1 << widest.bit_length() - 1
    while width:
        if not depth % width and not height % (threads // lanes_of_row(depth // width, threads)):
            return width
        width //= 2
    return 0


def lanes_of_row(per_row: int, threads: int) -> int:
    """How many lanes share the ``per_row`` parts of a row so that no lane is left over: all of them, or as many as
    divide both."""
    columns = min(per_row, threads)
    return columns if not per_row % columns and not threads % columns else math.gcd(per_row, threads)


@node
class Swizzle:
    """Spreads the rows of a staged tile over the banks: chunk index ``c`` becomes ``c ^ (row // period % width)``.

    ``chunk`` is in elements; ``width`` chunks make one row segment.  With ``fold`` = 2 the next ``period * width`` rows
    take the chunks in pairs the other way round, which tells them apart where a pass over the banks is twice as long.
    With ``turn``, lanes store rows that are so many apart: those are told apart as neighbours are.
    """

    row: str
    column: str
    chunk: int
    width: int
    period: int
    fold: int = 1
    turn: int = 0

    def __str__(self) -> str:
        fold = f" fold {self.fold}" if self.fold != 1 else ""
        turn = f" turn {self.turn}" if self.turn else ""
        column, row = name_text(self.column), name_text(self.row)
        return f"swizzle {column} {self.chunk} x {self.width} by {row}//{self.period}{fold}{turn}"


@node
class Digit:
    """``extent`` steps of ``step`` elements along ``dim``, ``stride`` elements apart in memory."""

    dim: str
    extent: int
    step: int
    stride: int


@node
class Arrangement:
    """How a staged tile lies in memory: mixed-radix digits of its coordinates, each with a stride.

    Rows with padding, packed panels and k-interleaved panels differ only in their digits.
    """

    digits: tuple[Digit, ...]
    swizzle: Swizzle | None = None

    @property
    def elements(self) -> int:
        """Elements that the staged tile occupies, padding included."""
        return 1 + sum((digit.extent - 1) * digit.stride for digit in self.digits)

    def renamed(self, names: Mapping[str, str]) -> Arrangement:
        """The same of a tile whose dims have other names."""
        digits = tuple(replace(digit, dim=names[digit.dim]) for digit in self.digits)
        swizzle = self.swizzle
        if swizzle is not None:
            swizzle = replace(swizzle, row=names[swizzle.row], column=names[swizzle.column])
        return Arrangement(digits, swizzle)

    def run(self, dim: str) -> int:
        """How many consecutive coordinates along ``dim`` are consecutive in memory."""
        run = next((digit.extent for digit in self.digits if digit.dim == dim and digit.stride == digit.step == 1), 1)
        return min(run, self.swizzle.chunk) if self.swizzle and self.swizzle.column == dim else run

    def offset(self, coordinates: Mapping[str, Expr]) -> Expr:
        """Element offset of a coordinate inside the staged tile."""
        parts: list[tuple[Expr, int]] = []
        for dim in dict.fromkeys([digit.dim for digit in self.digits]):
            ones = coordinate = coordinates[dim]
            if self.swizzle and dim == self.swizzle.column:
                ones = self.swizzled(coordinate, coordinates[self.swizzle.row])
            parts.append((_offset_along(dim, self.digits, coordinate, ones), 1))
        return total(parts)

    def swizzled(self, column: Expr, row: Expr) -> Expr:
        """Where in its row the swizzle puts a column; what lies there is the column that it puts here."""
        assert self.swizzle is not None
        swizzle, chunk = self.swizzle, self.swizzle.chunk
        place = (column // chunk) ^ (row // swizzle.period % swizzle.width)
        if swizzle.fold > 1:
            place = place ^ (row // (swizzle.period * swizzle.width) % swizzle.fold)
        if swizzle.turn > 1:
            place = place ^ (row // swizzle.turn % swizzle.width)
        return place * chunk + column % chunk

    def __str__(self) -> str:
        digits = ", ".join(f"{name_text(d.dim)}/{d.step}: {d.extent} by {d.stride}" for d in self.digits)
        return f"[{digits}; {self.swizzle}]" if self.swizzle else f"[{digits}]"


# Elements of a tile share their coordinates along each of its dims.
@lru_cache(maxsize=1 << 12)
def _offset_along(dim: str, digits: tuple[Digit, ...], coordinate: Expr, ones: Expr) -> Expr:
    """What a coordinate adds to the offset; ``ones``: the same as digits of single steps see it."""
    own = [digit for digit in digits if digit.dim == dim]
    largest = max(digit.step * digit.extent for digit in own)
    parts: list[tuple[Expr, int]] = []
    for digit in own:
        value = (ones if digit.step == 1 else coordinate) // digit.step
        parts.append((value % digit.extent if digit.step * digit.extent < largest else value, digit.stride))
    return total(parts)


def row_major(dims: tuple[str, ...], extents: tuple[int, ...], padding: int = 0) -> Arrangement:
    """Rows one after another, the last dim contiguous, ``padding`` unused elements after every row."""
    digits: list[Digit] = []
    stride = 1
    for position, (dim, extent) in enumerate(reversed(list(zip(dims, extents, strict=True)))):
        digits.append(Digit(dim, extent, 1, stride))
        stride = stride * extent + (padding if position == 0 else 0)
    return Arrangement(tuple(reversed(digits)))


def panels(dim: str, extent: int, block: int, depth_dim: str, depth: int, depth_block: int) -> Arrangement:
    """Packed panels ``[extent/block][depth/depth_block][block][depth_block]``: what a register tile reads in order."""
    digits = [
        Digit(dim, extent // block, block, depth * block),
        Digit(depth_dim, depth // depth_block, depth_block, block * depth_block),
        Digit(dim, block, 1, depth_block),
        Digit(depth_dim, depth_block, 1, 1),
    ]
    return Arrangement(tuple(digit for digit in digits if digit.extent > 1))


def swizzled_slabs(dims: tuple[str, str], extents: tuple[int, int], element_bits: int) -> Arrangement:
    """Slabs of rows of up to 128 bytes, one slab after another, each swizzled the way copy engines and matrix units
    of whole tiles do it: the 16-byte chunk of an address is XORed with its bits 7 to 9
    (https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-swizzling-modes)."""
    (row, column), (height, width) = dims, extents
    row_bytes = min(_SLAB_BYTES, width * element_bits // 8)
    slab, chunk = row_bytes * 8 // element_bits, _CHUNK_BYTES * 8 // element_bits
    digits = (Digit(column, width // slab, slab, height * slab), Digit(row, height, 1, slab), Digit(column, slab, 1, 1))
    swizzle = Swizzle(row, column, chunk, row_bytes // _CHUNK_BYTES, _SLAB_BYTES // row_bytes)
    swizzles = swizzle.width > 1 and height > 1  # a single row is where it is
    return Arrangement(tuple(d for d in digits if d.extent > 1), swizzle if swizzles else None)
