"""Loops by modulo scheduling: the interval, what is said about it, and results that stay the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.schedule import modulo
from wavespec.targets.machine import Machine

GEMM = Gemm(dims=("", "", "multiple_of: 8"), schedule="auto: modulo")
LARGE = replace(GEMM, tile=(128, 128, 32), wave=(64, 64), mma="f32_16x16x16_f16")


@pytest.mark.parametrize("machine", [AMD, NVIDIA], ids=["amd", "nvidia"])
@pytest.mark.parametrize("sizes", [(64, 64, 160), (33, 65, 40), (5, 3, 0)])
@pytest.mark.parametrize("stages", [1, 3])
def test_results_are_exact_and_clean(stages: int, sizes: tuple[int, int, int], machine: Machine) -> None:
    gemm = replace(GEMM, stages=stages, value=2)
    report, expected = run(gemm.spec, machine, dict(zip("MNK", sizes, strict=True)))
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_the_matrix_unit_is_never_free() -> None:
    (note,) = LARGE.lowered(AMD).notes
    # 32 products of 16 clocks each
    assert note.startswith(
        "k_loop: an iteration every 512 clocks, 3 stages; at least 512 (the matrix unit is never free;"
    )


def test_what_stands_in_the_way_is_said() -> None:
    reached, why = GEMM.lowered(AMD).notes
    assert "at least 208 (the cycle through 'b_tile'; resources 160, recurrences 208)" in reached
    assert "finds no place that its unit and its dependences leave" in why


def test_notes_are_part_of_the_text() -> None:
    kernel = LARGE.lowered(AMD, "pipeline-loops")
    assert 'note "k_loop: an iteration every 512 clocks' in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_products_stay_in_the_order_that_chains_them_far_apart() -> None:
    kernel = LARGE.lowered(AMD)
    loop = next(op for op in kernel.walk() if op.name == "for")
    names = [op.name for op in loop.body.ops]
    assert names.count("mma") == 32
    between = [op for op in loop.body.ops if op.name in ("load", "store") and op["memory"] != "c"]
    first, last = names.index("mma"), len(names) - 1 - names[::-1].index("mma")
    inside = [op for op in loop.body.ops[first:last] if op in between]
    assert len(inside) >= len(between) - 2, "memory works under the products"


def test_the_operation_that_finds_no_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modulo, "_MOST_PLACEMENTS", 1)
    with pytest.raises(
        WavespecError, match=r"of the loop 'k_loop' was found: 'a_tile.load' finds no place in patterns of"
    ):
        GEMM.lowered(NVIDIA)
