"""A family goes in; its members, each a checked kernel with its places in the template, come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from wavespec.diagnostics import Diagnostic, Related, Span, WavespecError, Where, quote, raise_all
from wavespec.schema.families.check_family import check_members, check_spec
from wavespec.schema.families.family_errors import in_member, in_members
from wavespec.schema.families.members import Members, RepeatedMember, UnknownMember, Values, members_of_grid
from wavespec.schema.families.template import EndlessTemplate
from wavespec.schema.language.family import FamilySpec, MalformedPick, Member, Pick, member_label, parse_pick
from wavespec.schema.load import merged_node, node_to_spec
from wavespec.schema.reading.dtype_members import inputs_of, member_node, node_to_data, parameters_of
from wavespec.schema.reading.spec_file import SpecFile
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.reading.yaml_source import MappingNode, Node

Picks = tuple[tuple[str, Pick], ...]


class NameOfParameter(WavespecError, code="redefined-name"):
    def __init__(self, where: Where, name: str, first: Where) -> None:
        related = [Related(first, "first")] if isinstance(first, Span) else []
        super().__init__(where, f"{quote(name)} is already a parameter of the family.", related=related)


@dataclass(frozen=True, slots=True)
class Family:
    """A family that is right, and its members, in the order of their values."""

    spec: FamilySpec
    members: tuple[Member, ...]
    picks: Picks
    """What of a call has to be the value of a parameter: each with its parameter, which may have several."""
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    is_typed: bool = False
    """Whether it is a kernel with `dtypes`."""

    @property
    def plain(self) -> Member | None:
        """The member that is the kernel by itself: of a kernel with `dtypes` that of the first types."""
        return self.members[0] if self.is_typed else None

    def member(self, text: str, where: Where = "member") -> Member:
        """The member `DTYPE=f16,HEAD=64`, in any order, or with its whole name.

        Raises:
            UnknownMember: there is none, or more than one.
        """
        wanted = set(text.replace(" ", "").split(","))
        found = [member for member in self.members if member.name == text]
        found = found or [
            member for member in self.members if wanted <= {f"{name}={value}" for name, value in member.values.items()}
        ]
        if len(found) != 1:
            labels = [member.label for member in found or self.members]
            raise UnknownMember(where, text, self.spec.name, labels, are_meant=bool(found))
        return found[0]


def expand(spec: FamilySpec, file: Path | None = None) -> Family:
    """The members of `spec`; `file` is where it was written, for what it extends.

    Raises:
        WavespecError: with every mistake of the family, or else of all members.
    """
    raise_all([*check_spec(spec), *_pick_errors(spec)])
    grid = members_of_grid(spec)
    at = spec.span_of()
    place = SpecFile.of(at.file if at else spec.name, file)
    makers = Members(spec, place)
    found: list[tuple[str, Diagnostic]] = []
    made: list[_Made] = []
    for values in grid:
        try:
            made += _members(spec, values, makers, place, found)
        except EndlessTemplate as error:
            # Once is long enough.
            raise WavespecError.of(in_member(one, member_label(values)) for one in error.diagnostics) from None
        except WavespecError as error:
            found += [(member_label(values), diagnostic) for diagnostic in error.diagnostics]
    labels = [one.member.label for one in made]
    notes = in_members(found, labels if len(made) >= len(grid) else [member_label(values) for values in grid])
    if any(diagnostic.is_error for diagnostic in notes):
        raise WavespecError.of(notes)
    members = tuple(one.member for one in made)
    picks = tuple((name, pick) for name, text in spec.pick.items() if (pick := parse_pick(text)) is not None)
    picks += tuple(dict.fromkeys(pick for one in made for pick in one.picks))
    raise_all([*_repeated(spec, members), *check_members(spec, members, picks)])
    return Family(spec, members, picks, notes)


@dataclass(frozen=True, slots=True)
class _Made:
    """A member, and what of a call tells its element types from those of others."""

    member: Member
    picks: Picks


def _members(
    spec: FamilySpec, values: Values, makers: Members, file: SpecFile, found: list[tuple[str, Diagnostic]]
) -> Iterator[_Made]:
    """The kernel that the template gives for `values`, in each of its element types; warnings are added to `found`."""
    errors: list[WavespecError] = []
    written = makers.node(values, errors)
    is_whole = isinstance(written, MappingNode) and written.get("extends") is None and written.get("dtypes") is None
    root = merged_node(written, file.name, file.path, errors)
    parameters = parameters_of(root)
    if parameters is None:
        kernel, warnings = node_to_spec(root, errors, file.name, file.path)
        found += [(member_label(values), one) for one in warnings]
        text = makers.text(values) if is_whole else dump_yaml(kernel)
        yield _Made(Member(values, kernel.name, text, kernel), ())
        return
    for name in (*parameters.choices, *parameters.derived):
        if name in spec.parameters:
            raise NameOfParameter(_key_of(root, name), name, spec.where_key("parameters", name))
    data = cast("dict[str, object]", node_to_data(root))
    picks = tuple((name, Pick("dtype", one)) for name in parameters.choices for one in inputs_of(name, data))
    for chosen in parameters.members():
        every = {**values, **chosen}
        try:
            kernel, warnings = node_to_spec(member_node(root, parameters, chosen), errors, file.name, file.path)
        except WavespecError as error:
            found += [(member_label(every), diagnostic) for diagnostic in error.diagnostics]
        else:
            found += [(member_label(every), one) for one in warnings]
            yield _Made(Member(every, kernel.name, dump_yaml(kernel), kernel), picks)


def _key_of(root: Node, name: str) -> Where:
    """Where `dtypes` of a kernel has a name."""
    dtypes = root.get("dtypes") if isinstance(root, MappingNode) else None
    entries = dtypes.entries if isinstance(dtypes, MappingNode) else ()
    return next((entry.key_span for entry in entries if entry.key == name), root.span)


def _pick_errors(spec: FamilySpec) -> Iterator[WavespecError]:
    for name, text in spec.pick.items():
        if parse_pick(text) is None:
            yield MalformedPick(spec.where("pick", name), text)


def _repeated(spec: FamilySpec, members: tuple[Member, ...]) -> Iterator[WavespecError]:
    """Members that element types give the name of another one."""
    named: dict[str, Member] = {}
    for member in members:
        if earlier := named.get(member.name):
            yield RepeatedMember(spec.where_key("parameters"), member.name, (earlier.label, member.label))
        named[member.name] = member
