"""Functions that may be approximate: the machine's instruction where it has one, fewer steps elsewhere, and only if asked."""

from __future__ import annotations

import numpy as np
import pytest

from wavespec.diagnostics import WavespecError
from wavespec.ops.elementwise import FAST
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines
from wavespec.targets.names import TARGETS

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: squashed
dims: {M: {}}
tensors:
  x: {shape: [M], dtype: f32}
  y: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 256, axis: 0}
  - {hardware: {fast_math: [tanh]}}
graph:
  - one: {read: x}
  - result: tanh(one)
  - {write: result, to: y}
"""
(NVIDIA,) = machines("sm_90")
EVERY = [machine for target in TARGETS for machine in machines(target)]


def spec(*changes: tuple[str, str]) -> KernelSpec:
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "squashed.wave.yaml")


POWERS = spec(
    ("tanh(one)", "bf16(exp(one))"), ("[tanh]", "[exp]"), ("y: {shape: [M], dtype: f32", "y: {shape: [M], dtype: bf16")
)
EXACT = spec(("  - {hardware: {fast_math: [tanh]}}\n", ""))


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_errors_are_small_beside_the_largest_value(machine: Machine) -> None:
    x = np.concatenate([np.linspace(-9, 9, 900), [0, 1e-30, -1e-30, 1e30, np.inf, -np.inf, np.nan]]).astype(np.float32)
    report = simulate(lower(spec(), machine), machine, {"x": x}, {"M": len(x)})
    assert report.ok, report.render()
    np.testing.assert_allclose(report.tensors["y"], np.tanh(x.astype(np.float64)), rtol=0, atol=2**-21)


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_there_are_fewer_steps(machine: Machine) -> None:
    fast, exact = (
        [op["function"] for op in lower(one, machine).walk() if op.name == "elementwise"] for one in (spec(), EXACT)
    )
    assert len(fast) < len(exact)
    assert ("tanh" in fast) == ("tanh" in machine.approximations) and "tanh" not in exact


def test_the_instruction_is_used_where_it_is_asked_for() -> None:
    (machine,) = machines("sm_90")
    assert "tanh.approx.f32 $0, $1;" in emit(spec(), machine).text
    assert "approx" not in emit(EXACT, machine).text.replace("ex2.approx.ftz", "")


def test_a_target_may_ask_for_it_alone() -> None:
    only = spec(
        ("  - {hardware: {fast_math: [tanh]}}\n", ""),
        ("graph:", "targets: {sm_90: {hardware: {fast_math: [tanh]}}}\ngraph:"),
    )
    flags = {
        target: any(op.get("fast") for op in lower(only, machines(target)[0], after="spec-to-tile").walk())
        for target in ("cpu", "sm_90")
    }
    assert flags == {"cpu": False, "sm_90": True}


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_powers_of_e_are_close_where_results_have_16_bits(machine: Machine) -> None:
    x = np.concatenate([np.linspace(-80, 80, 900), [0, 200, -200, np.inf, -np.inf, np.nan]]).astype(np.float32)
    report = simulate(lower(POWERS, machine), machine, {"x": x}, {"M": len(x)})
    assert report.ok, report.render()
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(report.tensors["y"].astype(np.float64), exact, rtol=2**-8, atol=0)


def test_powers_of_e_are_exact_where_results_have_more() -> None:
    wide = spec(("tanh(one)", "exp(one)"), ("[tanh]", "[exp]"))
    fast = [any(op.get("fast") for op in lower(one, NVIDIA, after="spec-to-tile").walk()) for one in (POWERS, wide)]
    assert fast == [True, False]


def test_a_function_without_a_shorter_form_is_refused() -> None:
    with pytest.raises(WavespecError, match="tanh"):
        spec(("[tanh]", "[sin]"))


def test_every_instruction_is_for_a_function_that_may_be_approximate() -> None:
    assert {name for machine in EVERY for name in machine.approximations} <= FAST.keys()
