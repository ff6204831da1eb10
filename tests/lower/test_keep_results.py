"""What many steps made is kept for a later loop, on machines whose caches still have it then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.specs import without_target
from wavespec.ir.kernel import Op
from wavespec.lower.keep_results import KeepResults
from wavespec.pipeline import lower
from wavespec.schema import loads, spec_for_target
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SPECS = Path(__file__).parents[2] / "specs"


def loops(name: str, machine: Machine, changes: dict[str, str] | None = None) -> list[list[str]]:
    text = (SPECS / f"{name}.wave.yaml").read_text()
    text = without_target(text, "sm_90") if changes else text
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    spec = loads(text, "rows.wave.yaml", SPECS)
    kernel = lower(spec_for_target(spec, machine.target), machine, after="keep-results")
    return [[word(op) for op in loop.body.ops] for loop in kernel.body if loop.name == "iterate"]


def word(op: Op) -> str:
    return op["memory"] if op.name == "read" else op.get("function", op.name) if op.name != "join" else "join"


def test_exponentials_are_kept_where_their_quotients_go() -> None:
    first, second, last = loops("softmax", CPU)
    assert (first, second) == (["x", "join"], ["x", "sub", "exp", "write", "join"])
    assert last == ["y", "div", "write"], "and the input is not read for them"


def test_lanes_that_run_together_compute_again() -> None:
    assert loops("softmax", NVIDIA)[2] == ["x", "sub", "exp", "div", "write"]


def streamed(most: str) -> dict[str, str]:
    return {"N: {}": f"N: {{{most}}}", "T, role: output}": "T, role: output, space: streamed}"}


def test_a_streamed_output_is_written_once_and_exponentials_are_kept_in_a_row() -> None:
    _, second, last = loops("softmax", CPU, streamed("max: 65536"))
    assert second == ["x", "sub", "exp", "write", "join"]
    assert last == ["power.kept", "div", "write"]


@pytest.mark.parametrize("most", ["max: 65537", ""])
def test_rows_beyond_the_caches_are_not_kept(most: str) -> None:
    _, second, last = loops("softmax", CPU, streamed(most))
    assert second == ["x", "sub", "exp", "join"]
    assert last == ["x", "sub", "exp", "div", "write"]


PARTS = {
    "dims:\n": "dims:\n  P: {}\n",
    "- {M: ": "- {P: 9, M: ",
    "tensors:\n": "tensors:\n  w: {shape: [P], dtype: f32}\n  z: {shape: [P], dtype: f32, role: output}\n",
    "constraints:\n": "constraints:\n  - {workgroup: P, tile: 4, axis: 1}\n",
    "graph:\n": "graph:\n  - others: {read: w}\n  - {write: others, to: z}\n",
}


def test_an_output_of_several_workgroups_is_written_once() -> None:
    """One may be done with it when another begins."""
    assert loops("softmax", CPU, PARTS)[2] == ["x", "sub", "exp", "div", "write"]
    assert loops("softmax", CPU, PARTS | {"N: {}": "N: {max: 65536}"})[2] == ["power.kept", "div", "write"]


def test_few_steps_are_done_again() -> None:
    assert loops("layer_norm", CPU)[2][:2] == ["x", "weight"]
    assert loops("log_softmax", CPU)[2] == ["x", "sub", "sub", "write"]


def test_a_narrower_output_keeps_nothing() -> None:
    narrow = "- narrow: {cast: result, dtype: bf16}\n        - {write: narrow, to: y}"
    changes = {"y: {shape: [M, N], dtype: T": "y: {shape: [M, N], dtype: bf16", "- {write: result, to: y}": narrow}
    assert loops("softmax", CPU, changes)[2] == ["x", "sub", "exp", "div", "cast", "write"]


def test_other_arguments_are_computed() -> None:
    changes = {"exp(S(last) - S(rows.largest)) / sums": "exp(S(last) + S(rows.largest)) / sums"}
    assert loops("softmax", CPU, changes)[2] == ["x", "add", "exp", "div", "write"]


FALLING = """\
apiVersion: wavespec/v1
kind: Kernel
name: falling
dims: {M: {}, N: {max: 256}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 16}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - sums:
      iterate: N
      end: "8 * end(M) - 24"
      carry: {total: none}
      body:
        - again: {read: x}
        - power: exp(again - 1)
        - total: {sum: power, dim: N, init: total}
  - results:
      iterate: N
      end: "8 * end(M) - 24"
      carry: {}
      body:
        - last: {read: x}
        - result: exp(last - 1) / sums.total
        - {write: result, to: y}
"""


@pytest.mark.parametrize("space", ["", ", space: streamed"])
def test_loops_that_may_have_no_steps_leave_what_they_would_without(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows have no step. Loops whose bounds are values compare as different, and keep nothing."""
    spec = loads(FALLING.replace("role: output", f"role: output{space}"))
    kept = lower(spec, CPU)
    assert any(op.get("memory") in ("y", "power.kept") and op.name == "load" for op in kept.walk()), "read again"
    monkeypatch.setattr(KeepResults, "applies_to", lambda *_: False)
    plain = lower(spec, CPU)
    for columns in (0, 1, 16, 50):
        inputs = {"x": np.random.default_rng(columns).standard_normal((8, columns), np.float32)}
        sizes = {"M": 8, "N": columns}
        first, second = (simulate(one, CPU, inputs, sizes) for one in (kept, plain))
        assert first.ok and second.ok, first.render()
        np.testing.assert_array_equal(first.tensors["y"], second.tensors["y"])
