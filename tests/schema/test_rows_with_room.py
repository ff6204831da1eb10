"""Taps of windows as rows further down: the spec that comes of a case, its results, what is refused, and the plan."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import SPECS
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.models import KernelSpec, Schedule
from wavespec.schema.load import load, loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.rows_with_room import ShiftNotPossible, with_room
from wavespec.sim.reference import reference

VOLUMES = """apiVersion: wavespec/v1
kind: Kernel
name: one
dims:
  N: {}
  D: {min: 1}
  H: {min: 1}
  W: {min: 1}
  C: {}
  O: {}
  Q: {value: %(q)d}
  R: {value: %(r)d}
  S: {value: %(s)d}
  OD: {min: 1, equals: D + 2 * PAD - Q + 1}
  OH: {min: 1, equals: H + 2 * PAD - R + 1}
  OW: {min: 1, equals: W + 2 * PAD - S + 1}
  M: {equals: N * OD * OH * OW}
  K: {equals: Q * R * S * C}
params: {PAD: %(pad)d, STEP: 1}
tensors:
  x: {shape: [N, D, H, W, C], dtype: bf16}
  w: {shape: [O, Q, R, S, C], dtype: bf16}
  y: {shape: [N, OD, OH, OW, O], dtype: f32, role: output}
let:
  image: M // size(OW) // size(OH) // size(OD)
  plane: M // size(OW) // size(OH) %% size(OD)
  row: M // size(OW) %% size(OH)
  column: M %% size(OW)
  tap: K // size(C)
graph:
  - zero: {register: [M, O], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - pixels:
            read: x
            dims: [M, K]
            at:
              N: image
              D: plane + tap // (size(R) * size(S)) - PAD
              H: row * STEP + tap // size(S) %% size(R) - PAD
              W: column + tap %% size(S) - PAD
              C: K %% size(C)
        - weights: {read: w, dims: [O, K], at: {Q: tap // (size(R) * size(S)), R: tap // size(S) %% size(R), S: tap %% size(S), C: K %% size(C)}}
        - acc: {mma: [pixels, weights, acc]}
  - {write: steps.acc, to: y, at: {N: image, OD: plane, OH: row, OW: column}}
"""


def volumes(*changes: tuple[str, str], q: int = 3, r: int = 3, s: int = 3, pad: int = 1) -> KernelSpec:
    text = VOLUMES % {"q": q, "r": r, "s": s, "pad": pad}
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text)


def shifted(spec: KernelSpec, channels: int = 8) -> KernelSpec:
    return with_room(spec.model_copy(update={"schedule": Schedule(shift={"M": channels})}))


def numbers(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 9, shape).double()


def test_rows_have_room_beside_lines_and_below_images() -> None:
    spec = shifted(volumes())
    text = dump_yaml(spec.model_copy(update={"targets": {}}))
    assert "  W_with_room: {min: 1, equals: W + 1}\n" in text and "  H_with_room: {min: 1, equals: H + 1}\n" in text
    assert "  M_with_room: {equals: D * N * H_with_room * W_with_room}\n" in text and "shift" not in text
    rows = "((M_with_room + K // 8 % 3) // size(W_with_room) + K // 8 // 3 % 3)"
    assert f"H: {rows} % size(H_with_room) + -1\n" in text
    assert "C: K // 8 // 3 // 3 // 3 * 8 + K % 8\n" in text
    assert "OW: M_with_room % size(W_with_room)\n" in text


@given(
    *(st.integers(1, 4) for _ in range(3)),
    st.integers(0, 2),
    *(st.integers(1, 5) for _ in range(3)),
    st.sampled_from([8, 16, 24]),
)
def test_sums_are_those_of_all_taps(q: int, r: int, s: int, pad: int, d: int, h: int, w: int, channels: int) -> None:
    if min(d + 2 * pad - q, h + 2 * pad - r, w + 2 * pad - s) < 0 or s < 2:
        return
    spec = shifted(volumes(q=q, r=r, s=s, pad=pad))
    x, taps = numbers(2, d, h, w, channels), numbers(3, q, r, s, channels)
    expected = F.conv3d(x.permute(0, 4, 1, 2, 3), taps.permute(0, 4, 1, 2, 3), padding=pad).permute(0, 2, 3, 4, 1)
    assert torch.equal(reference(spec, x, taps), expected)


@pytest.mark.parametrize(("h", "w"), [(1, 1), (3, 2), (2, 5)])
def test_taps_that_are_subtracted_go_the_other_way(h: int, w: int) -> None:
    """A transposed convolution, by residues."""
    file = SPECS.parent / "tests/specs/conv_transpose2d_taps.wave.yaml"
    text = file.read_text(encoding="utf-8").replace("{value: 3}", "{value: 4}").replace("MORE: 1", "MORE: 0")
    spec = shifted(loads(text), 16)
    x, taps = numbers(2, h, w, 32), numbers(3, 4, 4, 32)
    expected = F.conv_transpose2d(x.permute(0, 3, 1, 2), taps.permute(3, 0, 1, 2), stride=2, padding=1)
    assert torch.equal(reference(spec, x, taps), expected.permute(0, 2, 3, 1))


REFUSED = {
    "windows that move by two": ("W: column +", "W: column * 2 +"),
    "rows that are written from the other end": ("OW: column}}", "OW: size(OW) - 1 - column}}"),
    "rows that are written side by side": ("OH: row, OW: column", "OH: row, OW: column // 2"),
    "values of the places of rows": (
        "- acc: {mma: [pixels,",
        "- there: where(index(M) > 3, pixels, 0)\n        - acc: {mma: [there,",
    ),
}


@pytest.mark.parametrize("change", list(REFUSED.values()), ids=list(REFUSED))
def test_other_rows_are_refused(change: tuple[str, str]) -> None:
    with pytest.raises(ShiftNotPossible):
        shifted(volumes(change))


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ({"C": 64, "O": 64, "D": 8, "H": 28, "W": 28}, 1536),
        ({"C": 96, "O": 64, "D": 1, "H": 28, "W": 28}, 384),
        ({"C": 64, "O": 64, "D": 8, "H": 28, "W": 121}, 0),
        ({"C": 40, "O": 64, "D": 8, "H": 28, "W": 28}, 0),
    ],
)
def test_tile_registers_have_rows_with_room_for_lines_that_are_not_too_long(sizes: dict[str, int], tile: int) -> None:
    images = {"N": 1, **sizes}
    outer = images["D"] * images["H"] * images["W"]
    own = {"OD": images["D"], "OH": images["H"], "OW": images["W"], "M": outer, "K": 27 * images["C"]}
    cases = [
        one
        for one in cases_for_target(volumes(), "cpu")
        if one.case is None or not one.case.variants or "x86_64_amx" in one.case.variants
    ]
    found = case_for_sizes(cases, {**images, **own}).spec
    assert ("M_with_room" in found.dims) == (tile > 0)
    assert not tile or found.params["TILE_M"].evaluate({}) == tile


def test_numbers_of_32_bits_are_multiplied_where_they_are() -> None:
    spec = load(SPECS.parent / "benchmarks/specs/planned/convolution_3d.wave.yaml")
    assert not any("_with_room" in dim for one in cases_for_target(spec, "cpu") for dim in one.spec.dims), "of f32"
