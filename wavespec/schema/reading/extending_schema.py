"""The JSON Schema of whole kernels goes in; that of files that extend others, and have parts and aliases, comes out."""

from __future__ import annotations

from typing import Any

from wavespec.schema.language.names import NAME_PATTERN
from wavespec.targets.names import TARGETS

Schema = dict[str, Any]

_NAMES: Schema = {"type": "array", "items": {"type": "string"}}
_EDITED = {"graph": "Statement", "constraints": "Constraint", "cases": "Case"}
_DOCS = {
    "extends": "A spec to start from: a relative path inside the project. This file goes over it.",
    "member": "Where `extends` names a family: values of its parameters that tell one of its members from the others.",
    "let": "Names for expressions, mappings, constraints and cases, which stand for these in the rest of the spec.",
    "called": "What edits of a spec that extends this one call it by: `change: {few_queries: {...}}`.",
    "group": "Of a group: cases that have its conditions in front of theirs, if they have some, and all else that it "
    "says under what they say.",
    "parts": "Statements with inputs and outputs, which a graph uses as often as it likes: "
    "`name: {part: online_softmax, scores: products}`.",
    "like": "Another target, whose settings these go over.",
    "edits": "Changes of a list of the extended spec, by the names of its items.",
    "part": "Statements that take the place of each use of the part.",
    "use": "The statements of a part, with what is here in the place of its inputs; `name.output` is a result.",
    "inputs": "What each use gives: values, expressions, dims.",
    "outputs": "Values of the body that are seen outside, as `name.output`.",
}


def allow_extends(schema: Schema) -> None:
    """A spec that extends another may leave out whatever that one says, and edit it; else everything is required."""
    properties, definitions = schema["properties"], schema["$defs"]
    tensor, scalar = definitions["Tensor"], definitions["Scalar"]
    whole: Schema = {
        "required": schema["required"],
        "properties": {
            "tensors": {"additionalProperties": {"required": tensor.pop("required")}},
            "scalars": {"additionalProperties": {"required": scalar.pop("required")}},
            "constraints": {"type": ["array", "string"]},
            "graph": {"type": "array"},
        },
    }
    schema["required"] = ["apiVersion", "kind"]
    properties["extends"] = {"type": "string", "pattern": r"\.wave\.yaml$", "description": _DOCS["extends"]}
    properties["member"] = _named({"type": ["integer", "string"]}, _DOCS["member"])
    lists = [{"type": "array", "items": {"$ref": f"#/$defs/{one}"}} for one in ("Constraint", "Case")]
    properties["let"] = _named({"anyOf": [{"type": ["number", "string", "object"]}, *lists]}, _DOCS["let"])
    properties["parts"] = _named({"$ref": "#/$defs/Part"}, _DOCS["parts"])
    definitions["TargetOverride"]["properties"]["like"] = {"enum": list(TARGETS), "description": _DOCS["like"]}
    _add_parts(definitions)
    for owner in (schema, definitions["TargetOverride"], definitions["Case"], definitions["Part"]):
        _allow_edits(owner, definitions)
    _allow_groups(definitions)
    _allow_removal(schema)
    schema["if"] = {"required": ["extends"]}
    schema["else"] = whole


def allow_extending_family(schema: Schema) -> None:
    """A family that extends another may leave out its parameters and its template, and edit the mappings."""
    schema["required"].remove("parameters")
    schema["if"] = {"required": ["extends"]}
    schema["else"] = {"required": ["parameters", "template"]}
    for field in ("parameters", "pick"):
        table: Schema = schema["properties"][field]
        ((pattern, one),) = table.pop("patternProperties").items()
        table["patternProperties"] = {pattern.replace("^", "^(?!remove$)", 1): one}
        table["properties"] = {"remove": {"anyOf": [_NAMES, one]}}


def _add_parts(definitions: Schema) -> None:
    definitions["Part"] = {
        "type": "object",
        "description": _DOCS["part"],
        "properties": {
            "doc": {"type": "string", "description": "What it computes."},
            "inputs": {**_NAMES, "description": _DOCS["inputs"]},
            "outputs": {**_NAMES, "description": _DOCS["outputs"]},
            "body": {
                "type": "array",
                "items": {"$ref": "#/$defs/Statement"},
                "minItems": 1,
                "description": "The statements; names that are neither theirs nor inputs mean what they do at the use.",
            },
        },
        "additionalProperties": False,
    }
    definitions["PartUse"] = {
        "type": "object",
        "description": _DOCS["use"],
        "properties": {"part": {"type": "string", "pattern": NAME_PATTERN, "description": "Its name."}},
        "required": ["part"],
    }
    definitions["Statement"]["anyOf"][0]["additionalProperties"]["anyOf"].append({"$ref": "#/$defs/PartUse"})


def _allow_edits(owner: Schema, definitions: Schema) -> None:
    for field, item in {**_EDITED, "body": "Statement"}.items():
        if (written := owner["properties"].get(field)) is None:
            continue
        edits = f"{item}Edits"
        definitions.setdefault(edits, _edits(item))
        kept = {key: written.pop(key) for key in ("description", "default") if key in written}
        lists = written.pop("anyOf", None) or [dict(written)]
        written.clear()
        written |= {**kept, "anyOf": [*lists, {"$ref": f"#/$defs/{edits}"}]}


def _allow_groups(definitions: Schema) -> None:
    """Cases may have names, and may be groups, of which those inside need no conditions of their own."""
    case: Schema = definitions["Case"]
    inner: Schema = {"type": "array", "items": {"$ref": "#/$defs/Case"}, "minItems": 1}
    lists = [inner, {"type": "string", "pattern": NAME_PATTERN}, {"$ref": "#/$defs/CaseEdits"}]
    case["properties"]["name"] = {"type": "string", "pattern": NAME_PATTERN, "description": _DOCS["called"]}
    case["properties"]["cases"] = {"description": _DOCS["group"], "anyOf": lists}
    del case["required"]


def _edits(item: str) -> Schema:
    # Of a statement, what stands behind its name.
    one: Schema = {"type": ["string", "object"]} if item == "Statement" else {"$ref": f"#/$defs/{item}"}
    added = {"type": "object", "additionalProperties": {"type": "array", "items": {"$ref": f"#/$defs/{item}"}}}
    return {
        "type": "object",
        "description": _DOCS["edits"],
        "properties": {
            "replace": {"type": "object", "additionalProperties": one, "description": "Items to put in their places."},
            "change": {
                "type": "object",
                "additionalProperties": {"type": "object"},
                "description": "Fields that go over those of the items, key by key.",
            },
            "before": {**added, "description": "Items to put in front of them."},
            "after": {**added, "description": "Items to put behind them."},
            "remove": {**_NAMES, "description": "Items to leave out."},
        },
        "minProperties": 1,
        "additionalProperties": False,
    }


def _allow_removal(schema: Schema) -> None:
    """`remove: [name]` in mappings that a base may have, beside a dim or tensor that may be called so."""
    for field in ("dims", "params", "tensors", "scalars"):
        table: Schema = schema["properties"][field]
        ((pattern, one),) = table.pop("patternProperties").items()
        table["patternProperties"] = {pattern.replace("^", "^(?!remove$)", 1): one}
        table["properties"] = {"remove": {"anyOf": [_NAMES, one]}}
    targets: Schema = schema["properties"]["targets"]
    targets["properties"] = {"remove": _NAMES}
    targets["propertyNames"]["enum"] = [*targets["propertyNames"]["enum"], "remove"]


def _named(value: Schema, description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": value,
    }
