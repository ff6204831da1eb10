"""Specs without a tile, as users write them, in; checks against f64 and times beside torch on this CPU, out.

    python benchmarks/planned_cpu.py [--only NAME ...] [--seconds 0.5] [--threads N] [--wall] [--variant x86_64_v3]

One thread and its own time (`time.thread_time`), or with ``--wall`` the wall clock and as many threads as ``--threads``
says; calls take turns with torch in one process, on the same tensors.  Figures are the fastest tenth of the calls, in
microseconds; ratios are torch's time over ours, errors the largest against f64, ours and torch's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

import wavespec as ws
from wavespec.schema import loads

Tensors = Sequence[Tensor]


@dataclass(frozen=True)
class Trial:
    """``spec``: a kernel without its first three lines; ``sizes``: shapes of its inputs, one list for each row."""

    spec: str
    torch: Callable[..., Any]
    sizes: Sequence[Sequence[Sequence[int]]]
    make: Callable[[Sequence[int], int], Tensor] = lambda shape, _: torch.randn(*shape)
    is_exact: bool = False


def _joined(word: str, result: str = "", start: str = "0", dtype: str = "f32") -> str:
    """A reduction over all of the last dim."""
    return f"""
dims: {{M: {{}}, N: {{min: 1}}}}
tensors: {{x: {{shape: [M, N], dtype: {dtype}}}, y: {{shape: [M], dtype: {dtype}, role: output}}}}
graph:
  - none: {{register: [M], dtype: {dtype}, value: {start}}}
  - steps:
      iterate: N
      carry: {{total: none}}
      body:
        - part: {{read: x}}
        - total: {{{word}: part, dim: N, init: total}}
  - result: {result or "steps.total * 1"}
  - {{write: result, to: y}}
"""


_EXTREME = """
dims: {M: {}, N: {min: 1}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M], dtype: i64, role: output}}
graph:
  - nowhere: {register: [M], dtype: i64, value: 0}
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - rows:
      iterate: N
      carry: {place: nowhere, largest: lowest}
      body:
        - part: {read: x}
        - place: {argmax: part, dim: N, extreme: largest, init: [place, largest]}
  - {write: rows.place, to: y}
"""
_OF_ALL = """
dims: {N: {min: 1}}
tensors: {x: {shape: [N], dtype: f32}, y: {shape: [], dtype: f32, role: output}}
graph:
  - none: {register: [], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - {write: steps.total, to: y}
"""
_LONG = ([[1, 1_000_003]], [[1, 100_000]], [[4, 300_000]], [[1, 10_000]], [[2000, 1000]])
TRIALS: dict[str, Trial] = {
    "sum of rows": Trial(_joined("sum"), lambda x: x.sum(1), _LONG),
    "sum of all": Trial(_OF_ALL, lambda x: x.sum(), ([[1_000_003]], [[10_000]])),
    "largest of rows": Trial(_joined("max", start="-.inf"), lambda x: x.amax(1), _LONG, is_exact=True),
    "argmax of rows": Trial(_EXTREME, lambda x: x.argmax(1), _LONG, is_exact=True),
}

_SUM_MIDDLE = """
dims: {A: {}, N: {min: 1}, B: {}}
tensors: {x: {shape: [A, N, B], dtype: f32}, y: {shape: [A, B], dtype: f32, role: output}}
graph:
  - none: {register: [A, B], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - result: "steps.total / f32(size(N))"
  - {write: result, to: y}
"""
_SUM_MATRIX = """
dims: {M: {min: 1}, N: {min: 1}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [], dtype: f32, role: output}}
graph:
  - none: {register: [], dtype: f32, value: 0}
  - rows:
      iterate: M
      carry: {total: none}
      body:
        - columns:
            iterate: N
            carry: {total: total}
            body:
              - part: {read: x}
              - total: {sum: part, dim: [M, N], init: total}
        - total: columns.total
  - {write: rows.total, to: y}
"""
_VARIANCE = """
dims: {N: {min: 2}}
tensors: {x: {shape: [N], dtype: f32}, y: {shape: [], dtype: f32, role: output}}
graph:
  - none: {register: [], dtype: f32, value: 0}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - middle: "sums.total / f32(size(N))"
  - squares:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - apart: part - middle
        - square: apart * apart
        - total: {sum: square, dim: N, init: total}
  - result: "squares.total / f32(size(N) - 1)"
  - {write: result, to: y}
"""
_LOGSUMEXP = """
dims: {N: {min: 1}}
tensors: {x: {shape: [N], dtype: f32}, y: {shape: [], dtype: f32, role: output}}
graph:
  - lowest: {register: [], dtype: f32, value: -.inf}
  - none: {register: [], dtype: f32, value: 0}
  - tops:
      iterate: N
      carry: {top: lowest}
      body:
        - part: {read: x}
        - top: {max: part, dim: N, init: top}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - power: exp(part - tops.top)
        - total: {sum: power, dim: N, init: total}
  - result: tops.top + log(sums.total)
  - {write: result, to: y}
"""
_SOFTMAX_FIRST = """
dims: {N: {min: 1}, B: {}}
tensors: {x: {shape: [N, B], dtype: f32}, y: {shape: [N, B], dtype: f32, role: output}}
graph:
  - lowest: {register: [B], dtype: f32, value: -.inf}
  - none: {register: [B], dtype: f32, value: 0}
  - tops:
      iterate: N
      carry: {top: lowest}
      body:
        - part: {read: x}
        - top: {max: part, dim: N, init: top}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - power: exp(part - tops.top)
        - total: {sum: power, dim: N, init: total}
  - again:
      iterate: N
      body:
        - part: {read: x}
        - result: exp(part - tops.top) / sums.total
        - {write: result, to: y}
"""
_ARGMAX_CHANNELS = """
dims: {B: {}, H: {}, W: {}, C: {min: 1}}
tensors: {x: {shape: [B, H, W, C], dtype: f32}, y: {shape: [B, H, W], dtype: i64, role: output}}
graph:
  - nowhere: {register: [B, H, W], dtype: i64, value: 0}
  - lowest: {register: [B, H, W], dtype: f32, value: -.inf}
  - rows:
      iterate: C
      carry: {place: nowhere, largest: lowest}
      body:
        - part: {read: x}
        - place: {argmax: part, dim: C, extreme: largest, init: [place, largest]}
  - {write: rows.place, to: y}
"""
_BATCH_NORM = """
dims: {N: {min: 1}, C: {}}
tensors: {x: {shape: [N, C], dtype: f32}, mean: {shape: [C], dtype: f32, role: output}, var: {shape: [C], dtype: f32, role: output}}
graph:
  - none: {register: [C], dtype: f32, value: 0}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: N, init: total}
  - middle: "sums.total / f32(size(N))"
  - squares:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - apart: part - middle
        - square: apart * apart
        - total: {sum: square, dim: N, init: total}
  - result: "squares.total / f32(size(N))"
  - {write: middle, to: mean}
  - {write: result, to: var}
"""
_BATCH_NORM_NCHW = """
dims: {B: {min: 1}, C: {}, S: {min: 1}}
tensors: {x: {shape: [B, C, S], dtype: f32}, mean: {shape: [C], dtype: f32, role: output}}
graph:
  - none: {register: [C], dtype: f32, value: 0}
  - images:
      iterate: B
      carry: {total: none}
      body:
        - pixels:
            iterate: S
            carry: {total: total}
            body:
              - part: {read: x}
              - total: {sum: part, dim: [B, S], init: total}
        - total: pixels.total
  - result: "images.total / f32(size(B) * size(S))"
  - {write: result, to: mean}
"""
_CUMMAX = """
dims: {M: {}, N: {}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}
graph:
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - again:
      iterate: N
      carry: {before: lowest}
      body:
        - part: {read: x}
        - running: {cummax: part, dim: N, init: before}
        - {write: running, to: y}
        - before: {max: part, dim: N, init: before}
"""
_RMS_HEADS = """
dims: {T: {}, H: {}, D: {value: 128}}
tensors: {x: {shape: [T, H, D], dtype: f32}, w: {shape: [D], dtype: f32}, y: {shape: [T, H, D], dtype: f32, role: output}}
graph:
  - part: {read: x}
  - weight: {read: w}
  - square: part * part
  - middle: {mean: square, dim: D}
  - result: part * rsqrt(middle + 0.000001) * weight
  - {write: result, to: y}
"""
_L2 = """
dims: {M: {}, N: {}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - sums:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - square: part * part
        - total: {sum: square, dim: N, init: total}
  - scale: 1 / maximum(sqrt(sums.total), 0.000000000001)
  - again:
      iterate: N
      body:
        - part: {read: x}
        - result: part * scale
        - {write: result, to: y}
"""
_POOL = """
dims: {B: {}, C: {}, H: {}, W: {}, R: {value: 2}, S: {value: 2}, P: {equals: H // 2}, Q: {equals: W // 2}}
tensors: {x: {shape: [B, C, H, W], dtype: f32}, y: {shape: [B, C, P, Q], dtype: f32, role: output}}
graph:
  - window: {read: x, dims: [B, C, P, Q, R, S], at: {H: 2 * P + R, W: 2 * Q + S}}
  - result: {WORD: window, dim: [R, S]}
  - {write: result, to: y}
"""
_POOL_NHWC = """
dims: {B: {}, C: {}, H: {}, W: {}, R: {value: 2}, S: {value: 2}, P: {equals: H // 2}, Q: {equals: W // 2}}
tensors: {x: {shape: [B, H, W, C], dtype: f32}, y: {shape: [B, P, Q, C], dtype: f32, role: output}}
graph:
  - window: {read: x, dims: [B, P, Q, C, R, S], at: {H: 2 * P + R, W: 2 * Q + S}}
  - result: {WORD: window, dim: [R, S]}
  - {write: result, to: y}
"""
_GLOBAL_POOL = _joined("sum", result='"steps.total / f32(size(N))"')
_SHUFFLE = """
dims: {B: {}, K: {}, H: {}, W: {}, C: {equals: K // 4}, P: {equals: H * 2}, Q: {equals: W * 2}}
tensors: {x: {shape: [B, K, H, W], dtype: f32}, y: {shape: [B, C, P, Q], dtype: f32, role: output}}
graph:
  - part: {read: x, dims: [B, C, P, Q], at: {K: C * 4 + P % 2 * 2 + Q % 2, H: P // 2, W: Q // 2}}
  - {write: part, to: y}
"""
_LAYER_TWO = """
dims: {B: {}, H: {min: 1}, W: {min: 1}}
tensors: {x: {shape: [B, H, W], dtype: f32}, w: {shape: [H, W], dtype: f32}, y: {shape: [B, H, W], dtype: f32, role: output}}
graph:
  - none: {register: [B], dtype: f32, value: 0}
  - sums:
      iterate: H
      carry: {total: none}
      body:
        - inner:
            iterate: W
            carry: {total: total}
            body:
              - part: {read: x}
              - total: {sum: part, dim: [H, W], init: total}
        - total: inner.total
  - middle: "sums.total / f32(size(H) * size(W))"
  - squares:
      iterate: H
      carry: {total: none}
      body:
        - inner:
            iterate: W
            carry: {total: total}
            body:
              - part: {read: x}
              - apart: part - middle
              - square: apart * apart
              - total: {sum: square, dim: [H, W], init: total}
        - total: inner.total
  - scale: "rsqrt(squares.total / f32(size(H) * size(W)) + 0.00001)"
  - again:
      iterate: H
      body:
        - inner:
            iterate: W
            body:
              - part: {read: x}
              - weight: {read: w}
              - result: (part - middle) * scale * weight
              - {write: result, to: y}
"""
_ONE_HOT = """
dims: {N: {}, C: {value: 64}}
tensors: {x: {shape: [N], dtype: i64, values: {min: 0, max: C - 1}}, y: {shape: [N, C], dtype: i64, role: output}}
graph:
  - place: {read: x}
  - there: "place == i64(index(C))"
  - result: i64(there)
  - {write: result, to: y}
"""
_GATHER = """
dims: {V: {}, N: {}, D: {}}
tensors: {x: {shape: [V, D], dtype: f32}, rows: {shape: [N], dtype: i64, values: {min: 0, max: V - 1}}, y: {shape: [N, D], dtype: f32, role: output}}
graph:
  - row: {read: rows}
  - part: {read: x, dims: [N, D], at: {V: row}}
  - {write: part, to: y}
"""
_SCATTER = """
dims: {V: {}, N: {}, D: {}}
tensors: {y: {shape: [V, D], dtype: f32, role: inout}, rows: {shape: [N], dtype: i64, values: {min: 0, max: V - 1}}, x: {shape: [N, D], dtype: f32}}
graph:
  - row: {read: rows}
  - part: {read: x}
  - {write: part, to: y, at: {V: row}, combine: add}
"""
_HISTOGRAM = """
dims: {N: {}, B: {BINS}}
tensors: {counts: {shape: [B], dtype: i32, role: inout}, x: {shape: [N], dtype: i32, values: {min: 0, max: B - 1}}}
graph:
  - number: {read: x}
  - one: {register: [N], dtype: i32, value: 1}
  - {write: one, to: counts, at: {B: number}, combine: add}
"""
_KRONECKER = """
dims: {A: {}, B: {}, P: {}, Q: {}, M: {equals: A * P}, N: {equals: B * Q}}
tensors: {x: {shape: [A, B], dtype: f32}, y: {shape: [P, Q], dtype: f32}, z: {shape: [M, N], dtype: f32, role: output}}
graph:
  - left: {read: x, dims: [M, N], at: {A: M // size(P), B: N // size(Q)}}
  - right: {read: y, dims: [M, N], at: {P: M % size(P), Q: N % size(Q)}}
  - result: left * right
  - {write: result, to: z}
"""
_DISTANCES = """
dims: {M: {}, N: {}, K: {}}
tensors: {x: {shape: [M, K], dtype: f32}, y: {shape: [N, K], dtype: f32}, d: {shape: [M, N], dtype: f32, role: output}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {squares: zero}
      body:
        - left: {read: x}
        - right: {read: y}
        - apart: "left - right"
        - square: "apart * apart"
        - squares: {sum: square, dim: K, init: squares}
  - root: sqrt(steps.squares)
  - {write: root, to: d}
"""
_GROUP_NORM_TWO = """
dims: {B: {}, S: {min: 1}, G: {}, D: {value: CHANNELS}}
tensors: {x: {shape: [B, S, G, D], dtype: f32}, w: {shape: [G, D], dtype: f32}, y: {shape: [B, S, G, D], dtype: f32, role: output}}
graph:
  - none: {register: [B, G], dtype: f32, value: 0}
  - sums:
      iterate: S
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {sum: part, dim: [S, D], init: total}
  - middle: "sums.total / f32(size(S) * CHANNELS)"
  - squares:
      iterate: S
      carry: {total: none}
      body:
        - part: {read: x}
        - apart: part - middle
        - square: apart * apart
        - total: {sum: square, dim: [S, D], init: total}
  - scale: "rsqrt(squares.total / f32(size(S) * CHANNELS) + 0.00001)"
  - again:
      iterate: S
      body:
        - part: {read: x}
        - weight: {read: w}
        - result: (part - middle) * scale * weight
        - {write: result, to: y}
"""


def _group_norm(x: Tensor, w: Tensor) -> Tensor:
    """As a model with channels last has it."""
    batch, pixels, groups, width = x.shape
    images = x.reshape(batch, pixels, 1, groups * width).permute(0, 3, 1, 2)
    return functional.group_norm(images, groups, w.flatten(), None, 1e-5).permute(0, 2, 3, 1).reshape(x.shape)


def _counts(counts: Tensor, x: Tensor) -> Tensor:
    return counts.add_(torch.bincount(x, minlength=len(counts)))


def _places(most: int, dtype: torch.dtype, at: int) -> Callable[[Sequence[int], int], Tensor]:
    return lambda shape, place: torch.randint(0, most, (*shape,)).to(dtype) if place == at else torch.randn(*shape)


def _for_counts(bins: int) -> Callable[[Sequence[int], int], Tensor]:
    return lambda shape, place: torch.randint(0, bins, (*shape,)).int() if place else torch.zeros(*shape).int()


TRIALS |= {
    "sum over the middle": Trial(
        _SUM_MIDDLE,
        lambda x: x.mean(1),
        (
            [[1, 1_000_003, 1]],
            [[1, 300_000, 3]],
            [[1, 500_000, 2]],
            [[1, 200_000, 4]],
            [[1, 100_000, 5]],
            [[1, 100_000, 8]],
            [[1, 50_000, 16]],
            [[1, 50_000, 30]],
            [[8, 1000, 1]],
            [[20_000, 16, 1]],
            [[2000, 49, 3]],
            [[1000, 50, 12]],
            [[64, 196, 256]],
            [[1, 5000, 512]],
        ),
    ),
    "sum of a matrix": Trial(_SUM_MATRIX, lambda x: x.sum(), ([[1000, 1000]], [[100_000, 8]], [[30, 30]])),
    "variance of all": Trial(_VARIANCE, lambda x: x.var(), ([[1_000_003]], [[10_000]])),
    "log-sum-exp of all": Trial(_LOGSUMEXP, lambda x: x.logsumexp(0), ([[1_000_003]], [[10_000]])),
    "softmax over the first": Trial(
        _SOFTMAX_FIRST, lambda x: x.softmax(0), ([[1000, 1000]], [[64, 4096]], [[4096, 16]])
    ),
    "argmax of channels": Trial(
        _ARGMAX_CHANNELS, lambda x: x.argmax(3), ([[2, 64, 64, 21]], [[1, 128, 128, 150]]), is_exact=True
    ),
    "statistics of channels": Trial(
        _BATCH_NORM, lambda x: torch.var_mean(x, 0, correction=0)[::-1], ([[8192, 64]], [[1024, 512]], [[50_000, 3]])
    ),
    "means of planes": Trial(
        _BATCH_NORM_NCHW, lambda x: x.mean((0, 2)), ([[8, 64, 3136]], [[32, 256, 49]], [[64, 3, 50176]])
    ),
    "cumulative maximum": Trial(_CUMMAX, lambda x: x.cummax(1).values, ([[1000, 1000]], [[8, 100_000]]), is_exact=True),
    "RMS norm of heads": Trial(
        _RMS_HEADS, lambda x, w: functional.rms_norm(x, (128,), w, 1e-6), ([[512, 32, 128], [128]],)
    ),
    "L2 normalize": Trial(
        _L2, lambda x: functional.normalize(x, dim=1), ([[2048, 768]], [[20_000, 64]], [[1, 1_000_000]])
    ),
    "max pool 2 x 2": Trial(
        _POOL.replace("WORD", "max"),
        lambda x: functional.max_pool2d(x, 2),
        ([[8, 64, 56, 56]], [[1, 16, 224, 224]]),
        is_exact=True,
    ),
    "average pool 2 x 2": Trial(
        _POOL.replace("WORD", "mean"), lambda x: functional.avg_pool2d(x, 2), ([[8, 64, 56, 56]],)
    ),
    "NHWC max pool 2 x 2": Trial(
        _POOL_NHWC.replace("WORD", "max"),
        lambda x: functional.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1),
        ([[8, 56, 56, 64]],),
        is_exact=True,
    ),
    "global average pool": Trial(_GLOBAL_POOL, lambda x: x.mean(1), ([[2048, 49]], [[512, 196]], [[64, 3136]])),
    "pixel shuffle": Trial(_SHUFFLE, lambda x: functional.pixel_shuffle(x, 2), ([[4, 64, 56, 56]],), is_exact=True),
    "layer norm over two": Trial(
        _LAYER_TWO,
        lambda x, w: functional.layer_norm(x, w.shape, w),
        ([[64, 56, 56], [56, 56]], [[128, 32, 64], [32, 64]]),
    ),
    "one-hot": Trial(
        _ONE_HOT, lambda x: functional.one_hot(x, 64), ([[20_000]],), _places(64, torch.int64, 0), is_exact=True
    ),
    "rows gathered": Trial(
        _GATHER, lambda x, rows: x[rows], ([[5000, 256], [4096]], [[5000, 16], [20_000]]), _places(5000, torch.int64, 1)
    ),
    "rows scattered": Trial(
        _SCATTER,
        lambda y, rows, x: y.index_add_(0, rows, x),
        ([[5000, 256], [4096], [4096, 256]], [[5000, 16], [20_000], [20_000, 16]]),
        _places(5000, torch.int64, 1),
    ),
    "counts of 256": Trial(
        _HISTOGRAM.replace("{BINS}", "{value: 256}"),
        _counts,
        ([[256], [65_536]], [[256], [1_000_000]]),
        _for_counts(256),
    ),
    "counts of any": Trial(
        _HISTOGRAM.replace("{BINS}", "{}"),
        _counts,
        ([[16], [65_536]], [[256], [65_536]], [[1000], [1_000_000]], [[100_000], [1_000_000]]),
        _for_counts(16),
    ),
    "Kronecker product": Trial(
        _KRONECKER, torch.kron, ([[32, 32], [32, 32]], [[16, 16], [64, 64]], [[100, 100], [3, 3]]), is_exact=True
    ),
    "distances": Trial(
        _DISTANCES,
        torch.cdist,
        ([[1024, 256], [1024, 256]], [[1024, 64], [1024, 64]], [[300, 128], [500, 128]], [[1000, 3], [1000, 3]], [[1000, 16], [1000, 16]], [[77, 32], [500, 32]]),
    ),
    **{
        f"NHWC group norm of {width}": Trial(
            _GROUP_NORM_TWO.replace("CHANNELS", str(width)), _group_norm, ([[8, 1024, 32, width], [32, width]],)
        )
        for width in (4, 8, 10, 16, 32)
    },
}


def kernel_of(name: str, variant: str | None = None) -> Any:
    """A trial, compiled."""
    head = f"apiVersion: wavespec/v1\nkind: Kernel\nname: {name.replace(' ', '_').replace('-', '_').replace(',', '')}\n"
    target = f"cpu:{variant}" if variant else "cpu"
    return ws.compile(loads(head + TRIALS[name].spec.lstrip("\n")), target=target)


def fastest(calls: dict[str, Callable[[], object]], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """Microseconds of the fastest tenth of the calls of each, which take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at or len(next(iter(found.values()))) < 10:
        for name, call in calls.items():
            start = clock()
            call()
            found[name].append(clock() - start)
    return {name: sorted(each)[len(each) // 10] * 1e6 for name, each in found.items()}


def _errors(ours: Any, theirs: Any, exact: Any) -> tuple[float, float]:
    """The largest of each, over all results."""
    sides = [one if isinstance(one, tuple | list) else (one,) for one in (ours, theirs, exact)]
    found = [0.0, 0.0]
    for mine, other, right in zip(*sides, strict=True):
        for place, one in enumerate((mine, other)):
            assert one.shape == right.shape, f"{[*one.shape]} and {[*right.shape]}"
            difference = (one.double() - right.double()).nan_to_num().abs() if one.numel() else torch.zeros(1)
            found[place] = max(found[place], difference.max().item())
    return found[0], found[1]


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(TRIALS), help="words of names")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each size")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true", help="time by the wall clock")
    parser.add_argument("--variant", help="of the CPU")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    clock = time.perf_counter if arguments.wall else time.thread_time
    print("| kernel | sizes | us | torch | ratio | error | torch's |\n|---|---|---:|---:|---:|---:|---:|")
    for name, trial in TRIALS.items():
        if not any(word in name for word in arguments.only):
            continue
        try:
            kernel = kernel_of(name, arguments.variant)
        except ws.WavespecError as error:
            print(f"| {name} | {str(error).splitlines()[0]} |", flush=True)
            continue
        for shapes in trial.sizes:
            inputs = [trial.make(shape, place) for place, shape in enumerate(shapes)]
            shown = "; ".join(" x ".join(map(str, shape)) for shape in shapes)
            calls = {"ours": lambda: kernel(*inputs), "torch": lambda: trial.torch(*inputs)}
            errors = _errors(
                kernel(*(one.clone() for one in inputs)),
                trial.torch(*(one.clone() for one in inputs)),
                trial.torch(*map(_double, inputs)),
            )
            times = fastest(calls, arguments.seconds, clock)
            ratio = times["torch"] / times["ours"]
            print(
                f"| {name} | {shown} | {times['ours']:.1f} | {times['torch']:.1f} | {ratio:.2f} |"
                f" {errors[0]:.1e} | {errors[1]:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
