"""A candidate, the sizes of a product and a machine go in; about how many clocks it takes comes out.

A model for ordering candidates, so that few have to be measured: a roofline of matrix unit, shared memory and global
memory per step of the loop, times the rounds in which the processors get through all tiles.  It need not be right
about clocks, only about which of two candidates is worth measuring first:

- A processor runs whole tiles, so the last round may leave most of them idle: what decides for small sizes.
- Large tiles load less per product; they need registers and shared memory, and so run with fewer neighbours.
- Loads that the steps in flight do not cover are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavespec.targets.machine import Machine, Resources
from wavespec.targets.matrix_instruction import MatrixInstruction

# Beside accumulators and operands a lane has addresses, masks and loop counters.
_OTHER_REGISTERS = 32
# More neighbours than these hide nothing more.
_MOST_RESIDENT = 4
# Matrix units that read shared memory themselves are not held up by loads into registers in between.
_RATE_THROUGH_REGISTERS = 0.65
# Two vector pipes of a CPU core; what it copies into panels, and adds to its tile of the result, per clock.
_VECTOR_PIPES = 2
_COPY_BYTES_PER_CLOCK = 8
_ACCUMULATE_BYTES_PER_CLOCK = 16
_PADDING = 8
"""Elements behind a row of sums in shared memory."""
_MEETING_CLOCKS = 1500
"""Until the workgroups of a cluster have laid down their sums and waited for each other."""
_STEP_CLOCKS = 200
"""Beginning and end of a step on a CPU."""


@dataclass(frozen=True, slots=True)
class Product:
    """Sizes of the matrix product that a kernel is about."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Split:
    """How a product is split: elements of tiles along m, n and k, waves along m and n, steps in flight."""

    row: MatrixInstruction
    block: tuple[int, int, int]
    waves: tuple[int, int] = (1, 1)
    stages: int = 1
    producers: int = 0
    split: int = 1
    """Workgroups that share out the steps of a tile."""

    @property
    def wave(self) -> tuple[int, int]:
        return self.block[0] // self.waves[0], self.block[1] // self.waves[1]

    @property
    def threads(self) -> int:
        return (self.waves[0] * self.waves[1] + self.producers) * self.row.lanes


def fits(split: Split, machine: Machine) -> bool:
    """Whether a workgroup has the threads, the shared memory and the registers that the split asks for."""
    if split.threads > machine.max_threads or _shared_bytes(split) > machine.shared.bytes:
        return False
    needed = _registers(split)
    return not machine.registers or (needed <= machine.registers and needed * split.threads <= machine.register_file)


def _step_bytes(split: Split) -> int:
    """Shared memory of the tiles of one step, in the types that the instruction takes."""
    m, n, k = split.block
    return k * (m * split.row.a.dtype.bytes + n * split.row.b.dtype.bytes)


def _shared_bytes(split: Split) -> int:
    """Of all steps in flight, and of the sums that workgroups hand each other."""
    (m, n, _), parts = split.block, split.split > 1
    return _step_bytes(split) * split.stages + parts * m * (n + _PADDING) * split.row.acc.dtype.bytes


def _registers(split: Split) -> int:
    """32-bit registers of one lane: accumulators, and the operands of one instruction twice."""
    (m, n), row = split.wave, split.row
    held = m * n * row.acc.dtype.bytes
    if not row.reads_shared:
        held += 2 * row.k * (m * row.a.dtype.bytes + n * row.b.dtype.bytes)
    return -(-held // (4 * row.lanes)) + _OTHER_REGISTERS


def clocks(split: Split, product: Product, machine: Machine, processors: int) -> float:
    """About the clocks of one call; `processors` run workgroups at the same time."""
    m, n, k = split.block
    workgroups = -(-product.m // m) * -(-product.n // n) * split.split
    steps = -(-product.k // (k * split.split))
    if machine.resources is None:
        return -(-workgroups // processors) * steps * _cpu_step(split, machine)
    resident = _resident(split, machine)
    step, latency = _gpu_step(split, machine, machine.resources, resident)
    bytes_per_clock = machine.resources.ops["global_store"].bytes_per_clock * machine.resources.parts
    tile = steps * step + latency + m * n * split.row.acc.dtype.bytes / bytes_per_clock
    if split.split > 1:
        tile += _MEETING_CLOCKS
        processors = min(processors, machine.clusters[split.split] * split.split)
    full, rest = divmod(workgroups, processors * resident)
    # The last round runs with as few neighbours as are left.
    return full * resident * tile + -(-rest // processors) * tile


def _cpu_step(split: Split, machine: Machine) -> float:
    m, n, k = split.block
    acc_bytes = split.row.acc.dtype.bytes
    macs_per_clock = _VECTOR_PIPES * machine.vector_bytes / acc_bytes * split.row.k
    added = 2 * m * n * acc_bytes
    return (
        m * n * k / macs_per_clock
        + _step_bytes(split) / _COPY_BYTES_PER_CLOCK
        + added / _ACCUMULATE_BYTES_PER_CLOCK
        + _STEP_CLOCKS
    )


def _gpu_step(split: Split, machine: Machine, resources: Resources, resident: int) -> tuple[float, float]:
    """Clocks of a processor for one step of the loop of one workgroup, and of the loads in front of the first."""
    m, n, k = split.block
    (wave_m, wave_n), row = split.wave, split.row
    waves = split.waves[0] * split.waves[1]
    parts = min(resources.parts, waves * row.lanes // machine.lanes * resident)
    rates = resources.macs_per_clock
    rate = rates.get(row.a.dtype.name, min(rates.values()))
    if not row.reads_shared:
        rate *= _RATE_THROUGH_REGISTERS
    matrix = m * n * k / (rate * parts)
    read = waves * k * (wave_m * row.a.dtype.bytes + wave_n * row.b.dtype.bytes)
    shared = read / (resources.ops["shared_load"].bytes_per_clock * resources.parts)
    copy, barrier = resources.ops["copy"], resources.ops["barrier"]
    loaded = _step_bytes(split) / (copy.bytes_per_clock * resources.parts)
    overhead = barrier.latency / resident
    if split.stages == 1 and resident == 1:
        return matrix + shared + loaded + copy.latency + overhead, 0.0
    in_flight = resident * split.stages
    return max(matrix, shared, loaded, (copy.latency + loaded) / in_flight) + overhead, copy.latency


def _resident(split: Split, machine: Machine) -> int:
    """Workgroups that share a processor."""
    by_registers = machine.register_file // (_registers(split) * split.threads)
    by_shared = machine.shared.bytes // _shared_bytes(split)
    return max(1, min(by_registers, by_shared, _MOST_RESIDENT))
