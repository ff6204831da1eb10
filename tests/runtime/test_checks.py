"""Messages of wrong calls: each names the argument, what it was and what was expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.runtime.standins import gemm_interface, scaled_interface
from wavespec.runtime import ArgumentError, ArgumentTypeError, Assumption
from wavespec.runtime.checks import check_inputs, check_outputs

_GEMM = gemm_interface()
_A, _B = torch.zeros(4, 64), torch.zeros(8, 64)


def test_sizes_of_all_dims_come_back() -> None:
    assert check_inputs(_GEMM, [_A, _B]) == {"M": 4, "N": 8, "K": 64}
    assert check_inputs(gemm_interface(rows=4), [_A, _B]) == {"M": 4, "N": 8, "K": 64}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([_A], "gemm: takes 2 input tensors (a, b), got 1."),
        ([_A, [1.0]], "gemm: argument 'b' is of type list, expected a torch.Tensor."),
        ([_A, _B.half()], "gemm: argument 'b' has dtype torch.float16, expected torch.float32."),
        ([_A, _B.to_sparse()], "gemm: argument 'b' has layout torch.sparse_coo, expected a dense tensor."),
    ],
)
def test_wrong_types(inputs: list[Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        check_inputs(_GEMM, inputs)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([_A, _B[0]], "gemm: argument 'b' has 1 dim [64], expected 2: [N, K]."),
        ([_A, _B[:, :48]], "gemm: argument 'b' has K = 48 in dim 1, but 'a' has K = 64 in dim 1."),
        ([_A, _B.to("meta")], "gemm: argument 'b' is on meta, but 'a' is on cpu."),
        (
            [torch.empty(1, 0).expand(2**31, 0), torch.empty(8, 0)],
            "gemm: argument 'a' has M = 2147483648 in dim 0, expected at most 2147418112.",
        ),
    ],
)
def test_wrong_shapes(inputs: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_inputs(_GEMM, inputs)
    assert str(caught.value) == message


def test_size_that_is_compiled_in() -> None:
    with pytest.raises(ArgumentError, match="'a' has M = 4 in dim 0, but this kernel was built for M = 16"):
        check_inputs(gemm_interface(rows=16), [_A, _B])


def test_promise_of_a_multiple() -> None:
    with pytest.raises(ArgumentError, match="'a' has K = 63 in dim 1, expected a multiple of 8"):
        check_inputs(gemm_interface(multiple_of=8), [_A[:, :63], _B[:, :63]])


def test_assumption_of_the_spec() -> None:
    assumed = replace(_GEMM, assumptions=(Assumption("K > 4 * BLOCK_K", ("gt", "K", 256)),))
    with pytest.raises(ArgumentError) as caught:
        check_inputs(assumed, [_A, _B])
    expected = "gemm: the kernel assumes K > 4 * BLOCK_K, but this call has M = 4, K = 64, N = 8."
    assert str(caught.value) == expected


_SIZES = {"M": 4, "N": 8, "K": 64}
_MEMORY = torch.zeros(1000)
_SHARING = _MEMORY[:256].view(4, 64)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (torch.zeros(4, 9), "gemm: argument 'out' has shape [4, 9], expected [4, 8] = [M, N]."),
        (torch.zeros(8, 4).t(), "gemm: argument 'out' has strides (1, 4), expected a contiguous tensor."),
        (torch.zeros(4, 8).half(), "gemm: argument 'out' has dtype torch.float16, expected torch.float32."),
        (_MEMORY[250:282].view(4, 8), "gemm: argument 'out' shares memory with 'a'."),
        (torch.zeros(4, 8, device="meta"), "gemm: argument 'out' is on meta, but 'a' is on cpu."),
        (3, "gemm: argument 'out' is of type int, expected a torch.Tensor."),
        (
            torch.zeros(4, 8, requires_grad=True),
            "gemm: argument 'out' requires grad, but results are written in place without a gradient.",
        ),
    ],
)
def test_wrong_out(out: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_outputs(_GEMM, [_SHARING, _B], [out], _SIZES)
    assert str(caught.value) == message


def test_memory_right_behind_an_input_is_not_shared() -> None:
    check_outputs(_GEMM, [_SHARING, _B], [_MEMORY[256:288].view(4, 8)], _SIZES)


def test_two_results_need_memory_of_their_own() -> None:
    both = torch.zeros(16)
    with pytest.raises(ArgumentError, match="'triple' shares memory with 'double'"):
        check_outputs(scaled_interface(), [torch.zeros(16)], [both, both], {"N": 16})
    with pytest.raises(ArgumentTypeError, match=r"'out' takes 2 tensors \(double, triple\), got 1"):
        check_outputs(scaled_interface(), [torch.zeros(16)], [both], {"N": 16})
