"""Loops whose steps write: recurrences that are no joins, right by the lanes of every target and on CPUs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops.joinings import HEADER
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolved import resolve
from wavespec.sim.elements import Array
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TARGETS = ("cpu", "sm_90", "gfx942", "gfx950")


def spec(
    read: str = "t",
    write: str = "t",
    *,
    steps: str = "size(T)",
    dims: str = "T: {}",
    more: str = "",
    schedule: str = "",
) -> KernelSpec:
    """``h = tanh(h + x[read, M, C])``, and ``y[write, M, C]`` has it."""
    space = ", space: shared" if schedule else ""
    return loads(
        f"""{HEADER}dims: {{M: {{}}, C: {{}}, {dims}, S: {{equals: T + 1}}}}
tensors:
  x: {{shape: [T, M, C], dtype: f32{space}}}
  y: {{shape: [S, M, C], dtype: f32, role: output}}
  last: {{shape: [M, C], dtype: f32, role: output}}
constraints: [{{workgroup: C, tile: 16, axis: 0}}, {{workgroup: M, tile: 16, axis: 1}}]
graph:
  - zero: {{register: [M, C], dtype: f32, value: 0.5}}
  - run:
      repeat: {steps}
      index: t
      carry: {{h: zero}}
      body:
        - part: {{read: x, dims: [M, C], at: {{T: {read}}}}}
        - h: tanh(h + part)
        - moved: {{index: M}}
        - {{write: h, to: y, at: {{S: "{write}"}}}}
  - {{write: run.h, to: last}}
{schedule}
targets: {{cpu: {{schedule: {{stages: 1}}}}}}
"""
    )


def expected(x: Array, reads: list[int], writes: list[int]) -> tuple[Array, Array]:
    h, y = np.full(x.shape[1:], 0.5), np.zeros((len(x) + 1, *x.shape[1:]))
    for read, write in zip(reads, writes, strict=True):
        h = np.tanh(h + (x[read] if 0 <= read < len(x) else 0))
        if 0 <= write < len(y):
            y[write] = h
    return y, h


def given(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


N = 9
FORMS = {
    "in order": (spec(), range(N), range(N)),
    "backwards": (spec("size(T) - 1 - t", "size(T) - 1 - t"), range(N - 1, -1, -1), range(N - 1, -1, -1)),
    "one behind": (spec(write="t + 1"), range(N), range(1, N + 1)),
    "beyond the end": (spec(write="t + 4"), range(N), range(4, N + 4)),
    "fewer": (spec(steps="size(T) - 3"), range(N - 3), range(N - 3)),
    "one size": (spec(dims=f"T: {{value: {N}}}"), range(N), range(N)),
    "staged ahead": (spec(schedule="schedule: {stages: 2}"), range(N), range(N)),
    "staged ahead of one size": (spec(dims=f"T: {{value: {N}}}", schedule="schedule: {stages: 3}"), range(N), range(N)),
    "staged ahead backwards": (spec("size(T) - 1 - t", schedule="schedule: {stages: 2}"), range(N - 1, -1, -1), range(N)),
    "number as a value": (spec("t + 0 * t"), range(N), range(N)),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_every_step_is_there(form: str, target: str) -> None:
    kernel, reads, writes = FORMS[form]
    (machine, *_), x = machines(target), given(N, 21, 19)
    right = expected(x, list(reads), list(writes))
    for found, wanted in zip(reference(kernel, torch.from_numpy(x)), right, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    report = simulate(lower(kernel, machine), machine, {"x": x}, {"T": N, "M": 21, "C": 19, "S": N + 1})
    assert report.ok, report.render()
    for name, wanted in zip(("y", "last"), right, strict=True):
        np.testing.assert_allclose(report.tensors[name], wanted, atol=1e-5)


@pytest.mark.compiles
@pytest.mark.parametrize("form", ["in order", "backwards"])
def test_on_this_cpu(form: str) -> None:
    kernel, reads, writes = FORMS[form]
    x = given(N, 75, 19)
    found = Kernel(build(kernel, "cpu", only=best_variant("cpu")))(torch.from_numpy(x), out=None)
    for result, wanted in zip(found, expected(x, list(reads), list(writes)), strict=True):
        np.testing.assert_allclose(result.numpy(), wanted, atol=1e-5)


def test_steps_that_write_everything_need_no_zeros() -> None:
    assert resolve(spec(), "cpu").zeroed == {"y"}  # S has one element more
    whole = loads(
        f"""{HEADER}dims: {{M: {{}}, T: {{}}}}
tensors:
  x: {{shape: [T, M], dtype: f32}}
  y: {{shape: [T, M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 32, axis: 0}}]
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - run:
      repeat: size(T)
      index: t
      carry: {{h: zero}}
      body:
        - part: {{read: x, dims: [M], at: {{T: t}}}}
        - h: tanh(h + part) + f32(t)
        - {{write: h, to: y, at: {{T: size(T) - 1 - t}}}}
"""
    )
    assert not resolve(whole, "cpu").zeroed
    x = given(N, 37)
    (machine, *_) = machines("gfx942")
    report = simulate(lower(whole, machine), machine, {"x": x}, {"T": N, "M": x.shape[1]})
    assert report.ok, report.render()
    np.testing.assert_allclose(report.tensors["y"], reference(whole, torch.from_numpy(x)), atol=1e-4)


def test_a_loop_that_ends_early_leaves_zeros() -> None:
    kernel = loads(
        f"""{HEADER}dims: {{B: {{}}, T: {{}}}}
tensors:
  x: {{shape: [B, T], dtype: i32}}
  y: {{shape: [B, T], dtype: i32, role: output}}
constraints: [{{workgroup: B, tile: 1, axis: 0}}]
graph:
  - zero: {{register: [B], dtype: i32, value: 0}}
  - run:
      repeat: size(T)
      index: t
      until: total > 9
      carry: {{total: zero}}
      body:
        - part: {{read: x, dims: [B], at: {{T: t}}}}
        - total: total + part
        - {{write: total, to: y, at: {{T: t}}}}
"""
    )
    x = np.array([[4, 4, 4, 4, 4], [1, 1, 1, 1, 1], [20, 1, 1, 1, 1]], np.int32)
    right = np.array([[4, 8, 12, 0, 0], [1, 2, 3, 4, 5], [20, 0, 0, 0, 0]])
    assert resolve(kernel, "cpu").zeroed == {"y"}
    np.testing.assert_array_equal(reference(kernel, torch.from_numpy(x)), right)
    (machine, *_) = machines("sm_90")
    report = simulate(lower(kernel, machine), machine, {"x": x}, {"B": 3, "T": 5})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], right)


CHUNKS = """dims: {{C: {size}, K: {{}}, M: {{}}, T: {{equals: K * size_C}}}}
tensors:
  x: {{shape: [M, T], dtype: f32}}
  k: {{shape: [K], dtype: f32}}
  y: {{shape: [M, T], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 4, axis: 0}}]
graph:
  - zero: {{register: [M], dtype: f32, value: 0}}
  - run:
      repeat: size(K)
      index: chunk
      carry: {{total: zero}}
      body:
        - here: {{read: k, dims: [], at: {{K: chunk}}}}
        - part: {{read: x, dims: [M, C], at: {{T: {place}}}}}
        - added: part + total + here
        - more: {{sum: part, dim: C}}
        - total: total + more
        - {{write: added, to: y, at: {{T: "{place}"}}}}
"""


def chunks(place: str, size: str = "{value: 8}") -> KernelSpec:
    return loads(HEADER + CHUNKS.format(place=place, size=size).replace("size_C", "8"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", ["chunk * size(C) + C", "C + 8 * chunk", "size(C) * chunk + C"])
def test_steps_that_write_a_chunk_each(place: str, target: str) -> None:
    kernel, x, k = chunks(place), given(5, 40), given(5)
    right = x.reshape(5, 5, 8)
    before = np.cumsum(right.sum(2), axis=1) - right.sum(2)
    right = (right + (before + k)[..., None]).reshape(5, 40)
    np.testing.assert_allclose(reference(kernel, torch.from_numpy(x), torch.from_numpy(k)), right, atol=1e-5)
    (machine, *_) = machines(target)
    report = simulate(lower(kernel, machine), machine, {"x": x, "k": k}, {"M": 5, "K": 5, "T": 40, "C": 8})
    assert report.ok, report.render()
    np.testing.assert_allclose(report.tensors["y"], right, atol=1e-4)


@pytest.mark.parametrize("place", ["chunk * 7 + C", "chunk * size(M) + C", "chunk + C", "chunk * size(C) + C + C"])
def test_chunks_that_may_overlap_are_refused(place: str) -> None:
    with pytest.raises(WavespecError, match="effect-in-repeat"):
        chunks(place)


@pytest.mark.parametrize("place", ["t // 2", "t % 4", "0", "2 * t", "t - t", "min(t, 3)", "t + M", "t + moved"])
def test_places_that_steps_may_share_are_refused(place: str) -> None:
    with pytest.raises(WavespecError, match="effect-in-repeat"):
        spec(write=place)
