"""The elementwise ops: each function in steps that every machine has, and on whole tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Op, Value, VectorType
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.tile_ops import MMA
from wavespec.ops import angles, bits, division, functions, parts_of_numbers, ranks, soft_steps, special
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.reduce import OF_NUMBERS
from wavespec.ops.steps import Steps, StepsOfMachine
from wavespec.schema.ops import Elementwise
from wavespec.schema.ops.elementwise import FUNCTIONS, dtype_of_numbers, shared_dims
from wavespec.targets.machine import Machine

if TYPE_CHECKING:
    import torch


def _plain(function: str) -> Callable[..., Value]:
    """A function that is one step."""

    def step(steps: Steps, *operands: Value) -> Value:
        return steps(function, *operands)

    return step


def _swapped(function: str) -> Callable[..., Value]:
    """A function that is one step of its operands the other way round."""

    def step(steps: Steps, lhs: Value, rhs: Value) -> Value:
        return steps(function, rhs, lhs)

    return step


_TOGETHER = 4
"""Elements taken through a function together on machines without vector registers, to hide the time of each step."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One function: ``steps`` of a lane, and ``reference``, its name in torch or what stands for it there.

    ``is_exact``: the steps are done in the type of the operands; else in f32 where that has fewer bits.
    ``of_type``: the numbers of that type are what it is about, whatever the reference computes in.
    """

    steps: Callable[..., Value]
    reference: str | Callable[..., torch.Tensor]
    options: Mapping[str, str]
    is_exact: bool = False
    of_type: bool = False


def _meaning(
    steps: Callable[..., Value],
    reference: str | Callable[..., torch.Tensor],
    *,
    exact: bool = False,
    of_type: bool = False,
    **options: str,
) -> Meaning:
    return Meaning(steps, reference, options, exact, of_type)


def _multiply_add(lhs: torch.Tensor, rhs: torch.Tensor, addend: torch.Tensor) -> torch.Tensor:
    """Torch has none that rounds once; what is wider rounds to the same, but for ties."""
    return (lhs.double() * rhs.double() + addend.double()).to(lhs.dtype)


def _cube_root(x: torch.Tensor) -> torch.Tensor:
    """Torch has none; in f64 this one is exact to 2 digits of the last place."""
    import torch

    root = torch.copysign(x.double().abs() ** (1 / 3), x.double())
    return root.to(x.dtype)


def _times_power(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Torch multiplies by a power that may be infinite, or 0."""
    return (x.double() * exponent.double().clamp(-300, 300).exp2()).to(x.dtype)


def _bessel(x: torch.Tensor) -> torch.Tensor:
    """That of torch is NaN of what is infinite."""
    import torch

    return torch.where(x.isinf(), x.abs(), torch.i0(x))


def _bits_that_are_set(x: torch.Tensor) -> torch.Tensor:
    """Torch has none."""
    import torch

    one = torch.ones_like(x)
    return sum((x >> at & one for at in range(8 * x.element_size())), torch.zeros_like(x))


MEANINGS: dict[str, Meaning] = {
    "add": _meaning(_plain("add"), "add"),
    "sub": _meaning(_plain("sub"), "sub"),
    "mul": _meaning(_plain("mul"), "mul"),
    "div": _meaning(_plain("div"), "div"),
    "floor_divide": _meaning(division.floor_divide, "floor_divide"),
    "remainder": _meaning(division.remainder, "remainder"),
    "fmod": _meaning(division.fmod, "fmod"),
    "pow": _meaning(functions.power, "pow"),
    "atan2": _meaning(functions.atan2, "atan2"),
    "hypot": _meaning(angles.hypot, "hypot"),
    "logaddexp": _meaning(soft_steps.logaddexp, "logaddexp"),
    "xlogy": _meaning(soft_steps.xlogy, "xlogy"),
    "ldexp": _meaning(special.ldexp, _times_power),
    "copysign": _meaning(_plain("copysign"), "copysign"),
    "nextafter": _meaning(bits.next_number, "nextafter", exact=True, of_type=True),
    "maximum": _meaning(_plain("maximum"), "maximum"),
    "minimum": _meaning(_plain("minimum"), "minimum"),
    "fmax": _meaning(bits.known_extreme("maximum"), "fmax"),
    "fmin": _meaning(bits.known_extreme("minimum"), "fmin"),
    "lt": _meaning(_plain("lt"), "lt"),
    "le": _meaning(_plain("le"), "le"),
    "gt": _meaning(_swapped("lt"), "gt"),
    "ge": _meaning(_swapped("le"), "ge"),
    "eq": _meaning(_plain("eq"), "eq"),
    "ne": _meaning(_plain("ne"), "ne"),
    "logical_and": _meaning(bits.logical("and"), "logical_and"),
    "logical_or": _meaning(bits.logical("or"), "logical_or"),
    "logical_xor": _meaning(bits.logical("xor"), "logical_xor"),
    "bitwise_and": _meaning(_plain("and"), "bitwise_and"),
    "bitwise_or": _meaning(_plain("or"), "bitwise_or"),
    "bitwise_xor": _meaning(_plain("xor"), "bitwise_xor"),
    "bitwise_left_shift": _meaning(bits.left_shift, "bitwise_left_shift"),
    "bitwise_right_shift": _meaning(bits.right_shift, "bitwise_right_shift"),
    "fma": _meaning(_plain("fma"), _multiply_add),
    "where": _meaning(_plain("where"), "where", exact=True),
    "clamp": _meaning(bits.clamp, "clamp"),
    "neg": _meaning(_plain("neg"), "neg"),
    "abs": _meaning(bits.absolute, "abs"),
    "sign": _meaning(bits.sign, "sign"),
    "signbit": _meaning(bits.has_sign, "signbit"),
    "isnan": _meaning(bits.is_nan, "isnan"),
    "isinf": _meaning(bits.is_infinite, "isinf"),
    "isfinite": _meaning(bits.is_finite, "isfinite"),
    "logical_not": _meaning(bits.logical_not, "logical_not"),
    "bitwise_not": _meaning(bits.bitwise_not, "bitwise_not"),
    "popcount": _meaning(bits.popcount, _bits_that_are_set),
    "relu": _meaning(functions.relu, "relu"),
    "floor": _meaning(_plain("floor"), "floor"),
    "ceil": _meaning(_plain("ceil"), "ceil"),
    "trunc": _meaning(_plain("trunc"), "trunc"),
    "round": _meaning(_plain("round"), "round"),
    "frac": _meaning(bits.frac, "frac"),
    "sqrt": _meaning(_plain("sqrt"), "sqrt"),
    "rsqrt": _meaning(functions.rsqrt, "rsqrt"),
    "cbrt": _meaning(functions.cbrt, _cube_root),
    "reciprocal": _meaning(functions.reciprocal, "reciprocal"),
    "exp": _meaning(functions.exp, "exp"),
    "exp2": _meaning(_plain("exp2"), "exp2"),
    "expm1": _meaning(functions.expm1, "expm1"),
    "log": _meaning(functions.log, "log"),
    "log2": _meaning(functions.log2, "log2"),
    "log10": _meaning(functions.log10, "log10"),
    "log1p": _meaning(functions.log1p, "log1p"),
    "sin": _meaning(functions.sin, "sin"),
    "cos": _meaning(functions.cos, "cos"),
    "tan": _meaning(angles.tan, "tan"),
    "asin": _meaning(angles.asin, "asin"),
    "acos": _meaning(angles.acos, "acos"),
    "atan": _meaning(functions.atan, "atan"),
    "sinh": _meaning(functions.sinh, "sinh"),
    "cosh": _meaning(angles.cosh, "cosh"),
    "asinh": _meaning(angles.asinh, "asinh"),
    "acosh": _meaning(angles.acosh, "acosh"),
    "atanh": _meaning(angles.atanh, "atanh"),
    "erf": _meaning(functions.erf, "erf"),
    "erfc": _meaning(soft_steps.erfc, "erfc"),
    "erfinv": _meaning(special.erfinv, "erfinv"),
    "lgamma": _meaning(special.lgamma, "lgamma"),
    "digamma": _meaning(special.digamma, "digamma"),
    "modified_bessel_i0": _meaning(special.bessel_i0, _bessel),
    "tanh": _meaning(functions.tanh, "tanh"),
    "sigmoid": _meaning(functions.sigmoid, "sigmoid"),
    "logsigmoid": _meaning(soft_steps.logsigmoid, "nn.functional.logsigmoid"),
    "softplus": _meaning(soft_steps.softplus, "nn.functional.softplus"),
    "mish": _meaning(soft_steps.mish, "nn.functional.mish"),
    "silu": _meaning(functions.silu, "nn.functional.silu"),
    "gelu": _meaning(functions.gelu, "nn.functional.gelu"),
    "gelu_tanh": _meaning(functions.gelu_tanh, "nn.functional.gelu", approximate="tanh"),
}
"""A row for each row of `FUNCTIONS` in `wavespec/schema/ops/elementwise.py`."""
FAST: dict[str, Callable[..., Value]] = {"tanh": functions.fast_tanh, "exp": functions.fast_exp}
"""Fewer steps for functions that may be approximate, a row for each name that `fast_math` takes."""
_OF_SUMS: dict[str, dict[str, Callable[..., Value]]] = {
    "below": {"exp": functions.exp_below},
    "close": {"exp": functions.close_exp},
}
"""Fewer steps of what is not positive, where results are added to 1, and closer ones."""
_QUOTIENTS: dict[str, Callable[..., Value]] = {"div": Steps.ratio, "reciprocal": functions.close_reciprocal}
"""Quotients that may be off by two units in the last place of f32."""
_INTERNAL = {**ranks.STEPS, **parts_of_numbers.STEPS, **{word: _plain(word) for word in OF_NUMBERS.values()}}


def to_tile(statement: Elementwise, context: TileContext) -> None:
    """A number becomes a register without dims, which is broadcast as any value with fewer dims is."""
    written = {field: getattr(statement, field) for field in statement.headline}
    known = {field: context.names[operand] for field, operand in written.items() if isinstance(operand, str)}
    typed = (value.tile.dtype for field, value in known.items() if field not in statement.flags)
    dtype = next(typed, None) or DTYPES[dtype_of_numbers(_numbers(statement))]
    operands: list[Value] = []
    for field, operand in written.items():
        if field in known:
            operands.append(known[field])
            continue
        number = context.tile("number", (), dtype)
        exact = float(operand) if dtype.is_float else int(operand)
        context.add("register", (), (number,), statement.span, node=statement.name, value=exact)
        operands.append(number)
    dims = shared_dims(value.tile.dims for value in known.values())
    made = DTYPES["bool"] if statement.function.result == "bool" else dtype
    result = context.tile(statement.name, dims, made)
    attributes: dict[str, Any] = {"function": statement.word}
    if statement.word in context.fast_math:
        attributes["fast"] = True
    context.add("elementwise", tuple(operands), (result,), statement.span, node=statement.name, **attributes)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    """In f32 where the type has fewer bits."""
    build, result, machine = context.build, op.result, context.machine
    layout, dtype = result.tile.layout, result.tile.dtype
    assert layout is not None
    operands = [broadcast_fragments(build, value, context.fragments[value.name], layout) for value in op.operands]
    is_of_numbers = bool(op.get("skips_nan"))  # which machines have an instruction for
    word = OF_NUMBERS[op["function"]] if is_of_numbers else op["function"]
    of_language = MEANINGS.get(word) if not is_of_numbers else None
    meaning = of_language or _meaning(_INTERNAL[word], word, exact=True)

    if op.get("below") or op.get("close"):
        meaning = replace(meaning, steps=_OF_SUMS["below" if op.get("below") else "close"][word])
    if op.get("fast"):
        meaning = replace(meaning, steps=_plain(word) if word in machine.approximations else FAST[word])
    if word in _QUOTIENTS and dtype.is_float and (dtype.bits < 32 or result.name in context.rounded):
        if word == "div" and _divides_many(op, context):
            context.fragments[result.name] = _by_reciprocals(op, context)
            return
        meaning = replace(meaning, steps=_QUOTIENTS[word])  # what it may be off by is not in so few bits
    if word == "mul" and dtype.name in machine.packed_products:
        # F32 has all bits of a product, which is rounded once either way.
        meaning = replace(meaning, is_exact=True)

    def piece(*values: Value) -> Value:
        wide = [build.cast(value, _computed(value, meaning), result.name) for value in values]
        steps = _steps(build, wide[-1], result.name, machine)
        return build.cast(meaning.steps(steps, *wide), dtype, result.name)

    context.fragments[result.name] = piecewise(context, operands, result, piece)


def _divides_many(op: Op, context: ThreadContext) -> bool:
    """Whether numbers of vector registers are divided by fewer ones, in a kernel that is not about products."""
    value, divisor = op.operands
    return (
        context.machine.lanes == 1
        and value.tile.dtype.name == divisor.tile.dtype.name == "f32"
        and set(divisor.tile.dims) < set(op.result.tile.dims)
        and not any(one.is_(MMA) for one in context.kernel.walk())
    )


def _by_reciprocals(op: Op, context: ThreadContext) -> tuple[Value, ...]:
    """Quotients that may be off by two units in the last place: of each divisor one reciprocal, and two products for
    each number. The second is with 1 but of divisors whose reciprocal is beyond f32, 2⁶⁴ of which has none beyond."""
    build, (value, divisor), layout, name = context.build, op.operands, op.result.tile.layout, op.result.name
    assert layout is not None
    reciprocals, factors = list[Value](), list[Value]()
    for one in context.fragments[divisor.name]:
        steps = _steps(build, one, name, context.machine)
        factor = steps("select_less", steps("abs", one), functions.SMALLEST_NORMAL, 2.0**64, 1.0)
        reciprocals.append(steps("div", 1.0, steps("mul", one, factor)))
        factors.append(factor)
    operands = [
        broadcast_fragments(build, tile, fragments, layout)
        for tile, fragments in (
            (value, context.fragments[value.name]),
            (divisor, reciprocals),
            (divisor, factors),
        )
    ]

    def piece(x: Value, reciprocal: Value, factor: Value) -> Value:
        steps = _steps(build, x, name, context.machine)
        return steps("mul", steps("mul", x, reciprocal), factor)

    return piecewise(context, operands, op.result, piece)


def function_of(context: ThreadContext, function: str, *values: Value, fast: bool, hint: str) -> Value:
    """A function of the language of values of f32 that one lane has."""
    machine, meaning = context.machine, MEANINGS[function]
    if fast:
        meaning = replace(meaning, steps=_plain(function) if function in machine.approximations else FAST[function])
    return meaning.steps(_steps(context.build, values[-1], hint, machine), *values)


@functools.cache
def multiplies_by_powers(word: str) -> bool:
    """Whether a function of the language has the step ``times_power`` where a machine has it."""
    operands = {row.word: row.operands for row in FUNCTIONS}
    if word not in operands:
        return False
    numbers = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(numbers)}")
    values = [Value(f"x{number}", VectorType(DTYPES["f32"], 1)) for number in range(operands[word])]
    MEANINGS[word].steps(Steps(build, values[-1], "y", StepsOfMachine(scales=True)), *values)
    return any(op.get("function") == "times_power" for op in build.ops)


def _steps(build: ThreadBuilder, like: Value, hint: str, machine: Machine) -> Steps:
    return Steps(build, like, hint, StepsOfMachine.of(machine))


def _computed(value: Value, meaning: Meaning) -> DType:
    dtype = value.vector.dtype
    return DTYPES["f32"] if dtype.is_float and dtype.bits < 32 and not meaning.is_exact else dtype


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

    written = {field: getattr(statement, field) for field in statement.headline}
    known = {field: operand for field, operand in written.items() if isinstance(operand, str)}
    dims = shared_dims(context.dims[name] for name in known.values())
    typed = (context.names[name].dtype for field, name in known.items() if field not in statement.flags)
    dtype = next(typed, None) or context.dtype(dtype_of_numbers(_numbers(statement)))
    tensors = [
        _aligned(context, operand, dims) if field in known else torch.tensor(operand, dtype=dtype)
        for field, operand in written.items()
    ]
    meaning = MEANINGS[statement.word]
    function: Any = meaning.reference
    if isinstance(function, str):
        function = functools.reduce(getattr, function.split("."), torch)
    if meaning.of_type:
        own = next((context.types[name] for name in known.values()), None)
        tensors = [one.to(context.plain(own)) for one in tensors] if own else tensors
        context.define(statement.name, dims, function(*tensors).to(dtype))
        return
    context.define(statement.name, dims, function(*tensors, **meaning.options))


def _numbers(statement: Elementwise) -> list[int | float]:
    written = (getattr(statement, field) for field in statement.headline)
    return [operand for operand in written if not isinstance(operand, str)]


def _aligned(context: ReferenceContext, name: str, dims: Sequence[str]) -> torch.Tensor:
    """The value as one with ``dims``, of extent 1 where it has none."""
    value, own = context.names[name], context.dims[name]
    value = value.permute([own.index(dim) for dim in dims if dim in own])
    return value[tuple(slice(None) if dim in own else None for dim in dims)]
