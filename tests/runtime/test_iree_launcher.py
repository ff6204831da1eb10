"""Kernels for CPUs through IREE's runtime, as they run where torch has no OpenMP runtime that we know."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.runtime.standins import gemm_artifact
from wavespec.runtime import ArtifactError, Kernel, pack_artifact
from wavespec.runtime import kernel as module


@cache
def gemm() -> Kernel:
    return Kernel(gemm_artifact())


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "are_shared_out", lambda: False)


def integers(*shape: int) -> torch.Tensor:
    return torch.randint(-4, 5, shape).float()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (33, 9, 17), (300, 200, 64), (0, 4, 3)])
def test_results_are_the_same(m: int, n: int, k: int) -> None:
    a, b, c = integers(m, k), integers(n, k), torch.full((m, n), torch.nan)
    for _ in range(3):
        assert torch.equal(gemm()(a, b), a @ b.T)
        assert torch.equal(gemm()(a, b, out=c), a @ b.T)


def test_tensors_that_start_anywhere_are_copied() -> None:
    a, b = integers(1000)[1:181].view(20, 9), integers(1000)[3:93].view(10, 9)
    c = torch.zeros(201)[1:].view(20, 10)
    gemm()(a, b, out=c)
    assert torch.equal(c, a @ b.T)


def test_damaged_code_is_one_clean_error() -> None:
    artifact = gemm_artifact()
    broken = replace(artifact, binaries=(replace(artifact.binaries[0], code=b"not a vmfb" * 100),))
    with pytest.raises(ArtifactError, match="IREE cannot load 'x86_64_v3'"):
        Kernel(broken)(integers(4, 8), integers(3, 8))


_FORK = """
import os, sys, torch
from pathlib import Path
from wavespec.runtime import Kernel, unpack_artifact
from wavespec.runtime import kernel as module
module.are_shared_out = lambda: False
kernel = Kernel(unpack_artifact(Path(sys.argv[1]).read_bytes()))
a = torch.ones(2, 2)
kernel(a, a)
child = os.fork()
if child == 0:
    try:
        kernel(a, a)
    except RuntimeError as error:
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_gets_an_error_where_iree_would_hang(tmp_path: Path) -> None:
    packed = tmp_path / "gemm.bin"
    packed.write_bytes(pack_artifact(gemm_artifact()))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    run = subprocess.run([sys.executable, "-c", _FORK, str(packed)], env=environment, timeout=60, check=False)
    assert run.returncode == 7
