"""Tiles in another order, of dims with an axis of their own or a shared one: the same result, each tile once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.gemms import MACHINES, NVIDIA
from tests.lower.test_fold_grid import TILES
from tests.lower.test_fold_grid import spec as five_axes
from wavespec.ir.kernel import Op
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.assign_tiles import AssignTiles
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

REVERSED = "count - 1 - index"
ZIG_ZAG = "index // 2 + index % 2 * (count - 1 - index // 2 * 2)"
DEALT = "index % PARTS * (count // PARTS) + min(index % PARTS, count % PARTS) + index // PARTS"


def spec(rows: str, columns: str = "", axis: int = 1, schedule: str = "{stages: 1}") -> KernelSpec:
    """Twice x[M, N], in tiles of 4 by 16 that come in these orders."""
    second = f", order: '{columns}'" if columns else ""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: twice
dims: {{M: {{}}, N: {{}}}}
params: {{PARTS: 4}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0, order: "{rows}"}}
  - {{workgroup: N, tile: 16, axis: {axis}{second}}}
graph:
  - part: {{read: x}}
  - double: "part * 2"
  - {{write: double, to: y}}
schedule: {schedule}
""",
        "twice.wave.yaml",
    )


def rows_in_turn(order: str, count: int) -> list[int]:
    """The tile of M of each workgroup along axis 0."""
    kernel = lower(spec(order), NVIDIA)
    found: list[int] = []
    for number in range(count):
        known = {"M": 4 * count, "N": 16, "launch0": number}
        known |= {op["symbol"]: op["value"].evaluate(known) for op in kernel.body if op.name == "let"}
        found.append(known["wg0"])
    return found


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9])
def test_workgroups_take_tiles_in_the_order_that_is_written(count: int) -> None:
    assert rows_in_turn(REVERSED, count) == [*range(count)][::-1]
    assert rows_in_turn(ZIG_ZAG, count) == [i // 2 if i % 2 == 0 else count - 1 - i // 2 for i in range(count)]
    assert sorted(rows_in_turn(DEALT, count)) == [*range(count)]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("columns", ["", REVERSED, ZIG_ZAG], ids=["same", "reversed", "zig_zag"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(22, 50), (4, 16), (1, 1), (0, 5)], ids=str)
def test_any_order_computes_every_element(sizes: tuple[int, int], axis: int, columns: str, machine: Machine) -> None:
    kernel = lower(spec(DEALT if sizes[0] > 4 else REVERSED, columns, axis), machine)
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    report = simulate(kernel, machine, {"x": x}, {"M": sizes[0], "N": sizes[1]})
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_workgroups_that_stay_take_tiles_in_order_too(axis: int) -> None:
    schedule = "{workgroups: {persistent: true, count: 3}}"
    kernel = lower(spec(ZIG_ZAG, REVERSED, axis, schedule), NVIDIA)
    x = np.random.default_rng(0).normal(size=(22, 50)).astype(np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, {"M": 22, "N": 50})
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()


def test_orders_and_shared_axes_are_part_of_the_text() -> None:
    kernel = lower(spec(ZIG_ZAG, axis=0), NVIDIA, after=AssignTiles.name)
    assert kernel.joined == (1,) and parse_kernel(print_kernel(kernel)) == kernel


@given(
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
    st.lists(st.sampled_from(["index", REVERSED, ZIG_ZAG, DEALT]), min_size=5, max_size=5),
    st.permutations(list(TILES)),
    st.sampled_from(["{stages: 1}", "{workgroups: {persistent: true, count: 5}}"]),
    st.sampled_from([machine for machine in MACHINES if machine.lanes > 1]),
)
def test_any_axes_and_orders_of_five_dims_compute_every_element(
    axes: list[int], orders: list[str], lines: list[str], schedule: str, machine: Machine
) -> None:
    text = dump_yaml(five_axes(4, 3, 2, 1, 0)).partition("constraints:")[0] + "params: {PARTS: 4}\nconstraints:\n"
    for dim, axis, order in zip(lines, axes, orders, strict=True):
        text += f"  - {{workgroup: {dim}, tile: {TILES[dim]}, axis: {axis}, order: '{order}'}}\n"
    text += (
        f"graph:\n  - x_tile: {{read: x}}\n  - double: x_tile * 2\n  - {{write: double, to: y}}\nschedule: {schedule}\n"
    )
    sizes = {"A": 7, "B": 3, "C": 2, "D": 5, "E": 20}
    x = np.random.default_rng(0).normal(size=tuple(sizes.values())).astype(np.float32)
    report = simulate(lower(loads(text, "twice.wave.yaml"), machine), machine, {"x": x}, sizes)
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()


@given(st.integers(1, 40), st.integers(1, 7))
def test_persistent_workgroups_are_dealt_ordered_tiles_back_and_forth(count: int, workers: int) -> None:
    """Each tile once; of tiles that fall in size by one, nobody has more than the others by a whole one."""
    kernel = lower(spec(REVERSED, axis=0, schedule=f"{{workgroups: {{persistent: true, count: {workers}}}}}"), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "for")
    found = list[list[int]]()
    for workgroup in range(min(count, workers)):
        known = _with_lets({"M": 4 * count, "N": 16, "workgroup": workgroup}, kernel.body)
        turns = range(loop["upper"].evaluate(known))
        found.append([_with_lets(known | {"round": turn}, loop.body.ops)["tile"] for turn in turns])
    assert sorted(tile for tiles in found for tile in tiles) == list(range(count))
    work = [sum(count - tile for tile in tiles) for tiles in found]
    assert max(work) - min(work) <= count, "the longest tile"


def _with_lets(known: dict[str, int], ops: Sequence[Op]) -> dict[str, int]:
    known = dict(known)
    for op in ops:
        if op.name == "let":
            known[op["symbol"]] = op["value"].evaluate(known)
    return known
