"""`random`: each lane makes the numbers of the places that it has, four from one counter where they are neighbours."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import pairwise

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.philox import philox, philox_reference
from wavespec.ops.steps import Steps
from wavespec.ops.turned_blocks import regroup
from wavespec.schema.ops import Random

_GROUP = 4
"""Words of one counter."""
_COUNTERS_TOGETHER = 4
"""On machines without vector registers, to hide the time of each step."""
_UNIFORM_BITS = 24
"""Of a number in [0, 1): as many as f32 has digits."""


def to_tile(statement: Random, context: TileContext) -> None:
    if isinstance(statement.seed, str):
        seed = context.names[statement.seed]
    else:
        seed = context.tile("seed", (), "i64")
        context.add("register", (), (seed,), statement.span, node=statement.name, value=statement.seed)
    value = context.tile(statement.name, statement.dims, statement.dtype)
    sizes = tuple(context.sizes[dim] for dim in statement.dims)
    context.add("random", (seed,), (value,), statement.span, node=statement.name, over=statement.dims, sizes=sizes)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    build, result, layout = context.build, op.result, op.result.tile.layout
    assert layout is not None
    (seed,) = context.fragments[op.operands[0].name]
    seed = build.cast(seed, DTYPES["i64"], "seed")
    origin = context.origin(op)
    places = [
        {dim: start + inside[dim] if dim in inside else start for dim, start in origin.items()}
        for inside in layout.coordinates()
    ]
    together = _COUNTERS_TOGETHER
    if context.machine.vector_bytes:
        together = context.machine.vector_bytes // DTYPES["f32"].bytes
    whole = all(_is_group(places[at : at + _GROUP], op["over"][-1]) for at in range(0, len(places), _GROUP))
    step = together * _GROUP if whole else together
    made = [_numbers(build, op, places[at : at + step], seed, whole=whole) for at in range(0, len(places), step)]
    context.fragments[result.name] = tuple(regroup(build, made, layout.fragment_elements, result.name))


def _is_group(places: Sequence[Mapping[str, Expr]], column: str) -> bool:
    """Whether registers are the four numbers of one counter in order."""
    if len(places) < _GROUP or places[0][column].divisor % _GROUP:
        return False
    return all(b[dim] - a[dim] == const(int(dim == column)) for a, b in pairwise(places) for dim in a)


def _numbers(build: ThreadBuilder, op: Op, places: Sequence[Mapping[str, Expr]], seed: Value, *, whole: bool) -> Value:
    """``whole``: the places are groups; else each place has a counter of its own, and takes one of its words."""
    name, column = op.result.name, op["over"][-1]
    firsts = places[::_GROUP] if whole else places
    counter = build.value(name, DTYPES["i64"], len(firsts))
    build.add("coordinates", (), (counter,), places=tuple(_counter(op, place) for place in firsts))
    steps = Steps(build, counter, name)
    words = philox(steps, counter, build.broadcast(seed, len(firsts)))
    if op.result.tile.dtype.is_float:
        words = tuple(_uniform(steps, word) for word in words)
    if whole:
        return build.transpose(build.pack([*words], name), _GROUP, len(firsts), hint=name)
    which = build.value(name, DTYPES["i32"], len(places))
    build.add("coordinates", (), (which,), places=tuple(place[column] % _GROUP for place in places))
    low, high = (steps("where", steps("eq", which, first), words[first], words[first + 1]) for first in (0, 2))
    return steps("where", steps("lt", which, 2), low, high)


def _counter(op: Op, place: Mapping[str, Expr]) -> Expr:
    """The number of the group of four: rows of groups follow each other."""
    *outer, column = zip(op["over"], op["sizes"], strict=True)
    row = functools.reduce(lambda total, each: total * each[1] + place[each[0]], outer, const(0))
    return row * ceildiv(column[1], _GROUP) + place[column[0]] // _GROUP


def _uniform(steps: Steps, word: Value) -> Value:
    top = steps("and", steps("shr", word, 32 - _UNIFORM_BITS), 2**_UNIFORM_BITS - 1)
    return steps("mul", steps.cast(top, "f32"), 2.0**-_UNIFORM_BITS)


def reference(statement: Random, context: ReferenceContext) -> None:
    """Bit for bit what kernels compute."""
    import torch

    device = next(iter(context.tensors.values())).device
    sizes = [context.sizes[dim] for dim in statement.dims]
    groups = -(-sizes[-1] // _GROUP)
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    seed = context.names[statement.seed] if isinstance(statement.seed, str) else statement.seed
    key = torch.as_tensor(seed, dtype=torch.int64, device=device)
    words = philox_reference(torch.arange(rows * groups, dtype=torch.int64, device=device), key)
    bits = torch.stack(words, 1).reshape(rows, groups * _GROUP)[:, : sizes[-1]].reshape(sizes)
    if statement.dtype == "f32":
        value = (bits >> 32 - _UNIFORM_BITS).to(context.dtype("f32")) * 2.0**-_UNIFORM_BITS
    else:
        value = bits.to(torch.int32)
    context.define(statement.name, statement.dims, value)
