"""Choice of the binary for a CPU."""

from __future__ import annotations

import pytest

from wavespec.runtime import ArtifactError, Binary
from wavespec.runtime.cpu_features import choose_binary, cpu_features, request_amx

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


def test_amx_is_offered_only_where_linux_grants_it() -> None:
    assert request_amx() or not any(name.startswith("amx") for name in cpu_features())
