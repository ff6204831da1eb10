"""What users of torch write where the specs of ``benchmarks/specs/models`` have a kernel, without a compiler.

Functions take what kernels take, in their order, and return what those write: what is changed in place, then results.
Of inputs in f64 they compute in f64 to the end, without rounding to smaller types.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

F8 = torch.float8_e4m3fn


def wide(x: Tensor) -> Tensor:
    """In f32, of f64 in f64."""
    return x if x.dtype is torch.float64 else x.float()


def like(y: Tensor, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """In the type of ``x``, or ``dtype``; of f64 in f64."""
    return y if y.dtype is torch.float64 else y.to(dtype or x.dtype)


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
    pairs = ((k, k_scale), (v, v_scale))
    keys, values = (like(codes.to(scale.dtype) * scale[..., None], q) for codes, scale in pairs)
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
    b, h, c, length, d = q.shape
    e = v.shape[-1]
    step = torch.arange(length, device=q.device, dtype=decay.dtype)
    rate = decay[:, None]
    behind = step[:, None] - step
    mask = torch.exp(-rate[..., None] * behind).tril()
    weights = like(wide(q @ k.mT) * mask[:, None], q)
    near = weights @ v
    parts = like(wide(k) * torch.exp(-rate * (length - 1 - step))[:, None, :, None], q).mT @ v
    state = torch.zeros(b, h, d, e, device=q.device, dtype=decay.dtype)
    fade = torch.exp(-decay * length)[:, None, None]
    known: list[Tensor] = []
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


def ssd_chunk_scan(c: Tensor, b: Tensor, x: Tensor, dt: Tensor, a: Tensor, state: Tensor, skip: Tensor) -> Tensor:
    shared = x.shape[3] // b.shape[3]
    products = wide(torch.einsum("bclgn,bcugn->bgclu", c, b)).repeat_interleave(shared, 1)
    weights = (products * torch.exp(a[..., :, None] - a[..., None, :]) * dt[..., None, :]).tril()
    near = torch.einsum("bhclu,bcuhp->bclhp", like(weights, x), x)
    far = torch.einsum("bclhn,bchpn->bclhp", c.repeat_interleave(shared, 3), state)
    grown = torch.exp(a).permute(0, 2, 3, 1)[..., None]
    return like(wide(near) + wide(far) * grown + skip[:, None] * wide(x), x)


def ssd_state_passing(state: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    known, passed = torch.zeros_like(state[:, 0]), list[Tensor]()
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
    h, found = torch.zeros_like(fade[:, 0]), list[Tensor]()
    for t in range(x.shape[1]):
        h = fade[:, t] * h + more[:, t]
        found.append((h * wide(c)[:, t, None]).sum(-1))
    return like((torch.stack(found, 1) + skip * wide(x)) * functional.silu(wide(z)), x)


def causal_conv1d_silu(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return functional.silu(functional.conv1d(x, w[:, None], bias, padding=3, groups=x.shape[1])[..., : x.shape[2]])


def gated_delta_step(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
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
    parts: list[Tensor] = []
    for half, places in zip(wide(x).chunk(2, -1), (rows, columns), strict=True):
        angle = (places[:, None] * frequency).repeat(1, 2)[:, None]
        parts.append(half * angle.cos() + _half_turned(half) * angle.sin())
    return like(torch.cat(parts, -1), x)


def mrope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    c, s = _of_sections(cos), _of_sections(sin)
    return x * c + _half_turned(x) * s


def _of_sections(table: Tensor) -> Tensor:
    """Sections of 16, 24 and 24 of each half, by the time, the row and the column."""
    ends = (0, 16, 40, 64, 80, 104, 128)
    parts = [table[i % 3, :, start:end] for i, (start, end) in enumerate(pairwise(ends))]
    return torch.cat(parts, -1)[:, None]


def rope_positions(x: Tensor, position: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    c, s = cos[position][:, None], sin[position][:, None]
    even, odd = wide(x)[..., ::2], wide(x)[..., 1::2]
    return like(torch.stack([even * c - odd * s, odd * c + even * s], -1).flatten(-2), x)


# Products


def linear_relu_squared(x: Tensor, w: Tensor) -> Tensor:
    return functional.relu(functional.linear(x, w)).square()


def linear_geglu(x: Tensor, w: Tensor) -> Tensor:
    gate, up = functional.linear(x, w).chunk(2, -1)
    return functional.gelu(gate, approximate="tanh") * up


def swiglu_clamped(x: Tensor) -> Tensor:
    gate, up = wide(x)[..., ::2].clamp(max=7), wide(x)[..., 1::2].clamp(-7, 7)
    return like(gate * torch.sigmoid(1.702 * gate) * (up + 1), x)


def linear_w8a8(x: Tensor, w: Tensor, x_scale: Tensor, w_scale: Tensor, bias: Tensor) -> Tensor:
    is_exact = x_scale.dtype is torch.float64
    integers: Any = torch._int_mm  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    product = x.double() @ w.double().T if is_exact else integers(x, w.T).float()
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
    in_f32 = x.is_cuda and x.dtype is torch.bfloat16
    product = torch.mm(x, w.T, out_dtype=torch.float32) if in_f32 else wide(x) @ wide(w).T
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
    codes = torch.stack([w & 15, w >> 4], -1).view(len(w), zero.shape[1], 128)
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


def gate_residual(x: Tensor, gate: Tensor, branch: Tensor) -> Tensor:
    return torch.addcmul(x, gate[:, None], branch)


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


def grad_norm(x: Tensor) -> Tensor:
    norm: Any = torch.linalg.vector_norm  # pyright: ignore[reportUnknownMemberType]
    return norm(x, dtype=wide(x[:0]).dtype)


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
