"""Launches on NVIDIA GPUs, read back from memory by a stand-in for the CUDA driver."""

from __future__ import annotations

import ctypes
import struct
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.standin_cuda import FUNCTION, MODULE, StandInCuda
from tests.runtime.standins import gemm_interface, scaled_interface
from wavespec.runtime import ArgumentError, ArtifactError, Binary, KernelArtifact, TensorMap
from wavespec.runtime import cuda_launcher as module
from wavespec.runtime.cuda_launcher import CudaLauncher
from wavespec.runtime.launch_graphs import NODE
from wavespec.runtime.launch_plan import make_plan

_PTX = Binary("sm_90a", "ptx", b".version 8.3")
_CUBIN = Binary("sm_90a_code", "cubin", b"\x7fELF")
_CPU = torch.device("cpu")
_SIZES = {"M": 33, "N": 9, "K": 16}
_GEMM = "pppiii"


@pytest.fixture(autouse=True)
def _stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(index: int) -> int:
        return 1000 + index

    monkeypatch.setattr(module, "_current_stream", stream)


def _gemm(**changes: Any) -> KernelArtifact:
    shared: dict[str, Any] = {"backend": "cuda", "target": "sm_90", "workgroup_size": (256, 1, 1)}
    return replace(gemm_interface(), **(shared | changes))


def _operands() -> list[Tensor]:
    return [torch.zeros(33, 16), torch.zeros(9, 16), torch.zeros(33, 9)]


def _launch(launcher: CudaLauncher, tensors: list[Tensor], artifact: KernelArtifact, **sizes: int) -> None:
    launcher.launch(tensors, [tensor.data_ptr() for tensor in tensors], make_plan(artifact, sizes))


def test_pointers_then_sizes_are_packed_in_order() -> None:
    artifact, cuda, tensors = _gemm(shared_memory_bytes=65536), StandInCuda(_GEMM), _operands()
    _launch(CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), tensors, artifact, **_SIZES)
    (launch,) = cuda.launches
    assert launch["pointers"] == [tensor.data_ptr() for tensor in tensors]
    assert launch["sizes"] == [33, 9, 16]
    assert (launch["grid"], launch["workgroup"], launch["shared"]) == ([9, 1, 1], [256, 1, 1], 65536)
    assert (launch["function"], launch["stream"], launch["attributes"]) == (FUNCTION, 1000, (None, 0, None))


def test_what_waits_may_begin_before_the_launch_in_front_of_it_ends() -> None:
    """Code that does not wait never may."""
    artifact, cuda = _gemm(waits=True), StandInCuda(_GEMM)
    _launch(CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), _operands(), artifact, **_SIZES)
    ((attributes, count, _),) = (launch["attributes"] for launch in cuda.launches)
    programmatic_stream_serialization, allowed = 6, 1
    assert count == 1 and struct.unpack("=I4xi60x", ctypes.string_at(attributes, 72)) == (
        programmatic_stream_serialization,
        allowed,
    )


def test_views_are_passed_as_an_aligned_address_with_offset_and_strides() -> None:
    """Numbers of 64 bits come behind the sizes, the lower half first; nothing is copied for its alignment."""
    plain = _gemm()
    a, *others = plain.tensors
    artifact, cuda = replace(plain, tensors=(replace(a, strides="any"), *others)), StandInCuda(_GEMM + "iiii")
    tensors = [torch.zeros(33, 40)[:, 3:19], *_operands()[1:]]
    numbers = {"offset(a)": 3, "stride(a, M)": 3 * 2**32 + 2**31 + 40, "alignment(a)": 1}
    _launch(CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), tensors, artifact, **_SIZES, **numbers)
    (launch,) = cuda.launches
    assert launch["pointers"] == [tensors[0].data_ptr() - 12, *(tensor.data_ptr() for tensor in tensors[1:])]
    assert launch["sizes"] == [33, 9, 16, 3, 0, 40 - 2**31, 3]


def test_tensor_maps_stand_behind_scratch() -> None:
    maps = (TensorMap("double", (64,)), TensorMap("x", (128,)))
    artifact, cuda = replace(scaled_interface(), backend="cuda", tensor_maps=maps), StandInCuda("ppppmmi")
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    tensors = [torch.zeros(500) for _ in range(3)]
    for _ in range(2):
        _launch(launcher, tensors, artifact, N=500)
    first, second = cuda.launches
    assert first == second, "nothing is made anew for a call like the last one"
    assert first["pointers"][:3] == [tensor.data_ptr() for tensor in tensors] and first["pointers"][3] % 16 == 0
    assert first["maps"] == [b"\1" * 128, b"\2" * 128] and first["sizes"] == [500]
    assert [one["address"] for one in cuda.maps] == [tensors[1].data_ptr(), tensors[0].data_ptr()]


def test_text_is_loaded_whole_and_large_shared_memory_is_asked_for() -> None:
    cuda, small = StandInCuda(_GEMM), StandInCuda(_GEMM)
    CudaLauncher(_gemm(shared_memory_bytes=49153), [_PTX], _CPU, cuda.driver)
    max_dynamic_shared_size_bytes = 8
    assert cuda.calls == [
        ("load", b".version 8.3"),
        ("function", MODULE, b"gemm"),
        ("attribute", FUNCTION, max_dynamic_shared_size_bytes, 49153),
    ]
    CudaLauncher(_gemm(shared_memory_bytes=49152), [_PTX], _CPU, small.driver)
    assert [call[0] for call in small.calls] == ["load", "function"]


def test_ptx_is_the_fallback_of_a_cubin() -> None:
    cuda = StandInCuda(_GEMM, refused=(_CUBIN.data,))
    CudaLauncher(_gemm(), [_CUBIN, _PTX], _CPU, cuda.driver)
    assert [call[1] for call in cuda.calls if call[0] == "load"] == [_CUBIN.data, b".version 8.3"]
    none = r"takes none of its binaries \(sm_90a_code\.cubin: CUDA_ERROR_NO_BINARY_FOR_GPU\)"
    with pytest.raises(ArtifactError, match=none):
        CudaLauncher(_gemm(), [_CUBIN], _CPU, cuda.driver)


def test_scratch_follows_the_tensors_and_is_kept() -> None:
    artifact, cuda = replace(scaled_interface(), backend="cuda"), StandInCuda("ppppi")
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    tensors = [torch.zeros(500), torch.zeros(500), torch.zeros(500)]
    for _ in range(2):
        _launch(launcher, tensors, artifact, N=500)
    first, second = (launch["pointers"] for launch in cuda.launches)
    assert first == second and first[:3] == [tensor.data_ptr() for tensor in tensors] and first[3] != 0


def test_a_launch_in_a_graph_has_scratch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, cuda = replace(scaled_interface(), backend="cuda", scratch_bytes=(4,)), StandInCuda("ppppi")
    launcher, tensors = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), [torch.zeros(500) for _ in range(3)]
    addresses, plan = [tensor.data_ptr() for tensor in tensors], make_plan(artifact, {"N": 500})
    bound = launcher.bind(addresses, plan)
    assert bound() == 0, "of a size that stays, scratch is the stream's"
    captured = [False]
    monkeypatch.setattr(module, "_is_capturing", lambda: captured[0])
    launcher.launch(tensors, addresses, plan)
    captured[0] = True
    assert bound() and launcher.bind(addresses, plan)(), "left to a launch that makes some"
    launcher.launch(tensors, addresses, plan)
    first, second, of_graph = (launch["pointers"][3] for launch in cuda.launches)
    assert first == second != of_graph


def test_counters_of_a_graph_are_zeros_from_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has no step that writes them; what workgroups hand each other is never written for them."""
    artifact = replace(scaled_interface(), backend="cuda", scratch_bytes=(528, 4096), unset_scratch=1)
    cuda = StandInCuda("pppppi")
    launcher, tensors = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), [torch.zeros(500) for _ in range(3)]
    addresses, plan = [tensor.data_ptr() for tensor in tensors], make_plan(artifact, {"N": 500})
    launcher.launch(tensors, addresses, plan)
    made, zeros = list[int](), torch.zeros

    def counted(size: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        made.append(size)
        return zeros(size, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "zeros", counted)
    monkeypatch.setattr(module, "_is_capturing", lambda: True)
    for _ in range(2):
        launcher.launch(tensors, addresses, plan)
    counters = {launch["pointers"][3] for launch in cuda.launches}
    assert len(counters) == 3 and not made


def test_tensors_that_are_not_aligned_are_launched_as_copies() -> None:
    maps = (TensorMap("a", (32, 16)), TensorMap("c", (32, 8)))
    artifact, cuda = _gemm(tensor_maps=maps), StandInCuda("pppmmiii")
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    tensors = [torch.zeros(33 * 16 + 1)[1:].view(33, 16), torch.zeros(8, 16), torch.zeros(33 * 8 + 1)[1:].view(33, 8)]
    _launch(launcher, tensors, artifact, M=33, N=8, K=16)
    pointers = cuda.launches[0]["pointers"]
    assert all(pointer % 16 == 0 for pointer in pointers)
    same = [pointer == tensor.data_ptr() for pointer, tensor in zip(pointers, tensors, strict=True)]
    assert same == [False, True, False]
    assert [one["address"] for one in cuda.maps] == [pointers[0], pointers[2]]


def test_memory_of_a_launch_is_written_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, cuda, tensors, prepared = _gemm(), StandInCuda(_GEMM), _operands(), list[int]()

    def prepare(launcher: CudaLauncher) -> None:
        prepared.append(threading.get_ident())

    monkeypatch.setattr(CudaLauncher, "_bind_context", prepare)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    _launch(launcher, tensors, artifact, **_SIZES)
    thread = threading.Thread(target=lambda: _launch(launcher, tensors, artifact, **_SIZES))
    thread.start()
    thread.join()
    first, second = (launch["place"] for launch in cuda.launches)
    assert first == second
    assert len(set(prepared)) == len(prepared) == 2, "the driver needs a context in every thread"
    _launch(launcher, _operands(), artifact, **_SIZES)
    assert cuda.launches[-1]["place"] != first and cuda.launches[0] == cuda.launches[1]


def test_tensor_maps_are_encoded_in_a_context_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new thread has none, by which the driver encodes no map (CUDA_ERROR_INVALID_CONTEXT)."""
    artifact, cuda, tensors = _gemm(tensor_maps=(TensorMap("a", (32, 16)),)), StandInCuda("pppmiii"), _operands()
    plan, maps_of_thread = make_plan(artifact, _SIZES), dict[int, int]()
    addresses = [tensor.data_ptr() for tensor in tensors]

    def prepare(launcher: CudaLauncher) -> None:
        maps_of_thread[threading.get_ident()] = len(cuda.maps)

    monkeypatch.setattr(CudaLauncher, "_bind_context", prepare)
    for call in ("bind", "launch"):
        launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
        before = len(cuda.maps)
        first = [addresses, plan] if call == "bind" else [tensors, addresses, plan]
        thread = threading.Thread(target=getattr(launcher, call), args=first)
        maps_of_thread.clear()
        thread.start()
        thread.join()
        assert list(maps_of_thread.values()) == [before] and len(cuda.maps) == before + 1


def test_a_bound_launch_is_made_again_for_another_stream_or_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, cuda, tensors = _gemm(), StandInCuda(_GEMM), _operands()
    launcher, plan = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), make_plan(artifact, _SIZES)
    addresses = [tensor.data_ptr() for tensor in tensors]
    bound = launcher.bind(addresses, plan)
    assert bound is launcher.bind(addresses, plan)
    monkeypatch.setattr(module, "_current_stream", (77).__add__)
    assert [bound(), launcher.bind(addresses, plan)(), bound()] == [0, 0, 0]
    assert [launch["stream"] for launch in cuda.launches] == [1000, 77, 1000]
    assert launcher.bind([addresses[0] + 2, *addresses[1:]], plan)() and len(cuda.launches) == 3, "it takes a copy"


def test_a_bound_launch_keeps_its_scratch_when_that_of_the_stream_grows() -> None:
    artifact, cuda = replace(scaled_interface(), backend="cuda"), StandInCuda("ppppi")
    launcher, addresses = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), [16, 32, 48]
    small, large, between = (launcher.bind(addresses, make_plan(artifact, {"N": n})) for n in (500, 501, 900))
    assert [small(), large(), between(), small()] == [0, 0, 0, 0]
    first, second, third, again = (launch["pointers"][3] for launch in cuda.launches)
    assert first == again != second == third, "memory for 501 is twice that for 500"


def test_bound_launches_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BOUND_KEPT", 3)
    artifact, cuda = _gemm(), StandInCuda(_GEMM)
    launcher, plan = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver), make_plan(artifact, _SIZES)
    for address in range(16, 160, 16):
        launcher.bind([address] * 3, plan)()
        assert cuda.launches[-1]["pointers"] == [address] * 3
        assert len(launcher._bound) <= 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("rows", [70_000, 2**31])
def test_grid_that_a_gpu_does_not_have_is_explained(rows: int) -> None:
    artifact, cuda = _gemm(grid=(1, ("mul", "M", 4), 1)), StandInCuda(_GEMM, status=1)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    with pytest.raises(ArgumentError, match=f"M = {rows}.* needs {4 * rows} workgroups along y, a GPU has 65535"):
        _launch(launcher, [torch.zeros(1)] * 3, artifact, **_SIZES | {"M": rows})


def test_other_launch_errors_say_what_was_asked() -> None:
    artifact, cuda = _gemm(), StandInCuda(_GEMM, status=701)
    launcher = CudaLauncher(artifact, [_PTX], _CPU, cuda.driver)
    text = r"cuLaunchKernelEx: error 701 \(grid \(9, 1, 1\), workgroup \(256, 1, 1\)"
    with pytest.raises(RuntimeError, match=text):
        _launch(launcher, [torch.zeros(1)] * 3, artifact, **_SIZES)


class _Graphs:
    """Takes note of what a graph would be made of."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def when_often(self, launch: Any, node: Any, stream: int) -> Any:
        self.nodes.append((node, stream))
        return launch


def test_the_node_of_a_graph_is_the_launch() -> None:
    artifact, cuda, tensors = _gemm(shared_memory_bytes=65536), StandInCuda(_GEMM), _operands()
    driver, graphs = cuda.driver, _Graphs()
    driver.__dict__["graphs"] = graphs
    plan = make_plan(artifact, _SIZES)
    bound: Any = CudaLauncher(artifact, [_PTX], _CPU, driver).bind([tensor.data_ptr() for tensor in tensors], plan)
    ((node, stream),) = graphs.nodes
    place, table = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in (node, bound.args[2]))
    read = struct.unpack(f"={NODE}", ctypes.string_at(place, struct.calcsize(f"={NODE}")))
    assert read == (FUNCTION, *plan.grid, *artifact.workgroup_size, 65536, table) and stream == 1000
