"""Every operation of lanes has a method in the simulator and, where no table here says otherwise, in each backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.sim.simulated_kernels import kernel
from wavespec.emit.function import Function
from wavespec.emit.thread_to_mlir import unwritten
from wavespec.ir.declarations import Declaration, Group, Trait
from wavespec.ir.kernel import Op, attribute_pairs
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BARRIER,
    BULK_COMMIT,
    BULK_COPY,
    BULK_STORE,
    BULK_WAIT,
    COPY_ASYNC,
    FENCE_ASYNC,
    LOAD_MATRIX,
    LOAD_TILE,
    MMA,
    MMA_ASYNC,
    MMA_COMMIT,
    MMA_FENCE,
    MMA_WAIT,
    PREFETCH,
    ROLE,
    SHUFFLE,
    SIGNAL_ARRIVE,
    SIGNAL_WAIT,
    STAGGER,
    STORE_MATRIX,
    THREAD_OPS,
)
from wavespec.sim.strand import Strand
from wavespec.sim.values import Values
from wavespec.targets import machines
from wavespec.targets.machine import Machine

SIGNALS = SIGNAL_ARRIVE | SIGNAL_WAIT | FENCE_ASYNC | BULK_COPY | BULK_STORE | BULK_COMMIT | BULK_WAIT
BESIDE_LANES = SIGNALS | ROLE | MMA_FENCE | MMA_ASYNC | MMA_COMMIT | MMA_WAIT | STORE_MATRIX
OF_MANY_WAVES = BESIDE_LANES | BARRIER | SHUFFLE | LOAD_MATRIX | COPY_ASYNC | ASYNC_COMMIT | ASYNC_WAIT | STAGGER
OF_CPUS = ACCUMULATE | PREFETCH | LOAD_TILE

AMX = next(machine for machine in machines("cpu") if any(row.emit.startswith("amx:") for row in machine.instructions))
TILED = next(row.name for row in AMX.instructions if row.emit.startswith("amx:"))
A_TILED_PRODUCT = Op(MMA.name, attributes=attribute_pairs({"instruction": TILED}))


@pytest.mark.parametrize(
    ("machine", "body", "missing"),
    [
        pytest.param(CPU, (), OF_MANY_WAVES | LOAD_TILE, id="cpu"),
        pytest.param(AMX, (A_TILED_PRODUCT,), OF_MANY_WAVES, id="tiles"),
        pytest.param(NVIDIA, (), OF_CPUS | BESIDE_LANES | STAGGER, id="nvidia"),
        pytest.param(NVIDIA, (Op(ROLE.name),), OF_CPUS | STAGGER, id="roles"),
        pytest.param(AMD, (), OF_CPUS | BESIDE_LANES | LOAD_MATRIX, id="amd"),
    ],
)
def test_a_backend_writes_each_operation_that_is_not_named_here(
    machine: Machine, body: tuple[Op, ...], missing: Group
) -> None:
    methods = written_for(machine, body).methods
    assert {one.name for one in THREAD_OPS.all() if one.name not in methods} == missing.names
    helpers = {"unpack", "pack_bits"}  # of `memory_to_bytes` alone
    assert methods.keys() - helpers <= {one.name for one in THREAD_OPS.all()}


def test_what_a_backend_cannot_write_is_named() -> None:
    with pytest.raises(ValueError, match="'rocm' has no instructions for 'store_matrix'"):
        written_for(AMD, ()).block([Op(STORE_MATRIX.name)])


@pytest.mark.parametrize("one", THREAD_OPS.all(), ids=lambda one: one.name)
def test_the_simulator_has_one_method_for_each_operation(one: Declaration) -> None:
    assert hasattr(Values, f"_{one.name}") != hasattr(Strand, f"_{one.name}")
    assert hasattr(Values, f"_{one.name}") or Trait.PURE not in one.traits


def written_for(machine: Machine, body: tuple[Op, ...]) -> Function:
    return unwritten(replace(kernel(machine, []), body=body), machine, "#layout")
