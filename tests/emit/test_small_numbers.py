"""Machine code for GPUs keeps numbers below the smallest normal one."""

from __future__ import annotations

import re

import pytest

from wavespec.pipeline import build_variant
from wavespec.schema import KernelSpec, loads
from wavespec.targets.machine import machines


def spec() -> KernelSpec:
    return loads(
        """\
apiVersion: wavespec/v1
kind: Kernel
name: small_numbers
dims: {M: {}}
tensors:
  x: {shape: [M], dtype: f32}
  h: {shape: [M], dtype: f16}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 256, axis: 0}
graph:
  - one: {read: x}
  - other: {read: h}
  - total: one * 0.5 + f32(other)
  - result: exp(total) + log(total) / sqrt(one) - rsqrt(maximum(one, total)) + tanh(one)
  - {write: result, to: y}
""",
        "small_numbers.wave.yaml",
    )


@pytest.mark.compiles
def test_no_instruction_flushes_on_sm_90_but_the_power_of_two() -> None:
    (machine,) = machines("sm_90")
    artifact, _ = build_variant(spec(), machine)
    ptx = next(binary.data for binary in artifact.binaries if binary.format == "ptx").decode()
    assert "div.rn.f32" in ptx
    assert set(re.findall(r"[a-z0-9.]+\.ftz[a-z0-9.]*", ptx)) == {"ex2.approx.ftz.f32"}


@pytest.mark.compiles
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_code_objects_ask_for_the_mode_that_keeps_them(target: str) -> None:
    (machine,) = machines(target)
    _, compiled = build_variant(spec(), machine, intermediates=True)
    (code,) = (text for name, text in compiled.dumped.items() if name.endswith(".rocmasm"))
    modes = re.findall(r"amdhsa_float_denorm_mode_(\w+) (\d)", code if isinstance(code, str) else code.decode())
    assert modes == [("32", "3"), ("16_64", "3")]
