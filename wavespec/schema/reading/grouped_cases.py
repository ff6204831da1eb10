"""The tree of a kernel goes in; the tree with every group of cases written out, case by case, and with whole lists of
constraints in place of edits, comes out.

cases:
  - name: whole_steps
    when: [K % 64 == 0]
    params: {BLOCK_K: 64}
    schedule: {waves: {producers: 1}}
    cases:
      - {when: [M <= 64], params: {BLOCK_M: 64}, schedule: {stages: 8}}
      - {params: {BLOCK_M: 128}, schedule: {stages: 6}}
  - {when: [M <= 64], constraints: {change: {wave M: {tile: 16}}}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wavespec.diagnostics import Related, Span, WavespecError, quote
from wavespec.schema.language.errors import BadName, OutOfRange, WrongType
from wavespec.schema.language.names import name_problem
from wavespec.schema.reading.edit_list import is_edit, no_list_to_edit
from wavespec.schema.reading.merge import merge
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

Report = Callable[[WavespecError], object]


def with_cases_of_groups(root: Node, report: Report) -> Node:
    """The kernel at `root` without groups: each case has the conditions of what it is in, then its own, and of all else
    what it is in says with its own over it, key by key.

    Edits of `constraints` are of those that they stand in place of: of the group around, else of the target, else of
    the kernel."""
    around = _constraints(root)
    return _changed(root, "targets", lambda targets: _of_each(targets, around, report))


def _constraints(node: Node) -> Node | None:
    return node.get("constraints") if isinstance(node, MappingNode) else None


def _of_each(targets: Node, around: Node | None, report: Report) -> Node:
    if not isinstance(targets, MappingNode):
        return targets
    entries = (Entry(one.key, one.key_span, _of_target(one.value, around, report)) for one in targets.entries)
    return MappingNode(tuple(entries), targets.span)


def _of_target(target: Node, around: Node | None, report: Report) -> Node:
    target = _with_whole_constraints(target, around, report)
    inside = _constraints(target) or around
    return _changed(target, "cases", lambda cases: _written_out(cases, inside, report))


def _with_whole_constraints(node: Node, around: Node | None, report: Report) -> Node:
    """What says how work is split, with the list that its edits make of the one around."""
    edits = _constraints(node)
    if edits is None or not is_edit(edits):
        return node
    if around is None:
        report(no_list_to_edit(edits, "constraints"))
    if not isinstance(around, SequenceNode):  # what is no list is a mistake of its own
        around = SequenceNode((), edits.span)
        return _changed(node, "constraints", lambda _: around)
    if around.span.file != edits.span.file:
        report = _with_place(report, around.span)
    return _changed(node, "constraints", lambda _: merge(around, edits, report, "constraints"))


def _with_place(report: Report, edited: Span) -> Report:
    """Mistakes of edits that one file has written, and whose list another one has changed, show both."""

    def with_place(error: WavespecError) -> object:
        told = (replace(one, related=(*one.related, Related(edited, "edited here"))) for one in error.diagnostics)
        error.diagnostics = tuple(told)
        return report(error)

    return with_place


def _changed(node: Node, key: str, change: Callable[[Node], Node]) -> Node:
    if not isinstance(node, MappingNode) or node.get(key) is None:
        return node
    entries = (Entry(one.key, one.key_span, change(one.value)) if one.key == key else one for one in node.entries)
    return MappingNode(tuple(entries), node.span)


def _written_out(cases: Node, around: Node | None, report: Report) -> Node:
    if not isinstance(cases, SequenceNode):
        return cases
    return SequenceNode(tuple(one for item in cases.items for one in _cases_in(item, around, report)), cases.span)


def _cases_in(item: Node, around: Node | None, report: Report) -> Iterator[Node]:
    """An item of a list of cases, or those that it is a group of.  ``around``: the constraints it has as it is."""
    item = _with_whole_constraints(item, around, report)
    inner = item.get("cases") if isinstance(item, MappingNode) else None
    if not isinstance(item, MappingNode):
        yield item
        return
    _check_name(item, report)
    shared = MappingNode(tuple(one for one in item.entries if one.key not in ("name", "cases")), item.span)
    if inner is None:
        yield shared
        return
    if not isinstance(inner, SequenceNode):
        name = inner.value if isinstance(inner, ScalarNode) and isinstance(inner.value, str) else ""
        hint = f"No alias under 'let' is called {quote(name)}." if name_problem(name) is None else ""
        report(WrongType(inner.span, "a list of cases", "something else", hint, about=[name] if hint else ()))
        return
    if not inner.items:
        report(OutOfRange(inner.span, "cases", "at least 1 entry long", "0", "Leave the group out, or its 'cases'."))
    own = _constraints(item)
    if own is not None and not isinstance(own, SequenceNode):
        report(WrongType(own.span, "a list of constraints", "something else"))
        shared = MappingNode(tuple(one for one in shared.entries if one.key != "constraints"), item.span)
    around = own or around
    for one in inner.items:
        if isinstance(one, MappingNode):
            own = _with_whole_constraints(one, around, report)
            assert isinstance(own, MappingNode)
            yield from _cases_in(_joined(shared, own, report), around, report)
        else:
            report(WrongType(one.span, "a case (a mapping)", "something else"))


def _check_name(case: MappingNode, report: Report) -> None:
    """Refuse what edits could not call the case; otherwise nobody asks for its name."""
    name = case.get("name")
    if name is None:
        return
    if not isinstance(name, ScalarNode) or not isinstance(name.value, str):
        report(WrongType(name.span, "the name of a case", "something else"))
    elif problem := name_problem(name.value):
        report(BadName(name.span, name.value, problem))


def _joined(shared: MappingNode, own: MappingNode, report: Report) -> MappingNode:
    conditions = _conditions(shared, own)
    made = merge(shared, own, report)
    assert isinstance(made, MappingNode)
    entries = (
        Entry(one.key, one.key_span, conditions) if one.key == "when" and conditions is not None else one
        for one in made.entries
    )
    return MappingNode(tuple(entries), own.span)


def _conditions(shared: MappingNode, own: MappingNode) -> Node | None:
    """Those of both; what is no list in place of a list, which is a mistake; None where ``own`` has all there are."""
    outer, inner = shared.get("when"), own.get("when")
    if outer is not None and not isinstance(outer, SequenceNode):
        return outer
    if outer is None:
        return None
    if inner is None:  # what is said of the conditions is said of the case, not of all that share them
        return SequenceNode(outer.items, own.span)
    return SequenceNode((*outer.items, *inner.items), inner.span) if isinstance(inner, SequenceNode) else None
