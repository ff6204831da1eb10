"""Descriptors of tensors for bulk copies: what the driver is asked to encode, how often, and what it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.standin_cuda import StandInCuda
from tests.runtime.standins import gemm_interface
from wavespec.runtime import ArgumentError, KernelArtifact, TensorMap, TensorParameter
from wavespec.runtime.launch_plan import LaunchPlan, make_plan
from wavespec.runtime.tensor_maps import TensorMaps

_ADDRESSES = (0x10000, 0x20000, 0x30000)


def _artifact(*maps: TensorMap, dtype: str = "bf16") -> KernelArtifact:
    return replace(gemm_interface(dtype), backend="cuda", tensor_maps=maps)


def _plan(artifact: KernelArtifact, m: int = 33, n: int = 24, k: int = 64) -> LaunchPlan:
    return make_plan(artifact, {"M": m, "N": n, "K": k})


def test_dims_are_told_from_the_innermost_on() -> None:
    artifact, cuda = _artifact(TensorMap("b", (256, 64), 128), TensorMap("c", (32, 8))), StandInCuda("")
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact))
    bf16, f32, no_interleave, fetch_256, zeros = 9, 7, 0, 3, 0
    assert cuda.maps == [
        {
            "dtype": bf16,
            "address": 0x20000,
            "sizes": [64, 24],
            "strides": [128],
            "box": [64, 256],
            "steps": [1, 1],
            "layout": (no_interleave, 3, fetch_256, zeros),
        },
        {
            "dtype": f32,
            "address": 0x30000,
            "sizes": [24, 33],
            "strides": [96],
            "box": [8, 32],
            "steps": [1, 1],
            "layout": (no_interleave, 0, fetch_256, zeros),
        },
    ]


def test_batches_have_strides_of_their_own() -> None:
    tensor = TensorParameter("a", "f8e4m3fn", ("M", "K", 32))
    plain = _artifact()
    maps = (TensorMap("a", (1, 64, 32), 32),)
    artifact, cuda = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=maps), StandInCuda("")
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, k=100))
    (one,) = cuda.maps
    uint8 = 0
    assert (one["dtype"], one["sizes"], one["strides"]) == (uint8, [32, 100, 33], [32, 3200])


def test_a_map_is_encoded_again_for_another_address_or_shape_only() -> None:
    artifact, cuda = _artifact(TensorMap("a", (64, 64), 128), TensorMap("b", (128, 64), 128)), StandInCuda("")
    maps = TensorMaps(artifact, cuda.driver)
    first = maps(_ADDRESSES, _plan(artifact))
    assert maps(_ADDRESSES, _plan(artifact)) == first and len(cuda.maps) == 2
    assert maps((0x10000, 0x40000, 0x30000), _plan(artifact))[0] == first[0]
    assert [one["address"] for one in cuda.maps[2:]] == [0x40000]
    # Another M is another shape of a; that of b is as it was.
    assert maps(_ADDRESSES, _plan(artifact, m=65))[1] == first[1] and cuda.maps[-1]["sizes"] == [64, 65]
    assert maps(_ADDRESSES, _plan(artifact)) == first and len(cuda.maps) == 4


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((33, 24, 60), r"gemm: tensor 'a' of shape \[33, 60\] has rows 120 bytes apart: .* multiple of 16"),
    ],
)
def test_tensors_that_have_no_map_are_named(sizes: tuple[int, int, int], message: str) -> None:
    artifact, cuda = _artifact(TensorMap("a", (64, 64), 128)), StandInCuda("")
    with pytest.raises(ArgumentError, match=message):
        TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, *sizes))
    assert not cuda.maps


@pytest.mark.parametrize("sizes", [(33, 24, 0), (0, 24, 64)])
def test_an_empty_tensor_has_a_map_that_says_nothing(sizes: tuple[int, int, int]) -> None:
    artifact, cuda = _artifact(TensorMap("a", (64, 64), 128)), StandInCuda("")
    assert TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, *sizes)) == [bytes(128)]
    assert not cuda.maps, "a kernel over nothing copies nothing"


def test_refusal_of_the_driver_says_what_was_asked() -> None:
    artifact, cuda = _artifact(TensorMap("a", (64, 512), 128)), StandInCuda("")
    text = r"'a' of shape \[33, 64\]: cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE \(boxes of \[64, 512\]"
    with pytest.raises(RuntimeError, match=text):
        TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact))
