"""Every kernel of ``specs/`` for sm_90, assembled: what NVIDIA's assembler says of it, without a GPU.

`wavespec generate` asks the assembler and keeps what it says in manifests; here they are read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from math import prod
from pathlib import Path

import pytest

from tests.kernels import Subject, subjects
from wavespec.emit.ptxas import assemble, find_ptxas
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import build_variant, lower
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.manifest import load_artifact
from wavespec.runtime.size_expr import evaluate
from wavespec.targets.machine import machines

MACHINE = machines("sm_90")[0]
REGISTER_FILE = 65536
GENERATED = Path(__file__).parents[2] / "generated"
KERNELS = {kernel.name: kernel for kernel in map(load_artifact, sorted(GENERATED.rglob("sm_90.json")))}
PTXAS = find_ptxas()
_INSTALLED = Path(sysconfig.get_paths()["purelib"], "nvidia").glob("*/bin/nvdisasm")
NVDISASM = shutil.which("nvdisasm") or next(map(str, _INSTALLED), None)
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs NVIDIA's assembler, ptxas, on the PATH")


SPILLS = {
    "argmax": {0: 16},
    "argmax_f16": {},
    "attention_biased_bias": {0: 96, 2: 104, 7: 68, 10: 104, 13: 132, 16: 92},
    "attention_biased_bias_f16": {0: 272, 2: 104, 7: 68, 10: 104, 12: 48, 13: 296, 16: 92},
    "attention_biased_mask": {0: 12, 1: 12, 2: 96, 3: 44, 9: 12, 10: 100, 13: 204, 14: 60, 16: 176, 17: 40},
    "attention_extend": {0: 8, 1: 24, 2: 56, 4: 32, 5: 72, 6: 16},
    "attention_f32": {3: 696, 4: 88},
    "attention_masked_window": {4: 176, 5: 176},
    "attention_paged": {7: 32},
    "attention_ragged_causal": {0: 44},
    "conv2d_grouped_f32": {5: 176},
    "conv2d_nhwc": {35: 32},
    "cumsum": {9: 8},
    "dropout_bf16": {2: 16},
    "dropout_f16": {2: 16},
    "layer_norm": {13: 8},
    "layer_norm_bf16": {11: 32, 17: 48},
    "layer_norm_f16": {11: 32, 17: 40},
    "linear_i4": {10: 8},
    "linear_i4_f16": {},
    "matmul_mxf8": {0: 8, 1: 8, 2: 32},
    "linear_residual": {17: 152, 36: 108, 37: 112, 38: 88},
    "linear_residual_f16": {17: 40, 34: 56, 35: 20, 36: 48, 37: 48, 38: 80},
    "linear_silu": {38: 16},
    "linear_silu_f16": {18: 16, 35: 48, 37: 8, 38: 16, 39: 220, 42: 8},
    "sparsemax": {7: 8, 8: 16, 14: 52},
}
"""Bytes, by the case; of f16 those of bf16, unless it has its own.  A few words where sizes are none that boxes copy; what a persistent workgroup knows of all its
tiles gives way to the sums of one, loaded once a tile, never in a step, but for two places of biases of heads of 64; places of rows that the copies of keys and of
values both need wait from one to the other; results behind the sums of waves that take turns are made beside them; rows of which lanes hold a part leave few registers, and half of them where
two workgroups share a processor; weights of eight bits that lanes load a step ahead take what is left: their times were measured with this."""


def allowed_spills(name: str) -> dict[int, int]:
    """Kernels in f16 spill what those in bf16 do, if nothing else is said."""
    return SPILLS.get(name, SPILLS.get(name.removesuffix("_f16"), {}))


def figures_of(kernel: KernelArtifact) -> dict[str, int]:
    (binary,) = kernel.binaries
    found = dict(binary.figures)
    assert "registers" in found, "not assembled: run `wavespec generate` where ptxas is on the PATH"
    return found


def matrix_instructions(kernel: Kernel) -> int:
    """Products that the matrix unit is told to do, as the passes count them."""
    return sum(op.name == "mma_async" for op in kernel.walk())


def most_threads(part: KernelArtifact) -> int:
    """Of a workgroup, whose waves may be as many as the sizes of a call ask for, up to those that the kernel is for."""
    conditions = [one.condition for one in part.assumptions if isinstance(one.condition, tuple)]
    most = {str(name): bound for word, name, bound in conditions if word == "le" and isinstance(bound, int)}
    return prod(evaluate(size, dict.fromkeys(part.dynamic_dims, 1) | most) for size in part.workgroup_size)


def test_there_is_a_manifest_for_every_kernel() -> None:
    assert KERNELS.keys() == {subject.name for subject in subjects("sm_90")}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_what_fits_and_spills_nothing(kernel: KernelArtifact) -> None:
    allowed = allowed_spills(kernel.name)
    for number, part in ((number, part) for number, case in enumerate(kernel.members) for part in case.parts):
        figures = figures_of(part)
        assert part.shared_memory_bytes <= MACHINE.shared.bytes
        assert figures["spilled_bytes"] <= allowed.get(number, 0), f"case {number}"
        assert figures["warnings"] == 0, "C75xx would be serialised products, or ignored register counts"
        assert figures["registers"] * most_threads(part) <= REGISTER_FILE


@pytest.mark.rare
@pytest.mark.compiles
@needs_ptxas
@pytest.mark.parametrize("subject", subjects("sm_90"), ids=lambda subject: subject.name)
def test_products_are_those_of_the_passes(subject: Subject, tmp_path: Path) -> None:
    """In the first case of a kernel: none repeated, none dropped; and nothing is read before the launch in front has ended."""
    assert PTXAS is not None
    spec = subject.cases("sm_90")[0].spec
    built, _ = build_variant(spec, MACHINE)
    (binary,) = built.binaries
    result = assemble(binary.data, built.architecture, PTXAS)
    assert (result.spill_bytes, result.warnings) <= (allowed_spills(subject.name).get(0, 0), ())
    count = matrix_instructions(lower(spec, MACHINE))
    assert binary.data.decode().count("wgmma.mma_async.") == count
    if NVDISASM is not None:
        code = tmp_path / "kernel.cubin"
        code.write_bytes(result.cubin)
        text = subprocess.run([NVDISASM, "-c", str(code)], capture_output=True, text=True, check=True).stdout
        assert len(re.findall(r"\b[HQI]GMMA\.", text)) == count
        before, waits, _ = text.partition("ACQBULK")
        assert waits and not re.search(r"\b(LDG|STG|LDGSTS|ATOMG|RED|REDG|UTMALDG|UTMASTG|UBLKCP)\b", before)
