"""Every kernel of ``specs/`` in one table: the sizes it is tested at, how its inputs are made, when a result is right.

A new spec is one row of `KERNELS`: the tests of `tests/cpu`, `tests/sim`, `tests/amd` and of `generated/` run it from
here, and `benchmarks/every_kernel.py` does on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from wavespec.runtime.artifact import PACKED, stored_shape
from wavespec.runtime.checks import DTYPES as TORCH

if TYPE_CHECKING:  # the table and the makers of inputs also serve machines without the compiler
    from wavespec.schema import KernelSpec
    from wavespec.schema.cases import TargetCase
    from wavespec.sim.elements import Array

SPECS = Path(__file__).parents[1] / "specs"

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Draw:
    """One input that is to be made; `whole` asks for small whole numbers, of which sums are exact in any order."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    sizes: Sizes
    """Of all dims that makers speak of, also those that follow from others."""
    random: torch.Generator
    whole: bool
    is_packed: bool = False
    """Whether elements share bytes; `shape` counts what torch takes for elements."""

    def integers(self, low: int, high: int) -> Tensor:
        """From `low` to below `high`, or `low` where nothing is between."""
        return torch.randint(low, max(high, low + 1), self.shape, generator=self.random).to(self.dtype)


Maker = Callable[[Draw], Tensor]


def numbers(draw: Draw) -> Tensor:
    """What an input is made of where its row says nothing: normal numbers, whole ones from -4 to 4, or both booleans."""
    if draw.dtype is torch.bool:
        return draw.integers(0, 2)
    if draw.is_packed or draw.dtype is torch.float8_e8m0fnu:
        low, high = (0, 256) if draw.is_packed else (126, 130)  # scales from 1/2 to 4
        return torch.randint(low, high, draw.shape, generator=draw.random).to(torch.uint8).view(draw.dtype)
    if draw.whole or not draw.dtype.is_floating_point:
        return draw.integers(0 if draw.dtype is torch.uint8 else -4, 5)
    return torch.randn(draw.shape, generator=draw.random).to(draw.dtype)


def spread(factor: float) -> Maker:
    """Normal numbers times `factor`."""
    return lambda draw: (torch.randn(draw.shape, generator=draw.random) * factor).to(draw.dtype)


def eighths(draw: Draw) -> Tensor:
    """Multiples of 1/8 below 8."""
    return draw.integers(-63, 64) / 8


def in_order(draw: Draw) -> Tensor:
    """`numbers`, the smallest first."""
    return numbers(draw).sort().values


def indices(dim: str) -> Maker:
    """Places along a dim."""
    return lambda draw: draw.integers(0, draw.sizes[dim])


def constant(number: float) -> Maker:
    """One number everywhere."""
    return lambda draw: torch.full(draw.shape, number, dtype=draw.dtype)


def lengths(dim: str, *, least: int = 0) -> Maker:
    """Extents of at most a dim, `least` or more."""
    return lambda draw: draw.integers(least, draw.sizes[dim] + 1)


def offsets(dim: str) -> Maker:
    """Where the ragged parts of a dim begin, and its end: from 0, never falling; parts may be empty."""

    def make(draw: Draw) -> Tensor:
        inner = draw.integers(0, draw.sizes[dim] + 1).sort().values
        if len(inner):
            inner[0], inner[-1] = 0, draw.sizes[dim]
        return inner

    return make


def quarters_of_blocks(draw: Draw) -> Tensor:
    """Multiples of 1/4, many of them half way between numbers of f4, in blocks of 32 with a power of two each; some
    blocks are 0."""
    rows, columns = draw.shape
    quarters = torch.randint(-32, 33, (rows, columns // 32, 32), generator=draw.random) / 4
    powers = torch.randint(-120, 121, (rows, columns // 32, 1), generator=draw.random)
    return (torch.exp2(powers) * quarters * (powers % 8 != 0)).reshape(draw.shape).to(draw.dtype)


@dataclass(frozen=True, slots=True)
class Row:
    """How one spec, or every member of one family, is tested."""

    small: tuple[Sizes, ...]
    """Sizes for the CPU, the lane simulator and the emulator of machine code; they cost seconds there, so: few, tiny."""
    on_cpu: tuple[Sizes, ...] = ()
    """More sizes, for the CPU alone."""
    normal: tuple[Sizes, ...] = ()
    """Sizes at which a kernel that is exact on whole numbers has to be as close as torch on others; on the CPU too."""
    special: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    """Makers of inputs by name, where `numbers` does not do."""
    exact: bool = False
    """Whether whole numbers come out exactly as they are in f64, rounded once."""
    least_ulps: float = 1.0
    """The error of torch is taken to be at least so many units in the last place of the largest result."""
    on_gpu: tuple[Sizes, ...] = ()
    """More sizes for `benchmarks/every_kernel.py`, which itself finds some for each case of a kernel."""
    members: Mapping[str, Row] = field(default_factory=dict[str, "Row"])
    """Of a family: members that are tested otherwise, by name."""


def sized(names: str, *sizes: tuple[int, ...]) -> tuple[Sizes, ...]:
    """``sized("M N", (1, 2))`` binds M to 1 and N to 2."""
    return tuple(dict(zip(names.split(), one, strict=True)) for one in sizes)


_PRODUCTS = sized("M N K", (5, 3, 0), (1, 1, 16), (33, 40, 48))
_MANY_PRODUCTS = sized(
    "M N K",
    (1, 1, 0),
    (66, 65, 64),
    (2, 3, 16),
    (3, 2, 32),
    (0, 5, 16),
    (5, 0, 16),
    (0, 0, 0),
    (576, 512, 384),
    (800, 900, 400),
    (64, 700, 400),
    (700, 64, 400),
    (577, 513, 400),
    (575, 511, 1040),
    (37, 70, 1024),
    (1, 600, 48),
    (600, 1, 48),
)
_NORMAL_PRODUCTS = sized("M N K", (64, 64, 64), (130, 90, 128))
_PRODUCT = Row(_PRODUCTS, _MANY_PRODUCTS, _NORMAL_PRODUCTS, exact=True)
_FEW_PRODUCTS = Row(
    _PRODUCTS, sized("M N K", (0, 5, 16), (577, 513, 400), (37, 70, 1024)), _NORMAL_PRODUCTS, exact=True
)
_SCALED = Row(
    sized("M N K", (33, 40, 96), (5, 3, 0), (1, 1, 32)), sized("M N K", (0, 5, 32), (130, 257, 160)), exact=True
)
_GROUPED = Row(
    sized("N H W C O R S D", (2, 5, 6, 12, 9, 3, 3, 4), (1, 4, 4, 32, 32, 3, 3, 8), (0, 4, 4, 8, 8, 3, 3, 4)),
    sized("N H W C O R S D", (2, 9, 11, 64, 32, 3, 3, 16), (1, 7, 7, 96, 192, 3, 3, 32), (1, 6, 9, 40, 24, 1, 3, 5)),
    exact=True,
)
_CONVOLUTION = Row(
    sized("N H W C O R S", (1, 5, 4, 8, 3, 3, 3), (2, 1, 2, 16, 9, 1, 2), (0, 4, 4, 8, 2, 3, 3), (1, 2, 3, 8, 0, 2, 2)),
    sized("N H W C O R S", (2, 14, 13, 24, 70, 3, 3), (3, 9, 30, 64, 40, 1, 5)),
    exact=True,
)
_ROWS = Row(
    sized("M N", (9, 700), (3, 1), (1, 513), (0, 4), (2, 4100)),
    sized("M N", (1, 1), (3, 0), (2, 3), (17, 127), (16, 128), (33, 257), (5, 4000), (2050, 1040)),
)

_HEADS = "B H M N D E"
_ATTENTION = Row(
    sized(_HEADS, (1, 2, 5, 40, 64, 64), (1, 1, 66, 70, 50, 20), (1, 1, 3, 0, 64, 64), (1, 1, 1, 1, 136, 8)),
    sized(
        _HEADS,
        (2, 2, 70, 100, 64, 64),
        (0, 2, 5, 7, 64, 64),
        (2, 3, 200, 333, 128, 128),
        (1, 2, 97, 65, 256, 300),
        (1, 1, 0, 5, 8, 8),
    ),
)
_MASKED_ATTENTION = Row(
    sized(_HEADS, (1, 1, 66, 70, 24, 20), (1, 1, 5, 130, 64, 64), (1, 1, 20, 10, 7, 9)),
    sized(_HEADS, (2, 3, 200, 333, 128, 128), (1, 2, 333, 200, 64, 64), (1, 1, 5, 0, 8, 8)),
)
_BIASED_ATTENTION = replace(
    _MASKED_ATTENTION,
    on_gpu=sized(
        _HEADS,
        *((2, 2, 200, 77, 64, 64), (1, 2, 130, 90, 136, 136), (2, 3, 4, 131, 128, 128), (1, 2, 1, 66, 64, 64)),
    ),
)
_COMBINE = Row(
    sized("B H S M E", (2, 2, 11, 5, 20), (1, 1, 0, 1, 64), (1, 3, 1, 2, 130)),
    special={"total": lambda draw: torch.rand(draw.shape, generator=draw.random) + 1, "top": spread(3)},
)

_OF_PARTS = 5.0
"""Powers of a part have the rounding of its largest score for a common factor, which its `top` has as well: the quotient
that both become lacks it."""
KERNELS: dict[str, Row] = {
    "attention": _ATTENTION,
    "attention_alibi": _MASKED_ATTENTION,
    "attention_biased": _BIASED_ATTENTION,
    "attention_combine": _COMBINE,
    "attention_combine_f16": _COMBINE,
    "attention_decode": Row(
        sized(
            f"{_HEADS} S C", (1, 2, 3, 600, 24, 20, 5, 128), (1, 1, 1, 0, 64, 64, 1, 0), (1, 2, 3, 600, 24, 0, 5, 128)
        ),
        sized(
            f"{_HEADS} S C",
            *((2, 3, 1, 1025, 128, 128, 9, 128), (2, 4, 5, 4096, 256, 256, 32, 128), (1, 8, 1, 8192, 64, 64, 64, 128)),
        ),
        least_ulps=_OF_PARTS,
    ),
    "attention_extend": Row(
        sized(
            "T P S H G D E L",
            *((9, 45, 50, 2, 1, 24, 20, 4), (70, 20, 20, 2, 2, 64, 64, 3), (1, 0, 1, 1, 1, 7, 9, 2)),
            *((40, 30, 40, 4, 1, 24, 16, 3), (9, 20, 30, 8, 1, 72, 72, 5)),  # heads that are rows of a tile
        ),
        sized(
            "T P S H G D E L",
            *((200, 300, 400, 4, 2, 128, 128, 6), (0, 3, 3, 3, 1, 64, 8, 9), (5, 9, 9, 1, 1, 8, 8, 7)),
            *(
                (700, 900, 1000, 16, 2, 128, 128, 5),
                (1100, 300, 400, 8, 2, 64, 64, 4),
                (20, 900, 1000, 32, 2, 64, 64, 9),
            ),
        ),
        special={"starts": offsets("T"), "prefix_starts": offsets("P"), "slots": indices("S")},
    ),
    "attention_f32": _ATTENTION,
    "attention_gqa": Row(
        sized("B H G M N D E", (2, 4, 2, 5, 40, 24, 20), (1, 3, 1, 1, 1, 64, 64)),
        sized("B H G M N D E", (2, 4, 4, 100, 100, 64, 64), (1, 6, 2, 5, 0, 128, 8)),
    ),
    "attention_masked": _MASKED_ATTENTION,
    "attention_paged": Row(
        sized("B H M P T L N D E", (2, 2, 3, 9, 8, 4, 32, 24, 20), (1, 1, 1, 2, 1, 3, 3, 64, 64)),
        sized("B H M P T L N D E", (3, 2, 5, 40, 16, 9, 144, 128, 128)),
        special={"page": indices("P"), "count": lengths("N")},
    ),
    "attention_paged_decode": Row(
        sized("B H M P T L N D E S", (2, 2, 3, 9, 8, 4, 32, 24, 20, 1), (1, 1, 1, 2, 1, 3, 3, 64, 64, 1)),
        sized("B H M P T L N D E S", (3, 2, 5, 60, 16, 19, 304, 128, 128, 3)),
        special={"page": indices("P"), "count": lengths("N")},
        least_ulps=_OF_PARTS,
    ),
    "attention_padded": Row(_MASKED_ATTENTION.small, _MASKED_ATTENTION.on_cpu, special={"count": lengths("N")}),
    "attention_ragged": Row(
        sized("T S H G D E L", (7, 90, 2, 1, 24, 20, 4), (70, 70, 2, 2, 64, 64, 3), (1, 0, 1, 1, 7, 9, 2)),
        sized("T S H G D E L", (300, 400, 4, 2, 128, 128, 6), (5, 3, 3, 1, 64, 8, 9), (0, 0, 1, 1, 8, 8, 1)),
        special={"q_starts": offsets("T"), "k_starts": offsets("S")},
    ),
    "batched_matmul": Row(
        sized("B M N K", (2, 5, 3, 0), (1, 1, 1, 16), (3, 33, 40, 48)),
        sized("B M N K", (0, 5, 3, 8), (5, 130, 90, 72)),
        exact=True,
    ),
    "add_broadcast": Row(
        sized("M N", (9, 70), (3, 1), (0, 4), (5, 1028)), sized("M N", (1, 1), (3, 0), (33, 1001)), exact=True
    ),
    "argmax": Row(
        sized("M N", (9, 700), (3, 1), (1, 513), (0, 4), (2, 1100)),
        sized("M N", (17, 127), (5, 4000), (2, 9001)),
        exact=True,
    ),
    "conv2d_nchw": _CONVOLUTION,
    "conv2d_nchw_f32": _CONVOLUTION,
    "conv2d_nhwc": replace(_CONVOLUTION, small=(*_CONVOLUTION.small, *sized("N H W C O R S", (1, 7, 5, 3, 9, 3, 2)))),
    "conv2d_nhwc_f32": _CONVOLUTION,
    "conv2d_grouped": _GROUPED,
    "conv2d_grouped_f32": _GROUPED,
    "conv2d_depthwise": Row(
        (
            *sized("N H W C R S", (1, 5, 4, 8, 3, 3), (2, 1, 2, 33, 1, 2), (0, 4, 4, 8, 3, 3), (1, 2, 3, 0, 2, 2)),
            *sized("N H W C R S", (1, 3, 9, 64, 3, 3), (1, 2, 5, 32, 3, 3), (1, 3, 4, 12, 5, 5), (1, 3, 4, 12, 2, 3)),
        ),
        (
            *sized("N H W C R S", (2, 14, 13, 24, 3, 3), (1, 9, 61, 64, 3, 3), (3, 9, 30, 64, 1, 5)),
            *sized("N H W C R S", (2, 17, 13, 96, 3, 3), (2, 11, 18, 40, 5, 5)),
        ),
        exact=True,
    ),
    "cross_entropy": Row(
        sized("M N", (9, 700), (3, 1), (1, 513), (0, 4), (2, 4100)),
        sized("M N", (17, 127), (33, 257), (5, 4000)),
        special={"x": spread(5), "target": indices("N")},
    ),
    "bincount": Row(
        sized("N B", (1000, 5), (1, 1), (3, 130), (0, 4), (2, 0)),
        sized("N B", (5000, 3), (4097, 1000)),
        special={"x": lambda draw: draw.integers(-1, draw.sizes["B"] + 1)},
        exact=True,
    ),
    "searchsorted": Row(
        sized("M N", (70, 9), (1, 1), (0, 4), (3, 0), (1030, 130)),
        sized("M N", (2000, 3), (513, 4097)),
        special={"table": in_order},
        exact=True,
    ),
    "sequence_length": Row(
        sized("B N", (3, 700), (2, 1), (0, 4), (2, 0), (1, 4100)),
        sized("B N", (17, 127), (5, 4000)),
        special={"tokens": lambda draw: draw.integers(0, 300), "stop": constant(7)},
        exact=True,
    ),
    "sparsemax": Row(sized("M N", (3, 70), (2, 1), (0, 4), (1, 1100)), sized("M N", (17, 127), (5, 700))),
    "cross_entropy_mean": Row(
        sized("M", (9,), (1,), (0,), (5000,)),
        sized("M", (257,), (70000,)),
        special={  # about half are ignored
            "loss": lambda draw: (torch.rand(draw.shape, generator=draw.random) * 8).to(draw.dtype),
            "target": lambda draw: draw.integers(-1, 1) * 100,
        },
    ),
    "cumsum": Row(_ROWS.small, _ROWS.on_cpu, sized("M N", (9, 700)), exact=True),
    "dropout": Row(
        sized("M N", (9, 70), (3, 1), (0, 4), (5, 1028)),
        sized("M N", (1, 1), (3, 0), (33, 1001)),
    ),
    "embedding": Row(
        sized("T D V", (9, 40, 5), (1, 8, 1), (3, 520, 2), (0, 8, 4), (2, 8, 0)),
        sized("T D V", (70, 1032, 30)),
        special={"token": lambda draw: draw.integers(-1, draw.sizes["V"] + 1)},
        exact=True,
    ),
    "gemm": _PRODUCT,
    "gemm_bf16": _PRODUCT,
    "gemm_f32": _PRODUCT,
    "gemm_i8": _PRODUCT,
    "grouped_gemm": Row(
        sized("T N K B", (9, 5, 16, 4), (1, 1, 8, 2), (0, 3, 8, 3), (70, 33, 40, 3)),
        sized("T N K B", (200, 140, 72, 9)),
        special={"offsets": offsets("T")},
        exact=True,
    ),
    "layer_norm": _ROWS,
    "linear_gelu": Row(_PRODUCTS, _FEW_PRODUCTS.on_cpu),
    "linear_i4": Row(
        sized("M N K", (33, 40, 160), (5, 3, 0), (1, 1, 32)), sized("M N K", (0, 5, 32), (300, 257, 512)), exact=True
    ),
    "linear_residual": _FEW_PRODUCTS,
    "linear_silu": Row(_PRODUCTS, _FEW_PRODUCTS.on_cpu),
    "linear_swiglu": Row(_PRODUCTS, _FEW_PRODUCTS.on_cpu),
    "log_softmax": _ROWS,
    "matmul": _FEW_PRODUCTS,
    "matmul_f8": Row(sized("M N K", (5, 8, 0), (33, 40, 48), (66, 72, 64)), exact=True),
    # Rounds of steps and what is left of one; places along N in two blocks
    "matmul_f8_blocks": Row(
        sized("M N K", (5, 8, 0), (33, 136, 48), (5, 8, 656), (3, 5, 130)),
        sized("M N K", (0, 5, 16), (1, 1, 1), (130, 257, 300)),
        sized("M N K", (64, 136, 256), (5, 3, 300)),
        exact=True,
    ),
    "matmul_layouts": Row(_PRODUCTS, sized("M N K", (0, 5, 16), (70, 50, 90), (300, 200, 260)), exact=True),
    # Of 10 bits, as many as the product takes of each
    "matmul_tf32": Row(_PRODUCTS, _MANY_PRODUCTS, exact=True, special={"a": eighths, "b": eighths}),
    "matmul_mxf4": _SCALED,
    "matmul_mxf8": Row(_SCALED.small, exact=True),
    "quantize_mxf4": Row(
        sized("M K", (5, 96), (1, 32), (3, 544), (0, 64), (4, 0)),
        sized("M K", (37, 4096)),
        exact=True,
        special={"x": quarters_of_blocks},
    ),
    "qk_norm_rope": Row(
        sized("T H D", (5, 3, 24), (1, 1, 8), (2, 9, 64), (3, 2, 128), (0, 2, 16)), sized("T H D", (33, 12, 256))
    ),
    "rms_norm": _ROWS,
    "rope": Row(sized("T H D", (5, 3, 32), (1, 1, 16), (2, 9, 144), (0, 2, 16)), sized("T H D", (33, 12, 128))),
    # Several rows of x go to one row of y, and some to none
    "scatter_add": Row(
        sized("V T D", (4, 41, 70), (1, 9, 1), (3, 2, 129), (2, 0, 4), (0, 3, 5)),
        sized("V T D", (7, 1000, 260), (50, 30, 128)),
        special={"row": lambda draw: draw.integers(-1, draw.sizes["V"] + 1)},
        exact=True,
    ),
    "silu_and_mul": Row(
        sized("T N", (9, 140), (3, 2), (0, 8), (5, 2064)), sized("T N", (1, 2), (3, 0), (33, 2002), (17, 1024))
    ),
    # torch.softmax errs four times as much as torch's own functions one after another, which `check` asks
    "softmax": Row(_ROWS.small, _ROWS.on_cpu, special={"x": spread(5)}, least_ulps=2.0),
    "sum_dim": Row(
        sized("A N B", (3, 37, 130), (1, 1, 1), (2, 0, 5), (0, 3, 4), (2, 3, 513), (2, 600, 3)),
        sized("A N B", (5, 100, 300), (1, 70, 1), (1, 66000, 3)),
        sized("A N B", (2, 200, 130)),
        exact=True,
    ),
    "topk": Row(sized("M N", (9, 700), (3, 8), (1, 513), (0, 9)), sized("M N", (17, 127), (5, 4000)), exact=True),
    "transpose": Row(
        sized("M N", (70, 33), (1, 1), (1, 130), (65, 2), (0, 3)), sized("M N", (300, 257), (64, 128)), exact=True
    ),
}
"""By the name of the file in ``specs/``."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel of the table: a spec, or one member of a family."""

    file: str
    name: str

    @property
    def spec(self) -> KernelSpec:
        return _specs(self.file)[self.name]

    @property
    def row(self) -> Row:
        return row_of(self.file, self.name)

    @property
    def is_alike(self) -> bool:
        """Whether it proves little that another one does not: a variant of attention in its second type."""
        return self.file.startswith("attention_") and self.name.endswith("_f16")

    @property
    def is_first_type(self) -> bool:
        """Whether no other kernel of its file is the same in another type and comes before it."""
        return self.name == self.file or self.name.rpartition("_")[2] not in TORCH

    def cases(self, target: str) -> tuple[TargetCase, ...]:
        """The kernels for `target`; the last one is for all sizes."""
        return _cases(self, target)

    def case(self, target: str, sizes: Sizes) -> int:
        """Which of `cases` a call with `sizes` gets."""
        cases = self.cases(target)
        from wavespec.schema.cases import case_for_sizes

        return cases.index(case_for_sizes(cases, sizes))

    def complete(self, sizes: Sizes) -> Sizes:
        """With the sizes that follow from others."""
        from wavespec.schema.resolve import complete_sizes

        return complete_sizes(self.spec, sizes)

    def inputs(self, sizes: Sizes, *, whole: bool | None = None) -> tuple[Tensor, ...]:
        """The same every time, in the order of the call; whole numbers if the kernel is exact for them."""
        whole_sizes = self.complete(sizes)
        parameters = [
            (
                name,
                tensor.dtype,
                stored_shape(tensor.dtype, tuple(extent(self.spec, dim, whole_sizes) for dim in tensor.shape)),
            )
            for name, tensor in self.spec.tensors.items()
            if tensor.role != "output"
        ]
        return make_inputs(self.row, parameters, whole_sizes, whole=self.row.exact if whole is None else whole)

    @property
    def written(self) -> tuple[str, ...]:
        """What a call returns: the tensors that it changes in place, then the outputs."""
        tensors = self.spec.tensors.items()
        return tuple(name for role in ("inout", "output") for name, tensor in tensors if tensor.role == role)

    def expected(self, inputs: Sequence[Tensor]) -> Expected:
        """What the reference makes of `inputs`."""
        from wavespec.sim.reference import reference

        return Expected(
            tensors_of(reference(self.spec, *inputs)), tensors_of(reference(self.spec, *inputs, compute=None))
        )

    def check(
        self, inputs: Sequence[Tensor], results: Sequence[Tensor], sizes: Sizes, *, whole: bool | None = None
    ) -> None:
        """Assert that the `results` of one call are right."""
        self.compare(self.expected(inputs), results, sizes, whole=whole)

    def compare(
        self, expected: Expected, results: Sequence[Tensor], sizes: Sizes, *, whole: bool | None = None
    ) -> None:
        """Assert that the `results` of one call are as `expected`."""
        try:
            self._compare(expected, results, self.row.exact if whole is None else whole)
        except AssertionError as error:
            raise AssertionError(f"{self.name} of {dict(sizes)}: {error}") from error

    def _compare(self, expected: Expected, results: Sequence[Tensor], whole: bool) -> None:
        from wavespec.sim.packed import unpacked

        for name, result, right, own in zip(self.written, results, expected.exact, expected.theirs, strict=True):
            dtype = self.spec.tensors[name].dtype
            assert result.dtype == TORCH[dtype], f"{name} is {result.dtype}"
            check_output(self.row, name, unpacked(result, dtype), right, own, whole=whole)


def row_of(file: str, name: str) -> Row:
    """What is known of a kernel: that of its file, or of its own."""
    row = KERNELS[file]
    return row.members.get(name, row)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call should write: computed in f64, and by torch in the types of the spec."""

    exact: tuple[Tensor, ...]
    theirs: tuple[Tensor, ...]


def make_inputs(
    row: Row, parameters: Iterable[tuple[str, str, tuple[int, ...]]], sizes: Sizes, *, whole: bool
) -> tuple[Tensor, ...]:
    """Inputs of a kernel, from the name, dtype and shape of each; the same every time."""
    random = torch.Generator().manual_seed(sum((place + 3) * size for place, size in enumerate(sizes.values())))
    draws = (
        (name, Draw(shape, TORCH[dtype], sizes, random, whole, dtype in PACKED)) for name, dtype, shape in parameters
    )
    return tuple(row.special.get(name, numbers)(draw) for name, draw in draws)


def check_output(row: Row, name: str, result: Tensor, exact: Tensor, theirs: Tensor, *, whole: bool) -> None:
    """Assert that one output is right: `exact` is computed in f64, `theirs` by torch in the types of the spec."""
    assert result.shape == exact.shape, f"{name} is {tuple(result.shape)}, not {tuple(exact.shape)}"
    if (whole and row.exact) or not result.dtype.is_floating_point:
        one, other = result.double(), exact.to(result.dtype).double()
        wrong = ((one != other) & ~(one.isnan() & other.isnan())).nonzero()
        assert len(wrong) == 0, f"{len(wrong)} elements of {name} are wrong, the first is {wrong[0].tolist()}"
    else:
        check_error(name, result, exact, theirs, row.least_ulps)


def check_error(
    name: str, result: Tensor, exact: Tensor, theirs: Tensor, least_ulps: float = 1.0, known: float = 0.0
) -> None:
    """Assert that a result errs at most twice as much as torch, and is infinite or no number where torch's is.

    What it may err anyway: ``least_ulps`` of the largest element, or an error that is ``known``; twice that.
    """
    epsilon = torch.finfo(result.dtype).eps
    result, exact, theirs = result.double(), exact.double(), theirs.double()
    finite = exact.isfinite() & theirs.isfinite()
    torch.testing.assert_close(result[~finite], theirs[~finite], rtol=0, atol=0, equal_nan=True)
    result, exact, theirs = result[finite], exact[finite], theirs[finite]
    if result.numel():
        least = (least_ulps * epsilon * exact.abs().max()).clamp(min=known)
        allowed = 2 * torch.maximum((theirs - exact).abs().max(), least)
        error = (result - exact).abs().max()
        assert error <= allowed, f"{name}: error {error:.3g}, twice torch's is {allowed:.3g}"


def extent(spec: KernelSpec, dim: str, sizes: Sizes) -> int:
    """Of a dim: the one that the spec gives it, or that of the call."""
    value = spec.dims[dim].value
    return sizes[dim] if value is None else value


def subjects(*targets: str) -> list[Subject]:
    """All kernels that are for one of `targets`."""
    from wavespec.schema.resolve import targets_of

    found = [Subject(file, name) for file in KERNELS for name in _specs(file)]
    return [subject for subject in found if set(targets) & set(targets_of(subject.spec))]


def tensor_to_array(tensor: Tensor, dtype: str) -> Array:
    """The same bytes."""
    from wavespec.sim import tensors

    return tensors.tensor_to_array(tensor, dtype)


def tensor_to_elements(tensor: Tensor, dtype: str) -> Array:
    """The same elements, each in bytes of its own."""
    from wavespec.sim import tensors

    return tensors.tensor_to_elements(tensor, dtype)


def array_to_tensor(array: Array, dtype: str) -> Tensor:
    """The same bytes."""
    from wavespec.sim import tensors

    return tensors.array_to_tensor(array, dtype)


def elements_to_tensor(array: Array, dtype: str) -> Tensor:
    """The same elements, which share bytes where those of the type do."""
    from wavespec.sim import tensors

    return tensors.elements_to_tensor(array, dtype)


@cache
def _cases(subject: Subject, target: str) -> tuple[TargetCase, ...]:
    from wavespec.schema.cases import cases_for_target

    return cases_for_target(subject.spec, target)


@cache
def _specs(file: str) -> dict[str, KernelSpec]:
    from wavespec.schema import load
    from wavespec.schema.families.load_family import is_family_file, load_family

    path = SPECS / f"{file}.wave.yaml"
    if is_family_file(path):
        return {member.name: member.spec for member in load_family(path).members}
    return {file: load(path)}


def tensors_of(results: Any) -> tuple[Tensor, ...]:
    """Of one tensor, or of a tuple of them."""
    return cast(tuple[Tensor, ...], results) if isinstance(results, tuple) else (results,)
