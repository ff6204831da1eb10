"""The models go in; the JSON Schema of their YAML comes out, for editors to complete and underline."""

from __future__ import annotations

from typing import Any

from wavespec.schema.language.base import Worded
from wavespec.schema.language.constraints import CONSTRAINTS
from wavespec.schema.language.dtype_parameters import DERIVED, TYPE_NAME_PATTERN
from wavespec.schema.language.dtypes import DTYPES
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.language.names import NAME_PATTERN
from wavespec.schema.ops import OPS, ValueOp
from wavespec.schema.reading.extending_schema import allow_extending_family, allow_extends
from wavespec.schema.reading.field_docs import with_field_docs

SCHEMA_ID = "urn:wavespec:v1:kernel"
FAMILY_SCHEMA_ID = "urn:wavespec:v1:family"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ALIASED = ("at", "cases", "constraints", "registers", "waves", "workgroups")
"""Fields that are cases, constraints, or mappings of numbers and places, for which an alias may stand."""

Schema = dict[str, Any]


def json_schema() -> Schema:
    """Draft 2020-12, one document; every description is the docstring of the model or field."""
    root = with_field_docs(KernelSpec.model_json_schema(), KernelSpec)
    definitions: Schema = root.pop("$defs")
    for model in (*CONSTRAINTS, *OPS.values()):
        definitions[model.__name__] = _worded(model, definitions[model.__name__])
    definitions["Constraint"] = {
        "description": "How the work is split: one of the constraints.",
        "anyOf": [_reference(model) for model in CONSTRAINTS],
    }
    definitions["Statement"] = _statement()
    plan: Schema = definitions["WorkgroupSchedule"]["properties"]
    definitions["WorkgroupSchedule"]["properties"] = {name: _of_types(field) for name, field in plan.items()}
    for fields in (root["properties"], *(one.get("properties", {}) for one in definitions.values())):
        fields |= {name: _or_alias(fields[name]) for name in _ALIASED if name in fields}
    schema: Schema = _surface({**root, "$defs": definitions})
    schema["properties"] = _with_dtypes(schema["properties"])
    allow_extends(schema)
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema}


def family_json_schema() -> Schema:
    """The same for files with `kind: Family`, whose template is text to an editor."""
    schema: Schema = _surface(with_field_docs(FamilySpec.model_json_schema(), FamilySpec))
    allow_extending_family(schema)
    return {"$schema": _DIALECT, "$id": FAMILY_SCHEMA_ID, **schema}


def _or_alias(field: Schema) -> Schema:
    """What is there, or the name that `let` gives it."""
    said = {key: value for key, value in field.items() if key in ("description", "default")}
    rest = {key: value for key, value in field.items() if key not in said}
    return {"anyOf": [rest, {"type": "string", "pattern": NAME_PATTERN}], **said}


def _of_types(field: Schema) -> Schema:
    """A whole number, or what is one for each element type, as in `split: bits(T) // 8`, before anything reads it."""
    if field.get("type") != "integer":
        return field
    said = {key: value for key, value in field.items() if key in ("description", "default")}
    number = {key: value for key, value in field.items() if key not in (*said, "title")}
    return {"anyOf": [number, {"type": "string", "pattern": r"\bbits\s*\("}], **said}


def _worded(model: type[Worded], schema: Schema) -> Schema:
    """`{op: mma, lhs: ..., rhs: ..., acc: ...}` of the model becomes `{mma: [lhs, rhs, acc]}`."""
    properties: Schema = schema["properties"]
    heads = [properties[field] for field in model.headline]
    head: Schema = dict(heads[0])
    if len(heads) > 1:
        head = {
            "type": "array",
            "prefixItems": heads,
            "items": False,
            "minItems": len(heads),
            "description": f"{', '.join(model.headline)}.",
        }
    fields = model.surface_fields()
    required = [name for name in schema.get("required", []) if name in fields]
    return {
        "type": "object",
        "description": schema["description"],
        "properties": {model.word: head, **{name: properties[name] for name in fields}},
        "required": [model.word, *required],
        "additionalProperties": False,
    }


def _statement() -> Schema:
    named = [_reference(op) for op in OPS.values() if issubclass(op, ValueOp)]
    effects = [_reference(op) for op in OPS.values() if not issubclass(op, ValueOp)]
    words = sorted(OPS)
    return {
        "description": "`name: {op: operands, field: value}`, or an effect, which has no name.",
        "anyOf": [
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "propertyNames": {"pattern": NAME_PATTERN, "not": {"enum": words}},
                "additionalProperties": {"anyOf": [{"type": "string", "minLength": 1}, *named]},
            },
            *effects,
        ],
    }


def _surface(schema: Any) -> Any:
    """Everywhere: unions of models become the definitions made above, names may stand for element types, and titles go,
    which say nothing."""
    if isinstance(schema, list):
        return [_surface(item) for item in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    mapping: Schema = schema  # pyright: ignore[reportUnknownVariableType]
    if "discriminator" in mapping:
        union = "Statement" if mapping["discriminator"]["propertyName"] == "op" else "Constraint"
        rest = {key: value for key, value in mapping.items() if key in ("description", "default")}
        return {"$ref": f"#/$defs/{union}", **rest}
    if "enum" in mapping and set(mapping["enum"]) <= set(DTYPES):
        named = {"type": "string", "pattern": TYPE_NAME_PATTERN}
        rest = {key: value for key, value in mapping.items() if key not in ("enum", "type", "title")}
        return {"anyOf": [{"type": "string", "enum": mapping["enum"]}, named], **rest}
    if "patternProperties" in mapping:
        mapping = {**mapping, "additionalProperties": False}
    return {key: _surface(value) for key, value in mapping.items() if not (key == "title" and isinstance(value, str))}


def _with_dtypes(properties: Schema) -> Schema:
    """With the names for element types, which stand in front of everything that may have one of them."""
    one_of = {"type": "array", "items": {"enum": list(DTYPES)}, "minItems": 1, "uniqueItems": True}
    follows = {"type": "string", "pattern": rf"^({'|'.join(DERIVED)})\([A-Z][A-Za-z0-9_]*\)$"}
    dtypes: Schema = {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {TYPE_NAME_PATTERN: {"anyOf": [one_of, follows]}},
        "additionalProperties": False,
        "description": (
            "Names for element types: each one of several, by the tensors of a call, or what follows from another. "
            "There is a kernel for each; the first types are those of the kernel by itself."
        ),
    }
    return {
        key: value
        for name, declared in properties.items()
        for key, value in ((("dtypes", dtypes), (name, declared)) if name == "dims" else ((name, declared),))
    }


def _reference(model: type[Worded]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}
