"""Loops whose bounds are loaded, beside waves that only copy: these run as many steps as the others."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(NVIDIA,) = machines("sm_90")
SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: bounded
dims: {B: {}, M: {}, N: {multiple_of: 8}, K: {multiple_of: 8}}
tensors:
  a: {shape: [B, M, K], dtype: bf16, space: shared}
  b: {shape: [B, N, K], dtype: bf16, space: shared}
  lengths: {shape: [B], dtype: i32}
  c: {shape: [B, M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {workgroup: B, tile: 1, axis: 2}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
schedule: {stages: 3, waves: {producers: 1}}
graph:
  - length: {read: lengths}
  - zero: {register: [B, M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      end: length
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""


@pytest.mark.parametrize("workgroups", ["{}", "{persistent: true, count: 2}", "{persistent: true, count: 1}"])
def test_steps_behind_the_end_are_left_out(workgroups: str) -> None:
    """Also where a workgroup walks over tiles of different numbers of steps, the fewest of which are below none."""
    lengths, m, n, k = np.array([130, 0, 64, -200, 999], np.int32), 70, 72, 328
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (5, m, k)).astype(np.float64)
    b = random.integers(-4, 5, (5, n, k)).astype(np.float64)
    for batch, length in enumerate(lengths):
        a[batch, :, max(0, length) :] = 0
        b[batch, :, -(-max(0, length) // 64) * 64 :] = np.nan  # of steps that are not there
    schedule = f"{{producers: 1}}, workgroups: {workgroups}}}"
    kernel = lower(loads(SPEC.replace("{producers: 1}}", schedule)), NVIDIA)
    inputs = {"a": a.astype(ml_dtypes.bfloat16), "b": b.astype(ml_dtypes.bfloat16), "lengths": lengths}
    report = simulate(kernel, NVIDIA, inputs, {"B": 5, "M": m, "N": n, "K": k})
    assert report.ok, report.render()
    assert np.array_equal(report.tensors["c"], a @ np.nan_to_num(b).transpose(0, 2, 1))


_AS_THEY_ARE = "        - acc: {mma: [a_tile, b_tile, acc]}\n"
_DECODED = "        - decoded: {cast: b_tile, dtype: bf16}\n        - acc: {mma: [a_tile, decoded, acc]}\n"
_SUMMED_APART = """\
        - none: {register: [B, M, N], dtype: f32, value: 0}
        - part: {mma: [a_tile, b_tile, none]}
        - acc: acc + part
"""


@pytest.mark.parametrize(
    ("workgroups", "dtypes", "product"),
    [
        ("{persistent: true, count: 2}", ("bf16", "bf16"), _AS_THEY_ARE),
        ("{persistent: true, count: 1}", ("bf16", "i8"), _DECODED),
        ("{split: 2}", ("bf16", "i8"), _DECODED),
        ("{}", ("f8e4m3fn", "f8e4m3fn"), _SUMMED_APART),
    ],
    ids=["walked over", "decoded", "shared out", "used beside products"],
)
def test_a_loop_that_begins_behind_its_end_has_no_steps(workgroups: str, dtypes: tuple[str, str], product: str) -> None:
    """None for buffers either, whose rounds go on with the next tile, and none of a round of several."""
    firsts, ends = (np.array(one, np.int32) for one in ([0, 328, 128, 200], [200, 0, 260, 64]))
    text = SPEC.replace(_AS_THEY_ARE, product).replace(
        "{producers: 1}}", f"{{producers: 1}}, workgroups: {workgroups}}}"
    )
    text = text.replace("end: length", "start: first\n      end: length").replace("multiple_of: 8", "multiple_of: 16")
    text = text.replace("  lengths: {", "  firsts: {shape: [B], dtype: i32}\n  lengths: {")
    text = text.replace("  - zero:", "  - first: {read: firsts}\n  - zero:")
    for name, dtype in zip("ab", dtypes, strict=True):
        text = re.sub(rf"(  {name}: .*)dtype: bf16", rf"\1dtype: {dtype}", text)
    m, n, k = 70, 80, 336
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (len(ends), rows, k)).astype(np.float64) for rows in (m, n))
    right = np.zeros((len(ends), m, n))
    for batch, (first, end) in enumerate(zip(firsts // 64 * 64, -(-ends // 64) * 64, strict=True)):
        right[batch] = a[batch, :, first:end] @ b[batch, :, first:end].T
    types = {"bf16": ml_dtypes.bfloat16, "i8": np.int8, "f8e4m3fn": ml_dtypes.float8_e4m3fn}
    inputs = {"a": a.astype(types[dtypes[0]]), "b": b.astype(types[dtypes[1]]), "firsts": firsts, "lengths": ends}
    report = simulate(lower(loads(text), NVIDIA), NVIDIA, inputs, {"B": len(ends), "M": m, "N": n, "K": k})
    assert report.ok, report.render()
    assert np.array_equal(report.tensors["c"], right)


def test_a_bound_that_is_computed_is_known_to_those_that_compute_alone() -> None:
    computed = SPEC.replace("end: length", "end: half").replace(
        "  - zero:", "  - row: {read: rows}\n  - total: {sum: row, dim: L}\n  - half: i32(total)\n  - zero:"
    )
    computed = computed.replace("  c: {", "  rows: {shape: [B, L], dtype: f32}\n  c: {").replace(
        "B: {}", "B: {}, L: {value: 64}"
    )
    computed = computed.replace("  - length: {read: lengths}\n", "").replace(
        "  lengths: {shape: [B], dtype: i32}\n", ""
    )
    with pytest.raises(WavespecError, match=r"error\[values-not-shared\]"):
        lower(loads(computed), NVIDIA)
