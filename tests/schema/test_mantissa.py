"""`mantissa(T)` in conditions of a spec of several element types."""

from __future__ import annotations

from tests.kernels import subjects


def test_the_bits_of_a_mantissa_tell_types_of_one_size_apart() -> None:
    cases = {one.name: one.cases("cpu")[0] for one in subjects("cpu") if one.name in ("linear_i4", "linear_i4_f16")}
    first = {name: [str(condition) for condition in case.conditions] for name, case in cases.items()}
    assert first == {"linear_i4": ["M > 4"], "linear_i4_f16": ["M > 300000"]}
