"""A tree of YAML nodes goes in; the spec models with their positions, and every mistake of form, come out.

The models are built from the leaves up, so that one broken part does not hide the mistakes of others. What
belongs where is read from the annotations of the models: a new field or op needs no line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar, cast

from annotated_types import MaxLen
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from wavespec.diagnostics import Span, WavespecError, listing, nearest
from wavespec.schema.language.base import Path, Position, SpecModel, Worded
from wavespec.schema.language.dim_names import NumberAsDim, expression_of_dim, is_expression
from wavespec.schema.language.dtypes import DTYPES
from wavespec.schema.language.errors import (
    ANY_NAME,
    BadName,
    MissingName,
    NamedEffect,
    UnknownConstraint,
    UnknownDtype,
    UnknownField,
    UnknownOp,
    UnknownTarget,
    UnknownValue,
    WrongOperandCount,
    WrongType,
    no_fields,
    no_list,
    no_table,
)
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Name, Num
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Case, Dim, KernelSpec
from wavespec.schema.language.names import name_problem
from wavespec.schema.language.scalars import parse_default
from wavespec.schema.ops import Formula, Op, ValueOp
from wavespec.schema.reading.edit_list import EDITED, VERBS
from wavespec.schema.reading.field_kinds import Kind, field_kinds, is_built_of_parts
from wavespec.schema.reading.pydantic_to_error import describe, follows_from_others, owner_of, pydantic_to_error
from wavespec.schema.reading.tuned import TunedSpec
from wavespec.schema.reading.yaml_source import (
    DuplicateKey,
    Entry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    values_of,
)
from wavespec.targets.names import TARGETS

_Model = TypeVar("_Model", bound=SpecModel)
_Positions = dict[Path, Position]


class _Broken:
    """Stands for a part whose mistakes are reported already."""


_BROKEN = _Broken()


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A spec as far as it could be read: `broken` names are defined, wrongly; `None` for no spec at all."""

    spec: KernelSpec | None
    errors: tuple[WavespecError, ...]
    broken: frozenset[str]


def nodes_to_spec(root: Node) -> ReadSpec:
    reader = _Reader()
    return ReadSpec(reader.kernel(root), tuple(reader.errors), frozenset(reader.broken))


def nodes_to_tuned(root: Node) -> tuple[TunedSpec | None, tuple[WavespecError, ...]]:
    """The same for a file of tuned settings."""
    reader = _Reader()
    return reader.tuned(root), tuple(reader.errors)


def nodes_to_family(root: Node) -> tuple[FamilySpec | None, tuple[WavespecError, ...]]:
    """The same for a family, whose template is text still."""
    reader = _Reader()
    return reader.family(root), tuple(reader.errors)


def _is_too_long(fields: Mapping[str, object], model: type[SpecModel]) -> bool:
    """Whether a field has more entries than it may have: further checks would take as long as it is, and may go as
    deep."""
    lengths = {name: len(value) for name, value in fields.items() if isinstance(value, dict | list | tuple)}  # pyright: ignore
    return any(length > _longest(model.model_fields[name]) for name, length in lengths.items())


def _longest(field: FieldInfo) -> float:
    """The entries that a field may have at most."""
    return min((one.max_length for one in field.metadata if isinstance(one, MaxLen)), default=inf)


class _Reader:
    def __init__(self) -> None:
        self.errors: list[WavespecError] = []
        self.broken: set[str] = set()
        self.sizes: dict[str, tuple[Expression, Span]] = {}
        """The expressions of shapes by their texts, and where each was first."""

    def kernel(self, root: Node) -> KernelSpec | None:
        if not isinstance(root, MappingNode):
            self.errors.append(WrongType(root.span, "a spec (a mapping)", _found(root)))
            return None
        fields, positions = self._fields(root, KernelSpec)
        self._add_sizes(fields, positions)
        spec = self._build(KernelSpec, fields, positions, "A kernel")
        if spec is not None or _is_too_long(fields, KernelSpec):
            return spec
        # Enough of a kernel to go on looking for mistakes; it never leaves the loader.
        usable = {
            name: value
            for name, value in fields.items()
            if not isinstance(value, _Broken) and is_built_of_parts(field_kinds(KernelSpec)[name])
        }
        empty: dict[str, Any] = {"name": "kernel", "dims": {}, "tensors": {}, "graph": ()}
        partial = KernelSpec.model_construct(None, **{**empty, **usable})
        partial.was_written_at(positions)
        return partial

    def _add_sizes(self, fields: dict[str, object], positions: _Positions) -> None:
        """Have a dim for each expression of a shape, which is where the shape has it."""
        if not isinstance(fields.get("dims"), dict):
            return
        dims = cast("dict[str, Dim]", fields["dims"])
        for text, (size, span) in self.sizes.items():
            promised = dims.get(text, Dim())
            if promised.equals is None:
                dims[text] = dim = promised.model_copy(update={"equals": size})
                dim.was_written_at({(): Position(span), **promised.positions, ("equals",): Position(span)})
                positions.setdefault(("dims", text), Position(span))

    def tuned(self, root: Node) -> TunedSpec | None:
        if not isinstance(root, MappingNode):
            self.errors.append(WrongType(root.span, "tuned settings (a mapping)", _found(root)))
            return None
        fields, positions = self._fields(root, TunedSpec)
        return self._build(TunedSpec, fields, positions, owner_of(TunedSpec))

    def family(self, root: Node) -> FamilySpec | None:
        if not isinstance(root, MappingNode):
            self.errors.append(WrongType(root.span, "a family (a mapping)", _found(root)))
            return None
        fields, positions = self._fields(root, FamilySpec)
        return self._build(FamilySpec, fields, positions, owner_of(FamilySpec))

    def _fields(
        self, node: MappingNode, model: type[SpecModel], skip: str = ""
    ) -> tuple[dict[str, object], _Positions]:
        kinds = field_kinds(model)
        allowed = model.surface_fields() if issubclass(model, Worded) else tuple(kinds)
        fields, is_group = dict[str, object](), False
        positions: _Positions = {(): Position(node.span)}
        for entry in node.entries:
            if entry.key == skip:
                continue
            name: str | None = entry.key
            is_spelt, found = name in allowed, len(self.errors) + 1
            if not is_spelt:
                known = (*allowed, "name", "cases") if model is Case else allowed  # groups are written out before
                self.errors.append(UnknownField(entry.key_span, entry.key, known, owner_of(model)))
                # Read on as if it were spelt right, so that nothing is called missing for it.
                name = nearest(entry.key, known)
                is_group = is_group or (model is Case and name == "cases")
                if name not in allowed or node.get(name) is not None:
                    continue
            positions[(name,)] = Position(entry.value.span, entry.key_span)
            fields[name] = self._value(entry.value, kinds[name], positions, (name,))
            if not is_spelt:  # Nor were parts and names of dtypes put into it before.
                del self.errors[found:]
        # A group is no case, which would need conditions, and hide others that have them.
        return {**fields, "when": _BROKEN} if is_group else fields, positions

    def _value(self, node: Node, kind: Kind, positions: _Positions, path: Path) -> object:
        if kind.form == "model":
            return self._model(node, kind.models[0], positions, path)
        if kind.form == "worded":
            return self._worded(node, cast("tuple[type[Worded], ...]", kind.models))
        if kind.form == "list":
            return self._list(node, kind, positions, path)
        if kind.form == "table":
            return self._table(node, kind, positions, path)
        if kind.form == "bound" and isinstance(node, ScalarNode) and isinstance(node.value, float):
            return Num(node.value)
        if kind.form in ("expression", "bound"):
            return self._expression(node, parse_expression)
        if kind.form == "index":
            return self._expression(node, parse_index)
        if kind.form == "dim" and isinstance(node, ScalarNode):
            return self._dim(node, path)
        if kind.form == "default" and isinstance(node, ScalarNode) and isinstance(node.value, str):
            return self._expression(node, parse_default)
        if not isinstance(node, ScalarNode):
            expected = "one of " + ", ".join(kind.choices) if kind.choices else "one value"
            return self._wrong(WrongType(node.span, expected, _found(node)))
        if kind.form == "choice" and node.value not in kind.choices:
            return self._unknown_choice(node, kind, str(path[-1]))
        return node.value

    def _model(self, node: Node, model: type[SpecModel], outer: _Positions, path: Path) -> object:
        if not isinstance(node, MappingNode):
            value = node.value if isinstance(node, ScalarNode) else ()
            return self._wrong(no_fields(node.span, owner_of(model), _found(node), value))
        fields, positions = self._fields(node, model)
        positions[()] = outer.get(path, Position(node.span))
        return self._build(model, fields, positions, owner_of(model)) or _BROKEN

    def _list(self, node: Node, kind: Kind, positions: _Positions, path: Path) -> object:
        assert kind.item is not None
        if not isinstance(node, SequenceNode):
            if kind.alone:
                return self._value(node, kind.item, positions, path)
            if kind.choices and isinstance(node, ScalarNode):
                return self._value(node, Kind("choice", choices=kind.choices), positions, path)
            is_aliased = kind.item.form == "worded" and not issubclass(kind.item.models[0], Op)
            if isinstance(node, MappingNode) and path[-1] in EDITED:
                hint = f"Edits of a list are {listing(VERBS)}."
                return self._wrong(WrongType(node.span, "a list", _found(node), hint))
            value = node.value if isinstance(node, ScalarNode) else None
            return self._wrong(no_list(node.span, _found(node), value, is_aliased=is_aliased))
        items: list[object] = []
        for index, item in enumerate(node.items):
            positions[(*path, index)] = Position(item.span)
            value = self._value(item, kind.item, positions, (*path, index))
            if not isinstance(value, _Broken):
                items.append(value)
        is_counted = kind.item.form == "dim" or kind.choices  # a shape, or strides, with another rank
        is_lost = is_counted and len(items) < len(node.items)
        return tuple(items) if (items or not node.items) and not is_lost else _BROKEN

    def _table(self, node: Node, kind: Kind, positions: _Positions, path: Path) -> object:
        assert kind.item is not None and kind.key is not None
        if not isinstance(node, MappingNode):
            return self._wrong(no_table(node.span, _found(node), values_of(node), str(path[-1])))
        table: dict[str, object] = {}
        for entry in node.entries:
            positions[(*path, entry.key)] = Position(entry.value.span, entry.key_span)
            if kind.key.choices and entry.key not in kind.key.choices:
                self._unknown_choice(ScalarNode(entry.key, entry.key_span), kind.key, str(path[-1]))
                continue
            if (key := self._key(entry, kind.key)) is None:
                self.broken.add(entry.key)
                continue
            positions[(*path, key)] = Position(entry.value.span, entry.key_span)
            value = self._value(entry.value, kind.item, positions, (*path, key))
            if isinstance(value, _Broken):
                self.broken.add(key)
            elif key in table:
                first = next(one.key_span for one in node.entries if self._key(one, kind.key) == key)
                self.errors.append(DuplicateKey(entry.key_span, first, key))
            else:
                table[key] = value
        return table if table or not node.entries else _BROKEN

    def _key(self, entry: Entry, kind: Kind) -> str | None:
        """The name that a key is; None of none, which is reported."""
        if kind.form == "dim" and is_expression(entry.key):
            key = self._dim(ScalarNode(entry.key, entry.key_span), ())
            return key if isinstance(key, str) else None
        parts = entry.key.split(".", 1) if kind.dotted else [entry.key]
        problem = next(filter(None, map(name_problem, parts)), None)
        if kind.choices or not problem:
            return entry.key
        self.errors.append(BadName(entry.key_span, entry.key, problem))
        return None

    def _dim(self, node: ScalarNode, path: Path) -> object:
        """The name of a dim, which is the text of its size where that is written as an expression."""
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return self._wrong(NumberAsDim(node.span, str(node.value)))
        if not isinstance(node.value, str):
            return node.value
        try:
            size = expression_of_dim(node.value, node.span)
        except WavespecError as error:
            return self._wrong(error)
        if size is None or isinstance(size, Name):
            return node.value if size is None else size.name
        if path[:1] == ("shape",):
            self.sizes.setdefault(str(size), (size, node.span))
        return str(size)

    def _expression(self, node: Node, parse: Callable[[str, Span], Expression]) -> object:
        if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return Num(node.value, at=(0, node.span.end_column - node.span.column))
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._wrong(WrongType(node.span, "an integer or an expression", _found(node)))
        try:
            return parse(node.value, node.span)
        except WavespecError as error:
            return self._wrong(error)

    def _worded(self, node: Node, models: tuple[type[Worded], ...]) -> object:
        by_word = {model.word: model for model in models}
        is_op = issubclass(models[0], Op)
        if not isinstance(node, MappingNode) or not node.entries:
            example = "an op ('name: {op: ...}')" if is_op else "a constraint ('{word: ...}')"
            return self._wrong(WrongType(node.span, example, _found(node)))
        word = next((entry.key for entry in node.entries if entry.key in by_word), None)
        if word is None and is_op and len(node.entries) == 1:
            return self._named_op(node, by_word)
        if word is None:
            entry = node.entries[0]
            error = UnknownOp if is_op else UnknownConstraint
            return self._wrong(error(entry.key_span, entry.key, by_word))
        model = by_word[word]
        if issubclass(model, ValueOp):
            self.broken.add(ANY_NAME)
            written = next(entry for entry in node.entries if entry.key == word)
            below = written.value.entries if isinstance(written.value, MappingNode) else ()
            inner = next((entry.key for entry in below if entry.key in by_word), "")
            text = written.value.value if isinstance(written.value, ScalarNode) else ""
            formula = text if isinstance(text, str) and not text.isidentifier() else ""
            return self._wrong(MissingName(written.key_span, word, inner, formula))
        return self._words(node, model, None, None)

    def _named_op(self, node: MappingNode, by_word: dict[str, type[Worded]]) -> object:
        (entry,) = node.entries
        inner = entry.value
        self.broken.add(entry.key)
        if isinstance(inner, ScalarNode) and isinstance(inner.value, str):
            places: _Positions = {(): Position(node.span), ("name",): Position(entry.key_span, entry.key_span)}
            places |= {("text",): Position(inner.span), ("op",): Position(inner.span)}
            formula = self._build(Formula, {"name": entry.key, "text": inner.value}, places, "An expression")
            if formula is not None:
                self.broken.discard(entry.key)
            return formula or _BROKEN
        if not isinstance(inner, MappingNode) or not inner.entries:
            return self._wrong(WrongType(inner.span, "an op ('{op: ...}')", _found(inner)))
        word = next((e.key for e in inner.entries if e.key in by_word), None)
        if word is None:
            first = inner.entries[0]
            return self._wrong(UnknownOp(first.key_span, first.key, by_word))
        model = by_word[word]
        if not issubclass(model, ValueOp):
            return self._wrong(NamedEffect(entry.key_span, word, entry.key))
        built = self._words(inner, model, entry.key, entry.key_span)
        if not isinstance(built, _Broken):
            self.broken.discard(entry.key)
        return built

    def _words(self, node: MappingNode, model: type[Worded], name: str | None, name_span: Span | None) -> object:
        word = model.word
        kinds = field_kinds(model)
        fields, positions = self._fields(node, model, skip=word)
        head = next(entry for entry in node.entries if entry.key == word)
        positions[("op",)] = positions[("constraint",)] = Position(head.key_span)
        if name is not None and name_span is not None:
            fields["name"] = name
            positions[("name",)] = Position(name_span, name_span)
        if len(model.headline) == 1:
            field = model.headline[0]
            positions[(field,)] = Position(head.value.span, head.key_span)
            fields[field] = self._value(head.value, kinds[field], positions, (field,))
        elif not isinstance(head.value, SequenceNode) or len(head.value.items) != len(model.headline):
            count = len(head.value.items) if isinstance(head.value, SequenceNode) else 1
            return self._wrong(WrongOperandCount(head.value.span, word, model.headline, count))
        else:
            for field, item in zip(model.headline, head.value.items, strict=True):
                positions[(field,)] = Position(item.span)
                fields[field] = self._value(item, kinds[field], positions, (field,))
        built = self._build(model, fields, positions, f"'{word}'")
        # Without a part that is broken it would mean something else, which others would not fit.
        is_whole = not any(isinstance(value, _Broken) for value in fields.values())
        return built if built is not None and is_whole else _BROKEN

    def _build(
        self, model: type[_Model], fields: dict[str, object], positions: _Positions, owner: str
    ) -> _Model | None:
        broken = {name for name, value in fields.items() if isinstance(value, _Broken)}
        given = {name: value for name, value in fields.items() if name not in broken}
        try:
            built = model.model_validate(given)
        except ValidationError as error:
            self._report(model, error, broken, positions, owner)
            return None
        built.was_written_at(positions)
        return built

    def _report(
        self,
        model: type[SpecModel],
        error: ValidationError,
        broken: set[str],
        positions: _Positions,
        owner: str,
    ) -> None:
        seen: set[Path] = set()
        # Of a field of several types, what is wrong with a value of one of them, before that it is none of another.
        for problem in sorted(error.errors(include_url=False), key=lambda one: one["type"].endswith("_type")):
            location = problem["loc"]
            path: Path = ()
            for part in location:
                if (*path, part) in positions:
                    path = (*path, part)
            if (location and location[0] in broken) or (path and path in seen) or follows_from_others(problem):
                continue
            seen.add(path)
            if problem["type"] == "bad_name" and problem["input"] in self.broken and "name" not in path:
                continue
            field = next((part for part in reversed(path) if isinstance(part, str)), owner)  # of an item, its list
            self.errors.append(_problem_to_error(problem, positions[path], field, owner))
            if path:
                self.broken.add(str(path[-1]))

    def _unknown_choice(self, node: ScalarNode, kind: Kind, field: str) -> object:
        if not isinstance(node.value, str):
            return self._wrong(WrongType(node.span, "one of " + ", ".join(kind.choices), _found(node)))
        if kind.choices == DTYPES:
            return self._wrong(UnknownDtype(node.span, node.value, kind.choices))
        if kind.choices == TARGETS:
            return self._wrong(UnknownTarget(node.span, node.value, kind.choices))
        return self._wrong(UnknownValue(node.span, node.value, kind.choices, field))

    def _wrong(self, error: WavespecError) -> _Broken:
        self.errors.append(error)
        return _BROKEN


def _problem_to_error(problem: Mapping[str, Any], position: Position, field: str, owner: str) -> WavespecError:
    span = position.value
    if problem["type"] == "missing":
        span = position.key or _first_line(span)
    elif "[key]" in problem["loc"] and position.key:
        span = position.key
    return pydantic_to_error(problem, span, field, owner)


def _first_line(span: Span) -> Span:
    """A missing field is pointed at by the first line of its owner."""
    if span.end_line == span.line or span.source is None:
        return span
    return Span(span.file, span.line, span.column, span.line, span.column + 1, span.source)


def _found(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return describe(node.value)
