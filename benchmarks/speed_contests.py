"""Kernels of ``specs/`` in; what torch has for each, and sizes of models that no plan was chosen for, out.

Sizes are those of Qwen3-32B, Gemma 2, gpt-oss, Mixtral, ViT-L, Whisper, SDXL, ResNeXt and MobileNet, with numbers of
tokens that divide by nothing.  Torch is what its users write without a compiler: one function where there is one.
Split decoding, ragged batches and groups have no such function and tables of their own (``decode_h200``,
``ragged_h200``, ``grouped_h200``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

import torch
import torch.nn.functional as functional
from rows import TORCH as OF_ROWS
from torch import Tensor

from benchmarks.decoded_h200 import BLOCK, GROUP, f4_numbers
from tests.kernels import Sizes, sized

_TOP = 8


@dataclass(frozen=True, slots=True)
class Contest:
    """What torch has for a kernel, and the sizes at which both are measured."""

    torch: Callable[..., Any]
    sizes: tuple[Sizes, ...]
    exact: Callable[..., Any] | None = None
    """In f64, where that is not `torch` of inputs in f64."""
    is_checked: bool = True
    """Not where torch means something else by the inputs, or calls change them; `every_kernel` checks all kernels."""
    of: str = ""
    """The kernel that is compiled with other `params`, where the contest is not named after its kernel."""
    params: Mapping[str, int] = field(default_factory=dict[str, int])


def _first_largest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of equal elements the first, where torch has any."""
    values, places = x.sort(dim=1, descending=True, stable=True)
    return values[:, :_TOP], places[:, :_TOP]


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1])


def _behind(q: Tensor, k: Tensor) -> Tensor:
    """How many places a key is behind its query, the last ones side by side; below 0 for those that come later."""
    m, n = q.shape[-2], k.shape[-2]
    return torch.arange(m, device=q.device)[:, None] + (n - m) - torch.arange(n, device=q.device)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    same = q.shape[-2] == k.shape[-2]
    mask = None if same else _behind(q, k) >= 0
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=same)


def _windowed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    behind = _behind(q, k)
    return functional.scaled_dot_product_attention(q, k, v, (behind >= 0) & (behind < 128))


def _capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (30 * torch.tanh(_scores(q, k) / 30)).softmax(-1) @ v


def _alibi(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    bias = (-slope[:, None, None] * _behind(q, k).abs()).to(q.dtype)
    return functional.scaled_dot_product_attention(q, k, v, bias[None])


def _padded(q: Tensor, k: Tensor, v: Tensor, count: Tensor) -> Tensor:
    mask = (torch.arange(k.shape[-2], device=q.device) < count[:, None])[:, None, None]
    return functional.scaled_dot_product_attention(q, k, v, mask).nan_to_num()


def _paged(q: Tensor, keys: Tensor, values: Tensor, page: Tensor, count: Tensor) -> Tensor:
    k, v = (pool[page.long()].flatten(1, 2).transpose(1, 2) for pool in (keys, values))
    return _padded(q, k, v, count)


def _combined(part: Tensor, total: Tensor, top: Tensor) -> Tensor:
    factor = torch.exp2(top - top.amax(2, keepdim=True))
    summed = (part * factor[..., None]).sum(2) / (total * factor).sum(2)[..., None]
    return summed if part.dtype is torch.float64 else summed.bfloat16()


def _conv(
    groups_of: Callable[[Tensor], int], stride: int = 1, padding: int = 1, dilation: int = 1
) -> Callable[[Tensor, Tensor], Tensor]:
    """Of NHWC, which is a permuted view of channels_last."""

    def convolve(x: Tensor, w: Tensor) -> Tensor:
        filters = w[:, None] if w.dim() == 3 else w.permute(0, 3, 1, 2)
        groups = x.shape[-1] // groups_of(w)
        y = functional.conv2d(x.permute(0, 3, 1, 2), filters, None, stride, padding, dilation, groups)
        return y.permute(0, 2, 3, 1)

    return convolve


_dense, _grouped, _depthwise = _conv(lambda w: w.shape[3]), _conv(lambda w: w.shape[3]), _conv(lambda _: 1)


def _moved(of: str, sizes: Sequence[Sizes], *windows: int) -> Contest:
    """A convolution with another stride, padding and dilation."""
    groups_of: Callable[[Tensor], int] = (lambda _: 1) if "depthwise" in of else (lambda w: w.shape[3])
    params = dict(zip(("STRIDE", "PAD", "DILATION"), windows, strict=True))
    return Contest(_conv(groups_of, *windows), tuple(sizes), of=of, params=params)


def _swiglu(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return functional.silu(x @ a.T) * (x @ b.T)


def _sparse(x: Tensor) -> Tensor:
    """By sorting, as its authors and the package `entmax` do."""
    ordered = x.sort(1, descending=True).values
    sums, places = ordered.cumsum(1), torch.arange(1, x.shape[1] + 1, device=x.device)
    count = (1 + places * ordered > sums).sum(1, keepdim=True)
    return (x - (sums.gather(1, count - 1) - 1) / count).clamp_min(0)


def _mean_loss(loss: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    total = loss.sum()
    return total / (target != -100).sum(), total


def _first(tokens: Tensor, stop: Tensor) -> Tensor:
    found = tokens == stop
    return torch.where(found.any(1), found.int().argmax(1), tokens.shape[1]).int()


def _to_f4(x: Tensor) -> tuple[Tensor, Tensor]:
    """As users do before there is a kernel: a table of what is nearest, two codes in a byte."""
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    power = (blocks.abs().amax(-1).log2().floor() - 2).clamp_min(-127)
    ends = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=x.device)
    scaled = blocks * torch.exp2(-power)[..., None]
    codes = torch.bucketize(scaled.abs(), ends) + 8 * torch.signbit(scaled)
    codes = codes.flatten(-2).to(torch.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, (power + 127).to(torch.uint8)


def _added(y: Tensor, row: Tensor, x: Tensor) -> Tensor:
    return y.index_add_(0, row.clamp(0, len(y) - 1), x)


def _i4_exact(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    codes = torch.stack([w & 15, w >> 4], -1).flatten(-2).long()
    weights = ((codes ^ 8) - 8) * scale.repeat_interleave(GROUP, 1)[:, : x.shape[1]].double()
    return x.double() @ weights.to(torch.bfloat16).double().T


def _mx(codes: Tensor, scale: Tensor) -> Tensor:
    wide = f4_numbers(codes.view(torch.uint8)) if codes.dtype is torch.float4_e2m1fn_x2 else codes.double()
    return wide * scale.double().repeat_interleave(BLOCK, 1)


def _mx_exact(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return _mx(a, a_scale) @ _mx(b, b_scale).T


def _blocks_exact(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    k = a.shape[1]
    left = a.double() * a_scale.double().repeat_interleave(GROUP, 1)[:, :k]
    right = b_scale.double().repeat_interleave(GROUP, 0)[: len(b)].repeat_interleave(GROUP, 1)[:, :k]
    return left @ (b.double() * right).T


def _in_bf16(m: int, n: int, k: int, like: Tensor) -> Tensor:
    """The product of numbers that were never made small: what there is where torch has none of small ones."""
    return _plain(m, k, like.device) @ _plain(n, k, like.device).T


@lru_cache(maxsize=2)  # of one product; made once, or their making would be timed
def _plain(rows: int, columns: int, device: torch.device) -> Tensor:
    return torch.randn(rows, columns, device=device).bfloat16()


def _as_bf16(a: Tensor, b: Tensor, *_: Tensor) -> Tensor:
    width = 2 if a.dtype is torch.float4_e2m1fn_x2 else 1
    return _in_bf16(len(a), len(b), a.shape[1] * width, a)


@lru_cache(maxsize=1)
def _one(device: torch.device) -> Tensor:
    return torch.ones((), device=device)


def _scaled(a: Tensor, b: Tensor) -> Tensor:
    one = _one(a.device)
    product: Any = torch._scaled_mm  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return product(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def _wide(a: Tensor, b: Tensor) -> Tensor:
    """16 bits in, f32 out."""
    if a.dtype is torch.float64:
        return a @ b.T
    return torch.mm(a, b.T, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float().T


def _tf32(a: Tensor, b: Tensor) -> Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    product = a @ b.T
    torch.backends.cuda.matmul.allow_tf32 = False
    return product


def _integers(a: Tensor, b: Tensor) -> Tensor:
    product: Any = torch._int_mm  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return product(a, b.T)


def _of_rows(name: str) -> Callable[..., Any]:
    return lambda *inputs: OF_ROWS[name](inputs)


def double(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: function(*(one.double() if one.is_floating_point() else one for one in inputs))


_PRODUCTS = sized(
    "M N K",
    (1, 5120, 25600), (1, 10240, 5120), (7, 25600, 5120), (24, 5120, 8192), (100, 10240, 5120), (257, 4096, 1024),
    (333, 25600, 5120), (577, 1024, 4096), (1500, 1280, 5120), (1500, 5120, 1280), (1111, 2880, 2880),
    (2048, 5120, 25600), (5000, 3584, 14336),
)  # fmt: skip
_FEW_PRODUCTS = sized(
    "M N K", (1, 10240, 5120), (24, 5120, 8192), (257, 4096, 1024), (1111, 2880, 2880), (3000, 5120, 5120)
)
_SMALL_RESULTS = sized(  # of sums of any length, and of rows that start anywhere
    "M N K", (17, 577, 1024), (17, 1001, 2047), (33, 1001, 2047), (48, 512, 4096), (17, 64, 65536), (100, 128, 4096)
)
_ROWS = sized("M N", (1, 5120), (7, 5120), (257, 1024), (1500, 1280), (2048, 5120), (5000, 3584), (10000, 2880))
_WORDS = sized("M N", (1, 151936), (8, 151936), (300, 151936), (512, 256000), (3000, 32064))
_HEADS = sized(
    "B H M N D E",
    (8, 16, 577, 577, 64, 64), (1, 20, 1500, 1500, 64, 64), (1, 64, 2500, 2500, 128, 128),
    (1, 16, 3000, 3000, 256, 256),
    (16, 12, 100, 100, 64, 64), (1, 32, 300, 5000, 128, 128), (8, 32, 1, 3000, 128, 128),
    (2, 10, 4096, 77, 64, 64), (32, 12, 197, 197, 64, 64), (4, 16, 1000, 1000, 80, 80),
)  # fmt: skip
_OF_256 = sized("B H M N D E", (2, 8, 300, 300, 256, 256), (8, 16, 1, 1500, 256, 256))
_IMAGES = sized(
    "N H W C O R S",
    (2, 128, 128, 320, 320, 3, 3), (2, 64, 64, 640, 640, 3, 3), (2, 32, 32, 1280, 1280, 3, 3),
    (1, 64, 64, 4, 320, 3, 3), (1, 56, 56, 64, 64, 3, 3), (32, 28, 28, 128, 128, 3, 3), (4, 20, 20, 192, 384, 3, 3),
)  # fmt: skip
_INGROUPS = sized(
    "N H W C O R S D",
    (32, 56, 56, 128, 128, 3, 3, 4), (32, 28, 28, 256, 256, 3, 3, 8), (32, 14, 14, 1024, 1024, 3, 3, 32),
    (32, 28, 28, 256, 256, 3, 3, 16), (32, 14, 14, 512, 512, 3, 3, 64), (32, 28, 28, 240, 240, 3, 3, 24),
    (1, 56, 56, 120, 120, 3, 3, 40),
)  # fmt: skip
_HALVED = sized(
    "N H W C O R S D",
    (32, 56, 56, 256, 256, 3, 3, 8),
    (32, 28, 28, 512, 512, 3, 3, 16),
    (32, 56, 56, 240, 240, 3, 3, 24),
)
_LONE = sized(
    "N H W C R S",
    (32, 112, 112, 32, 3, 3), (32, 28, 28, 192, 3, 3), (32, 14, 14, 576, 3, 3), (1, 56, 56, 144, 3, 3),
)  # fmt: skip
_OF_FIVE = sized("N H W C R S", (32, 56, 56, 144, 5, 5), (32, 14, 14, 672, 5, 5), (1, 28, 28, 240, 5, 5))
_OF_SEVEN = sized("N H W C R S", (32, 56, 56, 96, 7, 7), (32, 14, 14, 384, 7, 7), (8, 7, 7, 768, 7, 7))
_TURNED = sized(
    "T H D",
    *(
        (1, 64, 128),
        (24, 64, 128),
        (2500, 64, 128),
        (3000, 16, 256),
        (1001, 7, 128),
        (4097, 14, 64),
        (777, 25, 80),
        (3001, 5, 96),
    ),
)

CONTESTS: dict[str, Contest] = {
    "add_broadcast": Contest(lambda x, b: x + b, _ROWS),
    "argmax": Contest(lambda x: x.argmax(1), (*_ROWS[3:5], *_WORDS)),
    "attention": Contest(functional.scaled_dot_product_attention, _HEADS),
    "attention_alibi": Contest(_alibi, _HEADS[:6]),
    "attention_biased_bias": Contest(functional.scaled_dot_product_attention, _HEADS[:6]),
    "attention_biased_mask": Contest(functional.scaled_dot_product_attention, _HEADS[:6]),
    "attention_combine": Contest(
        _combined, sized("B H S M E", (8, 32, 8, 1, 128), (64, 8, 16, 4, 128), (1, 64, 64, 1, 128))
    ),
    "attention_f32": Contest(functional.scaled_dot_product_attention, (*_HEADS[:5], *_OF_256)),
    "attention_gqa": Contest(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        sized(
            "B H G M N D E",
            (1, 64, 8, 2500, 2500, 128, 128),
            (1, 16, 8, 3000, 3000, 256, 256),
            (16, 64, 8, 1, 3000, 128, 128),
            (1, 32, 8, 1, 8192, 128, 128),
        ),
    ),
    "attention_masked_causal": Contest(_causal, _HEADS[:6]),
    "attention_masked_soft_cap": Contest(_capped, _HEADS[:6]),
    "attention_masked_window": Contest(_windowed, _HEADS[:6]),
    "attention_padded": Contest(_padded, _HEADS[:6]),
    "attention_paged": Contest(
        _paged,
        sized("B H M P T L N D E", (8, 16, 100, 700, 16, 64, 1024, 128, 128), (4, 8, 512, 300, 64, 40, 2560, 64, 64)),
    ),
    "batched_matmul": Contest(
        lambda a, b: a @ b.mT,
        sized(
            "B M N K",
            (64, 100, 100, 128),
            (16, 577, 577, 64),
            (8, 1, 4096, 2880),
            (8, 300, 5120, 1024),
            (40, 77, 640, 2048),
        ),
    ),
    "bincount": Contest(
        lambda counts, x: counts.add_(torch.bincount(x[(x >= 0) & (x < len(counts))], minlength=len(counts))),
        sized("N B", (100_000, 256), (10_000_000, 1000), (1_000_000, 151936), (10_000_000, 50_257), (1000, 64)),
        is_checked=False,  # of what is left out torch has no word, and sums go on from call to call
    ),
    "conv2d_depthwise": Contest(_depthwise, _LONE),
    "conv2d_depthwise_f32": Contest(_depthwise, _LONE),
    "conv2d_depthwise_halved": _moved("conv2d_depthwise", _LONE, 2, 1, 1),
    "conv2d_depthwise_dilated": _moved("conv2d_depthwise", _LONE, 1, 2, 2),
    "conv2d_depthwise_5": _moved("conv2d_depthwise", _OF_FIVE, 1, 2, 1),
    "conv2d_depthwise_5_halved": _moved("conv2d_depthwise", _OF_FIVE, 2, 2, 1),
    "conv2d_depthwise_7": _moved("conv2d_depthwise", _OF_SEVEN, 1, 3, 1),
    "conv2d_depthwise_7_halved": _moved("conv2d_depthwise", _OF_SEVEN, 2, 3, 1),
    "conv2d_depthwise_f32_7": _moved("conv2d_depthwise_f32", _OF_SEVEN, 1, 3, 1),
    "conv2d_grouped": Contest(_grouped, _INGROUPS),
    "conv2d_grouped_f32": Contest(_grouped, _INGROUPS),
    "conv2d_grouped_halved": _moved("conv2d_grouped", _HALVED, 2, 1, 1),
    "conv2d_grouped_f32_halved": _moved("conv2d_grouped_f32", _HALVED, 2, 1, 1),
    "conv2d_nchw": Contest(lambda x, w: functional.conv2d(x, w, padding=1), _IMAGES),
    "conv2d_nchw_f32": Contest(lambda x, w: functional.conv2d(x, w, padding=1), _IMAGES[3:]),
    "conv2d_nhwc": Contest(_dense, _IMAGES),
    "conv2d_nhwc_f32": Contest(_dense, _IMAGES[3:]),
    "conv2d_nhwc_dilated": _moved("conv2d_nhwc", _IMAGES[1:], 1, 2, 2),
    "conv2d_nhwc_halved": _moved("conv2d_nhwc", _IMAGES, 2, 1, 1),
    "cross_entropy": Contest(_of_rows("cross_entropy"), _WORDS),
    "cross_entropy_bf16": Contest(_of_rows("cross_entropy"), _WORDS),
    "cross_entropy_mean": Contest(_mean_loss, sized("M", (1500,), (40_000,), (1_000_000,))),
    "cumsum": Contest(lambda x: x.cumsum(1), (*_ROWS[1:6:2], *_WORDS[:3])),
    "dropout": Contest(lambda x: functional.dropout(x, 0.5), _ROWS, is_checked=False),  # numbers of other seeds
    "embedding": Contest(
        lambda token, table: functional.embedding(token.clamp(0, len(table) - 1), table),
        sized("T D V", (1, 5120, 151936), (300, 5120, 151936), (5000, 3584, 256000)),
        is_checked=False,  # tokens outside of the table are 0 here, and an error there
    ),
    "gemm": Contest(_wide, _FEW_PRODUCTS),
    "gemm_bf16": Contest(_wide, _PRODUCTS),
    "gemm_f32": Contest(lambda a, b: a @ b.T, (*_FEW_PRODUCTS, *_SMALL_RESULTS)),
    "gemm_i8": Contest(_integers, _PRODUCTS, exact=lambda a, b: a.double() @ b.double().T),
    "layer_norm": Contest(_of_rows("layer_norm"), _ROWS),
    "layer_norm_bf16": Contest(_of_rows("layer_norm"), _ROWS),
    "linear_gelu": Contest(lambda a, b, bias: functional.gelu(functional.linear(a, b, bias)), _PRODUCTS),
    "linear_i4": Contest(lambda x, w, scale: _in_bf16(len(x), len(w), x.shape[1], x), _PRODUCTS[:-3], exact=_i4_exact),
    "linear_residual": Contest(lambda a, b, residual: torch.addmm(residual, a, b.T, alpha=0.5), _PRODUCTS),
    "linear_silu": Contest(lambda a, b, bias: functional.silu(functional.linear(a, b, bias)), _PRODUCTS),
    "linear_swiglu": Contest(_swiglu, _PRODUCTS),
    "log_softmax": Contest(_of_rows("log_softmax"), _WORDS),
    "log_softmax_bf16": Contest(_of_rows("log_softmax"), _WORDS),
    "matmul_bf16": Contest(lambda a, b: a @ b.T, _PRODUCTS),
    "matmul_f16": Contest(lambda a, b: a @ b.T, _FEW_PRODUCTS),
    "matmul_f8": Contest(_scaled, _PRODUCTS, exact=lambda a, b: a.double() @ b.double().T),
    "matmul_f8_blocks": Contest(_as_bf16, _PRODUCTS, exact=_blocks_exact),
    "matmul_layouts_bf16_nt": Contest(_wide, _FEW_PRODUCTS),
    "matmul_layouts_f16_nn": Contest(lambda a, b: _wide(a, b.T), _FEW_PRODUCTS),
    "matmul_layouts_f16_tn": Contest(lambda a, b: _wide(a.T, b.T), _FEW_PRODUCTS[1:]),
    "matmul_mxf4": Contest(_as_bf16, _PRODUCTS, exact=_mx_exact),
    "matmul_mxf8": Contest(_as_bf16, _PRODUCTS, exact=_mx_exact),
    "matmul_tf32": Contest(_tf32, _PRODUCTS),
    "qk_norm_rope": Contest(_of_rows("qk_norm_rope"), _TURNED),
    "quantize_mxf4": Contest(
        _to_f4, sized("M K", (1, 5120), (300, 5120), (5000, 2880), (33, 2880), (20_000, 8192)), is_checked=False
    ),
    "rms_norm": Contest(_of_rows("rms_norm"), _ROWS),
    "rms_norm_bf16": Contest(_of_rows("rms_norm"), _ROWS),
    "rope": Contest(_of_rows("rope"), _TURNED),
    "scatter_add": Contest(
        _added, sized("V T D", (1000, 300, 1024), (151936, 5000, 512), (500, 100_000, 64)), is_checked=False
    ),
    "searchsorted": Contest(
        torch.searchsorted,
        sized("M N", (1000, 100), (1_000_000, 1000), (1_000_000, 5_000_000), (50, 10_000_000), (100_000, 64)),
    ),
    "sequence_length": Contest(
        _first, sized("B N", (16, 3000), (256, 2000), (4, 100_000), (1, 1_000_000), (4000, 300))
    ),
    "silu_and_mul": Contest(
        _of_rows("silu_and_mul"),
        sized("T N", (1, 51200), (24, 51200), (2048, 51200), (5000, 28672)),
    ),
    "softmax": Contest(_of_rows("softmax"), (*_ROWS[2:5], *_WORDS)),
    "softmax_bf16": Contest(_of_rows("softmax"), (*_ROWS[2:5], *_WORDS)),
    "sparsemax": Contest(
        _sparse, sized("M N", (257, 1024), (32, 50_257), (5000, 1000), (1, 151936), (300, 32_064), (20_000, 77))
    ),
    "sum_dim": Contest(
        _of_rows("sum_dim"),
        sized("A N B", (1, 5000, 5120), (577, 1024, 8), (8, 300, 1280), (1, 1_000_000, 3), (1, 12, 400_000)),
    ),
    "topk": Contest(
        lambda x: tuple(x.topk(_TOP, 1)),
        sized(
            "M N",
            *((1, 256), (1, 32_064), (1, 151936), (32, 50_257), (32, 151936), (300, 1000), (300, 151936), (1500, 5120)),
            *((3000, 32_064), (5000, 128), (5000, 32_064)),
        ),
        exact=_first_largest,
    ),
    "transpose": Contest(lambda x: x.T.contiguous(), (*_ROWS[1:], *_WORDS[1:3])),
    "transpose_bf16": Contest(lambda x: x.T.contiguous(), (*_ROWS[1:], *_WORDS[1:3])),
}
"""By the name of the kernel; of one in several types, the types that are used most."""
