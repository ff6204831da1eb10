"""Every kernel of ``specs/`` in, on numbers of many kinds; where it errs by more than twice what torch does, out.

    python -m benchmarks.errors_cpu [--variant x86_64_v3] [--only NAME ...] [--kinds KIND ...] [--all] [--most-work N]

A kernel is called at a few sizes of its row in `tests/kernels.py` and at some with long sums, on numbers of each of
`KINDS`.  Both its error and that of torch, which computes the same graph in the same types, are those against f64, as
parts of the largest result of their row, the largest one and the root of the mean square; torch's counts as half a
unit in the last place at least.  Beside them: infinities and NaN that torch does not have, and zeros of the other sign.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from tests.cpu.kernels_of_cases import kernel_for
from tests.kernels import Draw, Sizes, Subject, numbers, sized, subjects, tensors_of
from wavespec.pipeline import best_variant
from wavespec.sim.packed import unpacked
from wavespec.sim.reference import reference

_ALLOWED = 2.0
_MOST_WORK = 1 << 31
"""The product of all dims."""


def _normal(draw: Draw) -> Tensor:
    return torch.randn(draw.shape, generator=draw.random)


def _wide(draw: Draw) -> Tensor:
    powers = torch.rand(draw.shape, generator=draw.random) * 120 - 60
    return _normal(draw) * torch.exp2(powers * (0.2 if draw.dtype is torch.float16 else 1))


def _not_finite(draw: Draw) -> Tensor:
    x = _normal(draw).flatten()
    for number, one in enumerate((float("inf"), -float("inf"), float("nan"))):
        if x.numel() > 9:
            x[torch.randint(x.numel(), (1 + number % 2,), generator=draw.random)] = one
    return x.reshape(draw.shape)


KINDS: Mapping[str, Callable[[Draw], Tensor]] = {
    "normal": _normal,
    "positive": lambda draw: 2 * torch.rand(draw.shape, generator=draw.random),
    "alike": lambda draw: torch.full(draw.shape, 0.1),
    "far": lambda draw: _normal(draw) + 1000,
    "large": lambda draw: _normal(draw) * 100,
    "wide": _wide,
    "subnormal": lambda draw: _normal(draw) * 2.0 ** (-18 if draw.dtype is torch.float16 else -133),
    "not finite": _not_finite,
    "zeros": lambda draw: torch.where(torch.rand(draw.shape, generator=draw.random) < 0.5, 0.0, -0.0),
}
"""Of what inputs of floating point are made, where the row of a kernel says nothing of one."""
_LONG_PRODUCTS = sized("M N K", (3, 5, 100_000), (40, 48, 65_536), (1, 64, 100_000), (300, 264, 8192))
_LONG_ROWS = sized("M N", (2, 100_003), (1, 1 << 20))
_IMAGES = sized("N H W C O R S D", (1, 6, 5, 2048, 24, 3, 3, 256), (1, 20, 20, 256, 64, 3, 3, 32))
_HEADS = sized(
    "B H M N D E G",
    *((1, 2, 1, 20_000, 64, 64, 1), (1, 2, 40, 5000, 128, 128, 2), (1, 2, 3, 1, 64, 64, 1)),
)  # fmt: skip
LONG: Mapping[str, tuple[Sizes, ...]] = {
    "rows": _LONG_ROWS,
    "products": _LONG_PRODUCTS,
    "batched_matmul": sized("B M N K", (2, 3, 5, 100_000), (3, 48, 40, 16_384)),
    "sum_dim": sized("A N B", (1, 1_000_000, 1), (1, 1_000_000, 3), (3, 100_000, 5), (2, 100_000, 64)),
    "cross_entropy_mean": sized("M", (1_000_000,)),
    "grouped_gemm": sized("T N K B", (40, 48, 65_536, 3)),
    "scatter_add": sized("V T D", (2, 100_000, 8)),
    "images": _IMAGES,
    "heads": _HEADS,
}
"""More sizes, by the name of a file or of what its dims are."""


@dataclass(frozen=True)
class Found:
    """Of one call: error over torch's, largest and root of the mean square, and what is odd besides."""

    largest: float
    mean_square: float
    odd: str

    @property
    def is_wrong(self) -> bool:
        return bool(self.odd) or max(self.largest, self.mean_square) > _ALLOWED


def main() -> None:
    """Print a line for each call that errs too much, or for all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variant", default=best_variant("cpu").variant)
    parser.add_argument("--only", nargs="*", default=[], help="kernels by name, or files")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--all", action="store_true", help="print what is right, too")
    parser.add_argument("--members", action="store_true", help="in all types, not the first of each file alone")
    parser.add_argument("--most-work", type=int, default=_MOST_WORK)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    calls = wrong = 0
    for subject in subjects("cpu"):
        if arguments.only and not {subject.name, subject.file} & set(arguments.only):
            continue
        if not subject.is_first_type and not arguments.members and subject.name not in arguments.only:
            continue
        for sizes in sizes_of(subject, arguments.most_work):
            try:
                kernel = kernel_for(subject, arguments.variant, sizes)
            except Exception as error:  # what does not build is a line of the table
                print(f"{subject.name} {dict(sizes)}: {type(error).__name__} {str(error)[:100]}", flush=True)
                continue
            for kind in arguments.kinds:
                inputs = inputs_of(subject, sizes, kind)
                for name, found in compared(subject, kernel, inputs):
                    calls, wrong = calls + 1, wrong + found.is_wrong
                    if found.is_wrong or arguments.all:
                        shown = " x ".join(map(str, sizes.values()))
                        print(
                            f"{subject.name:24s} {name:6s} {kind:10s} {shown:32s} "
                            f"{found.largest:6.2f} {found.mean_square:6.2f} {found.odd}",
                            flush=True,
                        )
        print(f"# {subject.name}: {wrong} of {calls} so far", flush=True)


def sizes_of(subject: Subject, most_work: int) -> Iterator[Sizes]:
    """Small, odd and long ones."""
    dims = set(subject.row.small[0])
    kind = "rows" if dims == {"M", "N"} else "products" if dims == {"M", "N", "K"} else ""
    kind = "images" if {"C", "R"} <= dims else "heads" if {"B", "H", "M", "N", "D", "E"} <= dims else kind
    known = [one for one in (*subject.row.small, *subject.row.on_cpu) if prod(one.values())]
    known = [min(known, key=lambda one: prod(one.values())), max(known, key=lambda one: prod(one.values()))]
    for sizes in (*known, *LONG.get(subject.file, LONG.get(kind, ()))):
        of = {name: size for name, size in sizes.items() if name in dims}
        if of.keys() != dims or prod(max(1, one) for one in of.values()) > most_work:
            continue
        multiples = subject.spec.dims
        if all(of[name] % dim.multiple_of == 0 for name, dim in multiples.items() if name in of):
            yield of


def inputs_of(subject: Subject, sizes: Sizes, kind: str) -> tuple[Tensor, ...]:
    """Those of the row that it says something of, others of the kind."""
    make = KINDS[kind]

    def numbers_of_kind(draw: Draw) -> Tensor:
        if draw.is_packed or not draw.dtype.is_floating_point or draw.dtype.itemsize == 1:
            return numbers(replace(draw, whole=False))
        return make(draw).to(draw.dtype)

    floats = [name for name, one in subject.spec.tensors.items() if one.role != "output"]
    kept = {n: m for n, m in subject.row.special.items() if n != "x" or not _is_float(subject, n)}
    row = replace(subject.row, special={**{name: numbers_of_kind for name in floats}, **kept})
    return Subject.inputs(_Of(subject, row), sizes, whole=False)  # type: ignore[arg-type]


def _is_float(subject: Subject, name: str) -> bool:
    return subject.spec.tensors[name].dtype in ("f32", "f16", "bf16", "f64")


class _Of:
    """A subject with a row of its own."""

    def __init__(self, subject: Subject, row: object) -> None:
        self.spec, self.row, self.complete = subject.spec, row, subject.complete


def compared(subject: Subject, kernel: Callable[..., object], inputs: Sequence[Tensor]) -> Iterator[tuple[str, Found]]:
    """Of each result of floating point."""
    exact = tensors_of(reference(subject.spec, *inputs))
    theirs = tensors_of(reference(subject.spec, *inputs, compute=None))
    ours = tensors_of(kernel(*[one.clone() for one in inputs]))
    for name, mine, right, own in zip(subject.written, ours, exact, theirs, strict=True):
        dtype = subject.spec.tensors[name].dtype
        if mine.dtype.is_floating_point and mine.numel():
            yield name, judged(unpacked(mine, dtype), right, own)


def judged(mine: Tensor, right: Tensor, own: Tensor) -> Found:
    """How much a result errs beside torch's `own`."""
    half = torch.finfo(mine.dtype).eps / 2
    smallest = torch.finfo(mine.dtype).tiny * torch.finfo(mine.dtype).eps
    largest = torch.finfo(mine.dtype).max
    odd = list[str]()
    right = right.double()
    right = torch.where(right.abs() > largest * (1 + half), right.sign() * torch.inf, right)
    mine_, own_ = mine.double(), own.double()
    finite = right.isfinite() & own_.isfinite()
    agreed = ~finite & ((right == own_) | (right.isnan() & own_.isnan()))
    different = agreed & ~((mine_ == own_) | (mine_.isnan() & own_.isnan()))
    if different.any():
        odd.append(f"{int(different.sum())} not finite otherwise")
    if (finite & ~mine_.isfinite()).any():
        odd.append(f"{int((finite & ~mine_.isfinite()).sum())} not finite")
    zeros = (mine_ == 0) & (own_ == 0) & (right == 0) & (mine_.signbit() != own_.signbit())
    if zeros.any():
        odd.append(f"{int(zeros.sum())} zeros of the other sign")
    finite &= mine_.isfinite()
    scale = right.abs().where(finite, 0.0)
    scale = (
        scale.amax(-1, keepdim=True).expand_as(scale)
        if mine.ndim > 1 and mine.shape[-1] > 1
        else scale.max().expand_as(scale)
    )
    least = torch.maximum(half * scale, torch.tensor(smallest / 2, dtype=torch.float64))
    errors = [((one - right).abs() / least).where(finite, 0.0) for one in (mine_, own_)]
    big, other = (float(one.max()) for one in errors)
    count = max(1, int(finite.sum()))
    mean, other_mean = (float((one.square().sum() / count).sqrt()) for one in errors)
    # Half a unit of the largest of a row is what one rounding makes at most, 0.58 of that in the mean.
    return Found(big / max(other, 1.0), mean / max(other_mean, 0.3), "; ".join(odd))


if __name__ == "__main__":
    main()
