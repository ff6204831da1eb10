"""`take`: elements at other places, on every machine, by registers, lanes and shared memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import AMD, AMD_COPYING, CPU, NVIDIA
from tests.ops.mapped_kernels import assert_exact
from tests.ops.takes import WAYS, Takes
from tests.sim.planted_bugs import altered, dropped
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.builder import KernelBuilder
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

GPUS = [NVIDIA, AMD]
EACH = [*GPUS, CPU]


def names(machine: Machine) -> str:
    return machine.variant


def steps(takes: Takes, machine: Machine) -> set[str]:
    """How elements get from lane to lane."""
    return {op.name for op in lower(takes.spec, machine).walk()} & {"shuffle", "barrier"}


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("n", [64, 24])
def test_every_way(machine: Machine, n: int) -> None:
    Takes(n=n).check(machine, 7)


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_rows_whose_size_is_known_at_the_call(machine: Machine) -> None:
    for n in (40, 64):
        Takes(n=n, known=False).check(machine, 5)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f64", "bf16", "i64", "i8", "bool", "f8e4m3fn"])
def test_every_size_of_element(machine: Machine, dtype: str) -> None:
    Takes(("halves_swapped", "odd", "looked_up"), dtype=dtype).check(machine, 9)


def test_torch_says_the_same() -> None:
    takes = Takes(("halves_swapped", "backwards", "even", "split", "turned"))
    x, p = takes.inputs(6)
    swapped, reverse, even, split, turned = (one.float() for one in reference(takes.spec, x, p))
    assert torch.equal(swapped, 2 * x.roll(32, 1)) and torch.equal(reverse, 2 * x.flip(1))
    assert torch.equal(even, 2 * x[:, ::2]) and torch.equal(split, 2 * x.reshape(6, 16, 4))
    assert torch.equal(turned, 2 * x.reshape(6, 4, 16).permute(2, 1, 0))


@pytest.mark.parametrize("machine", GPUS, ids=names)
def test_what_lanes_have_needs_no_memory(machine: Machine) -> None:
    assert steps(Takes(("neighbour", "split", "outside", "reordered")), machine) == set()
    assert steps(Takes(("halves_swapped", "backwards")), machine) == {"shuffle"}
    assert steps(Takes(("looked_up",)), machine) == {"barrier"}


@pytest.mark.parametrize("machine", GPUS, ids=names)
def test_waves_along_the_dim_meet_in_shared_memory(machine: Machine) -> None:
    takes = Takes(("halves_swapped", "neighbour", "first_half"), n=256, wave=(4, 64))
    takes.check(machine, 11)
    assert "barrier" in steps(takes, machine)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), machine=st.sampled_from([*EACH, AMD_COPYING]))
def test_no_way_to_spread_the_elements_changes_the_result(data: st.DataObject, machine: Machine) -> None:
    n, tile = data.draw(st.sampled_from((16, 40, 96, 128))), data.draw(st.sampled_from((1, 2, 8)))
    wave = data.draw(st.sampled_from([part for part in (1, 2, 4, 8) if part <= tile]))
    along = data.draw(st.sampled_from((0, n // 2, n // 4)))
    Takes((data.draw(st.sampled_from(list(WAYS))),), n=n, tile=tile, wave=(wave, along)).check(
        machine, data.draw(st.integers(0, 17))
    )


CHAIN = """apiVersion: wavespec/v1
kind: Kernel
name: takes
dims: {M: {}, N: {value: 64}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {wave: M, tile: 4}
graph:
  - part: {read: x}
  - before: {take: part, at: {N: N - 1}}
  - total: part + before
  - again: {take: total, at: {N: N - 2}}
  - result: total + again
  - {write: result, to: y}
"""


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_one_after_another(machine: Machine) -> None:
    assert_exact(loads(CHAIN), machine, {"M": 13, "N": 64})


PRODUCT = """apiVersion: wavespec/v1
kind: Kernel
name: takes
dims: {M: {}, N: {value: 64}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - shifted: {take: k_loop.acc, at: {N: N - 1}}
  - result: k_loop.acc + shifted
  - {write: result, to: y}
"""


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_sums_of_products(machine: Machine) -> None:
    assert_exact(loads(PRODUCT), machine, {"M": 70, "N": 64, "K": 40})


ALL_ROWS = """apiVersion: wavespec/v1
kind: Kernel
name: takes
dims: {M: {}, N: {value: 64}}
tensors:
  x: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  p: {shape: [N], dtype: i32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {wave: M, tile: 4}
graph:
  - part: {read: x}
  - weights: {read: w}
  - place: {read: p}
  - doubled: weights + weights
  - other: {take: doubled, at: {N: place}}
  - result: part + other
  - {write: result, to: y}
"""


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize("is_planted", [False, True])
def test_one_wave_lays_down_what_all_of_them_have(machine: Machine, is_planted: bool) -> None:
    spec, numbers = loads(ALL_ROWS), np.arange(64)
    arrays = {"x": np.zeros((8, 64), np.float32), "w": numbers.astype(np.float32), "p": numbers[::-1].astype(np.int32)}
    kernel = lower(spec, machine)
    if is_planted:
        kernel = altered("store", "mask", lambda _: (), memory="doubled.taken")(kernel)
    report = simulate(kernel, machine, arrays, {"M": 8, "N": 64})
    assert np.array_equal(report.tensors["y"], np.tile(2 * numbers[::-1], (8, 1)))
    assert report.kinds() == ({"race"} if is_planted else set())


BUGS = {
    "elements that not every lane has laid down": (("looked_up",), dropped("barrier", 0)),
    "lanes that ask another one": (("halves_swapped",), altered("shuffle", "bits", lambda mask: mask ^ 1)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug: str) -> None:
    ways, plant = BUGS[bug]
    takes = Takes(ways, n=256, wave=(4, 64)) if bug.startswith("elements") else Takes(ways)
    report, wrong = takes.run(NVIDIA, 8, plant(lower(takes.spec, NVIDIA)))
    assert wrong or not report.ok


def refused(text: str, machine: Machine = NVIDIA) -> str:
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "takes.wave.yaml"), machine)
    return str(caught.value)


def test_parts_of_what_is_taken_are_refused() -> None:
    message = refused(CHAIN.replace("{wave: M, tile: 4}", "{workgroup: N, tile: 32, axis: 1}"))
    assert (
        "takes.wave.yaml:13:13: error[taken-apart]: A workgroup, or a step of a loop, has a part of 'part'" in message
    )


def test_what_does_not_fit_is_refused() -> None:
    message = refused(
        CHAIN.replace("value: 64", "value: 4096").replace("tile: 4", "tile: 1").replace("tile: 8", "tile: 16")
    )
    assert "error[shared-memory-exceeded]: The values that are handed on need 524768 bytes" in message
    assert "part: 16*4096 x 4 bytes" in message and message.endswith("hint: Use smaller tiles.")


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("takes")
    m, n = k.dim("M"), k.dim("N", value=64)
    x, y = k.input("x", [m, n], "f32"), k.output("y", [m, n], "f32")
    k.workgroup(m, 8, axis=0)
    k.wave(m, 4)
    part = k.read("part", x)
    before = k.take("before", part, at={"N": n - 1})
    total = k.formula("total", part + before)
    again = k.take("again", total, at={"N": n - 2})
    k.write(k.formula("result", total + again), y)
    assert k.build() == loads(CHAIN)
