"""A kernel of ``specs/`` in; the same in other types, tiles, orders, vectors and schedules, with sizes to run it at, and
whether machines compute what the reference does, out.

Whatever is varied, the kernel is right or refused: one that is checked is built, and every call of it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from random import Random
from typing import Any, Final, cast

import yaml

from tests.fuzz.broken_texts import check_diagnostics
from tests.fuzz.judge import MOST_LINES, time_limit
from tests.kernels import Sizes, Subject, subjects, tensors_of
from tests.sim.plan_variations import Varied, simulated, variation
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import build, emit, lower
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.expressions import EvaluationError
from wavespec.schema.resolve import complete_sizes, resolve_params, targets_of
from wavespec.targets.machine import Machine, machines

SIZES: Final = 3
"""That each kernel is run at."""
_SECONDS = 20
"""Of a processor, for what takes minutes in a simulator, or in a compiler, and is left out."""
_MOST_WORK = 300_000
"""Product of the sizes of dims, which is what a simulator has to do."""
_OTHER_TYPES: Final = ({"f16": "bf16"}, {"bf16": "f16"}, {"f32": "f64"}, {"i32": "i64"})
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel, where it runs, and at which sizes."""

    subject: Varied
    machine: Machine
    sizes: tuple[Sizes, ...]


def random_calls(random: Random) -> Iterator[Iterator[Call]]:
    """Of one kernel in one set of types: plans for a CPU that this machine is, and plans for one GPU, without end."""
    own = [one for one in machines("cpu") if cpu_features().issuperset(one.requires)]
    cpu = own[0] if random.random() < 0.8 else random.choice(own)
    gpu = machines(random.choice(("sm_90", "sm_90", "gfx942", "gfx950")))[0]
    subject = random.choice(subjects(cpu.target, gpu.target))
    types = random.choice(_OTHER_TYPES) if random.random() < 0.25 else {}
    for machine in (cpu, gpu):
        if machine.target in targets_of(subject.spec):
            yield (_random_call(subject, types, machine, random) for _ in repeat(None))


def _random_call(subject: Subject, types: dict[str, str], machine: Machine, random: Random) -> Call:
    """Its plan is mostly one for the machine."""
    target = machine.target if random.random() < 0.9 else random.choice(targets_of(subject.spec))
    tree: Tree = yaml.safe_load(variation(subject, target, random.choice).text)
    _change_types([tree["tensors"], tree["graph"]], types)
    for change in (_order, _vectors):
        if random.random() < 0.2:
            change(tree, random)
    varied = Varied(subject.file, subject.name, yaml.safe_dump(tree, sort_keys=False, width=110))
    try:
        sizes = tuple(random_sizes(varied, random) for _ in range(SIZES))
    except WavespecError:
        sizes = ()
    return Call(varied, machine, sizes)


def random_sizes(subject: Varied, random: Random) -> Sizes:
    """Those of the table, some of them in place of others: small ones, odd ones, and those around tiles."""
    spec = subject.spec
    params = resolve_params(spec)
    near = [value + by for value in {*params.values()} if value <= 256 for by in (-1, 0, 1, value + 1)]
    sizes = dict(random.choice(subject.row.small))
    free = [name for name in sizes if spec.dims[name].value is None and spec.dims[name].equals is None]
    drawn = {name: sizes[name] for name in free}
    for name in random.sample(free, min(len(free), random.randrange(1, 4))):
        step = spec.dims[name].multiple_of
        drawn[name] = -(-random.choice([0, 1, 2, 3, 5, 17, 33, 67, *near]) // step) * step
    return drawn if _is_valid(subject, drawn, params) else sizes


def _is_valid(subject: Varied, drawn: Sizes, params: dict[str, int]) -> bool:
    spec, work = subject.spec, 1
    assumed = [one.condition for one in spec.constraints if isinstance(one, Assume)]
    try:
        sizes = complete_sizes(spec, drawn)
        if not all(one.evaluate(params | sizes) for one in assumed):
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


def judge_variation(call: Call) -> str:
    """The outcome in a few words; raises where a kernel is wrong, or is refused once it was checked."""
    machine = call.machine
    try:
        with time_limit(_SECONDS):
            spec = call.subject.cases(machine.target)[-1].spec
            module = emit(spec, machine)
    except WavespecError as error:
        check_diagnostics(error)
        return "refused"
    except TimeoutError:
        return "long to lower"
    if machine.target == "cpu":
        if module.text.count("\n") > MOST_LINES:
            return "long to compile"
        return _run(call, _on_cpu(call))
    kernel = lower(spec, machine)
    return _run(call, lambda sizes, inputs: simulated(call.subject, kernel, machine, sizes, inputs))


def _on_cpu(call: Call) -> Callable[[Sizes, Sequence[Any]], Sequence[Any]]:
    try:
        compiled = Kernel(build(call.subject.spec, "cpu", only=call.machine, cache=CompileCache(enabled=False)))
    except WavespecError as error:
        raise AssertionError(f"accepted, then refused by {call.machine.variant}: {error}") from error
    return lambda _, inputs: tensors_of(compiled(*[one.clone() for one in inputs]))


def _run(call: Call, run: Callable[[Sizes, Sequence[Any]], Sequence[Any]]) -> str:
    for sizes in map(call.subject.complete, call.sizes):
        inputs = call.subject.inputs(sizes)
        try:
            with time_limit(_SECONDS):
                results = run(sizes, inputs)
        except TimeoutError:
            return "long to run"
        except AssertionError as error:
            raise AssertionError(f"{call.machine.variant}: {error}") from error
        except Exception as error:  # whatever a call raises, the kernel was accepted
            raise AssertionError(f"{call.machine.variant} {dict(sizes)}: accepted, then refused: {error}") from error
        try:
            call.subject.check(inputs, results, sizes)
        except AssertionError as error:
            raise AssertionError(f"{call.machine.variant}: {error}") from error
    return "right"
