"""Argument packing of the CUDA launcher, read back from memory by a stand-in for the CUDA driver."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.runtime.standins import gemm_interface, scaled_interface
from wavespec.runtime import ArgumentError, ArtifactError, Binary, KernelArtifact
from wavespec.runtime import cuda_launcher as module
from wavespec.runtime.cuda_launcher import CudaLauncher
from wavespec.runtime.launch_plan import make_plan

_PTX = Binary("sm_90a", "ptx", b".version 8.3")
_CUBIN = Binary("sm_90a", "cubin", b"\x7fELF")


class FakeDriver:
    """Records calls; `cuLaunchKernel` also reads the parameters as the driver would."""

    class CUfunction_attribute:
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = "max dynamic shared"

    def __init__(self, pointers: int, constants: int, refused: tuple[bytes, ...] = (), status: int = 0) -> None:
        self.pointers, self.constants, self.refused, self.status = pointers, constants, refused, status
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[dict[str, Any]] = []

    def cuModuleLoadData(self, image: bytes) -> tuple[int, str]:
        self.calls.append(("load", image))
        return (209 if image in self.refused else 0, "module")

    def cuModuleGetFunction(self, loaded: str, name: bytes) -> tuple[int, str]:
        self.calls.append(("function", loaded, name))
        return 0, "function"

    def cuFuncSetAttribute(self, *arguments: Any) -> tuple[int]:
        self.calls.append(("attribute", *arguments))
        return (0,)

    def cuLaunchKernel(self, function: str, *arguments: Any) -> tuple[int]:
        *shape, shared, stream, address, extra = arguments
        table = (ctypes.c_void_p * (self.pointers + self.constants)).from_address(address)
        pointers = [ctypes.c_uint64.from_address(table[i] or 0).value for i in range(self.pointers)]
        sizes = [ctypes.c_int32.from_address(table[self.pointers + i] or 0).value for i in range(self.constants)]
        self.launches.append(
            {"function": function, "shape": shape, "shared": shared, "stream": stream, "extra": extra}
            | {"pointers": pointers, "sizes": sizes}
        )
        return (self.status,)


@pytest.fixture(autouse=True)
def _stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_current_stream", lambda index: 1000 + index)


def _gemm(**changes: Any) -> KernelArtifact:
    shared: dict[str, Any] = {"backend": "cuda", "target": "sm_90", "workgroup_size": (256, 1, 1)}
    return replace(gemm_interface(), **(shared | changes))


_CPU = torch.device("cpu")
_SIZES = {"M": 33, "N": 9, "K": 17}


def test_pointers_then_sizes_are_packed_in_order() -> None:
    artifact, driver = _gemm(shared_memory_bytes=65536), FakeDriver(3, 3)
    tensors = [torch.zeros(33, 17), torch.zeros(9, 17), torch.zeros(33, 9)]
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    launcher.launch(tensors, make_plan(artifact, _SIZES))
    (launch,) = driver.launches
    assert launch["pointers"] == [tensor.data_ptr() for tensor in tensors]
    assert launch["sizes"] == [33, 9, 17]
    assert launch["shape"] == [9, 1, 1, 256, 1, 1]
    assert (launch["shared"], launch["stream"], launch["extra"]) == (65536, 1000, 0)


def test_ptx_ends_in_a_zero_and_large_shared_memory_is_asked_for() -> None:
    driver = FakeDriver(3, 3)
    CudaLauncher(_gemm(shared_memory_bytes=49153), [_PTX], _CPU, driver)
    assert driver.calls == [
        ("load", b".version 8.3\0"),
        ("function", "module", b"gemm"),
        ("attribute", "function", "max dynamic shared", 49153),
    ]
    small = FakeDriver(3, 3)
    CudaLauncher(_gemm(shared_memory_bytes=49152), [_PTX], _CPU, small)
    assert [call[0] for call in small.calls] == ["load", "function"]


def test_ptx_is_the_fallback_of_a_cubin() -> None:
    driver = FakeDriver(3, 3, refused=(_CUBIN.data,))
    CudaLauncher(_gemm(), [_CUBIN, _PTX], _CPU, driver)
    assert [call[1] for call in driver.calls if call[0] == "load"] == [_CUBIN.data, b".version 8.3\0"]
    with pytest.raises(ArtifactError, match=r"takes none of its binaries \(sm_90a\.cubin: 209\)"):
        CudaLauncher(_gemm(), [_CUBIN], _CPU, FakeDriver(3, 3, refused=(_CUBIN.data,)))


def test_scratch_follows_the_tensors_and_is_kept() -> None:
    artifact, driver = replace(scaled_interface(), backend="cuda"), FakeDriver(4, 1)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    tensors = [torch.zeros(500), torch.zeros(500), torch.zeros(500)]
    for _ in range(2):
        launcher.launch(tensors, make_plan(artifact, {"N": 500}))
    first, second = (launch["pointers"] for launch in driver.launches)
    assert first == second and first[:3] == [tensor.data_ptr() for tensor in tensors] and first[3] != 0


def test_tensors_that_are_not_aligned_are_launched_as_copies() -> None:
    artifact, driver = _gemm(), FakeDriver(3, 3)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    memory = torch.zeros(33 * 17 + 1)
    tensors = [memory[1:].view(33, 17), torch.zeros(9, 17), torch.zeros(33 * 9 + 1)[1:].view(33, 9)]
    launcher.launch(tensors, make_plan(artifact, _SIZES))
    pointers = driver.launches[0]["pointers"]
    assert all(pointer % 16 == 0 for pointer in pointers)
    assert [pointer == t.data_ptr() for pointer, t in zip(pointers, tensors, strict=True)] == [
        False,
        True,
        False,
    ]


def test_every_thread_has_parameters_of_its_own() -> None:
    artifact, driver = _gemm(), FakeDriver(3, 3)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    addresses = [launcher._parameters.address]  # pyright: ignore[reportPrivateUsage]
    thread = threading.Thread(target=lambda: addresses.append(launcher._parameters.address))  # pyright: ignore
    thread.start()
    thread.join()
    assert addresses[0] != addresses[1]


def test_grid_that_a_gpu_does_not_have_is_explained() -> None:
    artifact, driver = _gemm(grid=(1, "M", 1)), FakeDriver(3, 3, status=1)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    with pytest.raises(ArgumentError, match=r"M = 70000.* needs 70000 workgroups along y, a GPU has 65535"):
        launcher.launch([torch.zeros(1)] * 3, make_plan(artifact, _SIZES | {"M": 70000}))


def test_other_launch_errors_say_what_was_asked() -> None:
    artifact, driver = _gemm(), FakeDriver(3, 3, status=701)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, driver)
    with pytest.raises(RuntimeError, match=r"cuLaunchKernel: 701 \(grid \(9, 1, 1\), workgroup \(256, 1, 1\)"):
        launcher.launch([torch.zeros(1)] * 3, make_plan(artifact, _SIZES))
