"""What scores of attention are multiplied by: as a call says it, in every kernel; torch's where it says nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels import Subject, check_error, subjects, tensors_of
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.runtime.checks import ArgumentError
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines

ATTENTIONS = [one for one in subjects("sm_90") if "scale" in one.spec.scalars]


def test_all_attention_takes_a_scale() -> None:
    names = {one.file for one in subjects("sm_90") if one.name.startswith("attention")}
    without = {"attention_combine", "attention_combine_f16"}
    assert names - {one.file for one in ATTENTIONS} == without


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    "subject",
    [pytest.param(one, id=one.name, marks=[pytest.mark.rare] if one.is_alike else []) for one in ATTENTIONS],
)
def test_twice_the_scale_is_twice_the_queries(subject: Subject, target: str) -> None:
    """Bit by bit: powers of two change no digit."""
    sizes = subject.complete(subject.row.small[0])
    (machine,), (q, *others) = machines(target), subject.inputs(sizes)
    kernel = lower(subject.cases(target)[subject.case(target, sizes)].spec, machine)
    scale = 1 / math.sqrt(sizes["D"])
    by_scale = simulated(subject, kernel, machine, sizes, (q, *others), scale=2 * scale)
    if "alibi" in subject.name:  # Slopes are of scores that are scaled already.
        exact = tensors_of(reference(subject.spec, q, *others, scale=2 * scale))
        own = tensors_of(reference(subject.spec, q, *others, compute=None, scale=2 * scale))
        for name, one, right, theirs in zip(subject.written, by_scale, exact, own, strict=True):
            check_error(name, one, right, theirs)
        return
    for one, other in zip(by_scale, simulated(subject, kernel, machine, sizes, (2 * q, *others)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("scale", [None, 0.01, 0.7, 3.0, 1e-30, 1e30])
def test_the_reference_is_torchs(scale: float | None) -> None:
    (spec,) = (one.spec for one in subjects("cpu") if one.name == "attention")
    q, k, v = torch.randn(3, 2, 3, 11, 24, generator=torch.Generator().manual_seed(0)).bfloat16()
    said = {} if scale is None else {"scale": scale}
    right = scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=scale)
    torch.testing.assert_close(reference(spec, q, k, v, **said), right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_turn_scores_round_are_refused(scale: float) -> None:
    (spec,) = (one.spec for one in subjects("cpu") if one.name == "attention")
    q, k, v = torch.randn(3, 1, 1, 3, 8).bfloat16()
    with pytest.raises(ArgumentError, match=r"attention: argument 'scale' is .*, expected at "):
        reference(spec, q, k, v, scale=scale)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", ["attention_masked_causal", "attention_masked_window"])
def test_queries_without_keys_are_zero_whatever_the_scale(name: str, target: str) -> None:
    (subject,), (machine,) = [one for one in ATTENTIONS if one.name == name], machines(target)
    sizes = subject.complete({"B": 1, "H": 1, "M": 20, "N": 10, "D": 8, "E": 8})
    inputs = subject.inputs(sizes)
    kernel = lower(subject.cases(target)[subject.case(target, sizes)].spec, machine)
    for scale in (30.0, 1e30):
        (result,) = simulated(subject, kernel, machine, sizes, inputs, scale=scale)
        exact, own = (reference(subject.spec, *inputs, compute=of, scale=scale) for of in (torch.float64, None))
        assert not result[..., :10, :].any() and result[..., 10:, :].isfinite().all()
        check_error(name, result, exact, own)
