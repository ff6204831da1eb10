"""Matrix instructions, register operations and loops against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.simulated_kernels import AMD, CPU, NVIDIA, built, kernel, numbers, tensor
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr
from wavespec.ir.layout import Layout
from wavespec.ir.thread import ThreadBuilder
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.fragments import matrix_unit
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines
from wavespec.targets.matrix_instruction import Fragment


def product(machine: Machine, name: str):
    """One wave multiplies ``a[m, k]`` by ``b[n, k]``, element by element from and to memory."""
    instruction = matrix_unit(machine, name).instruction
    m, n, k = instruction.m, instruction.n, instruction.k
    memories = [
        tensor("A", "input", m, k, dtype=instruction.a.dtype.name),
        tensor("B", "input", n, k, dtype=instruction.b.dtype.name),
        tensor("C", "output", m, n, dtype=instruction.acc.dtype.name),
    ]
    header = kernel(machine, memories)

    def offsets(layout: Layout, row: str, column: str, width: int) -> list[Expr]:
        return [at[row] * width + at[column] for at in layout.coordinates()]

    def gather(build: ThreadBuilder, memory: str, fragment: Fragment, row: str, column: str, width: int):
        return build.pack(
            [build.load(memory, fragment.dtype, 1, at) for at in offsets(fragment.layout, row, column, width)]
        )

    def fill(build: ThreadBuilder) -> None:
        a = gather(build, "A", instruction.a, "m", "k", k)
        b = gather(build, "B", instruction.b, "n", "k", k)
        acc = build.constant(1, instruction.acc.dtype, instruction.acc.layout.elements)
        acc = build.mma(name, a, b, build.mma(name, a, b, acc))
        for register, at in enumerate(offsets(instruction.acc.layout, "m", "n", n)):
            build.store(build.slice(acc, register, 1), "C", at)

    return built(header, fill), instruction


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (AMD, "f32_16x16x16_f16"),
        (AMD, "f32_16x16x16_f16:swapped"),
        (AMD, "f32_32x32x8_bf16"),
        (AMD, "i32_16x16x32_i8"),
        (NVIDIA, "mma_m16n8k16_f16"),
        (NVIDIA, "mma_m16n8k16_f16:swapped"),
        (NVIDIA, "mma_m16n8k16_bf16"),
        (NVIDIA, "mma_m16n8k32_i8"),
        (NVIDIA, "fma_f32_32x64x4"),
        (NVIDIA, "fma_sums_f32_16x32x4"),
        (CPU, CPU.instructions[0].name),
    ],
)
def test_matrix_instruction_equals_numpy(machine: Machine, name: str) -> None:
    test, instruction = product(machine, name)
    a = numbers(instruction.m, instruction.k, dtype=numpy_dtype(instruction.a.dtype), seed=1)
    b = numbers(instruction.n, instruction.k, dtype=numpy_dtype(instruction.b.dtype), seed=2)
    report = simulate(test, machine, {"A": a, "B": b}, {})
    assert report.ok, report.render()
    expected = 1 + 2 * (a.astype(np.float64) @ b.astype(np.float64).T)
    np.testing.assert_array_equal(report.tensors["C"].astype(np.float64), expected)
    assert report.counts["mma"] == 2


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950", "cpu"])
def test_every_register_instruction_covers_its_matrices(target: str) -> None:
    for machine in machines(target):
        for instruction in machine.instructions:
            if not instruction.name.startswith("wgmma"):
                assert matrix_unit(machine, instruction.name).instruction is instruction


def test_lanes_that_disagree_about_a_shared_operand_are_found() -> None:
    name = "fma_f32_32x64x4"
    body = f"""
    %a = load {{memory = "A", offset = [lane*32]}} : f32x32
    %acc = constant {{value = 0.0}} : f32x64
    %d = mma %a, %a, %acc {{instruction = "{name}"}} : f32x64
    """
    test = kernel(NVIDIA, [tensor("A", "input", 32, 32)], body)
    assert simulate(test, NVIDIA, {"A": np.ones((32, 32), np.float32)}, {}).ok
    assert simulate(test, NVIDIA, {"A": numbers(32, 32)}, {}).kinds() == {"replica-mismatch"}


def test_unknown_matrix_instruction_is_refused() -> None:
    body = """
    %a = constant {value = 0.0} : f32x1
    %d = mma %a, %a, %a {instruction = "m1n1k1"} : f32x1
    """
    with pytest.raises(ValueError, match="has no matrix instruction 'm1n1k1'"):
        simulate(kernel(NVIDIA, [], body), NVIDIA, {}, {})


def test_transpose_pack_slice_and_cast() -> None:
    header = kernel(NVIDIA, [tensor("A", "input", 32, 6), tensor("B", "output", 32, 8, dtype="i32")])
    f32, i32 = DTYPES["f32"], DTYPES["i32"]
    lane = header.symbol("lane")

    def fill(build: ThreadBuilder) -> None:
        loaded = build.transpose(build.load("A", f32, 6, lane * 6), 2, 3)
        build.store(build.cast(build.pack([build.slice(loaded, 4, 2), loaded]), i32), "B", lane * 8)

    a = (np.arange(192, dtype=np.float32) - 96.5).reshape(32, 6)
    report = simulate(built(header, fill), NVIDIA, {"A": a}, {})
    turned = a.reshape(32, 2, 3).swapaxes(1, 2).reshape(32, 6)
    np.testing.assert_array_equal(report.tensors["B"], np.concatenate([turned[:, 4:], turned], 1).astype(np.int32))


def loop(upper: str, symbols: str = "symbol t in 0..7 by 2") -> str:
    return f"""
    %z = constant {{value = 0.0}} : f32x1
    %s = for %z {{induction = "t", lower = [0], upper = [{upper}], step = [2]}} : f32x1 (%p : f32x1) do
      %a = load {{memory = "A", offset = [t + lane]}} : f32x1
      yield %a
    end
    store %s {{memory = "B", offset = [lane]}}
    """


@pytest.mark.parametrize(("upper", "first"), [("8", 6), ("7", 6), ("1", 0)])
def test_loop_hands_on_its_last_value(upper: str, first: int) -> None:
    test = kernel(
        NVIDIA,
        [tensor("A", "input", 64), tensor("B", "output", 32)],
        loop(upper),
        symbols="symbol t in 0..7 by 2",
    )
    report = simulate(test, NVIDIA, {"A": np.arange(64, dtype=np.float32)}, {})
    assert report.ok and report.tensors["B"][0] == first


def test_loop_that_never_runs_hands_on_its_operand_and_sizes_are_symbols() -> None:
    symbols = "symbol t in 0..7 by 2\nsymbol K in 0..8 by 1"
    test = kernel(NVIDIA, [tensor("A", "input", 64), tensor("B", "output", 32)], loop("K"), symbols=symbols)
    report = simulate(test, NVIDIA, {"A": np.ones(64, np.float32)}, {"K": 0})
    assert report.ok and not report.tensors["B"].any()
    with pytest.raises(ValueError, match="size K = 9"):
        simulate(test, NVIDIA, {"A": np.ones(64, np.float32)}, {"K": 9})


def test_loop_bounds_must_be_uniform_and_inductions_in_their_range() -> None:
    memories = [tensor("A", "input", 64), tensor("B", "output", 32)]
    a = {"A": np.ones(64, np.float32)}
    uneven = kernel(NVIDIA, memories, loop("lane%4"), symbols="symbol t in 0..7 by 2")
    assert simulate(uneven, NVIDIA, a, {}, workgroups=[(0,)]).kinds() == {"non-uniform-loop"}
    undeclared = kernel(NVIDIA, memories, loop("12"), symbols="symbol t in 0..7 by 2")
    assert simulate(undeclared, NVIDIA, a, {}).kinds() == {"symbol-range"}


def test_wrong_tensor_is_refused() -> None:
    test = kernel(NVIDIA, [tensor("A", "input", 64)])
    with pytest.raises(ValueError, match="'A' is missing"):
        simulate(test, NVIDIA, {}, {})
    with pytest.raises(ValueError, match=r"'A' is float64\(64,\), expected f32\(64,\)"):
        simulate(test, NVIDIA, {"A": np.zeros(64)}, {})
