"""The distribution becomes extents, origins, a grid and waves."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, lines, run
from tests.lower.ir_text import Text
from tests.lower.ir_text import lines as text
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.assign_tiles import AssignTiles
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import Machine, machines

STAGE = "assign-tiles"


def refused(gemm: Gemm, machine: Machine) -> str:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(machine)
    return str(caught.value)


def changed(machine: Machine, *changes: tuple[str, str]) -> Kernel:
    spec = Gemm().text
    for old, new in changes:
        assert old in spec
        spec = spec.replace(old, new)
    return lower(loads(spec, "gemm.wave.yaml"), machine, after=STAGE)


ONE_TILE = """\
apiVersion: wavespec/v1
kind: Kernel
name: short
dims: {M: {}, N: {}, K: {max: 32}}
tensors:
  a: {shape: [M, K], dtype: f16}
  b: {shape: [N, K], dtype: f16}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - a_tile: {read: a}
  - b_tile: {read: b}
  - acc: {mma: [a_tile, b_tile, zero]}
  - {write: acc, to: c}
"""


SUMS = Text("""
    tile kernel @sums target sm_90 lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    split workgroup M 32 0
    split workgroup N 64 1
    split loop K 32 0
    split wave M 16 0
    split wave N 32 0
    plan "auto" stages 1 group 0
    memory @a : f16 (M: [M], K: [K]) global input
    memory @b : f16 (N: [N], K: [K]) global input
    memory @c : f32 (M: [M], N: [N]) global output
""")
BODY = """
    %zero = register {value = 0.0} : tile<M, N, f32>
    %sums = iterate %zero {dim = "K"} : tile<M, N, f32> (%acc : tile<M, N, f32>) do
      %a = read {memory = "a"} : tile<M, K, f16>
      %b = read {memory = "b"} : tile<N, K, f16>
      %acc.1 = mma %a, %b, %acc {instruction = "mma_m16n8k16_f16", k = "K", m = "M", n = "N"} : tile<M, N, f32>
      yield %acc.1
    end
    write %sums {memory = "c"}
"""


def assigned(*changes: tuple[str, str], machine: Machine = NVIDIA, body: str = BODY) -> Kernel:
    return AssignTiles()(SUMS.changed(*changes).kernel(body), machine)


def test_tiles_get_extents_accesses_origins_and_loops_their_steps() -> None:
    assert SUMS.after(AssignTiles(), NVIDIA, BODY) == text("""
        %zero = register {value = 0.0} : tile<M: 32, N: 64, f32>
        %sums = iterate %zero {dim = "K", extent = [K], induction = "at_K", step = [32], unroll = 1} : tile<M: 32, N: 64, f32> (%acc : tile<M: 32, N: 64, f32>) do
          %a = read {memory = "a", origin = (("M", [wg0*32],), ("K", [at_K],),)} : tile<M: 32, K: 32, f16>
          %b = read {memory = "b", origin = (("N", [wg1*64],), ("K", [at_K],),)} : tile<N: 64, K: 32, f16>
          %acc.1 = mma %a, %b, %acc {instruction = "mma_m16n8k16_f16", k = "K", m = "M", n = "N"} : tile<M: 32, N: 64, f32>
          yield %acc.1
        end
        write %sums {memory = "c", origin = (("M", [wg0*32],), ("N", [wg1*64],),)}
    """)


def test_grid_counts_partial_tiles_and_waves_share_a_tile() -> None:
    kernel = assigned()
    assert list(map(str, kernel.grid)) == ["(M + 31)//32", "(N + 63)//64"]
    assert (kernel.waves, kernel.lanes, kernel.threads) == ((("wave_M", 2), ("wave_N", 2)), 32, 128)


def test_grid_axis_without_a_split_has_one_workgroup() -> None:
    grid = assigned(("workgroup N 64 1", "workgroup N 64 2")).grid
    assert list(map(str, grid)) == ["(M + 31)//32", "1", "(N + 63)//64"]


def test_dim_of_one_size_needs_no_constraint() -> None:
    one_size = ("symbol M in 0..4096 by 1\n", ""), ("[M]", "[48]"), ("    split workgroup M 32 0\n", "")
    kernel = assigned(*one_size, ("N 64 1", "N 64 0"), ("    split wave M 16 0\n", ""))
    assert "tile<M: 48, N: 64, f32>" in lines(kernel, "register")[0]


def test_split_of_a_dim_that_no_tensor_has_is_ignored() -> None:
    kernel = assigned(("split loop K", "split loop Q 4 0\n    split loop K"))
    assert [split.dim for split in kernel.distribution.loops] == ["K"]


def test_known_sizes_bound_the_identifiers() -> None:
    kernel = assigned(("K in 0..4096", "K in 0..40"), ("N in 0..4096", "N in 0..128"))
    symbols = [line for line in print_kernel(kernel).splitlines() if line.startswith("symbol")]
    assert symbols[3:] == [
        "symbol wg0 in 0..127 by 1",
        "symbol wg1 in 0..1 by 1",
        "symbol wave_M in 0..1 by 1",
        "symbol wave_N in 0..1 by 1",
        "symbol lane in 0..31 by 1",
        "symbol at_K in 0..32 by 32",
    ]


def test_the_grid_of_a_call_without_rows_is_empty() -> None:
    """Also where any other call has one tile of them."""
    for promise in ("max: 1", "max: 32", "max: 100"):
        kernel = Gemm(dims=(promise, "", "")).lowered(NVIDIA, STAGE)
        assert kernel.present == ("M", "N") and kernel.present_sizes["M"].low == 1
        assert 0 in [extent.evaluate({"M": 0, "N": 70, "K": 8}) for extent in kernel.grid]
        assert 0 not in [extent.evaluate({"M": 1, "N": 70, "K": 8}) for extent in kernel.grid]


def test_no_chain_of_sums_is_longer_than_the_instruction_allows() -> None:
    row = next(row for row in CPU.instructions if row.chain)
    for depth, step in ((2 * row.chain, row.chain), (row.chain // 2, row.chain // 2)):
        kernel = Gemm("bf16", tile=(24, 64, depth), wave=(None, None)).lowered(CPU, STAGE)
        assert f"step = [{step}]" in lines(kernel, "iterate")[0]


ROWS_SO_FAR = """\
apiVersion: wavespec/v1
kind: Kernel
name: so_far
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {tiling: N, tile: 4096}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - rows:
      iterate: N
      carry: {before: none}
      body:
        - part: {read: x}
        - running: {cumsum: part, dim: N, init: before}
        - before: {sum: part, dim: N, init: before}
        - {write: running, to: y}
"""


def test_steps_with_code_for_each_element_are_short() -> None:
    assert CPU.longest_scan and not NVIDIA.longest_scan
    counted = ROWS_SO_FAR.replace("iterate: N", "iterate: N\n      step: 2")
    ending = ROWS_SO_FAR.replace("iterate: N", "iterate: N\n      until: left < 1")
    ending = ending.replace("graph:", "graph:\n  - steps: {register: [], dtype: i32, value: 3}")
    ending = ending.replace(
        "before: none}\n      body:", "before: none, left: steps}\n      body:\n        - left: left - 1"
    )
    for spec, machine, step in (
        (ROWS_SO_FAR, CPU, CPU.longest_scan),
        (ROWS_SO_FAR, NVIDIA, 4096),
        (counted, CPU, 4096),
        (ending, CPU, 4096),
    ):
        kernel = lower(loads(spec), machine, after=STAGE)
        assert f"step = [{step}]" in lines(kernel, "iterate")[0]


def test_a_serial_wave_takes_one_instruction_whatever_is_written() -> None:
    kernel = Gemm("f32", tile=(24, 128, 8), wave=(24, 64)).lowered(CPU, STAGE)
    assert dict(kernel.waves) == {"wave_M": 2, "wave_N": 4} and kernel.lanes == 1


def test_all_tiles_that_do_not_fit_the_instruction_are_reported_together() -> None:
    assert (
        refused(Gemm(tile=(32, 64, 24), wave=(8, 32), mma="f32_16x16x16_f16"), AMD)
        == """\
gemm.wave.yaml:19:23: error[tile-not-divisible]: The tile of K of 24 elements is not a multiple of the matrix instruction's extent, 16.
    |
 19 |   - {tiling: K, tile: BK}
    |                       ^^
    = note: For gfx942.
    = hint: Use a multiple of 16, such as 16.
gemm.wave.yaml:20:21: error[tile-not-divisible]: The wave tile of M of 8 elements is not a multiple of the matrix instruction's extent, 16.
    |
 20 |   - {wave: M, tile: 8}
    |                     ^
    = note: For gfx942.
    = hint: Use a multiple of 16, such as 16."""
    )


def test_workgroup_tile_of_serial_waves_is_a_multiple_of_the_instruction() -> None:
    assert (
        refused(Gemm("f32", tile=(28, 64, 32), wave=(None, None)), CPU)
        == """\
gemm.wave.yaml:17:26: error[tile-not-divisible]: The workgroup tile of M of 28 elements is not a multiple of the matrix instruction's extent, 12.
    |
 17 |   - {workgroup: M, tile: BM, axis: 0}
    |                          ^^
    = note: For cpu.
    = hint: Use a multiple of 12, such as 24."""
    )


def test_too_many_threads() -> None:
    assert (
        refused(Gemm(tile=(256, 128, 32), wave=(16, 32)), AMD)
        == """\
gemm.wave.yaml:20:21: error[too-many-threads]: 64 waves of 64 lanes are 4096 threads; gfx942 runs at most 1024 in a workgroup.
    |
 20 |   - {wave: M, tile: 16}
    |                     ^^
    = note: For gfx942.
    = hint: Make the wave tiles larger or the workgroup tiles smaller."""
    )


def test_dim_of_any_size_that_nothing_splits() -> None:
    with pytest.raises(WavespecError) as caught:
        changed(
            NVIDIA,
            ("  - {workgroup: M, tile: BM, axis: 0}\n", ""),
            ("axis: 1", "axis: 0"),
            ("  - {wave: M, tile: 16}\n", ""),
        )
    assert str(caught.value).startswith("""\
gemm.wave.yaml:22:11: error[untiled-dim]: One workgroup would hold 'zero' along all of 'M', whose size is known only when the kernel is called.
    |
 22 |   - zero: {register: [M, N], dtype: f32, value: 0}
    |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    = note: For sm_90.
    = hint: Add {workgroup: M, tile: 64, axis: 1} to 'constraints'.""")


def test_whole_tile_of_a_dim_that_is_always_empty() -> None:
    with pytest.raises(WavespecError) as caught:
        changed(
            NVIDIA,
            ("  M: {}\n", "  M: {equals: BM - BM}\n"),
            ("  - {workgroup: M, tile: BM, axis: 0}\n", ""),
            ("axis: 1", "axis: 0"),
            ("  - {wave: M, tile: 16}\n", ""),
        )
    assert str(caught.value).startswith("""\
gemm.wave.yaml:22:11: error[empty-tile]: One workgroup would hold 'zero' along all of 'M', whose size is always 0 here.
""")


def test_tile_of_a_loop_outside_the_loop() -> None:
    with pytest.raises(WavespecError) as caught:
        changed(NVIDIA, ("        - a_tile: {read: a}\n", ""), ("  - k_loop:", "  - a_tile: {read: a}\n  - k_loop:"))
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:25:13: error[outside-loop]: 'a_tile' has the dim 'K', which is walked over in tiles, and is not inside an 'iterate' over 'K'.
    |
 25 |   - a_tile: {read: a}
    |             ^^^^^^^^^
    = note: For sm_90.
    = hint: Move it into the 'iterate' over 'K', or delete the tiling of 'K'."""
    )


def test_dims_of_one_tile_need_no_loop() -> None:
    spec = loads(ONE_TILE, "short.wave.yaml")
    assert '("K", [0],)' in lines(lower(spec, NVIDIA, after=STAGE), "read")[0]
    for machine in (NVIDIA, AMD, CPU):
        report, expected = run(spec, machine, {"M": 5, "N": 7, "K": 19})
        assert report.findings == () and (report.tensors["c"] == expected).all()


def test_dims_without_a_loop_fit_their_tile() -> None:
    with pytest.raises(WavespecError) as caught:
        lower(loads(ONE_TILE.replace("max: 32", "max: 33"), "short.wave.yaml"), NVIDIA)
    assert (
        str(caught.value)
        == """\
short.wave.yaml:12:23: error[larger-than-tile]: Nothing walks over 'K' with 'iterate', so one tile of 32 elements has to hold all of it; it may be larger.
    |
 12 |   - {tiling: K, tile: 32}
    |                       ^^
    = note: For sm_90.
    = hint: Promise {K: {max: 32}} in 'dims', use a larger tile, or add 'iterate: K'."""
    )


@pytest.mark.parametrize("machine", machines("cpu"), ids=lambda machine: machine.variant)
def test_one_tile_of_a_cpu_is_longer_than_what_it_sums_at_once(machine: Machine) -> None:
    spec = loads(ONE_TILE.replace("max: 32", "max: 512").replace("K, tile: 32", "K, tile: 512"), "short.wave.yaml")
    for k in (3, 257, 512):
        report, expected = run(spec, machine, {"M": 5, "N": 7, "K": k})
        assert report.findings == () and (report.tensors["c"] == expected).all()


def test_a_tile_that_nobody_wrote_is_told_where_it_is_used() -> None:
    text = """
apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f16}
  b: {shape: [N, K], dtype: f16}
  c: {shape: [M, N], dtype: f32, role: output}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
targets: {gfx942: {params: {TILE_M: 40, WAVE_M: 40}}}
"""
    ((found, *_),) = check_builds([loads(text, "product.wave.yaml")], ["gfx942"])
    assert found.code == "tile-not-divisible" and found.span and found.span.line == 18
