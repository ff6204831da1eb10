"""`argmax` and `argmin`: the first of equal elements, as torch has it, on every machine, however they are spread."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import TORCH
from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA
from tests.ops.extremes import Extremes
from tests.sim.planted_bugs import altered
from wavespec.pipeline import lower
from wavespec.schema.builder import KernelBuilder
from wavespec.sim.reference import reference
from wavespec.targets.machine import Machine

GPUS = [NVIDIA, AMD]
EACH = [*GPUS, CPU]
INF, NAN = float("inf"), float("nan")


def names(machine: Machine) -> str:
    return machine.variant


@pytest.mark.parametrize("machine", MACHINES, ids=names)
@pytest.mark.parametrize("sizes", [(8, 128), (7, 70), (1, 1), (5, 0), (9, 191)], ids=str)
def test_rows_of_any_length(machine: Machine, sizes: tuple[int, int]) -> None:
    extremes = Extremes()
    extremes.check(machine, extremes.x(sizes))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"])
def test_every_type(machine: Machine, largest: bool, dtype: str) -> None:
    extremes = Extremes(dtype=dtype, largest=largest, places="i32")
    extremes.check(machine, extremes.x((3, 75)))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("largest", [True, False])
def test_no_numbers_and_zeros_and_infinities(machine: Machine, dtype: str, largest: bool) -> None:
    x = torch.tensor(
        [[1, NAN, 3, NAN], [-0.0, 0.0, -0.0, 0.0], [INF, -INF, INF, -INF], [-INF] * 4, [3e38, -3e38, 0, 1]]
    ).to(TORCH[dtype])
    extremes = Extremes(dtype=dtype, largest=largest)
    extremes.check(machine, x)
    assert torch.equal(reference(extremes.spec, x)[1], x.argmax(1) if largest else x.argmin(1))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f64", "i64"])
def test_every_bit_of_64_decides(machine: Machine, dtype: str, largest: bool) -> None:
    few = [[2**62 + 1, 2**62, 2**62 + 1], [2**63 - 1, -(2**63), 0], [-(2**63)] * 3, [1 - 2**62, -(2**62), -1]]
    x = torch.tensor(few)
    if dtype == "f64":
        x = torch.tensor([[1 + 2**-52, 1, 1 + 2**-52], [5e-324, 0, -5e-324], [-1e308, 1e308, INF]], dtype=torch.float64)
    extremes = Extremes(dtype=dtype, largest=largest)
    extremes.check(machine, x)
    if dtype == "f64":
        assert torch.equal(reference(extremes.spec, x)[1], x.argmax(1) if largest else x.argmin(1))


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_columns(machine: Machine) -> None:
    extremes = Extremes(dim="M", tile=(8, 256), wave=(8, 256))
    extremes.check(machine, extremes.x((21, 300)))


@pytest.mark.parametrize("machine", GPUS, ids=names)
def test_waves_along_the_dim_meet_in_shared_memory(machine: Machine) -> None:
    extremes = Extremes(tile=(2, 512), wave=(1, 128))
    extremes.check(machine, extremes.x((5, 700)))


def test_places_that_lanes_mistake_show() -> None:
    extremes = Extremes()
    plant = altered("join_lanes", "lanes", lambda lanes: lanes // 2)
    report, right = extremes.run(NVIDIA, torch.arange(4.0 * 64).reshape(4, 64), plant(lower(extremes.spec, NVIDIA)))
    assert not report.ok or (report.tensors["places"] != right["places"]).any()


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("extremes")
    m, n = k.dim("M"), k.dim("N")
    x, elements = k.input("x", [m, n], "f32"), k.output("elements", [m], "f32")
    places = k.output("places", [m], "i64")
    k.workgroup(m, 4, axis=0)
    k.wave(m, 2)
    k.tiling(n, 64)
    k.wave(n, 64)
    worst, nowhere = k.register("worst", [m], "f32", -INF), k.register("nowhere", [m], "i64", 2147483647)
    with k.iterate("steps", n, element=worst, place=nowhere) as steps:
        part = k.read("part", x)
        k.argmax("place", part, n, extreme="element", init=(steps["place"], steps["element"]))
    k.write(steps["element"], elements)
    k.write(steps["place"], places)
    assert k.build() == Extremes().spec
