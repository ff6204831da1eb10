"""Tile kernel in, tile kernel out: reads of staged tensors become a copy into shared memory and a read from there."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, attribute_pairs, rewrite
from wavespec.ir.names import dim_of_wave
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import COPY, MMA, READ, WRITE
from wavespec.lower.arrange_staged import arrange_staged
from wavespec.lower.base import Pass
from wavespec.lower.blocks_of_reads import loops_of_reads, read_beside_products, reads_in_branches
from wavespec.lower.check_shared import SharedMemoryExceeded, check_shared
from wavespec.lower.choose_instructions import instruction_of, is_in_place
from wavespec.lower.common_buffers import buffers_in_common, loops_before
from wavespec.lower.decoded_operands import (
    arranged,
    decoded_values,
    laid_down_values,
    operands_of_lanes,
    staged_part,
    unpacked_operands,
)
from wavespec.lower.empty_dims import may_be_empty
from wavespec.lower.next_tiles import with_next_tiles
from wavespec.lower.read_again import reading_again
from wavespec.lower.read_beside import read_beside
from wavespec.lower.staged_places import place_of, places_behind, reads_behind
from wavespec.lower.sums_over_tiles import with_sums_over
from wavespec.lower.tile_properties import (
    products_have_instructions,
    reads_are_for_one_use,
    staged_tensors_are_copied,
    tiles_are_placed,
    tiles_have_extents,
)
from wavespec.lower.turned_tiles import turned_arrangement
from wavespec.lower.within_staged import within_others
from wavespec.ops.index_map import index_of, seen_by
from wavespec.ops.moved_writes import moved, moved_in_pieces
from wavespec.ops.shifted_rows import ShiftedRows, shifts_of_operand, with_shifted_rows, with_shifted_slabs
from wavespec.ops.staged_writes import begins_anywhere, shared_bytes_of_all, staging_of
from wavespec.ops.tensor_views import as_lines, as_matrices, as_windows
from wavespec.schema.checking.check_schedules import UselessSetting
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import Fragment, MatrixInstruction

SIGNALS_BYTES: Final = 1024
"""Left for signals, and in front of tiles that have to start at multiples."""


class NoMatrixStaged(WavespecError, code="nothing-to-stage"):
    def __init__(self, where: Where, tensor: str, dims: tuple[str, ...]) -> None:
        super().__init__(
            where,
            f"The tile of '{tensor}' is [{', '.join(dims)}]; tiles of two dims go through shared memory.",
            hints=["Leave out 'space'."],
        )


class StagedForNoProduct(WavespecError, code="nothing-to-stage"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            f"Waves that only copy fill shared memory for products, and no product reads '{tensor}' as it is.",
            hints=["Leave out 'space', or 'producers' of the schedule."],
        )


class PromoteShared(Pass):
    """Stage tiles through shared memory, in the arrangement that suits the machine and the operand.

    Before: reads of tensors marked ``staged``, of tensors whose element type the matrix instruction does not take, and
            of those whose elements a lane with a whole tile would find apart that its instruction takes side by side.
    After:  ``copy`` from the tensor to a shared memory ``<name>_shared``, then a read of that memory.  The memory
            holds the tile of the workgroup, or of one wave where waves run one after another, the operand is staged in
            rows and the product stands beside the read.  What an instruction takes from where it is, is converted when
            it is read; ``by_unit`` marks reads that the matrix unit does itself.  Beside waves that only copy, a
            ``write`` gets a shared memory ``<name>.staged_<width>`` that its tile leaves through.
            What lanes read beside products has one buffer where there is no room for more, and the sums that
            workgroups hand each other lie over the tiles of their loop where there is none beside them.  Results leave
            through a tile of operands in front of all loops where a schedule asks for two of that and there is no room.
            Several reads of one tile in a block share a copy, and what the matrix unit reads of the columns of another
            tile it reads there, with a mapping.
            What meets an operand that lanes convert themselves is read inside of its tensor, ``clamped``.
            What a product would have staged, and lies at places that are computed, is read as it is: ``direct``; so is
            what is read in a branch beside waves that only copy, which know of no steps that some have.
            Rows that taps of several lines shift are there once for a workgroup: tiles begin ``further`` down.
            Copies with an index mapping have ``at`` and ``over``, and ``through``, the values that places depend
            on: (symbol, memory, place), each behind those that its own place depends on.
    Errors: ``computed-place`` at the read; ``shared-memory-exceeded`` at the loop's tile; ``unit-tile`` and
            ``nothing-to-stage`` at the tensor.
    """

    name: ClassVar[str] = "promote-shared"
    requires = (products_have_instructions, reads_are_for_one_use, tiles_have_extents, tiles_are_placed)
    ensures = (staged_tensors_are_copied,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        staging = _Staging(kernel, machine)
        try:
            promoted = _promoted(kernel, machine, staging)
        except SharedMemoryExceeded:
            if not staging.beside:
                raise
            staging = _Staging(kernel, machine, stages_beside=1)
            promoted = _promoted(kernel, machine, staging)
        _check_buffers(kernel, staging)
        return promoted


def _check_buffers(kernel: Kernel, staging: _Staging) -> None:
    """Refuse a number of buffers for a tensor that has none of its own, in a schedule for this target."""
    roles = kernel.distribution.roles
    known = {op["memory"] for op in kernel.walk() if op.is_(READ) and op.result.name in staging.beside}
    known.update(staging.next_tiles().values())
    for name, _ in roles.buffers:
        if name not in known and kernel.distribution.is_for_target:
            why = "no lanes read staged tiles of it beside products, nor is one copied ahead for the next tile"
            raise UselessSetting(roles.where("buffers", name), name, why, "Leave it out for this target.")


def _promoted(kernel: Kernel, machine: Machine, staging: _Staging) -> Kernel:
    """The kernel with what the staging says in place of its reads and writes, if that fits the machine."""
    body = _filled_once(rewrite(kernel.body, staging.change))
    retyped = {op.result.name: op.result for new in body for op in new.walk() if op.is_(READ)}

    def use(op: Op) -> tuple[Op, ...]:
        return (replace(op, operands=tuple(retyped.get(v.name, v) for v in op.operands)),)

    added = staging.with_next_tiles()
    kernel = replace(kernel, body=rewrite(body, use), memories=(*kernel.memories, *added.values()))
    kernel = with_sums_over(kernel, staging.tiles_of_loops(), machine.shared.bytes - SIGNALS_BYTES)
    check_shared(kernel, machine)
    symbols = (node for op in kernel.walk() for expr in op.expressions() for node in expr.walk())
    return kernel.with_symbols(*dict.fromkeys(node for node in symbols if node.kind == "symbol"))


class _Staging:
    """What stands in place of the reads and writes of a kernel; ``added``: the shared memories that they use."""

    def __init__(self, kernel: Kernel, machine: Machine, stages_beside: int = 0) -> None:
        """``stages_beside``: of what lanes read beside products; 0: as many as of all others."""
        self.kernel, self.machine = kernel, machine
        self.operands: dict[str, tuple[Op, Fragment]] = {}
        self.products: list[tuple[MatrixInstruction, tuple[str, str]]] = []
        for op in kernel.walk():
            if op.is_(MMA):
                row = instruction_of(op, machine)
                self.products.append((row, (op["m"], op["n"])))
                self.operands |= {op.operands[0].name: (op, row.a), op.operands[1].name: (op, row.b)}
        self.together, self.added = set(read_beside_products(kernel.body)), dict[str, Memory]()
        self.loops = loops_of_reads(kernel) if kernel.producers else {}
        self.before = loops_before(kernel) if kernel.producers else {}
        self.in_branches = reads_in_branches(kernel) if kernel.producers else set[str]()
        self.filled_in: dict[str, int | None] = {}
        self.tensors: dict[str, str] = {}
        self.mapped: dict[tuple[Any, ...], str] = {}
        self.decoded = decoded_values(kernel) | laid_down_values(kernel)
        self.unpacked, self.of_lanes = unpacked_operands(kernel, machine), operands_of_lanes(kernel, machine)
        self.beside = read_beside(kernel, machine) - self.decoded
        self.within = within_others(kernel, machine)
        # Roles keep as many copies as there are stages; elsewhere the plan of the loop says how many it needs.
        self.stages = kernel.distribution.stages if kernel.producers else 1
        self.stages_beside = stages_beside or self.stages

    def change(self, op: Op) -> tuple[Op, ...]:
        if op.is_(WRITE):
            return (self._write(op),)
        return self._read(op) if op.is_(READ) and not op.get("direct") else (op,)

    def _write(self, op: Op) -> Op:
        kernel, memory, lines = self.kernel, self.kernel.memory(op["memory"]), None
        if op.get("combine") or not kernel.producers or kernel.distribution.split != 1 or may_be_empty(kernel, memory):
            return op
        tile = op.operands[0].tile.dims
        if op.get("at"):
            known = moved(op, kernel) or as_matrices(op, kernel, tile)
            seen = known or (lines := as_lines(op, kernel, tile)) or moved_in_pieces(op, kernel)
            if seen is None:
                return op
            memory = seen.tile
        row, dims = next(((row, dims) for row, dims in self.products if dims == tile), (None, ("", "")))
        staged = staging_of(memory, row, dims, kernel.wave_count, self.machine, self._room()) if row else ()
        if not staged or (lines and any(not begins_anywhere(memory) for memory in staged)):
            return op
        self.added |= {memory.name: memory for memory in staged}
        return op.with_(staged=tuple(memory.name for memory in staged))

    def with_next_tiles(self) -> dict[str, Memory]:
        """The memories, with the next tile of the workgroup where that is copied ahead."""
        added, within = dict(self.added), self._in_common()
        added |= {name: replace(added[name], shares=other) for name, other in within.items()}
        return with_next_tiles(self.kernel, added, self.next_tiles(), self._room())

    def next_tiles(self) -> dict[str, str]:
        """The memories that are filled in front of loops, for each tile of a workgroup, and the tensor of each."""
        walks = self.kernel.producers and self.kernel.distribution.persistent
        return {name: self.tensors[name] for name, loop in self.filled_in.items() if loop is None} if walks else {}

    def _in_common(self) -> dict[str, str]:
        return buffers_in_common(self.added, self.filled_in, self.before)

    def tiles_of_loops(self) -> tuple[str, ...]:
        return tuple(name for name, loop in self.filled_in.items() if loop is not None)

    def _room(self) -> int:
        """Bytes of shared memory that nothing has yet; sums lie over tiles of loops wherever they may."""
        within = self._in_common()
        apart = (memory for name, memory in self.added.items() if name not in within)
        kernel = replace(self.kernel, memories=(*self.kernel.memories, *apart))
        taken = shared_bytes_of_all(with_sums_over(kernel, self.tiles_of_loops(), 0).memories)
        return self.machine.shared.bytes - SIGNALS_BYTES - taken

    def _read(self, op: Op) -> tuple[Op, ...]:
        source, value = seen_by(op, self.kernel), op.result
        if (k := self.of_lanes.get(value.name)) is not None:
            return (reading_again(op, source, k),)
        if value.name in self.in_branches:  # nobody else knows whether a step has it
            return (op.with_(direct=True),)
        product, fragment = self.operands.get(value.name, (None, None))
        if product is not None and fragment is not None and fragment.staging == "none":
            result = replace(value, type=replace(value.tile, dtype=fragment.dtype))
            lengths = ((product[name], fragment.layout.run_length(name)) for name in ("m", "n"))
            vectors = {product["k"], *(dim for dim, length in lengths if length > 1)}
            rows = tuple(dim for dim in source.dims if dim not in vectors)
            return (replace(op.with_(clamped=rows, **_bias(fragment)), results=(result,)),)
        if product is not None and not source.staged and not op.get("at") and self._meets_unpacked(product):
            return (op.with_(clamped=tuple(dim for dim in source.dims if dim != product["k"])),)
        is_read_there = fragment is not None and (fragment.dtype != source.dtype or fragment.from_shared)
        if not (source.staged or is_read_there or self._is_gathered(source, product, fragment)):
            return (op,)
        if not source.staged and not self.kernel.producers and reads_behind(self.kernel, op)[1]:
            return (op.with_(direct=True),)
        return self._copied(op, source, product, fragment)

    def _meets_unpacked(self, product: Op) -> bool:
        """Whether lanes convert the other operand themselves: rows beyond the edge then cost registers to zero, and
        nobody sees what is made of them."""
        return any(value.name in self.unpacked for value in product.operands[:2])

    def _is_gathered(self, source: Memory, product: Op | None, fragment: Fragment | None) -> bool:
        """Whether a lane with a whole tile would find elements that its instruction takes side by side apart in the
        tensor, and read them one by one: each of these reads would be code of its own."""
        if product is None or fragment is None or not fragment.in_panels:
            return False
        rows_alone = all(axis.stride("k") != 1 for axis in fragment.layout.axes)
        is_whole = rows_alone and source.contiguous_dim != product["k"]
        return self.machine.shared.arrangement == "panels" and len(source.dims) > 1 and not is_whole

    def _copied(self, op: Op, source: Memory, product: Op | None, fragment: Fragment | None) -> tuple[Op, ...]:
        """The copy of a tile into shared memory, and the read of it there."""
        value, kernel = op.result, self.kernel
        if op.get("at") and value.name in self.decoded and not self._in_boxes(op, source):
            return self._part_copied(op)
        if value.name in self.within:
            return self._copied_with_others(op)
        dims = tuple(dim for dim in source.dims if dim in value.tile.dims)
        in_rows = fragment is not None and fragment.of_rows
        shifts = shifts_of_operand(op, dims, source, self.machine, in_rows=in_rows) if product is not None else None
        has_lines = shifts is not None and shifts.lines > 1
        origin, local, extents = self._part(op, dims, None if has_lines else fragment)
        if product is None and kernel.producers and value.name not in self.decoded | self.beside:
            raise StagedForNoProduct(source.span or op.span, source.name)
        if len(dims) != 2:
            raise NoMatrixStaged(source.span or op.span, source.name, dims)
        shared = self._memory(op, source, tuple((dim, extents[dim]) for dim in dims), product, fragment, shifts)
        where = {"source": source.name, "memory": shared.name, "origin": tuple(origin.items())} | _bias(fragment)
        where |= _cache(op)
        if op.get("at"):
            where |= {"at": place_of(op, kernel), "over": op["over"], "through": places_behind(kernel, op)}
        if shifts and has_lines:
            where["further"] = ((dims[0], shifts.most),)
        copy = Op("copy", attributes=attribute_pairs(where), span=op.span, node=op.node)
        result = replace(value, type=replace(value.tile, dtype=shared.dtype))
        read = replace(op.without("at", "over", "cache"), operands=())
        read = replace(read.with_(memory=shared.name, origin=tuple(local.items())), results=(result,))
        if shifts and has_lines:
            read = read.with_(further=((dims[0], shifts.at(index_of(dims[1]))),))
        if product is not None and instruction_of(product, self.machine).reads_shared:
            read = read.with_(by_unit=True)
        return (copy, read)

    def _in_boxes(self, op: Op, source: Memory) -> bool:
        """Whether the machine itself copies the elements of a mapping, as they are, to where they are decoded."""
        extents = dict(zip(op.result.tile.dims, op.result.tile.extents, strict=True))
        dims = tuple(dim for dim in source.dims if dim in extents)
        if len(dims) != 2:
            return False
        sizes = tuple(const(extents[dim]) for dim in dims)
        shared = arranged(Memory("", source.dtype, dims, sizes, "shared", staged=True))
        copy = self._copy_of(op)
        return bool(as_matrices(copy, self.kernel, dims) or as_windows(copy, self.kernel, shared, self.machine))

    def _copy_of(self, op: Op) -> Op:
        copy = Op("copy", attributes=attribute_pairs({"source": op["memory"], "at": place_of(op, self.kernel)}))
        return copy.with_(over=op["over"], origin=op["origin"])

    def _copied_with_others(self, op: Op) -> tuple[Op, ...]:
        """The copy of the wider tile that has the operand, and the read of its part."""
        found = self.within[op.result.name]
        copy, read = self._copied(found.read, seen_by(found.read, self.kernel), *self.operands[found.read.result.name])
        place, local = index_of(found.along) + found.start, dict(read["origin"])
        origin = {dim: local.get(dim, const(0)) for dim in op.result.tile.dims}
        at = tuple((dim, place if dim == found.dim else index_of(dim)) for dim in local)
        part = read.with_(origin=tuple(origin.items()), at=at, over=op.result.tile.dims)
        return (copy, replace(part, results=op.results))

    def _part_copied(self, op: Op) -> tuple[Op, ...]:
        """The copy of what a mapping finds of its tensor, and the read of that; as it is where boxes do not do."""
        part = staged_part(op, self.kernel, self.machine)
        if part is None:
            return (op.with_(direct=True),)
        shared = self._added(replace(part.shared, span=op.span), op)
        where = {"source": op["memory"], "memory": shared.name, "origin": part.origin} | _cache(op)
        copy = Op("copy", attributes=attribute_pairs(where), span=op.span, node=op.node)
        return (copy, op.without("cache").with_(memory=shared.name, at=part.at))

    def _part(
        self, op: Op, dims: tuple[str, ...], fragment: Fragment | None
    ) -> tuple[dict[str, Expr], dict[str, Expr], dict[str, int]]:
        """What a memory holds of a tile: where that is in the tensor, where the tile is in the memory, and how much it
        is along each dim; the rows of one wave, where waves have rows of their own."""
        tile = op.result.tile
        origin, local = dict(op["origin"]), dict.fromkeys(dims, const(0))
        extents = dict(zip(tile.dims, tile.extents, strict=True))
        own = fragment is not None and fragment.of_rows and op.result.name in self.together
        for name, count in self._outermost(op) if self.machine.shared.private_rows and own else ():
            if (dim := dim_of_wave(name)) in extents:
                extents[dim] //= count
                start = self.kernel.symbol(name) * extents[dim]
                origin[dim], local[dim] = origin[dim] + start, local[dim] - start
        return origin, local, extents

    def _outermost(self, op: Op) -> Iterator[tuple[str, int]]:
        """The waves of a product's operand whose turns are within no others of the product, which would copy its rows
        again; all of them where rows are read in place."""
        product, _ = self.operands[op.result.name]
        names = [one for one in self.kernel.waves if dim_of_wave(one[0]) in (product["m"], product["n"]) and one[1] > 1]
        return iter(names if is_in_place(self.kernel) else names[:1])

    def _memory(
        self,
        op: Op,
        source: Memory,
        extents: tuple[tuple[str, int], ...],
        product: Op | None,
        fragment: Fragment | None,
        shifts: ShiftedRows | None,
    ) -> Memory:
        """The memory for a tile, arranged for its product; the same one for all that stage the same alike."""
        dims, sizes = tuple(dim for dim, _ in extents), tuple(const(extent) for _, extent in extents)
        dtype = fragment.dtype if fragment else source.dtype
        name = self._name_of_mapped(op) if op.get("at") else f"{source.name}.shared"
        shared = Memory(name, dtype, dims, sizes, "shared", staged=True, span=op.span)
        by_lanes = product is not None and not instruction_of(product, self.machine).reads_shared
        if op.result.name in self.decoded | self.beside or (self.kernel.producers and by_lanes):
            return self._added(arranged(shared), op)
        if product is not None and not op.get("at"):
            turned = turned_arrangement(shared, source, product, self.kernel, self.machine)
            if turned is not None:
                return self._added(replace(shared, arrangement=turned), op)
        if product is not None and shifts is not None:
            once = self._once_for_shifts(op, shared, shifts, product, fragment)
            if once is not None:
                return self._added(once, op)
        across = product is None and op.result.tile.dims[-1] != dims[-1]
        arranged_tile = arrange_staged(shared, product, fragment, self.machine, source.span, across=across)
        return self._added(arranged_tile, op)

    def _once_for_shifts(
        self, op: Op, shared: Memory, rows: ShiftedRows, product: Op, fragment: Fragment | None
    ) -> Memory | None:
        """The tile with rows that are shifted once, where what reads it takes them from where they are then."""
        if fragment is not None and fragment.of_rows and self.machine.shared.private_rows:
            return with_shifted_rows(shared, rows)
        if not self.kernel.producers or not instruction_of(product, self.machine).reads_shared:
            return None
        once = with_shifted_slabs(shared, rows)
        return once if once and as_windows(self._copy_of(op), self.kernel, once, self.machine) else None

    def _name_of_mapped(self, op: Op) -> str:
        """Of the memory for a tile whose mapping is that of an earlier read."""
        key = op["memory"], op["at"], op["origin"], op.operands  # which say what values in places are
        return f"{self.mapped.setdefault(key, op.result.name)}.shared"

    def _added(self, shared: Memory, op: Op) -> Memory:
        """The memory with as many buffers as there are steps in flight; the same one for what is staged alike."""
        loop = self.loops.get(op.result.name)
        stages = 1 if self.kernel.producers and loop is None else self.stages  # nothing is read behind it
        if op.result.name in self.beside and loop is not None:
            asked = dict(self.kernel.distribution.roles.buffers)
            stages = asked.get(op["memory"], self.stages_beside if stages > 1 else stages)
        elsewhere = {name for name, other in self.filled_in.items() if other != loop}
        shared = unlike(replace(shared, buffers=stages), self.added, elsewhere)
        self.added[shared.name], self.filled_in[shared.name] = shared, loop
        self.tensors[shared.name] = op["memory"]
        return shared


def _cache(op: Op) -> dict[str, str]:
    """How a tensor is accessed, of which a copy is read."""
    cache = op.get("cache")
    return {"cache": cache} if cache else {}


def _filled_once(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations without copies of what a copy before them in the block has left in the same memory."""
    result: list[Op] = []
    holds: dict[str, object] = {}
    for op in ops:
        if op.region:
            op = replace(op, region=replace(op.region, ops=_filled_once(op.region.ops)))
            for inner in op.walk():
                if inner.is_(COPY):
                    holds.pop(inner["memory"], None)
        elif op.is_(COPY):
            what = key_of_attributes(op)
            if holds.get(op["memory"]) == what:
                continue
            holds[op["memory"]] = what
        result.append(op)
    return tuple(result)


def _bias(fragment: Fragment | None) -> dict[str, int]:
    return {"bias": fragment.bias} if fragment and fragment.bias else {}


def unlike(shared: Memory, others: Mapping[str, Memory], elsewhere: Collection[str] = ()) -> Memory:
    """The memory under a name of its own, unless a tile of the same tensor or value is staged alike, and not
    ``elsewhere``."""
    for number in itertools.count():
        named = replace(shared, name=f"{shared.name}{number or ''}")
        if named.name in elsewhere:
            continue
        if named.name not in others or replace(others[named.name], span=shared.span) == named:
            return named
    raise AssertionError("names do not end")
