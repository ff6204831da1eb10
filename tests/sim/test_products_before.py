"""A product that is a kernel of its own, and the one that joins its columns: simulated one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schema.test_products_before import ROUTER
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(MACHINE,) = machines("sm_90")


@pytest.mark.parametrize(
    ("dtype", "columns", "experts", "tokens", "d"),
    [
        ("f32", "{value: 256}", 256, 2, 256),  # lanes
        ("f32", "{value: 60}", 60, 19, 256),
        ("f32", "{value: 128}", 128, 70, 256),  # three products of parts
        ("f32", "{min: 8, max: 300}", 290, 5, 257),  # rows of a product of any length
        ("bf16", "{value: 512}", 512, 19, 512),  # no registers of a wave of 16 rows would hold their ranks
    ],
)
def test_the_largest_are_chosen(dtype: str, columns: str, experts: int, tokens: int, d: int) -> None:
    text = ROUTER.replace("{value: 256}", columns)
    text = text.replace("D], dtype: f32", f"D], dtype: {dtype}")
    sizes = {"T": tokens, "D": d, "X": experts, "K": 8}
    case = case_for_sizes(cases_for_target(loads(text), "sm_90"), sizes)
    assert len(case.kernels) == 2
    random, element = np.random.default_rng(0), numpy_dtype(DTYPES[dtype])
    x, router = (random.integers(-2, 3, shape) for shape in ((tokens, d), (experts, d)))
    bias = random.integers(-9, 10, experts)
    inputs = {"x": x.astype(element), "router": router.astype(element), "bias": bias.astype(np.float32)}
    kernels = [lower(spec, MACHINE) for spec in case.kernels]
    known, reports = simulate_before(case, kernels[:-1], MACHINE, inputs, sizes, {})
    read = {name: known[name] for name, tensor in case.spec.tensors.items() if tensor.role != "output"}
    report = simulate(kernels[-1], MACHINE, read, sizes)
    for one in (*reports, report):
        assert one.ok, one.render()
    scores = x @ router.T + bias
    best = np.argsort(-scores, axis=1, kind="stable")[:, :8]  # of equal ones the first
    np.testing.assert_array_equal(report.tensors["experts"], best)
    np.testing.assert_array_equal(report.tensors["weights"], np.take_along_axis(scores, best, 1))
