"""What is planted into a machine is found: results that are wrong, code that is refused, crashes; each with its spec."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
from torch import Tensor

from tests.fuzz import judge_variations, run_variations
from tests.fuzz.judge_variations import Finding, Verdict, judge_variation
from tests.fuzz.run_variations import Run
from tests.fuzz.search_variations import search_variations
from tests.kernels import KERNELS, Sizes, Subject
from wavespec.diagnostics import WavespecError
from wavespec.runtime.artifact import KernelArtifact
from wavespec.schema import loads

SEED, TRANSPOSE = 73, 20
"""The number of a kernel that is soon computed, on a CPU and on sm_90."""


@pytest.fixture(autouse=True)
def _as_drawn() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Making a spec smaller takes a minute."""

    def as_it_is(text: str, *_: object) -> str:
        return text

    with mock.patch.object(judge_variations, "smaller", as_it_is):
        yield


def _planted(module: Any, name: str, work: Callable[..., Any]) -> Verdict:
    with mock.patch.object(module, name, work):
        return judge_variation(SEED, TRANSPOSE)


def _only(verdict: Verdict) -> Finding:
    (found,) = verdict.findings
    assert loads(found.text, "found.wave.yaml").name == verdict.name
    return found


def test_all_calls_are_compared() -> None:
    verdict = judge_variation(SEED, TRANSPOSE)
    assert verdict.findings == [] and verdict.ran == {"cpu", "sm_90"}
    assert verdict.calls == {"cpu": 3, "sm_90": 3}


def test_a_wrong_result_is_found_on_its_machine() -> None:
    right = run_variations.run_on_cpu

    def wrong(built: KernelArtifact) -> Run:
        run = right(built)

        def run_wrong(sizes: Sizes, inputs: Sequence[Tensor]) -> list[Tensor]:
            return [one + 1 for one in run(sizes, inputs)]

        return run_wrong

    verdict = _planted(judge_variations, "run_on_cpu", wrong)
    found = _only(verdict)
    assert found.kind == "wrong" and "(cpu), {" in found.where, found
    assert verdict.calls == {"sm_90": 3} and verdict.ran == {"sm_90"}


def test_what_is_checked_and_not_built_is_found() -> None:
    def refuse(*_: object, **__: object) -> Sequence[Any]:
        loads("kind: Nothing\n", "refused.wave.yaml")
        raise AssertionError("it has mistakes")

    assert _only(_planted(run_variations, "module_to_binaries", refuse)).kind == "accepted, then refused"


def test_a_call_that_is_refused_is_found() -> None:
    def call(self: object, *_: object) -> None:
        raise ValueError("no such size")

    found = _only(_planted(run_variations.Kernel, "__call__", call))
    assert found.kind == "accepted, then refused" and "no such size" in found.message


def test_a_crash_of_a_pass_is_found() -> None:
    def crash(*_: object) -> None:
        raise KeyError("M")

    verdict = _planted(run_variations, "lower", crash)
    assert {one.kind for one in verdict.findings} == {"internal error"}
    assert len(verdict.findings) == 2 and not verdict.calls


def test_a_diagnostic_without_a_place_is_found() -> None:
    def refuse(*_: object) -> None:
        raise WavespecError(None, "Something is wrong.")

    assert {one.kind for one in _planted(run_variations, "lower", refuse).findings} == {"internal error"}


@pytest.mark.rare
def test_a_process_that_ends_is_found_and_the_next_one_goes_on() -> None:
    from tests.fuzz.test_variations import end_at_one  # by a name that the other process finds as well

    told: list[str] = []
    summary = search_variations(0, lambda number: number < 3, judge=end_at_one, tell=told.append)
    assert [one.kind for one in summary.findings] == ["process ended"]
    assert summary.kernels == 3 and "--seed 0 --first 1 --count 1" in told[0]


def test_an_error_of_the_search_is_found_and_the_others_are_tried() -> None:
    from tests.fuzz.test_variations import fail_at_one

    told: list[str] = []
    summary = search_variations(0, lambda number: number < 3, judge=fail_at_one, tell=told.append)
    assert [one.kind for one in summary.findings] == ["error of the search"]
    assert summary.kernels == 3 and "fail_at_one" in told[0] and "--seed 0 --first 1 --count 1" in told[0]


def test_samples_need_no_sizes_that_follow_from_others() -> None:
    """`_of_table` leaves them out, and makers of inputs speak of them."""
    subject = Subject("attention_paged", "attention_paged")
    for sizes in KERNELS["attention_paged"].small:
        free = {name: size for name, size in sizes.items() if subject.spec.dims[name].equals is None}
        assert free != sizes
        assert [one.shape for one in subject.inputs(free)] == [one.shape for one in subject.inputs(sizes)]


def end_at_one(_: int, number: int) -> Verdict:
    """In place of judging a kernel."""
    if number == 1:
        os._exit(11)
    return Verdict(number, "a kernel")


def fail_at_one(_: int, number: int) -> Verdict:
    """In place of judging a kernel."""
    if number == 1:
        raise KeyError("N")
    return Verdict(number, "a kernel")
