"""Specs of matrix products, drawn: one with its epilogue, and two of which the second takes what the first has made."""

from __future__ import annotations

from random import Random

from tests.fuzz.graph import Graph, RandomSpec, Value, batch_of, declared, spec_text

_SCHEDULES = ("", "{stages: 1}", "{stages: 2}", "{stages: 3}", "{stages: 2, auto: modulo}", "{auto: prefetch}")


def product(random: Random, whole: bool) -> RandomSpec:
    """A matrix product and what is made of its sums."""
    dtype = random.choice(("f16", "bf16", "f32", "i8", "u8", "f64") if whole else ("f16", "bf16", "f32", "f64"))
    total = {"i8": "i32", "u8": "i32", "f64": "f64"}.get(dtype, "f32")
    graph, batch = Graph(random, whole), batch_of(random)
    full = batch + "MN"
    extra = {name: dims for name, dims in {"bias": "N", "row": "M", "other": full}.items() if random.random() < 0.35}
    zero = graph.register(full, total, random.choice((0, 0, 2)))
    with graph.loop("k_loop", "K", {"acc": zero}):
        a, b = graph.op("{read: a}"), graph.op("{read: b}")
        graph.op(f"acc: {{mma: [{a}, {b}, acc]}}", name=False)
    values = [Value("k_loop.acc", full, total, 9 * 50 + 2 if whole else 10)]
    values += graph.reads(extra, total, total)
    # All that is read is used: the last value is made of everything.
    last = graph.whole_tiles(graph.some(values, total, 4), full)[-1]
    graph.write(last, "c")
    a_dims, b_dims = random.choice(("MK", "KM")), random.choice(("NK", "KN"))
    space = random.choice(("shared", "shared", "global"))
    tensors = [*declared({"a": batch + a_dims, "b": batch + b_dims}, dtype, space=space), *declared(extra, total)]
    tensors += declared({"c": full}, total, output=True)
    m, n, k = random.choice((32, 64)), random.choice((32, 64)), random.choice((32, 64))
    parts = random.choice((1, 2)), random.choice((1, 2))
    if dtype in ("u8", "f64"):  # for CPUs alone, whose tiles have other multiples
        m, n, parts = random.choice((24, 48)), random.choice((32, 64)), (1, 1)
    axis = random.choice((0, 0, 1))
    constraints = [
        f"workgroup: M, tile: {m}, axis: {axis}",
        f"workgroup: N, tile: {n}, axis: {1 - axis}",
        f"tiling: K, tile: {k}",
        f"wave: M, tile: {m // parts[0]}",
        f"wave: N, tile: {n // parts[1]}",
        "hardware: {mma: auto}",
        *(f"workgroup: {dim}, tile: {random.choice((1, 1, 1, 2, 3))}, axis: 2" for dim in batch),
    ]
    sizes = ({"M": 35, "N": 40, "K": 50}, {"M": 1, "N": 2, "K": 0}, {"M": 3, "N": 65, "K": 17})
    sizes = tuple(one | dict.fromkeys(batch, 2) for one in sizes)
    dims = ", ".join(f"{dim}: {{}}" for dim in batch + "MNK")
    return RandomSpec(spec_text(f"{{{dims}}}", tensors, constraints, graph, random.choice(_SCHEDULES)), whole, sizes)


def chain(random: Random, whole: bool) -> RandomSpec:
    """Two chained products: ``o[M, E] = sum over N of f(q[M, D] · k[N, D]) · v[N, E]``, and the largest of each row of f.

    Some read a part of wider values, ``v[N, first + E]``.
    """
    dtype, graph, batch = random.choice(("f16", "bf16", "f32")), Graph(random, whole), batch_of(random)
    depth, m, n, e = random.choice((16, 32)), random.choice((32, 64)), random.choice((16, 32)), random.choice((32, 64))
    part = (random.choice((0, 32, 64)), e * random.choice((1, 2))) if random.random() < 0.3 else None
    read = f"{{read: v, dims: [{', '.join(batch + 'NE')}], at: {{W: E + {part[0]}}}}}" if part else "{read: v}"
    queries = graph.op("{read: q}")
    nothing, lowest = graph.register(batch + "ME", "f32", 0), graph.register(batch + "M", "f32", -100)
    with graph.loop("keys", "N", {"acc": nothing, "top": lowest}):
        keys, values = graph.op("{read: k}"), graph.op(read)
        none = graph.register(batch + "MN", "f32", 0)
        scores = Value(graph.op(f"{{mma: [{queries}, {keys}, {none}]}}"), batch + "MN", "f32", 9 * 32 if whole else 10)
        made = graph.some([scores], "f32", 3)[-1]
        weight = graph.op(f'"minimum(maximum({made.name}, -7), 7)"')
        graph.op(f"top: {{max: {weight}, dim: N, init: top}}", name=False)
        rounded = graph.cast(Value(weight, batch + "MN", "f32", 7), dtype)
        graph.op(f"acc: {{mma: [{rounded.name}, {values}, acc]}}", name=False)
    result = graph.op('"keys.acc + keys.top"')
    graph.op(f"{{write: {result}, to: o}}", name=False)
    space = random.choice(("shared", "shared", "global"))
    shape = random.choice(("NE", "EN")).replace("E", "W" if part else "E")
    tensors = declared({"q": batch + "MD", "k": batch + "ND", "v": batch + shape}, dtype, space=space)
    tensors += declared({"o": batch + "ME"}, "f32", output=True)
    constraints = [
        f"workgroup: M, tile: {m}, axis: 0",
        f"workgroup: E, tile: {e}, axis: 1",
        f"wave: M, tile: {random.choice((m, m // 2))}",
        f"tiling: N, tile: {n}",
        f"tiling: D, tile: {depth}",
        "hardware: {mma: auto}",
        *(f"workgroup: {dim}, tile: {random.choice((1, 1, 1, 2, 3))}, axis: 2" for dim in batch),
    ]
    columns = f"E: {{value: {part[1]}}}, W: {{value: {part[0] + part[1] + 64}}}" if part else "E: {}"
    dims = ", ".join([*(f"{dim}: {{}}" for dim in batch + "MN"), columns, f"D: {{max: {depth}}}"])
    sizes = (
        {"M": 35, "N": 40, "D": depth, "E": 33},
        {"M": 3, "N": 1, "D": 5, "E": 1},
        {"M": 2, "N": 0, "D": 7, "E": 9},
    )
    fixed = {"E": part[1], "W": sum(part) + 64} if part else {}
    sizes = tuple(one | fixed | dict.fromkeys(batch, 2) for one in sizes)
    schedule = random.choice(("", "{stages: 1}", "{stages: 2}"))
    return RandomSpec(spec_text(f"{{{dims}}}", tensors, constraints, graph, schedule), whole, sizes)
