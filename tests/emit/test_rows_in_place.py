"""Elements of rows that products read where they are: what is chosen around their loop, and what the loop still does."""

from __future__ import annotations

import re

import pytest

from tests.kernels import SPECS
from wavespec.cases_on_machines import cases_on
from wavespec.pipeline import emit
from wavespec.schema import load, loads
from wavespec.schema.cases import case_for_sizes
from wavespec.schema.resolve import complete_sizes
from wavespec.targets.machine import machines

AVX512 = next(one for one in machines("cpu:x86_64_v4_bf16"))
LAYER = {"H": 9, "W": 9, "C": 128, "O": 64, "R": 3, "S": 3}


def innermost(name: str, **sizes: int) -> list[str]:
    """The lines of the loop of products of a convolution of these sizes."""
    spec = load(SPECS / f"{name}.wave.yaml")
    case = case_for_sizes(cases_on(spec, "cpu", (AVX512,)), complete_sizes(spec, LAYER | sizes))
    lines = emit(case.spec, AVX512).text.splitlines()
    (first,) = [at for at, line in enumerate(lines) if re.search(r"math.fma|dpbf16", line)][:1]
    start = max(at for at in range(first) if "scf.for" in lines[at])
    return lines[start : next(at for at in range(first, len(lines)) if "scf.yield" in lines[at])]


@pytest.mark.parametrize(
    ("name", "images", "rows", "vectors"),
    [("conv2d_nhwc_f32", 8, 8, 2), ("conv2d_nhwc_f32", 3, 6, 4), ("conv2d_nhwc", 16, 8, 2), ("conv2d_nhwc", 1, 12, 2)],
)
def test_a_step_reads_one_word_of_each_row_and_checks_nothing(name: str, images: int, rows: int, vectors: int) -> None:
    loop = innermost(name, N=images)
    words = [line for line in loop if '"llvm.load"' in line]
    assert len(words) == rows
    assert not any(re.search(r"select|cmpi|divui|remui|masked", line) for line in loop)
    assert sum("arith.addi" in line for line in loop) <= rows + 2 * vectors - 1, (
        "one address each, and what the weights take"
    )


def test_an_instruction_says_how_many_steps_are_written_out() -> None:
    """By LLVM: what a step loads, and so what announces it, stays as it is."""
    spec = load(SPECS / "conv2d_nhwc_f32.wave.yaml")
    for filters, is_written_out in ((64, True), (48, False)):
        sizes = complete_sizes(spec, LAYER | {"N": 1, "O": filters})
        text = emit(case_for_sizes(cases_on(spec, "cpu", (AVX512,)), sizes).spec, AVX512).text
        assert ("#llvm.loop_annotation<unroll = <count = 2 : i32>>" in text) == is_written_out


def test_rows_as_far_apart_as_sizes_say_are_addressed_by_vectors() -> None:
    """Of a transposed convolution, whose pixels lie side by side in its tensor: nothing is divided one by one."""
    spec = load(SPECS.parent / "benchmarks" / "specs" / "planned" / "transposed_convolution.wave.yaml")
    sizes = complete_sizes(spec, {"N": 1, "H": 64, "W": 64, "C": 64, "O": 64})
    lines = emit(case_for_sizes(cases_on(spec, "cpu", (AVX512,)), sizes).spec, AVX512).text.splitlines()
    first = next(at for at, line in enumerate(lines) if "math.fma" in line)
    start = max(at for at in range(first) if "scf.for" in lines[at])
    assert sum("vector.extract" in line and "vector<12xi64>" in line for line in lines[:start]) == 12
    assert not any(re.search(r"select|cmpi|divui|floordivsi", line) for line in lines[start:first])


def test_vectors_of_a_window_are_chosen_once_for_all_channels() -> None:
    text = (SPECS / "conv2d_depthwise.wave.yaml").read_text(encoding="utf-8").replace("[bf16, f16, f32]", "[f32]")
    spec = loads(text, "conv2d_depthwise.wave.yaml", SPECS)
    sizes = complete_sizes(spec, {"N": 8, "H": 14, "W": 14, "C": 512, "R": 3, "S": 3})
    lines = emit(case_for_sizes(cases_on(spec, "cpu", (AVX512,)), sizes).spec, AVX512).text.splitlines()
    pixels = [at for at, line in enumerate(lines) if '"llvm.load"' in line]
    assert len(pixels) == (7 + 2) * (2 + 2), "two rows of seven columns"
    start = max(at for at in range(pixels[0]) if "scf.for" in lines[at])
    assert not any(re.search(r"select|cmpi", line) for line in lines[start : pixels[-1]])
