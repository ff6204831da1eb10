"""The Python of the README runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.compiles
def test_python_blocks_run_in_order_and_give_right_results() -> None:
    names: dict[str, Any] = {}
    first, *others = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(first, "README.md", "exec"), names)
    assert torch.allclose(names["c"].double(), names["expected"], atol=1e-3)
    for block in others:
        exec(compile(block, "README.md", "exec"), names)
    a, b = torch.randint(-3, 4, (70, 40)).half(), torch.randint(-3, 4, (33, 40)).half()
    assert torch.equal(names["kernel"](a, b), a.float() @ b.float().T)
