"""Beside waves that only copy, the others meet among themselves where they hand on values through shared memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.hopper_gemms import PING_PONG, TOGETHER
from tests.ops.mapped_kernels import whole_numbers
from tests.sim.planted_bugs import dropped
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.lower.place_barriers import PlaceBarriers
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate

PERSISTENT = f"{TOGETHER}, workgroups: {{persistent: true}}"

TAKE = """apiVersion: wavespec/v1
kind: Kernel
name: shifted
dims: {M: {}, N: {value: 64}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
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
schedule: {stages: 2, SCHEDULE}
"""

ATTENTION = """apiVersion: wavespec/v1
kind: Kernel
name: two_products
dims: {M: {}, N: {value: 64}, K: {value: 64}, T: {multiple_of: 8}}
tensors:
  q: {shape: [M, K], dtype: f16, space: shared}
  k: {shape: [T, K], dtype: f16, space: shared}
  v: {shape: [T, N], dtype: f16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {tiling: T, tile: 64}
  - {wave: M, tile: 64}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - t_loop:
      iterate: T
      carry: {acc: zero}
      body:
        - q_tile: {read: q}
        - k_tile: {read: k}
        - none: {register: [M, T], dtype: f32, value: 0}
        - s: {mma: [q_tile, k_tile, none]}
        - p: f16(s)
        - v_tile: {read: v}
        - acc: {mma: [p, v_tile, acc]}
  - {write: t_loop.acc, to: y}
schedule: {stages: 2, SCHEDULE}
"""

PRODUCT_OF_SUMS = """        - q_tile: {read: q}
        - k_tile: {read: k}
        - none: {register: [M, T], dtype: f32, value: 0}
        - s: {mma: [q_tile, k_tile, none]}
        - p: f16(s)
"""
ROWS = "  q: {shape: [M, K], dtype: f16, space: shared}\n  k: {shape: [T, K], dtype: f16, space: shared}\n"
OF_TENSOR = ATTENTION.replace(PRODUCT_OF_SUMS, "        - w_tile: {read: w}\n        - p: f16(w_tile + 1)\n")
OF_TENSOR = OF_TENSOR.replace(ROWS, "  w: {shape: [M, T], dtype: f32}\n").replace(" K: {value: 64},", "")
"""A left operand that follows no sums: no lane has what the instruction wants from it."""

KERNELS = {"take": TAKE, "computed": OF_TENSOR}


def lowered(text: str, schedule: str = TOGETHER) -> Kernel:
    return lower(loads(text.replace("SCHEDULE", schedule), "kernel.wave.yaml"), NVIDIA)


def run(text: str, kernel: Kernel, order: Order = "forward") -> tuple[SimulationReport, np.ndarray]:
    """The report, and what the reference has; sums of whole numbers are exact."""
    spec = loads(text.replace("SCHEDULE", TOGETHER))
    sizes = {dim: size for dim, size in {"M": 72, "N": 64, "K": 64, "T": 136}.items() if dim in spec.dims}
    inputs = whole_numbers(spec, sizes)
    names = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    arrays = {
        name: tensor.numpy().astype(numpy_dtype(DTYPES[spec.tensors[name].dtype]))
        for name, tensor in zip(names, inputs, strict=True)
    }
    return simulate(kernel, NVIDIA, arrays, sizes, order=order), np.asarray(reference(spec, *inputs))


def barriers(kernel: Kernel) -> list[tuple[str, int]]:
    return [(str(op["first"]), op["waves"]) for op in kernel.walk() if op.name == "barrier" and op["waves"] > 1]


@pytest.mark.parametrize("schedule", [TOGETHER, PERSISTENT])
@pytest.mark.parametrize("name", KERNELS)
def test_values_that_go_through_shared_memory_are_right(name: str, schedule: str) -> None:
    kernel = lowered(KERNELS[name], schedule)
    assert kernel.producers == 1 and set(barriers(kernel)) == {("0", 2)}, "the wave that copies does not come"
    for order in ("forward", "reverse"):
        report, expected = run(KERNELS[name], kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("name", KERNELS)
def test_without_their_barriers_waves_race(name: str) -> None:
    report, _ = run(KERNELS[name], dropped("barrier", waves=2)(lowered(KERNELS[name])))
    assert "race" in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("name", KERNELS)
def test_the_hardware_counts_the_lanes_of_the_waves_that_meet(name: str) -> None:
    text = emit(loads(KERNELS[name].replace("SCHEDULE", TOGETHER)), NVIDIA).text
    meeting = set(re.findall(r"nvvm\.barrier id = \S+ number_of_threads = (\S+)", text))
    lanes = {count for name, count in re.findall(r"(%\S+) = arith\.constant (\d+) : i32", text) if name in meeting}
    assert "256" in lanes <= {"128", "256"}, "a wave, or both that compute; never the 384 of the workgroup"


ROLES = """\
thread kernel @roles target sm_90 lanes 32
symbol lane in 0..31 by 1
symbol turn in 0..1 by 1
symbol wave_M in 0..1 by 1
symbol step in 0..7 by 1
plan "auto" stages 1 group 1
TURN
wave wave_M 2
producers 1
grid [1]
memory @out : f32 (d0: [32]) global output
memory @filled : f32 (d0: [32]) shared [d0/1: 32 by 1]
memory @own : f32 (d0: [32]) shared [d0/1: 32 by 1]
{
  role {first = WAVES, registers = 0, waves = 1} () do
    %zero = constant {value = 0.0} : f32x1
    store %zero {memory = "filled", offset = [lane]}
    yield
  end
  role {first = 0, registers = 0, waves = WAVES} () do
    for {induction = "step", lower = [0], step = [1], unroll = 1, upper = [8]} () do
      %part = load {memory = "filled", offset = [31 - lane]} : f32x1
      store %part {memory = "own", offset = [lane]}
      %loaded = load {memory = "own", offset = [31 - lane]} : f32x1
      if {mask = (([lane], [1],),)} () do
        store %loaded {memory = "out", offset = [lane]}
        yield
      end
      yield
    end
    yield
  end
}
"""


@pytest.mark.parametrize(("turn", "waves", "first"), [("", 2, "0"), ("wave turn 2", 4, "turn*2")])
def test_only_waves_of_one_role_and_turn_meet(turn: str, waves: int, first: str) -> None:
    text = ROLES.replace("TURN", turn).replace("WAVES", f"[{waves}]", 1).replace("first = 0", "first = [0]")
    kernel = PlaceBarriers()(parse_kernel(text.replace("WAVES", str(waves))), NVIDIA)
    assert barriers(kernel) == [(first, 2)] * 2, "one before the store of the next step, one before the load"
    (loop,) = (op for op in kernel.walk() if op.name == "for")
    assert [op.name for op in loop.body.ops] == ["load", "barrier", "store", "barrier", "load", "if"]


def refusal(text: str, schedule: str = TOGETHER) -> WavespecError:
    with pytest.raises(WavespecError) as caught:
        lowered(text, schedule)
    return caught.value


@pytest.mark.parametrize(("name", "value"), [("take", "shifted"), ("computed", "p")])
def test_waves_in_turn_have_no_memory_for_each(name: str, value: str) -> None:
    error = refusal(KERNELS[name], PING_PONG)
    assert error.code == "values-not-shared" and f"'{value}' is handed on" in str(error)


@pytest.mark.parametrize("schedule", [TOGETHER, PERSISTENT, PING_PONG])
def test_sums_that_are_multiplied_stay_in_the_lanes_that_have_them(schedule: str) -> None:
    kernel = lowered(ATTENTION, schedule)
    assert barriers(kernel) == [] and not any(memory.name.startswith("p.") for memory in kernel.memories)
    report, expected = run(ATTENTION, kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


Q_READ = "  - q_tile: {read: q}\n"
OUTSIDE = ATTENTION.replace(f"      {Q_READ}", "").replace("  - t_loop", f"{Q_READ}  - t_loop")


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_what_is_staged_in_front_of_all_loops_is_filled_once(order: Order) -> None:
    kernel = lowered(OUTSIDE)
    assert [(m.name, m.buffers) for m in kernel.memories if m.name in ("q.shared", "q.shared.full")] == [
        ("q.shared", 1),
        ("q.shared.full", 1),
    ]
    report, expected = run(OUTSIDE, kernel, order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


def test_what_is_filled_once_is_awaited() -> None:
    kernel = dropped("signal_wait", signal="q.shared.full")(lowered(OUTSIDE))
    assert "unwaited-copy" in run(OUTSIDE, kernel)[0].kinds()


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize("schedule", [PERSISTENT, PING_PONG])
def test_what_is_staged_in_front_of_a_loop_is_filled_again_for_the_next_tile(schedule: str, order: Order) -> None:
    kernel = lowered(OUTSIDE, schedule.replace("persistent: true", "persistent: true, count: 1"))
    signals = {m.name: m.buffers for m in kernel.memories if m.name.startswith("q.shared")}
    assert signals == {"q.shared": 2, "q.shared.full": 2, "q.shared.empty": 2}, "one for the next tile"
    report, expected = run(OUTSIDE, kernel, order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


def test_tiles_await_what_is_filled_again() -> None:
    kernel = lowered(OUTSIDE, PERSISTENT.replace("persistent: true", "persistent: true, count: 1"))
    assert "unwaited-copy" in run(OUTSIDE, dropped("signal_wait", signal="q.shared.full")(kernel))[0].kinds()


def test_only_operands_of_products_are_staged() -> None:
    more = "  x: {shape: [M, N], dtype: f32, space: shared}\n"
    text = TAKE.replace("  y:", f"{more}  y:").replace(
        "  - shifted: {take: k_loop.acc, at: {N: N - 1}}", "  - shifted: {read: x}"
    )
    error = refusal(text, PERSISTENT)
    assert error.code == "nothing-to-stage" and "no product reads 'x' as it is" in str(error)


def test_tiles_of_one_dim_are_not_staged() -> None:
    more = "  x: {shape: [N], dtype: f32, space: shared}\n"
    text = TAKE.replace("  y:", f"{more}  y:").replace(
        "  - shifted: {take: k_loop.acc, at: {N: N - 1}}", "  - shifted: {read: x}"
    )
    assert refusal(text.replace("stages: 2, SCHEDULE", "stages: 1")).code == "nothing-to-stage"


def test_waves_along_a_dim_of_no_product_are_refused() -> None:
    text = TAKE.replace("dims: {", "dims: {J: {value: 128}, ").replace(
        "  y:", "  x: {shape: [M, J], dtype: f32}\n  z: {shape: [M], dtype: f32, role: output}\n  y:"
    )
    text = text.replace(
        "  - {wave: M, tile: 64}", "  - {wave: M, tile: 64}\n  - {tiling: J, tile: 128}\n  - {wave: J, tile: 64}"
    )
    text = text.replace(
        "graph:\n", "graph:\n  - part: {read: x}\n  - total: {sum: part, dim: J}\n  - {write: total, to: z}\n"
    )
    error = refusal(text)
    assert [one.code for one in error.diagnostics] == ["products-repeated"]


BRANCH = """apiVersion: wavespec/v1
kind: Kernel
name: sometimes
dims: {M: {}, N: {multiple_of: 8}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  d: {shape: [SIDE, K], dtype: f16, space: SPACE}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - part: {mma: [a_tile, b_tile, acc]}
        - more:
            if: "start(K) < size(M) * 1000"
            carry: {both: part}
            body:
              - d_tile: {read: d}
              - both: {mma: [PRODUCT, both]}
        - acc: more.both * 1
  - {write: steps.acc, to: y}
schedule: {stages: 2, SCHEDULE}
"""
COMPUTED = """apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {M: {}, N: {multiple_of: 8}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  d: {shape: [N, K], dtype: f16}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - d_tile: {read: d}
        - twice: d_tile * 2
        - acc: {mma: [a_tile, twice, acc]}
  - {write: steps.acc, to: y}
schedule: {stages: 2, SCHEDULE}
"""
LEFT, RIGHT = "d_tile, b_tile", "a_tile, d_tile"


@pytest.mark.parametrize(
    "text",
    [
        *(
            BRANCH.replace("SIDE", "M").replace("PRODUCT", LEFT).replace("SPACE", space)
            for space in ("global", "shared")
        ),
        *(
            BRANCH.replace("SIDE", "N").replace("PRODUCT", RIGHT).replace("SPACE", space)
            for space in ("global", "shared")
        ),
        COMPUTED,
    ],
    ids=["left", "staged, left", "right", "staged, right", "computed, right"],
)
def test_what_a_branch_or_a_computation_has_the_waves_that_compute_lay_down(text: str) -> None:
    spec = loads(text.replace("SCHEDULE", TOGETHER))
    sizes = {"M": 72, "N": 72, "K": 136}
    inputs = whole_numbers(spec, sizes)
    names = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    arrays = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    report = simulate(lower(spec, NVIDIA), NVIDIA, arrays, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], np.asarray(reference(spec, *inputs)))
