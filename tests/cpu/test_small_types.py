"""Every code of the element types of 8 bits and less is read and converted on this machine's CPU."""

from __future__ import annotations

import pytest

from tests.ops.small_types import OUTPUTS, TYPES, check, every_code, expected, small_types
from wavespec.pipeline import compile


@pytest.mark.parametrize("dtype", TYPES)
def test_every_code_is_its_number(dtype: str) -> None:
    x = every_code(dtype)
    for name, result in zip(OUTPUTS, compile(small_types(dtype))(x, x), strict=True):
        check(result.numpy(), expected(x, dtype)[name])
