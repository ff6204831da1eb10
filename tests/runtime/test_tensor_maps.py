"""Descriptors of tensors for bulk copies: what the driver is asked to encode, how often, and what it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.standin_cuda import StandInCuda
from tests.runtime.standins import gemm_interface
from wavespec.runtime import ArgumentError, KernelArtifact, TensorMap, TensorParameter
from wavespec.runtime.artifact import ENDED_ROWS, Window
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


@pytest.mark.parametrize("end", [1, 7, 64, 100])
@pytest.mark.parametrize("rows", [0, 1, 5, 64])
def test_rows_that_a_copy_ends_are_three_dims(end: int, rows: int) -> None:
    """The place of `TensorMap.ended` is that of the first of so many rows, of 64 bits, and the rows have their end."""
    tensor, plain = TensorParameter("a", "bf16", ("M", "N", "K")), _artifact()
    artifact = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=(TensorMap("a", (64, 1, 32), ended=0),))
    cuda = StandInCuda("")
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, m=100, n=3))
    (one,) = cuda.maps
    row = 3 * 64 * 2
    assert (one["sizes"], one["box"]) == ([64, 3, ENDED_ROWS, 101, ENDED_ROWS + 1], [32, 1, 64, 1, 1])
    assert one["strides"] == [128, row, row, 2**34 - row]
    place = [0, 0, ENDED_ROWS - rows, end, ENDED_ROWS]
    offset = sum(at * stride for at, stride in zip(place[1:], one["strides"], strict=True))
    assert one["address"] + offset == 0x10000 + (end - rows) * row + 2**64
    assert ENDED_ROWS - place[2] == rows, "so many rows of the box are within the dim"


def test_a_map_that_ends_counts_along_a_dim_of_rows() -> None:
    assert TensorMap("a", (8, 32), ended=0).fits(2)
    assert not TensorMap("a", (8, 32), ended=1).fits(2), "columns have no end"


@pytest.mark.parametrize("apart", [False, True])
def test_rows_that_are_apart_are_two_dims(apart: bool) -> None:
    """Around every second row, those in between: a box has all of the first kind in front of all of the other."""
    tensor, plain = TensorParameter("a", "bf16", ("M", "N", "K"), strides="any" if apart else ""), _artifact()
    described = (TensorMap("a", (1, 64, 32), 64, row_step=2),)
    artifact, cuda = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=described), StandInCuda("")
    numbers = {"offset(a)": 0, "stride(a, M)": 4096, "stride(a, N)": 80, "alignment(a)": 8} if apart else {}
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, make_plan(artifact, {"M": 3, "N": 40, "K": 64, **numbers}))
    (one,) = cuda.maps
    row, batch = (160, 8192) if apart else (128, 128 * 40)
    assert (one["sizes"], one["strides"]) == ([64, 20, 2, 3], [2 * row, row, batch])
    assert (one["box"], one["steps"]) == ([32, 32, 2, 1], [1, 1, 1, 1])


def test_views_have_the_strides_of_the_call_and_start_where_they_do() -> None:
    """Heads of a fused projection: dims are counted from the innermost on, whatever the order of their strides."""
    tensor, plain = TensorParameter("a", "bf16", ("M", "N", "K"), strides="any"), _artifact()
    described = (TensorMap("a", (1, 8, 32), 64),)
    artifact, cuda = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=described), StandInCuda("")
    numbers = {"offset(a)": 8, "stride(a, M)": 64, "stride(a, N)": 3072, "alignment(a)": 8}
    plan = make_plan(artifact, {"M": 16, "N": 100, "K": 64, **numbers})
    maps = TensorMaps(artifact, cuda.driver)
    maps((0x10010, *_ADDRESSES[1:]), plan)
    (one,) = cuda.maps
    assert (one["address"], one["sizes"], one["strides"]) == (0x10010, [64, 100, 16], [6144, 128])
    maps((0x10010, *_ADDRESSES[1:]), make_plan(artifact, plan.sizes | {"stride(a, M)": 128}))
    assert len(cuda.maps) == 2, "other strides are another map"


def test_a_dim_of_one_element_has_a_step_that_maps_may_have() -> None:
    tensor, plain = TensorParameter("a", "bf16", ("M", "N", "K"), strides="any"), _artifact()
    artifact = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=(TensorMap("a", (1, 8, 32), 64),))
    cuda, numbers = StandInCuda(""), {"offset(a)": 0, "stride(a, M)": 0, "stride(a, N)": 104, "alignment(a)": 8}
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, make_plan(artifact, {"M": 1, "N": 5, "K": 64, **numbers}))
    (one,) = cuda.maps
    assert (one["sizes"], one["strides"]) == ([64, 5, 1], [208, 1040])


def test_rows_that_no_map_describes_are_refused() -> None:
    tensor, plain = TensorParameter("a", "bf16", ("M", "K"), strides="any"), _artifact()
    artifact = replace(plain, tensors=(tensor, *plain.tensors[1:]), tensor_maps=(TensorMap("a", (8, 32), 64),))
    sizes = {"M": 16, "N": 24, "K": 64, "offset(a)": 0, "stride(a, M)": 65, "alignment(a)": 1}
    with pytest.raises(ArgumentError, match="has rows 130 bytes apart"):
        TensorMaps(artifact, StandInCuda("").driver)(_ADDRESSES, make_plan(artifact, sizes))


_IMAGES = TensorParameter("a", "bf16", ("M", "N", "K", 64))
_WINDOWS = (Window(-1, 2, ("ceildiv", "N", 2)), Window(-3, 1, ("add", "K", 4)))


def test_windows_start_between_two_corners() -> None:
    """The last one's follows from how many there are, whatever their steps."""
    described, cuda = TensorMap("a", (192, 64), 128, windows=_WINDOWS), StandInCuda("")
    plain = _artifact()
    artifact = replace(plain, tensors=(_IMAGES, *plain.tensors[1:]), tensor_maps=(described,))
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, m=5, n=25, k=8))
    along_n = -1 + 2 * 12 - 24
    along_k = -3 + 11 - 7
    assert cuda.maps == [
        {
            "sizes": [64, 8, 25, 5],
            "strides": [128, 1024, 25600],
            "corners": [[-3, -1], [along_k, along_n]],
            "box": [64, 192],
            "steps": [1, 1, 2, 1],
        }
    ]


def test_windows_beyond_the_reach_of_the_machine_are_refused_with_the_function() -> None:
    plain, cuda = _artifact(), StandInCuda("")
    described = TensorMap("a", (192, 64), 128, windows=(Window(-200, 1, "N"), Window(0, 1, "K")))
    artifact = replace(plain, tensors=(_IMAGES, *plain.tensors[1:]), tensor_maps=(described,))
    with pytest.raises(RuntimeError, match="cuTensorMapEncodeIm2col: CUDA_ERROR_INVALID_VALUE"):
        TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact))


def test_a_view_counts_over_the_dims_of_the_tensor() -> None:
    view = (("mul", "M", "N"), ("mul", "K", 64))
    plain, cuda = _artifact(), StandInCuda("")
    artifact = replace(plain, tensors=(_IMAGES, *plain.tensors[1:]), tensor_maps=(TensorMap("a", (64, 64), 128, view),))
    TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, m=5, n=25, k=8))
    (one,) = cuda.maps
    assert (one["sizes"], one["strides"], one["box"]) == ([512, 125], [1024], [64, 64])


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


def test_dims_that_are_too_long_together_are_named() -> None:
    of_two = TensorMap("a", (64, 64), 128, view=(("mul", "M", "N"), "K"))
    artifact, cuda = _artifact(of_two), StandInCuda("")
    with pytest.raises(ArgumentError, match=r"gemm: tensor 'a' is copied as \[4294836225, 64\], expected at most"):
        TensorMaps(artifact, cuda.driver)(_ADDRESSES, _plan(artifact, 65535, 65535, 64))
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
