"""Recurrences whose steps write, and elements that meet in a tensor: random numbers go in, a valid spec comes out."""

from __future__ import annotations

from random import Random

from tests.fuzz.graph import LIMITS, Graph, RandomSpec, Value, declared, spec_text, types_of

_READ = ("t", "t", "size(T) - 1 - t", "t - 1", "t + 1")
_WRITTEN = ("t", "t", "size(T) - 1 - t")
_OF_NUMBERS = ("add", "max", "min", "exchange")
_OF_BITS = ("and", "or", "xor", "compare_and_swap")


def recurrence(random: Random, whole: bool) -> RandomSpec:
    """Steps of `repeat` that read what they are at, change what they carry, and write it."""
    read, compute = types_of(random, whole)
    dims, graph = random.choice(("M", "MN")), Graph(random, whole)
    order = "".join(random.sample((*dims, "T"), len(dims) + 1))
    start = graph.cast(Value(graph.op("{read: first}"), dims, read, 3), compute)
    places = f"at: {{T: {random.choice(_READ)}}}"
    with graph.inside(
        f"run:\nrepeat: {random.choice(('size(T)', 'size(T)', 'size(T) + 2'))}\nindex: t\ncarry: {{h: {start.name}}}"
    ):
        x = graph.cast(Value(graph.op(f"{{read: x, dims: [{', '.join(dims)}], {places}}}"), dims, read, 3), compute)
        values = graph.some([x, Value("h", dims, compute, 3)], compute, 3)
        last = graph.whole_tiles(values, dims)[-1]
        following = f"minimum(maximum({last.name}, -3), 3)" if whole else f"tanh({last.name} + h)"
        graph.op(f'h: "{following}"', name=False)
        graph.op(f"{{write: h, to: y, at: {{T: {random.choice(_WRITTEN)}}}}}", name=False)
    graph.op("{write: run.h, to: last}", name=False)
    tile = random.choice((16, 32, 64))
    constraints = [f"workgroup: M, tile: {tile}, axis: 0", *_waves(random, tile)]
    constraints += ["workgroup: N, tile: 8, axis: 1"] if dims == "MN" else []
    tensors = [*declared({"x": order, "first": dims}, read)]
    tensors += [*declared({"y": order, "last": dims}, compute, output=True)]
    sizes = tuple({"M": m, "N": n, "T": t} for m, n, t in ((random.randint(1, 70), 11, 6), (16, 8, 1), (3, 1, 0)))
    text = spec_text("{M: {}, T: {}" + (", N: {}" if "N" in dims else "") + "}", tensors, constraints, graph)
    return RandomSpec(text, whole, tuple({dim: one[dim] for dim in (*dims, "T")} for one in sizes))


def old_values(random: Random) -> RandomSpec:
    """Elements that are combined with those of a smaller tensor, and what follows from what they find."""
    combine = random.choice((*_OF_NUMBERS, *_OF_BITS))
    dtype = random.choice(("i32", "i64", *(("f32", "f64") if combine in _OF_NUMBERS else ())))
    dtype = random.choice((dtype, "f16", "bf16")) if combine == "add" else dtype
    dims, graph = random.choice(("M", "M", "MN")), Graph(random, True)
    places = graph.op("{read: row}")
    values = [Value(graph.op(f"{{read: {name}}}"), dims, dtype, 3) for name in ("x", "guess")]
    limit = LIMITS[dtype]
    more = [one for one in graph.some(values, dtype, 2) if one.bound <= limit]
    value = random.choice(graph.whole_tiles(more, dims))
    expected = f", expected: {values[1].name}" if combine == "compare_and_swap" else ""
    at = ", ".join((f"V: {places}", *(["W: N"] if dims == "MN" else [])))
    old = graph.op(f"{{atomic: {value.name}, to: held, at: {{{at}}}, combine: {combine}{expected}}}")
    found = graph.op(f'"{old} + {values[0].name}"')
    graph.op(f"{{write: {found}, to: y}}", name=False)
    tile = random.choice((4, 16, 64))
    constraints = [f"workgroup: M, tile: {tile}, axis: 0", *_waves(random, tile)]
    constraints += ["workgroup: N, tile: 8, axis: 1"] if dims == "MN" else []
    held = "V, W" if dims == "MN" else "V"
    tensors = [f"held: {{shape: [{held}], dtype: {dtype}, role: inout}}"]
    tensors += declared({"x": dims, "guess": dims}, dtype)
    tensors += ["row: {shape: [M], dtype: i32, values: {min: -1, max: V}}", *declared({"y": dims}, dtype, output=True)]
    sizes = ((random.randint(1, 90), 11, 3), (16, 8, 1), (5, 3, 2))
    names = "MNVW" if dims == "MN" else "MV"
    known = tuple({"M": m, "N": n, "V": v, "W": n} for m, n, v in sizes)
    text = spec_text(f"{{{', '.join(f'{dim}: {{}}' for dim in names)}}}", tensors, constraints, graph)
    return RandomSpec(text, True, tuple({dim: one[dim] for dim in names} for one in known))


def _waves(random: Random, tile: int) -> list[str]:
    count = random.choice((1, 2, 4))
    return [f"wave: M, tile: {tile // count}"] if count > 1 else []
