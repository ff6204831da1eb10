"""One spec, many targets: overrides, positions, parameter values."""

from __future__ import annotations

import pytest

from tests.specs import KERNELS
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, constant_values, loads, resolve_params, spec_for_target
from wavespec.schema.language.constraints import Hardware, Workgroup
from wavespec.schema.resolve import targets_of

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: move
dims:
  M: {}
  N: {value: 32}
params:
  BLOCK_M: HALF * 2
  HALF: 32
tensors:
  a: {shape: [M, N], dtype: f32}
  b: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
  - {workgroup: N, tile: N, axis: 1}
  - {hardware: {mma: auto}}
graph:
  - x: {read: a}
  - {write: x, to: b}
targets:
  cpu:
    params: {HALF: 96}
    hardware: {mma: fma}
    tensors: {a: {space: shared}}
    schedule: {stages: 2}
  sm_90:
    constraints:
      - {workgroup: M, tile: 16, axis: 2}
"""


@pytest.fixture
def spec() -> KernelSpec:
    return loads(TEXT, "s")


def test_params_are_resolved_through_each_other(spec: KernelSpec) -> None:
    assert resolve_params(spec) == {"BLOCK_M": 64, "HALF": 32}
    assert constant_values(spec) == {"BLOCK_M": 64, "HALF": 32, "N": 32}


def test_override_reaches_dependent_params(spec: KernelSpec) -> None:
    assert resolve_params(spec_for_target(spec, "cpu")) == {"BLOCK_M": 192, "HALF": 96}


def test_target_without_an_entry_is_the_kernel_itself(spec: KernelSpec) -> None:
    other = spec_for_target(spec, "gfx942")
    assert other.targets == {} and other.model_copy(update={"targets": spec.targets}) == spec


def test_overrides_replace_hardware_space_and_schedule(spec: KernelSpec) -> None:
    cpu = spec_for_target(spec, "cpu")
    (hardware,) = [c for c in cpu.constraints if isinstance(c, Hardware)]
    assert hardware.settings.mma == "fma"
    assert cpu.tensors["a"].space == "shared" and spec.tensors["a"].space == "global"
    assert cpu.schedule and cpu.schedule.stages == 2


def test_constraints_of_a_target_replace_all(spec: KernelSpec) -> None:
    (only,) = spec_for_target(spec, "sm_90").constraints
    assert isinstance(only, Workgroup) and only.axis == 2 and str(only.span) == "s:28:9"


def test_positions_point_at_the_override(spec: KernelSpec) -> None:
    cpu = spec_for_target(spec, "cpu")
    assert str(cpu.span_of("params", "HALF")) == "s:22:20"
    assert str(cpu.span_of("params", "BLOCK_M")) == "s:8:12"
    assert str(cpu.tensors["a"].span_of("space")) == "s:24:26"
    assert str(cpu.tensors["a"].span_of("dtype")) == "s:11:29"
    assert str(cpu.graph[0].span) == "s:18:8"
    (hardware,) = [c for c in cpu.constraints if isinstance(c, Hardware)]
    assert str(hardware.span_of("settings", "mma")) == "s:23:21"


def test_unknown_target_is_refused(spec: KernelSpec) -> None:
    with pytest.raises(WavespecError, match="'sm_91' is not a target"):
        spec_for_target(spec, "sm_91")


def test_positions_of_every_part(spec: KernelSpec) -> None:
    assert str(spec.key_span_of("dims", "N")) == "s:6:3"
    assert str(spec.span_of("dims", "N", "value")) == "s:6:14"
    assert str(spec.span_of("tensors", "b", "shape", 1)) == "s:12:18"
    assert str(spec.graph[1].span_of("to")) == "s:19:20"
    # What is not written is where the part around it is.
    assert spec.span_of("dims", "M", "max") == spec.span_of("dims", "M")
    assert spec.where("tensors", "a") == spec.span_of("tensors", "a")


def test_specs_of_the_project_have_positions_for_every_op() -> None:
    from wavespec.schema import load

    for path in KERNELS:
        kernel = load(path)
        assert all(op.span and op.key_span_of("op") for op in kernel.graph)


def test_a_kernel_for_some_targets_is_refused_for_others() -> None:
    spec = loads(TEXT.replace("graph:", "only: [sm_90, gfx950]\ngraph:"), "gemm.wave.yaml")
    assert targets_of(spec) == ("sm_90", "gfx950")
    assert spec_for_target(spec, "sm_90").name == spec.name
    with pytest.raises(WavespecError) as caught:
        spec_for_target(spec, "cpu")
    assert caught.value.code == "not-for-target"
    assert "'cpu'" in caught.value.diagnostics[0].hints[0]
