"""The tree of a kernel goes in; the tree with a condition on each tensor of any strides in place of every one on
`alignment()`, which is about all of them, comes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.strided import alignment_of
from wavespec.schema.reading.with_dtypes import ReplacedSpan, Replacement
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

_OF_ALL = re.compile(r"(?<![\w.])alignment\s*\(\s*\)")
_SECTIONS = ("constraints", "targets")
_LISTS = ("constraints", "when")
"""Lists with conditions, all of which have to hold."""


class NoneStrided(WavespecError, code="unknown-stride"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "All tensors have the strides that their sizes make.",
            hints=["Write 'strides: any' in a tensor, or leave the condition out."],
        )


def for_each_strided(root: Node, report: Callable[[WavespecError], object]) -> Node:
    """The kernel at `root` with conditions on one tensor each."""
    if not isinstance(root, MappingNode):
        return root
    expand = _Expand(tuple(_strided(root.get("tensors"))), report)
    entries = (
        Entry(entry.key, entry.key_span, expand.node(entry.value, entry.key)) if entry.key in _SECTIONS else entry
        for entry in root.entries
    )
    return MappingNode(tuple(entries), root.span)


def _strided(tensors: Node | None) -> Iterator[str]:
    for entry in tensors.entries if isinstance(tensors, MappingNode) else ():
        strides = entry.value.get("strides") if isinstance(entry.value, MappingNode) else None
        if isinstance(strides, SequenceNode) or (isinstance(strides, ScalarNode) and strides.value == "any"):
            yield entry.key


class _Expand:
    def __init__(self, tensors: Sequence[str], report: Callable[[WavespecError], object]) -> None:
        self._tensors, self._report = tensors, report

    def node(self, node: Node, key: str = "") -> Node:
        """The node, which is the value of `key`, without conditions on all tensors."""
        if isinstance(node, MappingNode):
            entries = (Entry(entry.key, entry.key_span, self.node(entry.value, entry.key)) for entry in node.entries)
            return MappingNode(tuple(entries), node.span)
        if isinstance(node, SequenceNode):
            items = [one for item in node.items for one in (self._items(item) if key in _LISTS else (self.node(item),))]
            return SequenceNode(tuple(items), node.span)
        return node

    def _items(self, item: Node) -> Iterator[Node]:
        """An item of a list, or what is in its place: `text`, or `assume: text`."""
        condition = item.get("assume") if isinstance(item, MappingNode) else item
        if not isinstance(condition, ScalarNode) or not isinstance(condition.value, str):
            yield item
            return
        found = tuple(_OF_ALL.finditer(condition.value))
        if not found:
            yield item
            return
        if not self._tensors:
            self._report(NoneStrided(condition.span.part(found[0].start(), len(found[0][0]))))
        for tensor in self._tensors:
            made = _of_tensor(condition, condition.value, found, tensor)
            yield made if item is condition else _with_assume(item, made)


def _of_tensor(condition: ScalarNode, text: str, found: Sequence[re.Match[str]], tensor: str) -> ScalarNode:
    name = alignment_of(tensor)
    replaced = tuple(Replacement(one.start(), one.end(), name) for one in found)
    return ScalarNode(_OF_ALL.sub(name, text), ReplacedSpan.of(condition.span, replaced))


def _with_assume(item: Node, condition: ScalarNode) -> MappingNode:
    assert isinstance(item, MappingNode)
    entries = (
        Entry(entry.key, entry.key_span, condition) if entry.key == "assume" else entry for entry in item.entries
    )
    return MappingNode(tuple(entries), item.span)
