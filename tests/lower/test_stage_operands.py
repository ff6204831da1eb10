"""Computed operands of products: laid down where the machine reads them, zero beyond the edge."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, lines
from tests.lower.ir_text import Text
from tests.lower.ir_text import lines as text
from wavespec.ir.kernel import Kernel
from wavespec.lower.stage_operands import StageOperands
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

AMX, AVX2 = (next(m for m in machines("cpu") if m.variant == f"x86_64_{name}") for name in ("amx", "v3"))

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: chained
dims: {M: {}, N: {}, K: {max: 64}, D: {max: 64}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  v: {shape: [N, D], dtype: f16, space: shared}
  c: {shape: [M, D], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 96, axis: 0}
  - {wave: M, tile: 32}
  - {tiling: N, tile: 32}
  - {tiling: K, tile: 64}
  - {tiling: D, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - a_tile: {read: a}
  - nothing: {register: [M, D], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {acc: nothing}
      body:
        - b_tile: {read: b}
        - v_tile: {read: v}
        - zero: {register: [M, N], dtype: f32, value: 0}
        - products: {mma: [a_tile, b_tile, zero]}
        - weight: "f16(products + 1)"
        - acc: {mma: [weight, v_tile, acc]}
  - {write: steps.acc, to: c}
"""


def chained(*changes: tuple[str, str]) -> KernelSpec:
    """``c = (a · bᵀ + 1) · v``: what is added makes elements beyond the edge of N count, were they not zero."""
    spec = _TEXT
    for old, new in changes:
        assert old in spec
        spec = spec.replace(old, new)
    return loads(spec, "chained.wave.yaml")


def check(spec: KernelSpec, machine: Machine, sizes: dict[str, int]) -> Kernel:
    random = np.random.default_rng(0)
    shapes = {"a": "MK", "b": "NK", "v": "ND"}
    inputs = {
        name: random.integers(-2, 3, [sizes[dim] for dim in dims]).astype(np.float16) for name, dims in shapes.items()
    }
    kernel = lower(spec, machine)
    report = simulate(kernel, machine, inputs, sizes)
    assert report.ok, report.render()
    a, b, v = (inputs[name].astype(np.float64) for name in shapes)
    np.testing.assert_array_equal(report.tensors["c"], (a @ b.T + 1) @ v)
    return kernel


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU, AMX, AVX2], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("sizes", [(5, 7, 33, 9), (97, 0, 64, 64)], ids=str)
def test_products_of_products_are_exact(machine: Machine, sizes: tuple[int, ...]) -> None:
    check(chained(), machine, dict(zip("MNKD", sizes, strict=True)))


CHAIN = Text("""
    tile kernel @chained target gfx942 lanes 64
    symbol N in 0..4096 by 1
    symbol wave_M in 0..1 by 1
    symbol at_N in 0..4064 by 32
    split workgroup M 64 0
    split loop N 32 0
    plan "auto" stages 1 group 0
    wave wave_M 2
    grid [1]
    memory @v : f16 (N: [N], D: [32]) global input
    memory @c : f32 (M: [64], D: [32]) global output
""")
PRODUCT = """
    %weight = register {value = 1.0} : tile<M: 64, N: 32, f16>
    %v = read {memory = "v", origin = (("N", [at_N],), ("D", [0],),)} : tile<N: 32, D: 32, f16>
    %zero = register {value = 0.0} : tile<M: 64, D: 32, f32>
    %acc = mma %weight, %v, %zero {instruction = "f32_16x16x16_f16", k = "N", m = "M", n = "D"} : tile<M: 64, D: 32, f32>
"""


def test_operand_is_padded_written_and_read() -> None:
    first, v, zero, product = dedent(PRODUCT).strip().splitlines()
    staged = """
        %weight.1 = pad %weight {dim = "N", origin = (("N", [at_N],),), size = [N], value = 0} : tile<M: 64, N: 32, f16>
        write %weight.1 {memory = "weight.shared", origin = (("M", [0],), ("N", [0],),)}
        %weight.2 = read {memory = "weight.shared", origin = (("M", [0],), ("N", [0],),)} : tile<M: 64, N: 32, f16>
    """
    expected = "\n".join((first, v, zero, dedent(staged).strip(), product.replace("%weight", "%weight.2")))
    assert CHAIN.after(StageOperands(), AMD, PRODUCT) == text(expected)
    once = StageOperands()(CHAIN.kernel(PRODUCT), AMD)
    assert StageOperands()(once, AMD) is once, "what is read stays"


def test_what_is_read_directly_is_laid_down() -> None:
    actual = CHAIN.after(StageOperands(), AMD, PRODUCT.replace("{memory", "{direct = true, memory"))
    assert actual.count(" = pad ") == 2 and 'write %v.1 {memory = "v.shared"' in actual


def test_what_is_read_at_computed_places_is_laid_down_where_waves_take_turns() -> None:
    looked_up = PRODUCT.replace("= read {", "= read %place {").replace(
        "    %zero", '    %place = index {dim = "N", origin = (("N", [at_N],),)} : tile<N: 32, i32>\n    %zero', 1
    )
    first, read, place, *rest = dedent(looked_up).strip().splitlines()
    ordered = "\n".join((first, place, read, *rest))
    assert "v.shared" not in CHAIN.after(StageOperands(), AMD, ordered)
    in_turns = CHAIN.after(StageOperands(), CPU, ordered.replace("f32_16x16x16_f16", "dot2_i16_12x32x2"))
    assert 'write %v.1 {memory = "v.shared"' in in_turns


@pytest.mark.parametrize(
    ("machine", "instruction", "place", "rows"),
    [(AMD, "f32_16x16x16_f16", "[0]", 64), (CPU, "dot2_i16_12x32x2", "[0 - wave_M*32]", 32)],
    ids=["at once", "in turns"],
)
def test_waves_that_take_turns_lay_down_their_own_rows(
    machine: Machine, instruction: str, place: str, rows: int
) -> None:
    kernel = StageOperands()(CHAIN.kernel(PRODUCT.replace("f32_16x16x16_f16", instruction)), machine)
    assert [extent.value for extent in kernel.memory("weight.shared").shape] == [rows, 32]
    assert f'origin = (("M", {place},), ("N", [0],),)' in lines(kernel, "write")[0]


def test_sums_are_handed_on_in_registers_where_lanes_have_them_already() -> None:
    kernel = lower(
        chained(("tile: 96", "tile: 64"), ("{wave: M, tile: 32}", "{wave: M, tile: 64}")),
        NVIDIA,
        after="stage-operands",
    )
    assert lines(kernel, "extract") and not any(memory.name.startswith("weight") for memory in kernel.memories)
    (pad,) = lines(kernel, "pad")
    assert "value = 0" in pad and 'dim = "N"' in pad, "nothing beyond the edge of N counts"


def test_operands_stay_where_the_order_of_the_product_is_that_of_the_sums() -> None:
    kernel = lower(chained(), AMD, after="stage-operands")
    assert lines(kernel, "extract") and "weight.shared" not in [memory.name for memory in kernel.memories]


def test_whole_tiles_need_no_padding() -> None:
    spec = chained(("N: {}", "N: {multiple_of: 32}"))
    kernel = lower(spec, NVIDIA)
    assert not lines(kernel, "pad")
    check(spec, NVIDIA, {"M": 5, "N": 64, "K": 33, "D": 9})


def test_products_that_meet_are_the_same_way_round() -> None:
    kernel = lower(chained(), AMD, after="choose-instructions")
    assert len({line.split("instruction = ")[1].split(",")[0] for line in lines(kernel, "mma")}) == 1


def test_operand_from_outside_is_read_inside() -> None:
    kernel = lower(chained(), NVIDIA, after="split-reduction")
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [op["memory"] for op in kernel.body if op.name in ("copy", "read")] == ["a.shared"]
    assert "a.shared" in [op["memory"] for op in loop.walk() if op.name == "read"]


_WHOLE_NUMBERS = """\
apiVersion: wavespec/v1
kind: Kernel
name: quantized
dims: {M: {max: 48}, N: {}, K: {max: 64}, D: {max: 64}}
tensors:
  a: {shape: [M, K], dtype: i8}
  b: {shape: [N, K], dtype: i8}
  v: {shape: [N, D], dtype: i8}
  q: {shape: [M, D], dtype: i8}
  scale: {shape: [M], dtype: f32}
  c: {shape: [M, D], dtype: i32, role: output}
  d: {shape: [N, D], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 48, axis: 0}
  - {wave: M, tile: 48}
  - {tiling: N, tile: 96}
  - {tiling: K, tile: 64}
  - {tiling: D, tile: 64}
graph:
  - factor: {read: scale}
  - nothing: {register: [M, D], dtype: i32, value: 0}
  - loop:
      iterate: N
      carry: {acc: nothing}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - zero: {register: [M, N], dtype: i32, value: 0}
        - s: {mma: [a_tile, b_tile, zero]}
        - p: "i8(minimum(maximum(f32(s) * factor, -128), 127))"
        - v_tile: {read: v}
        - acc: {mma: [p, v_tile, acc]}
        - q_tile: {read: q}
        - none: {register: [N, D], dtype: i32, value: 0}
        - turned: {mma: [p, q_tile, none]}
        - {write: turned, to: d}
  - {write: loop.acc, to: c}
"""


@pytest.mark.rare
@pytest.mark.parametrize("machine", machines("cpu"), ids=lambda machine: machine.variant)
def test_whole_numbers_that_are_computed_are_biased_and_turned_as_products_want_them(machine: Machine) -> None:
    spec, random = loads(_WHOLE_NUMBERS), np.random.default_rng(1)
    shapes = {"a": (40, 50), "b": (100, 50), "v": (100, 40), "q": (40, 40)}
    given = {name: random.integers(-5, 6, shape).astype(np.int8) for name, shape in shapes.items()}
    scale = random.integers(-3, 4, 40).astype(np.float32)
    sizes = {"M": 40, "N": 100, "K": 50, "D": 40}
    report = simulate(lower(spec, machine), machine, {**given, "scale": scale}, sizes)
    assert report.ok, report.render()
    a, b, v, q = (one.astype(np.int64) for one in given.values())
    p = np.clip(a @ b.T * scale[:, None].astype(np.int64), -128, 127)
    assert np.array_equal(report.tensors["c"], p @ v)
    assert np.array_equal(report.tensors["d"], p.T @ q)


_FLOATS = (("i8(minimum(maximum(f32(s) * factor, -128), 127))", "f16(f32(s))"), ("i8", "f16"), ("i32", "f32"))
_COPIES = (("f16}", "f16, space: shared}"), ("graph:", "schedule: {stages: 2, waves: {producers: 1}}\ngraph:"))


@pytest.mark.parametrize(
    ("machine", "height", "changes"),
    [(NVIDIA, 64, ()), (NVIDIA, 128, _COPIES), (AMD, 64, ())],
    ids=["registers", "matrix unit", "MFMA"],
)
def test_products_may_sum_over_what_waves_split_for_others(
    machine: Machine, height: int, changes: tuple[tuple[str, str], ...]
) -> None:
    tiles = (("max: 48", f"max: {height}"), ("M, tile: 48", f"M, tile: {height}"), ("N, tile: 96", "N, tile: 64"))
    changes = (*_FLOATS, *tiles, (f"wave: M, tile: {height}", f"wave: M, tile: {height // 2}"), *changes)
    text, random = _WHOLE_NUMBERS, np.random.default_rng(2)
    for before, after in changes:
        text = text.replace(before, after)
    shapes = {"a": (height, 64), "b": (64, 64), "v": (64, 64), "q": (height, 64)}
    given = {name: random.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}
    kernel = lower(loads(text), machine)
    assert kernel.waves_along("M") == 2
    sizes = {"M": height, "N": 64, "K": 64, "D": 64}
    report = simulate(kernel, machine, {**given, "scale": np.ones(height, np.float32)}, sizes)
    assert report.ok, report.render()
    a, b, v, q = (one.astype(np.int64) for one in given.values())
    assert np.array_equal(report.tensors["c"], a @ b.T @ v)
    assert np.array_equal(report.tensors["d"], (a @ b.T).T @ q)
