"""What a schedule materializes: the kernels that come of a case, and what is refused, at the entry that asks for it."""

from __future__ import annotations

import pytest
import torch

import wavespec as ws
from tests.kernels import SPECS
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import emit
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines

PRODUCT = """apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {M: {}, N: {}, K: {multiple_of: 32}}
params: {HALF: 2}
tensors:
  x: {shape: [M, K], dtype: f16, space: shared}
  w: {shape: [N, K], dtype: f16}
  bias: {shape: [K], dtype: f16}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: K, tile: 16}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - added: {read: bias}
        - moved: "x_tile + added * HALF"
        - w_tile: {read: w}
        - acc: {mma: [moved, w_tile, acc]}
  - {write: steps.acc, to: y}
targets:
  cpu:
    cases:
      - when: [M >= 64]
        schedule: {materialize: ASKED}
"""


def case_of(asked: str, *changes: tuple[str, str]) -> TargetCase:
    return cases_for_target(spec_of(asked, *changes), "cpu")[0]


def spec_of(asked: str, *changes: tuple[str, str]) -> KernelSpec:
    text = PRODUCT.replace("ASKED", asked)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "product.wave.yaml")


def test_a_value_becomes_the_result_of_a_kernel_with_the_part_of_the_graph_that_makes_it() -> None:
    before, kernel = case_of("{moved: [M, K]}").kernels
    assert dump_yaml(before) == (
        "apiVersion: wavespec/v1\nkind: Kernel\nname: product_moved\n\n"
        "dims:\n  M: {min: 64}\n  K: {multiple_of: 32}\nparams:\n  HALF: 2\n\n"
        "tensors:\n  x: {shape: [M, K], dtype: f16}\n  bias: {shape: [K], dtype: f16}\n"
        "  moved_made: {shape: [M, K], dtype: f16, role: output}\n\n"
        "constraints:\n  - {workgroup: K, tile: 512, axis: 0}\n  - {workgroup: M, tile: 8, axis: 1}\n"
        "  - {wave: M, tile: 1}\n\n"
        "graph:\n  - x_tile: {read: x}\n  - added: {read: bias}\n  - moved: x_tile + added * HALF\n"
        "  - {write: moved, to: moved_made}\n"
    )
    assert {name: tensor.space for name, tensor in kernel.tensors.items()} == {
        "moved_made": "shared",
        "w": "global",
        "y": "global",
    }
    text = dump_yaml(kernel)
    assert "- moved: {read: moved_made, dims: [M, K]}" in text
    assert "x_tile" not in text and "bias" not in text and "materialize" not in text


def test_what_else_uses_the_parts_of_a_value_keeps_them() -> None:
    _, kernel = case_of(
        "{moved: [M, K]}",
        ("mma: [moved, w_tile", "mma: [moved, other"),
        ("        - acc:", "        - other: w_tile + added\n        - acc:"),
    ).kernels
    assert "bias" in kernel.tensors and "x" not in kernel.tensors


def test_dims_in_another_order_are_those_of_the_tensor() -> None:
    before, kernel = case_of("{w_tile: [K, N]}").kernels
    assert before.tensors["w_tile_made"].shape == ("K", "N")
    assert "- {write: w_tile, to: w_tile_made, at: {K: K, N: N}}" in dump_yaml(before)
    assert "- w_tile: {read: w_tile_made, dims: [N, K]}" in dump_yaml(kernel)


def test_an_input_is_turned_with_neighbours_as_one_dim() -> None:
    cases = cases_for_target(load(SPECS / "conv2d_nchw.wave.yaml"), "sm_90")
    x, w, kernel = next(one for one in cases if len(one.before) == 2 and one.spec.params["FILL"] == Num(1)).kernels
    assert "- turned: {read: x, dims: [N, H_W, C], at: {H: H_W // size(W), W: H_W % size(W)}}" in dump_yaml(x)
    assert "H_W: {equals: H * W}" in dump_yaml(x)
    assert x.tensors["x_made"].shape == ("N", "H_W", "C") and w.tensors["w_made"].shape == ("O", "R_S", "C")
    assert "- {write: turned, to: x_made}" in dump_yaml(x)  # so that lanes may have neighbours along C
    assert kernel.tensors["x_made"].shape == ("N", "H", "W", "C")
    assert list(kernel.tensors) == ["x_made", "w_made", "y"]


FILLED = """
apiVersion: wavespec/v1
kind: Kernel
name: filled
dims: {M: {}, N: {}, K: {}, F: {equals: "ceildiv(K, 8) * 8"}}
tensors:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  c: {shape: [M, N], dtype: f32, role: output}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - rows: {read: a}
        - columns: {read: b, dims: [N, K]}
        - acc: {mma: [rows, columns, acc]}
  - {write: steps.acc, to: c}
targets:
  sm_90:
    cases:
      - {when: [M >= 64], schedule: {materialize: {a: [M, F], b: [F, N]}}}
"""


def test_a_dim_is_filled_up_with_zeros_that_nothing_reads() -> None:
    a, b, kernel = cases_for_target(loads(FILLED), "sm_90")[0].kernels
    assert "- turned: {read: a, dims: [M_F], at: {M: M_F // size(F), K: M_F % size(F)}}" in dump_yaml(a)
    assert "- turned: {read: b, dims: [F, N], at: {K: F}}" in dump_yaml(b)
    assert "- rows: {read: a_made, dims: [M, K], at: {F: K}}" in dump_yaml(kernel)
    assert "- columns: {read: b_made, dims: [N, K], at: {F: K}}" in dump_yaml(kernel)
    assert kernel.tensors["a_made"].shape == ("M", "F") and kernel.tensors["b_made"].shape == ("F", "N")


def test_a_multiple_is_written_either_way_round() -> None:
    *_, kernel = cases_for_target(loads(FILLED.replace("ceildiv(K, 8) * 8", "8*ceildiv(K,8)")), "sm_90")[0].kernels
    assert kernel.tensors["a_made"].shape == ("M", "F")


@pytest.mark.parametrize("size", ["K // 8 * 8", "ceildiv(K, 8) * 4", "ceildiv(K, 8)", "ceildiv(M, 8) * 8"])
def test_what_does_not_fill_up_a_dim_is_no_dim_of_the_tensor(size: str) -> None:
    with pytest.raises(WavespecError, match="'a' cannot be materialized: it has the dims 'M' and 'K'"):
        loads(FILLED.replace("ceildiv(K, 8) * 8", size))


def test_an_operand_with_a_scale_is_made_times_that() -> None:
    *_, case, _ = cases_for_target(load(SPECS / "matmul_mxf8.wave.yaml"), "sm_90")
    a, b, kernel = case.kernels
    assert list(a.tensors) == ["a", "a_scale", "a_tile_made"] and a.tensors["a_tile_made"].dtype == "bf16"
    assert "- a_tile_times_a_factor: bf16(a_tile) * bf16(a_factor)" in dump_yaml(a)
    assert list(b.tensors) == ["b", "b_scale", "b_tile_made"]
    assert list(kernel.tensors) == ["a_tile_made", "b_tile_made", "c"] and "scales" not in dump_yaml(kernel)


def test_tensors_that_only_tell_sizes_stay() -> None:
    """Of weights in groups only the input knows how many channels there are, and only the weights, how many a group."""
    weights, kernel = cases_for_target(load(SPECS / "conv2d_grouped.wave.yaml"), "sm_90")[0].kernels
    assert list(weights.tensors) == ["x", "w", "weights_made"]
    assert list(kernel.tensors) == ["weights_made", "w", "x", "y"]


@pytest.mark.parametrize("name", ["matmul_mxf4", "conv2d_nchw", "conv2d_grouped"])
def test_every_kernel_is_a_plain_spec_like_any_other(name: str) -> None:
    for case in cases_for_target(load(SPECS / f"{name}.wave.yaml"), "sm_90"):
        for one in case.before:
            assert loads_plain(dump_yaml(one)) == one


def test_cases_without_any_have_one_kernel() -> None:
    *_, last = cases_for_target(spec_of("{moved: [M, K]}"), "cpu")
    assert last.kernels == (last.spec,)


REFUSED = {
    "unknown": ("{q: [M, K]}", "there is no such input or value"),
    "dims": ("{moved: [M]}", "it has the dims 'M' and 'K'"),
    "product": ("{acc: [M, N]}", "it is made by 'mma'"),
}


@pytest.mark.parametrize(("asked", "why"), REFUSED.values(), ids=REFUSED)
def test_what_no_kernel_of_its_own_makes_is_refused_where_it_is_asked_for(asked: str, why: str) -> None:
    with pytest.raises(WavespecError, match="cannot be materialized") as caught:
        spec_of(asked)
    (found,) = caught.value.diagnostics
    assert why in found.message and found.code == "cannot-materialize"
    assert found.span is not None and found.span.line == 32 and found.hints


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_an_output_is_written_in_another_order_first_and_turned_by_a_kernel_behind(target: str) -> None:
    spec = spec_of("{y: [N, M], x: [K, M]}", ("  cpu:\n", f"  {target}:\n"))
    turned, kernel, behind = cases_for_target(spec, target)[0].kernels
    assert list(turned.tensors) == ["x", "x_made"]
    assert kernel.tensors["y_made"].shape == ("N", "M") and "y" not in kernel.tensors
    assert "- {write: steps.acc, to: y_made, at: {M: M, N: N}}" in dump_yaml(kernel)
    assert list(behind.tensors) == ["y_made", "y"]
    assert behind.name == spec.name and behind.tensors["y"].shape == ("M", "N")


REFUSED_OUTPUTS = {
    "changed in place": (
        ("y: {shape: [M, N], dtype: f32, role: output}", "y: {shape: [M, N], dtype: f32, role: inout}"),
    ),
    "strided": (("role: output}", "role: output, strides: any}"),),
    "written in part": (("{write: steps.acc, to: y}", '{write: steps.acc, to: y, at: {M: "M + 1", N: N}}'),),
}


@pytest.mark.parametrize("changes", REFUSED_OUTPUTS.values(), ids=REFUSED_OUTPUTS)
def test_outputs_that_hold_more_than_the_kernel_writes_are_refused(changes: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(WavespecError, match="'y' cannot be materialized"):
        spec_of("{y: [N, M]}", *changes)


def test_views_are_refused_as_inputs() -> None:
    with pytest.raises(WavespecError, match="it may have any strides"):
        spec_of("{w: [K, N]}", ("w: {shape: [N, K], dtype: f16}", "w: {shape: [N, K], dtype: f16, strides: any}"))


def test_the_kernel_for_all_sizes_is_one_kernel() -> None:
    with pytest.raises(WavespecError, match="the kernel for all sizes is one kernel"):
        loads(
            PRODUCT.replace(
                "  cpu:\n    cases:\n      - when: [M >= 64]\n        schedule", "  cpu:\n    schedule"
            ).replace("ASKED", "{moved: [M, K]}")
        )


def test_what_a_made_operand_is_multiplied_with_is_scaled_where_it_is() -> None:
    """Once, though two products take it; a product of what is made and what is not has no scales left."""
    text = (SPECS / "matmul_mxf4.wave.yaml").read_text()
    product = "        - acc: {mma: [a_tile, b_tile, acc], scales: [a_factor, b_factor]}\n"
    assert product in text
    for written in (product, product + product.replace("- acc:", "- again:")):
        made, kernel = cases_for_target(loads(text.replace(product, written)), "sm_90")[0].kernels
        assert list(made.tensors) == ["a", "a_scale", "a_tile_made"]
        assert list(kernel.tensors) == ["a_tile_made", "b", "b_scale", "c"]
        graph = dump_yaml(kernel)
        assert graph.count("- b_tile_times_b_factor: bf16(b_tile) * bf16(b_factor)") == 1
        assert graph.count("{mma: [a_tile, b_tile_times_b_factor, acc]}") == written.count("mma")


@pytest.mark.parametrize("without_bits", [[], ["a_scale"], ["b_scale"]], ids=str)
def test_scales_that_are_no_powers_of_two_stay_with_the_product(without_bits: list[str]) -> None:
    """Elements would lose bits; what is written is what both are multiplied in."""
    text = (SPECS / "matmul_mxf4.wave.yaml").read_text()
    for name in ("a_scale", "b_scale"):
        tensor = next(line for line in text.splitlines() if line.startswith(f"  {name}: {{"))
        text = text if name in without_bits else text.replace(tensor, tensor.replace("f8e8m0fnu", "f32"))
    made, kernel = cases_for_target(loads(text), "sm_90")[0].kernels
    assert list(made.tensors) == ["a", "a_tile_made"]
    assert made.tensors["a_tile_made"].dtype == "bf16" and "bf16(a_tile)" in dump_yaml(made)
    assert list(kernel.tensors) == ["a_tile_made", "b", "a_scale", "b_scale", "c"]
    assert "scales: [a_factor, b_factor]}" in dump_yaml(kernel)


def test_a_value_that_is_used_without_its_scale_is_refused() -> None:
    text = (SPECS / "matmul_mxf4.wave.yaml").read_text()
    two = "        - acc: {mma: [a_tile, b_tile, acc], scales: [a_factor, b_factor]}\n"
    assert two in text
    other = "        - second: {mma: [a_tile, b_tile, acc], scales: [b_factor, b_factor]}\n"
    with pytest.raises(WavespecError):
        loads(text.replace(two, f"{other}{two}"))


ACROSS = """apiVersion: wavespec/v1
kind: Kernel
name: across
dims: {L: {}, P: {}, N: {}}
tensors:
  x: {shape: [L, P], dtype: bf16, values: {min: -1, max: 1}}
  dt: {shape: [L], dtype: f32, values: {min: 0, max: 1}}
  b: {shape: [N, L], dtype: bf16, values: {min: -1, max: 1}}
  y: {shape: [P, N], dtype: f32, role: output}
constraints:
  - {workgroup: P, tile: 32, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: L, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [P, N], dtype: f32, value: 0}
  - steps:
      iterate: L
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - dt_tile: {read: dt}
        - scaled: "bf16(f32(x_tile) * exp(dt_tile))"
        - b_tile: {read: b}
        - acc: {mma: [scaled, b_tile, acc]}
  - {write: steps.acc, to: y}
targets:
  cpu:
    cases:
      - when: [P >= 1]
        schedule: {materialize: {scaled: [P, L]}}
  sm_90:
    cases:
      - when: [P >= 1]
        schedule: {materialize: {scaled: [P, L]}}
"""


def test_on_cpus_a_value_of_rows_that_lie_across_is_turned_in_tiles() -> None:
    """It was made element by element: 31,600 lines for 512 columns, where this is a thirteenth."""
    (made, _) = cases_for_target(loads(ACROSS), "cpu")[0].kernels
    assert made.tensors["x"].space == "shared" and made.tensors["dt"].space == "global"
    graph = dump_yaml(made)
    assert "workgroup: P, tile: 64" in graph and "workgroup: L, tile: 64" in graph
    assert all(emit(made, machine).text.count("\n") < 9_000 for machine in machines("cpu"))
    of_gpu = cases_for_target(loads(ACROSS), "sm_90")[0].kernels[0]
    assert of_gpu.tensors["x"].space == "global", "lanes of a GPU read an element each"


@pytest.mark.compiles
def test_a_value_that_is_turned_is_what_it_was() -> None:
    spec = loads(ACROSS)
    random = torch.Generator().manual_seed(0)
    x, b = (torch.randint(-1, 2, shape, generator=random).bfloat16() for shape in ((100, 70), (40, 100)))
    dt = torch.zeros(100)
    found = ws.compile(spec, "cpu")(x=x, dt=dt, b=b)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x.float().T @ b.float().T)
