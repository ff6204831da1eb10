"""A spec of the project goes in; one that differs in a few nodes comes out: most have a mistake, some build."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, Final

import yaml

from tests.specs import FAMILIES, KERNELS
from wavespec.schema.families.load_family import loads_family
from wavespec.schema.language.dtypes import DTYPES
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.names import TARGETS
from wavespec.yaml_loader import read_data

NUMBERS: Final = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 24, 32, 48, 64, 96, 100, 128, 160, 192, 256, 512, 1024, 1 << 20, -1)
SCHEDULES: Final[tuple[dict[str, Any], ...]] = (
    {"stages": 1},
    {"stages": 2},
    {"stages": 3},
    {"stages": 4, "waves": {"producers": 1}},
    {"waves": {"producers": 1}},
    {"waves": {"ping_pong": True}},
    {"workgroups": {"persistent": True}},
    {"workgroups": {"persistent": True, "count": 7}},
    {"workgroups": {"split": 2}},
    {"workgroups": {"group": 4}},
    {"workgroups": {"cluster": {"M": 2}}},
    {"workgroups": {"chiplets": True}},
    {"auto": "modulo", "stages": 2},
    {"auto": "modulo", "stages": 1},
    {"auto": "prefetch"},
    {"unroll": 2},
)
SPACES: Final = ("global", "shared", "streamed")
ROLES: Final = ("input", "output", "inout")
Tree = Any
Path = tuple[Any, ...]


@cache
def bases() -> list[Tree]:
    """The specs of the project and two members of each family, as plain data; nobody changes them."""
    texts = [path.read_text(encoding="utf-8") for path in KERNELS]
    for path in FAMILIES:
        family = loads_family(path.read_text(encoding="utf-8"), path.name, path.parent)
        texts += [dump_yaml(member.spec) for member in family.members[:2]]
    return list(map(read_data, texts))


def mutated_spec(random: Random) -> str:
    """The text of a spec with one to four nodes changed."""
    tree = copy.deepcopy(random.choice(bases()))
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        random.choice(_MUTATIONS)(tree, random)
    return yaml.safe_dump(tree, sort_keys=False, width=110)


def nodes(tree: Tree, at: Path = ()) -> Iterator[tuple[Path, Tree]]:
    """Every node below the top with its path."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*at, key), value
        yield from nodes(value, (*at, key))


def parent(tree: Tree, path: Path) -> Tree:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def _pick(tree: Tree, random: Random, *kinds: type) -> Path | None:
    paths = [path for path, value in nodes(tree) if not kinds or type(value) in kinds]
    return random.choice(paths) if paths else None


def _delete(tree: Tree, random: Random) -> None:
    if path := _pick(tree, random):
        del parent(tree, path)[path[-1]]


def _duplicate(tree: Tree, random: Random) -> None:
    lists = [value for _, value in nodes(tree) if isinstance(value, list) and value]
    if lists:
        items = random.choice(lists)
        items.insert(random.randrange(len(items) + 1), copy.deepcopy(random.choice(items)))


def _permute(tree: Tree, random: Random) -> None:
    lists = [value for _, value in nodes(tree) if isinstance(value, list) and len(value) > 1]
    if lists:
        random.shuffle(random.choice(lists))


def _swap(tree: Tree, random: Random) -> None:
    first, second = _pick(tree, random), _pick(tree, random)
    if first and second and first[: len(second)] != second and second[: len(first)] != first:
        a, b = parent(tree, first), parent(tree, second)
        a[first[-1]], b[second[-1]] = b[second[-1]], a[first[-1]]


def _rename(tree: Tree, random: Random) -> None:
    """One word in place of another of the same spec."""
    words = [value for _, value in nodes(tree) if isinstance(value, str) and value.isidentifier()]
    if (path := _pick(tree, random, str)) and words:
        parent(tree, path)[path[-1]] = random.choice(words)


def _rename_key(tree: Tree, random: Random) -> None:
    tables = [value for _, value in nodes(tree) if isinstance(value, dict) and value]
    if tables:
        table = random.choice(tables)
        old, new = random.choice(list(table)), random.choice(list(random.choice(tables)))
        items = [(new if key == old else key, value) for key, value in table.items()]
        table.clear()
        table.update(items)


def _number(tree: Tree, random: Random) -> None:
    if path := _pick(tree, random, int):
        parent(tree, path)[path[-1]] = random.choice(NUMBERS)


def _param(tree: Tree, random: Random) -> None:
    tables = [one for one in (tree.get("params"), *_overrides(tree, "params")) if isinstance(one, dict) and one]
    if tables:
        table = random.choice(tables)
        table[random.choice(list(table))] = random.choice(NUMBERS[1:-2])


def _overrides(tree: Tree, section: str) -> list[Tree]:
    targets = tree.get("targets")
    found = targets.values() if isinstance(targets, dict) else ()
    return [one.get(section) for one in found if isinstance(one, dict)]


def _tensor(tree: Tree, random: Random) -> None:
    """Another type, place or role of a tensor, or of a value."""
    fields = {"dtype": tuple(DTYPES), "space": SPACES, "role": ROLES}
    field = random.choice(("dtype", "dtype", "dtype", "space", "role"))
    tables = [value for _, value in nodes(tree) if isinstance(value, dict) and ("dtype" in value or "shape" in value)]
    if tables:
        random.choice(tables)[field] = random.choice(fields[field])


def _schedule(tree: Tree, random: Random) -> None:
    place = tree
    if random.random() < 0.5:
        targets = tree.setdefault("targets", {})
        if not isinstance(targets, dict):
            return
        place = targets.setdefault(random.choice(TARGETS), {})
    if isinstance(place, dict):
        place["schedule"] = copy.deepcopy(random.choice(SCHEDULES))


def _constraint(tree: Tree, random: Random) -> None:
    """One more constraint, or others for a target."""
    dims = list(tree.get("dims") or ()) if isinstance(tree.get("dims"), dict) else []
    constraints = tree.get("constraints")
    if not dims or not isinstance(constraints, list):
        return
    dim, tile = random.choice(dims), random.choice(NUMBERS[1:-2])
    constraint = random.choice(
        (
            {"workgroup": dim, "tile": tile, "axis": random.randrange(3)},
            {"tiling": dim, "tile": tile},
            {"wave": dim, "tile": tile},
            {"hardware": {"vector": {dim: random.choice((1, 2, 4, 8))}}},
            {"hardware": {"mma": random.choice(("auto", "none"))}},
            {"assume": f"{dim} % {tile} == 0"},
        )
    )
    if random.random() < 0.7:
        constraints.insert(random.randrange(len(constraints) + 1), constraint)
    elif isinstance(targets := tree.setdefault("targets", {}), dict):
        kept = [one for one in constraints if random.random() < 0.7]
        targets[random.choice(TARGETS)] = {"constraints": [*copy.deepcopy(kept), constraint]}


def _graft(tree: Tree, random: Random) -> None:
    """A piece of another spec, where one with the same key stands."""
    path, other = _pick(tree, random), random.choice(bases())
    if path:
        same = [value for at, value in nodes(other) if at[-1] == path[-1]]
        if same:
            parent(tree, path)[path[-1]] = copy.deepcopy(random.choice(same))


def _part(tree: Tree, random: Random) -> None:
    """A statement of the graph, or of a body, as a part; its value has its name all the same."""
    lists = [value for at, value in nodes(tree) if at[-1] in ("graph", "body") and isinstance(value, list)]
    items = random.choice(lists) if lists else []
    named = [(index, one) for index, one in enumerate(items) if isinstance(one, dict) and len(one) == 1]
    parts = tree.setdefault("parts", {})
    if not named or not isinstance(parts, dict):
        return
    index, statement = random.choice(named)
    (name,) = statement
    part, use = f"piece{len(parts)}", f"use{len(parts)}"
    parts[part] = {"outputs": [name], "body": [statement]}
    items[index : index + 1] = [{use: {"part": part}}, {name: f"{use}.{name}"}]


def _alias(tree: Tree, random: Random) -> None:
    """A name for an expression, or a mapping, of the graph."""
    found = [at for at, value in nodes(tree) if at[-1] == "at" or (isinstance(value, str) and " " in value)]
    found = [at for at in found if at[0] in ("graph", "constraints", "targets")]
    aliases = tree.setdefault("let", {})
    if not found or not isinstance(aliases, dict):
        return
    path, name = random.choice(found), f"alias{len(aliases)}"
    aliases[name] = parent(tree, path)[path[-1]]
    parent(tree, path)[path[-1]] = name


def _like(tree: Tree, random: Random) -> None:
    targets = tree.setdefault("targets", {})
    if isinstance(targets, dict):
        one = targets.setdefault(random.choice(TARGETS), {})
        if isinstance(one, dict):
            one["like"] = random.choice(TARGETS)


_MUTATIONS: Final = (
    _delete,
    _duplicate,
    _permute,
    _swap,
    _rename,
    _rename,
    _rename_key,
    _number,
    _number,
    _param,
    _param,
    _tensor,
    _tensor,
    _schedule,
    _schedule,
    _constraint,
    _constraint,
    _graft,
    _part,
    _alias,
    _like,
)
