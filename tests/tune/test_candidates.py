"""Candidates: whole instructions within the machine's limits, ordered by the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, load, loads, spec_for_target
from wavespec.schema.language.constraints import Tiling, Wave, Workgroup
from wavespec.schema.language.expressions import Num
from wavespec.schema.resolve import spec_with_override
from wavespec.targets.machine import machines
from wavespec.tune.candidates import Candidate, NothingToTune, candidates
from wavespec.tune.cost_model import Product, Split, clocks, fits

GEMM = load(Path(__file__).parents[2] / "specs" / "gemm.wave.yaml")
LARGE = {"M": 4096, "N": 4096, "K": 4096}
AMD, CPU = machines("gfx942")[0], machines("cpu")[-1]


def found(target: str, sizes: dict[str, int], most: int = 24) -> list[Candidate]:
    machine = machines(target)[0]
    plain = spec_for_target(GEMM, target)
    return candidates(plain, machine, sizes, processors=128, named=target != "cpu", most=most)


def tile(candidate: Candidate, kind: type[Workgroup | Tiling | Wave], dim: str) -> int:
    (constraint,) = (c for c in candidate.settings.constraints or () if isinstance(c, kind) and c.dim == dim)
    assert isinstance(constraint.tile, Num)
    return int(constraint.tile.value)


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx950"])
def test_best_candidates_lower(target: str) -> None:
    for candidate in found(target, LARGE, most=6):
        lower(spec_with_override(spec_for_target(GEMM, target), candidate.settings), machines(target)[0])


@pytest.mark.parametrize("target", ["gfx942", "sm_90"])
def test_tiles_are_whole_waves_of_whole_instructions(target: str) -> None:
    for candidate in found(target, LARGE):
        name = next(word for word in candidate.words.split(", ") if machines(target)[0].instruction(word))
        row = machines(target)[0].instruction(name)
        assert row is not None
        for dim, part in (("M", row.m), ("N", row.n)):
            wave = tile(candidate, Wave, dim)
            assert wave % part == 0 and tile(candidate, Workgroup, dim) % wave == 0
        assert tile(candidate, Tiling, "K") % row.k == 0


def test_candidates_are_distinct_ordered_and_no_more_than_asked_for() -> None:
    every = found("gfx942", LARGE, most=40)
    assert len({candidate.words for candidate in every}) == len(every) == 40
    assert [candidate.clocks for candidate in every] == sorted(candidate.clocks for candidate in every)


def test_few_rows_get_small_tiles() -> None:
    few, many = (found("gfx942", {**LARGE, "M": m}, most=1)[0] for m in (16, 4096))
    assert tile(few, Workgroup, "M") <= 32 < tile(many, Workgroup, "M")


def test_what_the_product_does_not_split_stays() -> None:
    text = (Path(__file__).parents[2] / "specs" / "gemm.wave.yaml").read_text()
    spec = loads(text.replace("  - {hardware: {mma: auto}}\n\ngraph", "  - {assume: K > 8}\n\ngraph"))
    (best,) = candidates(spec_for_target(spec, "gfx942"), AMD, LARGE, processors=128, named=True, most=1)
    assert [c.word for c in best.settings.constraints or ()][-1] == "assume"


def test_limits_of_the_machine() -> None:
    row = AMD.instructions[0]
    small = Split(row, (128, 128, 32), (2, 2), 2)
    assert fits(small, AMD)
    assert not fits(replace(small, stages=9), AMD)  # shared memory
    assert not fits(replace(small, block=(2048, 128, 32), waves=(16, 2)), AMD)  # threads
    assert not fits(replace(small, block=(512, 512, 16)), AMD)  # registers


def test_model_counts_rounds_of_processors() -> None:
    split = Split(AMD.instructions[0], (128, 128, 32), (2, 2), 2)
    one_round = clocks(split, Product(128 * 10, 128 * 10, 4096), AMD, 100)
    two_rounds = clocks(split, Product(128 * 10, 128 * 11, 4096), AMD, 100)
    assert two_rounds > 1.3 * one_round


def test_model_of_a_cpu_prefers_blocks_that_are_copied_less() -> None:
    row = CPU.instructions[0]
    small, large = (clocks(Split(row, (48, n, 256)), Product(960, 1024, 1024), CPU, 2) for n in (32, 512))
    assert large < small


COPY = """\
apiVersion: wavespec/v1
kind: Kernel
name: copy
dims: {M: {}}
tensors:
  a: {shape: [M], dtype: f32}
  b: {shape: [M], dtype: f32, role: output}
constraints: [{workgroup: M, tile: 256, axis: 0}]
graph:
  - x: {read: a}
  - {write: x, to: b}
"""


WITHOUT_N = tuple(one for one in GEMM.constraints if getattr(one, "dim", "") != "N")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (loads(COPY), "copy has no matrix product"),
        (GEMM.model_copy(update={"constraints": WITHOUT_N}), "gemm does not split its product"),
    ],
)
def test_kernel_without_tiles_to_choose_is_refused(spec: KernelSpec, problem: str) -> None:
    with pytest.raises(NothingToTune, match=problem) as raised:
        candidates(spec, AMD, {"M": 64, "N": 64, "K": 64}, processors=1, named=True, most=1)
    assert isinstance(raised.value, WavespecError)
