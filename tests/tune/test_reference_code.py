"""The reference of a bundle, which is torch code alone, computes what the whole-tensor reference computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from tests.specs import KERNELS as SPECS
from wavespec.runtime.checks import DTYPES
from wavespec.schema import load
from wavespec.sim.reference import reference
from wavespec.tune.judge import random_tensor
from wavespec.tune.reference_code import reference_code


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_bundled_reference_is_the_reference(path: Path, tmp_path: Path) -> None:
    spec = load(path)
    sizes = {name: dim.value or 16 * (2 + index) for index, (name, dim) in enumerate(spec.dims.items())}
    file = tmp_path / "reference.py"
    file.write_text(reference_code(spec, [sizes]))
    found = importlib.util.spec_from_file_location("bundled_reference", file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    generator = torch.Generator().manual_seed(0)
    inputs = [
        random_tensor([sizes[dim] for dim in tensor.shape], DTYPES[tensor.dtype], generator)
        for tensor in spec.tensors.values()
        if tensor.role == "input"
    ]
    torch.testing.assert_close(module.exact_0(*inputs), reference(spec, *inputs))
    torch.testing.assert_close(module.rounded_0(*inputs), reference(spec, *inputs, compute=None))
