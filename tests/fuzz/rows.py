"""Specs of rows, drawn: reductions, scans, places of extremes, and what branches and bounds leave out of them."""

from __future__ import annotations

from random import Random

from tests.fuzz.graph import Graph, RandomSpec, Value, batch_of, declared, spec_text, types_of

_STARTS = {"sum": 0, "max": -100, "min": 100}
_TOTALS = {"cumsum": "sum", "cummax": "max", "cummin": "min"}
_LEAST = {"i32": -(2**31), "i8": -128}
_MOST = {"i32": 2**31 - 1, "i8": 127}


def reductions(random: Random, whole: bool) -> RandomSpec:
    """Reductions along rows (or columns), values made of them, and rows made of those."""
    read, compute = types_of(random, whole)
    graph, batch = Graph(random, whole), batch_of(random)
    kept, reduced = random.choice(("MN", "NM"))
    inputs = {"x": batch + "MN"}
    if random.random() < 0.4:
        inputs["z"] = batch + "MN"
    if random.random() < 0.4:
        inputs["v"] = reduced
    words = random.sample(("sum", "max", "min"), random.randrange(1, 3))
    carried = {f"t_{word}": graph.register(batch + kept, compute, _STARTS[word]) for word in words}
    sums: list[Value] = []
    with graph.loop("rows", reduced, carried):
        made = graph.whole_tiles(graph.some(graph.reads(inputs, read, compute), compute, 3), batch + "MN")
        for word in words:
            part = random.choice([one for one in made if one.bound < 2**12] or made[:1])
            graph.op(f"t_{word}: {{{word}: {part.name}, dim: {reduced}, init: t_{word}}}", name=False)
            bound = part.bound * 300 if word == "sum" else max(part.bound, 100)
            sums.append(Value(f"rows.t_{word}", batch + kept, compute, bound if whole else 10))
    values = graph.some(sums, compute, 2)
    tensors = [*declared(inputs, read), *declared({"r": batch + kept}, compute, output=True)]
    graph.write(values[-1], "r")
    if random.random() < 0.6:
        with graph.loop("again", reduced, {}):
            given = [*graph.reads({"x": batch + "MN"}, read, compute), *values]
            last = graph.whole_tiles(graph.some(given, compute, 3), batch + "MN")[-1]
            graph.write(last, "y")
        tensors += declared({"y": batch + "MN"}, compute, output=True)
    return _over_rows(graph, batch, kept, tensors)


def scans(random: Random, whole: bool) -> RandomSpec:
    """A scan along rows (or columns), with what is made of it and the total behind it."""
    read, compute = types_of(random, whole)
    graph, batch = Graph(random, whole), batch_of(random)
    kept, reduced = random.choice(("MN", "NM"))
    word = random.choice(tuple(_TOTALS))
    total = _TOTALS[word]
    start = graph.register(batch + kept, compute, random.choice((_STARTS[total], _STARTS[total] // 50)))
    with graph.loop("rows", reduced, {"before": start}):
        given = graph.some(graph.reads({"x": batch + "MN"}, read, compute), compute, 2)
        part = random.choice([one for one in given if one.bound < 2**12] or given[:1])
        running = graph.op(f"{{{word}: {part.name}, dim: {reduced}, init: before}}")
        graph.op(f"before: {{{total}: {part.name}, dim: {reduced}, init: before}}", name=False)
        bound = part.bound * 300 if word == "cumsum" else max(part.bound, 100)
        made = graph.some([Value(running, batch + "MN", compute, bound if whole else 10), *given], compute, 2)
        graph.write(made[-1] if made[-1].name not in {one.name for one in given} else made[0], "y")
    graph.op("{write: rows.before, to: r}", name=False)
    tensors = [
        *declared({"x": batch + "MN"}, read),
        *declared({"y": batch + "MN", "r": batch + kept}, compute, output=True),
    ]
    return _over_rows(graph, batch, kept, tensors)


def extremes(random: Random, whole: bool) -> RandomSpec:
    """Where the largest or smallest elements are, and which: many are equal."""
    graph, batch = Graph(random, whole), batch_of(random)
    kept, reduced = random.choice(("MN", "NM"))
    dtype = random.choice(("f32", "f16", "bf16", "i32", "i8") if whole else ("f32", "f16"))
    places = random.choice(("i32", "i64"))
    word = random.choice(("argmax", "argmin", "topk"))
    largest = word == "argmax" or (word == "topk" and random.random() < 0.6)
    result = batch + "MN".replace(reduced, "K" if word == "topk" else "")
    worst = (_LEAST if largest else _MOST).get(dtype, "-.inf" if largest else ".inf")
    nowhere = graph.register(result, places, 2**31 - 1)
    extreme = graph.register(result, dtype, worst)
    with graph.loop("rows", reduced, {"found": extreme, "places": nowhere}):
        (part,) = graph.reads({"x": batch + "MN"}, dtype, dtype)
        if word == "topk":
            fields = f"dim: {reduced}, k: K, largest: {str(largest).lower()}, indices: places, init: [found, places]"
            graph.op(f"found: {{topk: {part.name}, {fields}, dtype: {places}}}", name=False)
        else:
            fields = f"dim: {reduced}, extreme: found, init: [places, found], dtype: {places}"
            graph.op(f"places: {{{word}: {part.name}, {fields}}}", name=False)
    graph.op("{write: rows.found, to: y}", name=False)
    graph.op("{write: rows.places, to: r}", name=False)
    tensors = [
        *declared({"x": batch + "MN"}, dtype),
        *declared({"y": result}, dtype, output=True),
        *declared({"r": result}, places, output=True),
    ]
    return _over_rows(graph, batch, kept, tensors, f"K: {{value: {random.choice((1, 2, 5))}}}" if "K" in result else "")


def bounded(random: Random, whole: bool) -> RandomSpec:
    """Sums of a triangle, or of as much as a tensor says, where a bound or a branch leaves out what is masked."""
    read, compute = types_of(random, whole)
    graph = Graph(random, whole)
    length = graph.op("{read: count}")
    mask, bound, condition = random.choice(
        (
            ("index(N) <= index(M)", "end: end(M)", "start(N) < end(M)"),
            ("index(N) >= index(M)", "start: start(M)", "end(N) > start(M)"),
            (f"index(N) < {length}", f"end: {length}", f"start(N) < {length}"),
            (f"index(N) >= {length}", f"start: {length}", f"end(N) > {length}"),
        )
    )
    word = random.choice(("sum", "max", "min"))
    start = graph.register("M", compute, _STARTS[word])

    def step(total: str) -> None:
        (part,) = graph.reads({"x": "MN"}, read, compute)
        kept = graph.op(f'"where({mask}, {part.name}, {_STARTS[word]})"')
        graph.op(f"{total}: {{{word}: {kept}, dim: N, init: {total}}}", name=False)

    if random.random() < 0.5:
        with graph.loop("rows", "N", {"total": start}, bound):
            step("total")
    else:
        with graph.loop("rows", "N", {"total": start}):
            with graph.inside(f'some:\nif: "{condition}"\ncarry: {{inner: total}}'):
                step("inner")
            graph.op("total: some.inner", name=False)
    with graph.inside(f'last:\nif: "{length} {random.choice(("<", ">=", "=="))} 1"\ncarry: {{t: rows.total}}'):
        graph.op('t: "t * 2 + 1"', name=False)
    if random.random() < 0.5:
        graph.lines.append(f'{graph.indent}    otherwise:\n{graph.indent}      - t: "t - 3"')
    graph.op("{write: last.t, to: r}", name=False)
    tensors = [
        *declared({"x": "MN"}, read),
        "count: {shape: [], dtype: i32}",
        *declared({"r": "M"}, compute, output=True),
    ]
    return _over_rows(graph, "", "M", tensors)


def _over_rows(graph: Graph, batch: str, kept: str, tensors: list[str], dims: str = "") -> RandomSpec:
    """The spec whose workgroups have some of the rows (columns) each, and walk along them."""
    random, reduced = graph.random, "N" if kept == "M" else "M"
    waves = random.choice((1, 1, 2))
    rows, columns = random.choice((2, 4, 8)), random.choice((64, 128, 256))
    constraints = [f"workgroup: {kept}, tile: {rows}, axis: 0", f"wave: {kept}, tile: {rows // waves}"]
    if kept == "N":
        constraints = ["workgroup: N, tile: 64, axis: 0"]
        columns = random.choice((4, 8))
    constraints.append(f"tiling: {reduced}, tile: {columns}")
    if columns > 4 and random.random() < 0.3:
        constraints.append(f"wave: {reduced}, tile: {columns // 2}")
    constraints += [f"workgroup: {dim}, tile: 1, axis: 1" for dim in batch]
    empty = {"M": 9, "N": 0} if kept == "M" else {"M": 0, "N": 9}
    sizes = tuple(one | dict.fromkeys(batch, 2) for one in ({"M": 7, "N": 150}, {"M": 1, "N": 1}, empty))
    names = ", ".join([*(f"{dim}: {{}}" for dim in batch + "MN"), *([dims] if dims else [])])
    return RandomSpec(spec_text(f"{{{names}}}", tensors, constraints, graph), graph.whole, sizes)
