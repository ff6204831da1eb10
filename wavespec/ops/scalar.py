"""A scalar: a number of the call, which kernels have as a symbol; those of floating point as the bits of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Op
from wavespec.ir.names import scalar_name
from wavespec.ir.saturating import saturated
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.steps import Steps
from wavespec.schema.language.scalars import Scalar


def scalar_symbol(name: str, scalar: Scalar) -> Expr:
    """The number of an integer or a bool; of floating point, the signed integer that has its bits: those of f32 also
    where it is f16 or bf16."""
    if scalar.is_float:
        bits = 64 if scalar.dtype == "f64" else 32
        return symbol(scalar_name(name), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return symbol(scalar_name(name), *scalar.limits)


def scalar_places(scalars: Mapping[str, Scalar]) -> dict[str, Expr]:
    """What scalars are in places, bounds and conditions; those of floating point are none."""
    return {name: saturated(scalar_symbol(name, scalar)) for name, scalar in scalars.items() if not scalar.is_float}


def to_tile(name: str, scalar: Scalar, context: TileContext) -> None:
    """Define the value of that name."""
    value = context.tile(name, (), scalar.dtype)
    attributes: dict[str, Any] = {"number": scalar_symbol(name, scalar)}
    if scalar.is_float:
        limits = (("least", scalar.min), ("most", scalar.max))
        attributes |= {word: float(limit) for word, limit in limits if limit is not None}
    context.add("scalar", (), (value,), scalar.span, node=name, **attributes)
    context.names[name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    build, name, dtype = context.build, op.result.name, op.result.tile.dtype
    words = build.value(name, DTYPES["i64" if dtype.bits > 32 else "i32"], 1)
    build.add("coordinates", (), (words,), places=(op["number"],))
    if dtype.is_float:
        value = build.bitcast(words, DTYPES["f64" if dtype.bits > 32 else "f32"], name)
        context.fragments[name] = (build.cast(value, dtype, name),)
    elif dtype.name == "bool":
        context.fragments[name] = (Steps(build, words, name)("ne", words, 0),)
    else:
        context.fragments[name] = (words,)


def reference(name: str, number: bool | int | float, context: ReferenceContext) -> None:
    """Define the value of that name as `number`, which has been rounded to its type."""
    import torch

    device, dtype = next(iter(context.tensors.values())).device, context.types[name]
    context.define(name, (), torch.tensor(number, dtype=context.dtype(dtype), device=device))
