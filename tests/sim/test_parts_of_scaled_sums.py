"""Sums relative to extremes, in parts of a dim: what the kernels of a case find is what one loop over the dim finds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from tests.kernels import elements_to_tensor, tensor_to_elements
from tests.sim.cases import lowered_case
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

ATTENTION = """apiVersion: wavespec/v1
kind: Kernel
name: attention
dims: {B: {}, M: {}, N: {}, D: {max: 16}, E: {}}
tensors:
  q: {shape: [B, M, D], dtype: bf16}
  k: {shape: [B, N, D], dtype: bf16}
  v: {shape: [B, N, E], dtype: bf16}
  slope: {shape: [M], dtype: f32}
  o: {shape: [B, M, E], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {workgroup: E, tile: 32, axis: 1}
  - {workgroup: B, tile: 1, axis: 2}
  - {wave: M, tile: 16}
  - {tiling: N, tile: 32}
  - {tiling: D, tile: 32}
  - {hardware: {mma: auto}}
graph:
  - a: {read: q}
  - steep: {read: slope}
  - lowest: {register: [B, M], dtype: f32, value: -.inf}
  - none: {register: [B, M], dtype: f32, value: 0}
  - nothing: {register: [B, M, E], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {largest: lowest, total: none, acc: nothing}
      body:
        - b: {read: k}
        - c: {read: v}
        - zero: {register: [B, M, N], dtype: f32, value: 0}
        - products: {mma: [a, b, zero]}
        - scores: "products + steep * f32(index(N))"
        - top: {max: scores, dim: N}
        - highest: "maximum(largest, top)"
        - shrink: "exp2(largest - highest)"
        - largest: highest
        - power: "exp2(scores - highest)"
        - part: {sum: power, dim: N}
        - total: "total * shrink + part"
        - weight: "bf16(power)"
        - scaled: "acc * shrink"
        - acc: {mma: [weight, c, scaled]}
  - result: "steps.acc / steps.total"
  - {write: result, to: o}
targets:
  TARGET:
    cases:
      - when: [M <= 100]
        schedule: {parts: {N: 4}}
"""


def spec_of(target: str = "sm_90", *changes: tuple[str, str]) -> KernelSpec:
    text = ATTENTION.replace("TARGET", target)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "attention.wave.yaml")


def results(
    case: TargetCase, kernels: Sequence[Kernel], machine: Machine, keys: int
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What the kernels of a case write, and queries, keys and values."""
    random = torch.Generator().manual_seed(keys)
    sides = ((5, 16), (keys, 16), (keys, 24))
    made = [torch.randn(2, rows, width, generator=random).bfloat16() for rows, width in sides]
    given = {"q": made[0], "k": made[1], "v": made[2], "slope": torch.linspace(-1, 1, 5)}
    arrays = {name: tensor_to_elements(one, case.kernels[0].tensors[name].dtype) for name, one in given.items()}
    sizes = {"B": 2, "M": 5, "N": keys, "D": 16, "E": 24}
    known, reports = simulate_before(case, kernels[:-1], machine, arrays, sizes, {})
    report = simulate(kernels[-1], machine, known, {**sizes, "N_part": 4})
    assert all(one.ok for one in (*reports, report)), [one.render() for one in (*reports, report)]
    return elements_to_tensor(report.tensors["o"], "f32").reshape(2, 5, 24).double(), made


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "cpu"])
@pytest.mark.parametrize("keys", [1, 64, 270])
def test_parts_find_what_one_loop_finds(target: str, keys: int) -> None:
    """Of one key three parts have none: their largest score is the least number, and counts for nothing. Slopes put
    the largest score into the first part of one row, and into the last one of another."""
    (case, *_), machine = cases_for_target(spec_of(target), target), machines(target)[0]
    found, (q, k, v) = results(case, lowered_case(case, machine), machine, keys)
    scores = q.double() @ k.double().mT + torch.linspace(-1, 1, 5).double()[:, None] * torch.arange(keys)
    expected = torch.softmax(scores * 0.6931471805599453, -1) @ v.double()
    assert (found - expected).abs().max() < 2**-7


def test_parts_of_which_nothing_counts_count_for_nothing() -> None:
    """Keys behind a row's own place have minus infinity as their score: in all parts but the first, whose extremes
    would be no numbers if they started there."""
    spec = spec_of("sm_90", ("products + steep * f32(index(N))", "where(index(N) <= index(M), products + steep, -inf)"))
    (case, *_), machine = cases_for_target(spec, "sm_90"), machines("sm_90")[0]
    found, (q, k, v) = results(case, lowered_case(case, machine), machine, 150)
    scores = (q.double() @ k.double().mT).masked_fill(torch.ones(5, 150).triu(1).bool(), -torch.inf)
    expected = torch.softmax(scores * 0.6931471805599453, -1) @ v.double()
    assert (found - expected).abs().max() < 2**-7


def test_the_kernel_behind_scales_what_each_part_has_found() -> None:
    (case, *_) = cases_for_target(spec_of(), "sm_90")
    (before,), text = case.before, dump_yaml(case.spec)
    assert "start: start(N_part) * (ceildiv(N, 4 * 32) * 32)" in dump_yaml(before)
    assert "acc_of_parts: {shape: [B, M, N_part, E], dtype: f32, role: output}" in dump_yaml(before)
    assert "- shrink_sub_of_one: {sub: [largest_of_one, highest]}" in text
    assert "- acc_scaled: {mul: [acc_of_one, shrink_of_one]}" in text and "mma" not in text.partition("graph:")[2]


def test_sums_that_are_not_relative_to_what_is_carried_have_no_parts() -> None:
    with pytest.raises(WavespecError, match="has no parts"):
        spec_of("sm_90", ('"acc * shrink"', '"acc * shrink * 0.5"'))
