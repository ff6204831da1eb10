"""Models of ops that are made from tables."""

from __future__ import annotations

import inspect

import pytest

from wavespec.schema.ops.base import op_of_row
from wavespec.schema.ops.elementwise import Unary


def test_no_source_is_searched_for_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    # Beside torch, which has thousands of modules, that made `import wavespec` take two seconds longer.
    searched: list[object] = []

    def findsource(frame: object) -> tuple[list[str], int]:
        searched.append(frame)
        return [], 0

    with monkeypatch.context() as patched:
        patched.setattr(inspect, "findsource", findsource)
        made = op_of_row(Unary, "made_up", "What it does.", __name__)
    assert not searched
    assert (made.__name__, made.__doc__, made.model_fields["op"].default) == ("MadeUp", "What it does.", "made_up")
