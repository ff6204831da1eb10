"""A family goes in; the values of its members, and the tree of each one before what it extends, come out.

A family that extends another has the parameters, conditions and picks of that one, merged as mappings and lists of
kernels are. Each of its members extends the member of the same values, unless its template names another one: what is
merged are trees of kernels, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeVar

from wavespec.diagnostics import Source, Span, WavespecError, Where, quote, raise_all
from wavespec.schema.families.template import Condition, Template
from wavespec.schema.families.template_places import MemberPlaces, TemplatePlace
from wavespec.schema.language.dtype_parameters import DtypeParameters
from wavespec.schema.language.errors import BadName, MissingField, OutOfRange, WrongType
from wavespec.schema.language.family import MOST_MEMBERS, FamilySpec, member_label, member_name
from wavespec.schema.language.models import API_VERSION
from wavespec.schema.language.names import name_problem
from wavespec.schema.reading.dtype_members import name_of, name_of_all
from wavespec.schema.reading.merge import merge
from wavespec.schema.reading.spec_file import SpecFile
from wavespec.schema.reading.with_dtypes import node_with_dtypes
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, yaml_to_nodes
from wavespec.schema.reading.yaml_to_spec import nodes_to_family

Values = Mapping[str, str | int]
AValue = TypeVar("AValue", bound=str | int)
_HEADER = ("apiVersion", "kind", "name")
_OF_ONE_FILE = ("apiVersion", "kind", "extends", "template")
"""Fields of a family that those which extend it do not have from it."""


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

    def __init__(
        self, where: Where, text: str, family: str, labels: Sequence[str], *, are_meant: bool = False, hint: str = ""
    ) -> None:
        """``labels``: of all members, or, where several ``are_meant``, of those."""
        shown = labels if len(labels) <= 12 else [*labels[:12], f"{len(labels) - 12} more"]
        message = f"{quote(text)} is {'several members' if are_meant else 'no member'} of {family}."
        notes = [f"{'They are' if are_meant else 'Its members'}: {'; '.join(shown)}."]
        super().__init__(where, message, notes=notes, hints=[hint] if hint else [])


class NamelessMember(WavespecError, code="member-needed"):
    """A spec starts from a family, and does not say from which of its kernels."""

    def __init__(self, where: Where, spec: FamilySpec) -> None:
        name, values = next(iter(spec.parameters.items()))
        super().__init__(
            where,
            f"{spec.name} is a family; which of its kernels is meant?",
            hints=[f"Write 'member: {{{name}: {values[0]}}}' beside 'extends', with what tells it from others."],
        )


def is_family(node: Node) -> bool:
    """Whether a tree says that it is a family."""
    kind = node.get("kind") if isinstance(node, MappingNode) else None
    return isinstance(kind, ScalarNode) and kind.value == "Family"


def read_family(node: Node, file: SpecFile, errors: Sequence[WavespecError] = ()) -> FamilySpec:
    """The family of a tree, with what it has of those that it extends; ``errors`` were found before.

    Raises:
        WavespecError: with every mistake of form.
    """
    found = list(errors)
    spec, malformed = nodes_to_family(_merged(node, file, found))
    raise_all([*found, *malformed])
    assert spec is not None
    if not spec.extends and not spec.template:
        raise MissingField(spec.where(), "template", "A family that extends nothing")
    return spec


def member_to_extend(base: Node, file: SpecFile, named: Node | None, extends: Span) -> Node:
    """The tree of the one member of the family ``base`` that has the values ``named``.

    Args:
        extends: what names the family.

    Raises:
        WavespecError: the family is wrong, or has none or several with such values.
    """
    spec = read_family(base, file)
    if named is None:
        raise NamelessMember(extends, spec)
    hint = "Write 'member' in the template, with values of one to start from." if named.span == extends else ""
    values = _values_of_member(named, members_of_grid(spec), spec.name, hint)
    errors: list[WavespecError] = []
    node = Members(spec, file).node(values, errors)
    raise_all(errors)
    return node


def typed_to_extend(base: MappingNode, parameters: DtypeParameters, named: Node) -> MappingNode:
    """The tree of the one kernel of ``base``, which has `dtypes`, that has the element types ``named``.

    Raises:
        WavespecError: it has none or several with such types.
    """
    chosen = _values_of_member(named, parameters.members(), name_of_all(name_of(base), parameters))
    return node_with_dtypes(base, parameters.types(chosen))


def _values_of_member(
    named: Node, grid: Sequence[Mapping[str, AValue]], family: str, hint: str = ""
) -> Mapping[str, AValue]:
    """The row of ``grid`` that ``named`` means.

    Raises:
        WavespecError: it means none or several.
    """
    if not isinstance(named, MappingNode):
        raise WrongType(named.span, "values of parameters of the family (a mapping)", "something else")
    wanted = {one.key: one.value.value if isinstance(one.value, ScalarNode) else None for one in named.entries}
    rows = [row for row in grid if all(row.get(name) == value for name, value in wanted.items())]
    if len(rows) != 1:
        text = ",".join(f"{name}={value}" for name, value in wanted.items())
        labels = [member_label(row) for row in rows or grid]
        raise UnknownMember(named.span, text, family, labels, are_meant=bool(rows), hint=hint)
    return rows[0]


class Members:
    """Makes the trees of the members of one family."""

    def __init__(self, spec: FamilySpec, file: SpecFile) -> None:
        """``file``: where the family was written, for what it extends.

        Raises:
            WavespecError: with every mistake of the template that shows without running it.
        """
        self._spec = spec
        self._place = template_place(spec)
        self._template = Template(spec.template, spec.parameters, self._place)
        self._inherited = _parameters_of_base(spec, file)

    def text(self, values: Values) -> str:
        """The YAML of a member as the template gives it, right or wrong.

        Raises:
            WavespecError: the template has no text for these values.
        """
        header = "".join(f"{key}: {value}\n" for key, value in _header(self._spec, values).items())
        return header + self._template.render(values).text

    def node(self, values: Values, errors: list[WavespecError]) -> Node:
        """Its tree, before what it extends; mistakes that leave it usable are added to ``errors``.

        Raises:
            WavespecError: the template has no text for these values, or that is no YAML.
        """
        rendered = self._template.render(values)
        if not rendered.text and self._spec.extends:
            span = self._spec.span_of("extends") or self._place.line(1)
            return self._with_header(values, MappingNode((), span))
        places = MemberPlaces(rendered.text, rendered.pieces, self._place)
        try:
            node, found = yaml_to_nodes(rendered.text, self._place.source.file)
        except WavespecError as error:
            raise _in_template(error, places) from None
        errors += [_in_template(error, places) for error in found]
        root = places.node(node)
        errors += _header_errors(root, is_extending=bool(self._spec.extends))
        return self._with_header(values, root)

    def _with_header(self, values: Values, root: Node) -> Node:
        if not isinstance(root, MappingNode):
            return root
        spec = self._spec
        at = spec.span_of("name") or root.span
        header = [Entry(key, at, ScalarNode(value, at)) for key, value in _header(spec, values).items()]
        if (root.get("extends") is not None or spec.extends) and root.get("doc") is None:
            header.append(Entry("doc", root.span, ScalarNode("", root.span)))  # That of the base is of another kernel.
        rest = [entry for entry in root.entries if entry.key not in _HEADER]
        if spec.extends:
            base = spec.span_of("extends") or at
            header.append(Entry("extends", base, ScalarNode(spec.extends, base)))
            rest = [entry for entry in rest if entry.key != "extends"]
        if self._inherited:
            base = spec.span_of("extends") or at
            same = MappingNode(
                tuple(Entry(name, base, ScalarNode(values[name], base)) for name in self._inherited if name in values),
                base,
            )
            named = root.get("member")
            header.append(Entry("member", base, same if named is None else merge(same, named, lambda _: None)))
            rest = [entry for entry in rest if entry.key != "member"]
        return MappingNode((*header, *rest), root.span)


def _merged(node: Node, file: SpecFile, errors: list[WavespecError]) -> Node:
    """The tree of a family over those of the families that it extends."""
    extends = node.get("extends") if isinstance(node, MappingNode) else None
    if not isinstance(extends, ScalarNode) or not isinstance(extends.value, str) or not extends.value:
        return node
    above, base = file.base(extends, errors)
    if not is_family(base):
        return node
    base = _merged(base, above, errors)
    if not isinstance(base, MappingNode):
        return node
    kept = tuple(entry for entry in base.entries if entry.key not in _OF_ONE_FILE)
    return merge(MappingNode(kept, base.span), node, errors.append)


def _parameters_of_base(spec: FamilySpec, file: SpecFile) -> tuple[str, ...]:
    """The names of the parameters of the family that this one extends, if it extends one."""
    if not spec.extends:
        return ()
    span = spec.span_of("extends") or Span(f"{spec.name}.extends", 1, 1, 1, 1)
    above, base = file.base(ScalarNode(spec.extends, span), [])
    return tuple(read_family(base, above).parameters) if is_family(base) else ()


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


def _header(spec: FamilySpec, values: Values) -> dict[str, str]:
    return {"apiVersion": API_VERSION, "kind": "Kernel", "name": member_name(spec.name, values)}


def _header_errors(root: Node, *, is_extending: bool) -> Iterator[WavespecError]:
    for entry in root.entries if isinstance(root, MappingNode) else ():
        if entry.key in _HEADER or (entry.key == "extends" and is_extending):
            yield HeaderInTemplate(entry.key_span, entry.key)


def _in_template(error: WavespecError, places: MemberPlaces) -> WavespecError:
    return WavespecError.of(map(places.diagnostic, error.diagnostics))
