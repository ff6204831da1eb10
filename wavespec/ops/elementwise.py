"""The elementwise ops: each function in steps that every machine has, and on whole tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Elementwise

if TYPE_CHECKING:
    import torch

Operand = Value | float | int


class Steps:
    """Steps on ``size`` elements of one lane; a number stands for that many of it."""

    def __init__(self, build: ThreadBuilder, like: Value, hint: str) -> None:
        self.build, self.hint = build, hint
        self.dtype, self.size = like.vector.dtype, like.vector.elements

    def __call__(self, function: str, *operands: Operand) -> Value:
        values = [operand if isinstance(operand, Value) else self._constant(operand) for operand in operands]
        return self.build.elementwise(function, *values, hint=self.hint)

    def _constant(self, number: float | int) -> Value:
        exact = float(number) if self.dtype.is_float else int(number)
        return self.build.constant(exact, self.dtype, self.size)

    def polynomial(self, x: Value, *coefficients: float) -> Value:
        """``Σ coefficients[i] · xⁱ``."""
        *rest, last = coefficients
        total: Operand = last
        for coefficient in reversed(rest):
            total = self("fma", total, x, coefficient)
        assert isinstance(total, Value), "a polynomial has at least two coefficients"
        return total


def _plain(function: str) -> Callable[..., Value]:
    """A function that is one step."""

    def step(steps: Steps, *operands: Value) -> Value:
        return steps(function, *operands)

    return step


_TOGETHER = 4
"""Elements taken through a function together on machines without vector registers, to hide the time of each step."""

# Coefficients below are minimax fits in f64 of the function that stands beside them, rounded to f32.
_LOG2_E, _LOG2_E_REST = 1.4426950216293335, 1.925963033500692e-08
_ROUND = 1.5 * 2.0**23  # added and subtracted, it rounds an f32 to an integer


def _exp(steps: Steps, x: Value) -> Value:
    """``2ⁿ · 2ᶠ``: the product with log2(e) in one f32 would lose as many bits as n has."""
    x = steps("maximum", steps("minimum", x, 89.0), -105.0)  # beyond, the result is infinity or 0
    n = steps("sub", steps("fma", x, _LOG2_E, _ROUND), _ROUND)
    f = steps("fma", x, _LOG2_E_REST, steps("fma", x, _LOG2_E, steps("neg", n)))
    return steps("mul", steps("exp2", n), steps("exp2", f))


def _erf(steps: Steps, x: Value) -> Value:
    """Near 0 ``x + x · p(x²)``, else ``1 - 2^q(|x|)``."""
    size = steps("minimum", steps("abs", x), 4.0)  # 1 - erf(4) is below half a digit of 1
    square = steps("mul", size, size)
    # erf(x) / x - 1 for |x| <= 0.85
    near = (0.12837916612625122, -0.3761257231235504, 0.11282717436552048, -0.02680254727602005, 0.00505109503865242)
    small = steps("fma", size, steps.polynomial(square, *near, -0.000631513015832752), size)
    # log2(1 - erf(x)) for 0.85 <= x <= 4.1
    far = (-0.0001654821098782122, -1.6273822784423828, -0.9184220433235168, -0.15068665146827698, 0.03243030607700348)
    rest = steps("exp2", steps.polynomial(size, *far, -0.004482711665332317, 0.00029218519921414554))
    return _odd(steps, x, steps("select_less", size, 0.85, small, steps("sub", 1.0, rest)))


def _tanh(steps: Steps, x: Value) -> Value:
    """Near 0 ``x + x³ · p(x²)``, else ``1 - 2 / (e^2|x| + 1)``."""
    size = steps("abs", x)
    square = steps("mul", size, size)
    # (tanh(x) / x - 1) / x² for |x| <= 0.8
    near = (-0.33333298563957214, 0.13332270085811615, -0.05385585501790047, 0.02131400816142559, -0.007425215095281601)
    small = steps("fma", steps("mul", size, square), steps.polynomial(square, *near, 0.0015930383233353496), size)
    power = steps("exp2", steps("mul", size, 2 * _LOG2_E))
    large = steps("sub", 1.0, steps("div", 2.0, steps("add", power, 1.0)))
    return _odd(steps, x, steps("select_less", size, 0.8, small, large))


def _odd(steps: Steps, x: Value, positive: Value) -> Value:
    """What is known of ``|x|`` with the sign of ``x``."""
    return steps("select_less", x, 0.0, steps("neg", positive), positive)


def _one_plus_exp(steps: Steps, x: Value) -> Value:
    """``1 + e^-x``; adding 1 hides what the exponent lacks."""
    return steps("add", steps("exp2", steps("mul", x, -_LOG2_E)), 1.0)


def _sigmoid(steps: Steps, x: Value) -> Value:
    return steps("div", 1.0, _one_plus_exp(steps, x))


def _silu(steps: Steps, x: Value) -> Value:
    return steps("div", x, _one_plus_exp(steps, x))


def _relu(steps: Steps, x: Value) -> Value:
    return steps("maximum", x, 0)


def _gelu(steps: Steps, x: Value) -> Value:
    """``max(x, 0) - |x| / 2 · erfc(|x| / √2)``: no difference of near numbers, and no cases."""
    size = steps("minimum", steps("abs", x), 16.0)  # beyond, erfc is 0
    # log2(erfc(x / √2)) for 0 <= x <= 7; falls on from there
    tail = (0.0, -1.1511110067367554, -0.4591621458530426, -0.05262761190533638, 0.007245420943945646)
    tail = (*tail, -0.0002720756165217608, -0.0001314732653554529, 2.8056947485310957e-05, -1.9020661738977651e-06)
    rest = steps("mul", steps("mul", size, -0.5), steps("exp2", steps.polynomial(size, *tail)))
    return steps("add", steps("maximum", x, 0.0), rest)


def _gelu_tanh(steps: Steps, x: Value) -> Value:
    """``x / 2 · (1 + tanh(u))`` is ``x · sigmoid(2u)``, with ``u = √(2/π) · (x + 0.044715 x³)``."""
    factor = 2 * math.sqrt(2 / math.pi)
    twice = steps("mul", x, steps.polynomial(steps("mul", x, x), factor, 0.044715 * factor))
    return steps("div", x, _one_plus_exp(steps, twice))


@dataclass(frozen=True, slots=True)
class Meaning:
    """One function: ``steps`` of a lane, in f32 where its type has fewer bits, and ``reference``, its name in torch."""

    steps: Callable[..., Value]
    reference: str
    options: Mapping[str, str]


def _meaning(steps: Callable[..., Value], reference: str, **options: str) -> Meaning:
    return Meaning(steps, reference, options)


MEANINGS: dict[str, Meaning] = {
    "add": _meaning(_plain("add"), "add"),
    "sub": _meaning(_plain("sub"), "sub"),
    "mul": _meaning(_plain("mul"), "mul"),
    "div": _meaning(_plain("div"), "div"),
    "maximum": _meaning(_plain("maximum"), "maximum"),
    "minimum": _meaning(_plain("minimum"), "minimum"),
    "neg": _meaning(_plain("neg"), "neg"),
    "relu": _meaning(_relu, "relu"),
    "exp": _meaning(_exp, "exp"),
    "exp2": _meaning(_plain("exp2"), "exp2"),
    "erf": _meaning(_erf, "erf"),
    "tanh": _meaning(_tanh, "tanh"),
    "sigmoid": _meaning(_sigmoid, "sigmoid"),
    "silu": _meaning(_silu, "nn.functional.silu"),
    "gelu": _meaning(_gelu, "nn.functional.gelu"),
    "gelu_tanh": _meaning(_gelu_tanh, "nn.functional.gelu", approximate="tanh"),
}
"""A row for each row of `FUNCTIONS` in `wavespec/schema/ops/elementwise.py`."""


def to_tile(statement: Elementwise, context: TileContext) -> None:
    """A number becomes a register without dims, which is broadcast as any value with fewer dims is."""
    written = [getattr(statement, field) for field in statement.headline]
    known = [context.names[operand] for operand in written if isinstance(operand, str)]
    widest = max(known, key=lambda value: len(value.tile.dims)).tile
    operands: list[Value] = []
    for operand in written:
        if isinstance(operand, str):
            operands.append(context.names[operand])
            continue
        number = context.tile("number", (), widest.dtype)
        exact = float(operand) if widest.dtype.is_float else int(operand)
        context.add("register", (), (number,), statement.span, node=statement.name, value=exact)
        operands.append(number)
    result = context.tile(statement.name, widest.dims, widest.dtype)
    context.add("elementwise", tuple(operands), (result,), statement.span, node=statement.name, function=statement.word)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    """In f32 where the type has fewer bits."""
    build, result = context.build, op.result
    layout, dtype = result.tile.layout, result.tile.dtype
    assert layout is not None
    operands = [broadcast_fragments(build, value, context.fragments[value.name], layout) for value in op.operands]
    compute = DTYPES["f32"] if dtype.is_float and dtype.bits < 32 else dtype

    def piece(*values: Value) -> Value:
        wide = [build.cast(value, compute, result.name) for value in values]
        made = MEANINGS[op["function"]].steps(Steps(build, wide[0], result.name), *wide)
        return build.cast(made, dtype, result.name)

    context.fragments[result.name] = piecewise(context, operands, result, piece)


def piecewise(
    context: ThreadContext, operands: Sequence[Sequence[Value]], result: Value, piece: Callable[..., Value]
) -> tuple[Value, ...]:
    """Apply ``piece`` to the fragments of values: a vector register, or a few elements, after the other, so that what
    it makes on the way is short-lived."""
    made: list[Value] = []
    size = context.machine.vector_bytes // DTYPES["f32"].bytes or _TOGETHER
    for fragments in zip(*operands, strict=True):
        total = fragments[0].vector.elements
        parts: list[Value] = []
        for start in range(0, total, size):
            cut = [context.build.slice(v, start, min(size, total - start), v.name) for v in fragments]
            parts.append(piece(*cut))
        made.append(context.build.pack(parts, result.name))
    return tuple(made)


def reference(statement: Elementwise, context: ReferenceContext) -> None:
    """Dims are matched by name; of operands with the same dims the first says their order."""
    import torch

    written = [getattr(statement, field) for field in statement.headline]
    known = [operand for operand in written if isinstance(operand, str)]
    dims = max((context.dims[name] for name in known), key=len)
    values = [_aligned(context, operand, dims) if isinstance(operand, str) else operand for operand in written]
    like = context.names[known[0]]
    tensors = [value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=like.dtype) for value in values]
    meaning = MEANINGS[statement.word]
    function: Any = torch
    for part in meaning.reference.split("."):
        function = getattr(function, part)
    context.define(statement.name, dims, function(*tensors, **meaning.options))


def _aligned(context: ReferenceContext, name: str, dims: Sequence[str]) -> torch.Tensor:
    """The value as one with ``dims``, of extent 1 where it has none."""
    value, own = context.names[name], context.dims[name]
    value = value.permute([own.index(dim) for dim in dims if dim in own])
    return value[tuple(slice(None) if dim in own else None for dim in dims)]
