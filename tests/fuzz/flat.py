"""Specs without loops, drawn: elementwise graphs, random numbers, conversions, and elements at places of their own."""

from __future__ import annotations

from random import Random

from tests.fuzz.graph import FLOATS, WHOLE, Graph, RandomSpec, Value, batch_of, declared, spec_text, types_of

_READS = (
    ("AB", "{A: N, B: M}"),
    ("AB", "{A: M + {0}, B: N - {1}}"),
    ("AB", "{A: M * 2, B: N * 3 + {1}}"),
    ("AB", "{A: (M * size(N) + N) // size(B), B: (M * size(N) + N) % size(B)}"),
    ("AB", "{A: {row} + {0}, B: N}"),
    ("AB", "{A: N // 3, B: {row} * 2 + M}"),
    ("AB", "{A: 'min(max(M - {0}, 0), size(A) - 1)', B: {column} + N % 5}"),
    ("ABN", "{A: M // size(B), B: M % size(B)}"),
    ("A", "{A: M * size(N) + N}"),
)
"""Tensors, and how elements of [M, N] are found in them: {0} and {1} are numbers, {row} and {column} values of [M], [N]."""
_TAKES = (
    "{N: N - {0}}",
    "{N: (N + {0}) % size(N)}",
    "{N: size(N) - 1 - N}",
    "{N: 'xor(N, {0})'}",
    "{N: N * {0} % size(N)}",
    "{N: {column} + {0}}",
    "{N: {0}}",
)
"""How elements are found along N: {0} is a number, {column} a value of [N]."""
_TYPES = (*FLOATS, *WHOLE, "bool")
_WRITES = (("MN", "{M: M}"), ("PQ", "{P: N, Q: M}"), ("F", "{F: M * size(N) + N}"), ("F", "{F: N * size(M) + M}"))


def elementwise(random: Random, whole: bool) -> RandomSpec:
    """Tensors of one and of two dims, numbers of a call, and random numbers."""
    read, compute = types_of(random, whole)
    graph, batch = Graph(random, whole), batch_of(random)
    full = batch + "MN"
    inputs = {"x": full, **{n: d for n, d in {"z": full, "v": "N", "w": "M", "s": ""}.items() if random.random() < 0.5}}
    given = graph.reads(inputs, read, compute)
    tensors = declared(inputs, read)
    if random.random() < 0.3:
        seed = str(random.randrange(2**40))
        if random.random() < 0.5:
            seed = graph.op("{read: seed}")
            tensors.append("seed: {shape: [], dtype: i64}")
        drawn = graph.op(f'"floor(random({seed}, {", ".join(full)}) * 8)"')
        given.append(graph.cast(Value(drawn, full, "f32", 8), compute))
    made = graph.whole_tiles(graph.some(given, compute, 8), full)
    for number, value in enumerate(random.sample(made, min(len(made), random.randrange(1, 4)))):
        graph.write(value, f"y{number}")
        tensors += declared({f"y{number}": full}, compute, output=True)
    return _over_tiles(graph, batch, tensors)


def mapped(random: Random, whole: bool) -> RandomSpec:
    """Elements from other places, and to other places: turned, strided, shifted, reshaped, and where values say."""
    read, compute = types_of(random, whole)
    graph = Graph(random, whole)
    kind = random.choice(("i32", "i64", "i8"))
    tensors = [*declared({"rows": "M", "columns": "N"}, kind), *declared({"x": "MN"}, read)]
    words = [str(random.randrange(4)), str(random.randrange(4))]
    row, column = graph.op("{read: rows}"), graph.op("{read: columns}")
    given = graph.reads({"x": "MN"}, read, compute)
    given += [graph.cast(Value(one, dims, kind, 3), compute) for one, dims in ((row, "M"), (column, "N"))]
    for number in range(random.randrange(1, 3)):
        dims, at = random.choice(_READS)
        for old, new in (("{row}", row), ("{column}", column), ("{0}", words[0]), ("{1}", words[1])):
            at = at.replace(old, new)
        if number:  # a tensor of other sizes
            dims, at = (one.replace("A", "C").replace("B", "D") for one in (dims, at))
        tensors += declared({f"t{number}": dims}, read)
        value = graph.op(f"{{read: t{number}, dims: [{random.choice(('M, N', 'N, M'))}], at: {at}}}")
        given.append(graph.cast(Value(value, "MN", read, 3), compute))
    made = graph.some(given[-1:] + given, compute, 4)
    last = graph.whole_tiles(made, "MN")[-1]
    sum_ = graph.op(f'"{last.name} + {given[-1].name}"')
    shape, at = random.choice(_WRITES)
    graph.op(f"{{write: {sum_}, to: y, at: {at}}}", name=False)
    tensors += declared({"y": shape}, compute, output=True)
    return _over_tiles(graph, "", tensors, shape)


def taken(random: Random, whole: bool) -> RandomSpec:
    """Elements of computed rows, whose size is known, at other places of them; and every second one."""
    read, compute = types_of(random, whole)
    graph, size = Graph(random, whole), random.choice((16, 40, 64))
    given = graph.reads({"x": "MN", "v": "N"}, read, compute)
    column = graph.op("{read: columns}")
    for _ in range(random.randrange(1, 4)):
        value = graph.some(given, compute, 2)[-1]
        at = random.choice(_TAKES).replace("{0}", str(random.randrange(9))).replace("{column}", column)
        given.append(Value(graph.op(f"{{take: {value.name}, at: {at}}}"), value.dims, compute, value.bound))
    last = graph.whole_tiles([*given[:1], *graph.some(given, compute, 3)], "MN")[-1]
    graph.write(last, "y")
    half = graph.op(f"{{take: {last.name}, dims: [{random.choice(('M, K', 'K, M'))}], at: {{N: K * 2 + 1}}}}")
    graph.op(f"{{write: {half}, to: r, at: {{K: K}}}}", name=False)
    tensors = [*declared({"x": "MN", "v": "N"}, read), *declared({"columns": "N"}, "i32")]
    tensors += declared({"y": "MN", "r": "MK"}, compute, output=True)
    rows = random.choice((2, 4, 8))
    constraints = [f"workgroup: M, tile: {rows}, axis: 0", f"wave: M, tile: {random.choice((rows, rows // 2))}"]
    constraints += [f"tiling: N, tile: {size}", f"wave: N, tile: {random.choice((size, size // 2))}"]
    dims = f"{{M: {{}}, N: {{value: {size}}}, K: {{value: {size // 2}}}}}"
    sizes = tuple({"M": count, "N": size, "K": size // 2} for count in (7, 1, 0))
    return RandomSpec(spec_text(dims, tensors, constraints, graph), whole, sizes)


def conversions(random: Random, whole: bool) -> RandomSpec:
    """Numbers that all types have, through some of the types, by way of sums where there are any."""
    graph, batch = Graph(random, True), batch_of(random)
    full = batch + "MN"
    first, last = random.choice(_TYPES), random.choice(_TYPES)
    values = graph.reads({"x": full}, first, first)
    tensors = declared({"x": full}, first)
    value = values[0] if first in ("u8", "bool") else _without_sign(graph, values[0])
    for dtype in (*random.choices(_TYPES, k=random.randrange(4)), last):
        value = graph.cast(value, dtype)
        if dtype == "bool":
            value = Value(value.name, value.dims, dtype, 1)
        elif value.bound <= 4:
            value = Value(graph.op(f'"{value.name} + {value.name}"'), value.dims, dtype, 2 * value.bound)
    graph.write(value, "y")
    tensors += declared({"y": full}, last, output=True)
    return _over_tiles(graph, batch, tensors)


def _without_sign(graph: Graph, value: Value) -> Value:
    """What also the types without a sign have."""
    wide = graph.cast(value, "i32" if value.dtype.startswith("i") else "f32")
    return Value(graph.op(f"{{abs: {wide.name}}}"), value.dims, wide.dtype, 3)


def _over_tiles(graph: Graph, batch: str, tensors: list[str], result: str = "") -> RandomSpec:
    """The spec whose workgroups have a tile of the result each."""
    random = graph.random
    m, n = random.choice((4, 8, 16)), random.choice((64, 128))
    constraints = [f"workgroup: M, tile: {m}, axis: 1", f"workgroup: N, tile: {n}, axis: 0"]
    if random.random() < 0.5:
        constraints.append(f"wave: M, tile: {m // 2}")
    constraints += [f"workgroup: {dim}, tile: 1, axis: 2" for dim in batch]
    derived = {"P": "{equals: N}", "Q": "{equals: M}", "F": "{equals: M * N}"}
    own = "".join(dict.fromkeys("".join(line.split("[")[1].split("]")[0] for line in tensors).replace(", ", "")))
    names = [f"{dim}: {derived.get(dim, '{min: 1}' if dim in 'ABCD' else '{}')}" for dim in own]
    others = {"A": 9, "B": 5, "C": 40, "D": 70}
    sizes = ({"M": 17, "N": 130}, {"M": 1, "N": 1}, {"M": 0, "N": 3})
    more = {dim: others.get(dim, 2) for dim in own if dim not in "MNPQF"}
    return RandomSpec(
        spec_text(f"{{{', '.join(names)}}}", tensors, constraints, graph),
        graph.whole,
        tuple(one | more for one in sizes),
    )
