"""What every pass shares: verification that names the pass, whether it changed anything, and names that are new."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest

from tests.lower.gemms import CPU, NVIDIA, Gemm
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.printer import print_kernel
from wavespec.ir.verifier import VerificationError
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.order import PASSES
from wavespec.pipeline import STAGES, stages_of
from wavespec.targets.machine import Machine


class Breaks(Pass):
    name = "breaks"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return replace(kernel, body=(Op("write", (kernel.body[0].result,)), *kernel.body))


def test_broken_kernel_names_the_pass() -> None:
    with pytest.raises(
        VerificationError,
        match=r"after pass 'breaks': kernel 'gemm', operation 'write': %zero is used before it is defined",
    ):
        Breaks()(Gemm().lowered(NVIDIA, "spec-to-tile"), NVIDIA)


class BreaksWhereWavesTakeTurns(Breaks):
    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves


def test_a_pass_is_skipped_for_machines_it_does_not_apply_to() -> None:
    kernel = Gemm().lowered(NVIDIA, "spec-to-tile")
    assert BreaksWhereWavesTakeTurns()(kernel, NVIDIA) is kernel
    with pytest.raises(VerificationError):
        BreaksWhereWavesTakeTurns()(kernel, replace(NVIDIA, concurrent_waves=False))


class MakesAnew(Pass):
    """Operations that say what they said before."""

    name = "makes-anew"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return replace(kernel, body=tuple(map(replace, kernel.body)))


class Renames(Pass):
    name = "renames"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return replace(kernel, body=tuple(replace(op, node="other") for op in kernel.body))


def test_a_kernel_that_a_pass_does_not_change_is_given_back() -> None:
    kernel = Gemm().lowered(NVIDIA, "spec-to-tile")
    assert MakesAnew()(kernel, NVIDIA) is kernel
    assert Renames()(kernel, NVIDIA) is not kernel


def test_what_is_not_changed_is_not_verified_again() -> None:
    kernel = Gemm().lowered(NVIDIA, "spec-to-tile")
    with mock.patch("wavespec.lower.base.verify") as verify:
        MakesAnew()(kernel, NVIDIA)
        assert not verify.called
        Renames()(kernel, NVIDIA)
        assert verify.called


def test_stages_say_whether_they_changed_the_kernel() -> None:
    stages = list(stages_of(Gemm().spec, NVIDIA))
    assert [stage.name for stage in stages] == [*STAGES[:-2]]
    for before, after in pairwise(stages):
        assert after.changed == (print_kernel(before.kernel) != print_kernel(after.kernel)), after.name
    assert not next(stage for stage in stages if stage.name == "split-k").changed


def test_fresh_names_count_up_from_their_stem() -> None:
    fresh = fresh_names(Gemm().lowered(NVIDIA, "spec-to-tile"))
    assert [fresh("acc"), fresh("acc.1"), fresh("new"), fresh("new")] == ["acc.2", "acc.3", "new", "new.1"]


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_pass_file_and_class_have_one_name_and_say_before_and_after(one: Pass) -> None:
    stem = type(one).__module__.rsplit(".", 1)[1]
    assert stem == one.name.replace("-", "_") == re.sub(r"(?<!^)(?=[A-Z])", "_", type(one).__name__).lower()
    assert "Before:" in (type(one).__doc__ or "") and "After:" in (type(one).__doc__ or "")


def test_passes_say_which_machines_they_are_for() -> None:
    others = [{one.name for one in PASSES if not one.applies_to(machine)} for machine in (CPU, NVIDIA)]
    assert others[0] == {
        *(
            "match-operands",
            "powers-by-products",
            "choose-waves",
            "join-waves",
            "pass-parts-on",
            "join-steps-last",
            "skip-nan",
            "nest-digits",
            "collect-sums",
            "round-copies",
            "deal-rows",
            "fuse-products",
            "walk-grid",
            "read-in-place",
            "write-behind",
            "share-out-powers",
            "raise-late",
            "keep-narrow",
            "keep-in-shared",
            "load-ahead",
            "meet-once",
            "wait-narrow",
        ),
        *("narrow-steps", "sink-behind-products"),
    }
    assert others[1] == {
        *("strip-tiles", "split-chains", "sum-apart", "serialize-waves", "drop-checks", "skip-zeros", "skip-rows"),
        *("keep-results", "read-in-place", "fetch-ahead", "limit-code", "skip-nan", "multiply-in-pairs", "nest-lines"),
        *("peel-waves", "share-quotients", "join-remainders", "reduce-together", "announce-rows", "walk-rows"),
        *("announce-columns", "announce-copies", "spread-announcements", "turn-runs", "cut-tiles", "roll-rows"),
        *(
            "check-once",
            "store-at-once",
            "store-whole-lines",
            "announce-results",
            "sum-bias-once",
            "write-behind",
            "narrow-steps",
        ),
        "sink-behind-products",
    }
