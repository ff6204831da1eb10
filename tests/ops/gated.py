"""A gated linear recurrence, of the kind of RG-LRU, as a spec, and what a loop of f64 computes of the same inputs."""

from __future__ import annotations

import torch

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: rg_lru
doc: h[t] = a[t] h[t-1] + sqrt(1 - a[t]²) sigmoid(input_gate[t]) x[t], with a[t] = exp(-8 softplus(decay) sigmoid(gate[t]))
dims: {B: {}, T: {}, D: {}}
tensors:
  x: {shape: [B, T, D], dtype: bf16}
  gate: {shape: [B, T, D], dtype: bf16}
  input_gate: {shape: [B, T, D], dtype: bf16}
  decay: {shape: [D], dtype: f32}
  before: {shape: [B, D], dtype: f32}
  y: {shape: [B, T, D], dtype: bf16, role: output}
  after: {shape: [B, D], dtype: f32, role: output}
constraints:
  - {workgroup: D, tile: 64, axis: 0}
  - {workgroup: B, tile: 1, axis: 1}
  - {tiling: T, tile: 16}
graph:
  - rate: {read: decay}
  - fall: "-8 * softplus(rate)"
  - one: {register: [B, D], dtype: f32, value: 1}
  - start: {read: before}
  - steps:
      iterate: T
      carry: {factor: one, state: start}
      body:
        - tile: {read: x}
        - forget: {read: gate}
        - let_in: {read: input_gate}
        - log_a: fall * sigmoid(f32(forget))
        - a: exp(log_a)
        - added: sqrt(-expm1(2 * log_a)) * sigmoid(f32(let_in)) * f32(tile)
        - run:
            scan: T
            carry: {p: a, h: added}
            identity: {p: 1, h: 0}
            init: {p: factor, h: state}
            last: {p: product, h: state}
            combine:
              - h: a * h + added
              - p: a * p
        - factor: run.product
        - state: run.state
        - small: bf16(run.h)
        - {write: small, to: y}
  - {write: steps.state, to: after}
"""


def inputs(batch: int, steps: int, width: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    wide = [torch.randn(batch, steps, width, generator=random).bfloat16() for _ in range(3)]
    return [*wide, torch.randn(width, generator=random) - 4, torch.randn(batch, width, generator=random)]


def by_a_loop(
    x: torch.Tensor, gate: torch.Tensor, input_gate: torch.Tensor, decay: torch.Tensor, before: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """In f64: the state at every step, and the last one."""
    log_a = -8 * torch.nn.functional.softplus(decay.double()) * gate.double().sigmoid()
    added = (1 - (2 * log_a).exp()).sqrt() * input_gate.double().sigmoid() * x.double()
    states, state = list[torch.Tensor](), before.double()
    for at in range(x.shape[1]):
        state = log_a[:, at].exp() * state + added[:, at]
        states.append(state)
    return torch.stack(states, 1) if states else x.double(), state


def check(found: tuple[torch.Tensor, torch.Tensor], given: list[torch.Tensor]) -> None:
    """States are as near as f32 keeps them over the steps; results are those, rounded once."""
    y, after = by_a_loop(*given)
    assert (found[1].double() - after).abs().max() <= 2.0**-20 * max(1.0, after.abs().max().item())
    torch.testing.assert_close(found[0].double(), y, rtol=2.0**-8, atol=2.0**-20)
