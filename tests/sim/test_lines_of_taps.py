"""Convolutions in tile registers, whose taps of all lines read pixels that are staged once: exact on whole numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from tests.kernels import SPECS, elements_to_tensor, tensor_to_elements
from wavespec.cases_on_machines import cases_on
from wavespec.ir.tile_ops import READ
from wavespec.ops.index_map import index_of
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase
from wavespec.schema.language.expressions import Num
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

AMX = machines("cpu")[0]


DENSE = load(SPECS / "conv2d_nhwc.wave.yaml")


def with_lines(spec: KernelSpec) -> list[TargetCase]:
    """The cases whose rows are shifted by taps below each other as well."""
    return [case for case in cases_on(spec, "cpu", [AMX]) if case.spec.params["PLANES"] != Num(0)]


@pytest.mark.parametrize(("padding", "images"), [(0, (2, 5, 7, 64)), (2, (3, 4, 3, 64)), (1, (1, 2, 33, 128))])
def test_taps_of_all_lines_are_exact(padding: int, images: tuple[int, int, int, int]) -> None:
    """Rows of images shorter and longer than a tile, and a tile of several images."""
    spec = DENSE.model_copy(update={"params": {**DENSE.params, "PAD": Num(padding)}})
    case = with_lines(spec)[2 if images[3] == 64 else -1]
    kernel = lower(case.spec, AMX)
    random = torch.Generator().manual_seed(0)
    x = torch.randint(-3, 4, images, generator=random).bfloat16()
    w = torch.randint(-3, 4, (5, 3, 3, images[3]), generator=random).bfloat16()
    exact = functional.conv2d(x.double().permute(0, 3, 1, 2), w.double().permute(0, 3, 1, 2), padding=padding)
    exact = exact.permute(0, 2, 3, 1)
    sizes = dict(zip("NHWCORS", (*images, 5, 3, 3), strict=True))
    sizes |= {"OH": exact.shape[1], "OW": exact.shape[2], "K": 9 * images[3]}
    sizes |= {"P": exact.shape[2] + max(0, 2 - padding), "Y": exact.shape[1] + max(0, 2 - padding)}
    sizes["M"] = images[0] * sizes["Y"] * sizes["P"]
    arrays = {"x": tensor_to_elements(x, "bf16"), "w": tensor_to_elements(w, "bf16")}
    report = simulate(kernel, AMX, arrays, sizes)
    assert report.ok, report.render()
    actual = elements_to_tensor(report.tensors["y"], "bf16").reshape(exact.shape)
    assert torch.equal(actual, exact.bfloat16())


def test_tiles_begin_further_down_for_each_line_of_taps() -> None:
    kernel = lower(with_lines(DENSE)[0].spec, AMX, after="promote-shared")
    (read,) = [op for op in kernel.walk() if op.is_(READ) and op.get("further")]
    (place,) = read["further"]
    width, depth = kernel.symbol("P"), index_of("K")
    assert place == ("M", depth // 64 % 3 + depth // 192 % 3 * width)


def test_kernels_of_types_that_the_instruction_does_not_take_have_no_such_case() -> None:
    text = (SPECS / "conv2d_grouped.wave.yaml").read_text(encoding="utf-8")
    both = [loads(text.replace("[bf16, f16]", f"[{one}]"), "grouped.wave.yaml", SPECS) for one in ("bf16", "f16")]
    assert [len(with_lines(spec)) for spec in both] == [1, 0]


def test_lines_that_may_be_longer_than_a_tile_are_staged_by_themselves() -> None:
    text = (SPECS / "conv2d_nhwc.wave.yaml").read_text(encoding="utf-8")
    for bound in ("", ", OW <= 4000"):
        case = with_lines(loads(text.replace(", OW <= 120", bound), "conv2d_nhwc.wave.yaml", SPECS))[0]
        kernel = lower(case.spec, AMX, after="promote-shared")
        (pixels,) = [memory for memory in kernel.memories if memory.name == "pixels.shared"]
        assert pixels.shape[0].value < 1600 and not any(op.get("further") for op in kernel.walk() if op.is_(READ))
