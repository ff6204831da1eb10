"""Arguments of a command in, what a user sees of it out: exit code, stdout, stderr."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wavespec.cli import main

GEMM = str(Path(__file__).parents[2] / "specs" / "gemm.wave.yaml")

SMALL = """\
apiVersion: wavespec/v1
kind: Kernel
name: small
dims: {M: {}, N: {}, K: {multiple_of: 8}}
params: {BLOCK_M: 32}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: K, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - loop:
      iterate: K
      carry: {acc: zero}
      body:
        - x: {read: a}
        - y: {read: b}
        - acc: {mma: [x, y, acc]}
  - {write: loop.acc, to: c}
targets:
  cpu: {params: {BLOCK_M: 24}}
workloads:
  - {M: 40, N: 24, K: 64}
"""
"""A kernel that compiles in a moment for every target."""


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


class Command:
    """Runs commands in this process, without colors and with a cache of their own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.err
        return Outcome(code, captured.out, captured.err)
