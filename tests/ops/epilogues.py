"""An epilogue in, a spec with it out: statements on ``sums.acc``, the accumulator of a GEMM, that make ``y``."""

from __future__ import annotations

from wavespec.schema import KernelSpec, loads


def epilogue(
    *statements: str,
    result: str = "f32",
    operands: str = "f32",
    tensors: str = "",
    tile: tuple[int, int, int] = (48, 64, 16),
    wave: tuple[int, int] = (48, 64),
    mma: str = "auto",
) -> KernelSpec:
    """``a[M, K] · b[N, K]ᵀ``, then the statements, then ``y`` of type ``result`` to ``c[M, N]``.

    ``tensors``: YAML of more inputs, such as ``bias: {shape: [N], dtype: f32}``.
    """
    acc = "i32" if operands in ("i8", "u8") else "f32"
    lines = "\n".join(f"  - {statement}" for statement in statements)
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: epilogue
dims: {{M: {{}}, N: {{}}, K: {{}}}}
tensors:
  a: {{shape: [M, K], dtype: {operands}, space: shared}}
  b: {{shape: [N, K], dtype: {operands}, space: shared}}
  {tensors}
  c: {{shape: [M, N], dtype: {result}, role: output}}
constraints:
  - {{workgroup: M, tile: {tile[0]}, axis: 0}}
  - {{workgroup: N, tile: {tile[1]}, axis: 1}}
  - {{tiling: K, tile: {tile[2]}}}
  - {{wave: M, tile: {wave[0]}}}
  - {{wave: N, tile: {wave[1]}}}
  - {{hardware: {{mma: {mma}}}}}
graph:
  - zero: {{register: [M, N], dtype: {acc}, value: 0}}
  - sums:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
{lines}
  - {{write: y, to: c}}
""",
        "epilogue.wave.yaml",
    )
