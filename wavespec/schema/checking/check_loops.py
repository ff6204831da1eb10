"""A spec without other mistakes goes in; the loop whose body makes something else of other tiles comes out.

Tiles are no part of what is computed. So a few small inputs go through the graph twice: with one tile of each dim, and
with several. What depends on numbers that are not known here, or has no value for these, is left alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import Assume, Tiling, Workgroup
from wavespec.schema.language.expressions import EvaluationError
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import AnyOp, Branch, Iterate, every
from wavespec.schema.resolve import complete_sizes, resolve_params

if TYPE_CHECKING:
    from wavespec.schema.checking.array_values import Array
    from wavespec.schema.checking.tiled_run import TiledRun

_STEPS = 4
"""Elements of a dim that a loop walks over, where nothing is promised of it."""
_LARGEST = 256
_OTHERS = ((2, 2), (2, 1), (1, 1), (_STEPS, _STEPS), (2 * _STEPS, 2 * _STEPS))
"""Elements of other dims, and of those of them that assumptions name; the first that keep all of these. Where the grid
counts the elements of a dim, one shows as much as several."""
_DRAWS = (1, 2)


class DependsOnTile(WavespecError, code="depends-on-tile"):
    def __init__(self, where: Where, dim: str, found: str, related: Sequence[Related]) -> None:
        super().__init__(
            where,
            f"What this makes depends on the tile of {quote(dim)}: {found}.",
            hints=[
                "Elements may be shared out among steps in any way: join all that a step has to what is carried, "
                "as '{sum: part, dim: DIM, init: total}' does. Steps that are part of what is computed are those of "
                "'repeat'."
            ],
            related=related,
            about=[dim],
        )


def check_loops(spec: KernelSpec) -> Iterator[WavespecError]:
    """The first loop of a spec without other mistakes whose body makes something else of other tiles."""
    if not any(every(Iterate, spec.graph)) or any(
        isinstance(one, Tiling) and (one.start or one.count) for one in spec.constraints
    ):
        return
    trial = _Trial.of(spec, plain_graph(spec)[0])
    if trial is not None and (found := trial.differs()) is not None:
        yield found


@dataclass(frozen=True, slots=True)
class _Difference:
    """An element of ``tensor`` that is ``first`` with one tile, and ``second`` with several."""

    tensor: str
    place: tuple[int, ...]
    first: float
    second: float
    carried: str = ""
    """`loop.name` of the first carried value that differs."""


@dataclass(frozen=True, slots=True)
class _Trial:
    spec: KernelSpec
    statements: Sequence[AnyOp]
    loops: Sequence[Iterate]
    sizes: Mapping[str, int]
    params: Mapping[str, int]
    tiles: Mapping[str, int]

    @classmethod
    def of(cls, spec: KernelSpec, statements: Sequence[AnyOp]) -> _Trial | None:
        """A trial of small sizes; none where none fit together, or leave nothing to share out."""
        loops = list(every(Iterate, statements))
        params = resolve_params(spec)
        walked = dict.fromkeys(loop.dim for loop in loops)
        sizes = _small_sizes(spec, params, walked)
        if sizes is None or max(sizes.values()) > _LARGEST:
            return None
        tiles = {dim: tile for dim in walked if (tile := _tile_of(sizes[dim]))}
        return cls(spec, statements, loops, sizes, params, tiles) if tiles else None

    def differs(self) -> WavespecError | None:
        """The loop that makes something else of tiles; none where one of the draws shows nothing."""
        from wavespec.schema.checking.array_values import Unknown

        found: _Difference | None = None
        for draw in _DRAWS:
            try:
                one = self._compared(draw, self.tiles)
            except Unknown:
                continue
            if one is None:
                return None
            found = found or one
        return None if found is None else self._error(found)

    def _compared(self, draw: int, tiles: Mapping[str, int]) -> _Difference | None:
        """What differs, wherever bounds of loops leave out steps and where they leave out none: inputs may have
        nothing where a bound leaves something out.

        Raises:
            Unknown: the numbers of the draw do not tell.
        """
        from wavespec.schema.checking.tiny_inputs import tiny_inputs, tiny_scalars

        inputs, scalars = tiny_inputs(self.spec, self.sizes, self.params, draw), tiny_scalars(self.spec)

        def run(tiles: Mapping[str, int], *, bounded: bool = False) -> TiledRun:
            from wavespec.schema.checking.tiled_run import TiledRun

            one = TiledRun(self.spec.tensors, self.sizes, self.params, inputs, scalars, tiles, bounded=bounded)
            one.run(self.statements)
            return one

        whole, bounded = run({}), run(tiles, bounded=True)
        found = _difference(whole, bounded)
        has_bounds = any(loop.start or loop.end for loop in self.loops) or any(every(Branch, self.statements))
        return _difference(whole, run(tiles)) if found and has_bounds else found

    def _error(self, found: _Difference) -> WavespecError:
        loop = self._blamed()
        place = f"[{', '.join(map(str, found.place))}]" if found.place else ""
        tile, size = self.tiles[loop.dim], self.sizes[loop.dim]
        text = f"{quote(found.tensor + place)} is {found.first:.4g} with one tile of {size}, "
        text += f"and {found.second:.4g} with tiles of {tile}"
        owner, _, name = found.carried.rpartition(".")
        last = [one for one in loop.body if getattr(one, "name", "") == name] if owner == loop.name else []
        span: Span | None = last[-1].key_span_of("name") if last else None
        related = [Related(span, "what is carried to the next step")] if span else []
        return DependsOnTile(loop.where("dim"), loop.dim, text, related)

    def _blamed(self) -> Iterate:
        """The loop whose dim makes the difference: the first one that makes none where it has one tile."""
        from wavespec.schema.checking.array_values import Unknown

        loops = [loop for loop in self.loops if loop.dim in self.tiles]
        for loop in loops if len({loop.dim for loop in loops}) > 1 else ():
            others = {dim: tile for dim, tile in self.tiles.items() if dim != loop.dim}
            try:
                if self._compared(_DRAWS[0], others) is None:
                    return loop
            except Unknown:
                continue
        return loops[0]


def _difference(whole: TiledRun, parted: TiledRun) -> _Difference | None:
    """
    Raises:
        Unknown: no element of a result is a number in both runs.
    """
    from wavespec.schema.checking.array_values import Unknown
    from wavespec.schema.checking.tiled_run import first_difference

    shown = False
    for name, array in whole.written.items():
        other = parted.written[name]
        place, is_known = first_difference(array, other)
        shown |= is_known
        if place is not None:
            differs = (end for end, (one, two) in _ends(whole, parted) if first_difference(one, two)[0] is not None)
            return _Difference(name, place, float(array[place]), float(other[place]), next(differs, ""))
    if not shown:
        raise Unknown
    return None


def _ends(whole: TiledRun, parted: TiledRun) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """What loops have made in both runs, of those that have the same elements."""
    for name, value in whole.ends.items():
        other = parted.ends.get(name)
        if other is not None and other.array.shape == value.array.shape:
            yield name, (value.array, other.along(value.dims))


def _small_sizes(spec: KernelSpec, params: Mapping[str, int], walked: Container[str]) -> dict[str, int] | None:
    """Sizes of all dims, and of integers that are passed, which keep what the spec promises; none where there are none
    among those that are tried."""
    ones = {one.dim for one in spec.constraints if isinstance(one, Workgroup) and str(one.tile) == "1"}
    given = {name: dim for name, dim in spec.dims.items() if dim.value is None and dim.equals is None}
    assumed = {name for one in spec.constraints if isinstance(one, Assume) for name in one.condition.names()}
    for others, related in _OTHERS:
        usual = {name: related if name in assumed else 1 if name in ones else others for name in given}
        sizes = {name: _STEPS if name in walked else size for name, size in usual.items()}
        for name, dim in given.items():
            size = max(sizes[name], dim.min) if dim.max is None else min(max(sizes[name], dim.min), dim.max)
            sizes[name] = -(-size // dim.multiple_of) * dim.multiple_of
        numbers = {name: _whole(spec, name) for name, scalar in spec.scalars.items() if not scalar.is_float}
        try:
            found = complete_sizes(spec, sizes | numbers)
        except ValueError:
            continue
        if all(found[name] > 0 for name in spec.dims) and _are_kept(spec, {**params, **found}):
            return {name: found[name] for name in spec.dims}
    return None


def _whole(spec: KernelSpec, name: str) -> int:
    """What an integer that is passed is here."""
    scalar = spec.scalars[name]
    least, most = scalar.limits
    return int(scalar.number) if scalar.number is not None else min(max(least, 1), most)


def _are_kept(spec: KernelSpec, known: Mapping[str, int]) -> bool:
    for one in spec.constraints:
        if isinstance(one, Assume):
            try:
                if not one.condition.evaluate(known):
                    return False
            except EvaluationError:  # of strides and alignment, which arrays here have none of
                continue
    return True


def _tile_of(size: int) -> int:
    """The largest part of a dim that divides it; 0 of one that has no parts."""
    return next((size // parts for parts in range(2, size + 1) if size % parts == 0), 0)
