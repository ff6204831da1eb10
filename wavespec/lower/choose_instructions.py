"""Tile kernel in, tile kernel out: every mma names its matrix instruction and which dims are m, n and k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel, Memory, Op, TileType, rewrite
from wavespec.ir.tile_ops import ACROSS, ITERATE, MMA, READ, REDUCE, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import (
    products_are_of_matrices,
    products_have_instructions,
    products_have_three_operands,
)
from wavespec.ops.index_map import lies_along
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_SWAPPED = ":swapped"
_FIRST_IN_PLACE = {"left_in_place": 0, "right_in_place": 1}
"""The operand whose rows lie where the instruction takes them, by what asks for the best instruction for that."""
_ANY = ("auto", *_FIRST_IN_PLACE)
_TURNED_BYTES = 2  # of an element that lanes exchange rows and columns of on the way to shared memory


class UnknownMatrixInstruction(WavespecError, code="unknown-matrix-instruction"):
    def __init__(self, where: Where, written: str, machine: Machine) -> None:
        names = ", ".join(dict.fromkeys(f"'{row.family}'" for row in machine.instructions if row.inputs))
        super().__init__(
            where,
            f"{machine.variant} has no matrix instruction '{written}'.",
            hints=[f"It has {names}, or write 'auto'."],
        )


class NoMatrixInstruction(WavespecError, code="no-matrix-instruction"):
    def __init__(self, where: Where, inputs: str, acc: str, written: str, machine: Machine) -> None:
        what = (
            f"'{written}' does not multiply"
            if written not in _ANY
            else f"{machine.variant} has no matrix instruction for"
        )
        fits = [
            row.family
            for row in machine.instructions
            if row.acc.dtype.name == acc and inputs in [d.name for d in row.inputs]
        ]
        hint = (
            f"For these types it has {', '.join(dict.fromkeys(fits))}."
            if fits
            else f"Change the element types: nothing in {machine.variant} multiplies {inputs} into {acc}."
        )
        super().__init__(where, f"{what} {inputs} inputs into {acc}.", hints=[hint])


class RolesNotPossible(WavespecError, code="roles-not-possible"):
    def __init__(self, where: Where, row: MatrixInstruction) -> None:
        super().__init__(
            where,
            f"Waves that only copy need an instruction that reads shared memory itself; {row.name} does not.",
            hints=["Leave out 'producers' for this target or these types."],
        )


class ProducerNeeded(WavespecError, code="producer-needed"):
    def __init__(self, where: Where, row: MatrixInstruction) -> None:
        super().__init__(
            where,
            f"{row.name} reads shared memory itself, which a wave of its own has to fill.",
            hints=["Add 'waves: {producers: 1}' to the schedule."],
        )


class OperandNotContiguous(WavespecError, code="operand-not-contiguous"):
    def __init__(self, where: Where, row: MatrixInstruction, memory: Memory, k: str) -> None:
        super().__init__(
            where,
            f"{row.name} reads tiles in which '{k}' is contiguous; '{memory.name}' is [{', '.join(memory.dims)}].",
            hints=[f"Store the tensor with '{k}' last, or use elements of 2 bytes."],
        )


class NotMatrices(WavespecError, code="not-matrices"):
    def __init__(self, where: Where, operands: Sequence[TileType]) -> None:
        shapes = [f"[{', '.join(tile.dims)}]" for tile in operands]
        super().__init__(
            where,
            "A matrix instruction multiplies [m, k] by [n, k] into [m, n]; "
            f"here {shapes[0]} by {shapes[1]} into {shapes[2]}.",
            hints=[
                "Give both operands two dims, and others that they have a tile: {workgroup: ..., tile: 1, axis: ...}."
            ],
        )


class ChooseInstructions(Pass):
    """Pick the matrix instruction of each mma and the way round it is used.

    Before: mma has its operands, and ``variant`` where the spec names its instruction.
    After:  mma has ``instruction``, ``m``, ``n``, ``k``.  With ``auto`` it is the machine's first that fits types and
            tiles, with the name of a family the first of that.  A name that ends in ``:swapped`` computes the
            transposed product, chosen when a lane then owns longer runs of the output's contiguous dim (wider
            stores), but where `WalkRows` lays down rows, and where the spec says whose rows are ``left_in_place`` or
            ``right_in_place``: those are the instruction's own.
            What reads operands in place has vectors of neighbours in memory, if anything that fits the tiles has.
            Where scores are joined, tile registers have no more rows than half of the vector registers.
            Instructions that read shared memory themselves are for kernels with waves that only copy, unless other
            waves share out what a product sums over; what is computed is their first operand, or both are.
    Errors: ``unknown-matrix-instruction``, ``no-matrix-instruction``, ``producer-needed`` at the hardware constraint,
            or at the mma that names its instruction; ``not-matrices`` at the mma; ``roles-not-possible`` at the
            schedule's waves; ``operand-not-contiguous`` at the read;
    """

    name: ClassVar[str] = "choose-instructions"
    requires = (products_have_three_operands,)
    ensures = (products_are_of_matrices, products_have_instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        def change(op: Op) -> tuple[Op, ...]:
            return (self._choose(kernel, op, machine),)

        chosen = replace(kernel, body=rewrite(kernel.body, change, MMA))
        products = [op for op in chosen.walk() if op.is_(MMA)]
        if len({op["instruction"].endswith(_SWAPPED) for op in products}) == 1 or not products:
            return chosen
        square = {op.result.name for op in products if (row := instruction_of(op, machine)).m == row.n}

        def turn(op: Op) -> tuple[Op, ...]:
            """Products that meet in one kernel are distributed in the same way."""
            if op.result.name not in square or op["instruction"].endswith(_SWAPPED):
                return (op,)
            if (op["n"], op["m"]) not in _ways(kernel, op, instruction_of(op, machine), (op["m"], op["n"])):
                return (op,)
            return (op.with_(instruction=op["instruction"] + _SWAPPED),)

        return replace(chosen, body=rewrite(chosen.body, turn, MMA))

    def _choose(self, kernel: Kernel, op: Op, machine: Machine) -> Op:
        a, b, acc = (value.tile for value in op.operands)
        if {len(tile.dims) for tile in (a, b, acc)} != {2}:
            raise NotMatrices(op.span, (a, b, acc))
        written = op.get("variant") or kernel.distribution.instruction
        where = op.span if op.get("variant") else kernel.distribution.instruction_span or op.span
        named = machine.instruction(written)
        family = [row for row in machine.instructions if row.family == written] if named is None else [named]
        if written not in _ANY and not family:
            raise UnknownMatrixInstruction(where, written, machine)
        rows = family or [row for row in machine.instructions if row.auto]
        rows = [r for r in rows if a.dtype in r.inputs and acc.dtype == r.acc.dtype]
        if not rows:
            raise NoMatrixInstruction(where, a.dtype.name, acc.dtype.name, written, machine)
        roles = kernel.distribution.roles
        (k,) = (dim for dim in a.dims if dim in b.dims and dim not in acc.dims)
        # A matrix unit that reads shared memory has no part of what waves share out along k: `AssignTiles` says so.
        are_shared = _waves_share(kernel, k)
        by_unit = bool(roles.producers) and not are_shared
        suited = [row for row in rows if row.reads_shared == by_unit] or (rows if are_shared else [])
        if not suited:
            if roles.producers:
                raise RolesNotPossible(roles.span, rows[0])
            raise ProducerNeeded(where, rows[0])
        (m,) = (dim for dim in a.dims if dim != k)
        (n,) = (dim for dim in b.dims if dim != k)
        for value in op.operands[:2]:
            _check_major(kernel, suited[0], value.name, k)

        tiles = _tiles(kernel, machine)

        def misfits(each: tuple[MatrixInstruction, tuple[str, str]]) -> int:
            return _misfits(tiles, each[0], (*each[1], k))

        def rows_read(each: tuple[MatrixInstruction, tuple[str, str]]) -> int:
            return _rows_read(tiles, *each)

        # The best instruction that fits the tiles; none does: one that nearly does, and `AssignTiles` says why not.
        possible = _ways(kernel, op, suited[0], (m, n))
        if written in _FIRST_IN_PLACE:
            possible = (((m, n), (n, m))[_FIRST_IN_PLACE[written]],)
        ways = [(row, way) for way in possible for row in suited]
        if fitting := [each for each in ways if not misfits(each)]:
            if are_shared and _loads_first(kernel, op):
                fitting.sort(key=lambda each: each[1] == (m, n))
            fitting.sort(key=lambda each: _lie_across(kernel, op, *each))
            if _joins_scores(kernel):
                fitting.sort(key=lambda each: each[0].in_tile_registers and each[0].m > machine.vector_registers // 2)
            row, way = min(fitting, key=rows_read) if self._leaves_turned(kernel) else fitting[0]
        else:
            row, way = min(ways[: len(suited)], key=misfits)
        contiguous = {memory.contiguous_dim for memory in self._written(kernel)}
        wider = (n, m) in possible and _wider_when_swapped(row, m, n, contiguous)
        swapped = way == (n, m) or (wider and not _walks_rows(kernel, n, machine))
        return op.with_(instruction=row.name + (_SWAPPED if swapped else ""), m=m, n=n, k=k)

    def _written(self, kernel: Kernel) -> list[Memory]:
        return [kernel.memory(op["memory"]) for op in kernel.walk() if op.is_(WRITE)]

    def _leaves_turned(self, kernel: Kernel) -> bool:
        """Whether sums of a product that is turned round leave as fast: the machine turns what has 2 bytes."""
        return all(memory.dtype.bytes == _TURNED_BYTES for memory in self._written(kernel))


def _ways(kernel: Kernel, op: Op, row: MatrixInstruction, dims: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The ways round that an instruction can be used, the product as it stands first: what reads shared memory itself
    takes its second operand from nowhere else."""
    ways = dims, (dims[1], dims[0])
    if not row.reads_shared:
        return ways
    read = {known.result.name for known in kernel.walk() if known.is_(READ)}
    found = tuple(way for way, value in zip(ways, reversed(op.operands[:2]), strict=True) if value.name in read)
    return found or ways  # both are computed: both are laid down for it


def _waves_share(kernel: Kernel, k: str) -> bool:
    """Whether several waves have each a part of the elements that a product sums over: asked before it has an
    instruction, which `waves_of_sum` looks at."""
    steps = {split.dim: split.tile for split in kernel.distribution.loops}
    return any(split.dim == k and split.tile < steps.get(k, 0) for split in kernel.distribution.waves)


def _joins_scores(kernel: Kernel) -> bool:
    """Whether a loop joins along a dim what a product in it has side by side: its rows come out of tile registers, and
    one vector of each is alive at a time."""
    loops = [op for op in kernel.body if op.is_(ITERATE)]
    joined = {(id(loop), op["dim"]) for loop in loops for op in loop.body.ops if op.is_(REDUCE)}
    products = [(loop, op) for loop in loops for op in loop.body.ops if op.is_(MMA)]
    return any((id(loop), dim) in joined for loop, op in products for dim in op.operands[1].tile.dims)


def _loads_first(kernel: Kernel, op: Op) -> bool:
    """Whether lanes load the first operand as it is, and make the second one of what they load.  Registers of the
    operand of more rows are of two rows in turns, which no load of neighbours fills."""
    read = {known.result.name for known in kernel.walk() if known.is_(READ)}
    first, second = (value.name in read for value in op.operands[:2])
    return first and not second


def _check_major(kernel: Kernel, row: MatrixInstruction, operand: str, k: str) -> None:
    read = next((op for op in kernel.walk() if op.is_(READ) and op.result.name == operand), None)
    if read is not None and row.reads_shared and "mn" not in row.majors:
        memory = kernel.memory(read["memory"])
        if not lies_along(read, memory, k):
            raise OperandNotContiguous(read.span, row, memory, k)


def _tiles(kernel: Kernel, machine: Machine) -> dict[str, int]:
    """Of the distribution: elements along each dim that one wave, or a step of a loop, takes."""
    plan = kernel.distribution
    tiles = {dim: size.value for dim, size in kernel.all_sizes.items() if size.is_const}
    tiles |= {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
    if machine.register_tile == "wave":
        tiles |= {split.dim: split.tile for split in plan.waves}
    return tiles


def _misfits(tiles: Mapping[str, int], row: MatrixInstruction, dims: Sequence[str]) -> int:
    """In how many dims the tiles of the distribution are no whole numbers of the instruction.  What takes one row, or
    one column, is for tiles of one: of more it would read the other operand as often."""
    extents = dict(zip(dims, (row.m, row.n, row.k), strict=True))
    single = [dim for dim in dims[:2] if extents[dim] == 1]
    parts = sum(tiles.get(dim, extent) % extent != 0 for dim, extent in extents.items())
    return parts + sum(tiles.get(dim, 1) > 1 for dim in single)


def _lie_across(kernel: Kernel, op: Op, row: MatrixInstruction, way: tuple[str, str]) -> int:
    """How many of the operands that the instruction reads in place have its vectors along another dim than that of
    which neighbours are neighbours in memory.  What is computed is laid down as it is needed."""
    reads = {known.result.name: known for known in kernel.walk() if known.is_(READ)}
    found = 0
    for part, name, dim in zip((row.a, row.b), "mn", way, strict=True):
        value = next(value for value in op.operands[:2] if dim in value.tile.dims)
        if part.staging == "none" and (read := reads.get(value.name)):
            letters = {each: "k" for each in value.tile.dims} | {dim: name}
            along = [each for each, letter in letters.items() if part.layout.run_length(letter) > 1]
            found += not all(lies_along(read, kernel.memory(read["memory"]), each) for each in along)
    return found


def _rows_read(tiles: Mapping[str, int], row: MatrixInstruction, way: tuple[str, str]) -> int:
    """Of both operands, by all instructions of a wave in one step along k, where they read shared memory themselves."""
    m, n = (tiles.get(dim, extent) // extent for dim, extent in zip(way, (row.m, row.n), strict=True))
    return m * n * (row.m + row.n) if row.reads_shared else 0


def _wider_when_swapped(row: MatrixInstruction, m: str, n: str, contiguous: set[str]) -> bool:
    layouts = (row.acc.layout, row.swapped().acc.layout)
    straight, swapped = (
        max([x.run_length("m") if m in contiguous else 1, x.run_length("n") if n in contiguous else 1]) for x in layouts
    )
    return row.m == row.n and swapped > straight


def _walks_rows(kernel: Kernel, columns: str, machine: Machine) -> bool:
    """Whether `WalkRows` lays rows down, side by side, for what joins their elements."""
    return machine.register_tile == "instruction" and any(op.is_(ACROSS) and op["dim"] == columns for op in kernel.body)


def is_in_place(kernel: Kernel) -> bool:
    """Whether the spec says of products which operand's rows they read where they lie."""
    return kernel.distribution.instruction in _FIRST_IN_PLACE


def instruction_of(op: Op, machine: Machine) -> MatrixInstruction:
    """The machine row that an mma names."""
    row = machine.instruction(op["instruction"])
    assert row is not None, f"{machine.variant} lost its instruction '{op['instruction']}'"
    return row
