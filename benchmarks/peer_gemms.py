"""Eight GEMMs that a peer has figures for, as specs that extend `specs/gemm.wave.yaml`: the graph is that of the file.

The peer is wave-lang 3.9.1 and its main branch of 2026-04-27, compiled for gfx942 on a machine without a GPU; of each
figure the better one of the two is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wavespec.schema import KernelSpec, loads, spec_for_target

_SPECS = Path(__file__).parents[1] / "specs"
_SIDE = 4096
F16_16, F16_32 = "f32_16x16x16_f16", "f32_32x32x8_f16"
Sizes = Mapping[str, Mapping[str, int]]
FIXED: Sizes = {dim: {"value": _SIDE} for dim in "MNK"}
PROMISED: Sizes = {}
"""As in the file: any M and N, K a multiple of 8."""
ANY: Sizes = {"K": {"multiple_of": 1}}


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """What the peer's code consists of; `loop`, `vector` and `waits` are instructions of its main loop."""

    registers: int
    shared_bytes: int
    loop: int
    matrix: int
    vector: int
    waits: int
    barriers: int
    """In the whole kernel."""


@dataclass(frozen=True, slots=True)
class PeerGemm:
    """One case: tile and waves of a workgroup, matrix instruction, schedule, and the peer's figures.

    ``seconds``: the peer's passes and emission of MLIR, without the compiler behind it.
    """

    name: str
    tile: tuple[int, int, int]
    waves: tuple[int, int]
    instruction: str
    schedule: str
    seconds: float
    figures: PeerFigures | None

    def text(self, target: str) -> str:
        """The spec for any sizes."""
        m, n, k = self.tile
        return f"""apiVersion: wavespec/v1
kind: Kernel
extends: gemm.wave.yaml
targets:
  {target}:
    params: {{BLOCK_M: {m}, BLOCK_N: {n}, BLOCK_K: {k}}}
    constraints:
      - {{workgroup: M, tile: BLOCK_M, axis: 0}}
      - {{workgroup: N, tile: BLOCK_N, axis: 1}}
      - {{tiling: K, tile: BLOCK_K}}
      - {{wave: M, tile: BLOCK_M / {self.waves[0]}}}
      - {{wave: N, tile: BLOCK_N / {self.waves[1]}}}
      - {{hardware: {{mma: {self.instruction}}}}}
    schedule: {self.schedule}
"""

    def spec(self, target: str = "gfx942", sizes: Sizes = FIXED) -> KernelSpec:
        """The spec for one target; ``sizes``: what differs of the dims."""
        spec = spec_for_target(loads(self.text(target), f"{self.name}.wave.yaml", _SPECS), target)
        dims = {name: dim.model_copy(update=sizes.get(name, {})) for name, dim in spec.dims.items()}
        return spec.model_copy(update={"dims": dims})


def _unrolled(steps: int) -> str:
    return f"{{stages: 1, loops: {{k_loop: {{unroll: {steps}}}}}}}"


_PREFETCH = "{stages: 2, auto: prefetch}"
_MODULO = "{stages: 1, auto: modulo, loops: {k_loop: {unroll: 2}}}"
PEER_GEMMS = (
    PeerGemm("gemm_64x64x32_m16_none", (64, 64, 32), (2, 2), F16_16, _unrolled(4), 0.32,
             PeerFigures(52, 9216, 97, 32, 4, 18, 8)),
    PeerGemm("gemm_128x128x32_m16_none", (128, 128, 32), (2, 2), F16_16, _unrolled(2), 0.86,
             PeerFigures(120, 18432, 128, 64, 8, 16, 4)),
    PeerGemm("gemm_128x128x32_m16_prefetch", (128, 128, 32), (2, 2), F16_16, _PREFETCH, 1.22,
             PeerFigures(128, 18432, 69, 32, 6, 7, 3)),
    PeerGemm("gemm_128x128x32_m16_modulo", (128, 128, 32), (2, 2), F16_16, _MODULO, 1.22,
             PeerFigures(140, 18432, 127, 64, 6, 14, 7)),
    PeerGemm("gemm_128x128x64_m16_none", (128, 128, 64), (2, 2), F16_16, "{stages: 1}", 1.19,
             PeerFigures(126, 34816, 140, 64, 14, 17, 2)),
    PeerGemm("gemm_128x128x64_m32_prefetch", (128, 128, 64), (2, 2), F16_32, _PREFETCH, 1.12, None),
    PeerGemm("pingpong_128x256x64_m16", (128, 256, 64), (2, 4), F16_16, "{waves: {order: ping_pong}}", 1.85,
             PeerFigures(192, 52224, 135, 64, 10, 9, 7)),
    PeerGemm("reordered_128x256x64_m16_bufops", (128, 256, 64), (2, 4), F16_16,
             "{stages: 2, auto: prefetch, workgroups: {group: 8}}", 6.62,
             PeerFigures(192, 52224, 131, 64, 6, 13, 7)),
)  # fmt: skip
