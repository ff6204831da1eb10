"""Matrix instructions fix the layouts of their operands; everything connected follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import TORCH, array_to_tensor, tensor_to_array, tensors_of
from tests.lower.gemms import AMD, NVIDIA, Gemm, lines, operands
from tests.lower.hopper_gemms import hopper_gemm
from tests.ops.epilogues import epilogue
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

STAGE = "assign-layouts"
AVX2 = next(machine for machine in machines("cpu") if machine.variant == "x86_64_v3")


def layout(line: str) -> str:
    """The layout of the first tile of a printed line."""
    return line[line.index("{", line.index("tile<")) : line.index("}>") + 1]


def test_operands_repeat_the_fragment_over_the_wave_tile() -> None:
    kernel = Gemm(tile=(64, 64, 16), wave=(32, 16)).lowered(NVIDIA, STAGE)
    assert [layout(line) for line in lines(kernel, "read", "mma")] == [
        "{M = wave_M*32 + lane//4, K = (lane%4)*2; 2 by M 16, 1 by K 16 | 2 by K 8, 2 by M 8, 2 by K 1}",
        "{N = wave_N*16 + lane//4, K = (lane%4)*2; 2 by N 8, 1 by K 16 | 2 by K 8, 2 by K 1}",
        "{M = wave_M*32 + lane//4, N = wave_N*16 + (lane%4)*2; 2 by M 16, 2 by N 8 | 2 by M 8, 2 by N 1}",
    ]


def test_accumulator_layout_spreads_through_the_loop() -> None:
    kernel = Gemm().lowered(NVIDIA, STAGE)
    found = {layout(line) for line in lines(kernel, "register", "iterate", "mma")}
    assert len(found) == 1


def test_turned_product_owns_runs_of_the_output_rows() -> None:
    kernel = Gemm(tile=(16, 16, 16), wave=(None, None)).lowered(AMD, STAGE)
    assert layout(lines(kernel, "register")[0]) == "{N = (lane//16)*4, M = lane%16; 1 by M 16, 1 by N 16 | 4 by N 1}"


def test_lane_takes_the_k_of_several_steps_from_one_run() -> None:
    kernel = Gemm(tile=(16, 16, 32), wave=(None, None)).lowered(AMD, STAGE)
    assert (
        layout(lines(kernel, "read")[0]) == "{M = lane%16, K = (lane//16)*8; 1 by M 16, 1 by K 32, 2 by K 4 | 4 by K 1}"
    )


def test_wave_tile_that_no_register_file_holds_is_reported() -> None:
    with pytest.raises(WavespecError) as caught:
        Gemm(tile=(256, 256, 32), wave=(256, 256)).lowered(NVIDIA)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:20:21: error[too-many-registers]: 'zero' takes 2048 registers of each lane; sm_90 has 255.
    |
 20 |   - {wave: M, tile: 256}
    |                     ^^^
    = note: The largest are 'zero' [M: 256, N: 256] of f32 with 2048, 'k_loop.acc' [M: 256, N: 256] of f32 with 2048 \
and 'acc' [M: 256, N: 256] of f32 with 2048.
    = note: For sm_90.
    = hint: Lower the tile of 'wave: M' (256) or the tile of 'wave: N' (256)."""
    )


def test_registers_name_the_parameter_and_the_tile_of_a_dim_that_the_value_has() -> None:
    text = Gemm(tile=(16, 256, 32), wave=(16, None)).text
    text = text.replace("workgroup: N, tile: BN", "workgroup: N, tile: BN * 8")
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "gemm.wave.yaml"), NVIDIA)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "too-many-registers"
    assert diagnostic.hints == ("Lower the tile of 'wave: M' (16) or the tile of 'workgroup: N' (BN * 8 = 2048).",)


def test_operands_with_fewer_dims_have_the_layout_of_the_sums_along_theirs() -> None:
    spec = epilogue(
        "bias_tile: {read: bias}",
        "bias_f32: {cast: bias_tile, dtype: f32}",
        "y: {add: [sums.acc, bias_f32]}",
        operands="f16",
        tensors="bias: {shape: [N], dtype: f16}",
        tile=(64, 64, 16),
        wave=(32, 16),
    )
    kernel = lower(spec, NVIDIA, after=STAGE)
    whole = layout(lines(kernel, "elementwise")[0])
    assert whole == "{M = wave_M*32 + lane//4, N = wave_N*16 + (lane%4)*2; 2 by M 16, 2 by N 8 | 2 by M 8, 2 by N 1}"
    (bias, converted) = (layout(line) for line in (*lines(kernel, "read")[-1:], *lines(kernel, "cast")))
    assert bias == converted == "{N = wave_N*16 + (lane%4)*2; 2 by N 8 | 2 by N 1}"


def test_a_number_is_one_register() -> None:
    kernel = lower(
        epilogue("y: {mul: [sums.acc, 2]}", operands="f16", tile=(32, 32, 16), wave=(32, 32)), NVIDIA, after=STAGE
    )
    assert "%number = register {value = 2.0} : tile<f32, {;  | }>" in lines(kernel, "register")


SIZES = {"M": 40, "N": 50, "K": 40, "L": 16, "E": 20, "C": 40}


def products_with_other_roles() -> KernelSpec:
    text = Gemm(tile=(64, 64, 32), wave=(32, 32)).text
    text = text.replace("carry: {acc: zero}", "carry: {acc: zero, other: zero}")
    text = text.replace("acc]}\n", "acc]}\n        - other: {mma: [b_tile, a_tile, other]}\n")
    text = text.replace("  - {write: k_loop.acc", "  - y: {add: [k_loop.acc, k_loop.other]}\n  - {write: y")
    return loads(text, "gemm.wave.yaml")


def sums_over_another_dim(row: str) -> KernelSpec:
    return epilogue(
        "part: {read: x}",
        "total: {sum: part, dim: L}",
        "y: {mul: [sums.acc, total]}",
        operands="f16",
        tensors=f"x: {{shape: [{row}, L], dtype: f32}}",
        dims=", L: {value: 16}",
        tile=(64, 64, 32),
        wave=(32, 32),
    )


def sum_that_starts_from_a_value_of_a_product() -> KernelSpec:
    return epilogue(
        "start: {read: bias}",
        "y: {add: [sums.acc, start]}",
        "part: {read: x}",
        "total: {sum: part, dim: L, init: start}",
        "{write: total, to: w}",
        operands="f16",
        tensors="x: {shape: [N, L], dtype: f32}\n  bias: {shape: [N], dtype: f32}\n"
        "  w: {shape: [N], dtype: f32, role: output}",
        dims=", L: {value: 16}",
        tile=(64, 64, 32),
        wave=(32, 32),
    )


def scores_with_rows_of_keys() -> KernelSpec:
    """What is found of a column of scores, once in each step and once behind them, meets rows of sums."""
    return loads("""\
apiVersion: wavespec/v1
kind: Kernel
name: turned
dims: {M: {}, N: {}, E: {}, C: {}}
tensors:
  a: {shape: [N, C], dtype: bf16, space: shared}
  b: {shape: [M, C], dtype: bf16, space: shared}
  v: {shape: [N, E], dtype: bf16, space: shared}
  o: {shape: [M, E], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {wave: M, tile: 32}
  - {workgroup: E, tile: 32, axis: 1}
  - {tiling: N, tile: 32}
  - {tiling: C, tile: 32}
graph:
  - nothing: {register: [M, E], dtype: f32, value: 0}
  - none: {register: [M], dtype: f32, value: 0}
  - keys:
      iterate: N
      carry: {acc: nothing, total: none}
      body:
        - zero: {register: [N, M], dtype: f32, value: 0}
        - parts:
            iterate: C
            carry: {scores: zero}
            body:
              - a_tile: {read: a}
              - b_tile: {read: b}
              - scores: {mma: [a_tile, b_tile, scores]}
        - weight: bf16(minimum(parts.scores, 3))
        - v_tile: {read: v}
        - now: {max: parts.scores, dim: N, init: total}
        - kept: "acc * (now - now + 1)"
        - total: {sum: parts.scores, dim: N, init: total}
        - acc: {mma: [weight, v_tile, kept]}
  - result: "minimum(keys.acc, keys.total)"
  - {write: result, to: o}
""")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(products_with_other_roles(), id="products with other roles"),
        pytest.param(sums_over_another_dim("M"), id="rows and sums over another dim"),
        pytest.param(sums_over_another_dim("N"), id="columns and sums over another dim"),
        pytest.param(sum_that_starts_from_a_value_of_a_product(), id="a start from a product"),
        pytest.param(scores_with_rows_of_keys(), id="rows of keys"),
    ],
)
@pytest.mark.parametrize(
    "machine",
    [AVX2, NVIDIA, AMD],
    ids=lambda machine: machine.variant,
)
def test_values_that_meet_are_brought_together(spec: KernelSpec, machine: Machine) -> None:
    random = torch.Generator().manual_seed(0)
    inputs = {
        name: torch.randint(-2, 3, [SIZES[dim] for dim in tensor.shape], generator=random).to(TORCH[tensor.dtype])
        for name, tensor in spec.tensors.items()
        if tensor.role == "input"
    }
    sizes = {dim: SIZES[dim] for dim in spec.dims}
    arrays = {name: tensor_to_array(value, spec.tensors[name].dtype) for name, value in inputs.items()}
    report = simulate(lower(spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    outputs = [name for name, tensor in spec.tensors.items() if tensor.role == "output"]
    for name, right in zip(outputs, tensors_of(reference(spec, *inputs.values())), strict=True):
        assert torch.equal(array_to_tensor(report.tensors[name], spec.tensors[name].dtype), right)


def test_what_is_made_of_nothing_is_made_again_and_not_handed_on() -> None:
    kernel = lower(products_with_other_roles(), NVIDIA, after=STAGE)
    assert len(lines(kernel, "register")) == 2 and len(lines(kernel, "take")) == 1


def test_what_is_no_sum_does_not_leave_in_slabs_of_sums() -> None:
    """Their stores would leave all of it out."""
    gemm = hopper_gemm()
    other = "  - numbers: f32(index(N))\n  - all_rows: {take: numbers, dims: [M, N]}\n  - {write: all_rows, to: y}\n"
    text = gemm.text.replace("  c: {", "  y: {shape: [M, N], dtype: f32, role: output}\n  c: {")
    spec = loads(text.replace("  - {write: k_loop.acc", f"{other}  - {{write: k_loop.acc"))
    staged = [name for name in (memory.name for memory in lower(spec, NVIDIA).memories) if ".staged_" in name]
    assert staged and not [name for name in staged if name.startswith("y.")]
    sizes = {"M": 70, "N": 72, "K": 64}
    report = simulate(lower(spec, NVIDIA), NVIDIA, operands(spec, sizes), sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], np.broadcast_to(np.arange(72.0), (70, 72)))
