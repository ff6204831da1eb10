"""The reference of a bundle, which is torch code alone, computes what the whole-tensor reference computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from tests.kernels import Subject, subjects
from tests.ops.scalars import CALLS
from tests.specs import KERNELS
from wavespec.ops.repeat import ReferenceTooLong
from wavespec.schema import load
from wavespec.sim.reference import reference
from wavespec.targets.names import TARGETS
from wavespec.tune.reference_code import reference_code

SUBJECTS = [pytest.param(one, id=one.name) for one in subjects(*TARGETS)]


@pytest.mark.rare
@pytest.mark.parametrize("subject", SUBJECTS)
def test_bundled_reference_is_the_reference(subject: Subject, tmp_path: Path) -> None:
    spec, sizes = subject.spec, subject.row.small[0]
    file = tmp_path / "reference.py"
    file.write_text(reference_code(spec, [sizes]))
    found = importlib.util.spec_from_file_location("bundled_reference", file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    inputs = subject.inputs(sizes)
    torch.testing.assert_close(module.exact_0(*inputs), reference(spec, *inputs))
    torch.testing.assert_close(module.rounded_0(*inputs), reference(spec, *inputs, compute=None))


def test_bundled_reference_has_the_scalars_of_its_calls(tmp_path: Path) -> None:
    call = CALLS["window of some"]
    file = tmp_path / "reference.py"
    file.write_text(reference_code(call.spec, [call.sizes], call.scalars))
    found = importlib.util.spec_from_file_location("reference_with_scalars", file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    right = reference(call.spec, *call.inputs(), **call.scalars)
    torch.testing.assert_close(tuple(module.exact_0(*call.inputs())), right)


@pytest.mark.rare
def test_loop_of_many_steps_is_not_written_out() -> None:
    (spec,) = (load(path) for path in KERNELS if path.name == "sparsemax.wave.yaml")
    with pytest.raises(ReferenceTooLong) as raised:
        reference_code(spec, [{"M": 1, "N": 1100}])
    assert "sparsemax.wave.yaml:" in str(raised.value) and "more than 256" in str(raised.value)
