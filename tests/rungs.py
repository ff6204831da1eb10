"""Parameters of tests go in; which of them run every time, and which only where rare tests do, comes out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def often(values: Iterable[Any], chosen: Container[Any] | Callable[[Any], bool]) -> list[Any]:
    """The values as parameters, those that are not chosen for rare tests; a tuple is one for each name."""
    is_chosen: Callable[[Any], bool] = chosen if callable(chosen) else chosen.__contains__
    return [_parameters(value, () if is_chosen(value) else (pytest.mark.rare,)) for value in values]


def _parameters(value: Any, marks: tuple[pytest.MarkDecorator, ...]) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks)
