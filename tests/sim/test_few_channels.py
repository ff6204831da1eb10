"""Convolutions of a few channels, whose taps side by side are one load: exact on whole numbers, on every CPU, and blind to
what is beside a window."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as functional

from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from wavespec.cases_on_machines import cases_on
from wavespec.ir.thread_ops import LOAD
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes
from wavespec.schema.language.expressions import Num
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

VARIANTS = ("x86_64_amx", "x86_64_v4_bf16", "x86_64_v3", "aarch64_v8_2")
TORCH = {"conv2d_nhwc": torch.bfloat16, "conv2d_nhwc_f32": torch.float32}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize(
    ("stride", "padding", "images", "taps"),
    [
        (2, 3, (1, 9, 11, 3), (7, 7)),  # the first layer of ResNet-50
        (1, 1, (2, 4, 5, 2), (3, 3)),
        (4, 0, (1, 8, 8, 3), (4, 4)),  # patches
        (1, 2, (1, 3, 2, 1), (2, 5)),  # windows wider than the image
        (2, 3, (1, 3, 97, 3), (7, 7)),  # lines that tiles inside of read where they are
        (9, 0, (1, 8, 440, 3), (8, 8)),
        (3, 5, (1, 5, 4, 3), (4, 12)),  # lines of more than one vector
    ],
)
def test_sums_are_exact(
    name: str, variant: str, stride: int, padding: int, images: tuple[int, int, int, int], taps: tuple[int, int]
) -> None:
    (machine,) = machines(f"cpu:{variant}")
    spec = load(SPECS / f"{name}.wave.yaml")
    spec = spec.model_copy(update={"params": {**spec.params, "STRIDE": Num(stride), "PAD": Num(padding)}})
    sizes = complete_sizes(spec, dict(zip("NHWCORS", (*images, 5, *taps), strict=True)))
    case = case_for_sizes(cases_on(spec, "cpu", [machine]), sizes)
    assert case.spec.params["LINES"] == Num(1)
    sizes = complete_sizes(case.spec, dict(zip("NHWCORS", (*images, 5, *taps), strict=True)))
    random, dtype = torch.Generator().manual_seed(0), TORCH[name]
    x = torch.randint(-3, 4, images, generator=random).to(dtype)
    w = torch.randint(-3, 4, (5, *taps, images[3]), generator=random).to(dtype)
    if stride > taps[1] - 1 and padding == 0:
        x[..., -1, -1, 0] = math.inf
    given = x.double().permute(0, 3, 1, 2), w.double().permute(0, 3, 1, 2)
    exact = functional.conv2d(*given, stride=stride, padding=padding).permute(0, 2, 3, 1)
    kind = "bf16" if dtype is torch.bfloat16 else "f32"
    arrays = {"x": tensor_to_elements(x, kind), "w": tensor_to_elements(w, kind)}
    report = simulate(lower(case.spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    actual = elements_to_tensor(report.tensors["y"], kind).reshape(exact.shape)
    assert torch.equal(actual.nan_to_num(7e9), exact.to(dtype).nan_to_num(7e9))


def test_a_line_of_taps_is_one_load_with_an_end_of_its_own() -> None:
    (machine,) = machines("cpu:x86_64_amx")
    spec = load(SPECS / "conv2d_nhwc.wave.yaml")
    sizes = complete_sizes(spec, {"N": 1, "H": 224, "W": 224, "C": 3, "O": 64, "R": 7, "S": 7})
    kernel = lower(case_for_sizes(cases_on(spec, "cpu", [machine]), sizes).spec, machine)
    pixels = [op for op in kernel.walk() if op.is_(LOAD) and op["memory"] == "x"]
    assert {op.result.vector.elements for op in pixels} == {32}
    assert len([op for op in pixels if op.get("front") is None]) == len(pixels) // 2
