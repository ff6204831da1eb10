"""`topk`: elements in order and their places, of equal ones the first, on every machine, however they are spread."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import TORCH
from tests.lower.gemms import AMD, CPU, MACHINES, NVIDIA
from tests.ops.extremes import Extremes
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
INF, NAN = float("inf"), float("nan")


def names(machine: Machine) -> str:
    return machine.variant


@pytest.mark.parametrize("machine", MACHINES, ids=names)
@pytest.mark.parametrize("sizes", [(8, 128), (7, 70), (9, 191), (2, 3), (0, 9), (2, 0)], ids=str)
def test_rows_of_any_length(machine: Machine, sizes: tuple[int, int]) -> None:
    """Where there are fewer elements than wanted, the rest is what it started from."""
    extremes = Extremes(5)
    extremes.check(machine, extremes.x(sizes))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "i64", "i32", "i8", "bool"])
@pytest.mark.parametrize("largest", [True, False])
def test_every_type(machine: Machine, dtype: str, largest: bool) -> None:
    extremes = Extremes(3, largest, dtype=dtype)
    extremes.check(machine, extremes.x((3, 75)))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("largest", [True, False])
def test_no_numbers_and_zeros_and_infinities(machine: Machine, dtype: str, largest: bool) -> None:
    x = torch.tensor([[1, NAN, 3, NAN], [-0.0, 0.0, -0.0, 0.0], [INF, -INF, INF, -INF], [-INF] * 4, [INF] * 4])
    extremes = Extremes(3, largest, dtype=dtype)
    extremes.check(machine, x.to(TORCH[dtype]))
    elements, _ = reference(extremes.spec, x.to(TORCH[dtype]))
    if largest:
        torch.testing.assert_close(elements.float(), x.topk(3).values, equal_nan=True)


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("largest", [True, False])
def test_the_least_of_all_integers_is_one_of_them(machine: Machine, largest: bool) -> None:
    """Elements that are taken, and places beyond the edge, count as less than any."""
    few = [[-(2**63)] * 5, [2**63 - 1, -(2**63), 2**63 - 2, -(2**63), 0], [2**62, 2**62 + 1, 2**62, 3, 2**62 + 1]]
    extremes = Extremes(3, largest, dtype="i64", start=1 - 2**63 if largest else 2**63 - 1)
    extremes.check(machine, torch.tensor(few))


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("count", [1, 8, 64])
def test_as_many_as_wanted(machine: Machine, count: int) -> None:
    extremes = Extremes(count, wave=(1, 64))
    extremes.check(machine, extremes.x((2, 130)))


@pytest.mark.parametrize("machine", EACH, ids=names)
def test_columns(machine: Machine) -> None:
    extremes = Extremes(4, dim="M", tile=(8, 256), wave=(8, 256))
    extremes.check(machine, extremes.x((21, 300)))


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_waves_along_the_dim_meet_in_shared_memory(machine: Machine, dtype: str) -> None:
    extremes = Extremes(3, dtype=dtype, tile=(2, 512), wave=(1, 128))
    extremes.check(machine, extremes.x((5, 700)))


@settings(max_examples=20, deadline=None)
@given(data=st.data(), machine=st.sampled_from(EACH), dim=st.sampled_from(["M", "N"]), count=st.integers(1, 5))
def test_no_way_to_spread_the_elements_changes_the_result(
    data: st.DataObject, machine: Machine, dim: str, count: int
) -> None:
    dtype = data.draw(st.sampled_from(("f32", "f64")))
    tile = [data.draw(st.sampled_from(sizes)) for sizes in ((1, 2, 8), (32, 64, 256))]
    wave = [max(1, extent // data.draw(st.sampled_from((1, 2, 4)))) for extent in tile]
    extremes = Extremes(count, dim=dim, dtype=dtype, tile=(tile[0], tile[1]), wave=(wave[0], wave[1]))
    extremes.check(machine, extremes.x((data.draw(st.integers(0, 20)), data.draw(st.integers(0, 300)))))


SPECIAL = [
    [1, NAN, 3, NAN, -NAN],
    [-0.0, 0.0, -1.0, 0.0, -0.0],
    [INF, -INF, INF, 2, 2],
    [-INF] * 5,
    [1e-40, 0, -1e-40, 1, -1],
]


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("least", [0, 5])
def test_rows_of_one_tile_are_sorted(machine: Machine, dtype: str, largest: bool, least: int) -> None:
    """Rows that fit a tile, of which each lane sorts what it has: whole numbers of which many are equal, all of them,
    or one more than nothing; and numbers that are none."""
    extremes = Extremes(5, largest, dtype=dtype, tile=(4, 256), wave=(1, 256), most=256, least=least)
    for width in (least, 5, 100, 256):
        extremes.check(machine, extremes.x((7, width)))
    falling = torch.arange(256.0).flip(0).remainder(300 if dtype == "f32" else 100)
    extremes.check(machine, torch.stack([falling, falling.flip(0), torch.zeros(256)]).to(TORCH[dtype]))
    if dtype != "i32":
        extremes.check(machine, torch.tensor(SPECIAL).to(TORCH[dtype]))


@pytest.mark.parametrize("machine", GPUS, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("largest", [True, False])
def test_tiles_are_compared_with_what_is_found(machine: Machine, dtype: str, largest: bool) -> None:
    """Rows of several whole tiles: what they start from makes way for elements like it, which are somewhere; and those
    that are found stay in front of later ones like them."""
    extremes = Extremes(5, largest, dtype=dtype, tile=(4, 128), wave=(1, 128))
    rows = [[(-100 if largest else 100) if dtype == "i32" else -INF if largest else INF] * 512, [7] * 512]
    rows += [[*range(100), *([99] * 400), *range(100, 112)], [*range(128, 0, -1)] * 4, [0] * 511 + [1]]
    extremes.check(machine, torch.tensor(rows).to(TORCH[dtype]))
    if dtype != "i32":
        extremes.check(machine, torch.tensor([[NAN] * 3 + [1.0] * 509, [1.0] * 130 + [NAN] * 382]).to(TORCH[dtype]))


def test_ranks_of_elements_of_16_bits_are_found_by_words() -> None:
    """Where an instruction joins what lanes have, one of 32 bits is enough; of f32 there are two."""
    for dtype, bits in (("bf16", 32), ("f16", 32), ("f32", 64)):
        extremes = Extremes(5, dtype=dtype, tile=(4, 256), wave=(1, 256), most=256, least=5)
        joins = [op for op in lower(extremes.spec, NVIDIA).walk() if op.name == "join_lanes"]
        assert [op.result.vector.dtype.bits for op in joins] == [bits] * 5


WIDE = Extremes(3, tile=(2, 512), wave=(1, 128))
BUGS = {
    "ranks that not every wave has laid down": dropped("barrier", 0),
    "lanes that leave out others": altered("join_lanes", "lanes", lambda lanes: lanes // 2),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug: str) -> None:
    x = torch.randn(5, 700, generator=torch.Generator().manual_seed(0))
    report, right = WIDE.run(NVIDIA, x, BUGS[bug](lower(WIDE.spec, NVIDIA)))
    assert not report.ok or (report.tensors["places"] != right["places"]).any()


def test_a_dim_of_any_size_is_not_how_many() -> None:
    text = """apiVersion: wavespec/v1
kind: Kernel
name: extremes
dims: {M: {}, N: {value: 64}, K: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, K], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
graph:
  - whole: {read: x}
  - found: {topk: whole, dim: N, k: K}
  - {write: found, to: y}
"""
    with pytest.raises(WavespecError, match=r"'topk' finds from 1 to 64 elements; 'K' has no size of its own."):
        loads(text)
    with pytest.raises(WavespecError, match=r"'topk' finds from 1 to 64 elements; 'K' is 65."):
        loads(text.replace("K: {}", "K: {value: 65}"))


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_a_tile_with_a_part_of_what_is_found_is_refused(tile: int) -> None:
    """Every tile would have the largest elements, not those of its places."""
    text = f"""apiVersion: wavespec/v1
kind: Kernel
name: parts
dims: {{M: {{}}, N: {{value: 64}}, K: {{value: 8}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, K], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{workgroup: K, tile: {tile}, axis: 1}}
graph:
  - whole: {{read: x}}
  - found: {{topk: whole, dim: N, k: K}}
  - {{write: found, to: y}}
"""
    message = rf"parts.wave.yaml:10:26: error\[found-apart\]: .* all 8 elements along 'K' at once; a tile of {tile} has"
    with pytest.raises(WavespecError, match=message):
        lower(loads(text, "parts.wave.yaml"), NVIDIA)


def test_the_builder_says_the_same() -> None:
    k = KernelBuilder("extremes")
    m, n, count = k.dim("M"), k.dim("N"), k.dim("K", value=5)
    x, elements = k.input("x", [m, n], "f32"), k.output("elements", [m, count], "f32")
    places = k.output("places", [m, count], "i64")
    k.workgroup(m, 4, axis=0)
    k.wave(m, 2)
    k.tiling(n, 64)
    k.wave(n, 64)
    worst = k.register("worst", [m, count], "f32", -INF)
    nowhere = k.register("nowhere", [m, count], "i64", 2147483647)
    with k.iterate("steps", n, element=worst, place=nowhere) as steps:
        part = k.read("part", x)
        k.topk("element", part, n, count, indices="place", init=(steps["element"], steps["place"]))
    k.write(steps["element"], elements)
    k.write(steps["place"], places)
    assert k.build() == Extremes(5).spec


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_row_that_is_there_at_once(machine: Machine, dtype: str) -> None:
    """Nothing was found before: there is no loop, and no ``init``."""
    spec = loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: first
dims: {{M: {{}}, N: {{value: 37}}, K: {{value: 5}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  elements: {{shape: [M, K], dtype: {dtype}, role: output}}
  places: {{shape: [M, K], dtype: i64, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
graph:
  - row: {{read: x}}
  - found: {{topk: row, dim: N, k: K, indices: place}}
  - {{write: found, to: elements}}
  - {{write: place, to: places}}
""",
        "first.wave.yaml",
    )
    x = torch.arange(9 * 37).reshape(9, 37).mul(7).remainder(11).to(TORCH[dtype])
    report = simulate(lower(spec, machine), machine, {"x": x.numpy()}, {"M": 9, "N": 37, "K": 5})
    assert report.ok, report.render()
    for name, right in zip(("elements", "places"), reference(spec, x), strict=True):
        assert report.tensors[name].tolist() == right.tolist()


FOUND_BEFORE = """apiVersion: wavespec/v1
kind: Kernel
name: joined
dims: {M: {}, N: {}, K: {value: 3}}
tensors:
  x: {shape: [M, N], dtype: DTYPE}
  at: {shape: [M, N], dtype: i32}
  elements: {shape: [M, K], dtype: DTYPE, role: output}
  places: {shape: [M, K], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {tiling: N, tile: 32}
  - {wave: N, tile: WAVE}
graph:
  - worst: {register: [M, K], dtype: DTYPE, value: -.inf}
  - nowhere: {register: [M, K], dtype: i32, value: 2147483647}
  - steps:
      iterate: N
      carry: {element: worst, place: nowhere}
      body:
        - part: {read: x}
        - known: {read: at}
        - element: {topk: part, dim: N, k: K, indices: place, places: known, init: [element, place], dtype: i32}
  - {write: steps.element, to: elements}
  - {write: steps.place, to: places}
"""


@pytest.mark.parametrize("machine", EACH, ids=names)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("wave", [32, 16])
def test_places_that_elements_have_already(machine: Machine, dtype: str, wave: int) -> None:
    """Of equal ones the first is that of the least place, wherever it lies."""
    spec = loads(FOUND_BEFORE.replace("DTYPE", dtype).replace("WAVE", str(wave)), "joined.wave.yaml")
    random = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, (5, 100), generator=random).to(TORCH[dtype])
    at = torch.stack([torch.randperm(1000, generator=random)[:100] for _ in range(5)]).to(torch.int32)
    tensors = {"x": x.numpy(), "at": at.numpy()}
    report = simulate(lower(spec, machine), machine, tensors, {"M": 5, "N": 100, "K": 3})
    assert report.ok, report.render()
    for name, right in zip(("elements", "places"), reference(spec, x, at), strict=True):
        assert report.tensors[name].tolist() == right.tolist()


def test_places_are_as_many_as_elements() -> None:
    text = FOUND_BEFORE.replace("DTYPE", "f32").replace("WAVE", "32").replace("at: {shape: [M, N]", "at: {shape: [N]")
    message = r"The places of 'part' are i32\[M, N\]; 'known' is i32\[N\]."
    with pytest.raises(WavespecError, match=message):
        loads(text)


def test_tiles_with_nothing_larger_take_no_step() -> None:
    extremes, falling = Extremes(4, wave=(1, 64)), torch.arange(512.0, 0, -1).expand(4, 512)
    few, many = (extremes.run(NVIDIA, x)[0].counts["join_lanes"] for x in (falling, falling.flip(1)))
    assert few < many / 3
