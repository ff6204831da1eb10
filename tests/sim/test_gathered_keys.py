"""Lanes of a wave that only copies gather rows for products: signals come when copies land, what places are made of is
loaded a step ahead, and the loop behind fills the same buffers by boxes; and mistakes put into such kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.hopper_gemms import TOGETHER
from tests.ops.mapped_kernels import arrays_of, whole_numbers
from tests.sim.planted_bugs import Bug, altered, dropped, planted, with_arrivals
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate

FEW = replace(NVIDIA, processors=2)
ORDERS: tuple[Order, ...] = ("forward", "reverse", 0, 1)
FEW_REGISTERS = "waves: {producers: 1, registers: {producer: 40, consumer: 112}}"
"""So few that the steps of both loops are one row."""
SCHEDULES = {
    "together": TOGETHER,
    "persistent": f"{TOGETHER}, workgroups: {{persistent: true, count: 1}}",
    "one row": f"{FEW_REGISTERS}, workgroups: {{persistent: true, count: 1}}",
}
TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: gathered
dims: {M: {}, N: {value: 64}, K: {value: 64}, C: {}, S: {}, F: {multiple_of: 8}}
tensors:
  q: {shape: [M, K], dtype: f16, space: shared}
  keys: {shape: [S, K], dtype: f16, space: shared}
  values: {shape: [S, N], dtype: f16, space: shared}
  slots: {shape: [C], dtype: i32, values: {min: 0, max: S - 1}}
  k: {shape: [F, K], dtype: f16, space: shared}
  v: {shape: [F, N], dtype: f16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {tiling: C, tile: 64}
  - {tiling: F, tile: 64}
  - {wave: M, tile: 64}
graph:
  - q_tile: {read: q}
  - zero: {register: [M, N], dtype: f32, value: 0}
  - cached:
      iterate: C
      carry: {acc: zero}
      body:
        - slot: {read: slots}
        - k_tile: {read: keys, dims: [C, K], at: {S: slot}}
        - v_tile: {read: values, dims: [C, N], at: {S: slot}}
        - none: {register: [M, C], dtype: f32, value: 0}
        - s: {mma: [q_tile, k_tile, none]}
        - scaled: maximum(acc, -1000000)
        - p: f16(s)
        - acc: {mma: [p, v_tile, scaled]}
  - fresh:
      iterate: F
      END
      carry: {acc: cached.acc}
      body:
        - k_tile: {read: k}
        - v_tile: {read: v}
        - none: {register: [M, F], dtype: f32, value: 0}
        - s: {mma: [q_tile, k_tile, none]}
        - scaled: maximum(acc, -1000000)
        - p: f16(s)
        - acc: {mma: [p, v_tile, scaled]}
  - {write: fresh.acc, to: y}
schedule: {stages: STAGES, SCHEDULE}
"""
SIZES = {"M": 300, "N": 64, "K": 64, "C": 200, "S": 90, "F": 136}


def text(schedule: str = TOGETHER, stages: int = 2, end: str = "") -> str:
    return TEXT.replace("SCHEDULE", schedule).replace("STAGES", str(stages)).replace("      END\n", end)


def run(
    spec_text: str, plant: Bug = lambda kernel: kernel, order: Order = "forward", **sizes: int
) -> tuple[SimulationReport, np.ndarray]:
    """The report, and what the reference has; sums of whole numbers are exact."""
    spec, chosen = loads(spec_text, "gathered.wave.yaml"), SIZES | sizes
    inputs = whole_numbers(spec, chosen)
    report = simulate(plant(lower(spec, FEW)), FEW, arrays_of(spec, inputs), chosen, order=order)
    return report, np.asarray(reference(spec, *inputs))


def kinds(report: SimulationReport, right: np.ndarray) -> set[str]:
    return report.kinds() | (set() if np.array_equal(report.tensors["y"], right) else {"wrong"})


@pytest.mark.parametrize("order", ORDERS[:2])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gathered_rows_and_boxes_behind_them(schedule: str, stages: int, order: Order) -> None:
    assert kinds(*run(text(SCHEDULES[schedule], stages), order=order)) == set()


@pytest.mark.parametrize("sizes", [{"C": 0}, {"F": 0}, {"C": 1, "F": 8}, {"C": 64, "F": 64}, {"M": 700}])
def test_any_number_of_steps(sizes: dict[str, int]) -> None:
    for schedule in ("persistent", "one row"):
        assert kinds(*run(text(SCHEDULES[schedule], 3), **sizes)) == set(), schedule


@pytest.mark.parametrize("schedule", ["persistent", "one row"])
def test_tiles_that_differ_in_steps(schedule: str) -> None:
    """Rounds of the buffers go on from loop to loop and from tile to tile, whatever is left of a round."""
    report, _ = run(text(SCHEDULES[schedule], 3, "      end: end(M)\n"), M=700, F=600)
    assert report.ok, report.render()


def computing(kernel: Kernel) -> list[str]:
    """The dims that the loops of the waves that multiply are over, in order."""
    consumer = [op for op in kernel.body if op.name == "role"][1]
    return [op["induction"] for op in consumer.body.ops if op.name == "for"]


def test_steps_of_both_loops_are_one_row_where_registers_are_few() -> None:
    """All first steps stand in front; the last one has the last product of both loops."""
    apart, together = (
        computing(lower(loads(text(schedule), "gathered.wave.yaml"), FEW)) for schedule in (TOGETHER, FEW_REGISTERS)
    )
    cached, fresh = ["at_C"] * 2, ["at_F"] * 2
    assert apart == [*cached, *cached, "at_C", *fresh, *fresh, "at_F"]
    assert together == [*cached, *fresh, *cached, *fresh, "at_F"]


def gathering(kernel: Kernel) -> Op:
    """The loop of the wave that copies, over what lanes gather."""
    return next(op for op in kernel.walk() if op.name == "for" and any(one.name == "copy_async" for one in op.body.ops))


def test_both_loops_fill_one_ring_for_each_operand() -> None:
    kernel = lower(loads(text(), "gathered.wave.yaml"), FEW)
    signals = {memory.name: memory.arrivals for memory in kernel.memories if memory.space == "signal"}
    assert signals == {
        "at_C-k_tile.full": 129,
        "at_C-k_tile.empty": 2,
        "at_C-v_tile.full": 129,
        "at_C-v_tile.empty": 2,
        "q.shared.full": 1,
    }
    assert sum(memory.space == "shared" and memory.staged for memory in kernel.memories) == 3


def test_places_are_loaded_once_and_a_step_ahead() -> None:
    loop = gathering(lower(loads(text(), "gathered.wave.yaml"), FEW))
    loads_of_slots = [number for number, op in enumerate(loop.body.ops) if op.get("memory") == "slots"]
    copies = [number for number, op in enumerate(loop.body.ops) if op.name == "copy_async"]
    assert min(loads_of_slots) > max(copies), "those of the next step, behind all copies of this one"
    assert len(loads_of_slots) == 1, "a lane makes the place of one row of keys and values"
    assert len(loop.body.arguments) == len(loads_of_slots)
    taken = [(op["lane"], op["lanes"]) for op in loop.body.ops if op.name == "from_lane"]
    assert taken == [(number, 8) for number in range(4)] * 2, "eight lanes copy a row each, a lane four rows of a tile"
    assert len(copies) == len(taken)


def wide() -> str:
    """Keys and queries of 256 bytes, twice what a row of the swizzle has."""
    return text().replace("K: {value: 64}", "K: {value: 128}")


def test_a_place_serves_all_pieces_of_a_row() -> None:
    loop = gathering(lower(loads(wide(), "gathered.wave.yaml"), FEW))
    taken = [op for op in loop.body.ops if op.name == "from_lane"]
    assert [(op["lane"], op["lanes"]) for op in taken] == [(number, 8) for number in range(4)] * 2
    copies = [op["memory"] for op in loop.body.ops if op.name == "copy_async"]
    assert copies == ["k_tile.shared"] * 8 + ["v_tile.shared"] * 4
    assert kinds(*run(wide(), K=128)) == set()


def test_landing_is_said_when_later_copies_are_issued() -> None:
    """Of three buffers; of two each wait makes it visible itself."""
    loop = gathering(lower(loads(text(stages=3), "gathered.wave.yaml"), FEW))
    steps = [op.name for op in loop.body.ops if op.name.startswith(("async", "fence", "signal_wait"))]
    said = ["signal_wait", "async_commit", "async_wait", "fence_async"]
    assert steps == said * 2
    assert [op["pending"] for op in loop.body.ops if op.name == "async_wait"] == [1, 1]


def late_places(kernel: Kernel) -> Kernel:
    """Copies go by the places of the step before."""
    loop = gathering(kernel)
    stale = tuple(replace(op, operands=loop.operands[:1]) if op.name == "bind" else op for op in loop.body.ops)
    return planted(lambda op: (replace(op, region=replace(op.body, ops=stale)),) if op is loop else (op,))(kernel)


def unseen(kernel: Kernel) -> Kernel:
    """Who waits for copies of lanes does not make them visible to the matrix unit."""
    return altered("signal_wait", "landed", lambda _: False, landed=True)(kernel)


def early(kernel: Kernel) -> Kernel:
    """Lanes that copy arrive at once."""
    return altered("signal_arrive", "landed", lambda _: False, landed=True)(kernel)


BUGS: dict[str, Bug] = {
    "signals come before copies land": early,
    "what has landed is not visible": unseen,
    "keys are not awaited": dropped("signal_wait", signal="at_C-k_tile.full"),
    "values are not awaited": dropped("signal_wait", signal="at_C-v_tile.full"),
    "buffers are filled while they are read": dropped("signal_wait", signal="at_C-k_tile.empty"),
    "buffers are given back by nobody": dropped("signal_arrive", signal="at_C-v_tile.empty"),
    "one arrival is missing": with_arrivals("at_C-k_tile.full", 128),
    "places of another step": late_places,
}


def in_every_row(kernel: Kernel) -> Kernel:
    """Rows that are to be left out are copied as well."""
    loop = gathering(kernel)

    def change(op: Op) -> tuple[Op, ...]:
        return (replace(op, attributes=(("function", "maximum"),), operands=op.operands[1:]),)

    def where(op: Op) -> bool:
        return op.name == "elementwise" and op["function"] == "where"

    body = tuple(one for op in loop.body.ops for one in (change(op) if where(op) else (op,)))
    return planted(lambda op: (replace(op, region=replace(op.body, ops=body)),) if op is loop else (op,))(kernel)


BY_LANES: dict[str, Bug] = {
    "the place of another lane": altered("from_lane", "lane", lambda lane: lane ^ 1),
    "groups of other lanes": altered("from_lane", "lanes", lambda lanes: lanes * 2),
}
LATE: dict[str, Bug] = {
    "landing is not awaited": altered("async_wait", "pending", lambda pending: pending + 1),
    "what has landed is not visible": dropped("fence_async"),
    "the last landing is not said": dropped("signal_arrive", 4, signal="at_C-v_tile.full"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_mistakes_are_found(bug: str) -> None:
    assert kinds(*run(text(stages=1), BUGS[bug])), bug


@pytest.mark.parametrize("bug", BY_LANES)
def test_mistakes_in_places_by_lanes_are_found(bug: str) -> None:
    assert kinds(*run(text(), BY_LANES[bug])), bug


def with_any_slots(plant: Bug) -> set[str]:
    """Numbers that are no rows say that there is nothing to copy."""
    anything = text().replace(", values: {min: 0, max: S - 1}", "")
    spec = loads(anything, "gathered.wave.yaml")
    q, keys, values, slots, *new = whole_numbers(spec, SIZES)
    slots = (slots % SIZES["S"]).int()
    slots[::3], slots[7], slots[151] = -1, SIZES["S"], 2**31 - 1
    inputs = [q, keys, values, slots, *new]
    report = simulate(plant(lower(spec, FEW)), FEW, arrays_of(spec, inputs), SIZES)
    return kinds(report, np.asarray(reference(spec, *inputs)))


def test_rows_that_do_not_exist_are_left_out() -> None:
    assert with_any_slots(lambda kernel: kernel) == set()
    assert with_any_slots(in_every_row)


@pytest.mark.parametrize("bug", LATE)
def test_mistakes_in_what_is_said_late_are_found(bug: str) -> None:
    assert kinds(*run(text(stages=3), LATE[bug])), bug
