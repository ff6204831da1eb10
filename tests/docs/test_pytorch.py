"""The program of docs/pytorch.md runs as it stands there, and what it says of gradients is so."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

_TEXT = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text("utf-8")
_BLOCKS = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    torch._dynamo.reset()
    names: dict[str, Any] = {}
    exec(compile("\n".join(_BLOCKS), "docs/pytorch.md", "exec"), names)
    return names


def test_the_results_are_those_of_torch(program: dict[str, Any]) -> None:
    x, weight = program["x"], program["weight"]
    assert_close(program["y"], torch.nn.functional.rms_norm(x, (256,), weight, 1e-5))
    assert_close(program["z"], torch.relu(x * weight))
    with torch.no_grad():
        exported = program["program"].module()(x[0])
    assert_close(exported, torch.relu(x[0] * program["model"].weight.detach()) + 1)


def test_the_gradients_are_those_of_torch(program: dict[str, Any]) -> None:
    x, weight = (torch.randn(5, 3, 64, requires_grad=True), torch.randn(64, requires_grad=True))
    norms = (program["RmsNorm"].apply(x, weight), torch.nn.functional.rms_norm(x, (64,), weight, 1e-6))
    first, second = (torch.autograd.grad(y.sin().sum(), (x, weight)) for y in norms)
    assert_close(first, second, rtol=1e-4, atol=1e-4)


def test_modules_with_kernels_are_copied_and_pickled(program: dict[str, Any]) -> None:
    model, x = program["model"], torch.randn(2, 256)
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(model)(x), model(x))
    assert list(model.state_dict()) == ["weight"]
    assert torch.equal(pickle.loads(pickle.dumps(model.kernel))(x, x[0]), model.kernel(x, x[0]))
