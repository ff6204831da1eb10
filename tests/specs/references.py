"""What each spec of this folder means, in plain torch: called with f64 it is the truth, with the types of a call torch's own way.

Each function takes the inputs of its kernel in their order, and its scalars by name, and gives the outputs.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from wavespec.ops.philox import philox_reference

_EXPERTS, _BLOCK = 64, 16


def chances(seed: int, rows: int, columns: int) -> Tensor:
    """The numbers of ``random(seed, M, N)``: groups of four along a row, which the published algorithm counts."""
    groups = torch.arange(rows)[:, None] * -(-columns // 4) + torch.arange(-(-columns // 4))
    words = torch.stack(philox_reference(groups, torch.tensor(seed)), -1).flatten(1)[:, :columns]
    return (words >> 8).double() / 2**24


def matmul_blocked(x: Tensor, w: Tensor) -> list[Tensor]:
    return [(x @ w.transpose(1, 2).flatten(2).flatten(0, 1).mT).to(torch.promote_types(x.dtype, torch.float32))]


def attention_capped_window(q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> list[Tensor]:
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = 30 * torch.tanh(q @ k.mT * scale / 30)
    m, n = scores.shape[-2:]
    behind = torch.arange(m)[:, None] + n - m - torch.arange(n)
    return [scores.masked_fill((behind < 0) | (behind >= 128), -torch.inf).softmax(-1) @ v]


def attention_evoformer(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, pair: Tensor, *, scale: float) -> list[Tensor]:
    scores = q @ k.mT * scale + mask[:, :, None, None] + pair[:, None]
    return [scores.softmax(-1) @ v]


def attention_latent_decode(q: Tensor, cache: Tensor, count: Tensor, *, scale: float) -> list[Tensor]:
    latent = min(q.shape[-1], 512)
    rows = [
        (one @ keys[:n].T * scale).softmax(-1) @ keys[:n, :latent]
        for one, keys, n in zip(q, cache, map(int, count), strict=True)
    ]
    return [torch.stack(rows)]


def attention_talking_heads(q: Tensor, k: Tensor, v: Tensor, mix: Tensor) -> list[Tensor]:
    told = (mix[:, :, None, None] * (q @ k.mT)[:, None]).sum(2)
    return [told.softmax(-1).to(v.dtype) @ v]


def add_norm_quantize(residual: Tensor, x: Tensor, weight: Tensor, *, eps: float) -> list[Tensor]:
    """`y` is not rounded: it is compared by itself."""
    added = (residual.double() + x.double()).to(torch.bfloat16)
    wide = added.to(torch.float64 if x.dtype is torch.float64 else torch.float32)
    normed = F.rms_norm(wide, wide.shape[-1:], weight.to(wide.dtype), eps)
    scale = normed.abs().amax(-1) / 127
    return [added, normed / torch.where(scale > 0, scale, 1)[:, None], scale]


def causal_conv1d(x: Tensor, w: Tensor, bias: Tensor) -> list[Tensor]:
    padded = F.pad(x.mT, (w.shape[-1] - 1, 0))
    return [F.silu(F.conv1d(padded, w[:, None], bias, groups=len(w))).mT]


def gated_linear_attention_steps(q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor) -> list[Tensor]:
    state, found = start, list[Tensor]()
    for t in range(q.shape[2]):
        state = g[:, :, t, None, None].exp() * state + k[:, :, t, :, None] * v[:, :, t, None]
        found.append((q[:, :, t, :, None] * state).sum(-2))
    return [torch.stack(found, 2), state]


def gated_linear_attention_chunks(q: Tensor, k: Tensor, v: Tensor, g: Tensor, start: Tensor) -> list[Tensor]:
    """One chunk, with products of the type of the inputs."""
    since = g.cumsum(-1)
    decays = (since[..., None] - since[..., None, :]).exp().tril()
    near = ((q @ k.mT).to(g.dtype) * decays).to(v.dtype) @ v
    far = (q @ start.to(q.dtype)).to(g.dtype) * since.exp()[..., None]
    faded = (k * (since[..., -1:] - since).exp()[..., None]).to(k.dtype)
    return [(near.to(g.dtype) + far).to(v.dtype), start * since[..., -1, None, None].exp() + (faded.mT @ v).to(g.dtype)]


def gru(p: Tensor, u: Tensor, c: Tensor, start: Tensor) -> list[Tensor]:
    state, found = start, list[Tensor]()
    for t in range(p.shape[1]):
        hidden = torch.einsum("bk,ghk->gbh", state, u) + c[:, None]
        r, z = ((p[:, t, part] + hidden[part]).sigmoid() for part in (0, 1))
        new = (p[:, t, 2] + r * hidden[2]).tanh()
        state = new + z * (state - new)
        found.append(state)
    return [torch.stack(found, 1), state]


def rg_lru(x: Tensor, r: Tensor, i: Tensor, decay: Tensor, start: Tensor) -> list[Tensor]:
    state, found = start, list[Tensor]()
    for t in range(x.shape[1]):
        log_a = -8 * F.softplus(decay) * r[:, t].sigmoid()
        state = log_a.exp() * state + (-(2 * log_a).expm1()).sqrt() * i[:, t].sigmoid() * x[:, t]
        found.append(state)
    return [torch.stack(found, 1), state]


def mamba2_steps(
    x: Tensor, raw: Tensor, bias: Tensor, rate: Tensor, b: Tensor, c: Tensor, skip: Tensor, start: Tensor
) -> list[Tensor]:
    state, found, dt = start, list[Tensor](), F.softplus(raw + bias)
    for t in range(x.shape[1]):
        step = dt[:, t, :, None, None]
        state = (step * rate[:, None, None]).exp() * state + step * x[:, t, ..., None] * b[:, t, None, None]
        found.append((state * c[:, t, None, None]).sum(-1) + skip[:, None] * x[:, t])
    return [torch.stack(found, 1), state]


def mamba2_chunks(
    x: Tensor, raw: Tensor, bias: Tensor, rate: Tensor, b: Tensor, c: Tensor, skip: Tensor, start: Tensor
) -> list[Tensor]:
    """One chunk, with products of the type of the inputs."""
    dt = F.softplus(raw + bias).mT
    since = (dt * rate[:, None]).cumsum(-1)
    decays = (since[..., None] - since[..., None, :]).exp().tril()
    products = (c @ b.mT).to(dt.dtype)[:, None]
    values = x.transpose(1, 2)
    near = (products * dt[..., None, :] * decays).to(x.dtype) @ values
    far = (c[:, None] @ start.to(c.dtype).mT).to(dt.dtype) * since.exp()[..., None]
    faded = (values * (dt * (since[..., -1:] - since).exp())[..., None]).to(x.dtype)
    state = start * since[..., -1, None, None].exp() + (faded.mT @ b[:, None]).to(dt.dtype)
    return [(near.to(dt.dtype) + far + skip[:, None, None] * values).to(x.dtype).transpose(1, 2), state]


def rms_norm_backward(dy: Tensor, x: Tensor, weight: Tensor, *, eps: float) -> list[Tensor]:
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.rms_norm(leaf, leaf.shape[-1:], weight, eps), leaf, dy)
    return [slope, (x.square().mean(-1) + eps).rsqrt()]


def rms_norm_backward_weight(dy: Tensor, x: Tensor, rate: Tensor) -> list[Tensor]:
    return [(dy * x * rate[:, None]).sum(0)]


def nearest_code(x: Tensor, codes: Tensor) -> list[Tensor]:
    scores = x.double() @ codes.double().T
    sums = x @ codes.T if x.dtype == torch.double else x.float() @ codes.float().T
    return [scores.argmax(-1), sums.amax(-1)]


def covariance(x: Tensor) -> list[Tensor]:
    centred = x - x.mean(0)
    return [centred.T @ centred / (x.shape[0] - 1)]


def kronecker(x: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.kron(x, y)]


def linear_lora(x: Tensor, w: Tensor, down: Tensor, up: Tensor, *, alpha: float) -> list[Tensor]:
    return [x @ w.T + (alpha * (x @ down.T)) @ up.T]


def max_pool2d(x: Tensor) -> list[Tensor]:
    return [F.max_pool2d(x, 3, 2, 1)]


def conv_transpose2d(x: Tensor, w: Tensor) -> list[Tensor]:
    return [F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(3, 0, 1, 2), stride=2, padding=1).permute(0, 2, 3, 1)]


def conv_transpose2d_taps(x: Tensor, w: Tensor) -> list[Tensor]:
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 0, 1, 2)
    return [F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1).permute(0, 2, 3, 1)]


def upsample_bilinear2d(x: Tensor, *, height: int, width: int) -> list[Tensor]:
    return [F.interpolate(x, (height, width), mode="bilinear")]


def cholesky16(a: Tensor) -> list[Tensor]:
    return [cast(Tensor, torch.linalg.cholesky(a))]  # pyright: ignore[reportUnknownMemberType]


def triangular_solve16(lower: Tensor, b: Tensor) -> list[Tensor]:
    return [cast(Tensor, torch.linalg.solve_triangular(lower, b, upper=False))]  # pyright: ignore[reportUnknownMemberType]


def route_experts(logits: Tensor) -> list[Tensor]:
    top = logits.softmax(-1).topk(2)
    return [top.values / top.values.sum(-1, keepdim=True), top.indices.int()]


def route_tokens(x: Tensor, router: Tensor) -> list[Tensor]:
    logits = x @ router.T if x.dtype == torch.double else x.float() @ router.float().T
    top = logits.softmax(-1).topk(8)
    return [top.values, top.indices.int()]


def align_experts(experts: Tensor, places: Tensor) -> list[Tensor]:
    rest, blocks, end = places.clone(), list[int](), 0
    for expert in range(_EXPERTS):
        (mine,) = (experts == expert).nonzero(as_tuple=True)
        rest[end : end + len(mine)] = mine.int()
        blocks += [expert] * -(-len(mine) // _BLOCK)
        end = len(blocks) * _BLOCK
    blocks += [_EXPERTS] * (-(-(len(experts) + _EXPERTS * (_BLOCK - 1)) // _BLOCK) - len(blocks))
    return [rest, torch.tensor(blocks, dtype=torch.int32), torch.tensor(end, dtype=torch.int32)]


def sort_rows(x: Tensor) -> list[Tensor]:
    values, places = x.sort(stable=True)
    return [values, places.int()]


def cache_write(keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slot: Tensor) -> list[Tensor]:
    found = [keys.clone(), values.clone()]
    for cache, new in zip(found, (key, value), strict=True):
        for row, place in zip(new, map(int, slot), strict=True):
            if place >= 0:
                cache[place // keys.shape[1], place % keys.shape[1]] = row
    return found


def sample_top_p(x: Tensor, *, seed: int, temperature: float, top_p: float, min_p: float) -> list[Tensor]:
    """By sorting: of the likeliest tokens all in front of whom less than `top_p` is."""
    shares = (x / temperature).softmax(-1)
    ordered = shares.sort(-1, descending=True).values
    needed = ((ordered.cumsum(-1) - ordered) < top_p).sum(-1, keepdim=True).clamp(1)
    least = torch.maximum(ordered.gather(-1, needed - 1), ordered[:, :1] * min_p)
    allowed = shares >= least
    drawn = shares.log() - (-chances(seed, *x.shape).log()).log()
    return [drawn.masked_fill(~allowed, -torch.inf).argmax(-1), allowed.sum(-1).int()]


def fused_chain(
    x: Tensor, bias: Tensor, residual: Tensor, weight: Tensor, offset: Tensor, *, seed: int, p: float, eps: float
) -> list[Tensor]:
    stays = chances(seed, *x.shape) >= p
    joined = residual + torch.where(stays, F.gelu(x + bias) / (1 - p), 0)
    return [joined, F.layer_norm(joined, joined.shape[-1:], weight, offset, eps)]


def row_flags(x: Tensor) -> list[Tensor]:
    return [x.any(1), x.all(1), x.sum(1).int()]


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    return [q.relu() @ (k.mT @ v)]
