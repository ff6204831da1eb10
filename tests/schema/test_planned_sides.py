"""What tiles on CPUs have of dims that products have not, and of few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import SPECS
from tests.schema.test_planned import HEAD, ROUTING, tiles, waves
from wavespec.cache import CompileCache
from wavespec.cases_on_machines import cases_on
from wavespec.check_builds import check_builds
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Tiling
from wavespec.schema.load import loads
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.resolve import complete_sizes, resolve_params
from wavespec.targets.machine import machines

COMPLEX = (
    HEAD
    + """
dims: {M: {}, N: {}, K: {}, C: {value: 2}}
tensors:
  a: {shape: [M, K, C], dtype: f32}
  b: {shape: [K, N, C], dtype: f32}
  c: {shape: [M, N, C], dtype: f32, role: output}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {same: zero, other: zero}
      body:
        - left: {read: a, dims: [M, K], at: {C: 0}}
        - right: {read: b, dims: [K, N], at: {C: 0}}
        - turned: {read: b, dims: [K, N], at: {C: 1}}
        - same: {mma: [left, right, same]}
        - other: {mma: [left, turned, other]}
  - part: {index: C}
  - both: where(part == 0, steps.same, steps.other)
  - {write: both, to: c}
"""
)


def test_a_workgroup_has_all_of_a_short_dim_that_no_product_has() -> None:
    """With one element of it, each product would be computed for each."""
    for target in ("cpu", "sm_90"):
        assert "C" not in tiles(loads(COMPLEX), target, M=256, N=256, K=256, C=2)


def test_a_long_dim_that_no_product_has_is_one_by_one() -> None:
    roles = roles_of(loads(COMPLEX.replace("{value: 2}", "{value: 64}")))
    assert roles is not None and roles.alone == ("C",)


@pytest.mark.parametrize(("columns", "tile"), [(24, 1024), (1000, 1024), (4000, 4096)])
@pytest.mark.parametrize("rows", [1, 50, 8192])
def test_what_is_looked_up_for_each_row_is_in_one_tile(rows: int, columns: int, tile: int) -> None:
    """A tile more of it would multiply again."""
    assert tiles(loads(ROUTING), "cpu", T=rows, E=128, K=4096, D=columns)["D"] == tile


def test_one_row_has_tiles_of_one() -> None:
    assert tiles(loads(ROUTING), "cpu", T=1, E=128, K=4096, D=1000)["T"] == 1


GROUPS = (
    HEAD
    + """
dims: {S: {}, G: {}, D: {value: 8}}
tensors: {x: {shape: [S, G, D], dtype: f32}, y: {shape: [G], dtype: f32, role: output}}
graph:
  - none: {register: [G], dtype: f32, value: 0}
  - sums:
      iterate: S
      carry: {total: none}
      body: [part: {read: x}, total: {sum: part, dim: [S, D], init: total}]
  - {write: sums.total, to: y}
"""
)


@pytest.mark.parametrize(("width", "wave"), [(8, 32), (64, 32), (128, 1)])
def test_waves_of_groups_have_whole_rows_of_memory_as_far_as_there_is_room(width: int, wave: int) -> None:
    """Parts of a row from each of many rows are not fetched ahead."""
    spec = loads(GROUPS.replace("value: 8", f"value: {width}"))
    assert waves(spec, "cpu", S=999, G=32)["G"] == wave


def test_groups_of_any_number_build() -> None:
    """Vectors of more steps than a tile had left of those in the table were refused."""
    assert check_builds([loads(GROUPS)], ["cpu"]) == [()]


def test_variants_without_tile_registers_multiply_pixels_where_they_are() -> None:
    """In f32 all do; what an entry has for some variants leaves the same calls of others to those behind it."""
    text = (SPECS.parent / "benchmarks/specs/planned/transposed_convolution.wave.yaml").read_text(encoding="utf-8")
    sizes = {"N": 1, "H": 64, "W": 64, "C": 128, "O": 64, "M": 4096, "K": 512}
    found = list[object]()
    for dtype in ("f32", "bf16"):
        spec = loads(text.replace("{dtype: f32", f"{{dtype: {dtype}").replace("result: f32", f"result: {dtype}"))
        for variant in ("x86_64_amx", "x86_64_v4_bf16"):
            case = case_for_sizes(cases_on(spec, "cpu", machines(f"cpu:{variant}")), complete_sizes(spec, sizes))
            (steps,) = [one.tile for one in case.spec.constraints if isinstance(one, Tiling) and one.dim == "K"]
            found.append((variant, case.spec.tensors["x"].space, steps.evaluate(resolve_params(case.spec))))
    in_place = [("x86_64_amx", "global", 128), ("x86_64_v4_bf16", "global", 128)]
    in_rows = ("x86_64_amx", "shared", 3 * 4 * 64)  # four taps of three parts of the channels
    assert found == [*in_place, in_rows, ("x86_64_v4_bf16", "global", 128)]


def test_rows_of_complex_numbers_are_read_where_they_are() -> None:
    """Each of four products spreads other elements of them, of which a copy would be another one."""
    spec = loads((SPECS.parent / "benchmarks/specs/planned/complex_product.wave.yaml").read_text(encoding="utf-8"))
    case = case_for_sizes(cases_for_target(spec, "cpu"), {"B": 1, "M": 256, "N": 256, "K": 256, "P": 2})
    assert [case.spec.tensors[name].space for name in ("a", "b")] == ["global", "shared"]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_complex_numbers_that_lanes_hand_on_have_room(dtype: str, tmp_path: Path) -> None:
    """Sums of four products are handed on as parts side by side, beside staged tiles: `shared-memory-exceeded` for
    gfx942, and for narrow elements, of which tiles have more, for Hopper."""
    text = (SPECS.parent / "benchmarks/specs/planned/complex_product.wave.yaml").read_text(encoding="utf-8")
    text = text.replace("P], dtype: f32", f"P], dtype: {dtype}").replace("where(part", f"{dtype}(where(part")
    spec = loads(text.replace("real, imaginary)", "real, imaginary))"))
    assert check_builds([spec], ["sm_90", "gfx942", "gfx950"], cache=CompileCache(tmp_path), workers=1) == [()]
