"""Products in loops in loops, drawn: a source of random numbers goes in; a spec comes out, and what it means in torch.

What it means is found tile by tile, by other code than the project's: every op that is drawn leaves a line of YAML and
a step of torch.  All numbers are whole and small enough that every sum is exact, so a result is right or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random

import torch
from torch import Tensor

from tests.fuzz.graph import Graph, Value, declared, spec_text

_MOST = 2**21
"""What no value of f32 passes, so that its sums with others are exact."""
_ROUGH = 7
"""What operands that are computed are limited to."""
_LIMITED = f"minimum(maximum({{0}}, -{_ROUGH}), {_ROUGH})"
_FORMULAS: dict[str, Callable[..., Tensor]] = {
    "{0} + {1}": torch.add,
    "{0} - {1}": torch.sub,
    "{0} * {1}": torch.mul,
    "maximum({0}, {1})": torch.maximum,
    "minimum({0}, {1})": torch.minimum,
    "bf16({0})": torch.clone,
    "f32({0})": torch.clone,
    _LIMITED: partial(torch.clamp, min=-_ROUGH, max=_ROUGH),
}
"""What texts with values 0, 1 ... mean."""
_SIZES = {"M": (40, 3), "N": (50, 20), "C": (45, 7), "E": (33, 5), "D": (32, 9), "P": (32, 32)}


@dataclass(slots=True)
class Run:
    """Values by name, each with its dims in order, and the part of each dim that the loops around are at."""

    sizes: dict[str, int]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    values: dict[str, tuple[str, Tensor]] = field(default_factory=dict[str, tuple[str, Tensor]])
    windows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def part(self, dims: str) -> tuple[slice, ...]:
        return tuple(slice(*self.windows.get(dim, (0, self.sizes[dim]))) for dim in dims)

    def shape(self, dims: str) -> list[int]:
        return [part.stop - part.start for part in self.part(dims)]

    def along(self, name: str, dims: str) -> Tensor:
        """A value, with a place for each of ``dims``."""
        own, value = self.values[name]
        order = [own.index(dim) for dim in dims if dim in own]
        return value.permute(order)[tuple(slice(None) if dim in own else None for dim in dims)]


_Step = Callable[[Run], None]


@dataclass(frozen=True, slots=True)
class Nest:
    """A spec as text, sizes to run it at, and the steps that say what it means."""

    text: str
    sizes: tuple[dict[str, int], ...]
    steps: tuple[_Step, ...]
    tensors: dict[str, str]
    outputs: dict[str, str]

    def inputs(self, sizes: dict[str, int]) -> dict[str, Tensor]:
        random = torch.Generator().manual_seed(sum(sizes.values()))
        return {
            name: torch.randint(-1, 2, [sizes[dim] for dim in dims], generator=random).double()
            for name, dims in self.tensors.items()
        }

    def expected(self, sizes: dict[str, int], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        outputs = {n: torch.zeros([sizes[d] for d in dims]).double() for n, dims in self.outputs.items()}
        run = Run(sizes, inputs, outputs)
        for step in self.steps:
            step(run)
        return outputs


@dataclass(slots=True)
class Drawing:
    """A spec as it is drawn."""

    random: Random
    tiles: dict[str, int]
    graph: Graph
    steps: list[_Step] = field(default_factory=list[_Step])
    tensors: dict[str, str] = field(default_factory=dict[str, str])
    rows: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])

    # ----------------------------------------------------------------------------------------------------------- ops

    def read(self, name: str, dims: str, *, row: bool = False) -> Value:
        (self.rows if row else self.tensors).setdefault(name, dims)
        made = self.graph.op(f"{{read: {name}}}")

        def step(run: Run) -> None:
            run.values[made] = dims, run.inputs[name][run.part(dims)]

        self.steps.append(step)
        return Value(made, dims, "f32" if row else "bf16", 1)

    def register(self, dims: str, number: int = 0) -> Value:
        made = self.graph.register(dims, "f32", number)

        def step(run: Run) -> None:
            run.values[made] = dims, torch.full(run.shape(dims), number).double()

        self.steps.append(step)
        return Value(made, dims, "f32", abs(number))

    def formula(self, text: str, bound: float, *values: Value, dtype: str = "f32", name: str = "") -> Value:
        """One of `_FORMULAS`."""
        dims = max((value.dims for value in values), key=len)
        written, means = text.format(*(value.name for value in values)), _FORMULAS[text]
        made = name or self.graph.op(f'"{written}"')
        if name:
            self.graph.op(f'{name}: "{written}"', name=False)

        def step(run: Run) -> None:
            run.values[made] = dims, means(*(run.along(value.name, dims) for value in values)).expand(run.shape(dims))

        self.steps.append(step)
        return Value(made, dims, dtype, bound)

    def limited(self, value: Value) -> Value:
        if value.bound <= _ROUGH:
            return value
        return self.formula(_LIMITED, _ROUGH, value)

    def operand(self, value: Value) -> Value:
        if value.dtype == "bf16":
            return value
        small = self.limited(value)
        return self.formula("bf16({0})", small.bound, small, dtype="bf16")

    def mma(self, left: Value, right: Value, start: Value, *, name: str = "") -> Value:
        left, right = self.operand(left), self.operand(right)
        text = f"{{mma: [{left.name}, {right.name}, {start.name}]}}"
        made = name or self.graph.op(text)
        if name:
            self.graph.op(f"{name}: {text}", name=False)
        formula = f"{left.dims},{right.dims}->{start.dims}"

        def step(run: Run) -> None:
            product = torch.einsum(formula, run.values[left.name][1], run.values[right.name][1])
            run.values[made] = start.dims, run.values[start.name][1] + product

        self.steps.append(step)
        (summed,) = (set(left.dims) & set(right.dims)) - set(start.dims)
        bound = start.bound + left.bound * right.bound * _SIZES[summed][0]
        assert bound < _MOST, bound
        return Value(made, start.dims, "f32", bound)

    def reduce(self, word: str, value: Value, dim: str, init: Value | None = None, *, name: str = "") -> Value:
        dims = value.dims.replace(dim, "")
        text = f"{{{word}: {value.name}, dim: {dim}{f', init: {init.name}' if init else ''}}}"
        made = name or self.graph.op(text)
        if name:
            self.graph.op(f"{name}: {text}", name=False)

        def step(run: Run) -> None:
            axis, start = value.dims.index(dim), None if init is None else run.along(init.name, dims)
            own = run.values[value.name][1]
            if word == "sum":
                run.values[made] = dims, own.sum(axis) + (0 if start is None else start)
            else:
                most = own.amax(axis)
                run.values[made] = dims, most if start is None else torch.maximum(most, start)

        self.steps.append(step)
        bound = value.bound * (_SIZES[dim][0] if word == "sum" else 1)
        return Value(made, dims, "f32", max(bound, init.bound if init else 0))

    def write(self, value: Value, tensor: str) -> None:
        self.outputs[tensor] = value.dims
        self.graph.write(value, tensor)

        def step(run: Run) -> None:
            run.outputs[tensor][run.part(value.dims)] = run.values[value.name][1]

        self.steps.append(step)

    @contextmanager
    def loop(self, name: str, dim: str, carry: dict[str, Value]) -> Generator[None]:
        outside, self.steps = self.steps, []
        with self.graph.loop(name, dim, {inner: value.name for inner, value in carry.items()}):
            yield
        body, self.steps = tuple(self.steps), outside
        tile = self.tiles[dim]

        def step(run: Run) -> None:
            for inner, value in carry.items():
                run.values[inner] = run.values[value.name]
            for at in range(0, run.sizes[dim], tile):
                run.windows[dim] = at, min(at + tile, run.sizes[dim])
                for one in body:
                    one(run)
            run.windows.pop(dim, None)
            for inner in carry:
                run.values[f"{name}.{inner}"] = run.values[inner]

        self.steps.append(step)

    # -------------------------------------------------------------------------------------------------------- shapes

    def some(self, values: list[Value], dims: str) -> Value:
        """A value with all of the dims, of those there are."""
        fitting = [one for one in values if set(one.dims) == set(dims) and one.dtype == "f32"]
        value = self.random.choice(fitting)
        for _ in range(self.random.randrange(3)):
            others = [one for one in values if set(one.dims) <= set(dims) and one.dtype == "f32"]
            other = self.random.choice(others)
            match self.random.randrange(3):
                case 0 if value.bound + other.bound < 2**14:
                    value = self.formula(
                        self.random.choice(("{0} + {1}", "{0} - {1}")), value.bound + other.bound, value, other
                    )
                case 1 if value.bound * other.bound < 2**14:
                    value = self.formula("{0} * {1}", value.bound * other.bound, value, other)
                case _:
                    word = self.random.choice(("maximum", "minimum"))
                    value = self.formula(f"{word}({{0}}, {{1}})", max(value.bound, other.bound), value, other)
        return value

    def start(self, dims: str, values: list[Value]) -> Value:
        """What sums start from: nothing, or values from elsewhere."""
        zero = self.register(dims, self.random.choice((0, 0, 0, 2)))
        others = [one for one in values if set(one.dims) <= set(dims) and one.dtype == "f32" and one.bound < 2**14]
        if others and self.random.random() < 0.35:
            other = self.random.choice(others)
            return self.formula("{0} + {1}", zero.bound + other.bound, zero, other)
        return zero

    def sums(self, dims: str, values: list[Value], name: str) -> Value:
        """A product of ``dims``, over C in a loop of its own or over D at once, or both."""
        left, right = dims
        value = self.start(dims, values)
        kind = self.random.randrange(4)
        if kind != 0:
            two = self.random.random() < 0.25
            rest = self.random.random() < 0.08
            carry = {f"{name}s": value}
            if two:
                carry[f"{name}t"] = self.register(dims)
            if rest:
                carry[f"{name}r"] = self.register(left)
            inside = Value(f"{name}s", dims, "f32", value.bound)
            with self.loop(f"{name}l", "C", carry):
                one = self.read(f"a{left}", f"{left}C")
                other = self.read(f"b{right}", f"{right}C")
                if self.random.random() < 0.3:
                    fitting = [v for v in values if v.dims in (left,) and v.dtype == "f32"]
                    if fitting:
                        by = self.random.choice(fitting)
                        wide = self.formula("f32({0})", 1, one)
                        one = self.operand(self.formula("{0} + {1}", 1 + by.bound, wide, by))
                done = self.mma(one, other, inside, name=f"{name}s")
                if two:
                    self.mma(
                        one, self.read(f"c{right}", f"{right}C"), Value(f"{name}t", dims, "f32", 0), name=f"{name}t"
                    )
                if rest:
                    self.reduce(
                        "sum", self.formula("f32({0})", 1, one), "C", Value(f"{name}r", left, "f32", 0), name=f"{name}r"
                    )
            value = Value(f"{name}l.{name}s", dims, "f32", done.bound)
            if two:
                other = Value(f"{name}l.{name}t", dims, "f32", _ROUGH * 45)
                value = self.formula("{0} + {1}", value.bound + other.bound, value, other)
            if rest:
                values.append(Value(f"{name}l.{name}r", left, "f32", _ROUGH * 45))
        if kind in (0, 1):
            left_read = next((v for v in values if v.dims == f"{left}D"), None) or self.read(f"q{left}", f"{left}D")
            right_read = self.read(f"k{right}", f"{right}D")
            value = self.mma(left_read, right_read, value)
        return value


def nest(random: Random, *, cpu: bool) -> Nest:
    """A loop over N with products and loops of products, carries of several kinds, rows from outside, and what follows."""
    parts = random.choice((1, 2)), random.choice((1, 1, 2))
    m = random.choice((32, 64))
    e = 32 * parts[1]
    tiles = {"M": m, "E": e, "N": random.choice((32, 64) if not cpu else (32, 64, 96)), "C": 32, "D": 32, "P": 32}
    d = Drawing(random, tiles, Graph(random, True))
    values: list[Value] = []
    if random.random() < 0.7:
        values.append(d.read("row", "M", row=True))
    if random.random() < 0.3:
        values.append(d.read("column", "E", row=True))
    if random.random() < 0.6:
        values.append(d.read("qM", "MD"))
    if random.random() < 0.25:
        values.append(d.sums("MP", values, "w"))
        values.append(d.reduce(random.choice(("max", "sum")), values[-1], "P"))
    scores = random.choice(("MN", "MN", "MN", "MN", "NM"))
    carries = {"acc": d.start("ME", values)}
    kinds = [
        kind
        for kind, chance in (("top", 0.5), ("total", 0.3), ("back", 0.3), ("second", 0.25))
        if random.random() < chance
    ]
    if "top" in kinds:
        carries["top"] = d.register("M", random.choice((0, -5)))
    if "total" in kinds:
        carries["total"] = d.register("M")
    if "back" in kinds:
        carries["back"] = d.register("MD")
    if "second" in kinds:
        carries["second"] = d.register("ME")
    with d.loop("keys", "N", carries):
        inside = list(values)
        if "top" in kinds:
            inside.append(Value("top", "M", "f32", 5000))
        if random.random() < 0.3:
            inside.append(d.read("noise", "N", row=True))
        inside.append(d.sums(scores, inside, "s"))
        if random.random() < 0.4:
            inside.append(
                d.reduce(
                    random.choice(("max", "sum")), d.limited(inside[-1]) if random.random() < 0.5 else inside[-1], "N"
                )
            )
        if random.random() < 0.35:
            inside.append(d.sums("MP", inside, "p"))
            inside.append(d.reduce("max", d.some(inside, "MP"), "P"))
        if random.random() < 0.3:
            inside.append(d.sums(scores, inside, "u"))
        if "top" in kinds:
            here = d.reduce("max", d.limited(d.some(inside, scores)), "N")
            inside = [one for one in inside if one.name != "top"]
            inside.append(d.formula("maximum({0}, {1})", _ROUGH, Value("top", "M", "f32", _ROUGH), here, name="top"))
        weight = d.operand(d.some(inside, scores))
        v = d.read("v", "NE")
        acc = Value("acc", "ME", "f32", carries["acc"].bound)
        if "total" in kinds:
            wide = d.formula("f32({0})", weight.bound, weight)
            d.reduce("sum", wide, "N", Value("total", "M", "f32", 0), name="total")
        if random.random() < 0.3:
            acc = d.formula(
                "{0} - {1}",
                acc.bound + 7,
                acc,
                d.limited(d.some([one for one in inside if one.dims == "M"] or [d.register("M")], "M")),
            )
        d.mma(weight, v, acc, name="acc")
        if "back" in kinds:
            d.mma(
                weight if random.random() < 0.5 else d.some(inside, scores),
                d.read("kN", "ND"),
                Value("back", "MD", "f32", 0),
                name="back",
            )
        if "second" in kinds:
            other = d.operand(d.some(inside, scores))
            d.mma(
                other, v if random.random() < 0.5 else d.read("w", "NE"), Value("second", "ME", "f32", 0), name="second"
            )
    after = [*values, Value("keys.acc", "ME", "f32", _MOST / 8)]
    bounds = {"top": 5000, "total": 350, "second": 20000}
    after += [Value(f"keys.{kind}", carries[kind].dims, "f32", bounds[kind]) for kind in kinds if kind in bounds]
    out = d.some(after, "ME")
    if random.random() < 0.25:
        out = d.mma(d.read("qM", "MD"), d.read("kE", "ED"), d.limited(out))
    if random.random() < 0.25:
        again = {"low": d.register("M", 3)}
        with d.loop("again", "N", again):
            s = d.sums(scores, after, "z")
            here = d.reduce("max", d.limited(d.some([s, *(one for one in after if one.dims == "M")], scores)), "N")
            d.formula("maximum({0}, {1})", _ROUGH, Value("low", "M", "f32", _ROUGH), here, name="low")
        out = d.formula("{0} + {1}", out.bound + 7, out, Value("again.low", "M", "f32", _ROUGH))
    for kind in kinds:  # all that is carried is used
        if carries[kind].dims != "MD":
            out = d.formula(
                "{0} + {1}",
                out.bound + bounds[kind],
                out,
                Value(f"keys.{kind}", carries[kind].dims, "f32", bounds[kind]),
            )
    d.write(out, "o")
    if "back" in kinds:
        d.write(Value("keys.back", "MD", "f32", 20000), "dq")
    space = random.choice(("shared", "shared", "global"))
    tensors = [
        *declared(d.tensors, "bf16", space=space),
        *declared(d.rows, "f32"),
        *declared(d.outputs, "f32", output=True),
    ]
    constraints = [
        f"workgroup: M, tile: {m}, axis: 0",
        f"workgroup: E, tile: {e}, axis: 1",
        f"wave: M, tile: {m // parts[0]}",
        f"wave: E, tile: {e // parts[1]}",
        *(f"tiling: {dim}, tile: {tiles[dim]}" for dim in "NCD"),
        "hardware: {mma: auto}",
    ]
    used = "".join([*d.tensors.values(), *d.rows.values(), *d.outputs.values()])
    known = {
        "D": "{max: 32}",
        "P": "{value: 32}",
        "N": random.choice(("{}", "{}", "{max: 96}")) if tiles["N"] == 96 else "{}",
    }
    dims = ", ".join(f"{dim}: {known.get(dim, '{}')}" for dim in "MNECDP" if dim in used)
    constraints = [one for one in constraints if not one.startswith("tiling") or one[8] in used]
    sizes = tuple({dim: _SIZES[dim][which] for dim in "MNECDP" if dim in used} for which in (0, 1))
    text = spec_text(f"{{{dims}}}", tensors, constraints, d.graph)
    return Nest(text, sizes, tuple(d.steps), {**d.tensors, **d.rows}, d.outputs)
