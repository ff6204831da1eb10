"""Rows of two dims in one tile: the spec that comes of a case, its results on every target, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from tests.specs.references import attention_capped_window
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.families.kernel_meant import kernel_meant
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

GROUPS = """apiVersion: wavespec/v1
kind: Kernel
name: grouped_scores
dims: {B: {}, H: {}, M: {}, G: {}, D: {max: 64}, N: {}}
tensors:
  q: {shape: [B, H, M, D], dtype: f16, space: shared}
  k: {shape: [B, G, N, D], dtype: f16, space: shared}
  slope: {shape: [H], dtype: f32}
  y: {shape: [B, H, M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {workgroup: H, tile: 1, axis: 2}
  - {workgroup: B, tile: 1, axis: 3}
  - {wave: M, tile: 16}
  - {tiling: D, tile: 64}
  - {hardware: {mma: auto}}
  - {assume: H % G == 0}
graph:
  - a: {read: q}
  - b: {read: k, dims: [B, H, N, D], at: {G: "H * size(G) // size(H)"}}
  - zero: {register: [B, H, M, N], dtype: f32, value: 0}
  - scores: {mma: [a, b, zero]}
  - steep: {read: slope}
  - behind: "f32(index(M) + index(N))"
  - result: "scores + steep * behind + f32(index(H))"
  - {write: result, to: y}
targets:
  TARGET:
    cases:
      - when: [M <= 16]
        schedule: {pack: ASKED}
"""


def spec_of(*changes: tuple[str, str], target: str = "sm_90", asked: str = "{M: [H, G]}") -> KernelSpec:
    text = GROUPS.replace("TARGET", target).replace("ASKED", asked)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "groups.wave.yaml")


def test_what_all_of_a_group_read_is_read_once() -> None:
    text = dump_yaml(cases_for_target(spec_of(), "sm_90")[0].spec)
    assert "  H_M: {equals: H // G * M}\n" in text
    assert (
        "- a: {read: q, dims: [B, G, H_M, D], at: {H: G * (size(H) // size(G)) + H_M // size(M), M: H_M % size(M)}}"
        in text
    )
    assert "- b: {read: k, dims: [B, G, N, D]}\n" in text
    assert "- zero: {register: [B, G, H_M, N], dtype: f32, value: 0}\n" in text
    assert "- {workgroup: H_M, tile: 32, axis: 0}\n" in text and "- {workgroup: G, tile: 1, axis: 2}\n" in text
    assert "{wave: H_M, tile: 16}" in text and "pack" not in text


WINDOWED = Path(__file__).parents[1] / "specs" / "attention_capped_window.wave.yaml"


def test_bounds_are_those_of_all_rows() -> None:
    text = dump_yaml(cases_for_target(kernel_meant(load(WINDOWED)), "sm_90")[-2].spec)
    assert "start: 0 + N - M - WINDOW + 1\n" in text and "end: M + N - M\n" in text
    assert "(index(H_M) % size(M))" in text and "index(M)" not in text


@pytest.mark.parametrize("keys", [150, 600])
def test_a_window_of_packed_rows_is_right_also_where_workgroups_share_it_out(keys: int) -> None:
    (machine,) = machines("sm_90")
    sizes = {"B": 1, "H": 4, "G": 2, "M": 19, "N": keys, "D": 24, "E": 16}
    case = case_for_sizes(cases_for_target(kernel_meant(load(WINDOWED)), "sm_90"), sizes)
    kernel = lower(case.spec, machine)
    assert kernel.cluster == (4 if keys == 600 else 1)
    random = torch.Generator().manual_seed(0)
    q, *kv = (
        torch.randn(1, heads, n, e, generator=random) for heads, n, e in ((4, 19, 24), (2, keys, 24), (2, keys, 16))
    )
    inputs = [tensor.bfloat16() for tensor in (q, *kv)]
    arrays = {name: tensor_to_elements(one, "bf16") for name, one in zip("qkv", inputs, strict=True)}
    report = simulate(kernel, machine, arrays, complete_sizes(case.spec, sizes), scalars={"scale": 0.3})
    assert report.ok, report.render()
    (expected,) = attention_capped_window(*(one.float() for one in inputs), scale=0.3)
    torch.testing.assert_close(elements_to_tensor(report.tensors["o"], "bf16").float(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942"])
@pytest.mark.parametrize(("heads", "groups", "rows"), [(6, 2, 5), (3, 3, 1), (8, 1, 16)])
def test_results_are_those_of_heads_one_by_one(target: str, heads: int, groups: int, rows: int) -> None:
    case = cases_for_target(spec_of(target=target), target)[0]
    sizes = {"B": 2, "H": heads, "M": rows, "G": groups, "D": 40, "N": 37}
    random = torch.Generator().manual_seed(0)
    q, k, slope = (
        torch.randint(-3, 4, shape, generator=random).to(dtype)
        for shape, dtype in (
            ((2, heads, rows, 40), torch.float16),
            ((2, groups, 37, 40), torch.float16),
            ((heads,), torch.float32),
        )
    )
    machine = machines(target)[0]
    given = (("q", q, "f16"), ("k", k, "f16"), ("slope", slope, "f32"))
    arrays = {name: tensor_to_elements(tensor, dtype) for name, tensor, dtype in given}
    report = simulate(lower(case.spec, machine), machine, arrays, complete_sizes(case.spec, sizes))
    assert report.ok, report.render()
    result = elements_to_tensor(report.tensors["y"], "f32")
    behind = torch.arange(rows)[:, None] + torch.arange(37)
    expected = q.float() @ k.float().repeat_interleave(heads // groups, 1).mT
    expected = expected + slope[:, None, None] * behind + torch.arange(heads)[:, None, None]
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


def packed_case() -> TargetCase:
    return cases_for_target(spec_of(), "sm_90")[0]


def test_it_is_a_plain_spec_like_any_other() -> None:
    for case in (packed_case(), *cases_for_target(kernel_meant(load(SPECS / "attention_gqa.wave.yaml")), "sm_90")):
        assert loads_plain(dump_yaml(case.spec)) == case.spec


REFUSED = {
    "no dim": ((), "{M: [H, Q]}", "'Q' is no dim of the spec"),
    "twice": ((), "{M: [H, H]}", "it takes another dim that they share"),
    "no sums": ((("tile: 1, axis: 2}", "tile: 16, axis: 2}"),), "{H: [H, G]}", "lanes sum no products of what neighbours share"),
    "no promise": ((("  - {assume: H % G == 0}\n", ""),), "{M: [H, G]}", "'H' may be no multiple of 'G'"),
    "several heads": ((("{workgroup: H, tile: 1,", "{workgroup: H, tile: 2,"),), "{M: [H, G]}", "the grid does not count 'H' one by one"),
    "an order": ((("tile: 32, axis: 0}", "tile: 32, axis: 0, order: count - 1 - index}"),), "{M: [H, G]}", "its tiles have an order"),
    "a sum of heads": ((("- {write: result", "- total: {sum: result, dim: H}\n  - {write: result"),), "{M: [H, G]}", "'total' joins elements along it"),
    "another op": ((("- {write: result", "- other: {take: result, at: {N: N + 1}}\n  - {write: result"),), "{M: [H, G]}", "the graph has 'take'"),
    "a result of heads": ((("  y: {", "  z: {shape: [H], dtype: f32, role: output}\n  y: {"), ("- {write: result", "- {write: steep, to: z}\n  - {write: result")), "{M: [H, G]}", "'steep' has one of both dims alone"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "asked", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_packed_is_refused_where_it_is_asked_for(
    changes: tuple[tuple[str, str], ...], asked: str, why: str
) -> None:
    with pytest.raises(WavespecError) as caught:
        spec_of(*changes, asked=asked)
    found = next(one for one in caught.value.diagnostics if one.code == "pack-not-possible")
    assert why in found.message and found.span is not None and found.hints


def test_the_kernel_for_all_sizes_has_its_own_rows() -> None:
    case = "    cases:\n      - when: [M <= 16]\n        schedule"
    with pytest.raises(WavespecError, match="it is for some sizes of a call"):
        spec_of((case, "    schedule"))


ENDED = """apiVersion: wavespec/v1
kind: Kernel
name: ended_scores
dims: {T: {}, H: {}, G: {}, D: {max: 64}, N: {}, L: {min: 1}, B: {equals: L - 1}, M: {equals: T}}
tensors:
  q: {shape: [T, H, D], dtype: f16, space: shared}
  k: {shape: [G, N, D], dtype: f16, space: shared}
  starts: {shape: [L], dtype: i32, values: {min: 0, max: T, order: sorted}}
  y: {shape: [T, H, N], dtype: f32, role: output}
constraints:
  - {workgroup: N, tile: 32, axis: 0}
  - {workgroup: H, tile: 1, axis: 0}
  - {workgroup: B, tile: 1, axis: 2}
  - {workgroup: M, tile: 128, axis: 1}
  - {wave: M, tile: 64}
  - {tiling: D, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - first: {read: starts, dims: [B], at: {L: B}}
  - beyond: {read: starts, dims: [B], at: {L: B + 1}}
  - batch:
      if: start(M) < beyond - first
      body:
        - a: {read: q, dims: [B, H, M, D], at: {T: first + M}}
        - b: {read: k, dims: [B, H, N, D], at: {G: "H * size(G) // size(H)"}}
        - zero: {register: [B, H, M, N], dtype: f32, value: 0}
        - scores: {mma: [a, b, zero]}
        - result: "scores + f32(index(M) + 100 * index(H))"
        - write: result
          to: y
          at: {T: "first + M + max(first + M + 1 - beyond, 0) * size(T)"}
targets:
  TARGET:
    cases:
      - when: [H % (G * 4) == 0]
        constraints:
          - {workgroup: N, tile: 32, axis: 0}
          - {workgroup: H, tile: 1, axis: 0}
          - {workgroup: B, tile: 1, axis: 2}
          - {workgroup: M, tile: 128, axis: 1, order: count - 1 - index, end: beyond - first}
          - {wave: M, tile: 64}
          - {tiling: D, tile: 64}
          - {hardware: {mma: auto}}
        schedule: {pack: {M: [H, ASKED]}, workgroups: {persistent: true, count: 4}}
"""


def ended(target: str = "sm_90", *changes: tuple[str, str], asked: int = 4) -> TargetCase:
    text = ENDED.replace("TARGET", target).replace("ASKED", str(asked))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return cases_for_target(loads(text, "ended.wave.yaml"), target)[0]


def test_rows_of_neighbours_are_as_many_of_each_in_a_wave() -> None:
    spec = ended().spec
    text = dump_yaml(spec)
    assert "  H_by_4: {equals: H // 4}\n" in text and "  H_M: {equals: (M + 15) // 16 * 64}\n" in text
    assert (
        "{workgroup: H_M, tile: 128, axis: 1, order: count - 1 - index, end: (beyond - first + 15) // 16 * 64}" in text
    )
    assert "if: start(H_M) < (beyond - first + 15) // 16 * 64\n" in text, "as the tiles end, so that it is no branch"
    assert "at: {T: first + (H_M // 64 * 16 + H_M % 16), H: H_by_4 * 4 + H_M % 64 // 16}" in text
    assert "- b: {read: k, dims: [B, H_by_4, N, D], at: {G: H_by_4 * size(G) // size(H_by_4)}}\n" in text
    assert "index(M)" not in text and "index(H)" not in text and "pack" not in text
    assert loads_plain(text) == spec


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(("heads", "groups", "starts"), [(8, 1, [0, 3, 3, 40]), (4, 1, [0, 70, 71]), (8, 2, [2, 34])])
def test_results_of_tiles_that_end_are_those_of_heads_one_by_one(
    target: str, heads: int, groups: int, starts: list[int]
) -> None:
    case, machine = ended(target), machines(target)[0]
    tokens = starts[-1] + 1
    sizes = {"T": tokens, "H": heads, "G": groups, "D": 40, "N": 37, "L": len(starts)}
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randint(-3, 4, shape, generator=random).half() for shape in ((tokens, heads, 40), (groups, 37, 40)))
    given = (("q", q, "f16"), ("k", k, "f16"), ("starts", torch.tensor(starts, dtype=torch.int32), "i32"))
    arrays = {name: tensor_to_elements(tensor, dtype) for name, tensor, dtype in given}
    arrays["y"] = tensor_to_elements(torch.zeros(tokens, heads, 37), "f32")
    report = simulate(lower(case.spec, machine), machine, arrays, complete_sizes(case.spec, sizes))
    assert report.ok, report.render()
    expected = torch.einsum("thd,hnd->thn", q.float(), k.float().repeat_interleave(heads // groups, 0))
    place = torch.zeros(tokens)
    for start, end in itertools.pairwise(starts):
        place[start:end] = torch.arange(end - start)
    expected += (place[:, None] + 100 * torch.arange(heads))[:, :, None]
    expected[: starts[0]], expected[starts[-1] :] = 0, 0
    torch.testing.assert_close(elements_to_tensor(report.tensors["y"], "f32"), expected, rtol=0, atol=0)


@pytest.mark.parametrize(("asked", "limit"), [(1, "at least 2"), (65, "at most 64")])
def test_a_number_of_neighbours_has_limits(asked: int, limit: str) -> None:
    """It was said to be no text, as the name of a dim is."""
    with pytest.raises(WavespecError, match=rf"\[out-of-range\]: .* is {limit}, not {asked}\."):
        ended(asked=asked)


UNSHARED = {
    "of two groups": ((("H % (G * 4) == 0", "H % G == 0"),), 4, "4 neighbours may read different elements of 'G'"),
    "other counts": ((), 8, "8 neighbours may read different elements of 'G'"),
    "nothing shared": ((("H * size(G) // size(H)", "H"),), 4, "neighbours share nothing that is read"),
    "no tiles of the grid": ((("{workgroup: M, tile: 128, axis: 1, order: count - 1 - index, end: beyond - first}", "{tiling: M, tile: 128}"),), 4, "the grid does not count 'H' one by one"),
    "parts of a wave": ((("H % (G * 4)", "H % (G * 3)"),), 3, "a wave has no multiple of 3 rows"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "asked", "why"), UNSHARED.values(), ids=UNSHARED)
def test_neighbours_that_are_no_rows_of_a_tile_are_refused(
    changes: tuple[tuple[str, str], ...], asked: int, why: str
) -> None:
    with pytest.raises(WavespecError) as caught:
        ended("sm_90", *changes, asked=asked)
    found = next(one for one in caught.value.diagnostics if one.code == "pack-not-possible")
    assert why in found.message and found.span is not None and found.hints
