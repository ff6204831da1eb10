"""Neighbours that share what is read as rows of products: what these find is what lanes find."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.kernels import elements_to_tensor, tensor_to_elements
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.ops import Mma, every
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

MODELS = Path(__file__).parents[2] / "benchmarks" / "specs" / "models"
LINEAR = """apiVersion: wavespec/v1
kind: Kernel
name: linear_attention
dims: {H: {}, G: {}, N: {}, D: {min: 8, max: 64}}
tensors:
  q: {shape: [H, D], dtype: bf16}
  k: {shape: [G, N, D], dtype: bf16}
  v: {shape: [G, N, D], dtype: bf16}
  o: {shape: [H, D], dtype: f32, role: output}
graph:
  - a: {read: q}
  - nothing: {register: [H, D], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {acc: nothing}
      body:
        - b: {read: k, dims: [H, N, D], at: {G: "H * size(G) // size(H)"}}
        - c: {read: v, dims: [H, N, D], at: {G: "H * size(G) // size(H)"}}
        - both: "f32(b) * f32(a)"
        - scores: {sum: both, dim: D}
        - weighted: "f32(c) * (scores * 1.0009765625)"
        - more: {sum: weighted, dim: N}
        - acc: "more + acc"
  - {write: steps.acc, to: o}
"""


def simulated(
    spec: KernelSpec, case: TargetCase, sizes: dict[str, int], given: dict[str, torch.Tensor], **scalars: float
) -> torch.Tensor:
    (machine,) = machines("sm_90")
    dtypes = {name: spec.tensors[name].dtype for name in given}
    arrays = {name: tensor_to_elements(one, dtypes[name]) for name, one in given.items()}
    kernel = lower(case.spec, machine)
    report = simulate(kernel, machine, arrays, complete_sizes(case.spec, sizes), scalars=scalars)
    assert report.ok, report.render()
    return elements_to_tensor(report.tensors["o"], spec.tensors["o"].dtype)


def case_of(spec: KernelSpec, sizes: dict[str, int]) -> TargetCase:
    return case_for_sizes(cases_for_target(spec, "sm_90"), complete_sizes(spec, sizes))


@pytest.mark.parametrize(
    ("heads", "groups", "keys", "window"), [(8, 2, 150, 40), (70, 1, 90, 1000), (3, 3, 1030, 1024)]
)
def test_a_window_that_lanes_would_multiply(heads: int, groups: int, keys: int, window: int) -> None:
    """Of one head a group, of more than a tile has rows, and keys that two workgroups share out."""
    spec = load(MODELS / "attention_window_decode.wave.yaml")
    sizes = {"B": 2, "H": heads, "G": groups, "N": keys, "D": 16}
    case = case_of(spec, sizes)
    assert any(every(Mma, case.spec.graph))
    random = torch.Generator().manual_seed(heads)
    q, k, v = (
        torch.randn(2, *rows, 16, generator=random).bfloat16() for rows in ((heads,), (groups, keys), (groups, keys))
    )
    count = torch.tensor([keys - 20, 5], dtype=torch.int32)
    found = simulated(spec, case, sizes, {"q": q, "k": k, "v": v, "count": count}, window=window, scale=0.25)
    place = torch.arange(keys)
    seen = (place < count[:, None]) & (place >= count[:, None] - window)
    wide = (one.double().repeat_interleave(heads // groups, 1) for one in (k, v))
    keys_of, values_of = wide
    scores = torch.einsum("bhd,bhnd->bhn", q.double(), keys_of) * 0.25
    weights = torch.softmax(scores.masked_fill(~seen[:, None], -torch.inf), -1)
    expected = torch.einsum("bhn,bhnd->bhd", weights, values_of)
    assert (found.reshape(expected.shape).double() - expected).abs().max() < 2**-8


def test_factors_of_f32_keep_all_of_their_bits() -> None:
    """Scores as they are rounded to bf16 would be off by 2^-9, and by 2^-17 of two parts."""
    spec, sizes = loads(LINEAR), {"H": 6, "G": 2, "N": 40, "D": 16}
    case = case_of(spec, sizes)
    assert len([*every(Mma, case.spec.graph)]) == 4
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*shape, 16, generator=random).bfloat16() for shape in ((6,), (2, 40), (2, 40)))
    v = torch.zeros_like(v).index_fill_(1, torch.tensor([7]), 1)  # a sum of one product: its factor
    found = simulated(spec, case, sizes, {"q": q, "k": k, "v": v}).reshape(6, 16).double()
    scores = torch.einsum("hd,hd->h", q.double(), k.double()[:, 7].repeat_interleave(3, 0)) * 1.0009765625
    assert ((found - scores[:, None]) / scores[:, None]).abs().max() < 2**-21


def test_heads_that_share_unevenly_are_multiplied_by_lanes() -> None:
    spec = loads(LINEAR)
    assert not any(every(Mma, case_of(spec, {"H": 5, "G": 2, "N": 40, "D": 16}).spec.graph))
    assert not any(every(Mma, spec.graph))
