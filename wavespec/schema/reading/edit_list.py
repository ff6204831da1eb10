"""A list of a spec and what another spec changes of it, item by item, go in; the new list comes out.

graph:
  replace: {scores: "where(index(N) <= index(M), products, -inf)"}
  change: {keys: {end: end(M)}}
  after: {q_tile: [valid: {read: count}]}
  remove: [offset]
cases:
  change: {many_queries.heads_of_64: {params: {BLOCK_M: 128}}}

All of it is about the list as the base has it: an item that another edit brings has no place of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wavespec.diagnostics import Related, Span, WavespecError, Where, listing, name_hints, quote
from wavespec.schema.language.errors import WrongType
from wavespec.schema.ops import OPS
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

VERBS = ("replace", "change", "before", "after", "remove")
BODIES = ("body", "otherwise")
EDITED = ("graph", *BODIES, "constraints", "cases")
"""The keys of the lists that can be edited."""
_MOST_KNOWN = 500
"""Names among which a similar one is looked for."""
_WHAT = {"graph": "statement", "constraints": "constraint", "cases": "case", **dict.fromkeys(BODIES, "statement")}

_INNER = {"statement": BODIES, "constraint": (), "case": ("cases",)}
"""Where items have items."""

Report = Callable[[WavespecError], object]
Merge = Callable[[Node, Node, Report], Node]


class NothingToEdit(WavespecError, code="nothing-to-edit"):
    """An edit, or a target that is `like` another, has nothing to start from."""

    def __init__(self, where: Where, message: str, hint: str = "") -> None:
        super().__init__(where, message, hints=[hint] if hint else [])


def no_list_to_edit(edits: Node, key: str) -> NothingToEdit:
    hint = "Name the spec that has it with 'extends', or write the list."
    return NothingToEdit(edits.span, f"There is no list '{key}' that this could edit.", hint)


class UnknownItem(WavespecError, code="unknown-item"):
    def __init__(self, where: Where, name: str, what: str, known: list[str]) -> None:
        hints = name_hints(name, known, "It has")
        super().__init__(where, f"The base has no {what} {quote(name)}.", hints=hints)


class AmbiguousItem(WavespecError, code="ambiguous-item"):
    def __init__(self, where: Where, name: str, paths: list[str], places: list[Span]) -> None:
        told = len(set(paths)) == len(paths)
        hint = f"Write {listing(paths, 'or')}." if told else "Replace the list, or what is around them, as a whole."
        related = [Related(place, "one") for place in places]
        super().__init__(where, f"{quote(name)} may be each of {len(paths)}.", hints=[hint], related=related)


class EditedTwice(WavespecError, code="edited-twice"):
    def __init__(self, where: Where, name: str, first: Span) -> None:
        super().__init__(
            where,
            f"{quote(name)}, or what is around it, is edited already; one of the two would be lost.",
            related=[Related(first, "first")],
        )


def is_edit(node: Node) -> bool:
    """Whether the value of a list is an edit of what a base has; one that waits for its list is, too."""
    if isinstance(node, SequenceNode):
        return type(node) is not SequenceNode
    return isinstance(node, MappingNode) and bool(node.entries) and all(one.key in VERBS for one in node.entries)


def statement_name(item: Node) -> str | None:
    """The name of a statement; `None` for an effect, and for what is no statement."""
    if not isinstance(item, MappingNode) or len(item.entries) != 1 or item.entries[0].key in OPS:
        return None
    return item.entries[0].key


@dataclass(eq=False)
class _Item:
    """An item of the list, or of a body in it, and what becomes of it."""

    node: Node
    labels: tuple[str, ...]
    around: tuple[_Item, ...]
    path: str
    """With the names of what is around."""
    change: tuple[str, Entry] | None = None
    """`replace`, `change` or `remove`."""
    before: list[Node] = field(default_factory=list["Node"])
    after: list[Node] = field(default_factory=list["Node"])
    touched: list[tuple[_Item, Span]] = field(default_factory=list["tuple[_Item, Span]"])
    """What is inside and edited, and where that is said."""


def edit_list(base: SequenceNode, edits: MappingNode, key: str, report: Report, merge: Merge) -> SequenceNode:
    """The items of `base`, the value of `key`, with all edits; a mistake is reported, and left out."""
    return _Editor(base, key, report, merge).edited(edits)


class _Editor:
    def __init__(self, base: SequenceNode, key: str, report: Report, merge: Merge) -> None:
        self.base, self.what, self.report, self.merge = base, _WHAT[key], report, merge
        self.items: dict[int, _Item] = {}
        """By the identity of their nodes."""
        self.labelled: dict[str, list[_Item]] = {}
        for item in _items(base, key, (), ""):
            self.items[id(item.node)] = item
            for label in item.labels:
                self.labelled.setdefault(label, []).append(item)

    def edited(self, edits: MappingNode) -> SequenceNode:
        for verb in edits.entries:
            for entry in self._entries(verb):
                if item := self._find(entry.key, entry.key_span):
                    self._take(verb.key, item, entry)
        return SequenceNode(tuple(self._list(self.base)), edits.span)

    def _entries(self, verb: Entry) -> Iterator[Entry]:
        """The items that an edit is about, by name, and what it says of each."""
        if verb.key == "remove":
            if not isinstance(verb.value, SequenceNode):
                self.report(WrongType(verb.value.span, f"a list of names of {self.what}s", "something else"))
                return
            for name in verb.value.items:
                if isinstance(name, ScalarNode) and isinstance(name.value, str):
                    yield Entry(name.value, name.span, name)
                else:
                    self.report(WrongType(name.span, f"the name of a {self.what}", "something else"))
        elif isinstance(verb.value, MappingNode):
            yield from verb.value.entries
        else:
            self.report(WrongType(verb.value.span, f"names of {self.what}s with values (a mapping)", "something else"))

    def _find(self, name: str, span: Span) -> _Item | None:
        wanted = _plain(name)
        near = [*self.labelled.get(wanted, ()), *self.labelled.get(wanted.rpartition(".")[2], ())]
        found = list(dict.fromkeys(one for one in near if any(_ends(one, label, wanted) for label in one.labels)))
        whole = [item for item in found if not item.around and wanted in item.labels]
        if len(whole) == 1:  # What is inside its items has longer names, too.
            found = whole
        if not found:
            self.report(UnknownItem(span, name, self.what, list(self.labelled)[:_MOST_KNOWN]))
        elif len(found) > 1:
            places = [item.node.span for item in found]
            self.report(AmbiguousItem(span, name, [item.path for item in found], places))
        return found[0] if len(found) == 1 else None

    def _take(self, verb: str, item: _Item, entry: Entry) -> None:
        if verb in ("before", "after"):
            if not isinstance(entry.value, SequenceNode):
                self.report(WrongType(entry.value.span, f"a list of {self.what}s", "something else"))
                return
            if self._is_free(item.around, item, entry):
                (item.before if verb == "before" else item.after).extend(entry.value.items)
        elif item.change is not None:
            self.report(EditedTwice(entry.key_span, entry.key, item.change[1].key_span))
        elif self._is_free(item.around, item, entry) and self._leaves(verb, item, entry):
            item.change = (verb, entry)

    def _is_free(self, around: tuple[_Item, ...], item: _Item, entry: Entry) -> bool:
        """Whether what is around the item keeps it."""
        for outer in around:
            if outer.change and not _keeps(*outer.change):
                self.report(EditedTwice(entry.key_span, entry.key, outer.change[1].key_span))
                return False
        for outer in around:
            outer.touched.append((item, entry.key_span))
        return True

    def _leaves(self, verb: str, item: _Item, entry: Entry) -> bool:
        if item.touched and not _keeps(verb, entry):
            self.report(EditedTwice(entry.key_span, entry.key, item.touched[0][1]))
            return False
        return True

    def _list(self, base: SequenceNode) -> Iterator[Node]:
        for node in base.items:
            item = self.items[id(node)]
            yield from item.before
            verb, entry = item.change or ("", None)
            if entry is None:
                yield self._inside(node)
            elif verb == "replace":
                yield self._replaced(node, entry)
            elif verb == "change":
                yield self._changed(self._inside(node), entry)
            yield from item.after

    def _replaced(self, node: Node, entry: Entry) -> Node:
        name = statement_name(node) if self.what == "statement" else None
        if name is None:
            return entry.value
        # The name of the new statement is where its author wrote it.
        return MappingNode((Entry(name, entry.key_span, entry.value),), entry.value.span)

    def _changed(self, node: Node, entry: Entry) -> Node:
        name = statement_name(node) if self.what == "statement" else None
        if not isinstance(entry.value, MappingNode):
            self.report(WrongType(entry.value.span, "fields to change (a mapping)", "something else"))
            return node
        if name is None:
            return self.merge(node, entry.value, self.report)
        assert isinstance(node, MappingNode)
        (old,) = node.entries
        if not isinstance(old.value, MappingNode):
            hint = "Write it under 'replace'."
            self.report(WrongType(entry.key_span, "an op with fields to change", "an expression", hint))
            return node
        return MappingNode((Entry(name, old.key_span, self.merge(old.value, entry.value, self.report)),), node.span)

    def _inside(self, node: Node) -> Node:
        """The item with the edits of what is in its bodies."""
        if not self.items[id(node)].touched:
            return node
        entries = tuple(
            Entry(one.key, one.key_span, self._body(one.value, self.items[id(node)]))
            if one.key in _INNER[self.what] and isinstance(one.value, SequenceNode)
            else one
            for one in _fields(node, self.what)
        )
        if self.what != "statement":
            return MappingNode(entries, node.span)
        assert isinstance(node, MappingNode)
        (old,) = node.entries
        return MappingNode((Entry(old.key, old.key_span, MappingNode(entries, old.value.span)),), node.span)

    def _body(self, body: SequenceNode, item: _Item) -> SequenceNode:
        """A body of the item with its edits; of one that they leave nothing of, they are the place."""
        items = tuple(self._list(body))
        return SequenceNode(items, body.span if items or not body.items else item.touched[-1][1])


def _items(base: SequenceNode, key: str, around: tuple[_Item, ...], path: str) -> Iterator[_Item]:
    for index, node in enumerate(base.items):
        labels = _labels(node, key, index)
        item = _Item(node, labels, around, f"{path}{labels[0]}" if labels else "")
        yield item
        for entry in _fields(node, _WHAT[key]):
            if entry.key in _INNER[_WHAT[key]] and isinstance(entry.value, SequenceNode):
                further = f"{item.path}." + ("otherwise." if entry.key == "otherwise" else "")
                yield from _items(entry.value, entry.key, (*around, item), further)


def _fields(node: Node, what: str) -> tuple[Entry, ...]:
    """Those among which an item has lists of items of its kind: of a statement, those of its op."""
    if what == "statement":
        node = node.entries[0].value if statement_name(node) and isinstance(node, MappingNode) else node
    return node.entries if isinstance(node, MappingNode) else ()


def _labels(node: Node, key: str, index: int) -> tuple[str, ...]:
    """What the item is called: a statement by its name, a case by that, its number and its conditions, others by their
    word and what they are about."""
    if not isinstance(node, MappingNode) or not node.entries:
        return ()
    if _WHAT[key] == "case":
        name, when = node.get("name"), node.get("when")
        conditions = when.items if isinstance(when, SequenceNode) else ()
        text = _plain(", ".join(str(one.value) for one in conditions if isinstance(one, ScalarNode)))
        said = [str(name.value)] if isinstance(name, ScalarNode) else []
        return (*said, f"case {index + 1}", *([text] if text else []))  # a group may have no conditions
    if _WHAT[key] == "statement":
        if name := statement_name(node):
            return (name,)
        word = next((entry for entry in node.entries if entry.key in OPS), node.entries[0])
        about = node.get("to") or word.value
    else:
        word = node.entries[0]
        about = word.value
    return (_plain(f"{word.key} {about.value}" if isinstance(about, ScalarNode) else word.key),)


def _ends(item: _Item, label: str, wanted: str) -> bool:
    """Whether `wanted` is the label, with as many names of what is around in front as one likes."""
    path = item.path.removesuffix(item.labels[0]) + label
    return path == wanted or (path.endswith(f".{wanted}") and wanted.endswith(label))


def _keeps(verb: str, entry: Entry) -> bool:
    """Whether what is inside an item stays where the item is edited so."""
    bodies = (*BODIES, "cases")
    return verb == "change" and isinstance(entry.value, MappingNode) and not any(map(entry.value.get, bodies))


def _plain(text: str) -> str:
    """Spaces mean nothing."""
    return re.sub(r"\s+", " ", text.strip())
