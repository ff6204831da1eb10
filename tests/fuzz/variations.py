"""A kernel of ``specs/`` in; the same in other types, tiles, orders, vectors and schedules, with sizes to run it at, out.

Nothing here asks whether a machine takes the variation: `judge_variations.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

import yaml

from tests.kernels import Sizes, Subject, subjects
from tests.sim.plan_variations import Varied, variation
from wavespec.runtime.cpu_features import cpu_features
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.expressions import EvaluationError
from wavespec.schema.resolve import complete_sizes, resolve_params
from wavespec.schema.resolved import ResolvedKernel
from wavespec.targets.machine import Machine, machines
from wavespec.yaml_loader import read_data

_MOST_WORK = 150_000
"""Product of the sizes of dims, which is what a simulator has to do."""
_OTHER_TYPES: Final = ({"f16": "bf16"}, {"bf16": "f16"}, {"f32": "f64"}, {"i32": "i64"})
_GPUS: Final = ("sm_90", "gfx942", "sm_90", "gfx942", "sm_90", "gfx942", "sm_90", "gfx950")
"""By turns."""
_CLOSER: Final = 0.15
"""How much more likely each setting stays as it is, each time that a plan was refused."""
_DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A kernel, in which types, and where it runs."""

    subject: Subject
    types: dict[str, str]
    cpu: Machine
    gpu: Machine

    def plans(self, target: str, random: Random) -> Iterator[Varied]:
        """Without end, mostly meant for the target, each closer to what the kernel is without changes."""
        closeness = 0.0
        while True:
            meant = target if random.random() < 0.9 or self.subject.spec.only else random.choice(_GPUS)
            yield self._plan(meant, random, closeness)
            closeness += _CLOSER

    def _plan(self, target: str, random: Random, closeness: float) -> Varied:
        def choose(some: Sequence[Any]) -> Any:
            return some[0] if random.random() < closeness else random.choice(some)

        tree: Tree = read_data(variation(self.subject, target, choose).text)
        _change_types([tree["tensors"], tree["graph"]], self.types)
        for change in (_order, _vectors):
            if random.random() < 0.2 * (1 - closeness):
                change(tree, random)
        return Varied(self.subject.file, self.subject.name, yaml.dump(tree, Dumper=_DUMPER, sort_keys=False, width=110))


@dataclass(frozen=True, slots=True)
class Sample:
    """Sizes of a call, and whether its inputs are whole numbers."""

    sizes: Sizes
    whole: bool


def draw(number: int, random: Random) -> Drawn:
    """GPUs come by turns, by the number of the kernel."""
    own = [one for one in machines("cpu") if cpu_features().issuperset(one.requires)]
    cpu = own[0] if random.random() < 0.8 else random.choice(own)
    gpu = machines(_GPUS[number % len(_GPUS)])[0]
    types = random.choice(_OTHER_TYPES) if random.random() < 0.25 else {}
    return Drawn(random.choice(subjects(cpu.target, gpu.target)), types, cpu, gpu)


def draw_samples(plans: Sequence[tuple[Varied, ResolvedKernel]], random: Random) -> tuple[Sample, ...]:
    """Three: up to an edge of tiles of the plans, from one on, and of any sizes; whole numbers and others."""
    tiles: dict[str, set[int]] = {}
    for _, resolved in plans:
        for one in (*resolved.workgroup, *resolved.loops, *resolved.waves):
            tiles.setdefault(one.dim, set()).add(one.tile)
    taken = [one for one, _ in plans]
    exact = taken[0].row.exact
    return (
        Sample(_near(taken, tiles, random, lambda tile: random.choice((tile - 1, tile))), exact),
        Sample(_near(taken, tiles, random, lambda tile: random.choice((tile, tile + 1, 2 * tile + 1))), True),
        Sample(_any(taken, tiles, random), False),
    )


def _near(
    plans: Sequence[Varied], tiles: dict[str, set[int]], random: Random, place: Callable[[int], int]
) -> dict[str, int]:
    """Sizes of the table; those whose dims have tiles are at a place by an edge, as long as that is work for seconds."""
    sizes = _of_table(plans, random)
    names = [name for name in sizes if name in tiles]
    for name in random.sample(names, len(names)):
        step = plans[0].spec.dims[name].multiple_of
        changed = sizes | {name: -(-place(random.choice(sorted(tiles[name]))) // step) * step}
        if _is_valid(plans, changed):
            sizes = changed
    return sizes


def _any(plans: Sequence[Varied], tiles: dict[str, set[int]], random: Random) -> dict[str, int]:
    """Sizes of the table, some of them in place of others: small ones, odd ones, and those around tiles."""
    sizes = _of_table(plans, random)
    near = [tile + by for one in tiles.values() for tile in one if tile <= 256 for by in (-1, 0, 1, tile + 1)]
    drawn = dict(sizes)
    for name in random.sample(list(sizes), min(len(sizes), random.randrange(1, 4))):
        step = plans[0].spec.dims[name].multiple_of
        drawn[name] = -(-random.choice([0, 1, 2, 3, 5, 17, 33, 67, *sorted(near)]) // step) * step
    return drawn if _is_valid(plans, drawn) else sizes


def _of_table(plans: Sequence[Varied], random: Random) -> dict[str, int]:
    dims = plans[0].spec.dims
    sizes = random.choice(plans[0].row.small)
    return {name: size for name, size in sizes.items() if dims[name].value is None and dims[name].equals is None}


def _is_valid(plans: Sequence[Varied], drawn: Sizes) -> bool:
    return all(_is_valid_for(one, drawn) for one in plans)


def _is_valid_for(subject: Varied, drawn: Sizes) -> bool:
    spec, work = subject.spec, 1
    assumed = [one.condition for one in spec.constraints if isinstance(one, Assume)]
    try:
        sizes = complete_sizes(spec, drawn)
        if not all(one.evaluate(resolve_params(spec) | sizes) for one in assumed):
            return False
    except (ValueError, EvaluationError):
        return False
    for name, size in sizes.items():
        dim, work = spec.dims[name], work * max(size, 1)
        if size < dim.min or size % dim.multiple_of or (dim.max is not None and size > dim.max):
            return False
    return work <= _MOST_WORK


def _change_types(node: Any, types: dict[str, str]) -> None:
    """Others, in all places."""
    if isinstance(node, dict):
        table = cast(dict[str, Any], node)
        if table.get("dtype") in types:
            table["dtype"] = types[table["dtype"]]
        node = list(table.values())
    if isinstance(node, list):
        for one in cast(list[Any], node):
            _change_types(one, types)


def _order(tree: Tree, random: Random) -> None:
    """Other axes of the grid for the tiles, and another order of the loops around them."""
    tiles = [one for one in tree["constraints"] if "workgroup" in one and "axis" in one]
    axes = [one["axis"] for one in tiles]
    random.shuffle(axes)
    for one, axis in zip(tiles, axes, strict=True):
        one["axis"] = axis
    if random.random() < 0.5:
        random.shuffle(tree["constraints"])


def _vectors(tree: Tree, random: Random) -> None:
    """Elements of a dim that are accessed at once."""
    dims = {random.choice(list(tree["dims"])): random.choice((1, 2, 4, 8))}
    tree["constraints"].append({"hardware": {"vector": dims}})
