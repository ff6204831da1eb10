"""Sums of a step are scaled where the step has one scale: which products, how, and whatever the tiles and blocks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_elements
from tests.lower.gemms import AMD, AMD_COPYING, CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.lower.scale_products import ScaleProducts
from wavespec.pipeline import lower
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

BLOCKS = Text("""
    tile kernel @blocks target gfx942 lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    symbol G in 0..32 by 1
    symbol P in 0..32 by 1
    symbol M.i in 0.. by 1
    symbol N.i in 0.. by 1
    symbol K.i in 0.. by 1
    split workgroup M 64 0
    split workgroup N 64 1
    split loop K 64 0
    plan "auto" stages 1 group 0
    memory @a : f8e4m3fn (M: [M], K: [K]) global input
    memory @b : f8e4m3fn (N: [N], K: [K]) global input
    memory @a_scale : f32 (M: [M], G: [G]) global input mapped
    memory @b_scale : f32 (P: [P], G: [G]) global input mapped
    memory @c : f32 (M: [M], N: [N]) global output
""")
BODY = """
    %zero = register {value = 0.0} : tile<M, N, f32>
    %sums = iterate %zero {dim = "K"} : tile<M, N, f32> (%acc : tile<M, N, f32>) do
      %a = read {memory = "a"} : tile<M, K, f8e4m3fn>
      %b = read {memory = "b"} : tile<N, K, f8e4m3fn>
      %left = read {at = (("M", [M.i],), ("G", [K.i//128],),), memory = "a_scale", over = ("M", "K",)} : tile<M, K, f32>
      %right = read {at = (("P", [N.i//128],), ("G", [K.i//128],),), memory = "b_scale", over = ("N", "K",)} : tile<N, K, f32>
      %acc.1 = mma %a, %b, %acc, %left, %right : tile<M, N, f32>
      yield %acc.1
    end
    write %sums {memory = "c"}
"""
READS = """
    %zero = register {value = 0.0} : tile<M, N, f32>
    %sums = iterate %zero {dim = "K"} : tile<M, N, f32> (%acc : tile<M, N, f32>) do
      %a = read {memory = "a"} : tile<M, K, f8e4m3fn>
      %b = read {memory = "b"} : tile<N, K, f8e4m3fn>
      %left.1 = read {at = (("M", [M.i],), ("G", [K.start//128],),), memory = "a_scale", over = ("M",)} : tile<M, f32>
"""
POWERS = [("@a_scale : f32", "@a_scale : f8e8m0fnu"), ("@b_scale : f32", "@b_scale : f8e8m0fnu")]


def test_a_step_with_one_scale_has_its_sums_scaled() -> None:
    assert BLOCKS.after(ScaleProducts(), AMD, BODY) == lines(
        READS
        + """
      %right.1 = read {at = (("P", [N.start//128],), ("G", [K.start//128],),), memory = "b_scale", over = ()} : tile<f32>
      %a.1 = cast %a : tile<M, K, bf16>
      %b.1 = cast %b : tile<N, K, bf16>
      %acc.2 = register {value = 0.0} : tile<M, N, f32>
      %acc.3 = mma %a.1, %b.1, %acc.2 : tile<M, N, f32>
      %left.2 = elementwise %left.1, %right.1 {function = "mul"} : tile<M, f32>
      %acc.1 = elementwise %acc.3, %left.2, %acc {function = "fma"} : tile<M, N, f32>
      yield %acc.1
    end
    write %sums {memory = "c"}
""".lstrip("\n")
    )


def test_a_tile_of_several_blocks_of_columns_keeps_a_scale_for_each_column() -> None:
    found = BLOCKS.changed(("workgroup N 64", "workgroup N 256")).after(ScaleProducts(), AMD, BODY)
    assert '[N.i//128],), ("G", [K.start//128],),), memory = "b_scale", over = ("N",)} : tile<N, f32>' in found
    assert '%acc.4 = elementwise %left.1, %right.1 {function = "mul"} : tile<M, N, f32>' in found


def test_operands_that_the_machine_multiplies_stay() -> None:
    roles = BLOCKS.changed(("stages 1 group 0", "stages 2 group 0 roles 1 together 0 0"))
    text = roles.after(ScaleProducts(), NVIDIA, BODY)
    assert "%acc.3 = mma %a, %b, %acc.2" in text and "cast" not in text


@pytest.mark.parametrize("change", [("loop K 64", "loop K 256"), ("loop K 64", "loop K 96")])
def test_a_step_with_several_scales_stays(change: tuple[str, str]) -> None:
    kernel = BLOCKS.changed(change).kernel(BODY)
    assert ScaleProducts()(kernel, AMD) is kernel


def test_a_chain_of_sums_that_the_machine_cuts_short_counts_as_a_step() -> None:
    """A step of 512 would be two on this machine, the second of which begins inside of a block of 512."""
    (longest,) = {row.chain for row in CPU.instructions if row.chain and 512 % row.chain}
    kernel = BLOCKS.changed(("loop K 64", "loop K 512")).kernel(BODY.replace("K.i//128", "K.i//512"))
    assert longest < 512 and ScaleProducts()(kernel, CPU) is kernel
    assert ScaleProducts()(kernel, AMD) is not kernel


def test_powers_of_two_scale_sums_where_those_are_few() -> None:
    body = BODY.replace("K, f32>", "K, f8e8m0fnu>")
    few = BLOCKS.changed(*POWERS).kernel(body)
    assert ScaleProducts()(few, AMD) is not few, "64 * 64 sums, (64 + 64) * 64 elements"
    many = BLOCKS.changed(*POWERS, ("workgroup M 64", "workgroup M 256")).kernel(body)
    more = BLOCKS.changed(*POWERS, ("workgroup M 64", "workgroup M 256"), ("workgroup N 64", "workgroup N 128"))
    assert ScaleProducts()(many, AMD) is not many, "256 * 64 sums, (256 + 64) * 64 elements"
    assert ScaleProducts()(more.kernel(body), AMD) == more.kernel(body), "256 * 128, (256 + 128) * 64"


def test_scales_may_be_computed_of_what_is_read() -> None:
    body = BODY.replace("%left =", "%read =").replace(
        "      %acc.1 = mma",
        """
      %half = register {value = 0.5} : tile<f32>
      %left = elementwise %read, %half {function = "mul"} : tile<M, K, f32>
      %acc.1 = mma""".lstrip("\n"),
    )
    found = BLOCKS.after(ScaleProducts(), AMD, body)
    assert '%left.1 = elementwise %read.1, %half.1 {function = "mul"} : tile<M, f32>' in found
    assert "tile<M, K, f32>" not in found


def spec_of(
    left: str, right: str, scale: str, blocks: tuple[int, int], tiles: tuple[int, int, int], schedule: str = ""
) -> KernelSpec:
    """``c = (a * a_scale) · (b * b_scale)ᵀ`` in blocks of 1 x ``blocks[1]`` and of both."""
    rows, deep = blocks
    space = ", space: shared" if schedule else ""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims:
  M: {{}}
  N: {{multiple_of: 8}}
  K: {{multiple_of: 16}}
  G: {{equals: "ceildiv(K, {deep})"}}
  P: {{equals: "ceildiv(N, {rows})"}}
tensors:
  a: {{shape: [M, K], dtype: {left}{space}}}
  b: {{shape: [N, K], dtype: {right}{space}}}
  a_scale: {{shape: [M, G], dtype: {scale}}}
  b_scale: {{shape: [P, G], dtype: {scale}}}
  c: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: {tiles[0]}, axis: 0}}
  - {{workgroup: N, tile: {tiles[1]}, axis: 1}}
  - {{tiling: K, tile: {tiles[2]}}}
graph:
  - zero: {{register: [M, N], dtype: f32, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - a_factor: {{read: a_scale, dims: [M, K], at: {{G: K // {deep}}}}}
        - b_factor: {{read: b_scale, dims: [N, K], at: {{P: N // {rows}, G: K // {deep}}}}}
        - acc: {{mma: [a_tile, b_tile, acc], scales: [a_factor, b_factor]}}
  - {{write: k_loop.acc, to: c}}
{schedule}""",
        "scaled.wave.yaml",
    )


def check(spec: KernelSpec, machine: Machine, blocks: tuple[int, int], sizes: dict[str, int]) -> Kernel:
    """Assert that whole numbers come out exactly; the kernel that made them."""
    rows, deep = blocks
    whole = {**sizes, "G": -(-sizes["K"] // deep), "P": -(-sizes["N"] // rows)}
    random, inputs = torch.Generator().manual_seed(sum(whole.values())), dict[str, torch.Tensor]()
    for name, tensor in itertools.islice(spec.tensors.items(), 4):
        shape = [whole[dim] for dim in tensor.shape]
        if tensor.dtype == "f8e8m0fnu":
            powers = torch.randint(126, 129, shape, generator=random).to(torch.uint8)
            inputs[name] = powers.view(torch.float8_e8m0fnu)
        else:
            inputs[name] = torch.randint(-3, 4, shape, generator=random).to(DTYPES[tensor.dtype])
    kernel = lower(spec, machine)
    arrays = {name: tensor_to_elements(one, spec.tensors[name].dtype) for name, one in inputs.items()}
    report = simulate(kernel, machine, arrays, whole)
    assert report.ok, report.render()
    a, b, a_scale, b_scale = (one.double() for one in inputs.values())
    a_scale, b_scale = (one.repeat_interleave(deep, 1)[:, : sizes["K"]] for one in (a_scale, b_scale))
    b_scale = b_scale.repeat_interleave(rows, 0)[: sizes["N"]]
    np.testing.assert_array_equal(report.tensors["c"], ((a * a_scale) @ (b * b_scale).T).numpy())
    return kernel


@pytest.mark.parametrize("machine", [AMD, AMD_COPYING, NVIDIA, CPU], ids=lambda one: one.variant)
@pytest.mark.parametrize(
    ("types", "blocks", "tiles"),
    [
        (("f8e4m3fn", "f8e4m3fn", "f32"), (64, 64), (32, 64, 32)),  # sums are scaled
        (("f8e4m3fn", "f8e5m2", "f32"), (48, 32), (32, 64, 32)),  # the same, by numbers that columns have
        (("f8e4m3fn", "f8e5m2", "f32"), (16, 16), (32, 64, 32)),  # operands of f32
        (("f8e5m2", "f8e4m3fn", "f8e8m0fnu"), (32, 64), (32, 64, 64)),
        (("bf16", "f8e4m3fn", "f32"), (64, 64), (32, 64, 32)),
        (("bf16", "bf16", "f32"), (16, 16), (32, 64, 32)),
        (("bf16", "bf16", "f8e8m0fnu"), (32, 64), (32, 64, 64)),
    ],
)
def test_blocks_and_tiles_of_any_size_are_right(
    machine: Machine, types: tuple[str, str, str], blocks: tuple[int, int], tiles: tuple[int, int, int]
) -> None:
    check(spec_of(*types, blocks, tiles), machine, blocks, {"M": 5, "N": 72, "K": 80})


PRODUCER = "schedule: {stages: 3, waves: {producers: 1}}"


def test_steps_of_several_blocks_beside_waves_that_only_copy_are_refused() -> None:
    blocks, tiles = (128, 128), (64, 64, 256)
    with pytest.raises(WavespecError, match="takes 256 elements of 'K', along which 'a_factor' changes") as caught:
        lower(spec_of("f8e4m3fn", "f8e4m3fn", "f32", blocks, tiles, PRODUCER), NVIDIA)
    (one,) = caught.value.diagnostics
    assert one.code == "scales-change-in-step" and one.span and one.span.line == 19


@pytest.mark.parametrize("tile", [64, 128])
@pytest.mark.parametrize("scale", ["f32", "f8e8m0fnu"])
def test_sums_of_the_asynchronous_unit_are_scaled(scale: str, tile: int) -> None:
    """Whole rounds of steps, what is left of them, and a part of a step."""
    blocks, spec = (128, 128), spec_of("f8e4m3fn", "f8e4m3fn", scale, (128, 128), (64, 64, tile), PRODUCER)
    for size in (48, 5 * tile + 16):
        kernel = check(spec, NVIDIA, blocks, {"M": 5, "N": 72, "K": size})
        products = [op for op in kernel.walk() if op.name == "mma_async"]
        assert {op["instruction"] for op in products} == {"wgmma_m64n64k32_f8e4m3fn"}


@pytest.mark.parametrize(
    ("workgroups", "processors", "joined"),
    [
        ("last_round: 8", 6, "shared_sum"),  # two tiles of three parts, of which the last have fewer steps
        ("last_round: 8, persistent: true", 3, "shared_sum"),  # two parts in two rounds of thirds
        ("split: 2", 132, "cluster_sum"),
    ],
)
def test_workgroups_share_out_steps_whose_sums_are_scaled(workgroups: str, processors: int, joined: str) -> None:
    machine, schedule = (
        replace(NVIDIA, processors=processors),
        PRODUCER.replace("}}", f"}}, workgroups: {{{workgroups}}}}}"),
    )
    spec = spec_of("f8e4m3fn", "f8e4m3fn", "f32", (128, 128), (64, 64, 128), schedule)
    check(spec, machine, (128, 128), {"M": 5, "N": 72, "K": 528})
    shared = lower(spec, machine, after="share-last-round")
    assert joined in {op.name for op in shared.body}
