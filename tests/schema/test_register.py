"""`register`: the number has to be one of its element type."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm
from wavespec.diagnostics import WavespecError
from wavespec.schema import loads
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.formula_parser import parse_formula
from wavespec.schema.reading.spec_to_yaml import dump_yaml


def test_infinity_is_a_number_of_floating_point_types() -> None:
    assert "value: -.inf" in dump_yaml(loads(Gemm("f32").text.replace("value: 0", "value: -.inf")))


@pytest.mark.parametrize(("dtype", "value"), [("i8", ".inf"), ("f16", "1e39"), ("i8", "1.5"), ("i8", "2147483648")])
def test_a_number_outside_the_element_type_is_an_error(dtype: str, value: str) -> None:
    text = Gemm(dtype).text
    assert "value: 0" in text
    with pytest.raises(WavespecError, match="number-out-of-range"):
        loads(text.replace("value: 0", f"value: {value}"))


def test_the_smallest_integer_is_a_number_where_its_sign_is_beside_it() -> None:
    assert str(parse_formula("x - -9223372036854775808")) == "x - -9223372036854775808"
    assert parse_expression("-9223372036854775808 + 0").evaluate({}) == -(2**63)
    for text in ("9223372036854775808", "1 - 9223372036854775808", "-9223372036854775808 ** 2"):
        with pytest.raises(WavespecError):
            parse_formula(text)
