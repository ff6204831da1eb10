"""Depth-wise convolutions with steps, padding and dilation, of which windows of a lane share more or fewer pixels: exact on
whole numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from tests.bare import planned_anew
from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import KernelSpec
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

SPEC = load(SPECS / "conv2d_depthwise.wave.yaml")


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("windows", [(2, 1, 1), (3, 0, 1), (1, 2, 2), (4, 1, 1)], ids=str)
def test_windows_are_exact(target: str, windows: tuple[int, int, int]) -> None:
    check(_with_windows(SPEC, windows), target, windows)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_windows_without_a_plan_are_exact(target: str) -> None:
    check(planned_anew(_with_windows(SPEC, (1, 2, 2))), target, (1, 2, 2))


@pytest.mark.parametrize(("taps", "columns"), [(5, 6), (5, 19), (7, 5), (7, 19)])
def test_rows_of_taps_are_exact(taps: int, columns: int) -> None:
    windows = (1, taps // 2, 1)
    check(_with_windows(SPEC, windows), "sm_90", windows, taps, columns)


def _with_windows(spec: KernelSpec, windows: tuple[int, int, int]) -> KernelSpec:
    params = {**spec.params, **dict(zip(("STRIDE", "PAD", "DILATION"), map(Num, windows), strict=True))}
    return spec.model_copy(update={"params": params})


def check(spec: KernelSpec, target: str, windows: tuple[int, int, int], taps: int = 3, columns: int = 9) -> None:
    stride, padding, dilation = windows
    (machine,) = machines(target)
    random = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, (1, 7, columns, 12), generator=random).bfloat16()
    w = torch.randint(-3, 4, (12, taps, taps), generator=random).bfloat16()
    exact = functional.conv2d(
        x.double().permute(0, 3, 1, 2), w.double()[:, None], None, stride, padding, dilation, groups=12
    ).permute(0, 2, 3, 1)
    sizes = dict(zip(("N", "H", "W", "C", "R", "S"), (*x.shape, taps, taps), strict=True))
    sizes |= {"OH": exact.shape[1], "OW": exact.shape[2]}
    kernel = lower(case_for_sizes(cases_for_target(spec, target), sizes).spec, machine)
    report = simulate(kernel, machine, {"x": tensor_to_elements(x, "bf16"), "w": tensor_to_elements(w, "bf16")}, sizes)
    assert report.ok, report.render()
    assert torch.equal(elements_to_tensor(report.tensors["y"], "bf16").reshape(exact.shape), exact.bfloat16())
