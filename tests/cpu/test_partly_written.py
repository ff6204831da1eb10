"""Rows of no group, on this machine's CPU: zeros in new results, kept in ``out``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.manifest import pack_artifact, unpack_artifact
from wavespec.schema import load

X, W, GROUPS = torch.ones(9, 16).bfloat16(), torch.ones(3, 40, 16).bfloat16(), torch.tensor([2, 5, 5, 7]).int()
OF_NO_GROUP = [0, 1, 7, 8]


@cache
def grouped_gemm() -> Kernel:
    spec = load(Path(__file__).parents[2] / "specs" / "grouped_gemm.wave.yaml")
    return Kernel(unpack_artifact(pack_artifact(build(spec, "cpu", only=best_variant("cpu")))))


def test_new_results_start_as_zeros() -> None:
    for _ in range(50):
        used = torch.full((9, 40), float("nan")).bfloat16()
        del used  # the next tensor of its size has its memory
        assert (grouped_gemm()(X, W, GROUPS)[OF_NO_GROUP] == 0).all()


def test_out_keeps_what_it_held() -> None:
    out = torch.full((9, 40), 7.0).bfloat16()
    grouped_gemm()(X, W, GROUPS, out=out)
    assert (out[OF_NO_GROUP] == 7).all() and (out[2:5] == 16).all()


def test_results_of_no_workgroup_are_zeros() -> None:
    for _ in range(50):
        used = torch.full((9, 40), float("nan")).bfloat16()
        del used
        assert (grouped_gemm()(X, W[:0], GROUPS[:1]) == 0).all()
