"""Every operation of lanes has a method in the simulator and, where no table here says otherwise, in each backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.sim.simulated_kernels import kernel
from wavespec.emit.function import Emitter, Function
from wavespec.emit.thread_to_mlir import unwritten
from wavespec.ir.declarations import Declaration, Group, Trait
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value, VectorType, attribute_pairs
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
    DOT,
    FENCE_ASYNC,
    FROM_LANE,
    JOIN_LANES,
    LOAD_MATRIX,
    LOAD_TILE,
    MMA,
    MMA_ASYNC,
    MMA_COMMIT,
    MMA_FENCE,
    MMA_WAIT,
    PREFETCH,
    ROLE,
    SEND,
    SHUFFLE,
    SIGNAL_ARRIVE,
    SIGNAL_WAIT,
    STAGGER,
    STORE_MATRIX,
    TAKE_NUMBER,
    THREAD_OPS,
    TILES_END,
)
from wavespec.sim.strand import Strand
from wavespec.sim.values import Values
from wavespec.targets import machines
from wavespec.targets.machine import Machine

SIGNALS = SIGNAL_ARRIVE | SIGNAL_WAIT | FENCE_ASYNC | BULK_COPY | BULK_STORE | BULK_COMMIT | BULK_WAIT | SEND
BESIDE_LANES = SIGNALS | ROLE | MMA_FENCE | MMA_ASYNC | MMA_COMMIT | MMA_WAIT | STORE_MATRIX
OF_MANY_WAVES = (
    BESIDE_LANES
    | BARRIER
    | SHUFFLE
    | FROM_LANE
    | JOIN_LANES
    | LOAD_MATRIX
    | COPY_ASYNC
    | ASYNC_COMMIT
    | ASYNC_WAIT
    | STAGGER
)
OF_CPUS = ACCUMULATE | DOT | PREFETCH | LOAD_TILE
OF_PASSES = TILES_END | TAKE_NUMBER
"""What a pass takes away before anybody writes or runs the kernel."""

AMX = next(machine for machine in machines("cpu") if any(row.emit.startswith("amx:") for row in machine.instructions))
TILED = next(row.name for row in AMX.instructions if row.emit.startswith("amx:"))
SUM = Value("sum", VectorType(DTYPES["f32"], 4))
A_TILED_PRODUCT = Op(MMA.name, (), (SUM,), attributes=attribute_pairs({"instruction": TILED}))


@pytest.mark.parametrize(
    ("machine", "body", "missing"),
    [
        pytest.param(CPU, (), OF_MANY_WAVES | LOAD_TILE, id="cpu"),
        pytest.param(AMX, (A_TILED_PRODUCT,), OF_MANY_WAVES, id="tiles"),
        pytest.param(NVIDIA, (), OF_CPUS | BESIDE_LANES | STAGGER, id="nvidia"),
        pytest.param(NVIDIA, (Op(ROLE.name),), OF_CPUS | STAGGER, id="roles"),
        pytest.param(AMD, (), OF_CPUS | BESIDE_LANES | LOAD_MATRIX | JOIN_LANES, id="amd"),
    ],
)
def test_a_backend_writes_each_operation_that_is_not_named_here(
    machine: Machine, body: tuple[Op, ...], missing: Group
) -> None:
    methods = written_for(machine, body).methods
    assert {one.name for one in THREAD_OPS.all() if one.name not in methods} == (missing | OF_PASSES).names
    helpers = {"unpack", "pack_bits", "look_up"}  # of `memory_to_bytes` and `look_up_codes` alone
    assert methods.keys() - helpers <= {one.name for one in THREAD_OPS.all()}


class Noted(Emitter):
    """Writes ``barrier`` as its own name, and pairs of ``async_commit`` at once."""

    def __init__(self, function: Function, name: str) -> None:
        super().__init__(function)
        self.name = name

    def begin(self) -> None:
        self.text.do(f"begin {self.name}")

    def end(self) -> None:
        self.text.do(f"end {self.name}")

    def emit_barrier(self, op: Op) -> None:
        self.text.do(self.name)

    def emit_async_commit(self, op: Op) -> None:
        self.text.do("single")

    def run(self, ops: Sequence[Op], start: int) -> int:
        if [op.name for op in ops[start : start + 2]] != ["async_commit"] * 2:
            return start
        self.text.do("pair")
        return start + 2


def test_the_last_emitter_that_knows_an_operation_writes_it_and_runs_come_first() -> None:
    body = tuple(Op(name) for name in ("barrier", "async_commit", "async_commit", "async_commit"))
    function = Function(replace(kernel(AMD, []), body=body), AMD, "#layout", 32)
    first, last = Noted(function, "first"), Noted(function, "last")
    function.use(first, last)
    function.together(first.run, ASYNC_COMMIT)
    lines = [line.removesuffix(" loc(unknown)").strip() for line in function.write().text.splitlines()]
    assert lines[1:-2] == ["begin first", "begin last", "last", "pair", "single", "end first", "end last"]


def test_what_a_backend_cannot_write_is_named() -> None:
    with pytest.raises(ValueError, match="'rocm' has no instructions for 'store_matrix'"):
        written_for(AMD, ()).block([Op(STORE_MATRIX.name)])


@pytest.mark.parametrize(
    "one", [one for one in THREAD_OPS.all() if one.name not in OF_PASSES.names], ids=lambda one: one.name
)
def test_the_simulator_has_one_method_for_each_operation(one: Declaration) -> None:
    assert hasattr(Values, f"_{one.name}") != hasattr(Strand, f"_{one.name}")
    assert hasattr(Values, f"_{one.name}") or Trait.PURE not in one.traits


def written_for(machine: Machine, body: tuple[Op, ...]) -> Function:
    return unwritten(replace(kernel(machine, []), body=body), machine, "#layout")
