"""A spec becomes whole-tensor operations, memories and a distribution."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, lines, source
from wavespec.diagnostics import WavespecError
from wavespec.ir.printer import print_kernel
from wavespec.lower.spec_to_tile import spec_to_tile
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.resolved import resolve

STAGE = "spec-to-tile"


def test_graph_becomes_tile_operations() -> None:
    expected = """\
tile kernel @gemm target sm_90 lanes 1
symbol M in 0..2147418112 by 1
symbol N in 0..2147418112 by 1
symbol K in 0..2147418112 by 1
split workgroup M 32 0
split workgroup N 64 1
split loop K 32 0
split wave M 16 0
split wave N 32 0
plan "auto" stages 1 group 0
memory @a : f16 (M: [M], K: [K]) global input staged
memory @b : f16 (N: [N], K: [K]) global input
memory @c : f32 (M: [M], N: [N]) global output
{
  %zero = register {value = 0.0} : tile<M, N, f32>
  %k_loop_acc = iterate %zero {dim = "K"} : tile<M, N, f32> (%acc : tile<M, N, f32>) do
    %a_tile = read {memory = "a"} : tile<M, K, f16>
    %b_tile = read {memory = "b"} : tile<N, K, f16>
    %acc.1 = mma %a_tile, %b_tile, %acc : tile<M, N, f32>
    yield %acc.1
  end
  write %k_loop_acc {memory = "c"}
}
"""
    assert print_kernel(Gemm(spaces=("shared", "global")).lowered(NVIDIA, STAGE)) == expected


def test_promises_about_sizes_become_ranges() -> None:
    text = print_kernel(Gemm(dims=("multiple_of: 8", "value: 64", "min: 2, max: 100")).lowered(NVIDIA, STAGE))
    assert "symbol M in 0..2147418112 by 8\nsymbol K in 2..100 by 1\n" in text
    assert "memory @c : f32 (M: [M], N: [64]) global output" in text


def test_sizes_leave_room_in_32_bits() -> None:
    assert "symbol M in 0..2147418112 by 1" in print_kernel(
        Gemm(dims=(f"max: {2**31 - 2**16}", "", "")).lowered(NVIDIA, STAGE)
    )


def test_overrides_of_the_target_apply() -> None:
    spec = loads(source("gemm.wave.yaml"), "gemm.wave.yaml")
    depths = [lower(spec, machine, after=STAGE).distribution.loops[0].tile for machine in (NVIDIA, AMD)]
    assert depths == [64, 32]


def test_a_register_starts_as_a_number_of_its_type() -> None:
    values = [lines(Gemm(dtype, value=-2).lowered(AMD, STAGE), "register")[0] for dtype in ("f16", "i8")]
    assert values == [
        "%zero = register {value = -2.0} : tile<M, N, f32>",
        "%zero = register {value = -2} : tile<M, N, i32>",
    ]


def test_every_operation_knows_its_line() -> None:
    kernel = Gemm().lowered(NVIDIA, STAGE)
    assert [(op.name, op.span.line) for op in kernel.walk() if op.span] == [
        ("register", 24),
        ("iterate", 26),
        ("read", 29),
        ("read", 30),
        ("mma", 31),
        ("write", 32),
    ]


def test_a_graph_of_very_many_products_is_refused() -> None:
    text = Gemm().text
    line = next(line for line in text.splitlines() if "mma: [" in line)
    more = [line.replace("- acc:", f"- acc_{i}:") for i in range(69)]
    many = loads(text.replace(line, "\n".join([*more, line])))
    with pytest.raises(WavespecError, match=r"kernel-too-large.*has 71 loops and matrix products"):
        lower(many, AMD)


def test_assumptions_promise_sizes_to_the_compiler() -> None:
    gemm = Gemm(dims=("", "", "multiple_of: 8"))
    assumed = loads(
        gemm.text.replace("graph:", "  - {assume: K % 96 == 0}\n  - {assume: M < 500}\ngraph:"), "gemm.wave.yaml"
    )
    kernel = spec_to_tile(resolve(assumed, "cpu"))
    assert kernel.symbol("K").divisor == 96 and kernel.symbol("M").high == 499
    one_size = loads(gemm.text.replace("graph:", "  - {assume: K == 64}\ngraph:"), "gemm.wave.yaml")
    assert not spec_to_tile(resolve(one_size, "cpu")).symbol("K").is_const


def test_a_loop_that_only_another_target_tiles_is_refused() -> None:
    lines_of_text = [line for line in Gemm().text.splitlines() if not line.startswith("  - {tiling: K")]
    text = "\n".join(lines_of_text).partition("\ntargets:")[0]
    spec = loads(f"{text}\ntargets:\n  cpu:\n    constraints: [{{tiling: K, tile: 16}}]\n")
    with pytest.raises(WavespecError, match="'iterate' walks over 'K', which no constraint tiles"):
        spec_to_tile(resolve(spec, "sm_90"))


def test_what_nobody_uses_is_left_out() -> None:
    gemm = Gemm()
    unused = gemm.text.replace("acc]}\n", "acc]}\n        - wide: f32(a_tile)\n        - twice: wide * 2\n")
    assert unused != gemm.text
    expected = print_kernel(gemm.lowered(NVIDIA, STAGE))
    assert print_kernel(lower(loads(unused), NVIDIA, after=STAGE)) == expected
