"""Inputs at the limits of kernels of ``specs/``, and what torch itself, not the graph of the spec, makes of them.

A new one is a line of `EDGES`; the tests of `tests/cpu`, `tests/sim` and `tests/amd` run it from here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tests.kernels import KERNELS, Sizes, Subject, check_error, subjects, tensors_of

INF, NAN, LEAST = float("inf"), float("nan"), torch.finfo(torch.float32).min

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Edge:
    """One call of one kernel, and what is right."""

    name: str
    subject: str
    sizes: Sizes
    change: Callable[[dict[str, Tensor]], None]
    """Makes of ordinary inputs those of the call."""
    right: Callable[[Tensors], Tensor | tuple[Tensor, ...]]
    """What torch makes of the inputs, in their own types or in f64."""

    @property
    def of(self) -> Subject:
        return next(one for one in _SUBJECTS if one.name == self.subject)

    def inputs(self) -> dict[str, Tensor]:
        """By name, in the order of the call."""
        tensors = self.of.spec.tensors.items()
        names = (name for name, tensor in tensors if tensor.role != "output")
        made = dict(zip(names, self.of.inputs(self.sizes, whole=False), strict=True))
        self.change(made)
        return made

    def check(self, inputs: Tensors, results: tuple[Tensor, ...]) -> None:
        """Assert that a call is right, or at most twice as wrong as torch."""
        wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
        exact, theirs = tensors_of(self.right(wide)), tensors_of(self.right(inputs))
        for name, result, right, own in zip(self.of.written, results, exact, theirs, strict=True):
            check_error(f"{self.name}: {name}", result, right, own.to(result.dtype), KERNELS[self.of.file].least_ulps)


def _rows(x: dict[str, Tensor]) -> None:
    """Rows of the lowest number, of none but -inf, of -3.2e38, of what is largest, and of mixtures."""
    for row, number in enumerate((LEAST, -INF, -3.2e38, -LEAST, INF)):
        x["x"][row] = number
    x["x"][5, 1:], x["x"][5, 0] = -INF, LEAST
    x["x"][6, 3], x["x"][7, ::2] = NAN, -INF
    x["x"][8, -1] = -LEAST


def _targets(x: dict[str, Tensor]) -> None:
    _rows(x)
    x["target"][:] = torch.tensor([69, 1, 2, 3, 4, 0, -100, 1, 69])


def _no_classes(x: dict[str, Tensor]) -> None:
    x["target"][:] = torch.tensor([2**32 + 1, 2**32 - 100, -1, 70, 69, -100, -(2**63), 2**63 - 1, 0])


def _of_known_classes(x: Tensors) -> Tensor:
    """Torch refuses targets that are no classes."""
    known = (x["target"] == -100) | (x["target"] >= 0) & (x["target"] < 70)
    losses = functional.cross_entropy(x["x"], torch.where(known, x["target"], 0), reduction="none")
    return torch.where(known, losses, NAN)


def _count_all(x: dict[str, Tensor]) -> None:
    x["target"][::2] = 2**32 - 100


def _mean_and_sum(x: Tensors) -> tuple[Tensor, Tensor]:
    return x["loss"].sum() / (x["target"] != -100).sum(), x["loss"].sum()


def _constant_rows(x: dict[str, Tensor]) -> None:
    for row, number in enumerate((1e4, 123456.78, 0.1, 1e19, 1e30, 1e38, LEAST, INF)):
        x["x"][row] = number


def _layer_norm(x: Tensors) -> Tensor:
    return functional.layer_norm(x["x"], x["weight"].shape, x["weight"], x["bias"])


def _large_halves(x: dict[str, Tensor]) -> None:
    x["x"][0, 0, :] = torch.tensor([INF, -INF, 3e38, -3e38] * 8)
    x["x"][1, 1, 16:] = 1.8e38
    x["x"][2] = 0.0


def _rotated(x: Tensors) -> Tensor:
    first, second = x["x"].chunk(2, dim=-1)
    return x["x"] * x["cos"][:, None] + torch.cat([-second, first], -1) * x["sin"][:, None]


def _bias_alone(x: dict[str, Tensor]) -> None:
    x["bias"][:] = torch.tensor([-INF, INF, NAN])


def _gelu(x: Tensors) -> Tensor:
    """In f64, as torch's vectors of smaller types have NaN at infinity where its scalars have infinity."""
    return functional.gelu(x["bias"].double().repeat(5, 1))


def _low_scores(x: dict[str, Tensor]) -> None:
    """Scores that are -2.2e38 for all keys, and times log2(e) near what f32 ends at."""
    x["q"][:], x["k"][:] = -1.1e19, 2e19


def _large_scores(x: dict[str, Tensor]) -> None:
    """Scores of up to 2^30 powers of two, of which f32 has one in 64; each query sees one key."""
    x["q"][:], x["k"][:] = 0, 0
    for query, number in enumerate((3000, 17264, 17312, 23712, 23792)):
        x["q"][:, :, query, 10 * query : 10 * query + 10] = number
        x["k"][:, :, query::7, 10 * query : 10 * query + 10] = -number
        x["k"][:, :, 7 * query + 3, 10 * query : 10 * query + 10] = number


def _attention(x: Tensors, mask: Tensor | None = None) -> Tensor:
    return functional.scaled_dot_product_attention(x["q"], x["k"], x["v"], attn_mask=mask)


def _behind_the_count(x: dict[str, Tensor]) -> None:
    """Keys and values behind the count are no numbers; one batch has no keys."""
    x["count"][:] = torch.tensor([37, 0])
    for batch, count in enumerate(x["count"]):
        x["k"][batch, :, count:], x["v"][batch, :, count:] = NAN, NAN


def _padded(x: Tensors) -> Tensor:
    seen = torch.arange(x["k"].shape[2]) < x["count"][:, None, None, None]
    return _attention({name: tensor.nan_to_num() for name, tensor in x.items()}, seen)


def _unused_pages(x: dict[str, Tensor]) -> None:
    """Of 4 pages of 8 keys one batch uses 2 and a part of the third, the other none; all else is no number or no place."""
    x["count"][:] = torch.tensor([19, 0])
    x["page"][:] = torch.tensor([[4, 7, 2, -7], [2**31 - 1, -1, 8, -(2**31)]])
    used = torch.zeros(9, 8, dtype=torch.bool)
    used[4], used[7], used[2, :3] = True, True, True
    x["keys"][~used], x["values"][~used] = NAN, NAN


def _paged(x: Tensors) -> Tensor:
    pages = x["page"].clamp(0, 8)
    keys, values = (x[name].nan_to_num()[pages].flatten(1, 2).transpose(1, 2) for name in ("keys", "values"))
    seen = torch.arange(keys.shape[2]) < x["count"][:, None, None, None]
    return _attention({"q": x["q"], "k": keys, "v": values}, seen)


def _gap_of_keys(x: dict[str, Tensor]) -> None:
    """The keys behind those of the last batch are no numbers; one batch has none, and two queries are of no batch."""
    x["q_starts"][:], x["k_starts"][:] = torch.tensor([1, 3, 5, 6]), torch.tensor([0, 40, 40, 75])
    x["k"][75:], x["v"][75:] = NAN, NAN


def _ragged(x: Tensors) -> Tensor:
    result = x["q"].new_zeros(*x["q"].shape[:-1], x["v"].shape[-1])
    for (q0, q1), (k0, k1) in zip(_spans(x["q_starts"]), _spans(x["k_starts"]), strict=True):
        q, k, v = (part.transpose(0, 1) for part in (x["q"][q0:q1], x["k"][k0:k1], x["v"][k0:k1]))
        sees = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool)
        result[q0:q1] = functional.scaled_dot_product_attention(q, k, v, sees, enable_gqa=True).transpose(0, 1)
    return result


def _unused_slots(x: dict[str, Tensor]) -> None:
    """Behind the cached rows of the last batch there are no places, rows that nobody names are no numbers, and two new
    tokens are of no batch."""
    x["starts"][:], x["prefix_starts"][:] = torch.tensor([1, 4, 4, 8]), torch.tensor([0, 20, 30, 41])
    slots = torch.randperm(49, generator=torch.Generator().manual_seed(0))[:45].to(torch.int32)
    slots[41:] = torch.tensor([-1, 2**31 - 1, 50, -50])
    x["slots"][:] = slots
    unused = torch.ones(50, dtype=torch.bool)
    unused[slots[:41].long()] = False
    x["keys"][unused], x["values"][unused] = NAN, NAN


def _extended(x: Tensors) -> Tensor:
    result = x["q"].new_zeros(*x["q"].shape[:-1], x["v"].shape[-1])
    for (q0, q1), (p0, p1) in zip(_spans(x["starts"]), _spans(x["prefix_starts"]), strict=True):
        cached, new = x["slots"][p0:p1].long(), q1 - q0
        q, k = x["q"][q0:q1].transpose(0, 1), torch.cat([x["keys"][cached], x["k"][q0:q1]]).transpose(0, 1)
        v = torch.cat([x["values"][cached], x["v"][q0:q1]]).transpose(0, 1)
        sees = torch.ones(new, p1 - p0 + new, dtype=torch.bool).tril(p1 - p0)
        result[q0:q1] = functional.scaled_dot_product_attention(q, k, v, sees, enable_gqa=True).transpose(0, 1)
    return result


def _rows_of_no_group(x: dict[str, Tensor]) -> None:
    x["offsets"][:] = torch.tensor([2, 5, 5, 7])


def _grouped(x: Tensors) -> Tensor:
    result = x["x"].new_zeros(len(x["x"]), x["w"].shape[1])
    for (start, end), weights in zip(_spans(x["offsets"]), x["w"], strict=True):
        result[start:end] = x["x"][start:end] @ weights.T
    return result


def _spans(starts: Tensor) -> list[tuple[int, int]]:
    numbers = [int(start) for start in starts]
    return list(itertools.pairwise(numbers))


def _parts_of_nothing(x: dict[str, Tensor]) -> None:
    """Parts without keys: -inf, of which one row has no other."""
    x["top"][:, :, 2:5], x["total"][:, :, 2:5], x["part"][:, :, 2:5] = -INF, 0.0, 0.0
    x["top"][0, 0, :, 1], x["total"][0, 0, :, 1], x["part"][0, 0, :, 1] = -INF, 0.0, 0.0
    x["top"][0, 1, :, 2] = LEAST


def _combined(x: Tensors) -> Tensor:
    factor = torch.exp2(x["top"] - x["top"].amax(2, keepdim=True).clamp(min=torch.finfo(torch.float32).min))
    total = (x["total"] * factor).sum(2)
    return (x["part"] * factor[..., None]).sum(2) / torch.where(total > 0, total, 1)[..., None]


_HEADS = {"B": 1, "H": 2, "M": 5, "N": 70, "D": 64, "E": 64}
EDGES = (
    Edge("lowest rows", "softmax", {"M": 9, "N": 70}, _rows, lambda x: torch.softmax(x["x"], 1)),
    Edge("lowest rows", "log_softmax", {"M": 9, "N": 70}, _rows, lambda x: torch.log_softmax(x["x"], 1)),
    Edge("lowest rows", "cross_entropy", {"M": 9, "N": 70}, _targets, _of_known_classes),
    Edge("no classes", "cross_entropy", {"M": 9, "N": 70}, _no_classes, _of_known_classes),
    Edge("targets of 64 bits", "cross_entropy_mean", {"M": 9}, _count_all, _mean_and_sum),
    Edge("constant rows", "layer_norm", {"M": 9, "N": 700}, _constant_rows, _layer_norm),
    Edge("large halves", "rope", {"T": 5, "H": 3, "D": 32}, _large_halves, _rotated),
    Edge("infinite", "linear_gelu", {"M": 5, "N": 3, "K": 0}, _bias_alone, _gelu),
    Edge("lowest scores", "attention", _HEADS | {"D": 1}, _low_scores, _attention),
    Edge("lowest scores", "attention_f32", _HEADS | {"D": 1}, _low_scores, _attention),
    Edge("large scores", "attention_f16", _HEADS, _large_scores, _attention),
    Edge("behind the count", "attention_padded", _HEADS | {"B": 2}, _behind_the_count, _padded),
    Edge(
        "unused pages",
        "attention_paged",
        {"B": 2, "H": 2, "M": 3, "P": 9, "T": 8, "L": 4, "N": 32, "D": 64, "E": 64},
        _unused_pages,
        _paged,
    ),
    Edge("rows of no group", "grouped_gemm", {"T": 9, "N": 40, "K": 16, "B": 4}, _rows_of_no_group, _grouped),
    Edge("no group", "grouped_gemm", {"T": 9, "N": 40, "K": 16, "B": 1}, lambda x: None, _grouped),
    Edge(
        "a gap of keys",
        "attention_ragged_full",
        {"T": 7, "S": 90, "H": 2, "G": 1, "D": 64, "E": 64, "L": 4},
        _gap_of_keys,
        _ragged,
    ),
    Edge(
        "unused slots",
        "attention_extend",
        {"T": 9, "P": 45, "S": 50, "H": 2, "G": 1, "D": 64, "E": 64, "L": 4},
        _unused_slots,
        _extended,
    ),
    Edge(
        "parts of nothing",
        "attention_combine",
        {"B": 2, "H": 2, "S": 11, "M": 5, "E": 20},
        _parts_of_nothing,
        _combined,
    ),
)
_SUBJECTS = subjects("cpu", "sm_90", "gfx942")
