"""For the specs of ``benchmarks/specs/models``: torch's functions, sizes of real models, inputs that fit their use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import model_torch as of
import torch
from torch import Tensor

Sizes = Mapping[str, int]
Maker = Callable[[tuple[int, ...], Sizes], Tensor]


@dataclass(frozen=True, slots=True)
class Contest:
    """What torch's users write, and the sizes at which both are measured, on a GPU and on one core of a CPU."""

    torch: Callable[..., Any]
    gpu: tuple[Sizes, ...]
    cpu: tuple[Sizes, ...]
    makers: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    """Of inputs that are no normal numbers."""
    scalars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    from_f32: bool = False
    """Whether integers that are written follow from rounded numbers: as many may differ from those of f64 as torch's,
    or twice as many."""


def uniform(low: float, high: float) -> Maker:
    return lambda shape, _: torch.rand(shape) * (high - low) + low


def below(dim: str, low: int = 0) -> Maker:
    """Integers from ``low`` to below the size of a dim."""
    return lambda shape, sizes: torch.randint(low, sizes[dim], shape)


def sized(names: str, *rows: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def _shares(shape: tuple[int, ...], _: Sizes) -> Tensor:
    return torch.randn(shape).mul(3).softmax(-1)


def _falling(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    return _shares(shape, sizes).sort(-1, descending=True).values


def _sums(shape: tuple[int, ...], _: Sizes) -> Tensor:
    return -(torch.rand(shape) * 0.02).cumsum(-1)


def _starts(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    inner = torch.randint(0, sizes["N"] + 1, (shape[0] - 2,)).sort().values
    ends = inner.new_tensor([0, sizes["N"]])
    return torch.cat([ends[:1], inner, ends[1:]])


def _slots(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    return torch.randperm(sizes["S"])[: shape[0]]


def _codes(shape: tuple[int, ...], _: Sizes) -> Tensor:
    return torch.randint(-127, 128, shape)


_DECAYED = {"dt": uniform(0, 0.1), "a": _sums}
_I8 = {"k": _codes, "v": _codes, "k_scale": uniform(0.005, 0.02), "v_scale": uniform(0.005, 0.02)}
_ROWS = sized("M N", (24, 7168), (4096, 7168))
_FEW_ROWS = sized("M N", (256, 4096))
_WORDS = sized("M N", (300, 151936), (4096, 32064))
_FEW_WORDS = sized("M N", (16, 32064))
_LAYERS = sized("M N K", (24, 5120, 5120), (2048, 5120, 5120))
_SMALL_LAYERS = sized("M N K", (64, 1024, 1024))

CONTESTS: dict[str, Contest] = {
    "mla_decode": Contest(
        of.mla_decode,
        sized("B H N E R", (32, 128, 4096, 512, 64), (4, 16, 8192, 512, 64)),
        sized("B H N E R", (1, 16, 1024, 512, 64)),
    ),
    "attention_sinks": Contest(
        of.attention_sinks,
        sized("B H G M N D", (1, 64, 8, 2048, 2048, 64)),
        sized("B H G M N D", (1, 8, 1, 256, 256, 64)),
    ),
    "attention_i8_cache_decode": Contest(
        of.attention_i8_cache_decode,
        sized("B G R N D", (16, 8, 8, 4096, 128)),
        sized("B G R N D", (1, 8, 4, 1024, 128)),
        _I8,
    ),
    "attention_differential": Contest(
        of.attention_differential,
        sized("B H M N D E", (1, 16, 2048, 2048, 64, 128)),
        sized("B H M N D E", (1, 2, 256, 256, 64, 128)),
    ),
    "attention_window_decode": Contest(
        of.attention_window_decode,
        sized("B H G N D", (32, 32, 8, 4096, 128)),
        sized("B H G N D", (2, 16, 8, 1024, 128)),
        {"count": below("N", 1)},
    ),
    "attention_cross": Contest(
        of.attention_cross,
        sized("B M N H D", (2, 4096, 300, 16, 72), (4, 1024, 77, 16, 64)),
        sized("B M N H D", (1, 256, 77, 8, 64)),
    ),
    "retention_chunks": Contest(
        of.retention_chunks,
        sized("B H C D E", (4, 16, 32, 128, 128)),
        sized("B H C D E", (1, 2, 4, 64, 64)),
        {"decay": uniform(0.001, 0.05)},
    ),
    "ssd_chunk_state": Contest(
        of.ssd_chunk_state,
        sized("B C L H G P N", (2, 16, 256, 80, 1, 64, 128)),
        sized("B C L H G P N", (1, 2, 256, 8, 1, 64, 128)),
        _DECAYED,
    ),
    "ssd_chunk_scan": Contest(
        of.ssd_chunk_scan,
        sized("B C L H G P N", (2, 16, 256, 80, 1, 64, 128)),
        sized("B C L H G P N", (1, 2, 256, 4, 1, 64, 128)),
        _DECAYED,
    ),
    "ssd_state_passing": Contest(
        of.ssd_state_passing,
        sized("B C H P N", (2, 16, 80, 64, 128)),
        sized("B C H P N", (1, 8, 8, 64, 128)),
        {"a": uniform(-1, 0)},
    ),
    "selective_scan": Contest(
        of.selective_scan,
        sized("B D T", (4, 4096, 1024)),
        sized("B D T", (1, 512, 128)),
        {"rate": uniform(-2, -0.1)},
    ),
    "causal_conv1d_silu": Contest(
        of.causal_conv1d_silu, sized("B D T", (4, 8192, 2048)), sized("B D T", (1, 512, 512))
    ),
    "gated_delta_step": Contest(
        of.gated_delta_step,
        sized("B H D E", (64, 32, 128, 128)),
        sized("B H D E", (1, 16, 128, 128)),
        {"g": uniform(-1, 0), "beta": uniform(0, 1)},
    ),
    "token_shift": Contest(of.token_shift, sized("B T D", (4, 2048, 4096)), sized("B T D", (1, 256, 2048))),
    "rope_2d": Contest(
        of.rope_2d,
        sized("B P A D", (8, 4096, 16, 64)),
        sized("B P A D", (1, 256, 16, 64)),
        {"rows": lambda shape, _: torch.randint(0, 64, shape), "columns": lambda shape, _: torch.randint(0, 64, shape)},
    ),
    "mrope": Contest(of.mrope, sized("T H D", (24, 64, 128), (4096, 64, 128)), sized("T H D", (64, 32, 128))),
    "rope_positions": Contest(
        of.rope_positions, sized("T H P", (4096, 32, 8192)), sized("T H P", (64, 32, 1024)), {"position": below("P")}
    ),
    "linear_geglu": Contest(
        of.linear_geglu, sized("M N K", (24, 24576, 3072), (2048, 24576, 3072)), sized("M N K", (64, 2048, 1024))
    ),
    "swiglu_clamped": Contest(of.swiglu_clamped, sized("T N", (4096, 5760)), sized("T N", (64, 5760))),
    "linear_relu_squared": Contest(of.linear_relu_squared, _LAYERS, _SMALL_LAYERS),
    "linear_w8a8": Contest(
        of.linear_w8a8,
        sized("M N K", (32, 5120, 5120), (2048, 5120, 5120)),
        _SMALL_LAYERS,
        {"x": _codes, "w": _codes, "x_scale": uniform(0.001, 0.02), "w_scale": uniform(0.001, 0.02)},
    ),
    "lora_shrink": Contest(
        of.lora_shrink, sized("M K A", (64, 4096, 32)), sized("M K A", (8, 2048, 4)), {"adapter": below("A", -1)}
    ),
    "lora_expand": Contest(
        of.lora_expand, sized("M N A", (64, 4096, 32)), sized("M N A", (8, 2048, 4)), {"adapter": below("A", -1)}
    ),
    "linear_lora_f32": Contest(of.linear_lora_f32, _LAYERS, _SMALL_LAYERS),
    "logits_soft_cap": Contest(
        of.logits_soft_cap, sized("M N K", (8, 256000, 3584), (512, 256000, 3584)), sized("M N K", (8, 8192, 1024))
    ),
    "router_renormalised": Contest(
        of.router_renormalised, sized("T D", (24, 2048), (4096, 2048)), sized("T D", (64, 1024)), from_f32=True
    ),
    "router_sigmoid_bias": Contest(of.router_sigmoid_bias, sized("T", (24,), (4096,)), sized("T", (256,))),
    "expert_combine": Contest(
        of.expert_combine,
        sized("S D T", (192, 7168, 24), (16384, 7168, 2048)),
        sized("S D T", (512, 2048, 64)),
        {"row": below("S", -1), "weights": uniform(0, 1)},
    ),
    "token_permute": Contest(
        of.token_permute, sized("T S D", (2048, 16384, 7168)), sized("T S D", (64, 512, 2048)), {"of": below("T", -1)}
    ),
    "quantize_f8_token": Contest(of.quantize_f8_token, _ROWS, _FEW_ROWS),
    "quantize_f8_groups": Contest(of.quantize_f8_groups, sized("M G", (24, 56), (4096, 56)), sized("M G", (256, 32))),
    "quantize_f8_blocks": Contest(of.quantize_f8_blocks, sized("P G", (56, 128)), sized("P G", (8, 8))),
    "dequantize_f8_blocks": Contest(
        of.dequantize_f8_blocks, sized("N K", (7168, 16384)), sized("N K", (1024, 1000)), {"scale": uniform(0.001, 0.1)}
    ),
    "dequantize_i4_groups": Contest(
        of.dequantize_i4_groups,
        tuple({"N": n, "B": k // 2, "G": k // 128} for n, k in ((14336, 4096),)),
        tuple({"N": n, "B": k // 2, "G": k // 128} for n, k in ((1024, 1024),)),
        {"w": lambda shape, _: torch.randint(0, 256, shape), "zero": lambda shape, _: torch.randint(0, 16, shape)},
    ),
    "quantize_i8_token": Contest(of.quantize_i8_token, _ROWS, _FEW_ROWS, from_f32=True),
    "cache_write_i8": Contest(
        of.cache_write_i8,
        sized("T H D S", (4096, 8, 128, 65536)),
        sized("T H D S", (64, 8, 128, 1024)),
        {"slot": _slots, "cache": _codes},
        from_f32=True,
    ),
    "add_rms_norm_f8": Contest(of.add_rms_norm_f8, _ROWS, _FEW_ROWS),
    "rms_norm_gated": Contest(of.rms_norm_gated, sized("M G J", (4096, 8, 1024)), sized("M G J", (128, 8, 512))),
    "group_norm_silu": Contest(
        of.group_norm_silu, sized("N G C P", (2, 32, 10, 16384), (2, 32, 40, 1024)), sized("N G C P", (1, 32, 4, 1024))
    ),
    "group_norm_flat": Contest(
        of.group_norm_flat,
        sized("N G J C", (2, 32, 163840, 10), (2, 32, 40960, 40)),
        sized("N G J C", (1, 32, 4096, 4)),
    ),
    "ada_layer_norm": Contest(
        of.ada_layer_norm, sized("B T D", (8, 1024, 1152), (2, 4096, 3072)), sized("B T D", (2, 128, 1152))
    ),
    "gate_residual": Contest(
        of.gate_residual,
        sized("B T D", (8, 1024, 1152), (2, 4096, 3072)),
        sized("B T D", (2, 128, 1152)),
    ),
    "conv3d_ndhwc": Contest(
        of.conv3d_ndhwc, sized("N D H W C O", (1, 8, 60, 104, 192, 192)), sized("N D H W C O", (1, 4, 16, 16, 32, 32))
    ),
    "conv_transpose1d": Contest(
        of.conv_transpose1d, sized("N I C O", (8, 8192, 256, 128)), sized("N I C O", (1, 512, 128, 64))
    ),
    "resize_bilinear_nhwc": Contest(
        of.resize_bilinear_nhwc,
        sized("N IH IW C", (8, 64, 64, 512)),
        sized("N IH IW C", (1, 48, 48, 64)),
        scalars={"height": 128, "width": 128},
    ),
    "patchify": Contest(of.patchify, sized("B C H W", (16, 16, 128, 128)), sized("B C H W", (2, 16, 64, 64))),
    "mean_pool": Contest(of.mean_pool, sized("B T D", (256, 512, 1024)), sized("B T D", (8, 128, 768))),
    "embedding_bag": Contest(
        of.embedding_bag,
        sized("P V D N", (4097, 1_000_000, 128, 65536)),
        sized("P V D N", (257, 10_000, 128, 4096)),
        {"token": below("V"), "starts": _starts},
    ),
    "cross_entropy_smooth": Contest(of.cross_entropy_smooth, _WORDS, _FEW_WORDS, {"target": below("N")}),
    "kl_logits": Contest(of.kl_logits, _WORDS, _FEW_WORDS),
    "focal_loss": Contest(
        of.focal_loss, sized("M N", (200_000, 80)), sized("M N", (2000, 80)), {"target": uniform(0, 1)}
    ),
    "adamw_step": Contest(of.adamw_step, sized("N", (50_000_000,)), sized("N", (1_000_000,)), {"v": uniform(0, 1)}),
    "ema_update": Contest(of.ema_update, sized("N", (50_000_000,)), sized("N", (1_000_000,))),
    "grad_norm": Contest(
        of.grad_norm,
        sized("N", (50_000_000,)),
        sized("N", (1_000_000,)),
    ),
    "top_p_mask": Contest(
        of.top_p_mask, sized("M N", (64, 151936)), sized("M N", (8, 32064)), {"p": _falling}, from_f32=True
    ),
    "speculative_accept": Contest(
        of.speculative_accept,
        sized("B K V", (64, 5, 151936)),
        sized("B K V", (8, 5, 32064)),
        {"draft": _shares, "target": _shares, "token": below("V"), "u": uniform(0, 1)},
    ),
    "speculative_residual": Contest(
        of.speculative_residual,
        sized("B K T V", (64, 5, 6, 151936)),
        sized("B K T V", (8, 5, 6, 32064)),
        {"draft": _shares, "target": _shares, "place": lambda shape, sizes: torch.randint(0, sizes["T"], shape)},
    ),
}
