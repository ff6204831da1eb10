"""Pairs of bf16 that one load brings become f32 by words."""

from __future__ import annotations

import pytest

from tests.kernels import subjects
from wavespec.pipeline import emit
from wavespec.targets.machine import machines


@pytest.mark.parametrize(("name", "by_words"), [("attention_biased_bias", True), ("attention_biased_bias_f16", False)])
def test_a_pair_is_shifted_and_masked(name: str, by_words: bool) -> None:
    """A bias for all queries, of which a lane has two neighbours of each eight keys."""
    subject = next(one for one in subjects("sm_90") if one.name == name)
    text = emit(subject.cases("sm_90")[1].spec, machines("sm_90")[0]).text
    assert ("vector<2xbf16> to i32" in text) == by_words
