"""The operations of the thread level: what one lane does, one instruction-sized step each.

Offsets count elements of the memory.  ``mask`` is a conjunction of ``(left, right)`` pairs meaning ``left < right``;
a masked-off load gives zeros, a masked-off store does nothing.  ``valid`` is the number of leading elements that
exist when an access may stick out of a row (None: all of them).  ``buffer`` picks one copy of a multiply buffered
memory.

| operation | operands -> results | attributes |
|---|---|---|
| constant | -> T x n | value: every element |
| load | -> T x n | memory, offset, buffer, mask, valid |
| store | T x n -> | memory, offset, buffer, mask, valid |
| accumulate | T x n -> | memory, offset, buffer, mask, valid, onto: a store, with what the memory holds added where ``onto``, a conjunction like ``mask``, holds |
| prefetch | -> | memory, offset: a hint that this lane soon accesses what is there |
| load_tile | -> T x (r·c) | memory, offset, buffer, rows = r, columns = c, stride: r rows of c consecutive elements, ``stride`` elements apart |
| load_matrix | -> T x e·c | memory, offset, buffer, count = c: c matrices of 8 rows of 16 bytes; lane 8j + r gives the offset of row r of matrix j; every lane receives bytes 4(lane % 4) .. +3 of row lane // 4 of each matrix: e elements, 1 of 4 bytes, 2 of 2 bytes or 4 of 1 byte |
| copy_async | -> | source, source_offset, memory, offset, buffer, elements, mask, valid: global to shared, zero-filled where masked off; complete after the async_wait that covers its group |
| async_commit | -> | closes a group of copies |
| async_wait | -> | pending: groups of this lane that may stay in flight |
| barrier | -> | all waves of the workgroup arrive; shared memory is coherent after it |
| mma | a, b, acc -> acc | instruction |
| pack | T x n ... -> T x sum | concatenation |
| slice | T x n -> T x size | start, size |
| transpose | T x (r·c·u) -> T x (r·c·u) | rows, columns, unit: row-major to column-major, moving units of u elements |
| cast | T x n -> U x n | |
| for | carried -> carried | induction (symbol), lower, upper, step, unroll; region arguments = carried values |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, as_expr
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs

Mask = tuple[tuple[Expr, Expr], ...]


class ThreadBuilder:
    """Appends thread-level operations to a list and hands out unique value names."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.ops: list[Op] = []
        self.fresh = fresh
        self.span: Span | None = None

    def nested(self) -> ThreadBuilder:
        """A builder for the body of a loop, sharing names and span."""
        inner = ThreadBuilder(self.fresh)
        inner.span = self.span
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
        self.ops.append(Op(op, operands, results, attribute_pairs(attributes), region, self.span))

    def value(self, hint: str, dtype: DType, elements: int) -> Value:
        """A new value."""
        return Value(self.fresh(hint), VectorType(dtype, elements))

    def constant(self, value: float | int, dtype: DType, elements: int, hint: str = "constant") -> Value:
        result = self.value(hint, dtype, elements)
        self.add("constant", (), (result,), value=value)
        return result

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
        hint: str = "loaded",
    ) -> Value:
        result = self.value(hint, dtype, elements)
        self.add("load", (), (result,), memory=memory, offset=offset, buffer=as_expr(buffer), mask=mask, valid=valid)
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
        return result

    def slice(self, value: Value, start: int, size: int, hint: str = "part") -> Value:
        if start == 0 and size == value.vector.elements:
            return value
        result = self.value(hint, value.vector.dtype, size)
        self.add("slice", (value,), (result,), start=start, size=size)
        return result

    def transpose(self, value: Value, rows: int, columns: int, unit: int = 1, hint: str = "transposed") -> Value:
        result = self.value(hint, value.vector.dtype, value.vector.elements)
        self.add("transpose", (value,), (result,), rows=rows, columns=columns, unit=unit)
        return result

    def cast(self, value: Value, dtype: DType, hint: str = "cast") -> Value:
        if value.vector.dtype == dtype:
            return value
        result = self.value(hint, dtype, value.vector.elements)
        self.add("cast", (value,), (result,))
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
    ) -> tuple[Value, ...]:
        """A counted loop; returns its results."""
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
        )
        return results

    def barrier(self) -> None:
        self.add("barrier", (), ())
