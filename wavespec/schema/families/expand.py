"""A family goes in; its members, each a checked kernel with its places in the template, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path

from wavespec.diagnostics import Diagnostic, Source, Span, WavespecError, Where, quote, raise_all
from wavespec.schema.families.check_family import check_members, check_spec
from wavespec.schema.families.family_errors import in_member, in_members
from wavespec.schema.families.template import Condition, EndlessTemplate, Template
from wavespec.schema.families.template_places import MemberPlaces, TemplatePlace
from wavespec.schema.language.errors import BadName, OutOfRange, WrongType
from wavespec.schema.language.family import (
    MOST_MEMBERS,
    FamilySpec,
    MalformedPick,
    Member,
    Pick,
    member_label,
    member_name,
    parse_pick,
)
from wavespec.schema.language.models import API_VERSION
from wavespec.schema.language.names import name_problem
from wavespec.schema.load import node_to_spec
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, yaml_to_nodes

Values = Mapping[str, str | int]


class NoMembers(WavespecError, code="no-members"):
    def __init__(self, where: Where) -> None:
        super().__init__(where, "No combination of the parameters meets all conditions, so the family is empty.")


class UnusedValue(WavespecError, code="unused-value"):
    def __init__(self, where: Where, parameter: str, value: str | int) -> None:
        super().__init__(
            where,
            f"No member has {parameter}={value}; the conditions leave out all of them.",
            hints=["Delete the value, or change a condition of 'when'."],
        )


class HeaderInTemplate(WavespecError, code="header-in-template"):
    def __init__(self, where: Where, field: str) -> None:
        super().__init__(
            where, f"{quote(field)} of a member follows from the family.", hints=["Delete the line in the template."]
        )


class RepeatedMember(WavespecError, code="repeated-member"):
    def __init__(self, where: Where, name: str, labels: tuple[str, str]) -> None:
        super().__init__(where, f"Two members are called {quote(name)}: {labels[0]} and {labels[1]}.")


class UnknownMember(WavespecError, code="unknown-member"):
    """What was asked for is no member of the family."""

    def __init__(self, where: Where, text: str, family: Family) -> None:
        labels = [member.label for member in family.members]
        shown = labels if len(labels) <= 12 else [*labels[:12], f"{len(labels) - 12} more"]
        super().__init__(
            where, f"{quote(text)} is no member of {family.spec.name}.", notes=[f"Its members: {'; '.join(shown)}."]
        )


@dataclass(frozen=True, slots=True)
class Family:
    """A family that is right, and its members, in the order of their values."""

    spec: FamilySpec
    members: tuple[Member, ...]
    picks: tuple[tuple[str, Pick], ...]
    """What of a call has to be the value of a parameter: each with its parameter, which may have several."""
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    @property
    def plain(self) -> Member | None:
        """The member that has the name of the family: that of the first types of a kernel with `dtypes`."""
        return next((member for member in self.members if member.name == self.spec.name), None)

    def member(self, text: str, where: Where = "member") -> Member:
        """The member `DTYPE=f16,HEAD=64`, in any order, or with its whole name.

        Raises:
            UnknownMember: there is none, or more than one.
        """
        wanted = set(text.replace(" ", "").split(","))
        found = [
            member
            for member in self.members
            if member.name == text or wanted <= {f"{name}={value}" for name, value in member.values.items()}
        ]
        if len(found) != 1:
            raise UnknownMember(where, text, self)
        return found[0]


def expand(spec: FamilySpec, file: Path | None = None) -> Family:
    """The members of `spec`; `file` is where it was written, for templates that extend a spec beside it.

    Raises:
        WavespecError: with every mistake of the family, or else of all members.
    """
    raise_all([*check_spec(spec), *_pick_errors(spec)])
    grid = members_of_grid(spec)
    place = template_place(spec)
    template = Template(spec.template, spec.parameters, place)
    found: list[tuple[str, Diagnostic]] = []
    members: list[Member] = []
    for values in grid:
        label = member_label(values)
        try:
            member, warnings = _member(spec, values, template, place, file)
        except EndlessTemplate as error:
            # Once is long enough.
            raise WavespecError.of(in_member(one, label) for one in error.diagnostics) from None
        except WavespecError as error:
            found += [(label, diagnostic) for diagnostic in error.diagnostics]
        else:
            found += [(label, diagnostic) for diagnostic in warnings]
            members.append(member)
    notes = in_members(found, [member_label(values) for values in grid])
    if any(diagnostic.is_error for diagnostic in notes):
        raise WavespecError.of(notes)
    raise_all(check_members(spec, members))
    picks = tuple((name, pick) for name, text in spec.pick.items() if (pick := parse_pick(text)) is not None)
    return Family(spec, tuple(members), picks, notes)


def member_text(spec: FamilySpec, values: Values) -> str:
    """The YAML of a member as the template gives it, right or wrong.

    Raises:
        WavespecError: the template has no text for these values.
    """
    template = Template(spec.template, spec.parameters, template_place(spec))
    return _with_header(spec, values, template.render(values).text)


def members_of_grid(spec: FamilySpec) -> tuple[Values, ...]:
    """The values of every member: combinations of the grid that meet all conditions, in the order of the values.

    Raises:
        WavespecError: a condition is wrong, or leaves a value without a member.
    """
    errors: list[WavespecError] = []
    if prod(len(values) for values in spec.parameters.values()) > MOST_MEMBERS:
        count = str(prod(len(values) for values in spec.parameters.values()))
        raise OutOfRange(spec.where_key("parameters"), "parameters", f"at most {MOST_MEMBERS} combinations", count)
    names = sorted(spec.parameters)
    # The order in which a grid was written means nothing: members come in one of their own.
    values = [sorted(spec.parameters[name], key=lambda value: (isinstance(value, str), value)) for name in names]
    conditions: list[Condition] = []
    for index, text in enumerate(spec.when):
        try:
            conditions.append(Condition(text, spec.parameters, _line_place(spec, text, "when", index)))
        except WavespecError as error:
            errors.append(error)
    raise_all(errors)
    every: list[Values] = [dict(zip(names, row, strict=True)) for row in product(*values)]
    grid = tuple(row for row in every if all(condition.holds(row) for condition in conditions))
    if not grid:
        raise NoMembers(spec.where_key("when"))
    raise_all(_grid_errors(spec, grid))
    return grid


def template_place(spec: FamilySpec) -> TemplatePlace:
    """Where the lines of the template are: in the file, or by themselves for a family made in Python.

    Raises:
        WrongType: the template is written in a way in which its lines are not those of the file.
    """
    span = spec.span_of("template")
    if span is None or span.source is None:
        return TemplatePlace(Source.of(f"{spec.name}.template", spec.template), spec.template)
    first = span.line
    for number, line in enumerate(spec.template.split("\n")):
        if line.strip():
            written = span.source.lines[first + number] if first + number < len(span.source.lines) else ""
            if not _is_block(span) or not written.endswith(line):
                raise WrongType(
                    span, "the lines of a kernel behind '|'", "text in another form", "Write 'template: |'."
                )
            return TemplatePlace(span.source, spec.template, first + 1, len(written) - len(line) + 1)
    return TemplatePlace(span.source, spec.template, first + 1)


def _is_block(span: Span) -> bool:
    return span.source is not None and span.source.lines[span.line - 1][span.column - 1 : span.column] == "|"


def _line_place(spec: FamilySpec, text: str, *path: str | int) -> TemplatePlace:
    span = spec.span_of(*path)
    if span is None or span.source is None:
        return TemplatePlace(Source.of(spec.in_words(*path), text), text)
    quoted = span.source.lines[span.line - 1][span.column - 1 : span.column] in ("'", '"')
    return TemplatePlace(span.source, text, span.line, 1, span.column + quoted)


def _pick_errors(spec: FamilySpec) -> Iterator[WavespecError]:
    for name, text in spec.pick.items():
        if parse_pick(text) is None:
            yield MalformedPick(spec.where("pick", name), text)


def _grid_errors(spec: FamilySpec, grid: tuple[Values, ...]) -> Iterator[WavespecError]:
    for name, values in spec.parameters.items():
        for index, value in enumerate(values):
            if all(row[name] != value for row in grid):
                yield UnusedValue(spec.where("parameters", name, index), name, value)
    named: dict[str, Values] = {}
    for row in grid:
        called = member_name(spec.name, row)
        if problem := name_problem(called):
            yield BadName(spec.where("name"), called, problem)
        if earlier := named.get(called):
            yield RepeatedMember(spec.where_key("parameters"), called, (member_label(earlier), member_label(row)))
        named[called] = row


def _member(
    spec: FamilySpec, values: Values, template: Template, place: TemplatePlace, file: Path | None
) -> tuple[Member, tuple[Diagnostic, ...]]:
    rendered = template.render(values)
    places = MemberPlaces(rendered.text, rendered.pieces, place)
    try:
        node, found = yaml_to_nodes(rendered.text, place.source.file)
    except WavespecError as error:
        raise WavespecError.of(map(places.diagnostic, error.diagnostics)) from None
    errors = [WavespecError.of(map(places.diagnostic, error.diagnostics)) for error in found]
    root = places.node(node)
    errors += _header_errors(root)
    kernel, warnings = node_to_spec(_with_header_nodes(spec, values, root), errors, place.source.file, file)
    return Member(values, kernel.name, _with_header(spec, values, rendered.text), kernel), warnings


def _header_errors(root: Node) -> Iterator[WavespecError]:
    for entry in root.entries if isinstance(root, MappingNode) else ():
        if entry.key in ("apiVersion", "kind", "name"):
            yield HeaderInTemplate(entry.key_span, entry.key)


def _with_header_nodes(spec: FamilySpec, values: Values, root: Node) -> Node:
    if not isinstance(root, MappingNode):
        return root
    header: list[Entry] = []
    for key, value in _header(spec, values).items():
        at = spec.span_of("name") or root.span
        header.append(Entry(key, at, ScalarNode(value, at)))
    if root.get("extends") is not None and root.get("doc") is None:
        header.append(Entry("doc", root.span, ScalarNode("", root.span)))  # That of the base is of another kernel.
    rest = (entry for entry in root.entries if entry.key not in ("apiVersion", "kind", "name"))
    return MappingNode((*header, *rest), root.span)


def _with_header(spec: FamilySpec, values: Values, text: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in _header(spec, values).items()) + text


def _header(spec: FamilySpec, values: Values) -> dict[str, str]:
    return {"apiVersion": API_VERSION, "kind": "Kernel", "name": member_name(spec.name, values)}
