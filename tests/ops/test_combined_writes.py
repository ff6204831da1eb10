"""Writes that combine: every element once, whoever holds it, and what machines cannot do."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.combined import SIZES, Combined, assert_exact
from wavespec.diagnostics import WavespecError
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import Machine

MACHINES = pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
WORKGROUPS = {
    "rows": "[{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 32, axis: 1}, {wave: M, tile: 1}]",
    "columns": "[{workgroup: M, tile: 2, axis: 1}, {workgroup: N, tile: 64, axis: 0}, {wave: N, tile: 16}]",
    "both": "[{workgroup: M, tile: 16, axis: 0}, {workgroup: N, tile: 8, axis: 1}, {wave: M, tile: 8}, {wave: N, tile: 4}]",
    "small": "[{workgroup: M, tile: 2, axis: 0}, {workgroup: N, tile: 4, axis: 1}]",
}


@MACHINES
@pytest.mark.parametrize("combine", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_every_element_is_combined(machine: Machine, combine: str, dtype: str) -> None:
    assert_exact(Combined(combine, dtype).spec, machine)


@MACHINES
@pytest.mark.parametrize("workgroups", WORKGROUPS.values(), ids=WORKGROUPS)
def test_what_several_lanes_hold_is_added_once(machine: Machine, workgroups: str) -> None:
    for sizes in (SIZES, {"M": 1, "N": 1, "V": 1}, {"M": 33, "N": 9, "V": 2}):
        assert_exact(Combined(dtype="i32", index="i64", workgroups=workgroups).spec, machine, sizes)


@MACHINES
@pytest.mark.parametrize("combine", ["and", "or", "xor"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_bits_are_combined(machine: Machine, combine: str, dtype: str) -> None:
    assert_exact(Combined(combine, dtype).spec, machine)


@MACHINES
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_precision_is_added(machine: Machine, dtype: str) -> None:
    assert_exact(Combined(dtype=dtype).spec, machine, {"M": 5, "N": 3, "V": 2})


def test_what_no_machine_combines_is_refused() -> None:
    with pytest.raises(WavespecError) as raised:
        lower(Combined("max", "bf16").spec, AMD)
    assert str(raised.value) == (
        "combined.wave.yaml:20:5: error[atomic-not-possible]: gfx942 cannot combine bf16 in one indivisible step by "
        "'max'; 'y' holds bf16.\n"
        "    |\n"
        " 20 |   - {write: values, to: y, at: {V: place}, combine: max}\n"
        "    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    = note: For gfx942.\n"
        "    = hint: It can for 'f32', 'f64', 'i32' and 'i64'."
    )


def test_the_kernel_and_its_spec_survive_their_texts() -> None:
    spec = Combined().spec
    assert loads(dump_yaml(spec), "combined.wave.yaml") == spec
    kernel = lower(spec, NVIDIA)
    assert parse_kernel(print_kernel(kernel)) == kernel
