"""A source of random numbers goes in; a valid spec that says nothing of how work is split comes out."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import yaml

from tests.fuzz.flat import elementwise, mapped, taken
from tests.fuzz.graph import Graph, RandomSpec, Value, declared, spec_text, types_of
from tests.fuzz.products import chain, product
from tests.fuzz.rows import extremes, reductions, scans

_OF_TILES = ("workgroup", "wave", "tiling", "device")
_STARTS = {"sum": 0, "max": -100, "min": 100}
_ORDERS = {2: ("HW", "WH"), 3: ("DHW", "WHD", "HDW", "HWD")}
"""Of what a loop in a loop joins, as a reduction names it."""
_SIZES_OF_NESTS: tuple[dict[str, int], ...] = (
    {"B": 3, "D": 3, "H": 5, "W": 67},
    {"B": 1, "D": 1, "H": 1, "W": 1},
    {"B": 2, "D": 2, "H": 67, "W": 3},
    {"B": 2, "D": 2, "H": 17, "W": 260},
    {"B": 1, "D": 1, "H": 131, "W": 504},
    {"B": 0, "D": 1, "H": 3, "W": 5},
    {"B": 2, "D": 1, "H": 0, "W": 5},
)


def nested(random: Random, whole: bool) -> RandomSpec:
    """Sums, and other reductions, of a loop in a loop, maybe of two of them, and rows made of what they found."""
    read, compute = types_of(random, whole)
    graph, loops = Graph(random, whole), random.choice(("HW", "HW", "DHW"))
    order = [*"B", *loops]
    random.shuffle(order)
    dims = "".join(order) if random.random() < 0.5 else "B" + loops
    words: list[str] = random.sample(("sum", "sum", "max", "min"), random.randrange(1, 4))
    along = random.choice(_ORDERS[len(loops)])
    found: list[Value] = []
    for number in range(random.randrange(1, 3)):
        names = [f"t{place}" for place in range(len(words))]
        starts = {name: graph.register("B", compute, _STARTS[word]) for name, word in zip(names, words, strict=True)}
        _nest(graph, f"l{number}", loops, starts, (dims, along, words, read, compute), found)
        bound = 2000 if whole else 10
        found += [Value(f"l{number}{loops[0]}.{name}", "B", compute, bound) for name in names]
    values = graph.some(found, compute, 2)
    graph.write(values[-1], "r")
    tensors = [*declared({"x": dims}, read), *declared({"r": "B"}, compute, output=True)]
    if random.random() < 0.5:
        _again(graph, loops, dims, (read, compute), values)
        tensors += declared({"y": dims}, compute, output=True)
    sizes = _SIZES_OF_NESTS if whole else _SIZES_OF_NESTS[:3]
    text = spec_text(f"{{{', '.join(f'{dim}: {{}}' for dim in dims)}}}", tensors, [], graph)
    return RandomSpec(text, whole, tuple({dim: one[dim] for dim in dims} for one in sizes))


def _nest(
    graph: Graph,
    name: str,
    loops: str,
    starts: dict[str, str],
    what: tuple[str, str, list[str], str, str],
    found: list[Value],
) -> None:
    dims, along, words, read, compute = what
    loop = f"{name}{loops[0]}"
    with graph.loop(loop, loops[0], starts):
        if len(loops) > 1:
            _nest(graph, name, loops[1:], {one: one for one in starts}, what, found)
            for one in starts:
                graph.op(f"{one}: {name}{loops[1]}.{one}", name=False)
            return
        made = graph.whole_tiles(graph.some([*graph.reads({"x": dims}, read, compute), *found], compute, 2), dims)
        for one, word in zip(starts, words, strict=True):
            part = graph.random.choice([value for value in made if value.bound <= 9] or made[:1])
            graph.op(f"{one}: {{{word}: {part.name}, dim: [{', '.join(along)}], init: {one}}}", name=False)


def _again(graph: Graph, loops: str, dims: str, types: tuple[str, str], values: list[Value]) -> None:
    with graph.loop(f"again{loops[0]}", loops[0], {}):
        if len(loops) > 1:
            _again(graph, loops[1:], dims, types, values)
            return
        given = [*graph.reads({"x": dims}, *types), *values]
        graph.write(graph.whole_tiles(graph.some(given, types[1], 2), dims)[-1], "y")


FORMS = (nested, nested, nested, reductions, reductions, scans, extremes, product, chain, elementwise, mapped, taken)


def planned_spec(random: Random) -> RandomSpec:
    """A spec of one of the forms, in random types, without a tile."""
    return without_tiles(random.choice(FORMS)(random, random.random() < 0.6))


def without_tiles(one: RandomSpec) -> RandomSpec:
    """The spec with what is computed alone."""
    data = yaml.safe_load(one.text)
    constraints: list[dict[str, Any]] = data.pop("constraints", None) or []
    kept = [one for one in constraints if not {*_OF_TILES} & {*one}]
    data.pop("schedule", None)
    for tensor in data["tensors"].values():
        tensor.pop("space", None)
    return replace(one, text=yaml.safe_dump(data | ({"constraints": kept} if kept else {}), sort_keys=False))
