"""A spec that says nothing of how work is split goes in; the spec with tiles for every target comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from math import prod
from typing import Any

import yaml

from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.conditions import are_implied, narrowed_dims
from wavespec.schema.language.constraints import (
    AnyConstraint,
    Device,
    Hardware,
    HardwareSettings,
    Tiling,
    Wave,
    Workgroup,
)
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.models import Case, KernelSpec, Space, TargetOverride
from wavespec.schema.materialize import laid_out_anew
from wavespec.schema.ops import Iterate, Mma, every
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.plans.graph_roles import with_tiled_loops
from wavespec.schema.plans.own_columns import with_own_columns
from wavespec.schema.plans.roles import Roles
from wavespec.schema.plans.tiles import Tiles, has_producers, takes_columns_for_rows, tiles_of
from wavespec.schema.products_before import product_alone
from wavespec.schema.residues.by_residues import by_residues
from wavespec.schema.resolve import override_of, targets_of
from wavespec.schema.whole_accesses import whole_accesses
from wavespec.targets.names import WIDEST_BITS

_Entry = Mapping[str, Any]
_SPLITS = (Workgroup, Tiling, Wave, Device)
_WORD = re.compile(r"[A-Za-z_]\w*")
_WINDOW = re.compile(r"\bwindow\b")
_LAST_AXIS = 4
_WORD_BITS = 32
_OPEN = (None, "auto")
_PARTS_IN_A_STEP = 128
"""Of a dim that kernels before join part by part: as many are joined at a time."""
_ALONG_ANY = 16
"""Bits of elements that matrix units read themselves along any dim; of fewer bits, along steps."""


def planned(spec: KernelSpec) -> KernelSpec:
    """The spec itself where it has tiles, or needs none; where its graph has mistakes, with no plan worth building.

    Tiles become parameters, one for each dim, so that cases and tuning have names for them.
    """
    overrides = [over for one in spec.targets.values() for over in (one, *one.cases)]
    constraints = [*spec.constraints, *(one for over in overrides for one in over.constraints or ())]
    if any(isinstance(one, _SPLITS) for one in constraints) or not _needs_tiles(spec):
        return spec
    spec = with_own_columns(by_residues(spec))
    roles = roles_of(spec)
    return with_tiled_loops(spec).as_planned() if roles is None else _Plan(spec, roles).spec_with_tiles()


def _needs_tiles(spec: KernelSpec) -> bool:
    """Whether there are loops, or sizes that a call decides, so that not all of a tensor can be one tile."""
    named = [dim for tensor in spec.tensors.values() for dim in tensor.shape if dim in spec.dims]
    return any(spec.dims[dim].value is None for dim in named) or any(every(Iterate, spec.graph))


@cache
def _tables() -> Mapping[str, Mapping[str, _Entry]]:
    return yaml.safe_load((resources.files("wavespec.schema.plans") / "plans.yaml").read_text(encoding="utf-8"))


def _each(cases: Iterable[_Entry]) -> Iterator[_Entry]:
    """Entries for rows that start anywhere as well are two, and so are those for rows of others than operands."""
    for entry in cases:
        if entry.get("aligned") == "either":
            yield {**entry, "aligned": "all"}
            yield {name: one for name, one in entry.items() if name != "aligned"}
        elif entry.get("aligned") == "most":
            yield {**entry, "aligned": "all"}
            yield {**entry, "aligned": "operands"}
        else:
            yield entry


@dataclass(frozen=True, slots=True)
class _Plan:
    spec: KernelSpec
    roles: Roles

    def spec_with_tiles(self) -> KernelSpec:
        targets = {name: self._with_pairs(name)._on(name) for name in targets_of(self.spec)}
        first, *others = (over for one in targets.values() for over in (one, *one.cases))
        params = {name: number for over in (*others, first) for name, number in over.params.items()}
        update = {"params": {**params, **self.spec.params}, "constraints": first.constraints, "targets": targets}
        return self.spec.model_copy(update={**update, "schedule": None}).as_planned()

    def _with_pairs(self, target: str) -> _Plan:
        """That with two sides, where the table has tiles of such for a target."""
        pairs = self.roles.pairs
        return self if pairs is None or target not in _tables()["pairs"] else replace(self, roles=pairs)

    def _on(self, target: str) -> TargetOverride:
        """What the table has for a target, and over it what the spec says of it, or of all targets."""
        table, own = _tables()[self.roles.kind][target], override_of(self.spec, target)
        limits: _Entry = _tables()["limits"][target]
        schedule = (own and own.schedule) or self.spec.schedule
        said = {} if own is None else {name: getattr(own, name) for name in own.model_fields_set}
        said |= {"schedule": schedule} if schedule else {}
        with_cases = "cases" not in said and not schedule
        candidates = (
            (plan, one)
            for plan, entry in self._candidates(table, with_cases=with_cases)
            for one in plan._shared_out(entry, limits)
        )
        *few, (_, _, rest) = self._taken(candidates, table, limits)
        override = TargetOverride.model_validate(self._override(rest, limits))
        none: dict[str, Any] = {"schedule": {}} if override.schedule else {}  # without one a case has its target's
        cases = (
            Case.model_validate({"when": when, **none, **plan._override(entry, limits)}) for when, plan, entry in few
        )
        both = {name: {**getattr(override, name), **said[name]} for name in ("params", "tensors") if name in said}
        return override.model_copy(update={"cases": tuple(cases), **said, **both})

    def _candidates(self, table: _Entry, *, with_cases: bool) -> Iterator[tuple[_Plan, _Entry]]:
        """Entries of the table, each with the roles it is for: first those of products that decode columns
        in registers, then of the sizes for which operands are decoded once, if there are some; those for which sums, or
        the product itself, are made before come before all others."""
        roles, entries = self.roles, (*(_each(table.get("cases", ())) if with_cases else ()), *table["every"])
        if (before := roles.product_before) and with_cases and "product_before" in table:
            own = [one for one in entries if before.may_start_anywhere or "aligned" in one]
            yield from ((_Plan(self.spec, before), entry) for entry in own)
        if roles.product_beside and with_cases and "product_beside" in table:
            yield from ((_Plan(self.spec, roles.product_beside), entry) for entry in entries)
        if roles.with_sums and with_cases and "sums_before" in table:
            yield from self._of_columns_once(roles.with_sums, table)
            yield from ((_Plan(self.spec, roles.with_sums), entry) for entry in entries)
            entries = tuple(table["every"])  # few elements are left
        elif with_cases:
            yield from self._of_columns_once(roles, table)
        if roles.along_steps and with_cases:
            yield from ((_Plan(self.spec, roles.along_steps), entry) for entry in table.get("laid_out", ()))
        if roles.vectors and with_cases:
            yield from ((_Plan(self.spec, roles.vectors), entry) for entry in table.get("vectors", ()))
        for turned in roles.turned if with_cases else ():
            yield from ((_Plan(self.spec, turned), entry) for entry in table.get("turned", ()))
        once = roles.decoded_once and _Plan(self.spec, roles.decoded_once)
        if once and with_cases and "decoded_once" in table and all(once._conditions({}, table)):
            yield from product((once, self), entries)
        else:
            yield from ((_Plan(self.spec, replace(roles, decoded_once=None)), entry) for entry in entries)

    def _of_columns_once(self, roles: Roles, table: _Entry) -> Iterator[tuple[_Plan, _Entry]]:
        """Entries for the sizes for which columns that are decoded across steps are written first."""
        if roles.columns_once and "columns_once" in table:
            yield from ((_Plan(self.spec, roles.columns_once), entry) for entry in table["every"])

    @staticmethod
    def _taken(
        candidates: Iterable[tuple[_Plan, _Entry]], table: _Entry, limits: _Entry
    ) -> Iterator[tuple[tuple[Expression, ...], _Plan, _Entry]]:
        """The entries that some call takes, each with its conditions and its plan; the last one has no conditions."""
        before: list[tuple[Expression, ...]] = []
        is_complete = False
        for plan, entry in candidates:
            conditions = plan._conditions(entry, table)
            if not all(conditions) or not plan._takes(entry, limits):
                continue
            if entry.get("aligned") == "operands" and not plan._has_whole_words():
                continue
            when = (*(one for one in conditions if not isinstance(one, bool)), *plan._aligned(entry))
            dims = narrowed_dims(plan.spec.dims | plan.spec.numbers, when, {})
            if isinstance(dims, Expression) or any(are_implied(one, when, dims, {}) for one in before):
                continue
            if when and is_complete:
                continue
            # What is for all sizes of a spec is one kernel: one of parts, which is several, needs another behind it.
            is_complete = "parts" in entry.get("schedule", {}) and are_implied(when, (), plan.spec.dims, {})
            before += [] if is_complete else [when]
            yield when, plan, entry
            if not when:
                return

    def _shared_out(self, entry: _Entry, limits: _Entry) -> Iterator[_Entry]:
        """The entry for each number of workgroups that may share out the steps of a tile, the most first, and for one:
        the clusters of a call run at once.
        """
        if (share := entry.get("share")) and self.roles.split:
            tiles, roles, schedule = self._tiles(entry, limits).tiles, self.roles, entry.get("schedule", {})
            rows, columns, steps = (tiles[dim] for dim in (roles.rows, roles.columns, roles.steps[0]))
            for split in share["by"]:
                most = limits["clusters"][split] * share.get("workgroups", limits["processors"]) // limits["processors"]
                few = f"batch * ceildiv(rows, {rows}) * ceildiv(columns, {columns}) <= {most}"
                when = [*entry.get("when", ()), few, f"steps >= {share['steps'] * steps}"]
                yield {**entry, "when": when, "schedule": {**schedule, "workgroups": {"split": split}}}
        yield entry

    def _has_whole_words(self) -> bool:
        """Whether rows of operands that have one size are words, which alone are copied while lanes compute."""
        tensors = [self._laid_out().tensors[name] for name in self.roles.operands]
        sizes = [(self.roles.fixed.get(one.shape[-1], 0), DTYPES[one.dtype].bits) for one in tensors]
        return all(size * bits % _WORD_BITS == 0 for size, bits in sizes)

    def _takes(self, entry: _Entry, limits: _Entry) -> bool:
        """Whether the schedule of an entry goes with its tiles. Waves only copy where what is joined has room in the
        rows that multiply together, and with products behind a loop of one product where these are those of the
        matrix unit. Workgroups share out steps without products where lanes have room for all that the entry says,
        which they carry to the end."""
        named = has_producers(entry) or entry.get("mma")
        if named and not self._tiles(entry, limits).have_room:
            return False
        in_chain = self.roles.kind == "attention"
        if has_producers(entry) and self.roles.behind and (in_chain or takes_columns_for_rows(entry)):
            return False
        if "parts" in entry.get("schedule", {}) and not self._has_room_for_parts(entry, limits):
            return False
        if not self._has_whole_waves(entry, limits):
            return False
        is_split = "split" in entry.get("schedule", {}).get("workgroups", {})
        return not is_split or bool(self.roles.products) or not self._tiles(entry, limits).are_smaller

    def _has_whole_waves(self, entry: _Entry, limits: _Entry) -> bool:
        """Whether waves have whole vectors of an entry, whose tiles may be smaller than it says, and all of their
        columns where it is for these alone."""
        tiles = self._tiles(entry, limits)
        if "short" in entry and tiles.waves.get(self.roles.columns, 0) < entry["wave"]["columns"]:
            return False
        vectors = {self.roles.dim_of(role): number for role, number in entry.get("vector", {}).items()}
        waves = {dim: tiles.waves.get(dim, tiles.tiles.get(dim, 0)) for dim in vectors if dim} if tiles.waves else {}
        return all(elements % vectors[dim] == 0 for dim, elements in waves.items())

    def _has_room_for_parts(self, entry: _Entry, limits: _Entry) -> bool:
        """Whether who joins what parts have found has room for all of what is whole, of some parts."""
        tiles, fixed = self._tiles(entry, limits).tiles, self.roles.fixed
        sizes = [fixed[dim] if dim in fixed else tiles.get(dim, 1) for dim in self.roles.whole]
        return _PARTS_IN_A_STEP * prod(sizes) <= limits["words"]

    def _tiles(self, entry: _Entry, limits: _Entry) -> Tiles:
        lanes = {"lanes": str(limits["lanes"])}
        return tiles_of(self.spec, self.roles, entry, limits, lambda text: self._in_dims(str(text), lanes))

    def _aligned(self, entry: _Entry) -> Iterator[Expression]:
        """What an entry asks of the rows of tensors."""
        spec, roles, asked = self._laid_out(), self.roles, entry.get("aligned")
        if asked:
            along = (
                name for name, one in spec.tensors.items() if not {*roles.alone, *roles.walked} & {*one.shape[-1:]}
            )
            yield from whole_accesses(spec, roles.operands if asked == "operands" else tuple(along))
        if asked == "before":
            yield from whole_accesses(self.spec, roles.laid_out)
        if asked == "staged":  # rows of scales have sizes that others decide
            shapes = {name: roles.written.get(name, spec.tensors[name].shape) for name in roles.operands}
            widest = {(shape[-1], DTYPES[spec.tensors[name].dtype].bits) for name, shape in shapes.items()}
            for dim, bits in sorted(widest):
                yield parse_expression(f"{dim} % {WIDEST_BITS // max(8, bits)} == 0")
        if asked == "boxes":
            dims = {dim: None for name in roles.mapped for dim in spec.tensors[name].shape if dim in spec.dims}
            yield from (parse_expression(f"{dim} > 0") for dim in dims if spec.dims[dim].min < 1)
        if "pixels" in entry:  # a step is a part of one
            last = {spec.tensors[name].shape[-1]: None for name in roles.mapped} | dict.fromkeys(roles.steps)
            parts = (self._in_dims(f"{dim} % ({entry['pixels']}) == 0", {}) for dim in last)
            yield from map(parse_expression, parts)

    def _laid_out(self) -> KernelSpec:
        """The spec as its product sees it."""
        if self.roles.apart:
            return product_alone(with_tiled_loops(self.spec), self.roles.apart)
        return laid_out_anew(self.spec, self.roles.laid_out) if self.roles.laid_out else self.spec

    def _conditions(self, entry: _Entry, table: _Entry) -> list[Expression | bool]:
        """Those of an entry in terms of the spec; whether they hold, of those that are about the kernel alone."""
        is_once = self.roles.written and not self.roles.decoded
        written = (
            *(table["decoded_once"] if is_once else ()),
            *(table.get("columns_once", ()) if self.roles.across and self.roles.written and not is_once else ()),
            *(table["sums_before"] if self.roles.sums_before else ()),
            *([f"rows > {table['product_beside']}"] if self.roles.products_made else ()),
            *(table["along_steps"] if self.roles.laid_out else ()),
            *(table["product_before"] if self.roles.apart else ()),
            *(table["product_before_narrow"] if self.roles.apart and self.roles.has_narrow_rows else ()),
            *entry.get("when", ()),
        )
        texts = [one for text in written for one in self._of_each_window(text)]
        meant = dict.fromkeys(self._in_dims(text, table.get("let", {})) for text in texts)
        parsed = [parse_expression(text) for text in meant]
        return [one if one.names() else bool(one.evaluate({})) for one in parsed]

    def _of_each_window(self, text: str) -> list[str]:
        """A condition that is about a dim of windows, for each of them; and a limit of dims that are whole, each of
        which has a tile of its own."""
        if text.startswith("whole <="):
            whole = [dim for dim in self.roles.whole if dim not in self.roles.fixed]
            return [text.replace("whole", dim, 1) for dim in whole] or [text]
        if not _WINDOW.search(text):
            return [text]
        fixed = self.roles.fixed
        return [_WINDOW.sub(str(fixed.get(dim, dim)), text) for dim in self.roles.steps]

    def _override(self, entry: _Entry, limits: _Entry) -> dict[str, Any]:
        """What replaces parts of a spec, as a file has it."""
        tiles = self._tiles(entry, limits)
        found: dict[str, Any] = {
            "params": {name: parse_expression(str(number)) for name, number in tiles.params.items()},
            "constraints": (*self._constraints(tiles, entry), *self._own_constraints(entry, tiles)),
            "tensors": {name: {"space": space} for name, space in self._spaces(entry, tiles, limits).items()},
        }
        roles = self.roles
        made = {**roles.sums_before, **roles.products_made, **roles.written, **roles.laid_out, **roles.apart}
        schedule = {**(tiles.schedule or {}), **({"materialize": made} if made else {})}
        return {**found, "schedule": schedule} if schedule else found

    def _spaces(self, entry: _Entry, tiles: Tiles, limits: _Entry) -> dict[str, Space]:
        """Where operands are that the spec leaves open: all of them, since cases have what their target has."""
        staged, tensors, left = entry.get("staged", True), self.spec.tensors, self._without_room(tiles, limits)

        def is_staged(name: str) -> bool:
            return staged is True or (staged == "rows" and self.roles.columns not in tensors[name].shape)

        open_ = [name for name in self.roles.operands if tensors[name].space == "global"]
        return {name: "shared" if is_staged(name) and name not in left else "global" for name in open_}

    def _without_room(self, tiles: Tiles, limits: _Entry) -> set[str]:
        """Tensors that stay where they are, as steps that hold all operands at once have no room for them: the largest
        tiles first, and computed operands have none but shared memory."""
        held, room = dict(self.roles.held), limits.get("room", limits["shared"])
        sizes = {name: sum(self._bytes(one, tiles) for one in each) for name, each in held.items()}
        left, needed = set[str](), sum(sizes.values())
        for name in sorted(sizes.keys() - {""}, key=lambda name: (-sizes[name], name)):
            if needed > room:
                left.add(name)
                needed -= sizes[name]
        return left

    def _bytes(self, tile: tuple[tuple[str, ...], int], tiles: Tiles) -> int:
        dims, bits = tile
        return prod(tiles.tiles.get(dim, self.roles.fixed.get(dim, 1)) for dim in dims) * bits // 8

    def _own_constraints(self, entry: _Entry, tiles: Tiles) -> Iterator[AnyConstraint]:
        """What the spec says, with the entry's matrix instruction and neighbours of a lane where those are open."""
        mma, own = entry.get("mma"), [one for one in self.spec.constraints if isinstance(one, Hardware)]
        neighbours: Mapping[str, int] = entry.get("vector", {}) if tiles.waves else {}  # they are of a wave
        vector = {dim: Num(number) for role, number in neighbours.items() if (dim := self.roles.dim_of(role))}
        asked: dict[str, Any] = {"mma": mma} if mma and all(one.settings.mma in _OPEN for one in own) else {}
        asked |= {"vector": vector} if vector and not any(one.settings.vector for one in own) else {}
        if not asked:
            yield from self.spec.constraints
            return
        yield from (one for one in self.spec.constraints if not isinstance(one, Hardware))
        for settings in [one.settings for one in own] or [HardwareSettings()]:
            yield Hardware(settings=settings.model_copy(update=asked))

    def _names_instruction(self) -> bool:
        """Whether the spec says what multiplies, which may want other tiles."""
        settings = [one.settings for one in self.spec.constraints if isinstance(one, Hardware)]
        return any(one.mma not in _OPEN for one in settings) or any(one.variant for one in every(Mma, self.spec.graph))

    def _constraints(self, tiles: Tiles, entry: _Entry) -> Iterator[AnyConstraint]:
        roles = self.roles
        sides = [dim for dim in (roles.lines, roles.rows, roles.columns) if dim]
        if roles.kind in ("columns", "windows", "elements", "transposed"):
            sides.reverse()
        axes = {dim: min(axis, _LAST_AXIS) for axis, dim in enumerate([*sides, *reversed(roles.alone)])}
        order = sorted(sides, key=lambda dim: dim != roles.columns) if entry.get("columns_first") else sides
        for dim in (*order, *roles.alone):
            yield Workgroup(dim=dim, tile=tiles.tile(dim), axis=axes[dim])
        split = {*sides, *roles.alone}
        whole = (dim for dim in roles.whole if dim not in roles.fixed or dim not in split)
        for dim in (*roles.steps, *roles.walked, *whole):
            if dim in (*roles.steps, *roles.walked) or tiles.has(dim):
                yield Tiling(dim=dim, tile=tiles.tile(dim))
        for dim in tiles.waves:
            yield Wave(dim=dim, tile=tiles.wave(dim))

    def _in_dims(self, text: str, names: Mapping[str, str]) -> str:
        """A text of the table in terms of the spec."""
        roles = self.roles
        whole = [dim for dim in roles.whole if dim not in roles.fixed]
        before = {self.spec.tensors[name].shape[-1] for name in roles.laid_out}
        words = {
            "rows": roles.rows or "1",
            "columns": roles.columns or "1",
            "steps": roles.steps[0] if roles.steps else "1",
            "whole": f"max({whole[0]}, {whole[1]})" if len(whole) == 2 else whole[0] if whole else "1",
            "batch": " * ".join(roles.alone),
            "bits": str(roles.bits),
            "narrow": str(min(max(DTYPES[one.dtype].bits, 8) for one in self.spec.tensors.values())),
            "products": str(roles.products),
            "contiguous": str(int(roles.contiguous)),
            "rows_last": str(int(roles.rows in roles.last)),
            "columns_last": str(int(roles.columns in roles.last)),
            "rows_laid": str(int(roles.rows in before)),
            "columns_laid": str(int(roles.columns in before)),
            "mapped": str(int(bool(roles.mapped))),
            "looked_up": str(int(roles.looked_up)),
            "pixels": str(int(roles.pixels)),
            "direct": str(int(roles.bits == _ALONG_ANY or (roles.bits < _ALONG_ANY and roles.pixels))),
            "single": str(int(roles.single)),
            "sides": str(bool(roles.rows) + bool(roles.columns)),
            "sums": str(int(roles.sums)),
            "along": str(int(roles.along)),
            "line": str(int(all(len(one.shape) < 2 for one in self.spec.tensors.values()))),
            "loops": str(roles.loops),
            "walks": str(int(bool(roles.walked))),
            "ragged": str(int(bool(roles.uniform))),
            "largest": str(roles.largest),
            "counted": str(int(bool(roles.counted))),
            "bins": " * ".join(roles.counted) or "0",
            "moved": str(len(roles.moved)),
            "channels": str(int(roles.columns not in roles.moved)),
            "taps": str(prod(roles.fixed.get(dim, 0) for dim in roles.steps)),
            "parted": str(int(roles.parted)),
            "split": str(int(roles.split)),
            "common": str(int(len(roles.units_stage) < len(roles.staged))),
            "shared": f"ceildiv({roles.heads[0]}, {roles.heads[1]})" if roles.heads else "1",
            "beside": str(int(roles.beside)),
            "summed": str(int(roles.with_sums is not None)),
            "decoded": str(int(roles.decoded)),
            "scaled": str(int(roles.block > 0)),
            "made": str(roles.made),
            "round": str(int(roles.round)),
            "across": str(int(roles.across)),
            "once": str(roles.decoded_once.bits if roles.decoded_once else 0),
            "behind": str(int(roles.behind)),
            "joined": str(int(roles.joined)),
            "row_words": str(roles.row_words if roles.joined or roles.apart else 0),
            "alone": str(int(bool(roles.apart))),
            "named": str(int(self._names_instruction())),
            "f8": str(int(all(self.spec.tensors[name].dtype.startswith("f8") for name in roles.operands))),
        }
        text = text if roles.alone else text.replace("batch * ", "")

        def meant(match: re.Match[str]) -> str:
            word = match[0]
            return f"({self._in_dims(names[word], names)})" if word in names else words.get(word, word)

        return _WORD.sub(meant, text)
