"""Weights of channels, found by dividing a place in a row, are right wherever channels begin."""

from __future__ import annotations

import torch

import wavespec as ws

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: scale_channels
dims: {B: {}, C: {}, S: {}, K: {}}
tensors:
  x: {shape: [B, K], dtype: f32}
  spots: {shape: [S], dtype: f32}
  weight: {shape: [C], dtype: f32}
  y: {shape: [B, K], dtype: f32, role: output}
graph:
  - results:
      iterate: K
      carry: {}
      body:
        - part: {read: x}
        - factor: {read: weight, dims: [B, K], at: {C: K // size(S)}}
        - result: part * factor
        - {write: result, to: y}
"""


def test_every_size_of_a_channel() -> None:
    """Channels that begin inside of a step, several of them in one, one of many steps, and a last one that is cut."""
    kernel = ws.compile(ws.loads(SPEC), "cpu")
    for spots, count in ((64, 640), (1000, 3000), (100, 1001), (3, 130), (1, 65), (5000, 4096)):
        channels = -(-count // spots)
        x, weight = torch.randn(3, count), torch.randn(channels)
        expected = x * weight.repeat_interleave(spots)[:count]
        assert torch.equal(kernel(x, torch.zeros(spots), weight), expected)
