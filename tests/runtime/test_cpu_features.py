"""Choice of the binary for a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.standins import gemm_interface
from wavespec.runtime import ArtifactError, Binary
from wavespec.runtime import cpu_features as module
from wavespec.runtime.artifact import ArtifactCase
from wavespec.runtime.cpu_features import choose_binary, cpu_features, for_processor, request_amx

_BINARIES = (
    Binary("amx", "vmfb", b"", ("avx512f", "amx_bf16")),
    Binary("avx512", "vmfb", b"", ("avx512f",)),
    Binary("avx2", "vmfb", b"", ("avx2", "fma")),
)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx2", "fma", "avx512f", "amx_bf16"}, "amx"),
        ({"avx2", "fma", "avx512f"}, "avx512"),
        ({"avx2", "fma", "amx_bf16"}, "avx2"),
    ],
)
def test_first_variant_that_the_cpu_can_run_is_taken(features: set[str], expected: str) -> None:
    assert choose_binary(_BINARIES, features, "gemm").label == expected


def test_baseline_runs_anywhere() -> None:
    assert choose_binary((*_BINARIES, Binary("any", "vmfb", b"")), set(), "gemm").label == "any"


def test_cpu_without_any_variant_is_told_what_it_lacks() -> None:
    with pytest.raises(ArtifactError, match=r"gemm: no variant runs on this CPU.*'avx2': \['fma'\]"):
        choose_binary(_BINARIES, {"avx2"}, "gemm")


def test_code_for_two_architectures_is_chosen_by_what_each_requires() -> None:
    both = (*_BINARIES, Binary("sdot", "vmfb", b"", ("asimd", "asimddp")), Binary("neon", "vmfb", b"", ("asimd",)))
    assert choose_binary(both, {"fp", "asimd", "asimddp"}, "gemm").label == "sdot"
    assert choose_binary(both, {"fp", "asimd"}, "gemm").label == "neon"
    assert choose_binary(both, {"avx2", "fma"}, "gemm").label == "avx2"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, {"asimd"}),
        ({b"hw.optional.arm.FEAT_DotProd": 1, b"hw.optional.arm.FEAT_BF16": 0}, {"asimd", "asimddp"}),
    ],
)
def test_macos_says_what_it_has_in_words_of_its_own(
    answers: dict[bytes, int], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class System:
        def sysctlbyname(self, name: bytes, number: Any, size: Any, *_: object) -> int:
            if name not in answers:
                return -1
            number._obj.value = answers[name]
            return 0

    monkeypatch.setattr(module, "architecture", lambda: "aarch64")
    monkeypatch.setattr(module.sys, "platform", "darwin")
    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: System())
    assert cpu_features.__wrapped__() == expected


def test_amx_is_offered_only_where_linux_grants_it() -> None:
    assert request_amx() or not any(name.startswith("amx") for name in cpu_features())


def test_cases_for_others_than_the_best_variant_here_are_no_cases() -> None:
    whole = replace(gemm_interface(), binaries=_BINARIES)
    some = replace(whole, binaries=_BINARIES[1:2])
    kernel = replace(whole, cases=(ArtifactCase((), some), ArtifactCase((), whole)))
    assert for_processor(kernel, {"avx2", "fma", "avx512f", "amx_bf16"}).cases == kernel.cases[1:]
    assert for_processor(kernel, {"avx2", "fma", "avx512f"}) is kernel
    assert for_processor(kernel, {"avx2", "fma"}).cases == kernel.cases[1:]
    assert for_processor(kernel, set()) is kernel, "a call says what is missing"
