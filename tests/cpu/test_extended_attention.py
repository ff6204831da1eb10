"""The kernel that the language page makes of another in three lines computes what it says."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import wavespec as ws
from wavespec.schema import loads

ROOT = Path(__file__).parents[2]


def test_capped_window_over_groups_is_computed_as_torch_does() -> None:
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(extends: attention_gqa.wave.yaml\n.*?)```", page, re.DOTALL)
    text = f"apiVersion: wavespec/v1\nkind: Kernel\n{block}"
    spec = loads(text, "capped.wave.yaml", ROOT / "specs")
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(1, heads, rows, 64, generator=generator).bfloat16()
        for heads, rows in ((4, 150), (2, 210), (2, 210))
    )
    scores = (q.double() @ k.double().repeat_interleave(2, 1).mT) / 8
    capped = 30 * torch.tanh(scores / 30)
    behind = torch.arange(150)[:, None] + 60 - torch.arange(210)
    weights = capped.masked_fill((behind < 0) | (behind >= 128), -torch.inf).softmax(-1)
    expected = weights @ v.double().repeat_interleave(2, 1)
    torch.testing.assert_close(ws.reference(spec, q, k, v).double(), expected, atol=1e-2, rtol=1e-2)
    error = (ws.compile(spec)(q, k, v).double() - expected).abs().max()
    in_torch = weights.bfloat16() @ v.repeat_interleave(2, 1)
    assert error <= 2 * (in_torch.double() - expected).abs().max()
