"""Only dims whose last tile may be partial are checked."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, Gemm, lines, run


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


def test_rows_that_are_read_in_place_end_at_the_last_one_instead() -> None:
    gemm = Gemm("f32", tile=(4, 12, 64), wave=(None, None))
    reads = lines(gemm.lowered(CPU, "mask-edges"), "read")
    assert ['clamped = ("M",)' in reads[0], 'clamped = ("N",)' in reads[1]] == [True, True]
    assert all('masked = ("K",)' in read for read in reads), "what is summed has to be zero there"
    report, expected = run(gemm.spec, CPU, {"M": 5, "N": 13, "K": 70})
    assert report.findings == () and (report.tensors["c"] == expected).all()
