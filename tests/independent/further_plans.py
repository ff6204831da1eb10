"""Plans of operators with indices, and of convolutions: a call, as torch has it, in; a plan, or why there is none, out."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from tests.independent.plan import LeftOut, Plan, dtype_word
from tests.kernels import tensors_of

_IGNORED = -100


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Plan:
    kernel = f"topk {k} {largest} {dtype_word(x)}"
    if x.ndim == 0:
        return Plan(kernel, (x.reshape(1, 1),), lambda y: y.reshape(()))
    if not 1 <= k <= 64:
        raise LeftOut(f"k is {k}")
    moved = x.movedim(dim, -1)
    rows = moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])
    return Plan(kernel, (rows,), lambda y: y.reshape(*moved.shape[:-1], k).movedim(-1, dim))


def embedding(table: Tensor, tokens: Tensor, padding_idx: int | None = None, **kwargs: Any) -> Plan:
    """`padding_idx` is about gradients alone, and so is all that is allowed beside it."""
    if kwargs.get("max_norm") is not None:
        raise LeftOut("with max_norm")
    return Plan("embedding", (tokens.reshape(-1), table), lambda y: y.reshape(*tokens.shape, table.shape[1]))


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = _IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Plan:
    """What is ignored becomes -100; a second kernel makes sums and means of the losses."""
    if weight is not None:
        raise LeftOut("with weight")
    if label_smoothing:
        raise LeftOut("with label_smoothing")
    from tests.independent.kernels import kernel  # whose names are those of plans

    if target.is_floating_point():
        raise LeftOut("targets are probabilities")
    rows = x.movedim(1, -1) if x.ndim > 1 else x[None]
    wanted = torch.where(target == ignore_index, _IGNORED, target)

    def finish(loss: Tensor) -> Tensor:
        if reduction == "none":
            return loss.reshape(target.shape)
        mean, total = tensors_of(kernel("cross_entropy_mean")(loss, wanted.reshape(-1)))
        return mean if reduction == "mean" else total

    return Plan("cross_entropy", (rows.reshape(-1, rows.shape[-1]).contiguous(), wanted.reshape(-1)), finish)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Plan:
    """The bias is added by torch."""
    if groups != 1:
        raise LeftOut("groups of channels")
    if padding == "same":
        raise LeftOut("padding is 'same'")
    pairs = [_pair(one) for one in (stride, 0 if padding == "valid" else padding, dilation)]
    if any(first != second for first, second in pairs):
        raise LeftOut("rows and columns differ in stride, padding or dilation")
    batched = x if x.ndim == 4 else x[None]

    def finish(y: Tensor) -> Tensor:
        full = y if bias is None else y + bias[:, None, None]
        return full if x.ndim == 4 else full[0]

    return Plan(f"conv2d {' '.join(str(first) for first, _ in pairs)}", (batched, weight), finish)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    """A number for rows and columns, or one for each."""
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
