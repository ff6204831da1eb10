"""Only dims whose last tile may be partial are checked."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, run
from tests.lower.gemms import lines as operations
from tests.lower.ir_text import ROWS, lines
from wavespec.lower.mask_edges import MaskEdges

SUM = """
    %zero = register {value = 0.0} : tile<M: 4, f32>
    %sum = iterate %zero {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %part, %acc {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %acc.1
    end
    write %sum {memory = "y", origin = (("M", [wg0*4],),)}
"""


@pytest.mark.parametrize(
    ("m", "n", "part", "sums", "result"),
    [
        (1, 1, '("M", "N",)', "true", '("M",)'),
        (4, 1, '("N",)', "true", "()"),
        (2, 64, '("M",)', "false", '("M",)'),
        (8, 128, "()", "false", "()"),
    ],
)
def test_dims_whose_sizes_are_no_multiples_of_the_tile_are_checked(
    m: int, n: int, part: str, sums: str, result: str
) -> None:
    text = ROWS.changed(("M in 0..4096 by 1", f"M in 0..4096 by {m}"), ("N in 0..4096 by 1", f"N in 0..4096 by {n}"))
    expected = SUM.replace('{memory = "x"', f'{{masked = {part}, memory = "x"').replace(
        '"add"', f'"add", masked = {sums}'
    )
    assert text.after(MaskEdges(), NVIDIA, SUM) == lines(
        expected.replace('{memory = "y"', f'{{masked = {result}, memory = "y"')
    )


def test_what_joins_parts_of_tiles_checks_nothing() -> None:
    """Behind `defer-reductions` a reduction is over elements of which none is beyond an edge any more."""
    parts = """
        %parts = register {value = 0.0} : tile<M: 4, N: 64, f32>
        %sum = reduce %parts {dim = "N", divided = false, function = "add", size = [N]} : tile<M: 4, f32>
    """
    assert ROWS.after(MaskEdges(), NVIDIA, parts) == lines(parts.replace('"add"', '"add", masked = false'))


def masks(gemm: Gemm) -> list[str]:
    found = operations(gemm.lowered(AMD, "mask-edges"), "copy", "read", "write")
    return [line[line.index("masked = ") + 9 :].split(", memory")[0] for line in found if "masked" in line]


def test_shared_memory_needs_no_checks_and_direct_reads_do() -> None:
    assert len(masks(Gemm())) == 3, "two copies and the write"
    assert masks(Gemm(spaces=("global", "global")))[0] == '("M", "K",)'


def test_rows_that_are_read_in_place_end_at_the_last_one_instead() -> None:
    gemm = Gemm("f32", tile=(4, 12, 64), wave=(None, None))
    reads = operations(gemm.lowered(CPU, "mask-edges"), "read")
    assert ['clamped = ("M",)' in reads[0], 'clamped = ("N",)' in reads[1]] == [True, True]
    assert all('masked = ("K",)' in read for read in reads), "what is summed has to be zero there"
    report, expected = run(gemm.spec, CPU, {"M": 5, "N": 13, "K": 70})
    assert report.findings == () and (report.tensors["c"] == expected).all()
