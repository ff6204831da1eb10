"""A spec goes in; parameters and tiles without a sensible value on some target come out as errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.checking.check_orders import order_problem
from wavespec.schema.language.constraints import Assume, Device, Tiling, Wave, Workgroup
from wavespec.schema.language.models import KernelSpec, Override
from wavespec.schema.resolve import (
    NoConstantValue,
    evaluate_constant,
    fixed_dims,
    names_behind,
    resolve_params,
    spec_for_target,
    spec_with_override,
    targets_of,
)

_LARGEST_TILE = 2**20
_SMALL_TILE = 32  # what a matrix instruction may take whatever there is


class TileOutOfRange(WavespecError, code="tile-out-of-range"):
    def __init__(self, where: Where, dim: str, text: str, value: int, target: str | None) -> None:
        super().__init__(
            where,
            f"The tile of {quote(dim)} is {_equation(text, value)}{_on(target)}; "
            f"a tile has 1 to {_LARGEST_TILE} elements.",
        )


class TileNotDivisible(WavespecError, code="tile-not-divisible"):
    """The workgroup's tile is no multiple of the wave's; both with the text they were computed from."""

    def __init__(
        self,
        where: Where,
        dim: str,
        tile: tuple[str, int],
        wave: tuple[str, int],
        target: str | None,
        related: Sequence[Related] = (),
    ) -> None:
        divisors = [size for size in range(1, tile[1] + 1) if tile[1] % size == 0 and size % 16 == 0]
        super().__init__(
            where,
            f"The tile of {quote(dim)} has {tile[1]} elements{_on(target)}, not a multiple of a wave's {wave[1]}.",
            notes=[f"Workgroup: {_equation(*tile)}. Wave: {_equation(*wave)}."],
            hints=[f"A wave can have {', '.join(map(str, divisors[-4:]))}."] if divisors else [],
            related=related,
        )


class DeviceNotDivisible(WavespecError, code="device-not-divisible"):
    """A device's part is no multiple of a workgroup's tile."""

    def __init__(self, where: Where, dim: str, part: int, tile: int, related: Sequence[Related]) -> None:
        super().__init__(
            where,
            f"A device has {part} elements of {quote(dim)}, not a multiple of a workgroup's {tile}.",
            hints=[f"A device can have {max(tile, part // tile * tile)}."],
            related=related,
        )


class TileBeyondSize(WavespecError, code="tile-beyond-size", severity="warning"):
    def __init__(self, where: Where, dim: str, tile: int, largest: int, first: Span | None) -> None:
        super().__init__(
            where,
            f"Most of a tile of {tile} elements is beyond {quote(dim)}, which has at most {largest}.",
            hints=["Use a smaller tile."],
            related=[Related(first, "its size")] if first else [],
        )


class FalseAssumption(WavespecError, code="false-assumption"):
    def __init__(self, where: Where, text: str, values: str, target: str | None) -> None:
        super().__init__(where, f"{quote(text)} is false{_on(target)}.", notes=[values] if values else [])


def check_tiles(spec: KernelSpec, broken: frozenset[str]) -> Iterator[WavespecError]:
    """Problems of the kernel as written, then those that a target's overrides bring, at their lines."""
    known = dict(_Target(None, (), spec, broken).problems())
    yield from known.values()
    wanted = targets_of(spec)
    for name, settings in ((name, settings) for name, settings in spec.targets.items() if name in wanted):
        if not _is_known(settings, spec):
            continue
        plain = spec_for_target(spec, name)
        of_target = dict(_Target(name, (settings,), plain, broken).problems())
        yield from (error for key, error in of_target.items() if key not in known)
        for case in (case for case in settings.cases if _is_known(case, spec)):
            of_case = dict(_Target(name, (case, settings), spec_with_override(plain, case), broken).problems())
            yield from (error for key, error in of_case.items() if key not in known and key not in of_target)


def _is_known(settings: Override, spec: KernelSpec) -> bool:
    """Whether all was read that settings are to replace; else that is reported, and still there."""
    return settings.is_read and settings.params.keys() <= spec.params.keys()


class _Target:
    """The tiles of the kernel on one target, or in a case of it; `name` is `None` for the kernel as written.

    `overrides` are what the spec was merged from, the one that counts most first.
    """

    def __init__(
        self, name: str | None, overrides: tuple[Override, ...], spec: KernelSpec, broken: frozenset[str]
    ) -> None:
        self.name = name
        self.overrides = overrides
        self.spec = spec
        self.broken = broken

    def problems(self) -> Iterator[tuple[object, WavespecError]]:
        """Errors, each with a key that is equal for the same problem on another target."""
        values = dict(fixed_dims(self.spec))
        try:
            values |= resolve_params(self.spec)
        except WavespecError as error:
            if not self._is_known(error):
                yield str(error), error
            return
        tiles: dict[tuple[str, str], tuple[str, int]] = {}
        for constraint in self.spec.constraints:
            if isinstance(constraint, Assume):
                yield from self._assumption(constraint, values)
            if not isinstance(constraint, Workgroup | Tiling | Wave | Device):
                continue
            text, where = str(constraint.tile), constraint.where("tile")
            try:
                value = evaluate_constant(self.spec, constraint.tile, where, values)
            except WavespecError as error:
                if not self._is_known(error):
                    yield (text, error.args), self._blamed(error, constraint.tile.names())
                continue
            if isinstance(value, bool):
                message = f"{quote(text)} is a condition; a tile is a number of elements."
                yield text, NoConstantValue(where, message)
                continue
            if not 1 <= value <= _LARGEST_TILE:
                place = self._override_of(constraint.tile.names()) or where
                error = TileOutOfRange(place, constraint.dim, text, value, self.name)
                yield (constraint.word, constraint.dim, value), error
                continue
            tiles[constraint.word, constraint.dim] = (text, value)
            yield from self._beyond(constraint, value)
            if isinstance(constraint, Workgroup) and constraint.order is not None and constraint.dim in self.spec.dims:
                yield from self._order(constraint, value, values)
        yield from self._divisibility(tiles)

    def _beyond(
        self, constraint: Workgroup | Tiling | Wave | Device, value: int
    ) -> Iterator[tuple[object, WavespecError]]:
        dim = None if self.spec.is_planned else self.spec.dims.get(constraint.dim)
        largest = dim and (dim.max if dim.value is None else dim.value)
        if largest is not None and value >= 2 * max(largest, _SMALL_TILE):
            place = self._override_of(constraint.tile.names()) or constraint.where("tile")
            first = self.spec.span_of("dims", constraint.dim)
            key = (constraint.word, constraint.dim, value, "beyond")
            yield key, TileBeyondSize(place, constraint.dim, value, largest, first)

    def _order(
        self, constraint: Workgroup, tile: int, values: Mapping[str, int]
    ) -> Iterator[tuple[object, WavespecError]]:
        error = order_problem(self.spec, constraint, tile, values)
        if error is not None and not self._is_known(error):
            yield ("order", constraint.dim, str(constraint.order)), error

    def _divisibility(self, tiles: Mapping[tuple[str, str], tuple[str, int]]) -> Iterator[tuple[object, WavespecError]]:
        for constraint in self.spec.constraints:
            if not isinstance(constraint, Wave) or ("wave", constraint.dim) not in tiles:
                continue
            wave = tiles["wave", constraint.dim]
            tile = tiles.get(("workgroup", constraint.dim)) or tiles.get(("tiling", constraint.dim))
            if tile is None or tile[1] % wave[1] == 0:
                continue
            names = [*constraint.tile.names()]
            for other in self.spec.constraints:
                if isinstance(other, Workgroup | Tiling) and other.dim == constraint.dim:
                    names += other.tile.names()
            place = self._override_of(tuple(names)) or constraint.where("tile")
            related = self._tile_of(constraint.dim)
            yield (constraint.dim, tile, wave), TileNotDivisible(place, constraint.dim, tile, wave, self.name, related)
        for constraint in self.spec.constraints:
            if not isinstance(constraint, Device) or ("device", constraint.dim) not in tiles:
                continue
            part, tile = tiles["device", constraint.dim][1], tiles.get(("workgroup", constraint.dim))
            if tile is not None and part % tile[1]:
                place = self._override_of(constraint.tile.names()) or constraint.where("tile")
                related = self._tile_of(constraint.dim)
                yield (constraint, part, tile), DeviceNotDivisible(place, constraint.dim, part, tile[1], related)

    def _tile_of(self, dim: str) -> list[Related]:
        """The line that gives a workgroup, or a step, its tile of a dim."""
        split = (one for one in self.spec.constraints if isinstance(one, Workgroup | Tiling) and one.dim == dim)
        return [Related(span, "the tile") for one in split if (span := one.span_of("tile"))]

    def _assumption(self, assume: Assume, values: Mapping[str, int]) -> Iterator[tuple[object, WavespecError]]:
        names = assume.condition.names()
        if not assume.condition.is_condition or any(name not in values for name in names):
            return
        where = assume.where("condition")
        text = str(assume.condition)
        try:
            holds = evaluate_constant(self.spec, assume.condition, where, values)
        except WavespecError as error:
            yield (text, error.args), self._blamed(error, names)
            return
        if not holds:
            bound = ", ".join(f"{name} = {values[name]}" for name in names)
            yield (text, bound), FalseAssumption(self._override_of(names) or where, text, bound, self.name)

    def _is_known(self, error: WavespecError) -> bool:
        # The name's definition was reported: 'undefined' would be a second report of one mistake.
        return any(not self.broken.isdisjoint(diagnostic.about) for diagnostic in error.diagnostics)

    def _blamed(self, error: WavespecError, names: tuple[str, ...]) -> WavespecError:
        place = self._override_of(names)
        if place is None:
            return error
        (diagnostic,) = error.diagnostics
        message = f"{diagnostic.message.removesuffix('.')}{_on(self.name)}."
        return NoConstantValue(place, message, notes=diagnostic.notes, hints=diagnostic.hints)

    def _override_of(self, names: tuple[str, ...]) -> Where:
        """Where the target, or the case, overrides a parameter that a value made of `names` depends on."""
        reached = names_behind(self.spec, names)
        settled = [over for over in self.overrides if reached & over.params.keys()]
        places = [over.where("params", name) for over in settled[:1] for name in over.params if name in reached]
        if not places or isinstance(places[0], str):
            return f"targets.{self.name}.{places[0]}" if places else None
        return min(
            places,
            key=lambda place: (place.line, place.column) if place and not isinstance(place, str) else (0, 0),
        )


def _equation(text: str, value: int) -> str:
    return text if text == str(value) else f"{text} = {value}"


def _on(target: str | None) -> str:
    return f" on {quote(target)}" if target else ""
