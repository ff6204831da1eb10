"""Kernels for CPUs, called with views of larger tensors: right, and nothing is copied or written beside them."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.strided.views import VIEWS, Views
from wavespec.ir.strided import stride_together
from wavespec.pipeline import compile
from wavespec.runtime import ArgumentError, Kernel
from wavespec.sim.elements import Array

pytestmark = pytest.mark.compiles


@cache
def kernel_of(spec_name: str) -> Kernel:
    (views, *_) = (views for views in VIEWS if views.spec_name == spec_name)
    return compile(views.spec, "cpu")


def tensor_of(array: Array) -> Tensor:
    """The same memory."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor: Tensor) -> Array:
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("views", VIEWS, ids=lambda views: views.name)
def test_views_are_read_and_written_where_they_are(views: Views) -> None:
    arrays, kernel = views.arrays(), kernel_of(views.spec_name)
    tensors = {name: tensor_of(array) for name, array in arrays.items()}
    roles = {name: tensor.role for name, tensor in views.spec.tensors.items()}
    inputs = [tensors[name] for name, role in roles.items() if role != "output"]
    outputs = [tensors[name] for name, role in roles.items() if role == "output"]
    given = {name: array.copy() for name, array in arrays.items()}
    beside = {name: _whole(tensors[name]).clone() for name, role in roles.items() if role != "input"}
    for _ in range(3):  # the full way, a known call, and a direct one
        for name, role in roles.items():
            if role == "inout":
                tensors[name].copy_(tensor_of(given[name]))
        kernel(*inputs, out=outputs or None)
        views.check(given, {name: array_of(tensor) for name, tensor in tensors.items()})
    for name, before in beside.items():
        after = _whole(tensors[name]).clone()
        tensors[name].copy_(tensor_of(given[name]))
        assert torch.equal(_whole(tensors[name]), before), f"{name} is as it was but for its elements"
        assert not torch.equal(after, before)


def _whole(tensor: Tensor) -> Tensor:
    """All that is in the memory that a view is of."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def test_new_results_are_contiguous() -> None:
    (views,) = (views for views in VIEWS if views.name == "slices")
    arrays = views.arrays()
    made = kernel_of(views.spec_name)(tensor_of(arrays["x"]))
    assert made.is_contiguous()
    views.check(arrays, {"y": array_of(made)})


def test_an_empty_view_is_none_of_what_it_is_cut_out_of() -> None:
    """Without keys there is nothing to add up; what is read of them is no memory at all."""
    whole, kernel = torch.randn(2, 70, 3, 2, 64).bfloat16(), kernel_of("attention_views")
    q, k, v = (part.transpose(1, 2) for part in whole.unbind(2))
    for _ in range(3):
        assert not kernel(q, k[:, :, :0], v[:, :, :0]).count_nonzero()
        assert not kernel(q, *(torch.empty(2, 2, 0, 64, dtype=torch.bfloat16) for _ in range(2))).count_nonzero()


SHAPES = st.lists(st.integers(0, 3), max_size=4)


@given(SHAPES, st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 9, 12]), min_size=4, max_size=4))
def test_dims_have_a_stride_together_where_torch_makes_one_of_them(shape: list[int], strides: list[int]) -> None:
    strides = strides[: len(shape)]
    tensor = torch.empty(1).as_strided(shape, strides) if 0 in shape else torch.empty(256).as_strided(shape, strides)
    try:
        (expected,) = tensor.view(-1).stride() if tensor.numel() else (0,)
    except RuntimeError:
        expected = None
    found = stride_together(shape, strides)
    assert found == (0 if tensor.numel() < 2 and found is not None else expected)


def test_leading_dims_of_a_view_are_one_dim_of_the_kernel() -> None:
    rope = kernel_of("../../specs/rope")
    batch, length, heads, depth = 2, 3, 2, 32
    whole = torch.randn(batch, length, 3 * heads * depth).bfloat16()
    cos, sin = torch.randn(2, batch, length, depth).bfloat16()
    q, k, _ = (part.view(batch, length, heads, depth) for part in whole.chunk(3, -1))
    for x in (q, k, k[:1], k[:, 1:2], k[1], k[1, 1]):
        lead = x.shape[:-2]
        of_x = [
            one.expand(*lead, depth) if one.shape[:-1] == lead else one.new_ones(*lead, depth) for one in (cos, sin)
        ]
        for _ in range(3):  # the full way, a known call, and a direct one
            assert torch.equal(rope(x, *of_x), rope(x.contiguous(), *of_x))
    x = torch.randn(batch, heads, length, depth).bfloat16().transpose(1, 2)
    with pytest.raises(
        ArgumentError, match=r"'x' has strides .* the dims in place of 'T' have no stride together; pass x.contiguous()"
    ):
        rope(x, cos, sin)
    assert torch.equal(rope(x.contiguous(), cos, sin)[0], rope(x[0], cos[0], sin[0]))
