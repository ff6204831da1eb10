"""`hardware: {denormals: flush}`: machines take small numbers of f32 for 0 where it is asked for, and a run knows it."""

from __future__ import annotations

import re

import pytest
import torch

from wavespec import KernelBuilder, KernelSpec, loads
from wavespec.diagnostics import WavespecError
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import build_variant, compile, emit, lower
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import may_flush
from wavespec.targets.machine import Machine, machines, variants
from wavespec.targets.names import TARGETS

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {M: {}}
tensors:
  x: {shape: [M], dtype: f32}
  same: {shape: [M], dtype: f32, role: output}
  half: {shape: [M], dtype: f32, role: output}
  large: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 256, axis: 0}
  - {hardware: {denormals: flush}}
graph:
  - one: {read: x}
  - halved: one * 0.5
  - grown: one * 1.0e38
  - {write: one, to: same}
  - {write: halved, to: half}
  - {write: grown, to: large}
workloads: [{M: 8}]
"""
SMALL = [1e-39, 2e-38, -1e-40, 1.0, -1.5e-38, 0.0, 1e-45, -1.0]
EVERY = [machine for target in TARGETS for machine in machines(target)]


def spec(how: str = "flush") -> KernelSpec:
    return loads(SPEC.replace("denormals: flush", f"denormals: {how}"), "scaled.wave.yaml")


@pytest.mark.compiles
def test_cpus_take_small_numbers_for_zero_and_leave_the_callers_thread_as_it_was() -> None:
    x = torch.tensor(SMALL)
    same, half, large = compile(spec())(x)
    assert torch.equal(same, x), "what is copied is no arithmetic"
    normal = x.abs() >= 2**-126
    assert torch.equal(half, torch.tensor([0.0, 0.0, -0.0, 0.5, -0.0, 0.0, 0.0, -0.5])) and half[2].signbit()
    assert torch.equal(large, torch.where(normal, x * 1e38, 0.0))
    assert (torch.tensor(1e-39) * 0.5).item() != 0
    kept = compile(spec("keep"))(x)
    assert all(torch.equal(one, other) for one, other in zip(kept, (x, x * 0.5, x * 1e38), strict=True))


@pytest.mark.compiles
def test_instructions_flush_on_sm_90() -> None:
    (machine,) = machines("sm_90")
    for how, flushes in (("flush", True), ("keep", False)):
        artifact, _ = build_variant(spec(how), machine)
        ptx = next(binary.data for binary in artifact.binaries if binary.format == "ptx").decode()
        assert set(re.findall(r"mul\.[a-z.]*f32", ptx)) == {f"mul.rn{'.ftz' if flushes else ''}.f32"}


@pytest.mark.compiles
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_code_objects_ask_for_the_mode_that_flushes(target: str) -> None:
    (machine,) = machines(target)
    _, compiled = build_variant(spec(), machine, intermediates=True)
    (code,) = (text for name, text in compiled.dumped.items() if name.endswith(".rocmasm"))
    modes = re.findall(r"amdhsa_float_denorm_mode_(\w+) (\d)", code if isinstance(code, str) else code.decode())
    assert modes == [("32", "0"), ("16_64", "3")], "f16 and f64 are kept"


def test_aarch64_sets_one_bit_and_keeps_f16() -> None:
    machine = next(one for one in variants("cpu") if one.architecture == "aarch64")
    text, plain = (emit(spec(how), machine).text for how in ("flush", "keep"))
    assert str(1 << 24) in text and str(1 << 24) not in plain


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_it_is_in_the_kernel_and_in_nothing_without(machine: Machine) -> None:
    kernel = lower(spec(), machine)
    assert kernel.flushes and "\nflushes\n" in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)).flushes
    plain = loads(SPEC.replace("  - {hardware: {denormals: flush}}\n", ""), "scaled.wave.yaml")
    text = emit(plain, machine).text
    assert "denormal" not in text and text.count("\n") == emit(spec("keep"), machine).text.count("\n")


def test_a_target_may_ask_for_it_alone() -> None:
    asked = "targets: {sm_90: {hardware: {denormals: flush}}}\ngraph:"
    only = loads(SPEC.replace("  - {hardware: {denormals: flush}}\n", "").replace("graph:", asked), "scaled.wave.yaml")
    assert may_flush(only) and not may_flush(spec("keep"))
    assert [lower(only, machines(target)[0]).flushes for target in ("cpu", "sm_90")] == [False, True]


def test_another_word_is_refused() -> None:
    with pytest.raises(WavespecError, match=r"12:28"):
        spec("zero")


def test_the_builder_has_it() -> None:
    k = KernelBuilder("copied")
    m = k.dim("M")
    a, b = k.input("a", [m], "f32"), k.output("b", [m], "f32")
    k.workgroup(m, 8, axis=0)
    k.hardware(denormals="flush")
    k.write(k.read("x", a), b)
    text = dump_yaml(k.build())
    assert "denormals: flush" in text and loads(text) == k.build()
