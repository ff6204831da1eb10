"""Few queries whose keys several workgroups share out, by the plan of the compiler: right in the simulator."""

from __future__ import annotations

import pytest
import torch

from tests.bare import planned_anew
from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines


@pytest.mark.parametrize(("queries", "keys", "split"), [(3, 600, 4), (20, 530, 4), (1, 2050, 8)])
def test_keys_of_grouped_heads_are_shared_out(queries: int, keys: int, split: int) -> None:
    sizes = {"B": 1, "H": 4, "G": 2, "M": queries, "N": keys, "D": 8, "E": 8}
    random = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, heads, rows, 8, generator=random).bfloat16()
        for heads, rows in ((4, queries), (2, keys), (2, keys))
    )
    (machine,) = machines("sm_90")
    spec = case_for_sizes(cases_for_target(planned_anew(load(SPECS / "attention_gqa.wave.yaml")), "sm_90"), sizes).spec
    kernel = lower(spec, machine)
    assert kernel.distribution.split == split
    given = {name: tensor_to_elements(one, "bf16") for name, one in (("q", q), ("k", k), ("v", v))}
    report = simulate(kernel, machine, given, complete_sizes(spec, sizes), scalars={"scale": 8**-0.5})
    assert report.ok, report.render()
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)
    found = elements_to_tensor(report.tensors["o"], "bf16").reshape(exact.shape).double()
    assert (found - exact).abs().max() < 2**-7
