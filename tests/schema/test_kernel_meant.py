"""What `compile` takes: a spec, the path of one, a family; one kernel is meant, or somebody is told to name it."""

from __future__ import annotations

import pytest

import wavespec as ws
from tests.cli.command import SMALL
from tests.kernels import SPECS
from wavespec.schema import load
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.families.kernel_meant import kernel_meant
from wavespec.schema.families.load_family import load_family

NORM = SPECS / "rms_norm.wave.yaml"
MASKED = SPECS / "attention_masked.wave.yaml"


def test_a_spec_and_its_path_are_the_same() -> None:
    spec = load(SPECS / "gemm.wave.yaml")
    assert kernel_meant(spec) is spec
    assert kernel_meant(SPECS / "gemm.wave.yaml") == kernel_meant(str(SPECS / "gemm.wave.yaml")) == spec


def test_a_spec_of_several_types_is_the_first_or_the_member_that_is_named() -> None:
    assert kernel_meant(NORM).name == kernel_meant(load_family(NORM)).name == "rms_norm"
    assert kernel_meant(NORM, "T=bf16").name == "rms_norm_bf16"
    assert kernel_meant(load_family(NORM), "rms_norm_f16").name == "rms_norm_f16"


def test_of_a_family_a_member_has_to_be_named() -> None:
    assert kernel_meant(MASKED, "MASK=causal,DTYPE=f16").name == "attention_masked_causal_f16"
    with pytest.raises(ws.WavespecError) as raised:
        kernel_meant(MASKED)
    (found,) = raised.value.diagnostics
    assert found.code == "member-needed" and "'member=' names one of them: 'MASK=causal,DTYPE=bf16'" in found.hints[0]


def test_other_things_are_refused() -> None:
    with pytest.raises(ws.WavespecError, match=r"\[not-a-family\]: This is one kernel"):
        kernel_meant(SPECS / "gemm.wave.yaml", "T=f16")
    with pytest.raises(TypeError, match=r"Expected a KernelSpec, .* found dict\."):
        kernel_meant({"name": "gemm"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"found KernelBuilder; call its 'build\(\)'\."):
        kernel_meant(KernelBuilder("gemm"))  # pyright: ignore[reportArgumentType]


@pytest.mark.compiles
def test_a_path_is_compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("specs") / "small.wave.yaml"
    path.write_text(SMALL)
    assert ws.compile(path).artifact.name == "small"
