"""What a spec without tiles says, and no kernel of `specs/` does, builds in all cases of its plans."""

from __future__ import annotations

import pytest

from wavespec.cache import CompileCache
from wavespec.check_builds import check_builds
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\n"
NEST = (
    HEAD
    + """
dims: {B: {}, H: {min: 1}, W: {min: 1}}
tensors: {x: {shape: [B, H, W], dtype: f64}, y: {shape: [B], dtype: f64, role: output}, z: {shape: [B], dtype: f64, role: output}}
graph:
  - none: {register: [B], dtype: f64, value: 0}
  - sums:
      iterate: H
      carry: {total: none, squares: none}
      body:
        - inner:
            iterate: W
            carry: {total: total, squares: squares}
            body:
              - part: {read: x}
              - square: part * part
              - total: {sum: part, dim: [H, W], init: total}
              - squares: {sum: square, dim: [H, W], init: squares}
        - total: inner.total
        - squares: inner.squares
  - {write: sums.total, to: y}
  - {write: sums.squares, to: z}
"""
)
RUNNING = (
    HEAD
    + """
dims: {B: {}, M: {}, N: {}}
tensors: {x: {shape: [B, M, N], dtype: f32}, y: {shape: [B, M, N], dtype: f32, role: output}, r: {shape: [B, M], dtype: f32, role: output}}
graph:
  - first: {register: [B, M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {before: first}
      body:
        - part: {read: x}
        - running: {cumsum: part, dim: N, init: before}
        - before: {sum: part, dim: N, init: before}
        - {write: running, to: y}
  - {write: rows.before, to: r}
"""
)
TURNED = (
    HEAD
    + """
dims: {M: {}, N: {}}
tensors:
  x: {shape: [N, M], dtype: bf16}
  z: {shape: [M, N], dtype: bf16}
  bias: {shape: [M], dtype: bf16}
  y: {shape: [M, N], dtype: bf16, role: output}
graph:
  - other: {read: z}
  - turned: {read: x}
  - each: {read: bias}
  - result: other + turned + each
  - {write: result, to: y}
"""
)
SCORES = (
    HEAD
    + """
dims: {M: {}, N: {}, E: {}, D: {max: 32}}
tensors:
  q: {shape: [M, D], dtype: T}
  k: {shape: [N, D], dtype: T}
  v: {shape: [E, N], dtype: T}
  o: {shape: [M, E], dtype: f32, role: output}
graph:
  - q_tile: {read: q}
  - nothing: {register: [M, E], dtype: f32, value: 0}
  - keys:
      iterate: N
      carry: {acc: nothing}
      body:
        - k_tile: {read: k}
        - v_tile: {read: v}
        - zero: {register: [M, N], dtype: f32, value: 0}
        - scores: {mma: [q_tile, k_tile, zero]}
        - weights: WEIGHTS
        - acc: {mma: [weights, v_tile, acc]}
  - {write: keys.acc, to: o}
"""
)
COLUMNS = (
    HEAD
    + """
dims: {M: {min: 1}, N: {}}
tensors: {x: {shape: [M, N], dtype: i64}, y: {shape: [M, N], dtype: i64, role: output}}
graph:
  - none: {register: [N], dtype: i64, value: 0}
  - sums: {iterate: M, carry: {total: none}, body: [{part: {read: x}}, {total: {sum: part, dim: M, init: total}}]}
  - again: {iterate: M, body: [{part: {read: x}}, {result: part - sums.total}, {write: result, to: y}]}
"""
)
TWO_DIMS = (
    HEAD
    + """
dims: {B: {}, N: {}, K: {}}
tensors: {x: {shape: [B, N], dtype: f32}, w: {shape: [B, K], dtype: f32}, y: {shape: [B], dtype: f32, role: output}}
graph:
  - none: {register: [B], dtype: f32, value: 0}
  - weights: {iterate: K, carry: {total: none}, body: [{part: {read: w}}, {total: {sum: part, dim: K, init: total}}]}
  - sums: {iterate: N, carry: {total: none}, body: [{part: {read: x}}, {total: {sum: part, dim: N, init: total}}]}
  - result: sums.total * weights.total
  - {write: result, to: y}
"""
)

NEAREST = (
    HEAD
    + """
dims: {M: {}, N: {min: 1}, K: {}}
tensors:
  x: {shape: [M, K], dtype: bf16}
  c: {shape: [N, K], dtype: bf16}
  y: {shape: [M], dtype: i64, role: output}
graph:
  - row: {read: x}
  - centre: {read: c}
  - zero: {register: [M, N], dtype: f32, value: 0}
  - product: {mma: [row, centre, zero]}
  - place: {argmax: product, dim: N}
  - {write: place, to: y}
"""
)

SHARES = (
    HEAD
    + """
dims: {M: {}, N: {min: 1}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}
graph:
  - part: {read: x}
  - total: {sum: part, dim: N}
  - share: part / total
  - running: {cumsum: share, dim: N}
  - {write: running, to: y}
"""
)
MADE = (
    HEAD
    + """
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  c: {shape: [M, N], dtype: f32, role: output}
graph:
  - left: {read: a}
  - right: {read: b}
  - double: left * 2
  - positive: relu(right)
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums: {mma: [double, positive, zero]}
  - {write: sums, to: c}
"""
)
STATE = (
    HEAD
    + """
dims: {T: {min: 1}, D: {max: 64}, E: {}}
tensors:
  q: {shape: [T, D], dtype: f32}
  k: {shape: [T, D], dtype: f32}
  v: {shape: [T, E], dtype: f32}
  o: {shape: [T, E], dtype: f32, role: output}
graph:
  - query: {read: q}
  - key: {read: k}
  - value: {read: v}
  - none: {register: [D, E], dtype: f32, value: 0}
  - state: {mma: [key, value, none]}
  - zero: {register: [T, E], dtype: f32, value: 0}
  - result: {mma: [query, state, zero]}
  - {write: result, to: o}
"""
)


def of_type(text: str, dtype: str) -> KernelSpec:
    weights = "maximum(scores, 0)" if dtype == "f32" else "'bf16(maximum(scores, 0))'"
    return loads(text.replace("dtype: T", f"dtype: {dtype}").replace("WEIGHTS", weights))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(loads(NEST), id="two sums of a loop in a loop"),
        pytest.param(loads(RUNNING), id="running sums of rows with two dims around"),
        pytest.param(loads(TURNED), id="a row beside a matrix that is turned"),
        pytest.param(of_type(SCORES, "bf16"), id="few keys side by side"),
        pytest.param(of_type(SCORES, "f32"), id="a tile with less than an access for each lane"),
        pytest.param(loads(COLUMNS), id="parts of 64 bits in front of a loop"),
        pytest.param(loads(NEAREST), id="a product in each step of a loop over its columns"),
        pytest.param(loads(SHARES), id="what a loop carries for itself, in parts"),
        pytest.param(loads(MADE), id="both operands computed, results wider"),
        pytest.param(loads(STATE), id="no rows, so no number of waves"),
    ],
)
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_all_cases_build(spec: KernelSpec, target: str) -> None:
    (found,) = check_builds([spec], [target], cache=CompileCache(enabled=False), workers=1)
    assert not found, [one.message for one in found]


def test_a_loop_over_another_dim_leaves_parts() -> None:
    case = case_for_sizes(cases_for_target(loads(TWO_DIMS), "sm_90"), {"B": 4, "N": 3_000_000, "K": 100})
    assert len(case.kernels) == 2
