"""Outputs of which a call may leave elements unwritten, as values say it or as sizes do."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from wavespec.schema import KernelSpec, loads
from wavespec.schema.checking.partly_written import partly_written
from wavespec.schema.language.expressions import Expression

SPECS = Path(__file__).parents[2] / "specs"


def spec(*graph: str, tiling: str = "tile: 64") -> KernelSpec:
    lines = "\n".join(f"  - {line}" for line in graph)
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {{M: {{}}, N: {{}}, K: {{equals: M * 2}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  place: {{shape: [M], dtype: i32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 1, axis: 0}}
  - {{tiling: N, {tiling}}}
graph:
  - where_to: {{read: place}}
{lines}
""",
        "rows.wave.yaml",
    )


WRITE = "{write: part, to: y}"


@pytest.mark.parametrize(
    ("graph", "is_partly"),
    [
        (("part: {read: x}", WRITE), False),
        (("part: {read: x}", "{write: part, to: y, at: {M: size(M) - 1 - M}}"), False),
        (("part: {read: x}", "{write: part, to: y, at: {M: size(M) - 2 - M}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {N: 'min(N, 7)'}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {N: N - N % 3}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {N: N % 40}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {N: 'min(N, 1000)'}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {N: 'xor(N, 1)'}}"), True),
        (("part: {read: x}", "{write: part, to: y, at: {M: where_to}}"), True),
        ((f"steps: {{iterate: N, body: [part: {{read: x}}, {WRITE}]}}",), False),
        ((f"steps: {{iterate: N, end: where_to, body: [part: {{read: x}}, {WRITE}]}}",), True),
        ((f"branch: {{if: where_to < 3, body: [part: {{read: x}}, {WRITE}]}}",), True),
    ],
    ids=[
        "all",
        "sizes",
        "too few",
        "the first ones",
        "every third",
        "remainders",
        "large numbers",
        "bits",
        "values",
        "loop",
        "bounds",
        "branch",
    ],
)
def test_values_and_sizes_leave_elements_unwritten(graph: tuple[str, ...], is_partly: bool) -> None:
    assert partly_written(spec(*graph)) == ({"y"} if is_partly else set())


@pytest.mark.parametrize(
    ("bounds", "target"),
    [("start: 64", ""), ("count: 2", ""), ("", "start: 64"), ("", "count: M")],
    ids=["start", "count", "start on a target", "count on a target"],
)
def test_tilings_leave_out_steps_of_loops_over_their_dim(bounds: str, target: str) -> None:
    of_m, tiling = "{workgroup: M, tile: 1, axis: 0}", "{tiling: N, tile: 64}"
    whole = f"""apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints: [{of_m}, {tiling}]
graph:
  - steps: {{iterate: N, body: [part: {{read: x}}, {WRITE}]}}
targets:
  cpu: {{constraints: [{of_m}, {tiling}]}}
"""
    everywhere, _, on_the_cpu = whole.partition("targets")
    assert not partly_written(loads(whole))
    text = everywhere.replace(tiling, f"{tiling[:-1]}, {bounds}}}" if bounds else tiling) + "targets"
    text += on_the_cpu.replace(tiling, f"{tiling[:-1]}, {target}}}" if target else tiling)
    assert partly_written(loads(text)) == {"y"}


def test_the_size_of_an_empty_dim_leaves_an_element_unwritten() -> None:
    text = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, T: {equals: "max(M, 1)"}}
tensors:
  x: {shape: [M], dtype: f32}
  y: {shape: [T], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
graph:
  - row: {read: x}
  - {write: row, to: y, at: {T: M}}
"""
    assert partly_written(loads(text, "rows.wave.yaml")) == {"y"}


def test_inout_tensors_hold_what_the_caller_gave() -> None:
    text = "{write: part, to: y, at: {M: where_to}}"
    changed = spec("part: {read: x}", text)
    tensors = {**changed.tensors, "y": changed.tensors["y"].model_copy(update={"role": "inout"})}
    assert not partly_written(changed.model_copy(update={"tensors": tensors}))


@pytest.mark.parametrize("bound", ["count: 1", "start: 64"])
def test_a_tiling_leaves_out_tiles_of_loops(bound: str) -> None:
    loop = f"steps: {{iterate: N, body: [part: {{read: x}}, {WRITE}]}}"
    assert partly_written(spec(loop, tiling=f"tile: 64, {bound}")) == {"y"}


def test_tiles_of_workgroups_end_where_values_say() -> None:
    text = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {G: {}, M: {}}
tensors:
  x: {shape: [G, M], dtype: f32}
  lengths: {shape: [G], dtype: i32}
  y: {shape: [G, M], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 64, axis: 0}, {workgroup: G, tile: 1, axis: 1}]
graph: [length: {read: lengths}, part: {read: x}, {write: part, to: y}]
"""
    ended = """targets:
  sm_90:
    constraints: [{workgroup: M, tile: 64, axis: 0, end: length}, {workgroup: G, tile: 1, axis: 1}]
    schedule: {workgroups: {persistent: true}}
"""
    assert [partly_written(loads(one, "rows.wave.yaml")) for one in (text, text + ended)] == [frozenset(), {"y"}]


def test_empty_tensors_beside_large_dims_show_nothing_and_cost_nothing() -> None:
    """All sizes but those of empty dims are too many to try."""
    text = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {}, T: {equals: N + 4194304}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, T], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {workgroup: T, tile: 64, axis: 1}
graph:
  - part: {read: x, dims: [M, T], at: {N: 'min(T, size(N) - 1)'}}
  - {write: part, to: y, at: {M: M, T: T}}
"""
    large = loads(text, "rows.wave.yaml")
    tracemalloc.start()
    try:
        assert partly_written(large) == {"y"}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_places_of_large_paddings_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sizes near a padding of 32 together have some 300,000 places, of which the smallest sizes show enough."""
    evaluated, evaluate = Counter[str](), Expression.evaluate

    def counted(self: Expression, values: Mapping[str, int]) -> int | bool:
        evaluated[str(self)] += 1
        return evaluate(self, values)

    text = (SPECS / "conv2d_nhwc.wave.yaml").read_text().replace("  PAD: 1\n", "  PAD: 32\n", 1)
    padded = loads(text, "padded.wave.yaml")
    monkeypatch.setattr(Expression, "evaluate", counted)
    assert partly_written(padded) == frozenset()
    assert 1000 < max(evaluated.values()) <= 1 << 14


def test_sizes_that_fit_together_are_found_where_a_window_is_wide() -> None:
    """A filter of three taps with gaps has no place in a small image, and leaves nothing of its result out in others."""
    text = """apiVersion: wavespec/v1
kind: Kernel
name: window
dims: {H: {}, OH: {min: 1, equals: H - 8}, M: {equals: OH}}
tensors:
  x: {shape: [H], dtype: f32}
  y: {shape: [OH], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 16, axis: 0}]
graph:
  - pixels: {read: x, dims: [M], at: {H: M + 8}}
  - {write: pixels, to: y, at: {OH: PLACE}}
"""
    assert not partly_written(loads(text.replace("PLACE", "M")))
    assert partly_written(loads(text.replace("PLACE", "M - M % 2")))
