"""Which variants of a target a build is for: those of this machine's architecture, or those that are named."""

from __future__ import annotations

from itertools import combinations

import pytest

from wavespec.pipeline import best_variant
from wavespec.targets import TARGETS, machines
from wavespec.targets.machine import same_everywhere, variants
from wavespec.targets.names import VARIANTS

CPUS = variants("cpu")


def names(target: str) -> list[str]:
    return [machine.variant for machine in machines.__wrapped__(target)]


def of(architecture: str, *, by_name: bool = False) -> list[str]:
    """Those of an architecture, and of them, with ``by_name``, those that builds have to name."""
    own = [machine for machine in CPUS if machine.architecture == architecture]
    return [machine.variant for machine in own if by_name or not machine.by_name]


def test_who_reads_specs_knows_the_names_of_variants() -> None:
    assert {target: tuple(one.variant for one in variants(target)) for target in TARGETS} == VARIANTS


@pytest.mark.parametrize(("here", "expected"), [("x86_64", "x86_64"), ("aarch64", "aarch64"), ("riscv64", "x86_64")])
def test_a_target_alone_is_what_runs_here(here: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.targets.machine.architecture", lambda: here)
    assert names("cpu") == of(expected) != []
    assert names("gfx942") == ["gfx942"]


@pytest.mark.parametrize(
    ("without", "has_all"), [({"avx2"}, True), ({"avx512f"}, False), ({"avx2", "sse4_2"}, False), (set[str](), False)]
)
def test_an_old_processor_has_a_variant_of_its_own(
    without: set[str], has_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {word for machine in CPUS if machine.architecture == "x86_64" for word in machine.requires}
    monkeypatch.setattr("wavespec.targets.machine.architecture", lambda: "x86_64")
    monkeypatch.setattr("wavespec.runtime.cpu_features.cpu_features", lambda: frozenset(words - without))
    assert names("cpu") == of("x86_64", by_name=has_all)
    assert set(of("x86_64", by_name=True)) - set(of("x86_64")) == {"x86_64_v2"}
    assert names("cpu:x86_64_v2") == ["x86_64_v2"]
    if has_all:
        monkeypatch.setattr("wavespec.pipeline.machines", machines.__wrapped__)
        assert best_variant("cpu").variant == "x86_64_v2"


@pytest.mark.parametrize("here", ["x86_64", "aarch64", "riscv64"])
def test_some_variants_are_named_alike_on_every_machine(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.targets.machine.architecture", lambda: here)
    assert names(same_everywhere("cpu")) == of("x86_64")
    assert names(same_everywhere("sm_90")) == ["sm_90"]


def test_named_variants_are_taken_best_first_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.targets.machine.architecture", lambda: "riscv64")
    assert names("cpu:aarch64_v8") == ["aarch64_v8"]
    assert names("cpu:aarch64_v8+x86_64_v3+x86_64_v4") == ["x86_64_v4", "x86_64_v3", "aarch64_v8"]
    with pytest.raises(KeyError, match="aarch64_v9"):
        machines("cpu:aarch64_v8+aarch64_v9")
    with pytest.raises(KeyError, match="tpu"):
        machines("tpu:aarch64_v8")


def test_no_processor_has_what_variants_of_two_architectures_require() -> None:
    """By that alone a call takes the code that runs here out of an artifact for both."""
    for one, other in combinations(CPUS, 2):
        if one.architecture != other.architecture:
            assert one.requires and other.requires and set(one.requires).isdisjoint(other.requires)


@pytest.mark.parametrize("target", TARGETS)
def test_better_variants_of_an_architecture_come_first(target: str) -> None:
    """The first whose features a machine has is the one it runs: no later one may ask for more."""
    for one, other in combinations(variants(target), 2):
        if one.architecture == other.architecture:
            assert not set(other.requires) > set(one.requires)
