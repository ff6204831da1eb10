"""An entry of a table of plans goes in; tiles that all values and staged operands have room for come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.plans.roles import Roles
from wavespec.targets.names import WIDEST_BITS

_LEAST_TILE = 16
"""Of a product along a side, and along what is summed."""
_NARROW = 64
"""Columns that several products beside each other still have each."""
_LEAST_STEP_BITS = 256
"""Along the steps of products: of the elements that a matrix instruction multiplies at a time."""
_WIDE = 64
_LANES = "lanes"
_LEAST_OF_LANES = 4
"""Along the steps of products of lanes whose columns are joined."""
_LANE_WORDS = 256
"""Of the registers of a lane: as many are more than it has."""
_WORD = 32
_NUMBERS_OF_WAVES = (1, 2, 4, 8, 16, 32)
"""That the compiler may choose, where the table says nothing of them."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Elements of a tile and of a wave, by dim, each with the name of a parameter; dims without have one element."""

    tiles: Mapping[str, int]
    waves: Mapping[str, int]
    names: Mapping[str, str]
    """Of dims, without what they name."""
    schedule: Mapping[str, Any] | None
    have_room: bool
    """Whether they are as small as the largest value of a kernel that joins what it multiplies needs them."""
    are_smaller: bool
    """Whether they have less than the table says."""

    @property
    def params(self) -> dict[str, int]:
        tiles = {f"TILE_{self.names[dim]}": number for dim, number in self.tiles.items()}
        return tiles | {f"WAVE_{self.names[dim]}": number for dim, number in self.waves.items()}

    def has(self, dim: str) -> bool:
        return dim in self.tiles

    def tile(self, dim: str) -> Expression:
        return parse_expression(f"TILE_{self.names[dim]}" if dim in self.tiles else "1")

    def wave(self, dim: str) -> Expression:
        return parse_expression(f"WAVE_{self.names[dim]}")


def has_producers(entry: Mapping[str, Any]) -> bool:
    """Whether waves only copy, which they do step by step of a loop: not for products behind it."""
    return "producers" in entry.get("schedule", {}).get("waves", {})


def takes_columns_for_rows(entry: Mapping[str, Any]) -> bool:
    """Whether a matrix unit that reads its operands itself, 64 rows of one of them, has other rows than those."""
    rows = entry.get("wave", {}).get("rows", _WIDE)
    return has_producers(entry) and isinstance(rows, int) and rows % _WIDE != 0


def tiles_of(
    spec: KernelSpec,
    roles: Roles,
    entry: Mapping[str, Any],
    limits: Mapping[str, Any],
    in_dims: Callable[[object], str],
) -> Tiles:
    """The tiles of an entry for one spec.

    Args:
        limits: of the target: `words` of 32 bits that a workgroup has for a value, `ordered` ones where lanes join them
            in order, `short` ones that a wave has where dims are in no loop, those of a `register`, and bytes of
            `shared` memory.
        in_dims: an expression of the table in terms of the spec.
    """
    fitted = _Fitted(spec, roles, entry, limits, in_dims)
    tiles = fitted.tiles()
    split = {dim: number for dim, number in fitted.numbers("tile").items() if dim not in fitted.taps}
    written = {dim: number for dim, number in split.items() if tiles[dim] < number}
    # Where tiles have less than the table says, waves are the compiler's to choose.
    is_own = bool(roles.products) or not written or not limits["lanes"]
    waves = fitted.waves(tiles) if is_own and not (roles.joined and not has_producers(entry)) else {}
    tiles, waves = fitted.of_short_dims(tiles, waves)
    names = {dim: "".join(part if part.isalnum() else "_" for part in dim) for dim in tiles}
    names = {dim: free_name(spec, f"TILE_{name}").removeprefix("TILE_") for dim, name in names.items()}
    return Tiles(tiles, waves, names, fitted.schedule(tiles), fitted.has_room(tiles), bool(written))


@dataclass(frozen=True, slots=True)
class _Fitted:
    spec: KernelSpec
    roles: Roles
    entry: Mapping[str, Any]
    limits: Mapping[str, Any]
    in_dims: Callable[[object], str]

    @property
    def taps(self) -> tuple[str, ...]:
        """Dims of windows, which no waves share out."""
        return self.roles.steps if self.roles.kind == "windows" else ()

    def numbers(self, what: str) -> dict[str, int]:
        """Those of the table by dim."""
        written = self.entry.get(what, {})
        return {
            dim: int(parse_expression(self.in_dims(written[role])).evaluate({}))
            for role, dim in self._roles()
            if role in written
        }

    def _beside(self) -> dict[str, int]:
        """Tiles of the table, where several products beside each other share out the columns."""
        found, columns, parts = self.numbers("tile"), self.roles.columns, self.roles.products
        if not has_producers(self.entry):  # which have registers for few columns more
            parts += self.roles.narrow
        if self.roles.after:  # what is summed is handed on to them
            found |= {dim: min(found[dim], _WIDE) for dim in (self.roles.rows, columns) if dim in found}
        if parts > 1 and columns in found:
            found[columns] = max(min(found[columns], _NARROW), found[columns] >> (parts - 1).bit_length())
        return found

    def waves(self, tiles: Mapping[str, int]) -> dict[str, int]:
        """Those of the table, and as many of them along columns that are shared out."""
        written, beside = self.numbers("tile"), self._beside()
        found = {dim: min(number, tiles[dim]) for dim, number in self.numbers("wave").items()}
        if (columns := self.roles.columns) in found and beside[columns] < written[columns]:
            shared_out = self.numbers("wave")[columns] * beside[columns] // written[columns]
            found[columns] = max(_LEAST_TILE, min(shared_out, found[columns]))
        return found

    def _roles(self) -> Iterator[tuple[str, str]]:
        roles = self.roles
        yield from (
            (role, dim) for role in ("rows", "columns", "lines", "batch", "walked") if (dim := roles.dim_of(role))
        )
        yield from (("steps", dim) for dim in roles.steps)
        yield from (("whole", dim) for dim in roles.whole if dim not in roles.fixed)

    def tiles(self) -> dict[str, int]:
        found = {dim: min(number, self._most(dim) or number) for dim, number in self._beside().items()}
        for dim in self.roles.whole:
            most = self._most(dim)
            if dim not in self.roles.fixed and dim not in found and most is not None:
                found[dim] = most
        if self.limits["lanes"]:
            found |= self._of_joined_sizes() | self._of_large_sizes(found)
        return self._with_room({dim: 1 if dim in self.roles.uniform else number for dim, number in found.items()})

    def _of_joined_sizes(self) -> dict[str, int]:
        """Tiles of columns that have one size and are joined, where that is no whole number of instructions."""
        roles, found = self.roles, dict[str, int]()
        columns = {dim for dims, _ in roles.staged for dim in dims} if roles.joined else set[str]()
        for dim in columns.intersection(roles.whole, roles.fixed):
            least = _WIDE if self._takes_columns_for_rows() else _LEAST_TILE
            if self.entry.get("mma"):
                least = int(self.entry["wave"]["columns"])
            if roles.fixed[dim] % least:
                found[dim] = -(-roles.fixed[dim] // least) * least
        return found

    def _of_large_sizes(self, tiles: Mapping[str, int]) -> dict[str, int]:
        """Tiles of all of a dim that has one size, so that waves can share it out: where one wave has no registers for
        all that a value has of such dims."""
        roles = self.roles
        whole = {dim: size for dim in roles.whole if (size := roles.fixed.get(dim))}
        most: int = self.limits["lanes"] * _LANE_WORDS // 2
        if roles.products or self._words({**dict.fromkeys(tiles, 1), **whole}) <= most:
            return {}
        return {dim: size for dim, size in whole.items() if dim not in (roles.rows, roles.columns, *roles.alone)}

    def _with_room(self, tiles: Mapping[str, int]) -> dict[str, int]:
        """Smaller ones where operands, or the largest value of a kernel without a loop of products, have no room."""
        found, roles = dict(tiles), self.roles
        if roles.products:
            while self._staged(found) > self._shared_bytes(found) and (dim := self._widest(found)):
                found[dim] //= 2
        if roles.joined:
            return self._with_room_for_joined(found) if self.limits["lanes"] else found
        if roles.products and roles.steps:
            return found
        is_short = roles.ordered or (roles.along and roles.kind == "elements" and self.limits["lanes"])
        words = self.entry.get("words") or self.limits["ordered" if is_short else "words"]
        least = self.numbers("wave") if roles.products else {}
        for dim in (roles.rows, roles.columns, *roles.steps):
            while found.get(dim, 1) > least.get(dim, 1) and self._words(found, dim) > words:
                found[dim] = -(-found[dim] // 2)
        return found

    def _with_room_for_joined(self, tiles: Mapping[str, int]) -> dict[str, int]:
        """Smaller ones where products whose columns a workgroup joins, or what is made of each row then, have no room:
        the longer side first. Waves that multiply together have all rows of the table."""
        found, roles = dict(tiles), self.roles
        least = self.numbers("wave").get(roles.rows, 1) if has_producers(self.entry) else _LEAST_TILE
        while self._words(found) > self.limits["words"]:
            dims, _ = max(self._values(found), key=lambda one: one[1])
            sides = [dim for dim in (roles.columns, roles.rows) if dim in dims and dim in found]
            sides = [dim for dim in sides if found[dim] > (least if dim == roles.rows else 1)]
            if not sides:
                break
            longest = max(sides, key=lambda dim: found[dim])
            found[longest] = -(-found[longest] // 2)
        if self.entry.get("mma") == _LANES:  # operands are in registers, those of columns in each wave of rows
            width = max(roles.bits, _WORD)  # as lanes multiply them
            while (
                self._staged(found) * 8 // roles.bits * width // _WORD > self.limits["words"] // 2
                and found[roles.steps[0]] > _LEAST_OF_LANES
            ):
                found[roles.steps[0]] //= 2
        return found

    def has_room(self, tiles: Mapping[str, int]) -> bool:
        """Whether a workgroup has room for its largest value, of a kernel that joins what it multiplies, and a wave for
        the rows of an instruction of lanes."""
        if not self.roles.joined:
            return True
        if self.entry.get("mma") not in (None, _LANES) and not has_producers(self.entry):
            rows = min(_LEAST_TILE, tiles.get(self.roles.rows, 1))
            if self._words({**tiles, self.roles.rows: rows}) >= self.limits["lanes"] * _LANE_WORDS:
                return False
        return self._words(tiles) <= self.limits["words"]

    def of_short_dims(
        self, tiles: Mapping[str, int], waves: Mapping[str, int]
    ) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Tiles and waves with at most `short` words of a value that has all of a dim, on machines that say so, or as
        many as the entry says: what is beyond registers goes to memory and back, element by element of a step. Those
        that lie side by side fill one."""
        roles, most, step = self.roles, self.entry.get("short", self.limits.get("short")), dict(tiles)
        if most is None or roles.products or roles.ordered or not roles.whole:
            return tiles, waves
        # A wave has all of the tile along a dim that has no wave.
        wave = {dim: waves.get(dim, step[dim]) for dim in (roles.rows, roles.columns) if dim in step}
        read = [one for one in self.spec.tensors.values() if one.role != "output"]
        is_along = any(one.shape[-1:] == (roles.columns,) for one in read)
        least = {roles.columns: self.limits["register"]} if is_along else {}
        for part, dims in ((step, roles.steps), (wave, (roles.columns, roles.rows))):
            for dim in dims:
                while part.get(dim, 1) > least.get(dim, 1) and self._words({**step, **wave}) > most:
                    part[dim] = -(-part[dim] // 2)
        return step, {dim: number for dim, number in wave.items() if dim in waves or number < step[dim]}

    def _widest(self, tiles: Mapping[str, int]) -> str:
        """The dim to halve for less shared memory: steps first."""
        for dim in (*self.roles.steps, self.roles.columns, self.roles.rows):
            if dim in tiles and tiles[dim] >= 2 * _LEAST_TILE:
                return dim
        return ""

    def _words(self, tiles: Mapping[str, int], dim: str = "") -> int:
        """Of the largest value, or of the largest one with a dim."""
        return max((words for dims, words in self._values(tiles) if not dim or dim in dims), default=0)

    def _values(self, tiles: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], int]]:
        """Their dims and words. Of what products sum over, those that join have no more than a step of an operand."""
        left_out = {*self.roles.steps} if self.roles.joined else set[str]()
        for dims, bits in self.roles.values:
            if left_out.isdisjoint(dims):
                yield dims, prod(self._extent(dim, tiles) for dim in dims) * bits // _WORD

    def _extent(self, dim: str, tiles: Mapping[str, int]) -> int:
        return tiles[dim] if dim in tiles else self.roles.fixed.get(dim, 1)

    def _most(self, dim: str) -> int | None:
        """Elements that a tile of a dim needs at most, if that is known."""
        if dim in self.taps:
            return self.roles.fixed.get(dim)
        size = self.roles.fixed.get(dim, self.spec.dims[dim].max)
        block = self.roles.block if dim in self.roles.steps else 0
        least = _LEAST_TILE
        if self.entry.get("mma") and dim in (self.roles.rows, self.roles.columns):  # as many as that has
            least = self.numbers("wave").get(dim, least)
        elif dim == self.roles.columns and self._takes_columns_for_rows():
            least = _WIDE
        elif self.roles.products and dim in self.roles.steps:
            least = max(least, _LEAST_STEP_BITS // self.roles.bits)
        sizes = [*([block] if block else ()), *([] if size is None else [max(_rounded(size), least)])]
        return min(sizes, default=None)

    def _takes_columns_for_rows(self) -> bool:
        """Whether a matrix unit that reads its operands itself, 64 rows of one of them, has other rows than those."""
        return has_producers(self.entry) and self.numbers("wave").get(self.roles.rows, _WIDE) % _WIDE != 0

    def _shared_bytes(self, tiles: Mapping[str, int]) -> int:
        """For staged tiles: what lanes hand on behind the loop, where they join columns, has a fourth, and where they
        repeat it along dims that products do not have, what it takes of all that there is."""
        bytes_of_all: int = self.entry.get("room", self.limits["shared"])
        if self.limits["lanes"] and (values := self.roles.handed_on):
            handed_on = sum(prod(self._extent(dim, tiles) for dim in dims) * bits // 8 for dims, bits in values)
            bytes_of_all = min(bytes_of_all, self.limits["memory"] - handed_on)
        if self.roles.behind and has_producers(self.entry):  # and what products behind the loop take
            return bytes_of_all * 3 // 4
        return bytes_of_all * 3 // 4 if self.roles.joined and self.limits["lanes"] else bytes_of_all

    def _are_shared_out(self, tiles: Mapping[str, int]) -> bool:
        """Whether lanes that compute can copy tiles of joined columns meanwhile: each as much as any other."""
        if not self.roles.joined or has_producers(self.entry):
            return True
        extents = [self._extent(dim, tiles) for dims, _ in self.roles.staged for dim in dims]
        return all(extent & (extent - 1) == 0 for extent in extents)

    def _are_copied_alike(self, tiles: Mapping[str, int]) -> bool:
        """Whether all lanes have a widest access of each tile of a step, or of none: loads are not mixed with copies
        that run on while others compute."""
        roles = self.roles
        if roles.kind != "attention" or not self.entry.get("aligned") or has_producers(self.entry):
            return True
        along = self.waves(tiles)
        waves = [prod(max(1, tiles[dim] // number) for dim, number in along.items())] if along else _NUMBERS_OF_WAVES
        of_steps = [(dims, bits) for dims, bits in roles.staged if not {*roles.steps}.isdisjoint(dims)]
        sizes = [prod(self._extent(dim, tiles) for dim in dims) * bits for dims, bits in of_steps]
        least = [number * self.limits["lanes"] * WIDEST_BITS for number in waves]
        return all(len({size >= one for size in sizes}) < 2 for one in least)

    def _staged(self, tiles: Mapping[str, int]) -> int:
        """Bytes of one stage of all operands."""
        roles = self.roles
        staged = roles.units_stage if has_producers(self.entry) and roles.kind == "attention" else roles.staged
        return sum(prod(self._extent(dim, tiles) for dim in dims) * bits // 8 for dims, bits in staged)

    def _staged_once(self, tiles: Mapping[str, int]) -> int:
        """Bytes of operands that no step has a part of, which wait in one buffer.

        Of 32 bits: of narrower ones, what a split loop hands on takes the rest, unless the entry says that there is
        room.
        """
        if self.roles.bits < _WORD and self.entry.get("waiting") != "once":
            return 0
        operands = [(dims, bits) for dims, bits in self.roles.staged if {*self.roles.steps}.isdisjoint(dims)]
        return sum(prod(self._extent(dim, tiles) for dim in dims) * bits // 8 for dims, bits in operands)

    def schedule(self, tiles: Mapping[str, int]) -> Mapping[str, Any] | None:
        """That of the entry, with as many stages as there is room for."""
        schedule: dict[str, Any] = dict(self.entry.get("schedule", {}))
        if "stages" in schedule:
            once = self._staged_once(tiles)
            room = (self._shared_bytes(tiles) - once) // max(self._staged(tiles) - once, 1)
            alike = self._are_shared_out(tiles) and self._are_copied_alike(tiles)
            schedule["stages"] = max(1, min(schedule["stages"], room)) if alike else 1
        if "parts" in schedule:
            schedule["parts"] = {
                dim: schedule["parts"][role] for role, dim in self._roles() if role in schedule["parts"]
            }
        if "shift" in schedule:
            schedule["shift"] = {self.roles.rows: schedule["shift"]}
        if schedule.pop("pack", False) and self.roles.heads:
            schedule["pack"] = {self.roles.rows: self.roles.heads}
        if self.roles.behind and "workgroups" in schedule:  # operands of products behind a loop are copied in no loop
            schedule["workgroups"] = {key: one for key, one in schedule["workgroups"].items() if key != "persistent"}
        if not (self.roles.rows and self.roles.columns) and "workgroups" in schedule:  # bands are of two sides
            schedule["workgroups"] = {key: one for key, one in schedule["workgroups"].items() if key != "group"}
        return schedule or None


def _rounded(size: int) -> int:
    """The least power of two that has room for so many elements, of many the least multiple of 64."""
    return -(-size // _WIDE) * _WIDE if size > 4 * _WIDE else max(_LEAST_TILE, 1 << (size - 1).bit_length())
