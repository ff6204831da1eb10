"""Convolutions whose input the machine copies in windows: every case, in the simulator, exact on whole numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as functional
import yaml

from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import BULK_COPY
from wavespec.pipeline import emit_variant, join_cases, lower
from wavespec.runtime.checks import ArgumentError, check_inputs
from wavespec.schema import load, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.expressions import Num
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
SPEC = load(SPECS / "conv2d_nhwc.wave.yaml")
Windows = tuple[int, int, int]
"""Stride, padding and dilation."""


def cases(windows: Windows) -> tuple[TargetCase, ...]:
    params = {**SPEC.params, **dict(zip(("STRIDE", "PAD", "DILATION"), map(Num, windows), strict=True))}
    found = cases_for_target(SPEC.model_copy(update={"params": params}), "sm_90")
    return tuple(case for case in found if case.spec.params["SHIFTED"] == Num(0) and not case.before)


def shifted_cases(padding: int, chunk: int) -> list[TargetCase]:
    """Those with rows that are one further on each time, by how many channels lie side by side."""
    found = cases_for_target(SPEC.model_copy(update={"params": {**SPEC.params, "PAD": Num(padding)}}), "sm_90")
    wanted = {"SHIFTED": Num(1), "CHUNK": Num(chunk)}
    return [case for case in found if wanted.items() <= case.spec.params.items()]


def with_taps_of_rows(padding: int, number: int = 0) -> Kernel:
    """A case in which the taps of a row read what is staged once: of few filters, and of long rows."""
    few, many = shifted_cases(padding, 64)
    return lower((few, many)[number].spec, HOPPER)


@cache
def lowered(number: int, windows: Windows) -> Kernel:
    return lower(cases(windows)[number].spec, HOPPER)


WITH_WINDOWS = [
    number for number, case in enumerate(cases((1, 1, 1))) if case.spec.schedule and case.spec.schedule.waves.producers
]


def run(
    kernel: Kernel, windows: Windows, images: tuple[int, int, int, int], filters: tuple[int, int, int]
) -> tuple[SimulationReport, torch.Tensor, torch.Tensor]:
    """The report, the result, and what it should be; ``images`` as N, H, W, C and ``filters`` as O, R, S."""
    stride, padding, dilation = windows
    random = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, images, generator=random).bfloat16()
    w = torch.randint(-3, 4, (*filters, images[3]), generator=random).bfloat16()
    exact = functional.conv2d(
        x.double().permute(0, 3, 1, 2),
        w.double().permute(0, 3, 1, 2),
        stride=stride,
        padding=padding,
        dilation=dilation,
    ).permute(0, 2, 3, 1)
    sizes = dict(zip("NHWCORS", (*images, *filters), strict=True))
    sizes |= {"OH": exact.shape[1], "OW": exact.shape[2]}
    line = math.gcd(kernel.symbol("K").args[3], 64)
    filled = -(-images[3] // line) * line  # channels, and zeros behind the last one
    sizes |= {"M": exact[..., 0].numel(), "K": math.prod(filters[1:]) * filled}
    sizes |= {"L": filled} if any(dim == "L" for dim, _ in kernel.sizes) else {}
    if any(dim == "P" for dim, _ in kernel.sizes):
        sizes["P"] = exact.shape[2] + max(0, filters[2] - 1 - padding)
        sizes["M"] = exact.shape[0] * exact.shape[1] * sizes["P"]
    arrays = {"x": tensor_to_elements(x, "bf16"), "w": tensor_to_elements(w, "bf16")}
    report = simulate(kernel, HOPPER, arrays, sizes)
    return report, elements_to_tensor(report.tensors["y"], "bf16").reshape(exact.shape), exact.bfloat16()


LAYERS = {
    "3x3": ((1, 1, 1), (2, 7, 9, 1), (37, 3, 3)),
    "stride": ((2, 1, 1), (3, 11, 8, 1), (71, 3, 3)),
    "dilation": ((1, 2, 2), (1, 13, 12, 1), (21, 3, 3)),
    "1x1": ((1, 0, 1), (5, 7, 7, 3), (133, 1, 1)),
    "5x3": ((2, 3, 3), (1, 17, 20, 1), (5, 5, 3)),
}
EVERY_CASE = [(number, list(LAYERS)[number % len(LAYERS)]) for number in WITH_WINDOWS]
EVERY_LAYER = [(WITH_WINDOWS[-1], layer) for layer in LAYERS]
OTHERS = [(number, layer) for number in WITH_WINDOWS for layer in LAYERS]


@pytest.mark.parametrize(
    ("number", "layer"),
    [
        *dict.fromkeys((*EVERY_CASE, *EVERY_LAYER)),
        *(pytest.param(*one, marks=pytest.mark.rare) for one in OTHERS if one not in (*EVERY_CASE, *EVERY_LAYER)),
    ],
)
def test_every_case_is_exact_without_a_race(number: int, layer: str) -> None:
    """As many filters as the case takes; channels are given in steps of the loop, the last of which is not whole."""
    windows, images, filters = LAYERS[layer]
    kernel = lowered(number, windows)
    (step,) = (split.tile for split in kernel.distribution.loops)
    _, least, most, multiple = kernel.symbol("O").args
    count = -(-max(min(filters[0], most), least) // multiple) * multiple
    channels = min(images[3] * step - 8 * (number % 3), kernel.symbol("C").args[2])
    report, result, expected = run(kernel, windows, (*images[:3], channels), (count, *filters[1:]))
    assert report.ok, report.render()
    assert torch.equal(result, expected)


@pytest.mark.parametrize("padding", [0, 1, 3])
@pytest.mark.parametrize("images", [(2, 7, 9, 64), (1, 3, 71, 104), (3, 4, 3, 136)])
def test_taps_of_a_row_are_exact_and_stored_where_there_are_pixels(
    padding: int, images: tuple[int, int, int, int]
) -> None:
    """Lines shorter and longer than a slab, and a tile of several images."""
    kernel = with_taps_of_rows(padding)
    report, result, expected = run(kernel, (1, padding, 1), images, (40, 3, 3))
    assert report.ok, report.render()
    assert torch.equal(result, expected)
    (pixels,) = {op["box"] for op in kernel.walk() if op.is_(BULK_COPY) and op.get("windows")}
    assert pixels == (136, 64), "128 rows and two shifts, in whole periods of the swizzle"


def test_taps_of_long_rows_are_exact() -> None:
    kernel = with_taps_of_rows(1, 1)
    report, result, expected = run(kernel, (1, 1, 1), (1, 3, 66, 64), (128, 3, 3))
    assert report.ok, report.render()
    assert torch.equal(result, expected)


POINTWISE = shifted_cases(0, 1)


def test_filters_of_one_pixel_have_cases_only_where_no_pixel_is_left_out() -> None:
    assert len(POINTWISE) == 9 and not shifted_cases(1, 1)


@pytest.mark.parametrize("number", range(len(POINTWISE)))
def test_filters_of_one_pixel_multiply_rows_of_a_matrix(number: int) -> None:
    """Boxes of rows, which need no place in an image; the last ones are not there, nor the last filters."""
    kernel = lower(POINTWISE[number].spec, HOPPER)
    assert not any(op.get("windows") for op in kernel.walk())
    _, least, most, multiple = kernel.symbol("O").args
    filters = max(least, multiple * (min(most, 200) // multiple))
    report, result, expected = run(kernel, (1, 0, 1), (5, 7, 7, 120), (filters, 1, 1))
    assert report.ok, report.render()
    assert torch.equal(result, expected)


@pytest.mark.parametrize("first", [-2, 0])
def test_windows_that_start_one_element_off_are_found(first: int) -> None:
    """The simulator walks over windows as the machine does, and so tells kernels with wrong ones apart."""
    kernel = lowered(WITH_WINDOWS[-1], (1, 1, 1))

    def change(op: Op) -> tuple[Op, ...]:
        if not op.is_(BULK_COPY) or not op.get("windows"):
            return (op,)
        (_, *rest), other = op["windows"]
        return (op.with_(windows=((first, *rest), other)),)

    wrong = replace(kernel, body=rewrite(kernel.body, change))
    _, result, expected = run(wrong, (1, 1, 1), (2, 7, 9, 64), (37, 3, 3))
    assert not torch.equal(result, expected)


def test_workgroups_of_a_cluster_copy_each_window_once() -> None:
    """Where they have other filters: each copies a part of the rows, for both."""
    text = yaml.safe_load(dump_yaml(cases((2, 1, 1))[WITH_WINDOWS[-1]].spec))
    text["dims"] |= {dim: {**text["dims"][dim], "multiple_of": 64} for dim in "CK"}
    text["constraints"] = [
        {"workgroup": "O", "tile": 64, "axis": 0},
        {"workgroup": "M", "tile": 128, "axis": 1},
        {"tiling": "K", "tile": 64},
        {"wave": "M", "tile": 64},
        {"wave": "O", "tile": 64},
    ]
    for cluster in (1, 2):
        text["schedule"] |= {"workgroups": {"persistent": True, "cluster": cluster}, "stages": 3}
        kernel = lower(loads(yaml.safe_dump(text)), HOPPER)
        report, result, expected = run(kernel, (2, 1, 1), (2, 17, 15, 64), (128, 3, 3))
        assert report.ok, report.render()
        assert torch.equal(result, expected)
        boxes = {op["box"][0] for op in kernel.walk() if op.get("windows")}
        assert boxes == {128 // cluster}


def test_calls_whose_windows_the_machine_does_not_reach_are_of_the_kernel_whose_lanes_copy() -> None:
    """Instructions have eight bits for the place of an element in its window, and for where windows end: they would
    take another element in silence, and the driver makes no tensor map."""
    every = cases((1, 1, 3))
    chosen = [every[WITH_WINDOWS[1]], every[-1]]
    artifact = join_cases(chosen, [[emit_variant(case.spec, HOPPER)] for case in chosen])

    def member(images: tuple[int, int, int, int], filters: tuple[int, int, int]) -> int:
        x, w = (torch.zeros(shape, dtype=torch.bfloat16, device="meta") for shape in (images, (*filters, images[3])))
        return artifact.member_for(check_inputs(artifact, (x, w)))

    assert [member((1, 300, 300, 64), (8, rows, 3)) for rows in (3, 44, 45, 86, 87)] == [0, 0, 1, 1, 1]
    assert [member((1, 300, 300, 64), (8, 3, columns)) for columns in (3, 44, 45)] == [0, 0, 1]


def test_a_kernel_without_another_refuses_windows_that_the_machine_does_not_reach() -> None:
    case = cases((1, 128, 1))[WITH_WINDOWS[1]]
    artifact = emit_variant(case.spec, HOPPER)
    x, w = (torch.zeros(shape, dtype=torch.bfloat16, device="meta") for shape in ((1, 9, 9, 64), (8, 257, 3, 64)))
    with pytest.raises(ArgumentError, match="assumes windows of 'x' that have elements at most 255 behind their start"):
        check_inputs(artifact, (x, w))


@pytest.mark.parametrize("filters", [40, 136])
def test_filters_of_one_pixel_multiply_each_image(filters: int) -> None:
    """Rows of boxes are channels of filters: their last dims have one element."""
    spec = load(SPECS / "conv2d_nchw.wave.yaml")
    spec = spec.model_copy(update={"params": {**spec.params, "PAD": Num(0)}})
    sizes = {"N": 2, "H": 4, "W": 6, "C": 40, "O": filters, "R": 1, "S": 1}
    case = case_for_sizes(cases_for_target(spec, "sm_90"), complete_sizes(spec, sizes))
    assert case.spec.params["EACH"] == Num(1)
    random = torch.Generator().manual_seed(0)
    shapes = (2, 40, 4, 6), (filters, 40, 1, 1)
    x, w = (torch.randint(-3, 4, shape, generator=random).bfloat16() for shape in shapes)
    arrays = {"x": tensor_to_elements(x, "bf16"), "w": tensor_to_elements(w, "bf16")}
    report = simulate(lower(case.spec, HOPPER), HOPPER, arrays, complete_sizes(case.spec, sizes))
    assert report.ok, report.render()
    exact = functional.conv2d(x.double(), w.double()).bfloat16()
    assert torch.equal(elements_to_tensor(report.tensors["y"], "bf16").reshape(exact.shape), exact)
