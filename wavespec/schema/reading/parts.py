"""A tree with parts of graphs and aliases goes in; the tree of the kernel that they make comes out.

parts:
  online_softmax: {inputs: [scores, N], outputs: [power], body: [top: {max: scores, dim: N}, power: exp2(scores - top)]}
let:
  head: H * size(G) // size(H)
graph:
  - k_tile: {read: k, dims: [B, H, N, D], at: {G: head}}
  - softmax: {part: online_softmax, scores: products, N: N}
  - weight: {cast: softmax.power, dtype: bf16}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from wavespec.diagnostics import Related, Span, WavespecError, Where, listing, name_hints, quote
from wavespec.schema.language.dtypes import DTYPES
from wavespec.schema.language.errors import BadName, MissingField, MissingName, OutOfRange, UnknownField, WrongType
from wavespec.schema.language.names import name_problem
from wavespec.schema.ops import OPS, ValueOp
from wavespec.schema.reading.edit_list import BODIES, statement_name
from wavespec.schema.reading.substitute import NAME, Substitution, used_at
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

_WITH_ALIASES = ("dims", "params", "constraints", "graph", "schedule", "targets")
_FIELDS = ("doc", "inputs", "outputs", "body")
_DEEPEST = 8
_MOST = 64
_FURTHER = frozenset(field for op in OPS.values() if issubclass(op, ValueOp) for field in op.further)
"""Fields of ops that name a second result."""


class UnknownPart(WavespecError, code="unknown-part"):
    def __init__(self, where: Where, name: str, known: list[str]) -> None:
        hints = name_hints(name, known, "Its parts are") or (
            "A part is written under 'parts', or in what is extended.",
        )
        super().__init__(where, f"The spec has no part {quote(name)}.", hints=hints, about=[name])


class WrongInputs(WavespecError, code="wrong-inputs"):
    """A use of a part lacks an input, or gives one that the part does not have."""

    def __init__(self, where: Where, message: str, part: Span, hints: tuple[str, ...] = ()) -> None:
        super().__init__(where, message, hints=hints, related=[Related(part, "its inputs")])


class UnknownOutput(WavespecError, code="unknown-output"):
    def __init__(self, where: Where, name: str, known: list[str]) -> None:
        hints = name_hints(name, known, "Its outputs are")
        super().__init__(where, f"{quote(name)} is no output of the part.", hints=hints, about=[name])


class PartCycle(WavespecError, code="part-cycle"):
    """A part uses itself, or an alias stands for itself."""


class AliasTaken(WavespecError, code="alias-taken"):
    def __init__(self, where: Where, name: str, what: str) -> None:
        super().__init__(where, f"{quote(name)} is {what} already, which an alias would hide.")


@dataclass(frozen=True, slots=True)
class _Part:
    inputs: tuple[str, ...]
    inputs_at: Span
    outputs: tuple[str, ...]
    body: SequenceNode


def expand_parts(root: Node, errors: list[WavespecError]) -> Node:
    """The tree without `parts` and `let`, and with what they stand for in the places of their uses."""
    if not isinstance(root, MappingNode):
        return root
    parts, aliases = root.get("parts"), root.get("let")
    rest = MappingNode(tuple(one for one in root.entries if one.key not in ("parts", "let")), root.span)
    mistakes: list[WavespecError] = []
    expander = _Expander(errors, dict(_read_parts(parts, mistakes)) if parts else {})
    errors += mistakes
    if mistakes:  # what uses the parts would seem to be wrong as well
        return rest
    rest = _with(rest, ("graph",), lambda node, _: expander.statements(node, ()))
    if aliases is None:
        return rest
    names = _Aliases(errors).read(aliases, rest)
    substitution = Substitution(names, errors.append)
    return _with(rest, _WITH_ALIASES, substitution.node)


def _with(root: MappingNode, keys: tuple[str, ...], change: Callable[[Node, str], Node]) -> MappingNode:
    entries = (
        Entry(one.key, one.key_span, change(one.value, one.key)) if one.key in keys else one for one in root.entries
    )
    return MappingNode(tuple(entries), root.span)


def _read_parts(parts: Node, errors: list[WavespecError]) -> Iterator[tuple[str, _Part]]:
    if not isinstance(parts, MappingNode):
        errors.append(WrongType(parts.span, "names with parts (a mapping)", "something else"))
        return
    if len(parts.entries) > _MOST:
        errors.append(OutOfRange(parts.span, "parts", f"at most {_MOST}", str(len(parts.entries))))
        return
    for entry in parts.entries:
        if problem := name_problem(entry.key):
            errors.append(BadName(entry.key_span, entry.key, problem))
        elif part := _read_part(entry, errors):
            yield entry.key, part


def _read_part(entry: Entry, errors: list[WavespecError]) -> _Part | None:
    if not isinstance(entry.value, MappingNode):
        errors.append(WrongType(entry.value.span, "a part (a mapping)", "something else"))
        return None
    strangers = [one for one in entry.value.entries if one.key not in _FIELDS]
    errors += (UnknownField(one.key_span, one.key, _FIELDS, "A part") for one in strangers)
    body = entry.value.get("body")
    if body is None and strangers:  # one of them may be meant
        return None
    if body is None:
        errors.append(MissingField(entry.key_span, "body", "A part"))
        return None
    if not isinstance(body, SequenceNode) or not body.items:
        errors.append(WrongType(body.span, "a list of statements", "something else"))
        return None
    inputs, outputs = entry.value.get("inputs"), entry.value.get("outputs")
    mine = set(_defined(body))
    found = _names(outputs, errors)
    for name, span in found:
        if name not in mine:
            errors.append(UnknownOutput(span, name, sorted(mine)))
    given = _names(inputs, errors)
    inside = set(_defined_inside(body))
    for name, span in given:
        if name == "part":
            errors.append(AliasTaken(span, name, "the word of a use"))
        if name in mine | inside:
            errors.append(AliasTaken(span, name, "a value of the part"))
    if both := sorted(mine & inside):
        errors.append(AliasTaken(entry.key_span, both[0], "the name of a value inside and outside of a loop"))
    made = tuple(name for name, _ in found if name in mine)
    at = inputs.span if inputs else entry.key_span
    return _Part(tuple(name for name, _ in given), at, made, body)


def _names(node: Node | None, errors: list[WavespecError]) -> list[tuple[str, Span]]:
    if node is None:
        return []
    if not isinstance(node, SequenceNode):
        errors.append(WrongType(node.span, "a list of names", "something else"))
        return []
    names: list[tuple[str, Span]] = []
    for item in node.items:
        text = item.value if isinstance(item, ScalarNode) else None
        if not isinstance(text, str):
            errors.append(WrongType(item.span, "a name", "something else"))
        elif problem := name_problem(text):
            errors.append(BadName(item.span, text, problem))
        else:
            names.append((text, item.span))
    return names


@dataclass(slots=True)
class _Expander:
    """Puts the statements of parts in the places of their uses."""

    errors: list[WavespecError]
    parts: Mapping[str, _Part]
    made: int = 0

    def statements(self, node: Node, chain: tuple[str, ...]) -> Node:
        """The list with all uses written out; `chain`: the parts that it is in."""
        if not isinstance(node, SequenceNode):
            return node
        results: dict[str, Node] = {}
        uses: dict[str, _Part] = {}
        items: list[Node] = []
        for item in node.items:
            self._check_outputs(item, uses)
            item = self._substituted(item, results)
            name = statement_name(item)
            value = item.entries[0].value if name and isinstance(item, MappingNode) else None
            if not isinstance(value, MappingNode) or not isinstance(item, MappingNode):
                if isinstance(item, MappingNode) and item.entries and item.entries[0].key == "part" and not name:
                    self.errors.append(MissingName(item.entries[0].key_span, "part"))
                    continue
                items.append(item)
            elif (used := value.get("part")) is None:
                items.append(_with_bodies(item, lambda body, _: self.statements(body, chain)))
            elif name and (part := self._part(used, value, chain)):
                uses[name] = part
                results |= {f"{name}.{out}": _inner(name, out, used.span) for out in part.outputs}
                items += self._expanded(name, part, value, used, chain)
        return SequenceNode(tuple(items), node.span)

    def _part(self, used: Node, use: MappingNode, chain: tuple[str, ...]) -> _Part | None:
        """The part that is used, where it is given what it needs."""
        name = used.value if isinstance(used, ScalarNode) else None
        if not isinstance(name, str):
            self.errors.append(WrongType(used.span, "the name of a part", "something else"))
            return None
        if (part := self.parts.get(name)) is None:
            self.errors.append(UnknownPart(used.span, name, list(self.parts)))
            return None
        if name in chain or len(chain) >= _DEEPEST:
            steps = " -> ".join([*chain, name])
            self.errors.append(PartCycle(used.span, f"{quote(name)} uses itself, or more than {_DEEPEST}: {steps}."))
            return None
        given = [entry for entry in use.entries if entry.key != "part"]
        missing = [one for one in part.inputs if use.get(one) is None]
        if missing and not any(entry.key not in part.inputs for entry in given):
            message = f"The part {quote(name)} needs {listing(missing)} as well."
            self.errors.append(WrongInputs(used.span, message, part.inputs_at))
        for entry in given:
            if entry.key not in part.inputs:
                hints = name_hints(entry.key, part.inputs, "It takes")
                message = f"The part {quote(name)} has no input {quote(entry.key)}."
                self.errors.append(WrongInputs(entry.key_span, message, part.inputs_at, hints))
            elif not isinstance(entry.value, ScalarNode) or isinstance(entry.value.value, bool | None):
                self.errors.append(WrongType(entry.value.span, "a name, a number or an expression", "something else"))
        return part if not missing else None

    def _expanded(
        self, name: str, part: _Part, use: MappingNode, used: Node, chain: tuple[str, ...]
    ) -> tuple[Node, ...]:
        assert isinstance(used, ScalarNode) and isinstance(used.value, str)
        given = {one: value for one in part.inputs if (value := use.get(one)) is not None}
        own = {one: _inner(name, one, used.span) for one in _defined(part.body)}
        substitution = Substitution(own | given, self.errors.append, True, lambda span: used_at(span, used.span))
        substitution.made = self.made
        body = substitution.node(part.body)
        self.made = substitution.made
        body = self.statements(body, (*chain, used.value))
        assert isinstance(body, SequenceNode)
        return body.items

    def _substituted(self, item: Node, results: Mapping[str, Node]) -> Node:
        if not results:
            return item
        substitution = Substitution(results, self.errors.append, made=self.made)
        item = substitution.node(item)
        self.made = substitution.made
        return item

    def _check_outputs(self, node: Node, uses: Mapping[str, _Part]) -> None:
        """Report `use.name` for a name that is no output of the part."""
        if not uses:
            return
        for text, span in _texts(node):
            for found in NAME.finditer(text):
                head, _, name = found[0].partition(".")
                if (part := uses.get(head)) and name and name not in part.outputs:
                    self.errors.append(UnknownOutput(span.part(found.start(), len(found[0])), name, list(part.outputs)))


@dataclass(slots=True)
class _Aliases:
    """Reads `let`: what each name stands for, with the names in that replaced as well."""

    errors: list[WavespecError]
    written: dict[str, Entry] = field(default_factory=dict[str, Entry])
    whole: dict[str, Node] = field(default_factory=dict[str, Node])

    def read(self, aliases: Node, root: MappingNode) -> Mapping[str, Node]:
        if not isinstance(aliases, MappingNode):
            expected = "names with expressions, mappings, constraints or cases (a mapping)"
            self.errors.append(WrongType(aliases.span, expected, "something else"))
            return {}
        if len(aliases.entries) > _MOST:
            self.errors.append(OutOfRange(aliases.span, "let", f"at most {_MOST}", str(len(aliases.entries))))
            return {}
        taken = _taken(root)
        for entry in aliases.entries:
            if problem := name_problem(entry.key):
                self.errors.append(BadName(entry.key_span, entry.key, problem))
            elif what := taken.get(entry.key):
                self.errors.append(AliasTaken(entry.key_span, entry.key, what))
            elif not (_is_flat(entry.value) or _are_mappings(entry.value)):
                expected = "an expression, a mapping, constraints or cases"
                self.errors.append(WrongType(entry.value.span, expected, "something else"))
            else:
                self.written[entry.key] = entry
        for name in self.written:
            self._resolve(name, ())
        return self.whole

    def _resolve(self, name: str, chain: tuple[str, ...]) -> None:
        entry = self.written[name]
        if name in chain:
            steps = " -> ".join([*chain[chain.index(name) :], name])
            self.errors.append(PartCycle(entry.key_span, f"{quote(name)} stands for itself: {steps}."))
            self.whole.setdefault(name, ScalarNode(1, entry.value.span))
        if name in self.whole:
            return
        for text, _ in _texts(entry.value):
            for found in NAME.finditer(text):
                if found[0] in self.written:
                    self._resolve(found[0], (*chain, name))
        if name not in self.whole:
            self.whole[name] = Substitution(self.whole, self.errors.append).node(entry.value, "at")


def _is_flat(node: Node) -> bool:
    """Whether it is an expression, or a mapping of these."""
    if isinstance(node, MappingNode):
        return all(isinstance(entry.value, ScalarNode) and _is_flat(entry.value) for entry in node.entries)
    return isinstance(node, ScalarNode) and not isinstance(node.value, bool | None)


def _are_mappings(node: Node) -> bool:
    """Whether it is a list of mappings, as of constraints, and cases, are."""
    return isinstance(node, SequenceNode) and all(isinstance(one, MappingNode) for one in node.items)


_SECTIONS = (
    ("dims", "a dim"),
    ("params", "a parameter"),
    ("tensors", "a tensor"),
    ("scalars", "a scalar"),
    ("dtypes", "an element type"),
)


def _taken(root: MappingNode) -> dict[str, str]:
    """Names that mean something in the spec, or the language, and what."""
    taken = dict.fromkeys(OPS, "an op") | dict.fromkeys(DTYPES, "a dtype")
    for section, what in _SECTIONS:
        node = root.get(section)
        taken |= {entry.key: what for entry in node.entries} if isinstance(node, MappingNode) else {}
    graph = root.get("graph")
    if not isinstance(graph, SequenceNode):
        return taken
    return taken | dict.fromkeys((*_defined(graph), *_defined_inside(graph)), "a value")


def _defined(body: SequenceNode) -> Iterator[str]:
    """The names that statements of the list define."""
    for item in body.items:
        if name := statement_name(item):
            yield name
            value = item.entries[0].value if isinstance(item, MappingNode) else None
            for entry in value.entries if isinstance(value, MappingNode) else ():
                if entry.key in _FURTHER and isinstance(entry.value, ScalarNode):
                    yield str(entry.value.value)


def _defined_inside(body: SequenceNode) -> Iterator[str]:
    """The names that there are only inside of loops and branches of the list."""
    for item in body.items:
        name = statement_name(item)
        value = item.entries[0].value if name and isinstance(item, MappingNode) else None
        for entry in value.entries if isinstance(value, MappingNode) else ():
            if entry.key == "carry" and isinstance(entry.value, MappingNode):
                yield from (one.key for one in entry.value.entries)
            elif entry.key in BODIES and isinstance(entry.value, SequenceNode):
                yield from _defined(entry.value)
                yield from _defined_inside(entry.value)


def _with_bodies(item: MappingNode, change: Callable[[Node, str], Node]) -> MappingNode:
    (named,) = item.entries
    assert isinstance(named.value, MappingNode)
    return MappingNode((Entry(named.key, named.key_span, _with(named.value, BODIES, change)),), item.span)


def _inner(use: str, name: str, span: Span) -> ScalarNode:
    """What a value of a part is called in the kernel."""
    return ScalarNode(f"{use}_{name}", span)


def _texts(node: Node) -> Iterator[tuple[str, Span]]:
    """All text of a tree that is no key."""
    match node:
        case ScalarNode(value, span):
            if isinstance(value, str):
                yield value, span
        case SequenceNode(items):
            for item in items:
                yield from _texts(item)
        case MappingNode(entries):
            for entry in entries:
                yield from _texts(entry.value)
