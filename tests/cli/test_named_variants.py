"""`--target cpu:NAME`: kernels for CPUs that this machine is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.cli.command import Command
from tests.runtime.standins import gemm_interface
from wavespec.build_kernels import KernelToBuild, build_kernels
from wavespec.cache import CompileCache
from wavespec.cli.inputs import chosen_targets
from wavespec.diagnostics import WavespecError
from wavespec.part_cache import get_part
from wavespec.pipeline import join_variants, part_key, spec_digest
from wavespec.runtime.artifact import Assumption
from wavespec.runtime.kernel_set import KernelSet
from wavespec.schema import load
from wavespec.schema.cases import cases_for_target
from wavespec.targets import machines


def test_names_of_one_target_are_put_together() -> None:
    assert chosen_targets(["cpu:x86_64_v3", "gfx942", "cpu:aarch64_v8"]) == ("cpu:x86_64_v3+aarch64_v8", "gfx942")
    assert chosen_targets(["cpu:aarch64_v8", "cpu:aarch64_v8"]) == ("cpu:aarch64_v8",)
    assert chosen_targets(["cpu", "cpu"]) == ("cpu",)
    own = "+".join(machine.variant for machine in machines("cpu"))
    assert chosen_targets(["cpu", "cpu:aarch64_v8"]) == (
        f"cpu:{'+'.join(dict.fromkeys([*own.split('+'), 'aarch64_v8']))}",
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpu:aarch64_v9", "--target: error[unknown-variant]: 'aarch64_v9' is not a variant of cpu."),
        ("cpu:x86_64_v3+armv7", "--target: error[unknown-variant]: 'armv7' is not a variant of cpu."),
        ("cpu:", "--target: error[unknown-variant]: '' is not a variant of cpu."),
        ("all:aarch64_v8", "--target: error[unknown-target]: 'all:aarch64_v8' is not a target."),
    ],
)
def test_a_name_that_is_none_is_refused(wavespec: Command, small: Path, target: str, message: str) -> None:
    result = wavespec("build", small, "--target", target, "-o", "out")
    assert (result.code, message in result.err, Path("out").exists()) == (2, True, False)


def test_what_is_measured_here_takes_no_names(wavespec: Command, small: Path) -> None:
    result = wavespec("tune", small, "--target", "cpu:aarch64_v8")
    assert (result.code, "error[unknown-target]: 'cpu:aarch64_v8'" in result.err) == (2, True)


@pytest.mark.compiles
def test_one_artifact_has_code_of_two_architectures(wavespec: Command, small: Path) -> None:
    result = wavespec("build", small, "--target", "cpu:x86_64_v3", "--target", "cpu:aarch64_v8", "-o", "out")
    assert (result.code, result.err) == (0, "")
    manifest = json.loads(Path("out/small.artifacts/cpu.json").read_text())
    assert manifest["architecture"] == "x86_64+aarch64"
    assert [binary["label"] for binary in manifest["binaries"]] == ["x86_64_v3", "aarch64_v8"]
    machines_of_elf = {
        path.name: (code := path.read_bytes())[code.index(b"\x7fELF") + 18] for path in Path("out").rglob("*.vmfb")
    }
    assert machines_of_elf == {"cpu.x86_64_v3.vmfb": 62, "cpu.aarch64_v8.vmfb": 183}
    kernels = KernelSet("small", Path("out/small.artifacts"), manifest["spec_sha256"], 2)
    a, b = torch.ones(3, 8, dtype=torch.float16), torch.ones(5, 8, dtype=torch.float16)
    assert torch.equal(kernels.kernel_for(torch.device("cpu"))(a, b), torch.full((3, 5), 8.0))


def test_variants_that_are_joined_rely_on_what_any_does_and_are_launched_alike() -> None:
    one, promise = gemm_interface(), Assumption("M >= 8", ("ge", "M", 8))
    other = replace(one, architecture="aarch64", assumptions=(*one.assumptions, promise))
    joined = join_variants([one, other, other])
    assert (joined.architecture, joined.assumptions) == ("x86_64+aarch64", other.assumptions)
    with pytest.raises(WavespecError) as caught:
        join_variants([one, replace(other, grid=(1, 1, 1))])
    (found,) = caught.value.diagnostics
    assert found.code == "launched-apart"
    assert found.message.startswith("'gemm' is launched in different ways on ")


def test_of_what_is_emitted_together_each_part_has_its_own_architecture(small: Path, tmp_path: Path) -> None:
    spec, cache = load(tmp_path / small), CompileCache(tmp_path / "cache", enabled=True)
    built = build_kernels([KernelToBuild(spec)], ["cpu:x86_64_v3+aarch64_v8"], code=False, cache=cache, workers=1)
    assert built["small", "cpu:x86_64_v3+aarch64_v8"].architecture == "x86_64+aarch64"
    (case,) = cases_for_target(spec, "cpu")
    for machine in machines("cpu:x86_64_v3+aarch64_v8"):
        part = get_part(cache, part_key(spec_digest(case.spec), machine, code=False))
        assert part is not None and part.architecture == machine.architecture


@pytest.mark.compiles
def test_code_for_an_old_processor_runs_on_a_new_one(wavespec: Command, small: Path) -> None:
    dims = [word for dim in ("M=9", "N=7", "K=24") for word in ("--dim", dim)]
    result = wavespec("run", small, "--target", "cpu:x86_64_v2", *dims)
    if "features missing" in result.err:
        pytest.skip("needs an x86-64 CPU")
    assert (result.code, result.err) == (0, "")


@pytest.mark.compiles
def test_code_for_another_machine_alone_is_told_of(wavespec: Command, small: Path) -> None:
    result = wavespec("run", small, "--target", "cpu:aarch64_v8", "--dim", "M=8", "--dim", "N=8", "--dim", "K=8")
    assert "small: no variant runs on this CPU; features missing: {'aarch64_v8': ['asimd']}." in result.err
