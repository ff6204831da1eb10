"""Machines as data: one YAML file per target in, `Machine` rows out; nothing else in the compiler names a chip."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from wavespec.architecture import architecture
from wavespec.targets.matrix_instruction import MatrixInstruction, instructions_of
from wavespec.targets.names import TARGETS, target_of, variants_in
from wavespec.targets.records import record
from wavespec.yaml_loader import read_data


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Memory of one workgroup."""

    bytes: int
    banks: int
    bank_bytes: int
    """Width of a bank; of a memory that is a part of a cache, of a line."""
    access_bytes: int
    """Widest access of one lane."""
    arrangement: Literal["rows", "panels"]
    matrix_load: Literal["", "ldmatrix", "tile"]
    """``ldmatrix``: one instruction loads matrices of 8 rows of 16 bytes.  ``tile``: operands are tile registers
    of 16 rows of 64 bytes."""
    spread: Literal["", "padding", "swizzle"]
    """How rows are kept off the same banks."""
    any_alignment: bool = False
    """Whether an access may start at any element; else at multiples of its own width."""
    atomics: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Element types that one instruction combines with what this memory holds, by what an `atomic` calls the function;
    nothing where that takes several."""
    private_rows: bool = False
    """Compiler choice: whether a wave stages the rows of an operand that are its own by itself, right before it reads
    them, so that they are in the nearest cache; for waves that do not run at the same time.  Else all waves stage a
    tile together."""


@dataclass(frozen=True, slots=True)
class AsyncCopies:
    """Copies of one lane into shared memory that go on by themselves until they are waited for."""

    bytes: tuple[int, ...] = ()
    """What one copy can move; nothing: the machine has no copies worth using."""
    in_lane_order: bool = False
    """Whether the lanes of a wave write one after another, behind the place that the first lane names."""


@dataclass(frozen=True, slots=True)
class GlobalMemory:
    """Memory of the device."""

    access_bytes: int
    """Widest access of one lane."""
    any_alignment: bool
    """Whether a wide access may start at any element."""
    masked_vectors: bool
    """Whether one access can leave out some of its elements."""
    async_copies: AsyncCopies = AsyncCopies()
    checked_stores: bool = False
    """Whether wide stores are emitted where only the call's sizes decide their alignment, with narrow ones beside
    them."""
    reads_around: bool = False
    """Whether a wide aligned access may be read of which a tensor has one element: what is around it is there to be
    read, and rows that start anywhere are faster so than element by element."""
    ends_apart: bool = False
    """Whether accesses are wide where a tensor of one dim may end in one, whose elements are accessed one by one."""
    alignment_bytes: int = 0
    """What a wide access has to be aligned to; 0 = its own width."""
    range_checked: bool = False
    """Whether the hardware refuses accesses beyond a tensor: loads give zeros, stores do nothing."""
    atomics: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Element types that one indivisible step combines with what memory holds, by how: ``add``, ``max``, ``min``.
    Where the machine has no instruction for it, the compiler behind tries again until nobody was in between."""
    gathers: bool = False
    """Whether an instruction loads elements from places of their own faster than one load for each does."""
    prefetch: bool = False
    """Whether to announce what is read later.  Where many waves run together, others compute in the meantime."""
    bulk_row_bytes: int = 0
    """What the rows of a tensor have to be a multiple of for copies of whole boxes; 0 = the machine has none."""
    bulk_box_dims: int = 0
    """Dims of a tensor that has such boxes, at most."""
    bulk_target_bytes: int = 1
    """What the place of such a box in shared memory has to be a multiple of."""
    bulk_box_elements: int = 0
    """Extent of such a box along a dim, at most."""
    bulk_window_reach: Mapping[int, int] = field(default_factory=dict[int, int])
    """By the number of dims of a tensor: how far windows may start from its edge where such boxes are made of them."""
    bulk_box_steps: int = 1
    """Elements from one window to the next, at most."""
    rounded_boxes: Mapping[int, str] = field(default_factory=dict[int, str])
    """Bits that a copy can round f32 to: what the machine calls such elements."""

    def aligned(self, divisor: int, elements: int, element_bits: int) -> bool:
        """Whether an access of some elements may start at multiples of ``divisor`` elements."""
        size = elements * element_bits
        needed = min(self.alignment_bytes * 8, size) if self.alignment_bytes else size
        return self.any_alignment or divisor * element_bits % needed == 0


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What one kind of operation takes: ``clocks`` of a unit, or as many as its bytes need; ``latency`` until its
    result is there (of a matrix instruction: beyond its own clocks)."""

    unit: str = ""
    latency: int = 0
    clocks: int = 0
    bytes_per_clock: int = 0


@dataclass(frozen=True, slots=True)
class Resources:
    """What schedules reckon with: one wave's share of a processor.  Estimates order operations; no result depends on
    them."""

    parts: int
    """Of a processor, that issue on their own: the other numbers are those of one of them."""
    units: Mapping[str, int]
    """How many there are of each."""
    ops: Mapping[str, ResourceUse]
    """Per kind of operation: ``global_load``, ``shared_store``, ``matrix``, ``vector``, ``copy``, ``barrier`` ..."""
    macs_per_clock: Mapping[str, int]
    """Products of the matrix unit, per element type."""
    functions_per_clock: int = 0
    """Powers of 2 and other functions that have a unit of their own; 0 = not known."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card with such a chip, and what it reaches at most: what measured times are shares of."""

    name: str
    """What the name that the driver says begins with."""
    gbytes_per_second: float
    """Of its memory."""
    gflops: Mapping[str, float]
    """Multiplications and additions of the matrix unit for operands of each type, in 10^9 a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One chip, or one instruction set of a CPU, as the passes see it."""

    target: str
    variant: str
    backend: Literal["llvm-cpu", "cuda", "rocm"]
    lanes: int
    concurrent_waves: bool
    """Whether the waves of a workgroup run at the same time; else one after another between barriers, on one core."""
    concurrent_workgroups: bool
    """Whether workgroups start in the order of their numbers and run at the same time, so that orders of tiles and
    workgroups that stay make a difference; else every core takes a part of the grid and runs it one by one."""
    out_of_order: bool
    """Whether the processor itself issues operations ahead of those they do not depend on.  Where it issues in order,
    loads overlap as far as the code has them ahead of what uses them."""
    register_tile: Literal["wave", "instruction"]
    """Compiler choice: the results that a wave holds in registers.  ``wave``: of its whole tile, many instructions.
    ``instruction``: of one, which fills the registers by design and which the wave tile is then."""
    most_unrolled: int
    """Compiler choice: matrix instructions of a wave, at most, that one step over staged tiles is written out to, as
    straight-line code; 0 = a loop stays, of ``MatrixInstruction.unroll`` steps an iteration."""
    rounded_types: tuple[str, ...] = ()
    """Types of fewer bits that an instruction rounds f32 to."""
    extremes_skip_nan: bool = False
    """Whether an instruction finds the larger or smaller one of numbers alone; to have NaN spread takes more."""
    whole_steps_apart: bool = False
    """Compiler choice: whether loops of products whose lanes leave out elements beyond an edge stand twice, without
    that for whole steps, where all waves compute; else only beside waves that copy."""
    slow_subnormals: bool = False
    """Whether results below the smallest normal number take an instruction many times as long as others."""
    any_vector_length: bool = False
    """Whether one access moves any number of elements; else 1, 2, 4 and so on."""
    fused_steps: bool = True
    """Whether an instruction multiplies and adds, and rounds once."""
    converts_f16: bool = True
    """Whether instructions convert f16 to f32 and back; else it is done by the bits of numbers."""
    element_masks: bool = False
    """Whether an instruction leaves out any elements of a vector, and does not touch their memory."""
    nearest_cache_bytes: int = 0
    """Bytes of the cache that loads ask first; 0 = not known, or all loads are alike."""
    core_cache_bytes: int = 0
    """Bytes of a cache that one core has for itself (the second level), the least of those that run this target;
    0 = none."""
    max_threads: int
    registers: int = 0
    """32-bit registers that one lane can hold; 0 = not a limit, because tiles are as large as the register file by
    design."""
    register_file: int = 0
    """32-bit registers of one processor, which the lanes of a workgroup share; 0 = not a limit."""
    register_step: int = 1
    """Registers of a lane that waves hand to each other together: what a lane has is a multiple."""
    limits_registers: bool = False
    """Whether the compiler behind can be told to leave registers for so many workgroups of a processor."""
    barriers: int = 1
    """Barriers that a workgroup has, for all of its waves or for some."""
    packed_products: tuple[str, ...] = ()
    """Types of fewer bits than f32 whose elements an instruction multiplies, several at a time."""
    packed_extremes: tuple[str, ...] = ()
    """Types of fewer bits than f32 of which an instruction finds the larger or smaller ones of two words; NaN stays."""
    joined_by_lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By function: the types that an instruction joins over all lanes of a wave, for each of them; of 64 bits the upper
    words, and then the lower ones of those lanes whose upper word that is."""
    widened_pairs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Types of 8 bits and less of which two are made numbers of 16 bits at a time: by an instruction, and what it calls
    them, or where that is empty by their bits."""
    narrowed_pairs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Types of 8 bits of which an instruction makes two of two numbers of f32, each the nearest one or the largest
    there is, and what it calls them."""
    fraction: str = ""
    """How the compiler behind calls an instruction on a vector of f32 that leaves the fraction of each element."""
    times_power: str = ""
    """How it calls one on two that multiplies the first by two to the power of what is whole of the second; where there
    is one, there is `fraction`."""
    word_table: str = ""
    """How the compiler behind calls an instruction on two vectors of 32 words of 16 bits, a table and places: each
    place becomes the word of the table that its last five bits number."""
    word_tables: str = ""
    """The same of one on three: a table, places, which have six bits, and the rest of the table."""
    byte_tables: str = ""
    """The one that looks 64 bytes up by seven bits each, in two vectors: `llvm.x86.avx512.vpermi2var.qi.512`."""
    byte_table: str = ""
    """How it calls one on two vectors of 32 bytes, each of two halves: each place becomes the byte
    of its half of the table that its last four bits number. Where there is no table of words."""
    vector_bytes: int = 0
    """Width of a vector register of one lane; 0 = as wide as the access."""
    vector_registers: int = 0
    """How many of these there are; 0 where lanes have no vectors."""
    shared: SharedMemory
    globals: GlobalMemory
    instructions: tuple[MatrixInstruction, ...]
    """In order of preference for ``mma: auto``."""
    compiler: Mapping[str, Any]
    """What the backend needs to be told: features, architecture name, target attribute."""
    masked_bits: int = 0
    """The smallest elements that an instruction leaves out of a vector one by one; 0 = of any size."""
    approximations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Instructions for functions of f32 that are off by 2^-10 of the largest value at most, by the function's name."""
    ratio: str = ""
    """Instruction for quotients of f32 that are off by two units in the last place at most, wherever they are numbers;
    empty: they are divided as they are elsewhere."""
    inverse_root: str = ""
    """Instruction for 1 by the root of an f32, off by two units in the last place at most, which its libraries take;
    empty: a root is taken and divided by."""
    close_powers: bool = False
    """Whether powers of 2 by the machine's instruction are as close as its libraries have them, which are made of it;
    else powers of e take a polynomial."""
    most_tensors: int = 0
    """Tensors that a launch takes; 0 = not a limit."""
    most_lines: int = 0
    """Lines of MLIR that the compiler behind takes in good time; 0 = not a limit."""
    turn_elements: int = 0
    """Compiler choice: elements of a value, at most, in one turn of waves that run one after another, where the spec
    does not say what a wave takes; 0 = all that the workgroup has."""
    step_elements: int = 0
    """Compiler choice: elements of a row, at most, in a step of a loop of a kernel without products, so that what is
    computed of them stays in registers; 0 = as many as the spec says."""
    long_sums: str = ""
    """Compiler choice: the type of what long sums of f32 come to, running ones and those of blocks; empty = f32."""
    carried_sums: str = ""
    """Compiler choice: the type in which steps of a loop carry what running sums of f32 start from; empty = f32."""
    longest_scan: int = 0
    """Compiler choice: elements of a row that a step of a loop goes through with code for each; 0 = all of its tile."""
    cards: tuple[Card, ...] = ()
    """The cards whose peaks are known."""
    processors: int = 0
    """Processors of the device, for kernels with one workgroup per processor; 0 = not known."""
    counters: bool = False
    """Whether a launch has numbers in memory that are 0 when it starts, as its launcher sees to."""
    fits_launches: bool = False
    """Whether a launch may have fewer waves in a workgroup than the code is for."""
    launch_overlap: bool = False
    """Whether a launch may begin before the one in front of it has ended, and waits for that by an instruction."""
    clusters: Mapping[int, int] = field(default_factory=dict[int, int])
    """Workgroups that can write each other's shared memory: how many such clusters run at the same time."""
    raster_group: int = 0
    """Workgroups along grid axis 0 that run together with their neighbours along axis 1; 0 = as axes come."""
    chiplets: int = 1
    """Parts of the device with a cache each, to which consecutive workgroups go in turns."""
    resources: Resources | None = None
    """None: waves take turns, nothing overlaps."""
    schedule_groups: bool = False
    """Whether the compiler behind can be told which kinds of operations to issue in turn; elsewhere the order of a plan
    is what it starts from."""
    wave_priorities: int = 0
    """Levels above the usual one that a wave can raise itself to; 0 = none."""
    requires: tuple[str, ...] = ()
    """Features (as the operating system names them) that the running machine must have."""
    by_name: bool = False
    """Whether a build has this variant only where it names it: for machines that hardly anyone has."""

    @property
    def architecture(self) -> str:
        """What machine code is for: the compiler's name of the chip, or of a family of instruction sets."""
        return self.compiler["arch"]

    def registers_of(self, threads: int) -> int:
        """Registers that each lane of a workgroup can have; 0 = not a limit."""
        limits = [self.registers, self.register_file // threads]
        return min((limit for limit in limits if limit), default=0)

    def workgroups_together(self, workers: int) -> int:
        """Of so many workgroups that stay, those of one processor; 1 where the spec says no number."""
        return -(-workers // self.processors) if workers and self.processors else 1

    def registers_at_launch(self, threads: int) -> int:
        """Registers that each lane of a workgroup starts with where its waves share out the whole register file."""
        return self.register_file // threads // self.register_step * self.register_step

    def workgroups_by_registers(self, needed: int, threads: int) -> int:
        """Workgroups that one processor has registers for, each of so many threads that share out ``needed`` of those
        that they start with; at least one."""
        most = self.register_file // needed
        return next((n for n in range(most, 1, -1) if self.registers_at_launch(threads * n) * threads >= needed), 1)

    def instruction(self, name: str) -> MatrixInstruction | None:
        """The row called ``name``, the other way round where the name ends in ``:swapped``; None for an unknown one."""
        plain, _, swapped = name.partition(":")
        found = next((row for row in self.instructions if row.name == plain), None)
        if swapped not in ("", "swapped"):
            return None
        return found.swapped() if found is not None and swapped else found

    def narrowed(self, chosen: Set[str], kept: Set[str] = frozenset()) -> Machine:
        """The machine as far as it decides the steps of lanes of a kernel whose instructions are ``chosen``: no others,
        no loads for others, and nothing that only passes over tiles, the emitters (`written_for`) or the compiler
        behind ask for.  Variants that differ elsewhere become alike.

        Args:
            kept: of `times_power` and `byte_tables` what steps of the kernel ask for.
        """
        instructions = tuple(row for row in self.instructions if row.name in chosen)
        shared, nearest = self.shared, self.nearest_cache_bytes
        if not any(row.in_tile_registers for row in instructions):
            shared = replace(shared, matrix_load="" if shared.matrix_load == "tile" else shared.matrix_load)
            nearest = 0
        return replace(
            self,
            instructions=instructions,
            shared=shared,
            globals=replace(self.globals, gathers=False),
            nearest_cache_bytes=nearest,
            extremes_skip_nan=False,
            fraction="",
            times_power=self.times_power if "times_power" in kept else "",
            byte_tables=self.byte_tables if "byte_tables" in kept else "",
            compiler={"arch": self.architecture},  # kernels for two architectures are never alike
            requires=(),
        )

    def written_for(self, machine: Machine, *, powers: bool, places: bool) -> Machine:
        """This one, which was ``narrowed``, with what only the code of powers of two, and of elements at places that
        are values, asks of ``machine``."""
        fraction, times_power = (machine.fraction, machine.times_power) if powers else ("", "")
        gathers = replace(self.globals, gathers=machine.globals.gathers and places)
        return replace(self, fraction=fraction, times_power=times_power, globals=gathers)


@cache
def machines(target: str) -> tuple[Machine, ...]:
    """What a target is built for, best first: of ``TARGET`` the variants of this machine's architecture, of
    ``TARGET:VARIANT+VARIANT`` those named.

    Of a target that has none of this architecture, it is the first one that the target has.  Variants that are for
    builds that name them are among the others where this machine runs one of them and nothing else.

    Errors: ``KeyError`` for an unknown target, or variant.
    """
    every, names = variants(target_of(target)), variants_in(target)
    if names:
        if unknown := names - {one.variant for one in every}:
            raise KeyError(*sorted(unknown))
        return tuple(one for one in every if one.variant in names)
    here = architecture()
    first = here if any(one.architecture == here for one in every) else every[0].architecture
    own = tuple(one for one in every if one.architecture == first)
    usual = tuple(one for one in own if not one.by_name)
    return own if len(own) > len(usual) and _runs_one_of(own) and not _runs_one_of(usual) else usual


def _runs_one_of(machines: tuple[Machine, ...]) -> bool:
    from wavespec.runtime.cpu_features import cpu_features  # imports torch, which GPUs are not asked about

    features = cpu_features()
    return any(features.issuperset(machine.requires) for machine in machines)


def same_everywhere(target: str) -> str:
    """A name of a target's variants of the first architecture that it has, but those that builds have to name, whatever
    machine asks."""
    every = [one for one in variants(target) if not one.by_name]
    return f"{target}:{'+'.join(one.variant for one in every if one.architecture == every[0].architecture)}"


@cache
def variants(target: str) -> tuple[Machine, ...]:
    """Every variant of a target, for whatever machine, the best of each architecture first; raises ``KeyError`` for an
    unknown target."""
    if target not in TARGETS:
        raise KeyError(target)
    text = (resources.files("wavespec.targets") / f"{target}.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = read_data(text)
    rows: list[dict[str, Any]] = data.pop("variants", [{}])
    return tuple(_machine(target, {**data, **row}) for row in rows)


def _machine(target: str, data: dict[str, Any]) -> Machine:
    """The variant that a file's keys, with those of one of its variants, describe."""
    own = {key: value for key, value in data.items() if key not in ("global", "matrix_instructions")}
    lanes: int = data["lanes"]
    instructions = tuple(one for row in data["matrix_instructions"] for one in instructions_of(row, lanes))
    known = {"target": target, "variant": target, "globals": data["global"], "instructions": instructions}
    return record(Machine, {**known, **own}, f"{target}.yaml")
