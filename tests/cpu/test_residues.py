"""Kernels whose sums have the terms of a residue alone give what the sums over all terms give."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.schema.test_residues import PLACES, PRODUCT, as_written, flat, numbers, windows
from wavespec.pipeline import best_variant
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.plans.planned import planned
from wavespec.schema.resolve import complete_sizes
from wavespec.schema.tiled_loops import with_tiled_loops
from wavespec.sim.reference import reference

SPECS = {
    "taps that are no multiple": flat(r=3, s=3, more=1),
    "strides and sizes that differ": flat(3, 2, 4, 5, pixels=PLACES),
    "as many taps as a call has": windows(3),
    "rows of a product": as_written(PRODUCT),
}
SIZES = {"N": 2, "B": 2, "H": 5, "W": 4, "L": 6, "C": 7, "O": 9, "R": 4}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_results_are_those_of_all_terms(spec: KernelSpec) -> None:
    made = planned(spec)
    assert any(dim.endswith("_residue") for dim in made.dims)
    own = {name: SIZES[name] for name, dim in spec.dims.items() if dim.equals is None and dim.value is None}
    sizes = complete_sizes(spec, own)
    inputs = [
        numbers(*(sizes[dim] for dim in one.shape)).float() for one in spec.tensors.values() if one.role == "input"
    ]
    assert torch.equal(
        KernelsOfCases(made, best_variant("cpu"))(*inputs).double(), reference(with_tiled_loops(spec), *inputs)
    )
