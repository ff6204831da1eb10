"""The tree of a spec and that of the spec it extends go in; one tree, with every node where it was written, comes out.

Mappings are merged key by key; a list or a value replaces, unless it is an edit of a list whose items have names
(`edit_list`). In a mapping, `remove: [name]` leaves out what the base has.
"""

from __future__ import annotations

from collections.abc import Callable

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.schema.language.errors import UnknownTarget, WrongType
from wavespec.schema.reading.edit_list import EDITED, NothingToEdit, edit_list, is_edit, no_list_to_edit
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode
from wavespec.targets.names import TARGETS

Report = Callable[[WavespecError], object]


class UnknownKey(WavespecError, code="unknown-key"):
    def __init__(self, where: Where, name: str, known: list[str]) -> None:
        hints = name_hints(name, known, "It has")
        super().__init__(where, f"The base has no {quote(name)} here that could be removed.", hints=hints)


class LikeCycle(WavespecError, code="like-cycle"):
    def __init__(self, where: Where, chain: list[str]) -> None:
        super().__init__(where, f"{quote(chain[0])} starts from itself.", notes=[" -> ".join([*chain, chain[0]])])


class _PendingEdits(SequenceNode):
    """Edits of a list that only `like` brings, in the order of the files that have them."""

    __slots__ = ()


def merge(base: Node, own: Node, report: Report, key: str = "") -> Node:
    """`own` over `base`, both of which are the value of `key`."""
    if key in EDITED and is_edit(own):
        return _edited(base, own, report, key)
    if not isinstance(base, MappingNode) or not isinstance(own, MappingNode):
        return own
    dropped = _removed(base, own, report)
    mine = {entry.key: entry for entry in own.entries if not (entry.key == "remove" and dropped is not None)}
    merged: list[Entry] = []
    for entry in base.entries:
        if dropped is not None and entry.key in dropped:
            continue
        over = mine.pop(entry.key, None)
        value = entry.value if over is None else merge(entry.value, over.value, report, entry.key)
        merged.append(entry if over is None else Entry(over.key, over.key_span, value))
    return MappingNode((*merged, *mine.values()), own.span)


def finish(root: Node, report: Report) -> Node:
    """The whole tree with targets that are `like` others written out; edits that found no list are reported."""
    if not isinstance(root, MappingNode):
        return root
    entries = [
        Entry(entry.key, entry.key_span, _targets(entry.value, report)) if entry.key == "targets" else entry
        for entry in root.entries
    ]
    root = MappingNode(tuple(entries), root.span)
    _report_pending(root, report)
    return root


def _edited(base: Node, own: Node, report: Report, key: str) -> Node:
    steps = own.items if isinstance(own, _PendingEdits) else (own,)
    if is_edit(base):
        earlier = base.items if isinstance(base, _PendingEdits) else (base,)
        return _PendingEdits((*earlier, *steps), own.span)
    if not isinstance(base, SequenceNode):
        return own
    for step in steps:
        assert isinstance(step, MappingNode)
        base = edit_list(base, step, key, report, merge)
    return base


def _removed(base: MappingNode, own: MappingNode, report: Report) -> frozenset[str] | None:
    """The keys of the base that `remove: [...]` names; `None` where `remove` is no list, and so a name itself."""
    names = own.get("remove")
    if not isinstance(names, SequenceNode):
        return None
    known = dict.fromkeys(entry.key for entry in base.entries)
    found: list[str] = []
    for item in names.items:
        if not isinstance(item, ScalarNode) or not isinstance(item.value, str):
            report(WrongType(item.span, "the name of something to remove", "something else"))
        elif item.value not in known:
            report(UnknownKey(item.span, item.value, list(known)))
        else:
            found.append(item.value)
    return frozenset(found)


def _targets(targets: Node, report: Report) -> Node:
    if not isinstance(targets, MappingNode):
        return targets
    entries = (Entry(entry.key, entry.key_span, _whole_target(targets, entry, report, [])) for entry in targets.entries)
    return MappingNode(tuple(entries), targets.span)


def _whole_target(targets: MappingNode, entry: Entry, report: Report, chain: list[str]) -> Node:
    """What a target says, over what the one says that it is `like`."""
    own = entry.value
    like = own.get("like") if isinstance(own, MappingNode) else None
    if not isinstance(own, MappingNode) or like is None:
        return own
    own = MappingNode(tuple(one for one in own.entries if one.key != "like"), own.span)
    # Where there is no such target, that is said: not that its lists are not there to edit.
    alone = MappingNode(tuple(one for one in own.entries if not (one.key in EDITED and is_edit(one.value))), own.span)
    others = [other.key for other in targets.entries if other.key != entry.key]
    if not isinstance(like, ScalarNode) or not isinstance(like.value, str):
        report(WrongType(like.span, "the name of another target", "something else"))
        return alone
    if like.value in (entry.key, *chain) or len(chain) > len(TARGETS):
        report(LikeCycle(like.span, [entry.key, *chain]))
        return alone
    base = next((other for other in targets.entries if other.key == like.value), None)
    if base is None:
        if like.value in TARGETS:
            message = f"{quote(like.value)} has nothing under 'targets' to start from."
            report(NothingToEdit(like.span, message))
        else:
            report(UnknownTarget(like.span, like.value, others))
        return alone
    return merge(_whole_target(targets, base, report, [entry.key, *chain]), own, report)


def _report_pending(node: Node, report: Report, key: str = "", *, in_target: bool = False) -> None:
    """Report edits that have found no list; those of constraints in a target find the kernel's, or a group's, later."""
    if key in EDITED and is_edit(node):
        if not (key == "constraints" and in_target):
            report(no_list_to_edit(node, key))
    elif isinstance(node, MappingNode):
        for entry in node.entries:
            _report_pending(entry.value, report, entry.key, in_target=in_target or entry.key == "targets")
    elif isinstance(node, SequenceNode):
        for item in node.items:
            _report_pending(item, report, in_target=in_target)
