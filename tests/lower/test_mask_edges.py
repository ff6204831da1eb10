"""Only dims whose last tile may be partial are checked."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, Gemm, lines


def masks(gemm: Gemm) -> list[str]:
    found = lines(gemm.lowered(AMD, "mask-edges"), "copy", "read", "write")
    return [line[line.index("masked = ") + 9 :].split(", memory")[0] for line in found if "masked" in line]


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        (("", "", ""), ['("M", "K",)', '("N", "K",)', '("M", "N",)']),
        (("", "", "multiple_of: 32"), ['("M",)', '("N",)', '("M", "N",)']),
        (("value: 64", "value: 128", "multiple_of: 64"), ["()", "()", "()"]),
        (("value: 65", "multiple_of: 64", "multiple_of: 16"), ['("M", "K",)', '("K",)', '("M",)']),
    ],
)
def test_promises_remove_checks(dims: tuple[str, str, str], expected: list[str]) -> None:
    assert masks(Gemm(dims=dims)) == expected


def test_shared_memory_needs_no_checks_and_direct_reads_do() -> None:
    assert len(masks(Gemm())) == 3, "two copies and the write"
    assert masks(Gemm(spaces=("global", "global")))[0] == '("M", "K",)'
