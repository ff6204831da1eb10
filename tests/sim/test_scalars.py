"""Kernels with scalars on the lanes of every machine."""

from __future__ import annotations

import pytest

from tests.ops.scalars import CALLS
from tests.rungs import often
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower, stages_of
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

EACH = [(target, call) for target in ("sm_90", "gfx942", "gfx950", "cpu") for call in CALLS]


@pytest.mark.parametrize(("target", "call"), often(EACH, lambda one: one[0] == "sm_90" or one[1].startswith("window")))
def test_lanes_have_the_numbers_of_the_call(target: str, call: str) -> None:
    CALLS[call].check(CALLS[call].simulated(machines(target)[0]))


def test_kernels_with_scalars_are_text_after_every_stage() -> None:
    for stage in stages_of(CALLS["attention"].spec, machines("gfx942")[0]):
        assert parse_kernel(print_kernel(stage.kernel)) == stage.kernel
        assert "scalar soft_cap f32\nscalar window i32\nscalar causal bool\n" in print_kernel(stage.kernel)


def test_a_number_outside_of_the_limits_of_an_integer_is_told() -> None:
    call, (machine,) = CALLS["window"], machines("sm_90")
    numbers = {**call.numbers, "step": 17}
    sizes = {name: call.every_size[name] for name in call.spec.dims}
    with pytest.raises(ValueError, match=r"step\.scalar = 17 is outside"):
        simulate(lower(call.spec, machine), machine, {"x": call.inputs()[0].numpy()}, sizes, scalars=numbers)
