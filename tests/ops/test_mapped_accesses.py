"""Reads and writes with an index mapping: every element where the mapping says, no more checks than needed."""

from __future__ import annotations

import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.empty_divisors import divided_by_empty
from tests.ops.mapped_kernels import assert_exact, copy, product
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Op
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ops import mapped_accesses
from wavespec.ops.mapped_pieces import MappedTensor
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference
from wavespec.targets.machine import Machine

MACHINES = pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
PLACES = {
    "itself": "{M: M}",
    "shifted": "{N: N + P}",
    "below": "{N: N - P, M: M - 1}",
    "reversed": '{M: "size(M) - 1 - M"}',
    "turned": "{N: (N + P) % size(N)}",
    "strided": "{N: N * 2 + 1}",
    "divided": "{M: M // 2, N: N // P}",
    "bounded": '{N: "min(N, size(N) - 1 - N)", M: "max(M - 2, 0)"}',
    "constant": "{M: 1}",
    "divided by what may be none": '{M: "M // max(row, 1)", N: "N % max(2, row)"}',
    "gathered": "{M: row}",
    "gathered by arithmetic": "{M: row * 2 - 1, N: (N + row) % P}",
}


@MACHINES
@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
def test_reads_are_those_of_whole_tensors(machine: Machine, at: str) -> None:
    assert_exact(copy(at), machine, {"M": 11, "N": 37, "V": 20})


@MACHINES
@pytest.mark.parametrize("at", ["{M: M - 2}", "{N: N + P}", "{M: (M + 1) % size(M)}", '{N: "size(N) - 1 - N"}'])
def test_writes_are_those_of_whole_tensors(machine: Machine, at: str) -> None:
    assert_exact(copy("{M: M}", at), machine, {"M": 11, "N": 37, "V": 40})


@MACHINES
def test_rows_are_scattered_to_places_that_are_loaded(machine: Machine) -> None:
    spec = copy("{M: M}", "{V: row}", result="V, N")
    generator = torch.Generator().manual_seed(3)
    places = torch.randperm(14, generator=generator)[:11] - 1  # one of them is outside
    sizes = {"M": 11, "N": 37, "V": 13}
    assert_exact_with(spec, machine, sizes, places)


LAID_OUT_ANEW = """\
apiVersion: wavespec/v1
kind: Kernel
name: laid_out_anew
dims: {N: {}, C: {}, H: {min: 1}, W: {min: 1}, P: {equals: H * W}}
tensors:
  x: {shape: [N, C, H, W], dtype: DTYPE, space: shared}
  y: {shape: [N, H, W, C], dtype: DTYPE, role: output}
constraints:
  - {workgroup: P, tile: 64, axis: 0}
  - {workgroup: C, tile: 64, axis: 1}
  - {workgroup: N, tile: 1, axis: 2}
  - {wave: P, tile: 16}
graph:
  - turned: {read: x, dims: [N, P, C], at: {H: P // size(W), W: P % size(W)}}
  - {write: turned, to: y, at: {H: P // size(W), W: P % size(W)}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@MACHINES
def test_what_lies_across_rows_is_turned_on_the_way_out(machine: Machine, dtype: str) -> None:
    spec = loads(LAID_OUT_ANEW.replace("DTYPE", dtype), "laid_out_anew.wave.yaml")
    blocks = [op for op in lower(spec, machine).walk() if op.name == "transpose"]
    assert bool(blocks) == (machine is CPU)
    assert_exact(spec, machine, {"N": 2, "C": 21, "H": 5, "W": 7})


def assert_exact_with(spec: object, machine: Machine, sizes: dict[str, int], places: torch.Tensor) -> None:
    from unittest import mock

    from tests.ops import mapped_kernels

    plain = mapped_kernels.whole_numbers

    def made(*arguments: object, **options: object) -> list[torch.Tensor]:
        x, _, v = plain(*arguments, **options)  # pyright: ignore
        return [x, places.int(), v]

    with mock.patch.object(mapped_kernels, "whole_numbers", made):
        assert_exact(spec, machine, sizes)  # pyright: ignore


@MACHINES
@pytest.mark.parametrize("index", ["i64", "u8"])
def test_places_may_be_of_any_integer_type(machine: Machine, index: str) -> None:
    assert_exact(copy("{M: row}", index=index), machine, {"M": 5, "N": 33, "V": 33}, low=0, high=7)


@MACHINES
def test_staged_operands_of_a_product_are_gathered_and_turned(machine: Machine) -> None:
    spec = product("{T: row}", '{N: "size(N) - 1 - N"}')
    assert_exact(spec, machine, {"M": 66, "N": 70, "K": 40, "T": 9})


@MACHINES
def test_places_of_staged_tiles_depend_on_places(machine: Machine) -> None:
    text = dump_yaml(product("{T: row}", "{N: N}"))
    twice = "- order: {read: rows}\n  - row: {read: rows, dims: [M], at: {M: order}}\n"
    spec = loads(text.replace("- row: {read: rows}\n", twice), "mapped.wave.yaml")
    assert len(spec.graph) == len(product("{T: row}", "{N: N}").graph) + 1
    assert_exact(spec, machine, {"M": 66, "N": 70, "K": 40, "T": 9})


def loads_of(kernel_ops: list[Op], memory: str) -> list[Op]:
    return [op for op in kernel_ops if op.name == "load" and op["memory"] == memory]


def test_what_is_inside_by_its_range_is_not_checked() -> None:
    kernel = lower(copy("{N: (N + P) % size(N)}"), AMD)
    assert {len(op["mask"]) for op in loads_of(list(kernel.walk()), "x")} == {2}, "the edges of the tile alone"
    kernel = lower(copy("{N: N - P}"), AMD)
    assert max(len(op["mask"]) for op in loads_of(list(kernel.walk()), "x")) == 4, "and both ends of the rows"


def test_neighbours_are_read_together() -> None:
    text = (
        dump_yaml(copy("{M: row, N: N + 8}"))
        .replace("N: {}", "N: {multiple_of: 8}")
        .replace("V: {}", "V: {multiple_of: 8}")
    )
    for machine, width in ((NVIDIA, 4), (AMD, 4), (CPU, 16)):
        kernel = lower(loads(text), machine)
        widths = {op.result.vector.elements for op in loads_of(list(kernel.walk()), "x")}
        assert max(widths) == width


def test_a_staged_tile_has_no_computed_place() -> None:
    spec = product("{T: row}", "{N: N}")
    text = dump_yaml(spec).replace("- row: {read: rows}", "- one: {read: rows}\n  - row: one + 1")
    with pytest.raises(WavespecError, match=r"computed-place.*'row', which is computed") as caught:
        lower(loads(text), NVIDIA)
    assert "arithmetic can stand in 'at' itself" in caught.value.diagnostics[0].hints[0]
    lower(loads(dump_yaml(spec).replace("{T: row}", "{T: row + 1}")), NVIDIA)


def test_printed_kernels_are_read_back() -> None:
    for stage in ("spec-to-tile", "mask-edges", "place-barriers"):
        kernel = lower(product("{T: row}", "{N: N}"), AMD, after=stage)
        assert parse_kernel(print_kernel(kernel)) == kernel


def test_the_reference_leaves_what_is_outside_as_zero() -> None:
    x, i, v = torch.ones(2, 3), torch.tensor([1, 7]), torch.zeros(3)
    got = reference(copy("{M: row}", index="i64"), x, i, v)
    assert got.tolist() == [[1, 1, 1], [0, 0, 0]]


@MACHINES
@pytest.mark.parametrize("place", ["K % size(M)", "K // size(M)", "(K - 5) % size(M)"])
@pytest.mark.parametrize("size", [0, 3])
def test_the_size_of_an_empty_dim_divides_as_one(machine: Machine, place: str, size: int) -> None:
    assert_exact(divided_by_empty(place), machine, {"M": size, "K": 20})


@MACHINES
@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
def test_ends_of_an_access_tell_what_all_elements_of_it_would(
    machine: Machine, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = copy(at, at.replace("row", "M"))
    kernel = print_kernel(lower(spec, machine))
    monkeypatch.setattr(mapped_accesses, "_neighbours", lambda *_: 1)
    assert print_kernel(lower(spec, machine)) == kernel


def test_places_of_neighbours_are_not_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large tiles took seconds: of what is 16 elements wide, two places are enough."""
    asked = list[object]()
    element = MappedTensor.element
    monkeypatch.setattr(MappedTensor, "element", lambda *given: asked.append(given) or element(*given))
    text = dump_yaml(copy("{N: N}")).replace("N: {}", "N: {multiple_of: 16}")
    lower(loads(text.replace("tile: 32", "tile: 256")), CPU)
    assert 0 < len(asked) <= 4 * 256 * 2 // 4
