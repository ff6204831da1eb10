"""What declarations promise: constants by their names, groups, and traits that the rest of a declaration bears out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, get_args

import pytest

from wavespec.ir import attribute_keys, thread_ops, tile_ops
from wavespec.ir.declarations import Declaration, Kind, Trait
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import LOAD, MMA, PURE, STORE

EVERY = [*tile_ops.TILE_OPS.all(), *thread_ops.THREAD_OPS.all()]
MAKES_VALUES = (Trait.PURE, Trait.MOVES, Trait.ACROSS)
KIND_NEEDED = {
    Trait.ACROSS: ("dim", Kind.TEXT),
    Trait.READS_MEMORY: ("memory", Kind.MEMORY),
    Trait.WRITES_MEMORY: ("memory", Kind.MEMORY),
    Trait.FILLS: ("memory", Kind.MEMORY),
    Trait.NAMES_A_SYMBOL: ("symbol", Kind.SYMBOL),
}

TYPES: dict[str, tuple[Kind, ...]] = {
    "Text": (Kind.TEXT, Kind.MEMORY, Kind.SYMBOL),
    "Integer": (Kind.INTEGER,),
    "Number": (Kind.INTEGER, Kind.NUMBER),
    "Flag": (Kind.FLAG,),
    "Expression": (Kind.EXPRESSION,),
    "Extent": (Kind.EXTENT,),
    "Mask": (Kind.MASK,),
    "Places": (Kind.PLACES,),
    "Expressions": (Kind.EXPRESSIONS,),
    "Names": (Kind.NAMES,),
    "Numbers": (Kind.NUMBERS,),
    "Layout": (Kind.LAYOUT,),
    "Table": (Kind.TABLE,),
}


def called(one: Declaration) -> str:
    return f"{one.level} {one.name}"


@pytest.mark.parametrize("one", EVERY, ids=called)
def test_each_operation_has_a_constant_of_its_name(one: Declaration) -> None:
    module = tile_ops if one.level == "tile" else thread_ops
    assert getattr(module, one.name.upper()) is one


def test_an_operation_is_asked_what_it_is() -> None:
    load = Op("load")
    assert load.is_(LOAD) and load.is_(STORE, LOAD) and load.is_(PURE | LOAD)
    assert not load.is_(STORE) and not load.is_(PURE, MMA)


@pytest.mark.parametrize("one", EVERY, ids=called)
def test_traits_are_borne_out_by_the_rest_of_a_declaration(one: Declaration) -> None:
    memories = [key for key, attribute in one.attributes.items() if attribute.kind is Kind.MEMORY]
    if Trait.PURE in one.traits:
        assert not memories and not one.has_region
    if one.traits.intersection(MAKES_VALUES):
        assert one.results[0] >= 1
    if Trait.MOVES in one.traits:
        assert Trait.PURE in one.traits and one.operands[0] >= 1
    if Trait.WRITES_MEMORY in one.traits:
        assert one.operands[0] >= 1
    for trait, (key, kind) in KIND_NEEDED.items():
        if trait in one.traits:
            assert one.attributes[key].kind is kind and key in one.needed


def test_the_type_checker_knows_the_kinds_of_attributes() -> None:
    kinds: dict[str, set[Kind]] = defaultdict(set)
    for one in EVERY:
        for key, attribute in one.attributes.items():
            kinds[key].add(attribute.kind)
    expected: dict[str, set[str]] = {name: set() for name in (*TYPES, "Mixed")}
    for key, found in kinds.items():
        names = [name for name, held in TYPES.items() if found <= set(held)]
        expected[names[0] if names else "Mixed"].add(key)
    actual: dict[str, Any] = {name: set(get_args(getattr(attribute_keys, name))) for name in expected}
    assert actual == expected
