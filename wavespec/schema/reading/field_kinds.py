"""A spec model goes in; what YAML may write for each of its fields comes out."""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import IndexExpression
from wavespec.schema.language.names import Reference
from wavespec.schema.language.scalars import Default
from wavespec.schema.language.values import BoundExpression


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field holds, from its annotation."""

    form: Literal[
        "model", "worded", "expression", "index", "bound", "default", "dim", "list", "table", "choice", "scalar"
    ]
    models: tuple[type[SpecModel], ...] = ()
    choices: tuple[str, ...] = ()
    """The words that it may be; of a list those that may be in its place."""
    item: Kind | None = None
    key: Kind | None = None
    dotted: bool = False
    """Whether a name may have two parts, `loop.value`."""
    alone: bool = False
    """Whether a list of one item may be written as that."""


@cache
def field_kinds(model: type[SpecModel]) -> dict[str, Kind]:
    return {name: _annotation_to_kind(field.annotation) for name, field in model.model_fields.items()}


def _annotation_to_kind(annotation: Any) -> Kind:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation == Reference:
        return Kind("scalar", dotted=True)
    if annotation == DimName:
        return Kind("dim")
    if annotation == IndexExpression:
        return Kind("index")
    if annotation == BoundExpression:
        return Kind("bound")
    if annotation == Default:
        return Kind("default")
    if origin is Annotated:
        return _annotation_to_kind(arguments[0])
    if origin is Literal:
        return Kind("choice", choices=arguments)
    if origin in (Union, types.UnionType):
        members = [_annotation_to_kind(argument) for argument in arguments if argument is not type(None)]
        if all(member.form == "model" for member in members) and len(members) > 1:
            return Kind("worded", models=tuple(member.models[0] for member in members))
        lists = [member for member in members if member.form == "list"]
        if len(members) == 2 and lists and lists[0].item in members:
            return replace(lists[0], alone=True)
        words = [member for member in members if member.form == "choice"]
        if len(members) == 2 and lists and words:
            return replace(lists[0], choices=words[0].choices)
        return members[0] if len(members) == 1 else Kind("scalar")
    if origin is tuple:
        kinds = {_annotation_to_kind(argument): None for argument in arguments if argument is not Ellipsis}
        return Kind("list", item=next(iter(kinds)) if len(kinds) == 1 else Kind("scalar"))
    if origin is dict:
        return Kind("table", key=_annotation_to_kind(arguments[0]), item=_annotation_to_kind(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return Kind("model", models=(annotation,))
    if isinstance(annotation, type) and issubclass(annotation, Expression):
        return Kind("expression")
    return Kind("scalar")


def is_built_of_parts(kind: Kind) -> bool:
    """Its values were validated on their own, as models or expressions, before the kernel was."""
    return kind.form in ("model", "worded", "expression", "index", "bound") or (
        kind.item is not None and is_built_of_parts(kind.item)
    )
