"""Which operands are decoded on the way into a product, and what of their tensors is staged for that."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16, int4

from tests.lower.gemms import AMD, AMD_COPYING, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.decoded_operands import arranged, decoded_values, kept_operands, unpacked_operands
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

TEXT = """
apiVersion: wavespec/v1
kind: Kernel
name: weights
dims: {M: {}, N: {}, K: {multiple_of: 1024}, G: {multiple_of: 8, equals: K / 128}}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  w: {shape: [N, K], dtype: i4, space: shared}
  scale: {shape: [N, G], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 256}
  - {wave: N, tile: 64}
  - {hardware: {mma: auto}}
schedule: {stages: 2, waves: {producers: 1}}
only: [sm_90]
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - w_tile: {read: w}
        - s_tile: {read: scale, dims: [N, K], at: {G: K // 128}}
        - weight: bf16(w_tile) * s_tile
        - acc: {mma: [x_tile, weight, acc]}
  - {write: k_loop.acc, to: y}
"""


def kernel(text: str = TEXT, after: str = "promote-shared") -> Kernel:
    return lower(loads(text, "weights.wave.yaml"), NVIDIA, after=after)


def test_all_that_a_weight_follows_from_is_decoded_and_the_weight_is_kept() -> None:
    known = kernel(after="inline-steps")
    assert decoded_values(known) == {"weight", "weight_cast", "w_tile", "s_tile"}
    assert kept_operands(known) == {"weight"}


def test_a_packed_tensor_is_staged_packed() -> None:
    known = kernel()
    staged = known.memory("w.shared")
    assert staged.is_packed and staged.bytes_of(staged.elements.value) == 64 * 256 // 2
    assert parse_kernel(print_kernel(known)).memory("w.shared") == staged


def test_of_scales_a_row_of_a_box_is_staged() -> None:
    known = kernel()
    assert [extent.value for extent in known.memory("s_tile.shared").shape] == [64, 8]
    (copy,) = (op for op in known.walk() if op.get("source") == "scale")
    assert str(dict(copy["origin"])["G"]) == "(at_K//1024)*8"


def test_a_tile_of_fewer_rows_than_a_swizzle_has_none() -> None:
    """Two rows of 128 bytes: the next buffer begins in the middle of the eight that a swizzle counts."""
    turned = TEXT.replace("N: {}", "N: {multiple_of: 8}").replace("shape: [N, G]", "shape: [G, N]")
    tile = kernel(turned).memory("s_tile.shared")
    assert [extent.value for extent in tile.shape] == [2, 64]
    assert tile.arrangement is not None and tile.arrangement.swizzle is None
    assert kernel().memory("w.shared").arrangement.swizzle is not None  # pyright: ignore[reportOptionalMemberAccess]


def test_scales_whose_rows_no_box_starts_at_are_read_from_the_tensor() -> None:
    known = kernel(TEXT.replace("G: {multiple_of: 8,", "G: {multiple_of: 4,"))
    assert not [op for op in known.walk() if op.get("source") == "scale"]


def test_what_something_else_uses_as_well_is_not_decoded() -> None:
    text = TEXT.replace("        - acc: {mma", "        - again: f32(weight)\n        - acc: {mma")
    text = text.replace("      carry: {acc: zero}", "      carry: {acc: zero, rows: none}")
    text = text.replace("  - k_loop:", "  - none: {register: [N], dtype: f32, value: 0}\n  - k_loop:")
    text = text.replace(
        "        - acc: {mma", "        - part: {sum: again, dim: K}\n        - rows: rows + part\n        - acc: {mma"
    )
    text = text.replace("only: [sm_90]", "only: [sm_90]").replace(
        "  - {write: k_loop.acc", "  - {write: k_loop.rows, to: sums}\n  - {write: k_loop.acc"
    )
    text = text.replace("constraints:", "  sums: {shape: [N], dtype: f32, role: output}\nconstraints:")
    with pytest.raises(WavespecError) as caught:
        kernel(text)
    assert caught.value.code == "nothing-to-stage"


_FROM_TENSORS = (
    ("space: shared}", "space: global}"),
    ("{multiple_of: 1024}", "{multiple_of: 8}"),
    ("{multiple_of: 8, equals: K / 128}", '{equals: "ceildiv(K, 128)"}'),
    ("schedule: {stages: 2, waves: {producers: 1}}\nonly: [sm_90]\n", ""),
    ("tile: 8,", "tile: 16,"),
    ("{wave: N, tile: 64}", "{wave: N, tile: 32}\n  - {wave: K, tile: 128}"),
)


def alone() -> str:
    """The same with two waves along each of N and K, which nobody copies for."""
    text = TEXT
    for before, after in _FROM_TENSORS:
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("machine", [NVIDIA, AMD, AMD_COPYING])
def test_what_one_wave_multiplies_it_converts_in_runs(machine: Machine) -> None:
    known = lower(loads(alone(), "weights.wave.yaml"), machine, after="match-operands")
    assert unpacked_operands(known, machine) == {"weight": 32}
    assert [op["run"] for op in known.walk() if op.name == "mma"] == [32]


@pytest.mark.parametrize("machine", [NVIDIA, AMD, AMD_COPYING])
@pytest.mark.parametrize("sizes", [(3, 50, 1000), (16, 64, 256)])
def test_these_products_are_exact(machine: Machine, sizes: tuple[int, int, int]) -> None:
    (m, n, k), spec = sizes, loads(alone(), "weights.wave.yaml")
    random = np.random.default_rng(0)
    x, codes = random.integers(-3, 4, (m, k)).astype(np.float32), random.integers(-8, 8, (n, k)).astype(np.int8)
    scale = 2.0 ** random.integers(-1, 2, (n, -(-k // 128)))
    tensors = {"x": x.astype(bfloat16), "w": codes.astype(int4), "scale": scale.astype(bfloat16)}
    report = simulate(lower(spec, machine), machine, tensors, {"M": m, "N": n, "K": k, "G": -(-k // 128)})
    assert report.ok, report.render()
    weight = codes * np.repeat(scale, 128, 1)[:, :k]
    np.testing.assert_array_equal(report.tensors["y"], (x @ weight.T).astype(np.float32))


@pytest.mark.parametrize(("dtype", "is_swizzled"), [("i4", True), ("f8e4m3fn", True), ("f6e3m2fn", False)])
def test_elements_that_lie_across_chunks_are_not_swizzled(dtype: str, *, is_swizzled: bool) -> None:
    """Weights of six bits ended in an internal error: 21 of them, and a part of one, are 16 bytes."""
    shape = (const(32), const(512))
    tile = arranged(Memory("w.shared", DTYPES[dtype], ("N", "K"), shape, "shared", staged=True))
    assert tile.arrangement is not None and (tile.arrangement.swizzle is not None) == is_swizzled
