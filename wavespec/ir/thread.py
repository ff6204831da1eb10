"""The operations of the thread level: what one lane does, one instruction-sized step each.

Offsets count elements of the memory.  ``mask`` is a conjunction of ``(left, right)`` pairs meaning ``left < right``;
a masked-off load gives zeros, a masked-off store does nothing.  ``valid`` is the number of leading elements that
exist when an access may stick out of a row (None: all of them).  ``buffer`` picks one copy of a multiply buffered
memory.

| operation | operands -> results | attributes |
|---|---|---|
| constant | -> T x n | value: every element |
| load | -> T x n | memory, offset, buffer, mask, valid, rank (absent: this one): which workgroup of the cluster has the shared memory |
| store | T x n -> | memory, offset, buffer, mask, valid |
| accumulate | T x n -> | memory, offset, buffer, mask, valid, onto: a store, with what the memory holds added where ``onto``, a conjunction like ``mask``, holds |
| atomic | T x n -> | memory, offset, mask, function: each element in one indivisible step becomes ``function`` (``add``, ``maximum`` or ``minimum``) of what the memory holds and it; lanes may name the same element |
| prefetch | -> | memory, offset: a hint that this lane soon accesses what is there |
| load_tile | -> T x (r·c) | memory, offset, buffer, rows = r, columns = c, stride: r rows of c consecutive elements, ``stride`` elements apart |
| load_matrix | -> T x e·c | memory, offset, buffer, count = c: c matrices of 8 rows of 16 bytes; lane 8j + r gives the offset of row r of matrix j; every lane receives bytes 4(lane % 4) .. +3 of row lane // 4 of each matrix: e elements, 1 of 4 bytes, 2 of 2 bytes or 4 of 1 byte |
| copy_async | -> | source, source_offset, memory, offset, buffer, elements, mask, valid: global to shared, zero-filled where masked off; complete after the async_wait that covers its group |
| async_commit | -> | closes a group of copies |
| async_wait | -> | pending: groups of this lane that may stay in flight |
| barrier | -> | first, waves: which waves of the workgroup meet (absent: all); shared memory is coherent after it |
| schedule_fence | -> | no compiler moves operations across |
| schedule_group | -> | kind, count: of the operations since the last fence, the compiler issues as many of a kind (`kind_of`) here, behind those of the groups before |
| priority | -> | level: from here on this wave goes before others of a lower level when both are ready |
| stagger | -> | ahead: from here on the first half of the waves is one barrier ahead of the other (1), or together with it again (0): the other half, or the first, waits for one barrier more |
| mma | a, b, acc -> acc | instruction |
| pack | T x n ... -> T x sum | concatenation |
| slice | T x n -> T x size | start, size |
| transpose | T x (r·c·u) -> T x (r·c·u) | rows, columns, unit: row-major to column-major, moving units of u elements |
| cast | T x n -> U x n | bias: a whole number added on the way (in U, wrapping round; absent = 0) |
| bitcast | T x n -> U x n | the same bits; T and U have as many |
| elementwise | T x n ... -> T x n | function: one step (``wavespec/sim/elements.py`` has them all); ``lt``, ``le``, ``eq`` and ``ne`` give bool, ``where`` takes one first |
| coordinates | -> T x n | places: an index expression for each element |
| broadcast | T x 1 -> T x n | the one element n times |
| reduce | T x n -> T x 1 | function: joins all elements, in any order |
| shuffle | T x n -> T x n | mask: what the lane has whose number differs in these bits |
| pad | T x n -> T x n | start, stride, limit, value: element i becomes ``value`` unless start + i * stride < limit |
| for | carried -> carried | induction (symbol), lower, upper, step, unroll; region arguments = carried values; ``once`` (absent: false): a branch, which runs one step or none, from 0 to ``upper``; ``goes_on`` (absent: 1): 0 or 1, what it is in front of the loop and at the end of the body, where a ``bind`` may have changed its symbols: the loop ends early where it is 0 |
| let | -> | symbol, value: from here on in this block the symbol stands for the value |
| bind | T x 1 -> | symbol: the same, with the integer that a lane holds for the value; ``uniform`` (absent: false): that all lanes of the workgroup hold |
| if | -> | mask: only the lanes for which it holds run the region, which has no values |
| role | -> | first, waves, registers: only these waves run the region; the roles of a block run at the same time. ``registers`` of a lane, 0 = as compiled |
| bulk_copy | -> | source, origin (a coordinate per dim), box (an extent per dim), memory, offset, buffer, signal, index: this lane has a box of a tensor copied to shared memory, row after row in the memory's swizzle, zeros beyond the tensor; its bytes are counted on the signal; ``everywhere`` (absent: false): at the same place in every workgroup of the cluster, and on the signal of each |
| signal_arrive | -> | signal, index, bytes: this lane arrives (``everywhere``: on the signal of every workgroup of the cluster), and announces as many bytes of bulk copies; a phase is complete when all lanes and bytes that it waits for have arrived. ``release`` (absent: false): other workgroups that wait for it see what this lane knows of memory |
| signal_wait | -> | signal, index, phase: until the phase of that parity is complete; parity 1 passes a fresh signal. ``acquire`` (absent: false): the other half of ``release`` |
| fence_async | -> | what this lane wrote to shared memory is visible to matrix units and bulk copies that are ordered after it |
| mma_fence | -> | registers of this lane are ready for the mma_async that follow |
| mma_async | acc -> acc; a, acc -> acc | instruction, b_memory, b_offset, b_buffer, b_major, and a_* where a is no value: the matrix unit reads tiles of shared memory from these offsets on (of elements, before any swizzle); major: ``k`` or ``mn``, the dim contiguous in memory; the result is in flight |
| mma_commit | -> | closes a group of mma_async |
| mma_wait | T x n ... -> the same | pending: groups that may stay in flight; the results are complete |
| store_matrix | T x e·c -> | memory, offset, buffer, count: the inverse of load_matrix, for 2-byte elements |
| bulk_store | -> | memory, offset, buffer, target, origin, box: this lane has a box of shared memory, row after row in the memory's swizzle, copied to a tensor; what lies beyond the tensor is left out |
| bulk_commit | -> | closes a group of bulk stores of this lane |
| bulk_wait | -> | pending: groups of this lane that may still be reading shared memory |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, as_expr, const
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs

Mask = tuple[tuple[Expr, Expr], ...]

PURE = frozenset(
    (
        "bitcast",
        "broadcast",
        "cast",
        "constant",
        "coordinates",
        "elementwise",
        "pack",
        "pad",
        "reduce",
        "slice",
        "transpose",
    )
)
"""Operations that make values of values and do nothing else."""


PREDICATES = frozenset(("lt", "le", "eq", "ne"))
"""Functions of ``elementwise`` whose result is bool."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand that the matrix unit reads from shared memory itself; ``offset`` in elements, before any swizzle."""

    memory: str
    offset: Expr
    major: Literal["k", "mn"]


class ThreadBuilder:
    """Appends thread-level operations to a list and hands out unique value names."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.ops: list[Op] = []
        self.fresh = fresh
        self.span: Span | None = None
        self.node = ""
        self._packed: dict[str, tuple[Value, ...]] = {}
        self._constants: dict[tuple[float, float, DType, int], Value] = {}

    def nested(self) -> ThreadBuilder:
        """A builder for the body of a loop, sharing names and span."""
        inner = ThreadBuilder(self.fresh)
        inner.span, inner.node = self.span, self.node
        inner._packed = self._packed
        inner._constants = dict(self._constants)
        return inner

    def add(
        self,
        op: str,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        region: Region | None = None,
        **attributes: Any,
    ) -> None:
        """Append one operation."""
        self.ops.append(Op(op, operands, results, attribute_pairs(attributes), region, self.span, self.node))

    def value(self, hint: str, dtype: DType, elements: int) -> Value:
        """A new value."""
        return Value(self.fresh(hint), VectorType(dtype, elements))

    def constant(self, value: float | int, dtype: DType, elements: int, hint: str = "constant") -> Value:
        key = (value, math.copysign(1, value), dtype, elements)  # 0.0 and -0.0 are equal, but not the same
        if key not in self._constants:
            self._constants[key] = self.value(hint, dtype, elements)
            self.add("constant", (), (self._constants[key],), value=value)
        return self._constants[key]

    def load(
        self,
        memory: str,
        dtype: DType,
        elements: int,
        offset: Expr,
        *,
        buffer: Expr | int = 0,
        mask: Mask = (),
        valid: Expr | None = None,
        rank: int | None = None,
        hint: str = "loaded",
    ) -> Value:
        result = self.value(hint, dtype, elements)
        place: dict[str, Any] = {} if rank is None else {"rank": rank}
        self.add(
            "load",
            (),
            (result,),
            memory=memory,
            offset=offset,
            buffer=as_expr(buffer),
            mask=mask,
            valid=valid,
            **place,
        )
        return result

    def store(
        self,
        value: Value,
        memory: str,
        offset: Expr,
        *,
        buffer: Expr | int = 0,
        mask: Mask = (),
        valid: Expr | None = None,
    ) -> None:
        self.add("store", (value,), (), memory=memory, offset=offset, buffer=as_expr(buffer), mask=mask, valid=valid)

    def atomic(self, function: str, value: Value, memory: str, offset: Expr, *, mask: Mask = ()) -> None:
        self.add("atomic", (value,), (), function=function, memory=memory, offset=offset, mask=mask)

    def load_tile(
        self,
        memory: str,
        dtype: DType,
        rows: int,
        columns: int,
        stride: int,
        offset: Expr,
        *,
        buffer: Expr | int = 0,
        hint: str = "tile",
    ) -> Value:
        result = self.value(hint, dtype, rows * columns)
        self.add(
            "load_tile",
            (),
            (result,),
            memory=memory,
            offset=offset,
            buffer=as_expr(buffer),
            rows=rows,
            columns=columns,
            stride=stride,
        )
        return result

    def load_matrix(
        self, memory: str, dtype: DType, count: int, offset: Expr, *, buffer: Expr | int = 0, hint: str = "matrix"
    ) -> Value:
        result = self.value(hint, dtype, 4 // dtype.bytes * count)
        self.add("load_matrix", (), (result,), memory=memory, offset=offset, buffer=as_expr(buffer), count=count)
        return result

    def copy_async(
        self,
        source: str,
        source_offset: Expr,
        memory: str,
        offset: Expr,
        elements: int,
        *,
        buffer: Expr | int = 0,
        mask: Mask = (),
        valid: Expr | None = None,
    ) -> None:
        self.add(
            "copy_async",
            (),
            (),
            source=source,
            source_offset=source_offset,
            memory=memory,
            offset=offset,
            elements=elements,
            buffer=as_expr(buffer),
            mask=mask,
            valid=valid,
        )

    def pack(self, values: list[Value], hint: str = "packed") -> Value:
        if len(values) == 1:
            return values[0]
        result = self.value(hint, values[0].vector.dtype, sum(v.vector.elements for v in values))
        self.add("pack", tuple(values), (result,))
        self._packed[result.name] = tuple(values)
        return result

    def slice(self, value: Value, start: int, size: int, hint: str = "part") -> Value:
        """Some elements; of a packed value that of its parts, so that nothing else of it has to be there."""
        if start == 0 and size == value.vector.elements:
            return value
        parts, first = self._packed.get(value.name, ()), 0
        whole: list[Value] = []
        for part in parts:
            end = first + part.vector.elements
            if first <= start and start + size <= end:
                return self.slice(part, start - first, size, hint)
            if start <= first and end <= start + size:
                whole.append(part)
            first = end
        if sum(part.vector.elements for part in whole) == size:
            return self.pack(whole, hint)
        result = self.value(hint, value.vector.dtype, size)
        self.add("slice", (value,), (result,), start=start, size=size)
        return result

    def transpose(self, value: Value, rows: int, columns: int, unit: int = 1, hint: str = "transposed") -> Value:
        result = self.value(hint, value.vector.dtype, value.vector.elements)
        self.add("transpose", (value,), (result,), rows=rows, columns=columns, unit=unit)
        return result

    def cast(self, value: Value, dtype: DType, hint: str = "cast", bias: int = 0) -> Value:
        if value.vector.dtype == dtype and not bias:
            return value
        result = self.value(hint, dtype, value.vector.elements)
        attributes: dict[str, Any] = {"bias": bias} if bias else {}
        self.add("cast", (value,), (result,), **attributes)
        return result

    def broadcast(self, value: Value, count: int, hint: str = "spread") -> Value:
        if count == 1:
            return value
        result = self.value(hint, value.vector.dtype, count)
        self.add("broadcast", (value,), (result,))
        return result

    def bitcast(self, value: Value, dtype: DType, hint: str = "bits") -> Value:
        if value.vector.dtype == dtype:
            return value
        result = self.value(hint, dtype, value.vector.elements)
        self.add("bitcast", (value,), (result,))
        return result

    def elementwise(self, function: str, *operands: Value, hint: str = "element") -> Value:
        kind = operands[-1].vector
        result = self.value(hint, DTYPES["bool"] if function in PREDICATES else kind.dtype, kind.elements)
        self.add("elementwise", operands, (result,), function=function)
        return result

    def reduce(self, function: str, value: Value, hint: str = "joined") -> Value:
        if value.vector.elements == 1:
            return value
        result = self.value(hint, value.vector.dtype, 1)
        self.add("reduce", (value,), (result,), function=function)
        return result

    def shuffle(self, value: Value, mask: int, hint: str = "shuffled") -> Value:
        result = Value(self.fresh(hint), value.type)
        self.add("shuffle", (value,), (result,), mask=mask)
        return result

    def pad(self, value: Value, start: Expr, stride: int, limit: Expr, number: float | int) -> Value:
        result = Value(self.fresh(value.name), value.type)
        self.add("pad", (value,), (result,), start=start, stride=stride, limit=limit, value=number)
        return result

    def mma(self, instruction: str, a: Value, b: Value, acc: Value, hint: str = "acc") -> Value:
        result = Value(self.fresh(hint), acc.type)
        self.add("mma", (a, b, acc), (result,), instruction=instruction)
        return result

    def loop(
        self,
        induction: str,
        lower: Expr | int,
        upper: Expr | int,
        step: Expr | int,
        carried: tuple[Value, ...],
        arguments: tuple[Value, ...],
        body: tuple[Op, ...],
        yields: tuple[Value, ...],
        *,
        unroll: int = 1,
        once: bool = False,
        goes_on: Expr | None = None,
    ) -> tuple[Value, ...]:
        """A counted loop, which ends early where ``goes_on`` is 0; returns its results."""
        results = tuple(Value(self.fresh(v.name), v.type) for v in carried)
        self.add(
            "for",
            carried,
            results,
            Region(arguments, body, yields),
            induction=induction,
            lower=as_expr(lower),
            upper=as_expr(upper),
            step=as_expr(step),
            unroll=unroll,
            **({"once": True} if once else {}),
            **({} if goes_on is None else {"goes_on": goes_on}),
        )
        return results

    def barrier(self) -> None:
        self.add("barrier", (), ())

    def mma_async(self, instruction: str, a: Value | SharedTile, b: SharedTile, acc: Value, hint: str = "acc") -> Value:
        """A matrix product that reads ``b``, and ``a`` unless it is in registers, from shared memory."""
        result = Value(self.fresh(hint), acc.type)
        operands = (acc,) if isinstance(a, SharedTile) else (a, acc)
        tiles = {"b": b, "a": a} if isinstance(a, SharedTile) else {"b": b}
        attributes: dict[str, Any] = {
            f"{name}_{key}": value
            for name, tile in tiles.items()
            for key, value in (
                ("memory", tile.memory),
                ("offset", tile.offset),
                ("buffer", const(0)),
                ("major", tile.major),
            )
        }
        self.add("mma_async", operands, (result,), instruction=instruction, **attributes)
        return result

    def mma_wait(self, values: tuple[Value, ...], pending: int = 0) -> tuple[Value, ...]:
        """Wait for groups of asynchronous products; the same values, complete."""
        results = tuple(Value(self.fresh(value.name), value.type) for value in values)
        self.add("mma_wait", values, results, pending=pending)
        return results
