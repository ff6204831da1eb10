"""Decoding from pages: what a step reads of the tables, and results whatever lies where no sequence has keys."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from tests.kernels import Subject, subjects
from tests.sim.plan_variations import simulated
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
DECODE = next(subject for subject in subjects("sm_90") if subject.name == "attention_paged_decode")
COMBINE = next(subject for subject in subjects("sm_90") if subject.name == "attention_combine")
SIZES = {"B": 3, "H": 2, "M": 4, "P": 24, "D": 72, "E": 72}


@cache
def lowered(subject: Subject, case: int, after: str = "") -> Kernel:
    return lower(subject.cases("sm_90")[case].spec, HOPPER, after=after)


MANY, OF_16_KEYS = 0, 2
"""Cases: of more workgroups than run at once, and of pages of 16 keys."""


@pytest.mark.parametrize(("keys", "case"), [(16, OF_16_KEYS), (8, None), (16, MANY)])
def test_uneven_lengths_and_whatever_lies_behind_them(keys: int, case: int | None) -> None:
    counts = [0, 37, 128 + keys]
    sizes = DECODE.complete(SIZES | {"T": keys, "L": 160 // keys, "N": 160})
    q, stored, values, _, count = DECODE.inputs(sizes)
    page = torch.randperm(3 * 160 // keys, generator=torch.Generator().manual_seed(0)).to(torch.int32).view(3, -1)
    stored, values = (torch.randn(page.numel(), *tensor.shape[1:], dtype=tensor.dtype) for tensor in (stored, values))
    count[:] = torch.tensor(counts)
    for batch, length in enumerate(counts):
        for place, number in enumerate(page[batch]):
            for tensor in (stored, values):
                tensor[number, max(0, length - place * keys) :] = math.nan
    sizes = dict(sizes) | {"P": page.numel()}
    inputs = (q, stored, values, page, count)
    case = DECODE.case("sm_90", sizes) if case is None else case
    parts = tuple(simulated(DECODE, lowered(DECODE, case), HOPPER, sizes, inputs))
    joined = COMBINE.complete({dim: sizes[dim] for dim in ("B", "H", "S", "M", "E")})
    (result,) = simulated(COMBINE, lowered(COMBINE, 0), HOPPER, joined, parts)
    assert result[0].eq(0).all()
    for batch, length in list(enumerate(counts))[1:]:
        k, v = (tensor[page[batch].long()].flatten(0, 1)[:length].double() for tensor in (stored, values))
        scores = torch.einsum("hmd,nhd->hmn", q[batch].double(), k) / math.sqrt(sizes["D"])
        exact = torch.einsum("hmn,nhe->hme", scores.softmax(-1), v)
        assert (result[batch].double() - exact).abs().max() < 0.02


def test_a_step_reads_the_number_of_each_page_once() -> None:
    """For keys and values, whatever rows of the page a lane copies; values come out of shared memory by matrices."""
    kernel = lowered(DECODE, OF_16_KEYS, "tile-to-thread")
    (loop,) = (op for op in kernel.walk() if op.name == "for")
    read = [
        op for op in loop.walk() if op.name == "load" and op["memory"] == "page" and op.results[0].name[:4] == "page"
    ]
    assert len(read) == 2
    assert all(op["elements"] == 8 for op in loop.walk() if op.name == "copy_async")
    assert not any(op.name == "load" and op["memory"].endswith(".shared") for op in loop.walk())
