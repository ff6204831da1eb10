"""Small bundles for tests: the stand-in GEMM as every candidate, with a reference that says how each behaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.runtime.standins import gemm_artifact
from wavespec.runtime import pack_artifact
from wavespec.tune.bench import kernel_file

SIZES = {"M": 8, "N": 16, "K": 24}

REFERENCE = """\
import os
import sys
import torch

def exact_0(a, b):
    return a.double() @ b.double().T

def rounded_0(a, b):
    return a @ b.T

bench = sys.modules["__main__"] if "_artifact" in vars(sys.modules["__main__"]) else sys.modules["wavespec.tune.bench"]
plain = bench.Kernel

class Kernel(plain):
    def __call__(self, *inputs):
        how = self.artifact.spec_sha256
        if how == "dies":
            os.kill(os.getpid(), 11)
        if how == "raises":
            raise RuntimeError("out of paper")
        return super().__call__(*inputs) + (1 if how == "wrong" else 0)

bench.Kernel = Kernel
"""


def plan(names: list[str]) -> dict[str, Any]:
    candidates = [
        {"name": name, "words": f"settings {name}", "settings": None if name == "untuned" else {"params": {"B": 1}}}
        for name in names
    ]
    return {
        "format": 3,
        "key": "key",
        "kernel": "gemm",
        "digest": "digest",
        "target": "cpu",
        "machine": "",
        "workloads": [{"sizes": SIZES, "when": ["M <= 16"], "holds": {}, "candidates": candidates}],
        "running": None,
        "measurements": [],
    }


def write_bundle(folder: Path, names: list[str]) -> Path:
    """A bundle whose candidates behave as they are called: "dies", "raises", "wrong", or right."""
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    for name in names:
        behaved = replace(gemm_artifact(), spec_sha256=name)
        (folder / kernel_file(0, name)).write_bytes(pack_artifact(behaved))
    (folder / "plan.json").write_text(json.dumps(plan(names)))
    (folder / "reference.py").write_text(REFERENCE)
    return folder
