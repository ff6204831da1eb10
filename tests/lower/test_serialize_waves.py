"""Waves as loops: what runs once, what runs per wave, and where sums wait between the steps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.test_nested_products import LOOP_IN_LOOP
from tests.kernels import Subject
from tests.lower.gemms import CPU, Gemm, run
from tests.lower.ir_text import Text
from tests.ops.epilogues import epilogue
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.parser import parse_kernel
from wavespec.lower.serialize_waves import SerializeWaves
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

AVX2 = next(machine for machine in machines("cpu") if machine.variant == "x86_64_v3")
TWO_BY_TWO = Gemm(dtype="f32", tile=(12, 32, 16), wave=(None, None))

# Two waves, one row each: the last two elements of the row that both read, newest last.  The first value is not zero, and nothing is
# ever added to it.
SHIFTED = """\
thread kernel @shifted target cpu lanes 1
symbol M in 0..64 by 1
symbol K in 0..64 by 1
symbol wg0 in 0..31 by 1
symbol wave_M in 0..1 by 1
symbol at_K in 0..60 by 4
split workgroup M 2 0
split loop K 4 0
plan "auto" stages 1 group 1
wave wave_M 2
grid [(M + 1)//2]
memory @a : f32 (K: [K]) global input staged
memory @c : f32 (M: [M], E: [2]) global output
memory @panel : f32 (K: [4]) shared [K/1: 4 by 1]
{
  %first = constant {value = 7.0} : f32x2
  %last = for %first {induction = "at_K", lower = [0], step = [4], unroll = 1, upper = [K]} : f32x2 (%carried : f32x2) do
    %row = load {memory = "a", offset = [at_K], valid = [K - at_K]} : f32x4
    store %row {memory = "panel", offset = [0]}
    %old = slice %carried {size = 1, start = 1} : f32x1
    %new = load {memory = "panel", offset = [wave_M]} : f32x1
    %next = pack %old, %new : f32x2
    yield %next
  end
  store %last {mask = (([wg0*2 + wave_M], [M],),), memory = "c", offset = [wg0*4 + wave_M*2]}
}
"""

# Two by two waves: a panel of columns for all of them, rows for those of one row.
PANELS = Text("""
    thread kernel @panels target cpu lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    symbol wg0 in 0..341 by 1
    symbol wg1 in 0..127 by 1
    symbol wave_M in 0..1 by 1
    symbol wave_N in 0..1 by 1
    symbol at_K in 0..4080 by 16
    symbol in_K in 0..15 by 1
    split workgroup M 12 0
    split workgroup N 32 1
    split loop K 16 0
    plan "auto" stages 1 group 0
    wave wave_M 2
    wave wave_N 2
    grid [(M + 11)//12]
    grid [(N + 31)//32]
    memory @a : f32 (M: [M], K: [K]) global input staged
    memory @b : f32 (N: [N], K: [K]) global input staged
    memory @c : f32 (M: [M], N: [N]) global output
    memory @a.shared : f32 (M: [6], K: [1]) shared [M/1: 6 by 1, K/1: 1 by 1]
    memory @b.shared : f32 (N: [32], K: [1]) shared [N/1: 32 by 1, K/1: 1 by 1]
""")
SUMS = """
    %zero = constant {value = 0.0} : f32x96
    %sums = for %zero {induction = "at_K", lower = [0], step = [16], unroll = 1, upper = [K]} : f32x96 (%acc : f32x96) do
      %b = load {memory = "b", offset = [at_K + wg1*32]} : f32x32
      store %b {memory = "b.shared", offset = [0]}
      %a = load {memory = "a", offset = [at_K + wave_M*6 + wg0*12]} : f32x6
      store %a {memory = "a.shared", offset = [0]}
      %acc.3 = for %acc {induction = "in_K", lower = [0], step = [1], unroll = 1, upper = [min(K - at_K, 16)]} : f32x96 (%acc.1 : f32x96) do
        %a_tile = load {memory = "a.shared", offset = [0]} : f32x6
        %b_tile = load {memory = "b.shared", offset = [wave_N*16]} : f32x16
        %acc.2 = mma %a_tile, %b_tile, %acc.1 {instruction = "fma_f32_6x16x1"} : f32x96
        yield %acc.2
      end
      yield %acc.3
    end
"""
STORED = '    store %sums {memory = "c", offset = [N*(wave_M*6 + wg0*12) + wave_N*16 + wg1*32]}\n'


def serialized(body: str, text: Text = PANELS) -> Kernel:
    return SerializeWaves()(text.kernel(body), AVX2)


# Sums of what functions make of two tensors, in steps of which there may be none.
ASKED = """\
apiVersion: wavespec/v1
kind: Kernel
name: asked
dims: {{M: {{}}, N: {{}}, K: {{max: 16}}}}
tensors:
  a: {{shape: [M, K], dtype: f32}}
  b: {{shape: [N, K], dtype: f32}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 12, axis: 0}}
  - {{workgroup: N, tile: 32, axis: 1}}
  - {{tiling: K, tile: 16}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - sums:
      {steps}
      carry: {{acc: zero}}
      body:
        - x: {{read: a}}
        - y: {{read: b}}
        - x_made: cos(x)
        - y_made: cos(y)
        - acc: {{mma: [x_made, y_made, acc]}}
  - {{write: sums.acc, to: c}}
"""


def nest(ops: tuple[Op, ...]) -> list[object]:
    """The loops by their inductions, and the memories that other operations store to."""
    shape: list[object] = []
    for op in ops:
        if op.region:
            shape.append([op["induction"], *nest(op.region.ops)])
        elif op.name in ("store", "accumulate", "mma") and shape[-1:] != [op.get("memory") or "mma"]:
            shape.append(op.get("memory") or "mma")
    return shape


def accumulated(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.name == "accumulate"]


def memories(kernel: Kernel) -> dict[str, str]:
    return {memory.name: memory.space for memory in kernel.memories}


def test_a_packed_panel_is_filled_once_and_rows_once_per_outer_wave() -> None:
    (loop,) = nest(serialized(SUMS + STORED).body)
    assert loop == ["at_K", "b.shared", ["wave_M", "a.shared", ["wave_N", ["in_K", "mma"], "c"]]]


def test_waves_that_have_no_rows_are_not_run() -> None:
    kernel = serialized(SUMS + STORED)
    outer = next(op for op in kernel.walk() if op.name == "for" and op["induction"] == "wave_M")
    assert [outer["upper"].evaluate({"M": m, "wg0": 1}) for m in (13, 18, 19, 24, 99)] == [1, 1, 2, 2, 2]
    assert kernel.waves == ()


def test_sums_that_start_at_zero_wait_in_the_output() -> None:
    kernel = serialized(SUMS + STORED)
    assert "private" not in memories(kernel).values()
    (sums,) = accumulated(kernel)
    assert (sums["memory"], str(sums["onto"][0][1])) == ("c", "at_K"), "the first step overwrites"
    assert [op["offset"] for op in kernel.walk() if op.name == "prefetch"] == [sums["offset"]]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (PANELS.changed(("symbol wave_M", "symbol wg2 in 0..9 by 1\n    symbol wave_M"), ("//32]\n", "//32]\n    grid [10]\n")), STORED),
        (PANELS, STORED.replace("store %sums", '%one = load {memory = "c", offset = [0]} : f32x1\nbind %one {symbol = "row"}\nstore %sums').replace("wave_N*16", "wave_N*16 + row")),
        (PANELS, '%twice = elementwise %sums, %sums {function = "add"} : f32x96\n' + STORED.replace("%sums", "%twice")),
    ],
    ids=["other workgroups store there", "the place is found behind the loop", "more is done with them"],
)  # fmt: skip
def test_other_sums_are_added_up_in_private_memory(text: Text, stored: str) -> None:
    text = text.changed(("symbol wave_M", "symbol row in 0..4096 by 1\n    symbol wave_M"))
    kernel = serialized(SUMS + stored, text)
    assert memories(kernel)["carried.0"] == "private" and kernel.memory("carried.0").elements.value == 4 * 96
    assert {op["memory"] for op in accumulated(kernel)} == {"carried.0"}
    assert {op.operands[0].vector.elements for op in accumulated(kernel)} == {AVX2.vector_bytes // 4}
    steps, after = nest(kernel.body)
    assert isinstance(steps, list) and steps[0] == "at_K"
    assert after == ["wave_M", ["wave_N", "c"]], "each wave's own when all steps are done"


def test_sums_that_start_elsewhere_wait_in_private_memory() -> None:
    kernel = serialized(SUMS.replace("value = 0.0", "value = -2.0") + STORED)
    assert kernel.memory("carried.0").elements.value == 4 * 96, "one place per wave"
    assert not accumulated(kernel)


def test_an_empty_sum_is_written() -> None:
    report, expected = run(TWO_BY_TWO.spec, AVX2, {"M": 7, "N": 5, "K": 0})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(("steps", "sums"), [("if: size(M) > 7", (0, 3)), ("repeat: size(M) - 7", (0, 6))])
def test_sums_of_no_step_are_zero_whatever_is_multiplied(steps: str, sums: tuple[int, int]) -> None:
    """A step in which nothing is loaded would add up the functions of 0."""
    kernel = lower(loads(ASKED.format(steps=steps), "asked.wave.yaml"), AVX2)
    for rows, total in zip((7, 9), sums, strict=True):
        tensors = {"a": np.zeros((rows, 3), np.float32), "b": np.zeros((5, 3), np.float32)}
        report = simulate(kernel, AVX2, tensors, {"M": rows, "N": 5, "K": 3})
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["c"], total)


def test_sums_that_change_places_are_not_added_up_where_they_are() -> None:
    text = ASKED.format(steps="repeat: size(M) - 7").replace("acc: zero}", "acc: zero, other: zero}")
    body = "- t: {mma: [x_made, y_made, other]}\n        - other: {mma: [x_made, y_twice, acc]}\n        - acc: t"
    text = text.replace("- acc: {mma: [x_made, y_made, acc]}", "- y_twice: y_made + y_made\n        " + body)
    tensors = {"a": np.zeros((9, 3), np.float32), "b": np.zeros((5, 3), np.float32)}
    report = simulate(lower(loads(text, "asked.wave.yaml"), AVX2), AVX2, tensors, {"M": 9, "N": 5, "K": 3})
    np.testing.assert_array_equal(report.tensors["c"], 6 + 3)


@pytest.mark.parametrize("place", ["row", "M // 2", "M + N, N: 0"])
def test_sums_whose_places_may_meet_do_not_wait_there(place: str) -> None:
    """One of the elements is to stay, not their sum; and places that values say are found behind the loop."""
    text = TWO_BY_TWO.text.replace("M, N], dtype: f32, role: output", "N, H], dtype: f32, role: inout")
    text = text.replace("dims:\n", "dims:\n  H: {}\n").replace("to: c}", f"to: c, at: {{H: {place}}}}}")
    if place == "row":
        text = text.replace("  c: {", "  rows: {shape: [M], dtype: i32}\n  c: {")
        text = text.replace("  - {write:", "  - row: {read: rows}\n  - {write:")
    kernel = lower(loads(text), AVX2)
    assert {op["memory"] for op in kernel.walk() if op.name == "accumulate"} == {"carried.0"}


@pytest.mark.parametrize("machine", [CPU, AVX2], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("value", [0, -2])
def test_sums_over_several_steps_are_exact(value: int, machine: object) -> None:
    rows, columns = (12, 32) if machine is AVX2 else (24, 64)
    gemm = Gemm(dtype="f32", tile=(rows, columns, 16), wave=(None, None), value=value)
    report, expected = run(gemm.spec, machine, {"M": rows + 5, "N": columns + 3, "K": 37})  # pyright: ignore[reportArgumentType]
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_values_that_are_not_sums_wait_in_private_memory() -> None:
    given = parse_kernel(SHIFTED)
    actual = SerializeWaves()(given, CPU)
    shape = [["wave_M", "carried.0"], ["at_K", "panel", ["wave_M", "carried.0"]], ["wave_M", "c"]]
    assert nest(actual.body) == shape
    row = np.arange(1, 7, dtype=np.float32)
    report = simulate(actual, CPU, {"a": row}, {"M": 3, "K": 6})
    assert report.ok, report.render()
    # Steps of four: wave 0 reads elements 0 and 4, wave 1 elements 1 and 5.
    np.testing.assert_array_equal(report.tensors["c"], [[1, 5], [2, 6], [1, 5]])


def test_machines_that_run_waves_together_keep_them() -> None:
    given = parse_kernel(SHIFTED)
    assert SerializeWaves()(given, machines("gfx942")[0]) is given


def test_private_sums_that_do_not_fit_are_reported_at_the_tile() -> None:
    with pytest.raises(WavespecError) as caught:
        lower(epilogue("y: {relu: sums.acc}", tile=(960, 960, 16), wave=(960, 960)), AVX2)
    assert (
        str(caught.value)
        == """\
epilogue.wave.yaml:11:26: error[shared-memory-exceeded]: The staged tiles and values that are handed on need 3748544 bytes of shared memory; x86_64_v3 has 3145728.
    |
 11 |   - {workgroup: M, tile: 960, axis: 0}
    |                          ^^^
    = note: a: 6*16 x 4 bytes x 1 stage(s)
    = note: b: 960*16 x 4 bytes x 1 stage(s)
    = note: carried: 921600 x 4 bytes x 1 stage(s)
    = note: For cpu.
    = hint: Use smaller tiles or fewer stages."""
    )


def test_what_a_branch_stages_is_as_deep_as_in_a_loop_alone() -> None:
    """The scores of a block of keys do not depend on the columns of the output."""
    kernel = lower(Subject("attention_extend", "attention_extend").cases("cpu")[-1].spec, AVX2, after="serialize-waves")
    loops = [op for op in kernel.walk() if op.name == "for"]
    columns = [inner for loop in loops if loop["induction"] == "wave_E" for inner in loop.walk()]
    products = {op["induction"] for op in loops if any(inner.name == "mma" for inner in op.body.ops)}
    assert products == {"in_C", "in_N", "in_D"}
    assert {op["induction"] for op in columns if op.name == "for"} & products == {"in_C", "in_N"}


def test_nothing_is_loaded_that_nobody_uses() -> None:
    """What is read again in another turn, or carried and not used behind the loop, leaves no load behind."""
    kernel = lower(loads(LOOP_IN_LOOP), AVX2)
    used = {value.name for op in kernel.walk() for value in op.operands}
    used |= {value.name for op in kernel.walk() if op.region for value in op.region.yields}
    assert [op.result.name for op in kernel.walk() if op.name == "load" and op.result.name not in used] == []
