"""Variants of a target: what several have in common is done once, and nobody can tell from what comes out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels import Subject, subjects
from wavespec import pipeline
from wavespec.cases_on_machines import cases_on, machines_of
from wavespec.emit.function import KernelFunction
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import Variants, emit, emit_variants, spec_digest
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.families.load_family import load_family
from wavespec.targets import machines
from wavespec.targets.machine import Machine, variants

SPECS = Path(__file__).parents[1] / "specs"
CPUS = {machine.variant: machine for machine in machines("cpu")}


def spec(name: str) -> KernelSpec:
    path = SPECS / f"{name.partition(' ')[0]}.wave.yaml"
    if " " not in name:
        return load(path)
    return next(one.spec for one in load_family(path).members if name.endswith(one.label))


@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_f32", "gemm_i8", "layer_norm T=f16", "transpose T=bf16"])
def test_a_variant_is_the_same_behind_others(name: str) -> None:
    variants = Variants(spec(name), "cpu")
    for machine in CPUS.values():
        alone = emit(spec(name), machine)
        assert variants.emit(machine) == alone


@pytest.mark.rare
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_variants_of_every_architecture_make_one_artifact(subject: Subject) -> None:
    """They are launched alike, and in no kernel does a call promise for one what it need not for another."""
    for case in cases_on(subject.spec, "cpu", variants("cpu")):
        own = machines_of(case, variants("cpu"))
        joined, alone = emit_variants(case.spec, own), emit_variants(case.spec, own[:1])
        assert joined == replace(alone, architecture=joined.architecture, binaries=joined.binaries)


@pytest.mark.parametrize(
    ("name", "kernels", "functions"),
    [
        ("transpose T=bf16", 2, 2),  # AVX2, AVX-512
        ("gemm_f32", 2, 2),
        # Steps of lanes that tile registers change nothing of; the processors that have them raise to a power, and
        # gather, by instructions, and have steps of their own for powers of e.
        ("silu_and_mul E=f32", 2, 3),
        ("embedding E=f32", 2, 3),
        ("cross_entropy T=f32", 3, 3),
        ("gemm_bf16", 4, 4),  # tiles, pairs, one by one, and that in half the registers
    ],
)
def test_what_is_lowered_and_written_once(
    name: str, kernels: int, functions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = pipeline.thread_to_function, list[Kernel]()

    def noted(kernel: Kernel, machine: Machine) -> KernelFunction:
        written.append(kernel)
        return write(kernel, machine)

    monkeypatch.setattr(pipeline, "thread_to_function", noted)
    variants = Variants(spec(name), "cpu")
    texts = [variants.emit(machine).text for machine in CPUS.values()]
    assert (len({id(kernel) for kernel in written}), len(written)) == (kernels, functions)
    assert len(set(texts)) == len(CPUS), "each names the features of its CPU"


def test_the_digest_of_a_spec_is_of_what_it_says_in_its_order_and_not_of_where() -> None:
    text = (SPECS / "conv2d_nchw.wave.yaml").read_text()
    whole = loads(text)
    turned = whole.model_copy(update={"tensors": dict(reversed(whole.tensors.items()))})
    digests = [spec_digest(one) for one in (whole, loads(f"# moved\n{text}"), turned, spec("conv2d_depthwise"))]
    assert digests[0] == digests[1]
    assert len({*digests}) == 3
