"""Small GEMMs whose waves have roles: what the passes for machines with asynchronous matrix units are tested with."""

from __future__ import annotations

from tests.lower.gemms import Gemm
from wavespec.schema import KernelSpec, loads

ROWS_OF_8 = ("", "multiple_of: 8", "multiple_of: 8, max: 2048")  # sums so short that they go on from step to step
TOGETHER = "waves: {producers: 1}"
PERSISTENT = f"{TOGETHER}, workgroups: {{group: 2, persistent: true}}"
CLUSTERS = f"{TOGETHER}, workgroups: {{cluster: 2, persistent: true}}"
PING_PONG = "waves: {producers: 1, order: ping_pong}, workgroups: {persistent: true}"


def hopper_gemm(
    *,
    dtype: str = "f16",
    tile: tuple[int, int, int] = (128, 64, 64),
    wave: tuple[int | None, int | None] = (64, 64),
    dims: tuple[str, str, str] = ROWS_OF_8,
    stages: int = 3,
    schedule: str = PERSISTENT,
    orders: tuple[str, str, str] = ("M, K", "N, K", "M, N"),
    spaces: tuple[str, str] = ("shared", "shared"),
) -> Gemm:
    """Two waves that compute 64 x 64 each, and one that copies."""
    return Gemm(dtype, tile, wave, dims=dims, spaces=spaces, stages=stages, schedule=schedule, orders=orders)


def rounded(gemm: Gemm) -> KernelSpec:
    """The same with a result in the type of the operands."""
    text = gemm.text.replace(
        "- {write: k_loop.acc, to: c}",
        f"- rounded: {{cast: k_loop.acc, dtype: {gemm.dtype}}}\n  - {{write: rounded, to: c}}",
    )
    return loads(text.replace("dtype: f32, role: output", f"dtype: {gemm.dtype}, role: output"), "gemm.wave.yaml")
