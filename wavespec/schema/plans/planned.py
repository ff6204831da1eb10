"""A spec that says nothing of how work is split goes in; the spec with tiles for every target comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import prod
from typing import Any, NamedTuple

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
from wavespec.schema.ops import Iterate, every
from wavespec.schema.plans.facts import OPEN, words_of_tables
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.plans.groups import asked_of_groups, override_of_groups
from wavespec.schema.plans.own_columns import with_own_columns
from wavespec.schema.plans.roles import Roles
from wavespec.schema.plans.tables import OF_TARGET, Table, table_of
from wavespec.schema.plans.tiles import Tiles, has_producers, takes_columns_for_rows, tiles_of
from wavespec.schema.products_before import product_alone
from wavespec.schema.residues.by_residues import by_residues
from wavespec.schema.resolve import override_of, targets_of
from wavespec.schema.tiled_loops import with_tiled_loops
from wavespec.schema.walked_dims import with_walked_dims
from wavespec.schema.whole_accesses import whole_accesses
from wavespec.targets.names import WIDEST_BITS

_Entry = Mapping[str, Any]
_SPLITS = (Workgroup, Tiling, Wave, Device)
_WORD = re.compile(r"[A-Za-z_]\w*")
_WINDOW = re.compile(r"\bwindow\b")
_HAS_ROWS = "whole > 2"
_LAST_AXIS = 4
_LONGEST_LINE = 120
"""Of pixels whose taps are rows further down: as many rows more are staged for each line of a window."""
_WORD_BITS = 32
_PARTS_IN_A_STEP = 128
"""Of a dim that kernels before join part by part: as many are joined at a time."""


def planned(spec: KernelSpec) -> KernelSpec:
    """The spec itself where it has tiles, or needs none; where its graph has mistakes, with no plan worth building.

    Tiles become parameters, one for each dim, so that cases and tuning have names for them.
    """
    overrides = [over for one in spec.targets.values() for over in (one, *one.cases)]
    constraints = [*spec.constraints, *(one for over in overrides for one in over.constraints or ())]
    if any(isinstance(one, _SPLITS) for one in constraints) or not _needs_tiles(spec):
        return spec
    spec = with_own_columns(by_residues(with_walked_dims(spec)))
    roles = roles_of(spec)
    return with_tiled_loops(spec).as_planned() if roles is None else _Plan(spec, roles).spec_with_tiles()


def _needs_tiles(spec: KernelSpec) -> bool:
    """Whether there are loops, or sizes that a call decides, so that not all of a tensor can be one tile."""
    named = [dim for tensor in spec.tensors.values() for dim in tensor.shape if dim in spec.dims]
    return any(spec.dims[dim].value is None for dim in named) or any(every(Iterate, spec.graph))


class _Taken(NamedTuple):
    """An entry that some call takes."""

    when: tuple[Expression, ...]
    least: Expression | None
    plan: _Plan
    entry: _Entry

    @property
    def of_case(self) -> Mapping[str, Any]:
        """What says which calls are of it."""
        return {"when": self.when, "least": self.least, "variants": tuple(self.entry.get("variants", ()))}


def _with_choices(taken: Sequence[_Taken]) -> Iterator[_Taken]:
    """These, with nothing to compare where a choice is of one."""
    for is_choice, run in groupby(taken, lambda one: one.least is not None):
        members = [*run]
        yield from members if not is_choice or len(members) > 1 else (members[0]._replace(least=None),)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A kernel and what its dims are for, or are where kernels of their own make something first."""

    spec: KernelSpec
    roles: Roles
    facts: dict[str, str] = field(default_factory=dict[str, str], compare=False)
    """What names of the tables mean, once something has asked."""

    def spec_with_tiles(self) -> KernelSpec:
        targets = {name: self._with_pairs(name)._on(name) for name in targets_of(self.spec)}
        first, *others = (over for one in targets.values() for over in (one, *one.cases))
        params = {name: number for over in (*others, first) for name, number in over.params.items()}
        update = {"params": {**params, **self.spec.params}, "constraints": first.constraints, "targets": targets}
        return self.spec.model_copy(update={**update, "schedule": None}).as_planned()

    def _with_pairs(self, target: str) -> _Plan:
        """That with two sides, where the table has tiles of such for a target."""
        pairs = self.roles.pairs
        return self if pairs is None or table_of("pairs", target) is None else _Plan(self.spec, pairs)

    def _on(self, target: str) -> TargetOverride:
        """What the table has for a target, and over it what the spec says of it, or of all targets."""
        table, own = table_of(self.roles.kind, target), override_of(self.spec, target)
        assert table is not None
        of_groups = self.roles.grouped and table_of(self.roles.grouped[1].kind, target)
        table = replace(table, grouped=of_groups.grouped if of_groups else ())
        schedule = (own and own.schedule) or self.spec.schedule
        said = {} if own is None else {name: getattr(own, name) for name in own.model_fields_set}
        said |= {"schedule": schedule} if schedule else {}
        with_cases = "cases" not in said and not schedule
        candidates = (
            (plan, one)
            for plan, entry in self._candidates(table, with_cases=with_cases)
            for one in plan._shared_out(entry, table)
        )
        taken = [*self._taken(candidates, table)]
        rest = taken[-1].entry
        few = taken if taken[-1].least is not None else taken[:-1]
        override = TargetOverride.model_validate(self._override(rest, table))
        none: dict[str, Any] = {"schedule": {}} if override.schedule else {}  # without one a case has its target's
        cases = (
            Case.model_validate({**one.of_case, **none, **one.plan._override(one.entry, table)})
            for one in _with_choices(few)
        )
        both = {name: {**getattr(override, name), **said[name]} for name in ("params", "tensors") if name in said}
        return override.model_copy(update={"cases": tuple(cases), **said, **both})

    def _candidates(self, table: Table, *, with_cases: bool) -> Iterator[tuple[_Plan, _Entry]]:
        """Entries of the table, each with the roles it is for: first those of products that decode columns
        in registers, then of the sizes for which operands are decoded once, if there are some; those for which sums, or
        the product itself, are made before come before all others."""
        roles, entries = self.roles, (*(table.cases if with_cases else ()), *table.every)
        if (before := roles.product_before) and with_cases and table.product_before is not None:
            own = [one for one in entries if before.may_start_anywhere or "aligned" in one]
            yield from ((_Plan(self.spec, before), entry) for entry in own)
        if roles.grouped and with_cases:
            yield from ((_Plan(*roles.grouped), entry) for entry in table.grouped)
        if roles.product_beside and with_cases and table.product_beside is not None:
            yield from ((_Plan(self.spec, roles.product_beside), entry) for entry in entries)
        if roles.with_sums and with_cases and table.sums_before is not None:
            yield from self._of_columns_once(roles.with_sums, table)
            yield from ((_Plan(self.spec, roles.with_sums), entry) for entry in entries)
            entries = table.every  # few elements are left
        elif with_cases:
            yield from self._of_columns_once(roles, table)
        if roles.along_steps and with_cases:
            yield from ((_Plan(self.spec, roles.along_steps), entry) for entry in table.laid_out)
        if roles.vectors and with_cases:
            yield from ((_Plan(self.spec, roles.vectors), entry) for entry in table.vectors)
        for turned in roles.turned if with_cases else ():
            yield from ((_Plan(self.spec, turned), entry) for entry in table.turned)
        once = roles.decoded_once and _Plan(self.spec, roles.decoded_once)
        if once and with_cases and table.decoded_once is not None and all(once._conditions({}, table)):
            if roles.across and table.decoded_across is not None:
                when = self._with_few_others(once.roles, table.decoded_across)
                yield from ((self, {**entry, "when": [*when, *entry["when"]]}) for entry in entries)
            yield from product((once, self), entries)
        else:
            yield from ((_Plan(self.spec, replace(roles, decoded_once=None)), entry) for entry in entries)

    def _with_few_others(self, once: Roles, most: int) -> list[str]:
        """That what is decoded across steps meets at most so many of the other side, whose tiles each decode it."""
        sides = {name: self.roles.dim_of(name) for name in ("rows", "columns")}
        others = [name for name, dim in sides.items() if any(dim not in dims for dims in once.written.values())]
        return [f"{name} <= {most}" for name in others]

    def _of_columns_once(self, roles: Roles, table: Table) -> Iterator[tuple[_Plan, _Entry]]:
        """Entries for the sizes for which columns that are decoded across steps are written first."""
        if roles.columns_once and table.columns_once is not None:
            yield from ((_Plan(self.spec, roles.columns_once), entry) for entry in table.every)

    @staticmethod
    def _taken(candidates: Iterable[tuple[_Plan, _Entry]], table: Table) -> Iterator[_Taken]:
        """The entries that some call takes; the last one, or the choice that it is of, is for all that are left."""
        before, choice = list[tuple[Expression, ...]](), list[tuple[Expression, ...]]()
        is_complete = False
        for plan, entry in candidates:
            conditions = plan._conditions(entry, table)
            if not all(conditions) or not plan._takes(entry, table):
                continue
            if entry.get("aligned") == "operands" and not plan._has_whole_words():
                continue
            when = (*(one for one in conditions if not isinstance(one, bool)), *plan._aligned(entry))
            if "least" not in entry:
                before, choice = [*before, *choice], []
                if () in before:
                    return
            dims = narrowed_dims(plan.spec.dims | plan.spec.numbers, when, {})
            if isinstance(dims, Expression) or any(are_implied(one, when, dims, {}) for one in before):
                continue
            if when and is_complete:
                continue
            # What is for all sizes of a spec is one kernel: one of parts, which is several, needs another behind it.
            is_complete = "parts" in entry.get("schedule", {}) and are_implied(when, (), plan.spec.dims, {})
            least = plan._least(entry, table)
            # A case has some condition.
            always = (parse_expression(f"{next(iter(plan.spec.dims))} >= 0"),)
            is_case = least is not None or "variants" in entry
            yield _Taken(when or (always if is_case else ()), least, plan, entry)
            if "variants" in entry:  # others are left to those behind
                continue
            if least is not None:
                choice.append(when)
            elif when and not is_complete:
                before.append(when)
            elif not when:
                return

    def _least(self, entry: _Entry, table: Table) -> Expression | None:
        """What a call takes by an entry, where that is said."""
        if "least" not in entry:
            return None
        return parse_expression(self._in_dims(str(entry["least"]), self._words(entry, table)))

    def _shared_out(self, entry: _Entry, table: Table) -> Iterator[_Entry]:
        """The entry for each number of workgroups that may share out the steps of a tile, the most first, and for one:
        the clusters of a call run at once.
        """
        if (share := entry.get("share")) and self.roles.split:
            tiles, roles, schedule = self._tiles(entry, table).tiles, self.roles, entry.get("schedule", {})
            rows, columns, steps = (tiles[dim] for dim in (roles.rows, roles.columns, roles.steps[0]))
            for split in share["by"]:
                clusters, processors = table.limits["clusters"][split], table.limits["processors"]
                most = clusters * share.get("workgroups", processors) // processors
                few = f"batch * ceildiv(rows, {rows}) * ceildiv(columns, {columns}) <= {most}"
                when = [*entry.get("when", ()), few, f"steps >= {share['steps'] * steps}"]
                yield {**entry, "when": when, "schedule": {**schedule, "workgroups": {"split": split}}}
        yield entry

    def _has_whole_words(self) -> bool:
        """Whether rows of operands that have one size are words, which alone are copied while lanes compute."""
        tensors = [self._laid_out().tensors[name] for name in self.roles.operands]
        sizes = [(self.roles.fixed.get(one.shape[-1], 0), DTYPES[one.dtype].bits) for one in tensors]
        return all(size * bits % _WORD_BITS == 0 for size, bits in sizes)

    def _takes(self, entry: _Entry, table: Table) -> bool:
        """Whether the schedule of an entry goes with its tiles. Waves only copy where what is joined has room in the
        rows that multiply together, and with products behind a loop of one product where these are those of the
        matrix unit. Workgroups share out steps without products where lanes have room for all that the entry says,
        which they carry to the end."""
        named = has_producers(entry) or entry.get("mma")
        if named and not self._tiles(entry, table).have_room:
            return False
        in_chain = self.roles.kind == "attention"
        if has_producers(entry) and self.roles.behind and (in_chain or takes_columns_for_rows(entry)):
            return False
        in_parts = "parts" in entry.get("schedule", {})
        if in_parts and not self.roles.products and not self._has_room_for_parts(entry, table):
            return False
        if not self._has_whole_waves(entry, table):
            return False
        is_split = "split" in entry.get("schedule", {}).get("workgroups", {})
        return not is_split or bool(self.roles.products) or not self._tiles(entry, table).are_smaller

    def _has_whole_waves(self, entry: _Entry, table: Table) -> bool:
        """Whether waves have whole vectors of an entry, whose tiles may be smaller than it says, and all of their
        columns where it is for these alone."""
        tiles = self._tiles(entry, table)
        if "short" in entry and tiles.waves.get(self.roles.columns, 0) < entry["wave"]["columns"]:
            return False
        vectors = {self.roles.dim_of(role): number for role, number in entry.get("vector", {}).items()}
        waves = {dim: tiles.waves.get(dim, tiles.tiles.get(dim, 0)) for dim in vectors if dim} if tiles.waves else {}
        return all(elements % vectors[dim] == 0 for dim, elements in waves.items())

    def _has_room_for_parts(self, entry: _Entry, table: Table) -> bool:
        """Whether who joins what parts have found has room for all of what is whole, of some parts."""
        tiles, fixed = self._tiles(entry, table).tiles, self.roles.fixed
        sizes = [fixed[dim] if dim in fixed else tiles.get(dim, 1) for dim in self.roles.whole]
        return _PARTS_IN_A_STEP * prod(sizes) <= table.limits["words"]

    def _tiles(self, entry: _Entry, table: Table) -> Tiles:
        words = self._words(entry, table)
        return tiles_of(self.spec, self.roles, entry, table.limits, lambda text: self._in_dims(str(text), words))

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

        if "shift" in entry.get("schedule", {}):  # lines have room in shared memory
            yield from (parse_expression(f"{dim} <= {_LONGEST_LINE}") for dim in roles.shifted_lines)

    def _laid_out(self) -> KernelSpec:
        """The spec as its product sees it."""
        if self.roles.apart:
            return product_alone(with_tiled_loops(self.spec), self.roles.apart)
        return laid_out_anew(self.spec, self.roles.laid_out) if self.roles.laid_out else self.spec

    def _conditions(self, entry: _Entry, table: Table) -> list[Expression | bool]:
        """Those of an entry in terms of the spec; whether they hold, of those that are about the kernel alone."""
        is_once = self.roles.written and not self.roles.decoded
        roles = self.roles
        written = (
            *(table.decoded_once or () if is_once else ()),
            *(table.columns_once or () if roles.across and roles.written and not is_once else ()),
            *(table.sums_before or () if roles.sums_before else ()),
            *(table.product_beside or () if roles.products_made else ()),
            *(table.along_steps or () if roles.laid_out else ()),
            *(table.product_before or () if roles.apart else ()),
            *(table.product_before_narrow if roles.apart and roles.has_narrow_rows else ()),
            *entry.get("when", ()),
        )
        texts = [one for text in written for one in self._of_each_window(text)]
        words = self._words(entry, table)
        meant = asked_of_groups(self.roles, (self._in_dims(text, words) for text in texts))
        parsed = {str(one): one for one in map(parse_expression, meant)}
        return [one if one.names() else bool(one.evaluate({})) for one in parsed.values()]

    def _of_each_window(self, text: str) -> list[str]:
        """A condition that is about a dim of windows, for each of them; and a limit of dims that are whole, each of
        which has a tile of its own, and rows of some elements."""
        if text.startswith("whole <=") or text == _HAS_ROWS:
            whole = [dim for dim in self.roles.whole if dim not in self.roles.fixed]
            return [text.replace("whole", dim, 1) for dim in whole] or [text]
        if not _WINDOW.search(text):
            return [text]
        fixed = self.roles.fixed
        return [_WINDOW.sub(str(fixed.get(dim, dim)), text) for dim in self.roles.steps]

    def _override(self, entry: _Entry, table: Table) -> dict[str, Any]:
        """What replaces parts of a spec, as a file has it."""
        tiles = self._tiles(entry, table)
        found: dict[str, Any] = {
            "params": {name: parse_expression(str(number)) for name, number in tiles.params.items()},
            "constraints": (*self._constraints(tiles, entry), *self._own_constraints(entry, tiles)),
            "tensors": {name: {"space": space} for name, space in self._spaces(entry, tiles, table).items()},
        }
        roles = self.roles
        made = {**roles.sums_before, **roles.products_made, **roles.written, **roles.laid_out, **roles.apart}
        schedule = {**(tiles.schedule or {}), **({"materialize": made} if made else {})}
        return override_of_groups(roles, {**found, "schedule": schedule} if schedule else found)

    def _spaces(self, entry: _Entry, tiles: Tiles, table: Table) -> dict[str, Space]:
        """Where operands are that the spec leaves open: all of them, since cases have what their target has."""
        staged, tensors, left = entry.get("staged", True), self.spec.tensors, self._without_room(tiles, table.limits)

        def is_staged(name: str) -> bool:
            has_columns = self.roles.columns in tensors[name].shape
            return staged is True or (staged == "columns" if has_columns else staged == "rows")

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
        asked: dict[str, Any] = {"mma": mma} if mma and all(one.settings.mma in OPEN for one in own) else {}
        asked |= {"vector": vector} if vector and not any(one.settings.vector for one in own) else {}
        if not asked:
            yield from self.spec.constraints
            return
        yield from (one for one in self.spec.constraints if not isinstance(one, Hardware))
        for settings in [one.settings for one in own] or [HardwareSettings()]:
            yield Hardware(settings=settings.model_copy(update=asked))

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

    def _words(self, entry: _Entry, table: Table) -> dict[str, str]:
        """What stands for names in conditions and numbers of an entry."""
        of_target = {name: str(table.limits[name]) for name in OF_TARGET if name in table.limits}
        tile: Mapping[str, object] = entry.get("tile", {})
        return {**of_target, **table.let, **{f"tile_{role}": str(number) for role, number in tile.items()}}

    def _in_dims(self, text: str, names: Mapping[str, str]) -> str:
        """A text of the table in terms of the spec."""
        if not self.facts:
            self.facts.update(words_of_tables(self.spec, self.roles))
        text = text if self.roles.alone else text.replace("batch * ", "")

        def meant(match: re.Match[str]) -> str:
            word = match[0]
            return f"({self._in_dims(names[word], names)})" if word in names else self.facts.get(word, word)

        return _WORD.sub(meant, text)
