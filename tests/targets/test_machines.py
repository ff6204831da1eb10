"""Rules that every row of every target keeps, whatever the vendor."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from numpy.typing import NDArray

from wavespec.ir.expr import const
from wavespec.ir.layout import Arrangement, Digit, Swizzle
from wavespec.targets import TARGETS, Fragment, Machine, MatrixInstruction, machines
from wavespec.targets.machine import variants

MACHINES = [machine for target in TARGETS for machine in variants(target)]


def rows_where(wanted: Callable[[MatrixInstruction], bool]) -> list[ParameterSet]:
    """Parameters ``machine, row``."""
    every = [(machine, row) for machine in MACHINES for row in machine.instructions if wanted(row)]
    return [pytest.param(machine, row, id=f"{machine.variant}-{row.name}") for machine, row in every]


ROWS = rows_where(lambda row: True)
CPU_TILES = rows_where(lambda row: row.emit.split(":")[0] in ("fma", "mla", "dot2", "dot4", "inner"))
BIASED = rows_where(lambda row: bool(row.a.bias))


def cells(fragment: Fragment, dims: tuple[str, str], extents: tuple[int, int], lanes: int) -> NDArray[np.int64]:
    """How many (lane, register) pairs hold each element; `IndexError` for one beyond the extents."""
    offsets = list(fragment.layout.register_offsets())
    first, second = (
        np.array([o[dim] for o in offsets])[:, None] + fragment.layout.base_of(dim).evaluate({"lane": np.arange(lanes)})
        for dim in dims
    )
    held = np.zeros(extents, dtype=np.int64)
    np.add.at(held, np.broadcast_arrays(first, second, np.zeros((1, lanes)))[:2], 1)
    return held


@pytest.mark.parametrize(("machine", "row"), ROWS)
def test_every_element_is_held(machine: Machine, row: MatrixInstruction) -> None:
    held = cells(row.acc, ("m", "n"), (row.m, row.n), row.lanes)
    holders = row.lanes if row.adds_across else 1
    assert (held == holders).all(), (
        "an accumulator element lives in exactly one register, or every lane has a part of it"
    )
    for fragment, dims, extent in ((row.a, ("m", "k"), row.m), (row.b, ("n", "k"), row.n)):
        held = cells(fragment, dims, (extent, row.k), row.lanes)
        copies = row.lanes * fragment.layout.elements // (extent * row.k)
        assert (held == copies).all(), "replicated evenly"
        replicated = row.emit.startswith("fma") or row.adds_across or fragment.from_shared
        assert copies == 1 or replicated
    assert row.lanes % machine.lanes == 0


@pytest.mark.parametrize(("machine", "row"), ROWS)
def test_swapped_is_the_transposed_product(machine: Machine, row: MatrixInstruction) -> None:
    swapped = row.swapped()
    assert (swapped.m, swapped.n, swapped.k) == (row.n, row.m, row.k)
    assert swapped.emit == row.emit + ":swapped"
    lanes = row.lanes
    for ours, dims, theirs, others, extents in (
        (swapped.a, ("m", "k"), row.b, ("n", "k"), (row.n, row.k)),
        (swapped.b, ("n", "k"), row.a, ("m", "k"), (row.m, row.k)),
    ):
        np.testing.assert_array_equal(cells(ours, dims, extents, lanes), cells(theirs, others, extents, lanes))
    there, back = list(swapped.acc.layout.register_offsets()), list(row.acc.layout.register_offsets())
    assert [(c["n"], c["m"]) for c in there] == [(c["m"], c["n"]) for c in back]
    assert swapped.acc.layout.base_of("n") is row.acc.layout.base_of("m")
    again = swapped.swapped()
    assert (again.a, again.b, again.acc) == (row.a, row.b, row.acc)


@pytest.mark.parametrize(("machine", "row"), CPU_TILES)
def test_tile_rows_multiply_by_position(machine: Machine, row: MatrixInstruction) -> None:
    """Products in vector registers: register ``i·N + j`` of acc pairs registers ``i·K ..`` of a with registers ``j·K ..``
    of b."""
    depth = next((axis.extent for axis in row.a.layout.axes if axis.strides[0][0] == "k"), 1)
    a, b = list(row.a.layout.coordinates()), list(row.b.layout.coordinates())
    columns = len(b) // depth
    for register, place in enumerate(row.acc.layout.coordinates()):
        i, j = divmod(register, columns)
        for step in range(depth):
            left, right = a[i * depth + step], b[j * depth + step]
            assert (left["m"], right["n"], left["k"]) == (place["m"], place["n"], right["k"])


def test_names_sources_and_inputs() -> None:
    for machine in MACHINES:
        names = [row.name for row in machine.instructions]
        assert len(set(names)) == len(names)
        for row in machine.instructions:
            assert machine.instruction(row.name) is row
            assert row.source.startswith("https://")
            assert all(dtype.is_float == row.a.dtype.is_float for dtype in row.inputs)
            assert row.a.dtype == row.b.dtype or row.a.bias
        assert machine.instruction("no_such_row") is None


def test_auto_never_rounds() -> None:
    for row in machines("sm_90")[0].instructions:
        if "tf32" in row.name:
            assert row.inputs == () or not row.auto


def test_members_of_a_family_differ_in_what_the_row_names() -> None:
    machine = machines("sm_90")[0]
    family = [row for row in machine.instructions if row.family == "wgmma_m64n{n}k16_{dtype}"]
    assert {row.name for row in family} >= {"wgmma_m64n256k16_f16", "wgmma_m64n8k16_bf16"}
    for row in family:
        assert row.name == f"wgmma_m64n{row.n}k16_{row.a.dtype}" and row.b.dtype == row.a.dtype
        assert row.emit.endswith(f".m64n{row.n}k16.f32.{row.a.dtype}.{row.a.dtype}")
        assert row.acc.layout.elements == row.n // 2
    alone = machine.instruction("mma_m16n8k16_f16")
    assert alone is not None and alone.family == alone.name


def test_every_machine_multiplies_the_common_types() -> None:
    for machine in MACHINES:
        taken = {dtype.name for row in machine.instructions for dtype in row.inputs}
        assert {"f32", "f16", "bf16", "i8"} <= taken, machine.variant


@pytest.mark.parametrize(("machine", "row"), BIASED)
def test_a_bias_makes_every_input_unsigned(machine: Machine, row: MatrixInstruction) -> None:
    assert (row.a.dtype.name, row.b.dtype.name, row.a.bias) == ("u8", "i8", 128)
    assert [dtype.name for dtype in row.inputs] == ["i8"]
    assert row.b.bias == row.acc.bias == 0


def test_unknown_target() -> None:
    with pytest.raises(KeyError):
        machines("sm_00")


def test_cpu_variants_are_ordered_best_first() -> None:
    requires = [set(machine.requires) for machine in machines("cpu")]
    assert all(better > worse for better, worse in pairwise(requires))


@pytest.mark.parametrize("name", ["fma_f32_32x64x4", "fma_sums_f32_16x32x4"])
def test_fma_reads_of_shared_memory_hit_every_bank_at_most_once(name: str) -> None:
    """16-byte reads are served eight lanes at a time; two of them meet at a bank only when they read the same
    address."""
    row = machines("sm_90")[0].instruction(name)
    assert row is not None
    for fragment, dim, extent in ((row.a, "m", row.m), (row.b, "n", row.n)):
        arrangement = Arrangement((Digit(dim, extent, 1, 32), Digit("k", 32, 1, 1)), Swizzle(dim, "k", 4, 8, 1))
        assert fragment.layout.run_length("k") == 4
        for coordinate in list(fragment.layout.coordinates())[::4]:
            offset = arrangement.offset(coordinate)
            for first in range(0, 32, 8):
                addresses = {offset.substitute({"lane": const(lane)}).value for lane in range(first, first + 8)}
                assert len({address // 4 % 8 for address in addresses}) == len(addresses)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_asynchronous_copies_are_no_wider_than_accesses(machine: Machine) -> None:
    copies = machine.globals.async_copies
    assert all(0 < size <= machine.globals.access_bytes for size in copies.bytes)
    assert list(copies.bytes) == sorted(set(copies.bytes))
    assert copies.bytes or not copies.in_lane_order
