"""A call of an operator, as torch has it, goes in; which kernel computes it, and how, or why none does, comes out.

Arguments are brought into the form that the kernels take: rows, batches of matrices, flat tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from tests.independent import further_plans
from tests.independent.plan import LeftOut, Plan, dtype_word

UNARY = (
    "abs", "neg", "sign", "relu", "floor", "ceil", "trunc", "round",
    "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "sinh", "erf", "tanh", "sigmoid", "silu", "gelu",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "floor_divide", "fmod", "lt", "le", "gt", "ge", "eq", "ne")
REDUCTIONS = ("sum", "prod", "amax", "amin", "mean")
_INDEXED = {"embedding": 1, "cross_entropy": 1}
"""Which operand has indices."""
RANKED = ("argmax", "topk")
"""Operators that are tried with elements of 64 bits, too."""


def plan(operator: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Plan:
    """The plan of a call.

    Raises:
        LeftOut: there is none.
    """
    for at, value in enumerate((*args, *kwargs.values())):
        if at == _INDEXED.get(operator) and value.dtype is torch.int64:
            continue
        if operator in RANKED and isinstance(value, Tensor) and value.dtype in (torch.float64, torch.int64):
            continue
        if isinstance(value, Tensor) and value.dtype is not torch.float32:
            raise LeftOut(f"an input is {str(value.dtype).removeprefix('torch.')}")
        if isinstance(value, Tensor) and value.is_sparse:
            raise LeftOut("an input is sparse")
    if kwargs.pop("dtype", None) not in (None, torch.float32):
        raise LeftOut("the result has another type")
    if operator in UNARY:
        return _unary(operator, *args, **kwargs)
    if operator in BINARY:
        return _binary(operator, *args, **kwargs)
    if operator in REDUCTIONS:
        return _reduction(operator, *args, **kwargs)
    return _PLANS[operator](*args, **kwargs)


def _unary(operator: str, x: Tensor, **kwargs: Any) -> Plan:
    if any(value not in (0, "none", False) for value in kwargs.values()):
        raise LeftOut(f"with {', '.join(kwargs)}")
    number = UNARY.index(operator)
    return Plan(f"unary{number // 13}", (x.reshape(1, -1),), lambda y: y.reshape(x.shape), number % 13)


def _binary(operator: str, x: Any, y: Any, **kwargs: Any) -> Plan:
    if any(value not in (1, None) for value in kwargs.values()):
        raise LeftOut(f"with {', '.join(kwargs)}")
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise LeftOut("an operand is a number")
    both = torch.broadcast_tensors(x, y)
    if operator == "fmod" and bool(((both[0] / both[1]).abs() > 2**47).any()):
        raise LeftOut("a quotient is beyond 2^47, where torch is not exact")
    shape = both[0].shape
    number = BINARY.index(operator)
    return Plan(
        f"binary{number // 8}", tuple(one.reshape(1, -1) for one in both), lambda z: z.reshape(shape), number % 8
    )


def _reduction(operator: str, x: Tensor, dim: Any = None, keepdim: bool = False) -> Plan:
    dims = range(x.ndim) if dim is None or dim == () else [dim] if isinstance(dim, int) else list(dim)
    dims = sorted({one % max(x.ndim, 1) for one in dims}) if x.ndim else []
    kept = [one for one in range(x.ndim) if one not in dims]
    length = prod(x.shape[one] for one in dims)
    if length == 0 and operator in ("amax", "amin", "mean"):
        raise LeftOut("of nothing")
    rows = x.permute((*kept, *dims)).reshape(prod(x.shape[one] for one in kept), length)
    shape = [1 if one in dims else size for one, size in enumerate(x.shape) if keepdim or one not in dims]
    return Plan("reductions", (rows,), lambda y: y.reshape(shape), REDUCTIONS.index(operator))


def _along(kernel: str) -> Callable[..., Plan]:
    """An operator that makes each row along a dim of the same row."""

    def make(x: Tensor, dim: int = -1, **kwargs: Any) -> Plan:
        if any(value is not None for value in kwargs.values()):
            raise LeftOut(f"with {', '.join(kwargs)}")
        if x.ndim == 0:
            return Plan(kernel, (x.reshape(1, 1),), lambda y: y.reshape(()))
        moved = x.movedim(dim, -1)
        rows = moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])
        return Plan(kernel, (rows,), lambda y: y.reshape(moved.shape).movedim(-1, dim))

    return make


def _norm(kernel: str, default: float) -> Callable[..., Plan]:
    """Of an operator whose `eps` is `default` where it is not given."""

    def make(x: Tensor, shape: Sequence[int], *rest: Any, **kwargs: Any) -> Plan:
        names = ("weight", "bias", "eps") if kernel == "layer_norm" else ("weight", "eps")
        given = {**dict(zip(names, rest, strict=False)), **kwargs}
        eps = given.get("eps")
        elements = prod(shape)
        weight, bias = given.get("weight"), given.get("bias")
        weight = torch.ones(elements) if weight is None else weight.reshape(-1)
        others = (
            [weight] if kernel == "rms_norm" else [weight, torch.zeros(elements) if bias is None else bias.reshape(-1)]
        )
        rows = x.reshape(prod(x.shape[: x.ndim - len(shape)]), elements)
        scalars = {"eps": default if eps is None else eps}
        return Plan(kernel, (rows, *others), lambda y: y.reshape(x.shape), scalars=scalars)

    return make


def _matmul(a: Tensor, b: Tensor) -> Plan:
    if not a.ndim or not b.ndim:
        raise LeftOut("an operand is a number")
    left = a[None] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    left = left.expand(*batch, m, k).reshape(prod(batch), m, k)
    right = right.expand(*batch, k, n).reshape(prod(batch), k, n).mT
    shape = (*batch, *(() if a.ndim == 1 else (m,)), *(() if b.ndim == 1 else (n,)))
    return Plan("matmul", (left.contiguous(), right.contiguous()), lambda c: c.reshape(shape))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Plan:
    if bias is not None:
        raise LeftOut("with bias")
    return _matmul(x, weight.mT if weight.ndim > 1 else weight)


def _addmm(c: Tensor, a: Tensor, b: Tensor, **kwargs: Any) -> Plan:
    raise LeftOut("adds to a third operand")


def _argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Plan:
    if dim is None or x.ndim == 0:
        shape = [1] * x.ndim if keepdim else []
        return Plan(f"argmax {dtype_word(x)}", (x.reshape(1, -1),), lambda y: y.reshape(shape))
    moved = x.movedim(dim, -1)
    rows = moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])
    shape = [1 if one == dim % x.ndim else size for one, size in enumerate(x.shape) if keepdim or one != dim % x.ndim]
    return Plan(f"argmax {dtype_word(x)}", (rows,), lambda y: y.reshape(shape))


def _attention(q: Tensor, k: Tensor, v: Tensor, **kwargs: Any) -> Plan:
    if kwargs.pop("enable_gqa", False):
        k, v = (one.repeat_interleave(q.shape[-3] // one.shape[-3], -3) for one in (k, v))
    given = sorted(
        name for name, value in kwargs.items() if isinstance(value, Tensor) or value not in (None, False, 0.0)
    )
    if given:
        raise LeftOut(f"with {', '.join(given)}")
    batch = q.shape[:-2]
    if batch != k.shape[:-2]:
        raise LeftOut("heads share keys")
    shapes = [(prod(batch), 1, *one.shape[-2:]) for one in (q, k, v)]
    inputs = tuple(one.reshape(shape) for one, shape in zip((q, k, v), shapes, strict=True))
    return Plan("attention_f32", inputs, lambda o: o.reshape(*batch, q.shape[-2], v.shape[-1]))


_PLANS: dict[str, Callable[..., Plan]] = {
    "softmax": _along("softmax"),
    "log_softmax": _along("log_softmax"),
    "cumsum": _along("cumsum"),
    "layer_norm": _norm("layer_norm", 1e-5),
    "rms_norm": _norm("rms_norm", 2.0**-23),
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "linear": _linear,
    "addmm": _addmm,
    "argmax": _argmax,
    "attention": _attention,
    "topk": further_plans.topk,
    "embedding": further_plans.embedding,
    "cross_entropy": further_plans.cross_entropy,
    "conv2d": further_plans.conv2d,
}
OPERATORS = (*UNARY, *BINARY, *REDUCTIONS, *_PLANS)
