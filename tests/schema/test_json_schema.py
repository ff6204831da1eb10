"""The JSON Schema accepts what the loader accepts, and underlines mistakes of form."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.specs import FAMILIES
from tests.specs import KERNELS as SPECS
from wavespec.schema.ops import OPS
from wavespec.schema.reading.json_schema import family_json_schema, json_schema
from wavespec.schema.reading.spec_to_yaml import dump_yaml

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture
def gemm() -> dict[str, Any]:
    from wavespec.schema import load

    return yaml.safe_load(dump_yaml(load(SPECS[0].parent / "gemm.wave.yaml")))


def test_schema_is_draft_2020_12_and_names_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"].endswith("2020-12/schema") and SCHEMA["$id"]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_specs_validate_as_written(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.name)
def test_families_validate_as_written(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(family_json_schema())
    validator.check_schema(family_json_schema())
    family = yaml.safe_load(path.read_text())
    validator.validate(family)
    for wrong in ({"pick": {"DTYPE": "type(a)"}}, {"parameters": {"DTYPE": ["f 16"]}}, {"extends": "x.yaml"}):
        assert not validator.is_valid({**family, **wrong})


def test_dumped_spec_validates(gemm: dict[str, Any]) -> None:
    VALIDATOR.validate(gemm)


BROKEN = {
    "unknown section": lambda s: s.update(parms={}),
    "missing name": lambda s: s.pop("name"),
    "missing tensor field": lambda s: s["tensors"]["a"].pop("dtype"),
    "unknown dtype": lambda s: s["tensors"]["a"].update(dtype="fp16"),
    "unknown tensor field": lambda s: s["tensors"]["a"].update(spce="shared"),
    "unknown op": lambda s: s["graph"].append({"x": {"mmma": ["a", "b", "c"]}}),
    "op without name": lambda s: s["graph"].append({"read": "a"}),
    "effect with name": lambda s: s["graph"].append({"x": {"write": "y", "to": "c"}}),
    "operand count": lambda s: s["graph"].append({"x": {"mma": ["a", "b"]}}),
    "too many operands": lambda s: s["graph"].append({"x": {"mma": ["a", "b", "c", "d"]}}),
    "unknown attribute": lambda s: s["graph"][0]["zero"].update(valu=1),
    "text as value": lambda s: s["graph"][0]["zero"].update(value="one"),
    "nested": lambda s: s["graph"][1]["k_loop"]["body"].append({"x": {"raed": "a"}}),
    "two names": lambda s: s["graph"].append({"x": {"read": "a"}, "y": {"read": "a"}}),
    "unknown constraint": lambda s: s["constraints"].append({"workgrup": "M", "tile": 1, "axis": 0}),
    "axis": lambda s: s["constraints"].append({"workgroup": "M", "tile": 1, "axis": 5}),
    "missing axis": lambda s: s["constraints"].append({"workgroup": "M", "tile": 1}),
    "hardware": lambda s: s["constraints"].append({"hardware": {"mmma": "auto"}}),
    "unknown target": lambda s: s.update(targets={"tpu": {}}),
    "target override": lambda s: s.update(targets={"cpu": {"param": {}}}),
    "param": lambda s: s["params"].update(X=1.5),
    "param name": lambda s: s["params"].update({"1x": 1}),
    "dim": lambda s: s["dims"].update(M=None),
    "negative": lambda s: s["dims"].update(M={"multiple_of": 0}),
    "version": lambda s: s.update(apiVersion="wavespec/v2"),
    "stages": lambda s: s.update(schedule={"stages": 99}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_spec_is_underlined(gemm: dict[str, Any], name: str) -> None:
    broken = copy.deepcopy(gemm)
    BROKEN[name](broken)
    assert not VALIDATOR.is_valid(broken)


def test_every_field_has_a_text_for_the_editor() -> None:
    for name, definition in [("Kernel", SCHEMA), *SCHEMA["$defs"].items()]:
        assert definition.get("description"), name
        for field, schema in definition.get("properties", {}).items():
            assert schema.get("description"), f"{name}.{field}"


def test_every_op_can_be_completed() -> None:
    words = {next(iter(d["properties"])) for d in SCHEMA["$defs"].values() if "properties" in d}
    assert set(OPS) <= words


EXTENDING: dict[str, Any] = {
    "apiVersion": "wavespec/v1",
    "kind": "Kernel",
    "extends": "gemm.wave.yaml",
    "dims": {"remove": ["M"]},
    "tensors": {"remove": ["a"], "k": {"shape": ["M"]}},
    "params": {"remove": ["X"], "BLOCK": 3},
    "graph": {"replace": {"x": "y + 1", "z": {"read": "k"}}, "change": {"k_loop": {"end": 3}}, "remove": ["b"]},
    "constraints": {"after": {"hardware": [{"assume": "M > 3"}]}},
    "targets": {
        "remove": ["cpu"],
        "gfx950": {"like": "gfx942", "cases": {"change": {"case 1": {"params": {"BLOCK": 3}}}}},
    },
    "parts": {"p": {"inputs": ["x"], "outputs": ["y"], "body": [{"y": "x + 1"}]}},
    "let": {"one": 1, "next": "N + 1", "place": {"N": "next"}, "rows": [{"tiling": "K", "tile": "BLOCK"}]},
}


def test_edits_parts_and_aliases_validate() -> None:
    VALIDATOR.validate(EXTENDING)
    VALIDATOR.validate({**EXTENDING, "graph": [{"x": {"part": "p", "x": "y"}}]})
    VALIDATOR.validate({**EXTENDING, "constraints": "rows", "targets": {"cpu": {"constraints": "rows"}}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"graph": {"replaced": {"x": "y"}}},
        {"graph": {"after": {"x": {"y": "z + 1"}}}},
        {"graph": {"remove": "x"}},
        {"constraints": {"replace": {"workgroup M": {"workgruop": "M"}}}},
        {"targets": {"gfx950": {"like": "gfx94"}}},
        {"parts": {"p": {"inputs": ["x"]}, "q": {"bdy": []}}},
        {"let": {"x": [1]}},
        {"dims": {"remove": "M"}},
    ],
)
def test_malformed_edits_do_not_validate(wrong: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**EXTENDING, **wrong})


def test_edits_without_a_base_do_not_validate(gemm: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**gemm, "graph": {"remove": ["x"]}})
