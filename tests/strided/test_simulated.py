"""Kernels for GPUs, on views of larger arrays: right, without a race or an access beside the elements of a view."""

from __future__ import annotations

import pytest

from tests.strided.views import VIEWS, Views
from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import BULK_COPY, LOAD
from wavespec.pipeline import lower
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TARGETS = ("sm_90", "gfx942", "gfx950")


def kernel_of(views: Views, target: str) -> Kernel:
    return lower(views.case(target, views.arrays()).spec, machines(target)[0])


@pytest.mark.parametrize("views", VIEWS, ids=lambda views: views.name)
@pytest.mark.parametrize("target", TARGETS)
def test_views_are_read_and_written_where_they_are(target: str, views: Views) -> None:
    arrays, machine = views.arrays(), machines(target)[0]
    sizes = views.sizes(arrays)
    report = simulate(
        kernel_of(views, target), machine, arrays, sizes, scalars=numbers_of_scalars(views.spec, sizes, {})
    )
    assert report.findings == ()
    views.check(arrays, report.tensors)


def _widths(kernel: Kernel) -> set[int]:
    loads = (op for op in kernel.walk() if op.is_(LOAD) and kernel.memory(op["memory"]).is_strided)
    return {op.result.vector.elements for op in loads}


_PRODUCTS = [
    views for views in VIEWS if views.spec_name in ("attention_views", "products_of_views", "products_of_rows")
]


@pytest.mark.parametrize("views", _PRODUCTS, ids=lambda views: views.name)
@pytest.mark.parametrize("target", TARGETS)
def test_alignment_of_a_call_chooses_wide_accesses(target: str, views: Views) -> None:
    kernel = kernel_of(views, target)
    is_copied = any(op.is_(BULK_COPY) for op in kernel.walk())
    assert is_copied == (target == "sm_90" and views.is_aligned)
    assert is_copied or (max(_widths(kernel), default=8) == 8) == views.is_aligned
