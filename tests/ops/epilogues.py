"""An epilogue in, a spec with it out: statements on ``sums.acc``, the accumulator of a GEMM, that make ``y``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wavespec.schema import KernelSpec, loads
from wavespec.schema.ops import FUNCTIONS


def epilogue(
    *statements: str,
    result: str = "f32",
    operands: str = "f32",
    tensors: str = "",
    tile: tuple[int, int, int] = (48, 64, 16),
    wave: tuple[int, int] = (48, 64),
    mma: str = "auto",
    dims: str = "",
) -> KernelSpec:
    """``a[M, K] · b[N, K]ᵀ``, then the statements, then ``y`` of type ``result`` to ``c[M, N]``.

    ``tensors``: YAML of more inputs, such as ``bias: {shape: [N], dtype: f32}``.  ``dims``: of more dims, behind a comma.
    """
    acc = "i32" if operands in ("i8", "u8") else "f32"
    lines = "\n".join(f"  - {statement}" for statement in statements)
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: epilogue
dims: {{M: {{}}, N: {{}}, K: {{}}{dims}}}
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


def every_function(words: Sequence[str], dtype: str = "f32", **options: Any) -> KernelSpec:
    """``a[M, K] · b[N, K]ᵀ`` in ``dtype``, and an output ``c_word`` for every one of ``words`` applied to it.

    ``other[M, N]``, of type ``dtype``, is the second operand, and ``flag[M, N]`` a condition.
    """
    statements = [f"x: {{cast: sums.acc, dtype: {dtype}}}", "other_tile: {read: other}", "flag_tile: {read: flag}"]
    tensors = [f"other: {{shape: [M, N], dtype: {dtype}}}", "flag: {shape: [M, N], dtype: bool}"]
    for word in words:
        row = next(row for row in FUNCTIONS if row.word == word)
        operands = {1: "x", 2: "[x, other_tile]", 3: "[x, other_tile, x]"}[row.operands]
        operands = "[flag_tile, x, other_tile]" if word == "where" else operands
        statements += [f"v_{word}: {{{word}: {operands}}}", f"{{write: v_{word}, to: c_{word}}}"]
        made = "bool" if row.result == "bool" else dtype
        tensors.append(f"c_{word}: {{shape: [M, N], dtype: {made}, role: output}}")
    statements.append("y: {where: [flag_tile, x, other_tile]}")
    return epilogue(*statements, result=dtype, tensors="\n  ".join(tensors), **options)


def words_for(dtype: str) -> list[str]:
    """The functions that take an element type."""
    kinds = {"f32": ("anything", "numbers", "floats", "small floats"), "f64": ("anything", "numbers", "floats")}
    kinds |= dict.fromkeys(("f16", "bf16"), kinds["f32"]) | {"bool": ("anything", "bits")}
    return [
        row.word for row in FUNCTIONS if row.dtypes in kinds.get(dtype, ("anything", "numbers", "integers", "bits"))
    ]


PLACES = (
    'masked: "sums.acc * 2 + where(index(N) <= index(M) + 1, 0, -inf)"',
    "row: {index: M, dtype: i64}",
    "wide: {cast: row, dtype: f32}",
    "placed: masked + wide",
    "word: {bitcast: placed, dtype: i32}",
    "count: {size: N, dtype: i64}",
    'last: "where(index(N) == N - 1, size(M) * 0.5 - K, f32(count))"',
    'y: "where((word & 1) == 0, placed, -placed) + last - f32(bf16(N))"',
)
"""What depends on where an element is, on how many there are, and on its bits."""
