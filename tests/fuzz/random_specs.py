"""A source of random numbers goes in; a valid spec, with sizes to run it at, comes out.

A spec is a graph of elementwise ops, reductions, products and broadcasts, over loops or without them, in random
types, tiles and schedules.  Half of them compute on whole numbers with ops that are exact, so that a result is right
or wrong; the others on normal numbers, where it is as close as torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

EXACT = ("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "relu", "where")
SMOOTH = (*EXACT, "sigmoid", "tanh", "sin", "cos", "erf", "gelu", "silu", "exp", "sqrt")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
_LIMITS = {"f64": 2**40, "f32": 2**22, "f16": 2**10, "bf16": 2**7, "i64": 2**40, "i32": 2**28, "i8": 2**6}
"""Whole numbers up to these are exact in a type, and so are sums of two of them."""


@dataclass(frozen=True, slots=True)
class RandomSpec:
    """A spec as text; `whole` says that results are exact for whole numbers from -3 to 3."""

    text: str
    whole: bool
    sizes: tuple[dict[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Value:
    name: str
    dims: str
    dtype: str
    bound: float


@dataclass(slots=True)
class _Graph:
    """Ops as they are drawn, an indent for each loop they are in."""

    random: Random
    whole: bool
    indent: str = "  "
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def op(self, text: str, *, name: bool = True) -> str:
        """Write an op; returns the name of its value."""
        if not name:
            self.lines.append(f"{self.indent}- {text}")
            return ""
        self.count += 1
        self.lines.append(f"{self.indent}- v{self.count}: {text}")
        return f"v{self.count}"

    def cast(self, value: _Value, dtype: str) -> _Value:
        if value.dtype == dtype:
            return value
        return _Value(self.op(f"{{cast: {value.name}, dtype: {dtype}}}"), value.dims, dtype, value.bound)

    def read(self, tensor: str, dims: str, dtype: str) -> _Value:
        return _Value(self.op(f"{{read: {tensor}}}"), dims, dtype, 3)

    def elementwise(self, values: list[_Value], dtype: str) -> _Value:
        """One more value, of two or three of those there are; never of one dim against another alone."""
        random = self.random
        first = self.cast(random.choice(values), dtype)
        fitting = [one for one in values if set(one.dims) <= set(first.dims) or set(first.dims) <= set(one.dims)]
        second = self.cast(random.choice(fitting), dtype)
        whole_type = dtype.startswith("i")
        word = random.choice(EXACT if self.whole or whole_type else SMOOTH)
        dims = max(first.dims, second.dims, key=len)
        bound = max(first.bound, second.bound)
        if word == "mul":
            bound = first.bound * second.bound
        elif word in ("add", "sub"):
            bound = first.bound + second.bound
        if bound > (_LIMITS[dtype] if self.whole else 100):
            word, bound = "minimum", max(first.bound, second.bound)
        if word in BINARY:
            if random.random() < 0.3:
                sign = {"add": "+", "sub": "-", "mul": "*"}.get(word)
                formula = f"{first.name} {sign} {second.name}" if sign else f"{word}({first.name}, {second.name})"
                return _Value(self.op(f'"{formula}"'), dims, dtype, bound)
            return _Value(self.op(f"{{{word}: [{first.name}, {second.name}]}}"), dims, dtype, bound)
        if word == "where":
            test = self.op(f"{{{random.choice(('lt', 'ge', 'ne'))}: [{first.name}, {second.name}]}}")
            return _Value(self.op(f"{{where: [{test}, {first.name}, {second.name}]}}"), dims, dtype, bound)
        operand = first
        if word == "sqrt":
            operand = _Value(self.op(f"{{abs: {first.name}}}"), first.dims, dtype, first.bound)
        if word == "exp":  # of what is not positive
            size = self.op(f"{{abs: {first.name}}}")
            operand = _Value(self.op(f"{{neg: {size}}}"), first.dims, dtype, 1)
        return _Value(self.op(f"{{{word}: {operand.name}}}"), first.dims, dtype, max(operand.bound, 1))

    def some(self, values: list[_Value], dtype: str, most: int) -> list[_Value]:
        """The values, and some more made of them."""
        values = list(values)
        for _ in range(self.random.randrange(most + 1)):
            values.append(self.elementwise(values, dtype))
        return values


def random_spec(random: Random) -> RandomSpec:
    """A spec of one of the forms below."""
    return random.choice((_rows, _rows, _products, _elementwise))(random, random.random() < 0.6)


def _types(random: Random, whole: bool) -> tuple[str, str]:
    """What is read, and what is computed in."""
    compute = random.choice(("f32", "f32", "i32", "f64", "i64")) if whole else "f32"
    read = random.choice({"f32": ("f32", "f16", "bf16"), "i32": ("i32", "i8"), "i64": ("i64",)}.get(compute, ("f64",)))
    return read, compute


def _spec(dims: str, tensors: list[str], constraints: list[str], graph: _Graph, schedule: str = "") -> str:
    lines = ["apiVersion: wavespec/v1", "kind: Kernel", "name: random", f"dims: {dims}", "tensors:"]
    lines += [f"  {tensor}" for tensor in tensors]
    lines += ["constraints:", *(f"  - {{{constraint}}}" for constraint in constraints), "graph:", *graph.lines]
    return "\n".join([*lines, *([f"schedule: {schedule}"] if schedule else [])]) + "\n"


def _rows(random: Random, whole: bool) -> RandomSpec:
    """Reductions along rows (or columns), values made of them, and rows made of those."""
    read, compute = _types(random, whole)
    graph = _Graph(random, whole)
    kept, reduced = random.choice(("MN", "NM"))
    inputs = {
        "x": "MN",
        **({"z": "MN"} if random.random() < 0.4 else {}),
        **({"v": reduced} if random.random() < 0.4 else {}),
    }
    words = random.sample(("sum", "max", "min"), random.randrange(1, 3))
    start = {"sum": 0, "max": -100, "min": 100}
    carried = {word: graph.op(f"{{register: [{kept}], dtype: {compute}, value: {start[word]}}}") for word in words}
    pairs = ", ".join(f"t_{word}: {name}" for word, name in carried.items())
    graph.op(f"rows:\n      iterate: {reduced}\n      carry: {{{pairs}}}\n      body:", name=False)
    graph.indent = " " * 8
    given = [graph.cast(graph.read(name, dims, read), compute) for name, dims in inputs.items()]
    made = [one for one in graph.some(given, compute, 3) if one.dims == "MN"]
    sums: list[_Value] = []
    for word in words:
        part = random.choice([one for one in made if one.bound < 2**12] or given[:1])
        graph.op(f"t_{word}: {{{word}: {part.name}, dim: {reduced}, init: t_{word}}}", name=False)
        bound = part.bound * 300 if word == "sum" else max(part.bound, 100)
        sums.append(_Value(f"rows.t_{word}", kept, compute, bound if whole else 10))
    graph.indent = "  "
    values = graph.some(sums, compute, 2)
    tensors = [f"{name}: {{shape: [{', '.join(dims)}], dtype: {read}}}" for name, dims in inputs.items()]
    tensors.append(f"r: {{shape: [{kept}], dtype: {compute}, role: output}}")
    graph.op(f"{{write: {values[-1].name}, to: r}}", name=False)
    if random.random() < 0.6:
        graph.op(f"again:\n      iterate: {reduced}\n      carry: {{}}\n      body:", name=False)
        graph.indent = " " * 8
        more = graph.some([graph.cast(graph.read("x", "MN", read), compute), *values], compute, 3)
        last = [one for one in more if one.dims == "MN"][-1]
        graph.op(f"{{write: {last.name}, to: y}}", name=False)
        tensors.append(f"y: {{shape: [M, N], dtype: {compute}, role: output}}")
    waves = random.choice((1, 1, 2))
    rows, columns = random.choice((2, 4, 8)), random.choice((64, 128, 256))
    constraints = [f"workgroup: {kept}, tile: {rows}, axis: 0", f"wave: {kept}, tile: {rows // waves}"]
    if kept == "N":
        constraints = ["workgroup: N, tile: 64, axis: 0"]
        columns = random.choice((4, 8))
    constraints.append(f"tiling: {reduced}, tile: {columns}")
    sizes = ({"M": 7, "N": 150}, {"M": 1, "N": 1}, {"M": 9, "N": 0} if kept == "M" else {"M": 0, "N": 9})
    return RandomSpec(_spec("{M: {}, N: {}}", tensors, constraints, graph), whole, sizes)


def _products(random: Random, whole: bool) -> RandomSpec:
    """A matrix product and what is made of its sums."""
    dtype = random.choice(("f16", "bf16", "f32", "i8") if whole else ("f16", "bf16", "f32"))
    total = "i32" if dtype == "i8" else "f32"
    graph = _Graph(random, whole)
    extra = {name: dims for name, dims in {"bias": "N", "row": "M", "other": "MN"}.items() if random.random() < 0.35}
    zero = graph.op(f"{{register: [M, N], dtype: {total}, value: {random.choice((0, 0, 2))}}}")
    graph.op(f"k_loop:\n      iterate: K\n      carry: {{acc: {zero}}}\n      body:", name=False)
    graph.indent = " " * 8
    a, b = graph.op("{read: a}"), graph.op("{read: b}")
    graph.op(f"acc: {{mma: [{a}, {b}, acc]}}", name=False)
    graph.indent = "  "
    values = [_Value("k_loop.acc", "MN", total, 9 * 50 + 2 if whole else 10)]
    values += [graph.cast(graph.read(name, dims, total), total) for name, dims in extra.items()]
    made = [one for one in graph.some(values, total, 4) if one.dims == "MN"]
    # All that is read is used: the last value is made of everything.
    last = made[-1]
    graph.op(f"{{write: {last.name}, to: c}}", name=False)
    a_dims, b_dims = random.choice(("M, K", "K, M")), random.choice(("N, K", "K, N"))
    space = random.choice(("shared", "shared", "global"))
    tensors = [
        f"a: {{shape: [{a_dims}], dtype: {dtype}, space: {space}}}",
        f"b: {{shape: [{b_dims}], dtype: {dtype}, space: {space}}}",
    ]
    tensors += [f"{name}: {{shape: [{', '.join(dims)}], dtype: {total}}}" for name, dims in extra.items()]
    tensors.append(f"c: {{shape: [M, N], dtype: {total}, role: output}}")
    m, n, k = random.choice((32, 64)), random.choice((32, 64)), random.choice((32, 64))
    constraints = [
        f"workgroup: M, tile: {m}, axis: {random.choice((0, 0, 1))}",
        f"tiling: K, tile: {k}",
        f"wave: M, tile: {random.choice((m, m // 2))}",
        f"wave: N, tile: {random.choice((n, n // 2))}",
        "hardware: {mma: auto}",
    ]
    constraints.insert(1, f"workgroup: N, tile: {n}, axis: {1 - int(constraints[0][-1])}")
    sizes = ({"M": 35, "N": 40, "K": 50}, {"M": 1, "N": 2, "K": 0}, {"M": 3, "N": 65, "K": 17})
    schedule = random.choice(("", "{stages: 1}", "{stages: 2}", "{stages: 3}", "{stages: 2, auto: modulo}"))
    return RandomSpec(_spec("{M: {}, N: {}, K: {}}", tensors, constraints, graph, schedule), whole, sizes)


def _elementwise(random: Random, whole: bool) -> RandomSpec:
    """A graph without loops, of tensors of one and of two dims."""
    read, compute = _types(random, whole)
    graph = _Graph(random, whole)
    inputs = {
        "x": "MN",
        **{name: dims for name, dims in {"z": "MN", "v": "N", "w": "M"}.items() if random.random() < 0.5},
    }
    given = [graph.cast(graph.read(name, dims, read), compute) for name, dims in inputs.items()]
    made = [one for one in graph.some(given, compute, 8) if one.dims == "MN"]
    tensors = [f"{name}: {{shape: [{', '.join(dims)}], dtype: {read}}}" for name, dims in inputs.items()]
    for number, value in enumerate(random.sample(made, min(len(made), random.randrange(1, 3)))):
        graph.op(f"{{write: {value.name}, to: y{number}}}", name=False)
        tensors.append(f"y{number}: {{shape: [M, N], dtype: {compute}, role: output}}")
    m, n = random.choice((4, 8, 16)), random.choice((64, 128))
    constraints = [f"workgroup: M, tile: {m}, axis: 1", f"workgroup: N, tile: {n}, axis: 0"]
    if random.random() < 0.5:
        constraints.append(f"wave: M, tile: {m // 2}")
    sizes = ({"M": 17, "N": 130}, {"M": 1, "N": 1}, {"M": 0, "N": 3})
    return RandomSpec(_spec("{M: {}, N: {}}", tensors, constraints, graph), whole, sizes)
