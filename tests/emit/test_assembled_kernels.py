"""Every kernel of ``specs/`` for sm_90, assembled: what NVIDIA's assembler says of it, without a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.specs import KERNELS as SPECS
from wavespec.emit.ptxas import Assembled, assemble, find_ptxas
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import emit, lower, module_to_binaries
from wavespec.schema import KernelSpec, load
from wavespec.schema.resolve import cases_for_target
from wavespec.targets.machine import machines

MACHINE = machines("sm_90")[0]
REGISTER_FILE = 65536
CASES = [
    pytest.param(case.spec, id=f"{path.name.split('.')[0]}-{number}")
    for path in SPECS
    for number, case in enumerate(cases_for_target(load(path), "sm_90"))
]
PTXAS = find_ptxas()
_INSTALLED = Path(sysconfig.get_paths()["purelib"], "nvidia").glob("*/bin/nvdisasm")
NVDISASM = shutil.which("nvdisasm") or next(map(str, _INSTALLED), None)
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs NVIDIA's assembler, ptxas, on the PATH")


def assembled(spec: KernelSpec) -> tuple[Kernel, str, Assembled]:
    """The kernel of a case, its PTX, and what became of that."""
    assert PTXAS is not None
    module = emit(spec, MACHINE)
    (binary,), _ = module_to_binaries(module)
    assert module.interface.shared_memory_bytes <= MACHINE.shared.bytes
    return lower(spec, MACHINE), binary.data.decode(), assemble(binary.data, module.interface.architecture, PTXAS)


def matrix_instructions(kernel: Kernel) -> int:
    """Products that the matrix unit is told to do, as the passes count them."""
    return sum(op.name == "mma_async" for op in kernel.walk())


@needs_ptxas
@pytest.mark.parametrize("spec", CASES)
def test_no_spills_no_warnings_and_as_many_products(spec: KernelSpec, tmp_path: Path) -> None:
    kernel, ptx, result = assembled(spec)
    assert result.spill_bytes == 0
    assert result.warnings == (), "C75xx would be serialised products, or ignored register counts"
    assert result.registers * kernel.threads <= REGISTER_FILE
    count = matrix_instructions(kernel)
    assert ptx.count("wgmma.mma_async.") == count, "none repeated, none dropped"
    if NVDISASM is not None:
        code = tmp_path / "kernel.cubin"
        code.write_bytes(result.cubin)
        text = subprocess.run([NVDISASM, "-c", str(code)], capture_output=True, text=True, check=True).stdout
        assert len(re.findall(r"\b[HQI]GMMA\.", text)) == count
