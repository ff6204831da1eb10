"""Thread kernel in, thread kernel out: boxes deal out the rows of tiles that products read, so that a matrix load hands
out the tiles of bytes that lanes read beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread import row_axis
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BULK_COPY,
    FOR,
    LOAD,
    MMA_ASYNC,
    MMA_COMMIT,
    MMA_FENCE,
    MMA_WAIT,
    PAD,
    PURE,
    SHUFFLE,
)
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.matrices_of_bytes import MatricesOfBytes
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.schedule.buffer_ring import READS
from wavespec.targets.machine import Machine

_PAIR = 2
"""Columns side by side of a fragment that a lane has."""
_QUAD = 4
_FRAGMENT = _PAIR * _QUAD
"""Columns of a fragment."""
_DEALT = 2
"""Parts of a tile, each of every second row."""
_RUN = _PAIR * _DEALT
"""Columns side by side of a tile of bytes that a lane has then: those that a matrix load gives it."""
_WAITS = ASYNC_COMMIT | ASYNC_WAIT | MMA_FENCE | MMA_COMMIT | MMA_WAIT


class DealRows(Pass):
    """Copy the rows of tiles that products read in another order, so that one load hands out matrices of bytes.

    Before: a loop of products in whose steps ``bulk_copy`` brings rows of tiles, and tiles of bytes that lanes ``load``
            for the sums: of each fragment of 8 columns, the rows of one tile and those that the next product sums
            over, a lane has two.
    After:  the first half of a tile has every second row, the other one those in between.  Of a fragment of each half a
            lane has 4 columns of the bytes that lie side by side, and ``load_matrix`` loads 4 matrices of them at once.
            What is told columns by where they are is told anew.
    Cases:  loops in which nothing else depends on where a column is: what they copy are rows that products read
            and such bytes, and what they compute knows columns by ends alone.  Tensors of an even number of rows.
            No clusters, whose workgroups copy for each other.
    """

    name: ClassVar[str] = "deal-rows"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.shared.matrix_load == "ldmatrix" and machine.globals.bulk_box_dims > _PAIR

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.producers or kernel.distribution.cluster > 1:
            return kernel
        fresh, most_dims = fresh_names(kernel), machine.globals.bulk_box_dims
        loops = [op for op in kernel.walk() if op.is_(FOR) and any(inner.is_(MMA_ASYNC) for inner in op.body.ops)]
        dealt = {id(loop): _Dealt.of(kernel, loop, fresh, most_dims) for loop in loops}
        if not dealt or None in dealt.values():  # tiles of all of them lie in the same buffers
            return kernel
        return replace(kernel, body=_with(kernel.body, dealt))


def _with(ops: Sequence[Op], dealt: dict[int, _Dealt | None]) -> tuple[Op, ...]:
    made = list[Op]()
    for op in ops:
        if (found := dealt.get(id(op))) is not None:
            op = replace(op, region=replace(op.body, ops=tuple(found.ops())))
        elif op.region is not None:
            op = replace(op, region=replace(op.region, ops=_with(op.region.ops, dealt)))
        made.append(op)
    return tuple(made)


def _is_plain(copy: Op) -> bool:
    """Whether its box is one of the tensor's own elements, as they are."""
    attributes = dict(copy.attributes)
    return all(attributes.get(key) is None for key in ("valid", "view", "windows", "offsets", "kept_bits"))


@dataclass(frozen=True)
class _Dealt:
    """A loop whose columns are dealt: column ``8 t + 2 q + e`` of half ``h`` of a step, of lane ``q`` of four, is row
    ``16 t + 4 q + 2 e + h`` of its tiles."""

    kernel: Kernel
    loop: Op
    bytes_: Sequence[MatricesOfBytes]

    @classmethod
    def of(cls, kernel: Kernel, loop: Op, fresh: Callable[[str], str], most_dims: int) -> _Dealt | None:
        step, ops = loop["step"], loop.body.ops
        if not step.is_const or step.value % (2 * _FRAGMENT * _DEALT):
            return None
        made = cls(kernel, loop, ())
        copies, products = ([op for op in ops if op.is_(one)] for one in (BULK_COPY, MMA_ASYNC))
        rows, others = ([op for op in copies if made._is_of_rows(op, most_dims) is such] for such in (True, False))
        of_rows, of_bytes = ({op["memory"] for op in some} for some in (rows, others))
        # Both products have these columns: the rows of one's tile are the columns that the other sums over.
        majors = {op["b_major"] for op in products if op["b_memory"] in of_rows}
        if majors != {"k", "mn"} or {op["b_memory"] for op in products} != of_rows or of_rows & of_bytes:
            return None
        if any(op.get("a_memory") in of_rows | of_bytes for op in products) or not all(map(made._is_of_bytes, others)):
            return None
        if not all(made._knows_no_columns(op, of_bytes) for op in ops) or made._is_read_outside(of_rows | of_bytes):
            return None
        tiles = [MatricesOfBytes.of(kernel, loop, name, fresh) for name in sorted(of_bytes)]
        found = [one for one in tiles if one is not None]
        return cls(kernel, loop, found) if found and len(found) == len(tiles) else None

    @property
    def rows(self) -> int:
        return self.loop["step"].value

    @property
    def at(self) -> Expr:
        return self.kernel.symbol(self.loop["induction"])

    def _is_along(self, copy: Op, axis: int) -> bool:
        """Whether it brings the columns of a step, along that dim alone."""
        places = [number for number, place in enumerate(copy["corner"]) if self.loop["induction"] in place.symbols]
        return copy["box"][axis] == self.rows and places == [axis] and copy["corner"][axis] == self.at

    def _is_of_rows(self, copy: Op, most_dims: int) -> bool:
        axis = row_axis(copy["box"])
        is_along = _is_plain(copy) and len(copy["box"]) < most_dims and self._is_along(copy, axis)
        return is_along and self.kernel.memory(copy["source"]).shape[axis].divisor % _DEALT == 0

    def _is_of_bytes(self, copy: Op) -> bool:
        dtype = self.kernel.memory(copy["memory"]).dtype
        is_plain = _is_plain(copy) and dtype.bytes == 1 and not self.kernel.memory(copy["memory"]).is_packed
        return is_plain and self._is_along(copy, len(copy["box"]) - 1)

    def _knows_no_columns(self, op: Op, of_bytes: set[str]) -> bool:
        """Whether what an operation does is the same for columns in any order, or is told them by `ops`."""
        if op.is_(BULK_COPY, MMA_ASYNC, _WAITS):
            return True
        if op.is_(LOAD):
            return op["memory"] in of_bytes
        if op.is_(PAD):
            return op["stride"] == 1 and op.result.vector.elements == _PAIR and self._fragment(op["start"]) is not None
        # What has places has them of columns, maybe where nothing says so any more: column % 64 of a step of 64.
        return op.is_(PURE, SHUFFLE) and not any(isinstance(value, Expr | tuple) for _, value in op.attributes)

    def _is_read_outside(self, filled: set[str]) -> bool:
        """Whether anything but loops of products, each of which is asked for itself, reads these tiles."""
        loops = [op for op in self.kernel.walk() if op.is_(FOR) and any(one.is_(MMA_ASYNC) for one in op.body.ops)]
        own = {id(op) for loop in loops for op in loop.body.ops}
        return any(op.get(key) in filled for op in self.kernel.walk() if id(op) not in own for key in READS)

    def _fragment(self, place: Expr) -> int | None:
        """The fragment of which it is where a lane has its first column."""
        offset = place - self.at - self.kernel.symbol("lane") % _QUAD * _PAIR
        number = offset.value // _FRAGMENT if offset.is_const else -1
        return number if 0 <= number < self.rows // _FRAGMENT and offset.value == number * _FRAGMENT else None

    def _dealt(self, fragment: int) -> Expr:
        """The row of a tile that is the first of two of a lane; the other one is two further on."""
        half, number = divmod(fragment, self.rows // (_FRAGMENT * _DEALT))
        lane = self.kernel.symbol("lane") % _QUAD
        return self.at + lane * _RUN + (number * _FRAGMENT * _DEALT + half)

    def ops(self) -> Iterator[Op]:
        """The body of the loop."""
        loads = {number: made for tile in self.bytes_ for number, made in tile.replaced().items()}
        for op in self.loop.body.ops:
            if op.is_(BULK_COPY) and op["memory"] not in {tile.memory.name for tile in self.bytes_}:
                yield op.with_(row_step=_DEALT)
            elif op.is_(PAD) and (fragment := self._fragment(op["start"])) is not None:
                yield op.with_(start=self._dealt(fragment), stride=_DEALT)
            else:
                yield from loads.get(id(op), (op,))
