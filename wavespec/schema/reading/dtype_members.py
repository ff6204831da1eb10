"""The nodes of a kernel with `dtypes` go in; what it says there, checked against the rest of the kernel, and the nodes
of the kernel for some of the types, come out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote, raise_all
from wavespec.schema.language.dtype_parameters import DtypeParameters, Places, Types, read_dtypes
from wavespec.schema.language.family import member_name
from wavespec.schema.language.one_cause import said_once
from wavespec.schema.reading.with_dtypes import node_with_dtypes, unknown_names
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

_NAME_OF_TYPES = re.compile(r"_([A-Z][A-Za-z0-9]*)(?=_|$)")
"""What may be the name of element types in that of a kernel."""
_SECTIONS = {"dims": "a dim", "params": "a parameter", "tensors": "a tensor"}


class NameOfDtype(WavespecError, code="redefined-name"):
    def __init__(self, where: Where, name: str, what: str, first: Where) -> None:
        super().__init__(
            where,
            f"{quote(name)} is already {what}; a name means one thing in a spec.",
            related=[Related(first, "first")] if isinstance(first, Span) else [],
        )


class UntoldDtype(WavespecError, code="untold-dtype"):
    """No argument of a call says which of several types is meant."""

    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"No input has the dtype {quote(name)}, so a call cannot tell which it is.",
            hints=[f"Write 'dtype: {name}' at an input, or make a family that picks by a keyword."],
        )


def parameters_of(root: Node) -> DtypeParameters | None:
    """What `dtypes` of a kernel says; `None` for a kernel without.

    Raises:
        WavespecError: with every mistake in it.
    """
    dtypes = root.get("dtypes") if isinstance(root, MappingNode) else None
    if dtypes is None:
        return None

    def place(*path: str | int) -> Where:
        return _at(root, ("dtypes", *path)).span

    def key_place(*path: str | int) -> Where:
        return _key_at(root, ("dtypes", *path))

    data = cast("dict[str, object]", node_to_data(root))
    parameters = read_dtypes(data["dtypes"], place, key_place)
    unknown = list(unknown_names(root, [*parameters.choices, *parameters.derived]))
    found = names_and_inputs(parameters, data, key_place, lambda *path: _key_at(root, path))
    # What is spelt in another way somewhere may be what no input is said to be.
    raise_all(said_once([*(error for error in found if not (unknown and isinstance(error, UntoldDtype))), *unknown]))
    return parameters


def names_and_inputs(
    parameters: DtypeParameters, data: Mapping[str, object], key_place: Places, first: Places
) -> Iterator[WavespecError]:
    """Names that mean something else too, and types that no input of the kernel ``data`` has."""
    for name in (*parameters.choices, *parameters.derived):
        for section, what in _SECTIONS.items():
            if name in _table(data.get(section)):
                yield NameOfDtype(key_place(name), name, what, first(section, name))
    for name in parameters.choices:
        if not inputs_of(name, data):
            yield UntoldDtype(key_place(name), name)


def inputs_of(name: str, data: Mapping[str, object]) -> tuple[str, ...]:
    """The inputs of a kernel that have the type called ``name``, in the order of the call."""
    tensors = ((tensor, _table(fields)) for tensor, fields in _table(data.get("tensors")).items())
    return tuple(one for one, fields in tensors if fields.get("dtype") == name and fields.get("role") != "output")


def member_node(root: Node, parameters: DtypeParameters, chosen: Types) -> Node:
    """The kernel for the types ``chosen``, called so; that of the first types is called as the spec is."""
    if not isinstance(root, MappingNode):
        return root
    member = node_with_dtypes(root, parameters.types(chosen))
    entries = tuple(_renamed(entry, parameters, chosen) if entry.key == "name" else entry for entry in member.entries)
    return MappingNode(entries, member.span)


def named_member(root: Node, parameters: DtypeParameters, member: str = "") -> Node | None:
    """The kernel called `member`, by default that of the first types; `None` where none is called so."""
    found = (one for one in parameters.members() if member in ("", name_of_member(name_of(root), parameters, one)))
    return next((member_node(root, parameters, one) for one in found), None)


def name_of(root: Node) -> str:
    """The name of a kernel as it was written."""
    name = root.get("name") if isinstance(root, MappingNode) else None
    return str(name.value) if isinstance(name, ScalarNode) else ""


def name_of_member(name: str, parameters: DtypeParameters, chosen: Types) -> str:
    """`rms_norm` for the first types, `rms_norm_bf16` for others; of `matmul_T` it is `matmul_bf16` for all."""
    named = _NAME_OF_TYPES.sub(lambda part: "_" + chosen.get(part[1], part[1]), name)
    inside = _NAME_OF_TYPES.findall(name)
    others = {one: dtype for one, dtype in chosen.items() if one not in inside}
    first = parameters.members()[0]
    return named if all(first[one] == dtype for one, dtype in others.items()) else member_name(named, others)


def name_of_all(name: str, parameters: DtypeParameters) -> str:
    """What the kernels of all types are called together: `matmul` where they are `matmul_T`."""
    return _NAME_OF_TYPES.sub(lambda part: "" if part[1] in parameters.choices else part[0], name)


def node_to_data(node: Node) -> object:
    """The plain data of nodes."""
    match node:
        case MappingNode(entries):
            return {entry.key: node_to_data(entry.value) for entry in entries}
        case SequenceNode(items):
            return [node_to_data(item) for item in items]
        case ScalarNode(value):
            return value


def _renamed(entry: Entry, parameters: DtypeParameters, chosen: Types) -> Entry:
    value = entry.value
    if not isinstance(value, ScalarNode) or not isinstance(value.value, str):
        return entry
    return Entry(entry.key, entry.key_span, ScalarNode(name_of_member(value.value, parameters, chosen), value.span))


def _table(data: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", data) if isinstance(data, Mapping) else {}


def _at(node: Node, path: tuple[str | int, ...]) -> Node:
    """The node at ``path``, or the nearest one around it."""
    for part in path:
        inner = node.get(part) if isinstance(node, MappingNode) and isinstance(part, str) else None
        if isinstance(node, SequenceNode) and isinstance(part, int):
            inner = node.items[part]
        if inner is None:
            return node
        node = inner
    return node


def _key_at(root: Node, path: tuple[str | int, ...]) -> Span:
    *outer, last = path
    owner = _at(root, tuple(outer))
    entries = owner.entries if isinstance(owner, MappingNode) else ()
    return next((entry.key_span for entry in entries if entry.key == last), owner.span)
