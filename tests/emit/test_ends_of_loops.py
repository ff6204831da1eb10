"""Ends of loops of products: counters take 32 bits where places do, and all lanes of a wave have them together."""

from __future__ import annotations

import re

from tests.emit.test_hopper import NVIDIA
from tests.sim.test_issue_in_turn import PERSISTENT
from tests.sim.test_read_beside import BIASED, ENDED
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.pipeline import lower
from wavespec.schema import loads

WINDOW = ENDED.replace("end: end(M)", "start: start(M) + T - M - 100\n      end: end(M)")
"""Steps begin at a place that takes 64 bits until it is compared with 0."""


def text_of(spec: str) -> str:
    return thread_to_mlir(lower(loads(spec.replace("SCHEDULE", PERSISTENT)), NVIDIA), NVIDIA, "#layout").text


def loops_of(text: str) -> list[tuple[str, str, str]]:
    """Where loops over steps begin and end, and the type of their counters."""
    return re.findall(r"scf\.for %\w+ = (%\w+) to (%\w+) step .*: (i\d+) \{", text)


def test_ends_that_take_64_bits_are_of_the_wave() -> None:
    text = text_of(WINDOW)
    same = set(re.findall(r"(%\w+) = nvvm\.redux\.sync and ", text))
    loops = [(lower, upper) for lower, upper, _ in loops_of(text) if {lower, upper} & same]
    assert loops and all({lower, upper} <= same for lower, upper in loops), "of a loop of products both are"
    assert {bits for _, _, bits in loops_of(text)} == {"i32"}


def test_an_end_is_made_so_once() -> None:
    joined = re.findall(r"nvvm\.redux\.sync and (%\w+),", text_of(WINDOW))
    assert len(joined) == len(set(joined)) < 2 * len(loops_of(text_of(WINDOW)))


def test_ends_that_take_32_bits_are_as_they_were() -> None:
    for spec in (BIASED, ENDED):
        assert "redux" not in text_of(spec)
