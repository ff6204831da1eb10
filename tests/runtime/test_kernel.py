"""Stand-in kernels run on the CPU: right results, in the caller's memory, whatever the tensors
look like."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.runtime.standins import built, gemm_artifact, gemm_interface, gemm_kernel, scaled_artifact
from wavespec.runtime import ArgumentError, ArtifactError, Kernel


@pytest.fixture(scope="module")
def gemm() -> Kernel:
    return Kernel(gemm_artifact())


@pytest.fixture(scope="module")
def scaled() -> Kernel:
    return Kernel(scaled_artifact())


def _integers(*shape: int) -> Tensor:
    """Small integers, whose sums of products f32 holds exactly: results are compared for equality."""
    return torch.randint(-4, 5, shape).float()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (4, 3, 8), (33, 9, 17), (64, 64, 64)])
def test_result_is_exact(gemm: Kernel, m: int, n: int, k: int) -> None:
    a, b = _integers(m, k), _integers(n, k)
    assert torch.equal(gemm(a, b), a @ b.T)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3fn"])
def test_small_floats_travel_as_they_are(dtype: str) -> None:
    torch_dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3fn": torch.float8_e4m3fn}[dtype]
    a, b = _integers(5, 16), _integers(3, 16)
    assert torch.equal(Kernel(gemm_artifact(dtype))(a.to(torch_dtype), b.to(torch_dtype)), a @ b.T)


def test_out_is_written_in_place_and_returned(gemm: Kernel) -> None:
    a, b, c = _integers(33, 17), _integers(9, 17), torch.full((33, 9), torch.nan)
    address = c.data_ptr()
    assert gemm(a, b, out=c) is c
    assert c.data_ptr() == address and torch.equal(c, a @ b.T)


def test_tensors_are_passed_by_name_too(gemm: Kernel) -> None:
    a, b = _integers(33, 17), _integers(9, 17)
    for result in (gemm(a=a, b=b), gemm(b=b, a=a), gemm(a, b=b)):
        assert torch.equal(result, a @ b.T)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "x"), "gemm: got 'x', but its tensors are a, b."),
        (("a", "b", "c"), "gemm: got 'c', but its tensors are a, b; pass tensors for results as 'out'."),
        (("a",), "gemm: argument 'b' is missing; pass b=...."),
    ],
)
def test_wrong_names_are_told(gemm: Kernel, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        gemm(**dict.fromkeys(names, _integers(9, 9)))
    assert str(raised.value) == message


def test_a_tensor_passed_by_place_and_by_name_is_told(gemm: Kernel) -> None:
    a = _integers(9, 9)
    with pytest.raises(ArgumentError, match=r"gemm: argument 'a' is passed by its place and by its name\."):
        gemm(a, a=a, b=a)
    with pytest.raises(ArgumentError, match=r"gemm: got 'eps', but it has no scalars\."):
        gemm(a, a, eps=1.0)


def test_raw_writes_in_place(gemm: Kernel) -> None:
    a, b, c = _integers(33, 17), _integers(9, 17), torch.full((33, 9), torch.nan)
    gemm.raw(a, b, c)
    assert torch.equal(c, a @ b.T)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 7), (5, 0, 7), (0, 0, 0)])
def test_empty_result(gemm: Kernel, m: int, n: int, k: int) -> None:
    assert gemm(torch.empty(m, k), torch.empty(n, k)).shape == (m, n)


def test_empty_sum_is_zero(gemm: Kernel) -> None:
    assert torch.equal(gemm(torch.empty(5, 0), torch.empty(6, 0), out=torch.ones(5, 6)), torch.zeros(5, 6))


@pytest.mark.parametrize("offset", [1, 3, 16])
def test_tensors_that_are_not_aligned(gemm: Kernel, offset: int) -> None:
    """IREE takes memory aligned to 64 bytes only; slices of other alignment are copied, and nothing beside
    them changes."""
    a = _integers(offset + 33 * 17)[offset:].view(33, 17)
    b = _integers(9, 17)
    around = torch.full((offset + 33 * 9 + 5,), 7.0)
    gemm(a, b, out=around[offset:-5].view(33, 9))
    assert torch.equal(around[offset:-5].view(33, 9), a @ b.T)
    assert bool((around[:offset] == 7).all()) and bool((around[-5:] == 7).all())


def test_strided_inputs_are_copied(gemm: Kernel) -> None:
    a, b = _integers(17, 33).t(), _integers(18, 17)[::2]
    assert torch.equal(gemm(a, b), a @ b.T)


def test_one_tensor_for_two_inputs(gemm: Kernel) -> None:
    a = _integers(8, 8)
    assert torch.equal(gemm(a, a), a @ a.T)


def test_several_outputs_and_scratch_that_grows(scaled: Kernel) -> None:
    for size in (10, 100_000, 1000):
        x = _integers(size)
        double, triple = scaled(x)
        assert torch.equal(double, 2 * x) and torch.equal(triple, 3 * x)
    outs = (torch.empty(1000), torch.empty(1000))
    result = scaled(x, out=outs)
    assert all(given is returned for given, returned in zip(outs, result, strict=True))
    assert torch.equal(outs[1], 3 * x)


def test_gradient_is_refused_unless_switched_off(gemm: Kernel) -> None:
    a, b = _integers(4, 8).requires_grad_(), _integers(3, 8)
    with pytest.raises(ArgumentError, match="gemm: argument 'a' requires grad, but this kernel has no backward"):
        gemm(a, b)
    with torch.no_grad():
        assert torch.equal(gemm(a, b), a @ b.T)


def test_wrong_call_after_a_right_one_is_still_found(gemm: Kernel) -> None:
    a, b = _integers(4, 8), _integers(3, 8)
    gemm(a, b)
    with pytest.raises(ArgumentError, match="'a' has dtype"):
        gemm(a.int(), b)
    with pytest.raises(ArgumentError, match="'out' has shape"):
        gemm(a, b, out=torch.empty(3, 4))
    with pytest.raises(ArgumentError, match="'out' shares memory with 'a'"):
        gemm(a, b, out=a.view(-1)[:12].view(4, 3))


def test_wrong_count_after_a_right_call_is_still_found(gemm: Kernel) -> None:
    a, b, c = _integers(4, 8), _integers(3, 8), torch.empty(4, 3)
    gemm(a, b)
    gemm(a, b, out=c)
    for inputs in ((a,), (a, b, c), (a, c)):
        with pytest.raises(ArgumentError, match=r"takes 2 input tensors|has K = 3"):
            gemm(*inputs)
        with pytest.raises(ArgumentError, match=r"takes 2 input tensors|has K = 3"):
            gemm(*inputs, out=c)
    for outputs in ((), (c, c)):
        with pytest.raises(ArgumentError, match="'out' takes 1 tensors"):
            gemm(a, b, out=outputs)


def test_kernel_of_another_device_says_so(gemm: Kernel) -> None:
    with pytest.raises(ArgumentError, match="'a' is on meta, but this kernel was built for cpu"):
        gemm(torch.empty(4, 8, device="meta"), torch.empty(3, 8, device="meta"))


def test_broken_binary_is_one_clean_error() -> None:
    artifact = gemm_artifact()
    broken = replace(artifact, binaries=(replace(artifact.binaries[0], code=b"not a vmfb" * 100),))
    with pytest.raises(ArtifactError, match="gemm: 'x86_64_v3' is no vmfb"):
        Kernel(broken)(_integers(4, 8), _integers(3, 8))


def test_kernel_may_keep_two_megabytes_on_the_stack_of_a_worker() -> None:
    memory = "memref<500000xf32>"
    through_stack = f"""%last_of_stack = arith.constant 499999 : index
      memref.store %sum, %stack[%last_of_stack] : {memory}
      memref.store %sum, %stack[%n] : {memory}
      %again = memref.load %stack[%n] : {memory}
      memref.store %again, %c[%m, %n]"""
    kernel = gemm_kernel(gemm_interface()).replace("memref.store %sum, %c[%m, %n]", through_stack)
    kernel = kernel.replace("%w = hal", f"%stack = memref.alloca() : {memory}\n%w = hal")
    a, b = _integers(33, 17), _integers(9, 17)
    assert torch.equal(Kernel(built(gemm_interface(), kernel))(a, b), a @ b.T)


def test_threads_of_one_process_may_call_at_once(scaled: Kernel) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = torch.full((600 + seed,), float(seed))
        wrong.extend(seed for _ in range(200) if not torch.equal(scaled(x)[1], 3 * x))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_memory_of_the_tensors_is_given_back(scaled: Kernel) -> None:
    """40 calls on 8 MB tensors: buffers that stayed alive would add 900 MB."""

    def resident_mb() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    x = torch.ones(1 << 21)
    scaled(x)
    before = resident_mb()
    for _ in range(40):
        scaled(x.clone())
    assert resident_mb() - before < 100


def test_tensors_on_the_wrong_side_of_out_are_told_of_known_calls_too(gemm: Kernel) -> None:
    """A call like it is known by all of its tensors, not by which of them are results."""
    a, b, c = _integers(4, 8), _integers(3, 8), torch.zeros(4, 3)
    for _ in range(3):
        gemm(a, b, out=c)
    c.zero_()
    for inputs, out in (((a, b, c), ()), ((a,), (b, c)), ((), (a, b, c))):
        with pytest.raises(ArgumentError, match="takes 2 input tensors"):
            gemm(*inputs, out=out)
    assert not c.any()
