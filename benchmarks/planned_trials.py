"""Specs of ``benchmarks/specs/planned``, each without a tile: torch's functions, inputs, sizes for CPUs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

SPECS = Path(__file__).parent / "specs" / "planned"
Shapes = Sequence[Sequence[int]]
_LONG = ([[1, 1_000_003]], [[1, 100_000]], [[4, 300_000]], [[1, 10_000]], [[2000, 1000]])
_MATRICES = ((4096, 14336), (4096, 4096), (2048, 2048), (512, 512))
_PLACES = 5000
_UPSAMPLED = [
    [[batch, side, side, channels], [filters, 4, 4, channels]]
    for batch, side, channels, filters in (
        (1, 16, 512, 256),
        (1, 32, 256, 128),
        (1, 64, 128, 64),
        (4, 16, 512, 256),
        (2, 16, 128, 64),
        (1, 28, 32, 64),
    )
]
_VOLUMES = [
    [[1, depth, side, side, channels], [channels, 3, 3, 3, channels]]
    for depth, side, channels in ((8, 28, 32), (8, 28, 128), (8, 28, 256), (16, 56, 64), (4, 14, 256))
]
_BF16 = (("{dtype: f32", "{dtype: bf16"), ("result: f32", "result: bf16"))


def _numbers(shape: Sequence[int], _: int) -> Tensor:
    return torch.randn(*shape)


def _in_bf16(shape: Sequence[int], _: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def _places(shape: Sequence[int], number: int, *, most: int = _PLACES, at: int = 1) -> Tensor:
    """Places in the tensor of that number."""
    return torch.randint(0, most, (*shape,)) if number == at else torch.randn(*shape)


def _for_counts(shape: Sequence[int], number: int, *, bins: int = 16) -> Tensor:
    return (torch.randint(0, bins, (*shape,)) if number else torch.zeros(*shape)).int()


def _nhwc(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What torch does with channels last."""
    return function(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def _group_norm(x: Tensor, w: Tensor) -> Tensor:
    """As a model with channels last has it."""
    batch, pixels, groups, width = x.shape
    images = x.reshape(batch, pixels, 1, groups * width).permute(0, 3, 1, 2)
    return functional.group_norm(images, groups, w.flatten(), None, 1e-5).permute(0, 2, 3, 1).reshape(x.shape)


def _counts(counts: Tensor, x: Tensor) -> Tensor:
    return counts.add_(torch.bincount(x, minlength=len(counts)))


@lru_cache(maxsize=4)
def _as_a_module_has(w: Tensor) -> Tensor:
    """Weights in the order in which torch takes them with channels last, once for all calls."""
    return w.permute(3, 0, 1, 2).contiguous(memory_format=torch.channels_last)


def _transposed(x: Tensor, w: Tensor) -> Tensor:
    weights = _as_a_module_has(w)
    return _nhwc(lambda images: functional.conv_transpose2d(images, weights, stride=2, padding=1), x)


def _conv3d(x: Tensor, w: Tensor) -> Tensor:
    y = functional.conv3d(x.permute(0, 4, 1, 2, 3), w.permute(0, 4, 1, 2, 3), padding=1)
    return y.permute(0, 2, 3, 4, 1)


def _turned(shape: Sequence[int], number: int) -> Tensor:
    """Pixels, or where a picture that is turned by a sixth of a quarter has them."""
    if number == 0:
        return torch.randn(*shape)
    across, down = (torch.linspace(-1, 1, shape[side]) for side in (2, 1))
    cosine, sine = math.cos(math.pi / 12), math.sin(math.pi / 12)
    right, below = across * cosine - down[:, None] * sine, across * sine + down[:, None] * cosine
    return torch.stack((right, below), -1).expand(*shape).contiguous()


def _samples(x: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(x, grid, align_corners=False)


def _complex(a: Tensor, b: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b))


def _few_rows() -> list[list[list[int]]]:
    return [[[rows, inner], [inner, columns]] for rows in (1, 2, 4, 8) for inner, columns in _MATRICES]


@dataclass(frozen=True)
class Trial:
    """``sizes``: shapes of the inputs, one list for each row; ``make``: the input of a shape and a number; ``changes``:
    words of the spec, each with another one."""

    torch: Callable[..., Any]
    sizes: Sequence[Sequence[Sequence[int]]]
    make: Callable[[Sequence[int], int], Tensor] = _numbers
    changes: Sequence[tuple[str, str]] = ()


TRIALS: dict[str, Trial] = {
    "sum_of_rows": Trial(lambda x: x.sum(1), _LONG),
    "sum_of_all": Trial(lambda x: x.sum(), ([[1_000_003]], [[10_000]])),
    "largest_of_rows": Trial(lambda x: x.amax(1), _LONG),
    "argmax_of_rows": Trial(lambda x: x.argmax(1), _LONG),
    "sum_over_the_middle": Trial(
        lambda x: x.mean(1),
        [
            *([[1, 10**6 // columns, columns]] for columns in (1, 2, 3, 4, 5, 8, 16, 30)),
            *([list(shape)] for shape in ((8, 1000, 1), (20_000, 16, 1), (2000, 49, 3), (1000, 50, 12))),
            *([list(shape)] for shape in ((64, 196, 256), (1, 5000, 512))),
        ],
    ),
    "sum_of_a_matrix": Trial(lambda x: x.sum(), ([[1000, 1000]], [[100_000, 8]], [[10_000, 100]], [[30, 30]])),
    "variance_of_all": Trial(lambda x: x.var(), ([[1_000_003]], [[10_000]])),
    "log_sum_exp_of_all": Trial(lambda x: x.logsumexp(0), ([[1_000_003]], [[10_000]])),
    "softmax_over_the_first": Trial(lambda x: x.softmax(0), ([[1000, 1000]], [[64, 4096]], [[4096, 16]])),
    "argmax_of_channels": Trial(lambda x: x.argmax(3), ([[2, 64, 64, 21]], [[1, 128, 128, 150]])),
    "statistics_of_channels": Trial(
        lambda x: torch.var_mean(x, 0, correction=0)[::-1], ([[8192, 64]], [[1024, 512]], [[50_000, 3]])
    ),
    "means_of_planes": Trial(lambda x: x.mean((0, 2)), ([[8, 64, 3136]], [[32, 256, 49]], [[64, 3, 50176]])),
    "cumulative_maximum": Trial(lambda x: x.cummax(1).values, ([[1000, 1000]], [[8, 100_000]])),
    "rms_norm_of_heads": Trial(lambda x, w: functional.rms_norm(x, (128,), w, 1e-6), ([[512, 32, 128], [128]],)),
    "l2_normalize": Trial(lambda x: functional.normalize(x, dim=1), ([[2048, 768]], [[20_000, 64]], [[1, 1_000_000]])),
    "max_pool_2_x_2": Trial(lambda x: functional.max_pool2d(x, 2), ([[8, 64, 56, 56]], [[1, 16, 224, 224]])),
    "average_pool_2_x_2": Trial(lambda x: functional.avg_pool2d(x, 2), ([[8, 64, 56, 56]],)),
    "nhwc_max_pool_2_x_2": Trial(
        partial(_nhwc, lambda x: functional.max_pool2d(x, 2)),
        ([[8, 56, 56, 64]],),
    ),
    "global_average_pool": Trial(lambda x: x.mean(1), ([[2048, 49]], [[512, 196]], [[64, 3136]])),
    "pixel_shuffle": Trial(lambda x: functional.pixel_shuffle(x, 2), ([[4, 64, 56, 56]],)),
    "layer_norm_over_two": Trial(
        lambda x, w: functional.layer_norm(x, w.shape, w), ([[64, 56, 56], [56, 56]], [[128, 32, 64], [32, 64]])
    ),
    "one_hot": Trial(lambda x: functional.one_hot(x, 64), ([[20_000]],), partial(_places, most=64, at=0)),
    "rows_gathered": Trial(lambda x, rows: x[rows], ([[_PLACES, 256], [4096]], [[_PLACES, 16], [20_000]]), _places),
    "rows_scattered": Trial(
        lambda y, rows, x: y.index_add_(0, rows, x),
        ([[_PLACES, 256], [4096], [4096, 256]], [[_PLACES, 16], [20_000], [20_000, 16]]),
        _places,
    ),
    "counts_of_256": Trial(_counts, ([[256], [65_536]], [[256], [1_000_000]]), partial(_for_counts, bins=256)),
    "counts_of_any": Trial(
        _counts, ([[16], [65_536]], [[256], [65_536]], [[1000], [1_000_000]], [[100_000], [1_000_000]]), _for_counts
    ),
    "kronecker_product": Trial(
        torch.kron,
        [
            *([[side, side], [other, other]] for side, other in ((32, 32), (16, 64), (64, 16), (100, 3), (40, 20))),
            [[64, 64], [8, 16]],
            [[10, 10], [128, 128]],
        ],
    ),
    **{
        name: trial
        for word, make, changes in (("", _numbers, ()), (" in bf16", _in_bf16, _BF16))
        for name, trial in {
            f"transposed_convolution{word}": Trial(_transposed, _UPSAMPLED, make, changes),
            f"convolution_3d{word}": Trial(_conv3d, _VOLUMES, make, changes),
        }.items()
    },
    "grid_sample": Trial(
        _samples,
        [
            [[1, channels, side, side], [1, side, side, 2]]
            for channels, side in ((1, 64), (3, 64), (3, 256), (16, 64), (16, 256), (64, 64), (64, 256), (256, 64))
        ],
        _turned,
    ),
    "complex_product": Trial(
        _complex,
        [[[batch, side, side, 2]] * 2 for batch, side in ((1, 64), (1, 128), (1, 256), (1, 512), (16, 64), (64, 32))],
    ),
    "distances": Trial(
        torch.cdist, [[[1000, steps], [1000, steps]] for steps in (3, 16, 32, 64, 256)] + [[[300, 128], [500, 128]]]
    ),
    "few_rows_f32": Trial(lambda x, w: x @ w, _few_rows()),
    "few_rows_bf16": Trial(lambda x, w: x @ w, _few_rows(), _in_bf16),
    **{
        f"nhwc_group_norm of {width}": Trial(
            _group_norm, ([[8, 1024, 32, width], [32, width]],), changes=[("value: 8", f"value: {width}")]
        )
        for width in (4, 8, 10, 16, 32)
    },
}
"""By the name of the spec, and what is changed in it."""

ON_GPU: dict[str, Sequence[Shapes]] = {
    "sum_of_rows": ([[1, 10_000_019]], [[4, 3_000_000]], [[20_000, 1000]]),
    "sum_of_all": ([[10_000_019]], [[100_000]]),
    "largest_of_rows": ([[1, 10_000_019]], [[20_000, 1000]]),
    "argmax_of_rows": ([[1, 10_000_019]], [[20_000, 1000]]),
    "sum_over_the_middle": ([[1, 1_000_000, 8]], [[64, 196, 768]], [[2000, 49, 3]], [[256, 1000, 12]]),
    "sum_of_a_matrix": ([[5000, 4000]], [[1_000_000, 8]], [[30, 30]]),
    "variance_of_all": ([[10_000_019]], [[10_000]]),
    "log_sum_exp_of_all": ([[10_000_019]], [[10_000]]),
    "softmax_over_the_first": ([[1000, 10_000]], [[64, 65_536]], [[65_536, 16]]),
    "argmax_of_channels": ([[8, 128, 128, 21]], [[2, 512, 512, 150]]),
    "statistics_of_channels": ([[200_000, 64]], [[8192, 512]], [[1_000_000, 3]]),
    "means_of_planes": ([[32, 64, 3136]], [[64, 256, 196]], [[64, 3, 50_176]]),
    "cumulative_maximum": ([[5000, 1000]], [[8, 1_000_000]]),
    "rms_norm_of_heads": ([[4096, 32, 128], [128]], [[77, 8, 128], [128]]),
    "l2_normalize": ([[20_000, 768]], [[200_000, 64]], [[1, 1_000_000]]),
    "max_pool_2_x_2": ([[32, 64, 112, 112]], [[1, 16, 224, 224]]),
    "average_pool_2_x_2": ([[32, 64, 112, 112]],),
    "nhwc_max_pool_2_x_2": ([[32, 112, 112, 64]],),
    "global_average_pool": ([[65_536, 49]], [[8192, 196]], [[2048, 3136]]),
    "pixel_shuffle": ([[16, 64, 128, 128]],),
    "layer_norm_over_two": ([[512, 56, 56], [56, 56]], [[2048, 32, 64], [32, 64]]),
    "one_hot": ([[200_000]],),
    "rows_gathered": ([[_PLACES, 256], [100_000]], [[_PLACES, 16], [1_000_000]]),
    "rows_scattered": ([[_PLACES, 256], [40_960], [40_960, 256]], [[_PLACES, 16], [500_000], [500_000, 16]]),
    "counts_of_256": ([[256], [1_000_000]], [[256], [20_000_000]]),
    "counts_of_any": ([[16], [1_000_000]], [[1000], [10_000_000]], [[100_000], [10_000_000]]),
    "kronecker_product": ([[64, 64], [64, 64]], [[1000, 3], [40, 20]], [[10, 10], [512, 512]]),
    "transposed_convolution": _UPSAMPLED,
    "convolution_3d": _VOLUMES,
    "transposed_convolution in bf16": _UPSAMPLED,
    "convolution_3d in bf16": _VOLUMES,
    "grid_sample": ([[1, 3, 512, 512], [1, 512, 512, 2]], [[8, 64, 128, 128], [8, 128, 128, 2]]),
    "complex_product": [[[batch, side, side, 2]] * 2 for batch, side in ((1, 512), (1, 2048), (64, 128))],
    "distances": ([[4000, 3], [4000, 3]], [[4000, 64], [4000, 64]], [[3000, 256], [5000, 256]]),
    "few_rows_f32": [[[rows, 4096], [4096, columns]] for rows in (1, 4, 8) for columns in (4096, 14_336)],
    "few_rows_bf16": [[[rows, 4096], [4096, columns]] for rows in (1, 4, 8) for columns in (4096, 14_336)],
    "nhwc_group_norm of 8": ([[16, 4096, 32, 8], [32, 8]],),
    "nhwc_group_norm of 10": ([[16, 4096, 32, 10], [32, 10]],),
    "nhwc_group_norm of 32": ([[8, 1024, 32, 32], [32, 32]],),
}
"""Shapes of inputs that keep a GPU busy for a while, and some that do not."""


def text_of(name: str) -> str:
    """The spec of a trial."""
    text = (SPECS / f"{name.split()[0]}.wave.yaml").read_text(encoding="utf-8")
    for old, new in TRIALS[name].changes:
        text = text.replace(old, new)
    return text


def errors_of(ours: Any, theirs: Any, exact: Any) -> tuple[float, float]:
    """The largest error of each, over all results."""
    sides = [one if isinstance(one, tuple | list) else (one,) for one in (ours, theirs, exact)]
    found = [0.0, 0.0]
    for mine, other, right in zip(*sides, strict=True):
        for place, one in enumerate((mine, other)):
            assert one.shape == right.shape, f"{[*one.shape]} and {[*right.shape]}"
            difference = (one.double() - right.double()).nan_to_num().abs() if one.numel() else torch.zeros(1)
            found[place] = max(found[place], difference.max().item())
    return found[0], found[1]


def double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
