"""What torch has for the specs of ``benchmarks/specs/models``, the sizes of real models, and inputs that fit their use.

Functions take what kernels take, in their order, and return what those write: what is changed in place, then results.  Of
inputs in f64 they compute in f64 to the end, without rounding to smaller types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

Sizes = Mapping[str, int]
Maker = Callable[[tuple[int, ...], Sizes], Tensor]

F8 = torch.float8_e4m3fn


@dataclass(frozen=True, slots=True)
class Contest:
    """What torch's users write, and the sizes at which both are measured, on a GPU and on one core of a CPU."""

    torch: Callable[..., Any]
    gpu: tuple[Sizes, ...]
    cpu: tuple[Sizes, ...]
    makers: Mapping[str, Maker] = field(default_factory=dict[str, Maker])
    """Of inputs that are no normal numbers."""
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    from_f32: bool = False
    """Whether integers that are written follow from rounded numbers: as many may differ from those of f64 as torch's, or
    twice as many."""


def wide(x: Tensor) -> Tensor:
    """In f32, of f64 in f64."""
    return x if x.dtype is torch.float64 else x.float()


def like(y: Tensor, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """In the type of ``x``, or ``dtype``; of f64 in f64."""
    return y if y.dtype is torch.float64 else y.to(dtype or x.dtype)


def uniform(low: float, high: float) -> Maker:
    return lambda shape, _: torch.rand(shape) * (high - low) + low


def below(dim: str, low: int = 0) -> Maker:
    """Integers from ``low`` to below the size of a dim."""
    return lambda shape, sizes: torch.randint(low, sizes[dim], shape)


def sized(names: str, *rows: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, mask, **options)


def _behind(m: int, n: int, device: torch.device) -> Tensor:
    return torch.arange(m, device=device)[:, None] + (n - m) - torch.arange(n, device=device)


# Attention


def mla_decode(q: Tensor, q_rope: Tensor, c: Tensor, k_rope: Tensor) -> Tensor:
    scores = (q @ c.mT + q_rope @ k_rope.mT) * 0.07216878364870323
    return like(scores.softmax(-1, dtype=wide(scores).dtype), q) @ c


def attention_sinks(q: Tensor, k: Tensor, v: Tensor, sink: Tensor) -> Tensor:
    shared = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(shared, 1) for x in (k, v))
    behind = _behind(q.shape[2], k.shape[2], q.device)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill((behind < 0) | (behind >= 128), -math.inf)
    scores = torch.cat([scores, sink[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    return scores.softmax(-1)[..., :-1] @ v


def attention_i8_cache_decode(q: Tensor, k: Tensor, k_scale: Tensor, v: Tensor, v_scale: Tensor) -> Tensor:
    keys, values = (like(wide(q[:0]).dtype and x.to(k_scale.dtype) * s[..., None], q, q.dtype) for x, s in ((k, k_scale), (v, v_scale)))
    return _attend(q, keys, values)


def attention_differential(q: Tensor, k: Tensor, v: Tensor, factor: Tensor) -> Tensor:
    first, second = (_attend(q[:, :, p], k[:, :, p], v, is_causal=True) for p in (0, 1))
    return like(wide(first) - factor[:, None, None] * wide(second), q)


def attention_window_decode(q: Tensor, k: Tensor, v: Tensor, count: Tensor) -> Tensor:
    place = torch.arange(k.shape[2], device=q.device)
    mask = ((place < count[:, None]) & (place >= count[:, None] - 1024))[:, None, None]
    return _attend(q[:, :, None], k, v, mask, enable_gqa=True)[:, :, 0]


def attention_cross(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    mask = seen[:, None, None]
    return _attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask).transpose(1, 2)


# Recurrences


def retention_chunks(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    b, h, c, l, d = q.shape
    e = v.shape[-1]
    step = torch.arange(l, device=q.device, dtype=decay.dtype)
    rate = decay[:, None]
    behind = step[:, None] - step
    mask = torch.exp(-rate[..., None] * behind).tril()
    weights = like(wide(q @ k.mT) * mask[:, None], q)
    near = weights @ v
    parts = like(wide(k) * torch.exp(-rate * (l - 1 - step))[:, None, :, None], q).mT @ v
    state = torch.zeros(b, h, d, e, device=q.device, dtype=decay.dtype)
    fade = torch.exp(-decay * l)[:, None, None]
    known = []
    for index in range(c):
        known.append(like(state, q))
        state = state * fade + parts[:, :, index]
    far = wide(q @ torch.stack(known, 2)) * torch.exp(-rate * (step + 1))[:, None, :, None]
    return like(wide(near) + far, q), state


def ssd_chunk_state(x: Tensor, b: Tensor, dt: Tensor, a: Tensor) -> Tensor:
    factor = (torch.exp(a[..., -1:] - a) * dt).permute(0, 2, 3, 1)  # B C L H
    scaled = like(wide(x) * factor[..., None], x)
    b = b.repeat_interleave(x.shape[3] // b.shape[3], 3)
    return wide(torch.einsum("bclhp,bclhn->bchpn", scaled, b))


def ssd_chunk_scan(
    c: Tensor, b: Tensor, x: Tensor, dt: Tensor, a: Tensor, state: Tensor, skip: Tensor
) -> Tensor:
    shared = x.shape[3] // b.shape[3]
    products = wide(torch.einsum("bclgn,bcugn->bgclu", c, b)).repeat_interleave(shared, 1)
    weights = (products * torch.exp(a[..., :, None] - a[..., None, :]) * dt[..., None, :]).tril()
    near = torch.einsum("bhclu,bcuhp->bclhp", like(weights, x), x)
    far = torch.einsum("bclhn,bchpn->bclhp", c.repeat_interleave(shared, 3), state)
    grown = torch.exp(a).permute(0, 2, 3, 1)[..., None]
    return like(wide(near) + wide(far) * grown + skip[:, None] * wide(x), x)


def ssd_state_passing(state: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    known, passed = torch.zeros_like(state[:, 0]), []
    for c in range(state.shape[1]):
        passed.append(known)
        known = known * torch.exp(a[:, :, c])[..., None, None] + state[:, c]
    return like(torch.stack(passed, 1), state, torch.bfloat16), known


def selective_scan(
    x: Tensor, raw: Tensor, bias: Tensor, rate: Tensor, b: Tensor, c: Tensor, skip: Tensor, z: Tensor
) -> Tensor:
    dt = functional.softplus(wide(raw) + bias)
    fade = torch.exp(dt[..., None] * rate)
    more = (dt * wide(x))[..., None] * wide(b)[:, :, None]
    h, found = torch.zeros_like(fade[:, 0]), []
    for t in range(x.shape[1]):
        h = fade[:, t] * h + more[:, t]
        found.append((h * wide(c)[:, t, None]).sum(-1))
    return like((torch.stack(found, 1) + skip * wide(x)) * functional.silu(wide(z)), x)


def causal_conv1d_silu(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return functional.silu(functional.conv1d(x, w[:, None], bias, padding=3, groups=x.shape[1])[..., : x.shape[2]])


def gated_delta_step(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    faded = state * torch.exp(g)[..., None, None]
    delta = (wide(v) - (wide(k)[..., None] * faded).sum(2)) * beta[..., None]
    state.copy_(faded + wide(k)[..., None] * delta[:, :, None])
    return state, like((wide(q)[..., None] * state).sum(2), q)


def token_shift(x: Tensor, mix: Tensor) -> Tensor:
    return torch.lerp(x, functional.pad(x, (0, 0, 1, -1)), mix)


# Positions


def _half_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rope_2d(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    quarter = x.shape[-1] // 4
    kind = wide(x[:0]).dtype
    frequency = torch.exp2(torch.arange(quarter, device=x.device, dtype=kind) / quarter * -13.287712379549449)
    parts = []
    for half, places in zip(wide(x).chunk(2, -1), (rows, columns), strict=True):
        angle = (places[:, None] * frequency).repeat(1, 2)[:, None]
        parts.append(half * angle.cos() + _half_turned(half) * angle.sin())
    return like(torch.cat(parts, -1), x)


def mrope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    sections = [16, 24, 24] * 2
    cos, sin = (
        torch.cat([one[i % 3] for i, one in enumerate(table.split(sections, -1))], -1)[:, None] for table in (cos, sin)
    )
    return x * cos + _half_turned(x) * sin


def rope_positions(x: Tensor, position: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    c, s = cos[position][:, None], sin[position][:, None]
    even, odd = wide(x)[..., ::2], wide(x)[..., 1::2]
    return like(torch.stack([even * c - odd * s, odd * c + even * s], -1).flatten(-2), x)


# Products


def linear_geglu(x: Tensor, w: Tensor) -> Tensor:
    gate, up = functional.linear(x, w).chunk(2, -1)
    return functional.gelu(gate, approximate="tanh") * up


def swiglu_clamped(x: Tensor) -> Tensor:
    gate, up = wide(x)[..., ::2].clamp(max=7), wide(x)[..., 1::2].clamp(-7, 7)
    return like(gate * torch.sigmoid(1.702 * gate) * (up + 1), x)


def linear_w8a8(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Tensor) -> Tensor:
    if x_scale.dtype is torch.float64:
        product = x.double() @ w.double().T
    else:
        product = torch._int_mm(x, w.T).float()  # pyright: ignore
    return like(product * x_scale[:, None] * w_scale + wide(bias), bias)


def lora_shrink(x: Tensor, down: Tensor, adapter: Tensor) -> Tensor:
    chosen = down[adapter.clamp_min(0).long()] * (adapter >= 0)[:, None, None]
    return wide((chosen @ x[..., None])[..., 0])


def lora_expand(low: Tensor, up: Tensor, adapter: Tensor, base: Tensor) -> Tensor:
    chosen = up[adapter.clamp_min(0).long()] * (adapter >= 0)[:, None, None]
    return base + 2 * (chosen @ low.to(up.dtype)[..., None])[..., 0]


def linear_lora_f32(x: Tensor, w: Tensor, bias: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return functional.linear(x, w, bias) + 2 * functional.linear(functional.linear(x, down), up)


def logits_soft_cap(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(wide(functional.linear(x, w)) / 30) * 30


# Mixtures of experts


def router_renormalised(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    product = torch.mm(x, w.T, out_dtype=torch.float32) if x.is_cuda and x.dtype is torch.bfloat16 else wide(x) @ wide(w).T
    shares, places = product.softmax(-1).topk(8)
    return shares / shares.sum(-1, keepdim=True), places.int()


def router_sigmoid_bias(logits: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    score = logits.sigmoid()
    places = (score + bias).topk(8).indices
    chosen = score.gather(1, places)
    return chosen / (chosen.sum(-1, keepdim=True) + 1e-20) * 2.5, places.int()


def expert_combine(y: Tensor, row: Tensor, weights: Tensor) -> Tensor:
    made = y[row.clamp_min(0).long()]
    return like((wide(made) * (weights * (row >= 0))[..., None]).sum(1), y)


def token_permute(x: Tensor, scale: Tensor, of: Tensor) -> tuple[Tensor, Tensor]:
    place, there = of.clamp_min(0).long(), of >= 0
    rows = x.view(torch.uint8)[place] if x.dtype is F8 else x[place]
    moved = rows * there[:, None]
    return moved.view(F8) if x.dtype is F8 else moved, scale[place] * there


# Small types


def _f8(x: Tensor, step: Tensor) -> Tensor:
    return like((wide(x) / step).clamp(-448, 448), x, F8)


def quantize_f8_token(x: Tensor) -> tuple[Tensor, Tensor]:
    step = wide(x.abs().amax(1)).clamp_min(1e-12) / 448
    return _f8(x, step[:, None]), step


def quantize_f8_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    step = wide(x.abs().amax(-1)).clamp_min(1e-10) / 448
    return _f8(x, step[..., None]), step


def quantize_f8_blocks(w: Tensor) -> tuple[Tensor, Tensor]:
    step = wide(w.abs().amax((1, 3))).clamp_min(1e-12) / 448
    return _f8(w, step[:, None, :, None]), step


def dequantize_f8_blocks(w: Tensor, scale: Tensor) -> Tensor:
    scales = scale.repeat_interleave(128, 0)[: len(w)].repeat_interleave(128, 1)[:, : w.shape[1]]
    return like(w.to(scale.dtype) * scales, w, torch.bfloat16)


def dequantize_i4_groups(w: Tensor, zero: Tensor, scale: Tensor) -> Tensor:
    codes = torch.stack([w & 15, w >> 4], -1).flatten(1).unflatten(1, (zero.shape[1], 128))
    kind = wide(scale[:0]).dtype
    return like((codes.to(kind) - zero[..., None].to(kind)) * wide(scale)[..., None], scale).flatten(1)


def quantize_i8_token(x: Tensor) -> tuple[Tensor, Tensor]:
    step = wide(x.abs().amax(1)).clamp_min(1e-12) / 127
    return (wide(x) / step[:, None]).round().to(torch.int8), step


def cache_write_i8(x: Tensor, slot: Tensor, cache: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    step = wide(x.abs().amax(-1)).clamp_min(1e-12) / 127
    codes = (wide(x) / step[..., None]).round().to(torch.int8)
    cache[slot], scale[slot] = codes, step
    return cache, scale


# Norms


def add_rms_norm_f8(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    residual += x
    wide_ = wide(residual)
    factor = torch.rsqrt((wide_ * wide_).mean(-1, keepdim=True) + 1e-6)
    return residual, like((wide_ * factor * wide(weight) / 0.02).clamp(-448, 448), x, F8)


def rms_norm_gated(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    gated = wide(x) * functional.silu(wide(z))
    return like(gated * torch.rsqrt((gated * gated).mean(-1, keepdim=True) + 1e-5) * wide(weight), x)


def group_norm_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    n, g, c, p = x.shape
    return functional.silu(
        functional.group_norm(x.view(n, g * c, p), g, weight.flatten(), bias.flatten(), 1e-5)
    ).view_as(x)


def group_norm_flat(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    n, g, j = x.shape
    c = weight.shape[1]
    return group_norm_silu(x.view(n, g, c, j // c), weight, bias).view_as(x)


def ada_layer_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


# Pixels


def conv3d_ndhwc(x: Tensor, w: Tensor) -> Tensor:
    y = functional.conv3d(x.permute(0, 4, 1, 2, 3), w.permute(0, 4, 1, 2, 3), padding=1)
    return y.permute(0, 2, 3, 4, 1)


def conv_transpose1d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = functional.conv_transpose1d(x.mT, weight.permute(2, 1, 0), bias, stride=2, padding=1)
    return y.mT


def resize_bilinear_nhwc(x: Tensor) -> Tensor:
    y = functional.interpolate(x.permute(0, 3, 1, 2), (128, 128), mode="bilinear")
    return y.permute(0, 2, 3, 1)


def patchify(x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)


def mean_pool(x: Tensor, mask: Tensor) -> Tensor:
    total = (wide(x) * mask[..., None]).sum(1)
    return functional.normalize(total, dim=-1)


def embedding_bag(token: Tensor, starts: Tensor, table: Tensor) -> Tensor:
    return functional.embedding_bag(token, table, starts, mode="mean", include_last_offset=True)


# Losses, optimisers, sampling


def cross_entropy_smooth(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    loss = functional.cross_entropy(wide(x), target, reduction="none", label_smoothing=0.1)
    return loss, torch.logsumexp(wide(x), -1).square()


def kl_logits(x: Tensor, teacher: Tensor) -> Tensor:
    q, p = wide(x).log_softmax(-1), wide(teacher).log_softmax(-1)
    return functional.kl_div(q, p, reduction="none", log_target=True).sum(-1)


def focal_loss(x: Tensor, t: Tensor) -> Tensor:
    p = x.sigmoid()
    ce = functional.binary_cross_entropy_with_logits(x, t, reduction="none")
    miss = 1 - (p * t + (1 - p) * (1 - t))
    return ((0.25 * t + 0.75 * (1 - t)) * ce * miss * miss).sum(-1)


def adamw_step(p: Tensor, grad: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    g = wide(grad)
    m.lerp_(g, 1 - 0.9)
    v.mul_(0.999).addcmul_(g, g, value=1 - 0.999)
    root = (v.sqrt() / math.sqrt(0.001)).add_(1e-8)
    p.mul_(1 - 0.001 * 0.01).addcdiv_(m, root, value=-0.001 / 0.1)
    return p, m, v, like(p, grad, torch.bfloat16)


def ema_update(mean: Tensor, x: Tensor) -> Tensor:
    return mean.lerp_(wide(x), 1 - 0.999)


def top_p_mask(p: Tensor) -> tuple[Tensor, Tensor]:
    allowed = p.cumsum(-1) - p < 0.9
    return torch.where(allowed, p, 0), allowed.sum(-1).int()


def speculative_accept(draft: Tensor, target: Tensor, token: Tensor, u: Tensor) -> Tensor:
    at = token[..., None].long()
    p, q = target.gather(2, at)[..., 0], draft.gather(2, at)[..., 0]
    return (u * q <= p).int().cumprod(1).sum(1).int()


def speculative_residual(draft: Tensor, target: Tensor, place: Tensor) -> Tensor:
    row = torch.arange(len(place), device=place.device)
    padded = functional.pad(draft, (0, 0, 0, 1))
    more = (target[row, place.long()] - padded[row, place.long()]).clamp_min(0)
    return more / more.sum(-1, keepdim=True)


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
        mla_decode, sized("B H N E R", (32, 128, 4096, 512, 64), (4, 16, 8192, 512, 64)), sized("B H N E R", (1, 16, 1024, 512, 64))
    ),
    "attention_sinks": Contest(
        attention_sinks, sized("B H G M N D", (1, 64, 8, 2048, 2048, 64)), sized("B H G M N D", (1, 8, 1, 256, 256, 64))
    ),
    "attention_i8_cache_decode": Contest(
        attention_i8_cache_decode,
        sized("B G R N D", (16, 8, 8, 4096, 128)),
        sized("B G R N D", (1, 8, 4, 1024, 128)),
        _I8,
    ),
    "attention_differential": Contest(
        attention_differential, sized("B H M N D E", (1, 16, 2048, 2048, 64, 128)), sized("B H M N D E", (1, 2, 256, 256, 64, 128))
    ),
    "attention_window_decode": Contest(
        attention_window_decode,
        sized("B H G N D", (32, 32, 8, 4096, 128)),
        sized("B H G N D", (2, 16, 8, 1024, 128)),
        {"count": below("N", 1)},
    ),
    "attention_cross": Contest(
        attention_cross,
        sized("B M N H D", (2, 4096, 300, 16, 72), (4, 1024, 77, 16, 64)),
        sized("B M N H D", (1, 256, 77, 8, 64)),
    ),
    "retention_chunks": Contest(
        retention_chunks,
        sized("B H C D E", (4, 16, 32, 128, 128)),
        sized("B H C D E", (1, 2, 4, 64, 64)),
        {"decay": uniform(0.001, 0.05)},
    ),
    "ssd_chunk_state": Contest(
        ssd_chunk_state,
        sized("B C L H G P N", (2, 16, 256, 80, 1, 64, 128)),
        sized("B C L H G P N", (1, 2, 256, 8, 1, 64, 128)),
        _DECAYED,
    ),
    "ssd_chunk_scan": Contest(
        ssd_chunk_scan,
        sized("B C L H G P N", (2, 16, 256, 80, 1, 64, 128)),
        sized("B C L H G P N", (1, 2, 256, 4, 1, 64, 128)),
        _DECAYED,
    ),
    "ssd_state_passing": Contest(
        ssd_state_passing, sized("B C H P N", (2, 16, 80, 64, 128)), sized("B C H P N", (1, 8, 8, 64, 128)), {"a": uniform(-1, 0)}
    ),
    "selective_scan": Contest(
        selective_scan,
        sized("B D T", (4, 4096, 1024)),
        sized("B D T", (1, 512, 128)),
        {"rate": uniform(-2, -0.1)},
    ),
    "causal_conv1d_silu": Contest(causal_conv1d_silu, sized("B D T", (4, 8192, 2048)), sized("B D T", (1, 512, 512))),
    "gated_delta_step": Contest(
        gated_delta_step,
        sized("B H D E", (64, 32, 128, 128)),
        sized("B H D E", (1, 16, 128, 128)),
        {"g": uniform(-1, 0), "beta": uniform(0, 1)},
    ),
    "token_shift": Contest(token_shift, sized("B T D", (4, 2048, 4096)), sized("B T D", (1, 256, 2048))),
    "rope_2d": Contest(
        rope_2d, sized("B P A D", (8, 4096, 16, 64)), sized("B P A D", (1, 256, 16, 64)),
        {"rows": lambda shape, _: torch.randint(0, 64, shape), "columns": lambda shape, _: torch.randint(0, 64, shape)},
    ),
    "mrope": Contest(mrope, sized("T H D", (24, 64, 128), (4096, 64, 128)), sized("T H D", (64, 32, 128))),
    "rope_positions": Contest(
        rope_positions, sized("T H P", (4096, 32, 8192)), sized("T H P", (64, 32, 1024)), {"position": below("P")}
    ),
    "linear_geglu": Contest(
        linear_geglu, sized("M N K", (24, 24576, 3072), (2048, 24576, 3072)), sized("M N K", (64, 2048, 1024))
    ),
    "swiglu_clamped": Contest(swiglu_clamped, sized("T N", (4096, 5760)), sized("T N", (64, 5760))),
    "linear_relu_squared": Contest(
        lambda x, w: functional.relu(functional.linear(x, w)).square(), _LAYERS, _SMALL_LAYERS
    ),
    "linear_w8a8": Contest(
        linear_w8a8, sized("M N K", (32, 5120, 5120), (2048, 5120, 5120)), _SMALL_LAYERS,
        {"x": _codes, "w": _codes, "x_scale": uniform(0.001, 0.02), "w_scale": uniform(0.001, 0.02)},
    ),
    "lora_shrink": Contest(
        lora_shrink, sized("M K A", (64, 4096, 32)), sized("M K A", (8, 2048, 4)), {"adapter": below("A", -1)}
    ),
    "lora_expand": Contest(
        lora_expand, sized("M N A", (64, 4096, 32)), sized("M N A", (8, 2048, 4)), {"adapter": below("A", -1)}
    ),
    "linear_lora_f32": Contest(linear_lora_f32, _LAYERS, _SMALL_LAYERS),
    "logits_soft_cap": Contest(
        logits_soft_cap, sized("M N K", (8, 256000, 3584), (512, 256000, 3584)), sized("M N K", (8, 8192, 1024))
    ),
    "router_renormalised": Contest(
        router_renormalised, sized("T D", (24, 2048), (4096, 2048)), sized("T D", (64, 1024)), from_f32=True
    ),
    "router_sigmoid_bias": Contest(router_sigmoid_bias, sized("T", (24,), (4096,)), sized("T", (256,))),
    "expert_combine": Contest(
        expert_combine,
        sized("S D T", (192, 7168, 24), (16384, 7168, 2048)),
        sized("S D T", (512, 2048, 64)),
        {"row": below("S", -1), "weights": uniform(0, 1)},
    ),
    "token_permute": Contest(
        token_permute, sized("T S D", (2048, 16384, 7168)), sized("T S D", (64, 512, 2048)), {"of": below("T", -1)}
    ),
    "quantize_f8_token": Contest(quantize_f8_token, _ROWS, _FEW_ROWS),
    "quantize_f8_groups": Contest(quantize_f8_groups, sized("M G", (24, 56), (4096, 56)), sized("M G", (256, 32))),
    "quantize_f8_blocks": Contest(quantize_f8_blocks, sized("P G", (56, 128)), sized("P G", (8, 8))),
    "dequantize_f8_blocks": Contest(
        dequantize_f8_blocks, sized("N K", (7168, 16384)), sized("N K", (1024, 1000)), {"scale": uniform(0.001, 0.1)}
    ),
    "dequantize_i4_groups": Contest(
        dequantize_i4_groups,
        tuple({"N": n, "B": k // 2, "G": k // 128} for n, k in ((14336, 4096),)),
        tuple({"N": n, "B": k // 2, "G": k // 128} for n, k in ((1024, 1024),)),
        {"w": lambda shape, _: torch.randint(0, 256, shape), "zero": lambda shape, _: torch.randint(0, 16, shape)},
    ),
    "quantize_i8_token": Contest(quantize_i8_token, _ROWS, _FEW_ROWS, from_f32=True),
    "cache_write_i8": Contest(
        cache_write_i8,
        sized("T H D S", (4096, 8, 128, 65536)),
        sized("T H D S", (64, 8, 128, 1024)),
        {"slot": _slots, "cache": _codes},
        from_f32=True,
    ),
    "add_rms_norm_f8": Contest(add_rms_norm_f8, _ROWS, _FEW_ROWS),
    "rms_norm_gated": Contest(rms_norm_gated, sized("M G J", (4096, 8, 1024)), sized("M G J", (128, 8, 512))),
    "group_norm_silu": Contest(
        group_norm_silu, sized("N G C P", (2, 32, 10, 16384), (2, 32, 40, 1024)), sized("N G C P", (1, 32, 4, 1024))
    ),
    "group_norm_flat": Contest(
        group_norm_flat, sized("N G J C", (2, 32, 163840, 10), (2, 32, 40960, 40)), sized("N G J C", (1, 32, 4096, 4))
    ),
    "ada_layer_norm": Contest(ada_layer_norm, sized("B T D", (8, 1024, 1152), (2, 4096, 3072)), sized("B T D", (2, 128, 1152))),
    "gate_residual": Contest(
        lambda x, gate, branch: torch.addcmul(x, gate[:, None], branch),
        sized("B T D", (8, 1024, 1152), (2, 4096, 3072)),
        sized("B T D", (2, 128, 1152)),
    ),
    "conv3d_ndhwc": Contest(
        conv3d_ndhwc, sized("N D H W C O", (1, 8, 60, 104, 192, 192)), sized("N D H W C O", (1, 4, 16, 16, 32, 32))
    ),
    "conv_transpose1d": Contest(
        conv_transpose1d, sized("N I C O", (8, 8192, 256, 128)), sized("N I C O", (1, 512, 128, 64))
    ),
    "resize_bilinear_nhwc": Contest(
        resize_bilinear_nhwc, sized("N IH IW C", (8, 64, 64, 512)), sized("N IH IW C", (1, 48, 48, 64)),
        scalars={"height": 128, "width": 128},
    ),
    "patchify": Contest(patchify, sized("B C H W", (16, 16, 128, 128)), sized("B C H W", (2, 16, 64, 64))),
    "mean_pool": Contest(mean_pool, sized("B T D", (256, 512, 1024)), sized("B T D", (8, 128, 768))),
    "embedding_bag": Contest(
        embedding_bag,
        sized("P V D N", (4097, 1_000_000, 128, 65536)),
        sized("P V D N", (257, 10_000, 128, 4096)),
        {"token": below("V"), "starts": _starts},
    ),
    "cross_entropy_smooth": Contest(cross_entropy_smooth, _WORDS, _FEW_WORDS, {"target": below("N")}),
    "kl_logits": Contest(kl_logits, _WORDS, _FEW_WORDS),
    "focal_loss": Contest(
        focal_loss, sized("M N", (200_000, 80)), sized("M N", (2000, 80)), {"target": uniform(0, 1)}
    ),
    "adamw_step": Contest(
        adamw_step, sized("N", (50_000_000,)), sized("N", (1_000_000,)), {"v": uniform(0, 1)}
    ),
    "ema_update": Contest(ema_update, sized("N", (50_000_000,)), sized("N", (1_000_000,))),
    "grad_norm": Contest(
        lambda x: torch.linalg.vector_norm(x, dtype=wide(x[:0]).dtype), sized("N", (50_000_000,)), sized("N", (1_000_000,))
    ),
    "top_p_mask": Contest(top_p_mask, sized("M N", (64, 151936)), sized("M N", (8, 32064)), {"p": _falling}, from_f32=True),
    "speculative_accept": Contest(
        speculative_accept,
        sized("B K V", (64, 5, 151936)),
        sized("B K V", (8, 5, 32064)),
        {"draft": _shares, "target": _shares, "token": below("V"), "u": uniform(0, 1)},
    ),
    "speculative_residual": Contest(
        speculative_residual,
        sized("B K T V", (64, 5, 6, 151936)),
        sized("B K T V", (8, 5, 6, 32064)),
        {"draft": _shares, "target": _shares, "place": lambda shape, sizes: torch.randint(0, sizes["T"], shape)},
    ),
}
