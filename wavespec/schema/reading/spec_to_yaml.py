"""A `KernelSpec` goes in; the YAML a person would write for it comes out, and loads back to an equal spec."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from wavespec.schema.language.base import SpecModel, Worded
from wavespec.schema.language.constraints import CONSTRAINTS
from wavespec.schema.language.dim_names import is_expression
from wavespec.schema.language.expressions import Expression, expression_to_data
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.ops import Formula, ValueOp
from wavespec.schema.reading.tuned import TunedSpec
from wavespec.schema.reading.yaml_source import plain_to_value

_WIDTH = 110
_BLANK_BEFORE = (
    "parameters",
    "template",
    "dims",
    "tensors",
    "scalars",
    "constraints",
    "graph",
    "schedule",
    "targets",
    "workloads",
)
_CONSTRAINT_WORDS = {constraint.word for constraint in CONSTRAINTS}
_PLAIN_START = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`]|-[^\s,\[\]{}]")

_ALWAYS_SAID: Final = object()

Data = str | int | float | list["Data"] | dict[str, "Data"]


def dump_yaml(spec: KernelSpec | FamilySpec | TunedSpec) -> str:
    """The YAML text of `spec`, with everything that `extends` brought in written out."""
    return data_to_yaml(spec_to_data(spec))


def data_to_yaml(data: Mapping[str, Data]) -> str:
    """The YAML text of plain data, as `spec_to_data` gives it."""
    lines: list[str] = []
    for name, value in data.items():
        if name in _BLANK_BEFORE:
            lines.append("")
        if name == "doc" and isinstance(value, str) and _is_literal_block(value):
            chomp = "" if value.endswith("\n") else "-"
            text = value.removesuffix("\n").split("\n")
            lines += [f"doc: |{chomp}", *(f"  {line}" if line else "" for line in text)]
        elif name == "template" and isinstance(value, str) and value.strip():
            lines += _template_block(value)
        elif isinstance(value, dict | list) and value and name != "schedule":
            lines += [f"{name}:", *_block(value, 2)]
        else:
            lines.append(f"{name}: {_scalar_or_flow(value, in_flow=False)}")
    return "\n".join(lines) + "\n"


def spec_to_data(model: SpecModel) -> dict[str, Data]:
    """The model as the plain data of its YAML form; fields at their defaults are left out."""
    data: dict[str, Data] = {}
    defaults = _defaults(type(model))
    names = tuple(defaults)
    if isinstance(model, Formula):
        return {model.name: model.text}
    if isinstance(model, Worded):
        head = [_to_data(getattr(model, field)) for field in model.headline]
        data[model.word] = head if len(head) > 1 else head[0]
        names = model.surface_fields()
    for name in names:
        value = getattr(model, name)
        if name == "dims" and isinstance(model, KernelSpec):
            value = _said_dims(model.dims)
        if value != defaults[name]:
            data[name] = _to_data(value)
    return {model.name: data} if isinstance(model, ValueOp) else data


@cache
def _defaults(model: type[SpecModel]) -> dict[str, Any]:
    """By field, what is left out; of one that has to be there, what no value equals."""
    return {
        name: _ALWAYS_SAID if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
    }


def _said_dims(dims: Mapping[str, Dim]) -> dict[str, Dim]:
    """The dims without what shapes say of them."""
    said = {name: dim.model_copy(update={"equals": None}) if is_expression(name) else dim for name, dim in dims.items()}
    return {name: dim for name, dim in said.items() if not is_expression(name) or dim != Dim()}


def _to_data(value: object) -> Data:
    if isinstance(value, SpecModel):
        return spec_to_data(value)
    if isinstance(value, Expression):
        return expression_to_data(value)
    if isinstance(value, tuple):
        return [_to_data(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, dict):
        return {key: _to_data(item) for key, item in cast("dict[str, object]", value).items()}
    assert isinstance(value, str | int | float)
    return value


def _block(value: dict[str, Data] | list[Data], indent: int) -> list[str]:
    pad = " " * indent
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            if _fits(item, indent + 2) and not _is_named(item):
                lines.append(f"{pad}- {_scalar_or_flow(item, in_flow=False)}")
                continue
            # The first line of the item moves up behind its dash.
            first, *rest = _block(cast("dict[str, Data]", item), indent + 2)
            lines += [f"{pad}- {first.lstrip()}", *rest]
        return lines
    for key, item in value.items():
        if _fits(item, indent + len(key) + 2):
            lines.append(f"{pad}{_key(key)}: {_scalar_or_flow(item, in_flow=False)}")
        else:
            lines += [f"{pad}{_key(key)}:", *_block(cast("dict[str, Data]", item), indent + 2)]
    return lines


def _is_named(value: Data) -> bool:
    """`name: {op: ...}` or `name: expression`, which is written without outer braces."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((key, inner),) = value.items()
    return isinstance(inner, dict | str) and key not in _CONSTRAINT_WORDS


def _fits(value: Data, indent: int) -> bool:
    """Short enough for one line, and not a list of statements."""
    if not isinstance(value, dict | list) or not value:
        return True
    return not _has_statements(value) and indent + len(_scalar_or_flow(value, in_flow=True)) <= _WIDTH


def _has_statements(value: Data) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and any(_has_statements(item) for item in value.values())


def _scalar_or_flow(value: Data, *, in_flow: bool) -> str:
    if isinstance(value, dict):
        items = (f"{_key(key)}: {_scalar_or_flow(item, in_flow=True)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_scalar_or_flow(item, in_flow=True) for item in value) + "]"
    if isinstance(value, str):
        return value if _is_plain(value, in_flow) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _key(text: str) -> str:
    return text if _is_plain(text, in_flow=True) else json.dumps(text)


def _is_plain(text: str, in_flow: bool) -> bool:
    if not _PLAIN_START.match(text) or not text.isprintable() or text != text.strip():
        return False
    if ": " in text or " #" in text or text.endswith(":") or (in_flow and re.search(r"[,\[\]{}:]", text)):
        return False
    try:
        return plain_to_value(text) == text
    except OverflowError:
        return False


def _template_block(text: str) -> list[str]:
    """A literal block, whatever the lines of the text begin and end with."""
    indent = "2" if text[0] in " \t\n" else ""
    body = text.removesuffix("\n")
    chomp = "-" if body == text else "+" if not body or body.endswith("\n") else ""
    return [f"template: |{indent}{chomp}", *(f"  {line}" if line else "" for line in body.split("\n"))]


def _is_literal_block(text: str) -> bool:
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and all(line == line.strip() and line.isprintable() for line in lines)
        and bool(lines[0] and lines[-1])
    )
