"""Kernels that read what they change in place, as specs, their inputs, and what torch makes of these in f64."""

from __future__ import annotations

import torch

HEADER = "apiVersion: wavespec/v1\nkind: Kernel\n"
ADAM = f"""{HEADER}name: adam
doc: one fused step of Adam, in place
dims: {{N: {{}}}}
tensors:
  gradient: {{shape: [N], dtype: f32}}
  weight: {{shape: [N], dtype: f32, role: inout}}
  mean: {{shape: [N], dtype: f32, role: inout}}
  square: {{shape: [N], dtype: f32, role: inout}}
constraints:
  - {{workgroup: N, tile: 1024, axis: 0}}
graph:
  - g: {{read: gradient}}
  - w: {{read: weight}}
  - m: {{read: mean}}
  - v: {{read: square}}
  - m_new: 0.9 * m + 0.1 * g
  - v_new: 0.999 * v + 0.001 * g * g
  - w_new: w - 0.001 * (m_new / 0.19) / (sqrt(v_new / 0.001999) + 1e-8)
  - {{write: m_new, to: mean}}
  - {{write: v_new, to: square}}
  - {{write: w_new, to: weight}}
"""
"""The second step, whose corrections are 1 - 0.9² and 1 - 0.999²."""
NORM = f"""{HEADER}name: add_rms_norm
doc: x = x + residual, in place, and y = x / rms(x) * weight
dims: {{M: {{}}, N: {{value: 256}}}}
tensors:
  residual: {{shape: [M, N], dtype: bf16}}
  weight: {{shape: [N], dtype: bf16}}
  x: {{shape: [M, N], dtype: bf16, role: inout}}
  y: {{shape: [M, N], dtype: bf16, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{wave: M, tile: 2}}
graph:
  - before: {{read: x}}
  - more: {{read: residual}}
  - total: f32(before) + f32(more)
  - small: bf16(total)
  - {{write: small, to: x}}
  - factor: {{read: weight}}
  - squares: total * total
  - mean_square: {{mean: squares, dim: N}}
  - scaled: total * rsqrt(mean_square + 0.000001) * f32(factor)
  - result: bf16(scaled)
  - {{write: result, to: y}}
"""
SCALED = f"""{HEADER}name: scaled_sum
doc: C = 2 C + A · Bᵀ, in place
dims: {{M: {{}}, N: {{}}, K: {{}}}}
tensors:
  a: {{shape: [M, K], dtype: bf16, space: shared}}
  b: {{shape: [N, K], dtype: bf16, space: shared}}
  c: {{shape: [M, N], dtype: f32, role: inout}}
constraints:
  - {{workgroup: M, tile: 32, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{tiling: K, tile: 32}}
  - {{wave: M, tile: 16}}
  - {{wave: N, tile: 32}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - sums:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - before: {{read: c}}
  - total: 2 * before + sums.acc
  - {{write: total, to: c}}
"""
WALKED = f"""{HEADER}name: walked_sum
doc: x = x + residual, in place, and y = the sum of the squares of a row
dims: {{M: {{}}, N: {{}}}}
tensors:
  residual: {{shape: [M, N], dtype: f32}}
  x: {{shape: [M, N], dtype: f32, role: inout}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{wave: M, tile: 1}}
  - {{tiling: N, tile: 256}}
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - steps:
      iterate: N
      carry: {{total: zero}}
      body:
        - before: {{read: x}}
        - more: {{read: residual}}
        - changed: before + more
        - {{write: changed, to: x}}
        - squares: changed * changed
        - total: {{sum: squares, dim: N, init: total}}
  - {{write: steps.total, to: y}}
"""
NORM_OF_LONG_ROWS = f"""{HEADER}name: add_rms_norm_of_long_rows
doc: x = x + residual, in place, and y = x / rms(x) * weight, of rows that no lanes hold
dims: {{M: {{}}, N: {{}}}}
tensors:
  residual: {{shape: [M, N], dtype: bf16}}
  weight: {{shape: [N], dtype: bf16}}
  x: {{shape: [M, N], dtype: bf16, role: inout}}
  y: {{shape: [M, N], dtype: bf16, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{wave: M, tile: 2}}
  - {{tiling: N, tile: 256}}
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - sums:
      iterate: N
      carry: {{total: zero}}
      body:
        - first: {{read: x}}
        - more: {{read: residual}}
        - part: f32(first) + f32(more)
        - squares: part * part
        - total: {{sum: squares, dim: N, init: total}}
  - factor: rsqrt(sums.total / f32(size(N)) + 0.000001)
  - results:
      iterate: N
      body:
        - again: {{read: x}}
        - added: {{read: residual}}
        - scale: {{read: weight}}
        - whole: f32(again) + f32(added)
        - small: bf16(whole)
        - {{write: small, to: x}}
        - result: "bf16(whole * factor * f32(scale))"
        - {{write: result, to: y}}
"""
"""The first loop reads what the second one changes."""
SPECS = {"long_norm": NORM_OF_LONG_ROWS, "walked": WALKED, "adam": ADAM, "norm": NORM, "scaled": SCALED}
SIZES = {
    "long_norm": {"M": 9, "N": 601},
    "walked": {"M": 7, "N": 601},
    "adam": {"N": 2500},
    "norm": {"M": 9, "N": 256},
    "scaled": {"M": 37, "N": 70, "K": 40},
}


def inputs(name: str) -> list[torch.Tensor]:
    """In the order of the call."""
    random, sizes = torch.Generator().manual_seed(0), SIZES[name]

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    if name == "adam":
        n = sizes["N"]
        return [made(n), made(n), made(n), made(n).square()]
    if name == "walked":
        return [torch.randint(-3, 4, (sizes["M"], sizes["N"]), generator=random).float() for _ in range(2)]
    if name in ("norm", "long_norm"):
        m, n = sizes["M"], sizes["N"]
        return [made(m, n).bfloat16(), made(n).bfloat16(), made(m, n).bfloat16()]
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    return [
        *(torch.randint(-3, 4, (rows, k), generator=random).bfloat16() for rows in (m, n)),
        torch.randint(-9, 10, (m, n), generator=random).float(),
    ]


def expected(name: str, given: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of the inputs as they were before the call."""
    if name == "adam":
        g, w, m, v = (x.double() for x in given)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return {"mean": m, "square": v, "weight": w - 0.001 * (m / 0.19) / ((v / 0.001999).sqrt() + 1e-8)}
    if name == "walked":
        total = given[0].double() + given[1].double()
        return {"x": total, "y": total.square().sum(1)}
    if name in ("norm", "long_norm"):
        residual, weight, x = (one.double() for one in given)
        total = x + residual
        return {"x": total, "y": total * (total.square().mean(1, True) + 1e-6).rsqrt() * weight}
    a, b, c = (x.double() for x in given)
    return {"c": 2 * c + a @ b.T}


def check(name: str, found: dict[str, torch.Tensor], given: list[torch.Tensor]) -> None:
    """As near as the type of a result keeps it; exact of whole numbers."""
    for tensor, right in expected(name, given).items():
        digits = (
            {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-21}[found[tensor].dtype]
            if name in ("adam", "norm", "long_norm")
            else 0.0
        )
        torch.testing.assert_close(found[tensor].double(), right, rtol=digits, atol=digits / 8, msg=tensor)
