"""The driver of NVIDIA's GPUs where it is missing, too old, or refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.runtime.standin_cuda import StandInCuda
from wavespec.runtime import ArtifactError
from wavespec.runtime import cuda_driver as module
from wavespec.runtime.cuda_driver import CudaDriver, DriverError


def test_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIBRARY", "libno_such_driver.so.1")
    with pytest.raises(ArtifactError, match=r"needs the driver's library libno_such_driver\.so\.1"):
        CudaDriver()


def test_driver_without_tensor_maps_launches_other_kernels() -> None:
    cuda = StandInCuda("")
    names = ("cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuGetErrorName", "cuLaunchKernelEx")
    driver = CudaDriver(SimpleNamespace(**{name: getattr(cuda, name) for name in names}))
    assert driver.load_module(b"") and not cuda.maps
    with pytest.raises(ArtifactError, match="too old: it has no cuTensorMapEncodeTiled"):
        _ = driver.encode_tiled


def test_errors_have_the_names_that_the_driver_gives_them() -> None:
    driver = StandInCuda("", refused=(b"old",)).driver
    with pytest.raises(DriverError, match=r"cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU"):
        driver.load_module(b"old")
    assert str(driver.error("cuLaunchKernelEx", 999)) == "cuLaunchKernelEx: error 999"
