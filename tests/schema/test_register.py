"""`register`: the number has to be one of its element type."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm
from wavespec.diagnostics import WavespecError
from wavespec.schema import loads


@pytest.mark.parametrize(("dtype", "value"), [("f16", ".inf"), ("f16", "1e39"), ("i8", "1.5"), ("i8", "2147483648")])
def test_a_number_outside_the_element_type_is_an_error(dtype: str, value: str) -> None:
    text = Gemm(dtype).text
    assert "value: 0" in text
    with pytest.raises(WavespecError, match="number-out-of-range"):
        loads(text.replace("value: 0", f"value: {value}"))
