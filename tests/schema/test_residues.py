"""Sums of which a remainder leaves few terms are sums of those terms, and still the same sums."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import merged_node
from wavespec.schema.ops import Formula, every
from wavespec.schema.plans.planned import planned
from wavespec.schema.reading.yaml_source import yaml_to_nodes
from wavespec.schema.reading.yaml_to_spec import nodes_to_spec
from wavespec.schema.residues.by_residues import by_residues
from wavespec.sim.reference import reference

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\n"

FLAT = (
    HEAD
    + """
dims:
  N: {}
  H: {min: 1}
  W: {min: 1}
  C: {}
  O: {}
  R: {value: %(r)d}
  S: {value: %(s)d}
  OH: {equals: (H - 1) * DOWN - 2 * PAD + FAR * (R - 1) + 1 + MORE}
  OW: {equals: (W - 1) * RIGHT - 2 * PAD + FAR * (S - 1) + 1 + MORE}
  M: {equals: N * OH * OW}
  K: {equals: R * S * C}
params: {DOWN: %(down)d, RIGHT: %(right)d, PAD: %(pad)d, FAR: %(far)d, MORE: %(more)d}
tensors:
  x: {shape: [N, H, W, C], dtype: f32}
  w: {shape: [O, R, S, C], dtype: f32}
  y: {shape: [N, OH, OW, O], dtype: f32, role: output}
let: {r: K // size(C) // size(S), s: K // size(C) %% size(S)}
graph:
  - zero: {register: [M, O], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
%(pixels)s
        - taps: {read: w, dims: [O, K], at: {R: r, S: s, C: K %% size(C)}}
        - acc: {mma: [there, taps, acc]}
  - write: k_loop.acc
    to: y
    at: {N: M // size(OW) // size(OH), OH: M // size(OW) %% size(OH), OW: M %% size(OW)}
"""
)
"""A transposed convolution whose rows are all pixels, and whose sums are over all taps of all channels."""

CONDITIONS = """\
        - down: index(M) // OW % OH + PAD - index(K) // C // S * FAR
        - right: index(M) % OW + PAD - index(K) // C % S * FAR
        - pixels: {read: x, dims: [M, K], at: {N: M // size(OW) // size(OH), H: down // DOWN, W: right // RIGHT, C: K % size(C)}}
        - there: where((down % DOWN == 0) & (right % RIGHT == 0), pixels, 0)"""

PLACES = """\
        - down: index(M) // size(OW) % size(OH) + PAD - i32(index(K) // size(C) // size(S)) * FAR
        - right: index(M) % size(OW) + PAD - index(K) // size(C) % size(S) * FAR
        - h: where((down % DOWN == 0) & (down >= 0), down // DOWN, -1)
        - v: where((right % RIGHT == 0) & (right >= 0), right // RIGHT, -1)
        - there: {read: x, dims: [M, K], at: {N: M // (size(OH) * size(OW)), H: h, W: v, C: K % size(C)}}"""

MULTIPLES = """\
        - down: index(M) // OW % OH + PAD - index(K) // C // S * FAR
        - right: index(M) % OW + PAD - index(K) // C % S * FAR
        - h: down // DOWN
        - v: right // RIGHT
        - pixels: {read: x, dims: [M, K], at: {N: M // size(OW) // size(OH), H: h, W: v, C: K % size(C)}}
        - inside: (h >= 0) & (h < H) & (v >= 0) & (v < W)
        - there: where((h * DOWN == down) & (v * RIGHT == right) & inside, pixels, 0)"""

WINDOWS = (
    HEAD
    + """
dims:
  B: {}
  L: {min: 1}
  C: {}
  R: {%(size)s}
  T: {equals: (L - 1) * STEP - 2 * PAD + FAR * (R - 1) + 1 + MORE}
params: {STEP: %(step)d, PAD: %(pad)d, FAR: %(far)d, MORE: %(more)d}
tensors:
  x: {shape: [B, L, C], dtype: f32}
  h: {shape: [R, C], dtype: f32}
  y: {shape: [B, T, C], dtype: f32, role: output}
graph:
  - near: {read: x, dims: [B, T, R, C], at: {L: (T + PAD - R * FAR) // STEP}}
  - there: where((index(T) + PAD - index(R) * FAR) %% STEP == 0, near, 0)
  - taps: {read: h}
  - product: there * taps
  - total: {sum: product, dim: R}
  - {write: total, to: y}
"""
)
"""A filter that samples up, of each channel by itself."""


def as_written(text: str) -> KernelSpec:
    """The spec before anything is made of it."""
    node, errors = yaml_to_nodes(text, "one")
    spec = nodes_to_spec(merged_node(node, "one", None, errors)).spec
    assert spec is not None and not errors
    return spec


def flat(
    down: int = 2,
    right: int = 2,
    r: int = 4,
    s: int = 4,
    pad: int = 1,
    far: int = 1,
    more: int = 0,
    pixels: str = CONDITIONS,
) -> KernelSpec:
    text = FLAT % {"down": down, "right": right, "r": r, "s": s, "pad": pad, "far": far, "more": more, "pixels": pixels}
    return as_written(text)


def windows(step: int, size: str = "max: 9", pad: int = 0, far: int = 1, more: int = 0) -> KernelSpec:
    return as_written(WINDOWS % {"step": step, "size": size, "pad": pad, "far": far, "more": more})


def numbers(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 9, shape).double()


@pytest.mark.parametrize("pixels", [CONDITIONS, PLACES, MULTIPLES])
def test_taps_of_a_residue_are_those_that_meet_pixels(pixels: str) -> None:
    found = by_residues(flat(pixels=pixels))
    assert not list(every(Formula, found.graph))


@given(
    st.sampled_from([CONDITIONS, PLACES, MULTIPLES]),
    *(st.integers(1, 4) for _ in range(5)),
    st.integers(0, 2),
    *(st.integers(1, 5) for _ in range(4)),
    st.integers(0, 1),
)
def test_transposed_convolutions(
    pixels: str, down: int, right: int, r: int, s: int, far: int, pad: int, h: int, w: int, c: int, o: int, more: int
) -> None:
    more = min(more, max(down, far) - 1, max(right, far) - 1)
    sides = [(h - 1) * down - 2 * pad + far * (r - 1) + 1 + more, (w - 1) * right - 2 * pad + far * (s - 1) + 1 + more]
    if min(sides) < 1:
        return
    spec = by_residues(flat(down, right, r, s, pad, far, more, pixels))
    x, taps = numbers(2, h, w, c), numbers(o, r, s, c)
    expected = F.conv_transpose2d(
        x.permute(0, 3, 1, 2),
        taps.permute(3, 0, 1, 2),
        stride=(down, right),
        padding=pad,
        dilation=far,
        output_padding=more,
    )
    assert torch.equal(reference(planned(spec), x, taps), expected.permute(0, 2, 3, 1))
    if down > 1 and math.gcd(down, far) == 1 and r > 1:
        assert "OH_residue" in spec.dims


@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
)
def test_filters_that_sample_up(
    step: int, size: int, far: int, pad: int, length: int, channels: int, is_fixed: bool
) -> None:
    if (length - 1) * step - 2 * pad + far * (size - 1) < 0:
        return
    spec = by_residues(windows(step, f"value: {size}" if is_fixed else "max: 9", pad, far))
    x, taps = numbers(2, length, channels), numbers(size, channels)
    expected = F.conv_transpose1d(x.mT, taps.mT[:, None], stride=step, padding=pad, dilation=far, groups=channels).mT
    assert torch.equal(reference(planned(spec), x, taps), expected)
    if step > 1 and math.gcd(step, far) == 1 and (size > 1 or not is_fixed):
        assert "T_residue" in spec.dims


PRODUCT = (
    HEAD
    + """
dims: {B: {}, L: {min: 1}, C: {}, O: {}, R: {value: 5}, T: {equals: 3 * L}, K: {equals: C * R}}
tensors:
  x: {shape: [B, C, L], dtype: f32}
  w: {shape: [O, K], dtype: f32}
  bias: {shape: [O], dtype: f32}
  y: {shape: [B, T, O], dtype: f32, role: output}
graph:
  - zero: {register: [B, T, O], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - place: index(T) + 1 - index(K) % R
        - pixels: {read: x, dims: [B, T, K], at: {C: K // size(R), L: place // 3}}
        - there: where(place % 3 == 0, pixels, 0)
        - taps: {read: w}
        - acc: {mma: [there, taps, acc]}
  - added: {read: bias}
  - total: steps.acc + added
  - {write: total, to: y}
"""
)
"""A product whose results have dims of their own, with weights that lie as they are summed up, and more behind it."""


@pytest.mark.parametrize("length", [1, 4])
def test_terms_of_rows_that_lie_as_they_are_summed_up(length: int) -> None:
    spec = by_residues(as_written(PRODUCT))
    assert str(spec.dims["T_quotient"].equals) == "L" and str(spec.dims["K_quotient"].equals) == "2 * C"
    x, w, bias = numbers(2, 3, length), numbers(4, 15), numbers(4)
    expected = F.conv_transpose1d(x, w.reshape(4, 3, 5).permute(1, 0, 2), bias, stride=3, padding=1)
    assert torch.equal(reference(planned(spec), x, w, bias), expected.mT)


REFUSED = {
    "a sum of other terms as well": ("there * taps", "there * taps + near"),
    "no sum": ("{sum: product", "{max: product"),
    "a mean, which is divided by all": ("{sum: product", "{mean: product"),
    "another number than 0": ("STEP == 0, near, 0)", "STEP == 0, near, 1)"),
    "a remainder that no term meets": ("STEP == 0", "STEP == 3"),
    "other remainders": ("STEP == 0", "STEP < 1"),
    "a remainder of results alone": ("index(T) + PAD - index(R) * FAR) % STEP", "index(T) + PAD) % STEP"),
    "what elements before have made": (
        "- product: there * taps",
        "- before: {cumsum: there, dim: T}\n  - product: before * taps",
    ),
}


@pytest.mark.parametrize("old, new", REFUSED.values(), ids=REFUSED)
def test_other_sums_stay_as_they_are(old: str, new: str) -> None:
    text = WINDOWS % {"step": 3, "size": "max: 9", "pad": 0, "far": 1, "more": 0}
    assert old in text
    spec = as_written(text.replace(old, new))
    assert by_residues(spec) is spec


def test_terms_that_there_are_not_let_no_infinity_show() -> None:
    spec = planned(by_residues(windows(2, "value: 3", pad=1)))
    x, taps = torch.zeros(1, 4, 1).double(), torch.ones(3, 1).double()
    x[0, 2] = math.inf
    assert reference(spec, x, taps).flatten().tolist() == [0, 0, 0, math.inf, math.inf, math.inf, 0]
