"""Negations that an extreme of three takes are not left to an assembler that loses them."""

from __future__ import annotations

import re

import pytest

from wavespec.cache import CompileCache
from wavespec.emit.negated_extremes import negated_apart
from wavespec.pipeline import build
from wavespec.schema import loads

TAKEN = "\tneg.s32 \t%r4, %r2;\n\tmax.s32 \t%r5, %r1, %r4;\n\tmax.s32 \t%r6, %r5, %r3;\n"
APART = "\tnot.b32 \t%r4, %r2;\n\tadd.s32 \t%r4, %r4, 1;\n\tmax.s32 \t%r5, %r1, %r4;\n\tmax.s32 \t%r6, %r5, %r3;\n"


def test_a_negation_that_an_extreme_takes_is_a_complement_and_one_more() -> None:
    assert negated_apart(TAKEN) == APART
    assert negated_apart(TAKEN.replace("max", "min")) == APART.replace("max", "min")


def test_so_is_one_that_is_copied_or_chosen_first_or_has_a_guard() -> None:
    copies = "\tmov.b32 \t%r8, %r4;\n\tselp.b32 \t%r9, %r1, %r8, %p1;\n"
    copied = negated_apart("\t@%p2 neg.s32 \t%r4, %r2;\n" + copies + "\tmax.s32 \t%r6, %r3, %r9;\n")
    assert copied.startswith("\t@%p2 not.b32 \t%r4, %r2;\n\t@%p2 add.s32 \t%r4, %r4, 1;\n" + copies)


@pytest.mark.parametrize("used", ["add.s32 \t%r5, %r1, %r4;", "max.u32 \t%r5, %r1, %r4;", "max.s32 \t%r4, %r1, %r2;"])
def test_others_stay(used: str) -> None:
    text = f"\tneg.s32 \t%r4, %r2;\n\t{used}\n"
    assert negated_apart(text) == text


SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: largest
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: i32}
  y: {shape: [M, N], dtype: i32, role: output}
constraints:
  - {workgroup: M, tile: 8, axis: 0}
  - {tiling: N, tile: 128}
graph:
  - first: {register: [M], dtype: i32, value: -100}
  - rows:
      iterate: N
      carry: {before: first}
      body:
        - x_tile: {read: x}
        - least: "minimum(x_tile, -x_tile)"
        - y_tile: {cummax: least, dim: N, init: before}
        - before: {max: least, dim: N, init: before}
        - {write: y_tile, to: y}
"""


@pytest.mark.compiles
def test_code_of_a_kernel_that_compares_negations_has_none_left_to_lose() -> None:
    """A search on an H200 found this one; what `ptxas` made of it compared numbers that were not negated."""
    built = build(loads(SPEC, "largest.wave.yaml"), "sm_90", cache=CompileCache(enabled=False))
    ptx = built.binaries[0].code.decode()
    assert len(re.findall(r"not\.b32", ptx)) >= 32
    assert negated_apart(ptx) == ptx
