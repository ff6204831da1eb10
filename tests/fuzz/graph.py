"""Ops of a random graph, as they are drawn: a source of random numbers goes in, lines of YAML and values come out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from random import Random

EXACT = ("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "relu", "where")
SMOOTH = (*EXACT, "sigmoid", "tanh", "sin", "cos", "erf", "gelu", "silu", "exp", "sqrt")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
FLOATS = ("f64", "f32", "f16", "bf16")
WHOLE = ("i64", "i32", "i16", "i8", "u8")
LIMITS = {"f64": 2**40, "f32": 2**22, "f16": 2**10, "bf16": 2**7, "i64": 2**40, "i32": 2**28, "i8": 2**6}
"""Whole numbers up to these are exact in a type, and so are sums of two of them."""


@dataclass(frozen=True, slots=True)
class RandomSpec:
    """A spec as text; `whole` says that results are exact for whole numbers from -3 to 3; `columns`: of tensors of any
    strides, how many are in front of the view that is passed."""

    text: str
    whole: bool
    sizes: tuple[dict[str, int], ...]
    columns: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    dims: str
    dtype: str
    bound: float


@dataclass(slots=True)
class Graph:
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

    @contextmanager
    def inside(self, head: str) -> Generator[None]:
        """What is drawn meanwhile is the body of the op that `head` opens, whose fields are a line each."""
        outside = self.indent
        self.lines.append(f"{outside}- {head.replace(chr(10), chr(10) + outside + '    ')}")
        self.lines.append(f"{outside}    body:")
        self.indent = outside + " " * 6
        yield
        self.indent = outside

    def cast(self, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        return Value(self.op(f"{{cast: {value.name}, dtype: {dtype}}}"), value.dims, dtype, value.bound)

    def loop(self, name: str, dim: str, carry: dict[str, str], bound: str = "") -> AbstractContextManager[None]:
        """The body of a loop over a dim; `carry` has what each carried name starts from."""
        pairs = ", ".join(f"{inner}: {start}" for inner, start in carry.items())
        fields = [f"{name}:", f"iterate: {dim}", *([bound] if bound else []), f"carry: {{{pairs}}}"]
        return self.inside("\n".join(fields))

    def register(self, dims: str, dtype: str, value: float | str) -> str:
        return self.op(f"{{register: [{', '.join(dims)}], dtype: {dtype}, value: {value}}}")

    def reads(self, inputs: dict[str, str], read: str, compute: str) -> list[Value]:
        """What tensors hold, in the type that is computed in."""
        found = ((self.op(f"{{read: {name}}}"), dims) for name, dims in inputs.items())
        return [self.cast(Value(name, dims, read, 1 if read == "bool" else 3), compute) for name, dims in found]

    def write(self, value: Value, tensor: str) -> None:
        self.op(f"{{write: {value.name}, to: {tensor}}}", name=False)

    def whole_tiles(self, values: list[Value], dims: str) -> list[Value]:
        """Those of all the dims."""
        return [one for one in values if set(one.dims) == set(dims)]

    def elementwise(self, values: list[Value], dtype: str) -> Value:
        """One more value, of two or three of those there are; never of one dim against another alone."""
        random = self.random
        first = self.cast(random.choice(values), dtype)
        fitting = [one for one in values if set(one.dims) <= set(first.dims) or set(first.dims) <= set(one.dims)]
        second = self.cast(random.choice(fitting), dtype)
        whole_type = dtype.startswith("i")
        word = random.choice(EXACT if self.whole or whole_type or dtype == "f64" else SMOOTH)
        dims = max(first.dims, second.dims, key=len)
        bound = max(first.bound, second.bound)
        if word == "mul":
            bound = first.bound * second.bound
        elif word in ("add", "sub"):
            bound = first.bound + second.bound
        if bound > (LIMITS[dtype] if self.whole else 100):
            word, bound = "minimum", max(first.bound, second.bound)
        if word in BINARY:
            if random.random() < 0.3:
                sign = {"add": "+", "sub": "-", "mul": "*"}.get(word)
                formula = f"{first.name} {sign} {second.name}" if sign else f"{word}({first.name}, {second.name})"
                return Value(self.op(f'"{formula}"'), dims, dtype, bound)
            return Value(self.op(f"{{{word}: [{first.name}, {second.name}]}}"), dims, dtype, bound)
        if word == "where":
            test = self.op(f"{{{random.choice(('lt', 'ge', 'ne'))}: [{first.name}, {second.name}]}}")
            return Value(self.op(f"{{where: [{test}, {first.name}, {second.name}]}}"), dims, dtype, bound)
        operand = first
        if word == "sqrt":
            operand = Value(self.op(f"{{abs: {first.name}}}"), first.dims, dtype, first.bound)
        if word == "exp":  # of what is not positive
            size = self.op(f"{{abs: {first.name}}}")
            operand = Value(self.op(f"{{neg: {size}}}"), first.dims, dtype, 1)
        return Value(self.op(f"{{{word}: {operand.name}}}"), first.dims, dtype, max(operand.bound, 1))

    def some(self, values: list[Value], dtype: str, most: int) -> list[Value]:
        """The values, and some more made of them."""
        values = list(values)
        for _ in range(self.random.randrange(most + 1)):
            values.append(self.elementwise(values, dtype))
        return values


def batch_of(random: Random) -> str:
    """A dim that the grid counts one by one, or none."""
    return random.choice(("", "", "B"))


def declared(tensors: dict[str, str], dtype: str, *, space: str = "", output: bool = False) -> list[str]:
    """The lines of tensors, each with its dims."""
    more = (f", space: {space}" if space else "") + (", role: output" if output else "")
    return [f"{name}: {{shape: [{', '.join(dims)}], dtype: {dtype}{more}}}" for name, dims in tensors.items()]


def types_of(random: Random, whole: bool) -> tuple[str, str]:
    """What is read, and what is computed in."""
    compute = random.choice(("f32", "f32", "i32", "f64", "i64")) if whole else "f32"
    read = random.choice({"f32": ("f32", "f16", "bf16"), "i32": ("i32", "i8"), "i64": ("i64",)}.get(compute, ("f64",)))
    return read, compute


def spec_text(dims: str, tensors: list[str], constraints: list[str], graph: Graph, schedule: str = "") -> str:
    lines = ["apiVersion: wavespec/v1", "kind: Kernel", "name: random", f"dims: {dims}", "tensors:"]
    lines += [f"  {tensor}" for tensor in tensors]
    lines += ["constraints:", *(f"  - {{{constraint}}}" for constraint in constraints), "graph:", *graph.lines]
    return "\n".join([*lines, *([f"schedule: {schedule}"] if schedule else [])]) + "\n"
