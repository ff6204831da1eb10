"""Builds operations of the thread level, which `wavespec.ir.thread_ops` declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, as_expr, const, less, loose_part
from wavespec.ir.kernel import Op, Region, Value, VectorType, attribute_pairs

Mask = tuple[tuple[Expr, Expr], ...]

_LONGEST_CHAIN = 32
"""Products that are added one after another: of more, partial sums are nearer to the sum."""

PREDICATES = frozenset(("lt", "le", "eq", "ne"))
"""Functions of ``elementwise`` whose result is bool."""


def decisive(mask: Mask) -> Mask:
    """The checks without what never decides them: what is less than that of which all else is a multiple."""
    starts = ((left - loose_part(left, right), right) for left, right in mask)
    return tuple((left, right) for left, right in starts if not less(left, right))


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand that the matrix unit reads from shared memory itself; ``offset`` in elements, before any swizzle."""

    memory: str
    offset: Expr
    major: Literal["k", "mn"]


def row_axis(box: tuple[int, ...]) -> int:
    """The dim of a tensor that the rows of a box of it are along."""
    return max(range(len(box) - 1), key=lambda axis: box[axis])


class ThreadBuilder:
    """Appends thread-level operations to a list and hands out unique value names."""

    def __init__(self, fresh: Callable[[str], str], counted: Callable[[], None] = lambda: None) -> None:
        """``counted`` is called for every operation that is added, in loops too."""
        self.ops: list[Op] = []
        self.fresh, self.counted = fresh, counted
        self.span: Span | None = None
        self.node = ""
        self.cached: Mapping[str, str] = {}
        """Tensors that are accessed as the operation that is lowered says, and its `cache`."""
        self._packed: dict[str, tuple[Value, ...]] = {}
        self._products: dict[str, tuple[tuple[Value, Value], ...]] = {}
        """Of which products a value is the sum, in this order."""
        self._constants: dict[tuple[float, float, DType, int], Value] = {}

    def nested(self) -> ThreadBuilder:
        """A builder for the body of a loop, sharing names and span."""
        inner = ThreadBuilder(self.fresh, self.counted)
        inner.span, inner.node, inner.cached = self.span, self.node, self.cached
        inner._packed, inner._products = self._packed, self._products
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
        self.counted()
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
        front: Expr | None = None,
        rank: int | None = None,
        around: bool = False,
        hint: str = "loaded",
    ) -> Value:
        result = self.value(hint, dtype, elements)
        place: dict[str, Any] = {} if rank is None else {"rank": rank}
        place |= {"around": True} if around else {}
        place |= {} if front is None else {"front": front}
        place |= self._cache(memory)
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

    def send(
        self, value: Value, memory: str, offset: Expr, receiver: Expr, met: Mapping[str, Any], *, mask: Mask = ()
    ) -> None:
        """``met``: the ``signal`` of the receiver, and its ``index``."""
        self.add("send", (value,), (), memory=memory, offset=offset, receiver=receiver, mask=mask, **met)

    def store(
        self,
        value: Value,
        memory: str,
        offset: Expr,
        *,
        buffer: Expr | int = 0,
        mask: Mask = (),
        valid: Expr | None = None,
        mapped: bool = False,
        apart: tuple[int, ...] = (),
    ) -> None:
        said: dict[str, Any] = {**({"mapped": True} if mapped else {}), **({"apart": apart} if apart else {})}
        said |= self._cache(memory)
        self.add(
            "store",
            (value,),
            (),
            memory=memory,
            offset=offset,
            buffer=as_expr(buffer),
            mask=mask,
            valid=valid,
            **said,
        )

    def atomic(
        self,
        function: str,
        operands: tuple[Value, ...],
        memory: str,
        offset: Expr,
        *,
        mask: Mask = (),
        old: str = "",
        ordered: bool = False,
    ) -> Value | None:
        """``operands``: the value, and what is expected there; ``old``: what the result is called, if there is one."""
        vector = operands[0].vector
        results = (self.value(old, vector.dtype, vector.elements),) if old else ()
        said: dict[str, Any] = {"ordered": True} if ordered else {}
        self.add("atomic", operands, results, function=function, memory=memory, offset=offset, mask=mask, **said)
        return results[0] if results else None

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
        self,
        memory: str,
        dtype: DType,
        count: int,
        offset: Expr,
        *,
        transposed: bool = False,
        buffer: Expr | int = 0,
        hint: str = "matrix",
    ) -> Value:
        result = self.value(hint, dtype, 4 // dtype.bytes * count)
        self.add(
            "load_matrix",
            (),
            (result,),
            memory=memory,
            offset=offset,
            buffer=as_expr(buffer),
            count=count,
            transposed=transposed,
        )
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
            **self._cache(source),
        )

    def _cache(self, memory: str) -> dict[str, Any]:
        return {"cache": self.cached[memory]} if memory in self.cached else {}

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
            if first >= start + size:
                break
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
        if function == "mul" and kind.dtype.is_float:
            self._products[result.name] = ((operands[0], operands[1]),)
        return result

    def add_products(self, total: Value, value: Value, hint: str = "joined") -> Value:
        """The sum of both, by one chain of multiply-adds where ``value`` is a sum of few products."""
        parts = self._packed.get(value.name, (value,))
        if not all(0 < len(self._products.get(part.name, ())) <= _LONGEST_CHAIN for part in parts):
            return self.elementwise("add", total, value, hint=hint)
        made, start = list[Value](), 0
        for part in parts:
            before = so_far = self.slice(total, start, part.vector.elements)
            products = self._products[part.name]
            for one, other in products:
                so_far = self.elementwise("fma", one, other, so_far, hint=hint)
            if before.name in self._products:
                self._products[so_far.name] = (*self._products[before.name], *products)
            made.append(so_far)
            start += part.vector.elements
        return self.pack(made, hint)

    def sum_of(self, value: Value, hint: str = "joined") -> Value:
        """The sum of all elements, by one chain of multiply-adds where they are products."""
        parts = self._packed.get(value.name, (value,))
        products = [factors for part in parts if (factors := self.factors(part))]
        if len(products) < len(parts) or value.vector.elements > _LONGEST_CHAIN:
            return self.reduce("add", value, hint)
        total: Value | None = None
        for one, other in products:
            for at in range(one.vector.elements):
                left = self.slice(one, at, 1, one.name)
                right = left if other == one else self.slice(other, at, 1, other.name)
                before = () if total is None else (total,)
                total = self.elementwise("fma" if before else "mul", left, right, *before, hint=hint)
        assert total is not None
        return total

    def factors(self, value: Value) -> tuple[Value, Value] | None:
        """Of a product of two values, these."""
        products = self._products.get(value.name, ())
        return products[0] if len(products) == 1 else None

    def reduce(self, function: str, value: Value, hint: str = "joined") -> Value:
        if value.vector.elements == 1:
            return value
        result = self.value(hint, value.vector.dtype, 1)
        self.add("reduce", (value,), (result,), function=function)
        return result

    def shuffle(self, value: Value, mask: int, hint: str = "shuffled") -> Value:
        result = Value(self.fresh(hint), value.type)
        self.add("shuffle", (value,), (result,), bits=mask)
        return result

    def pad(self, value: Value, start: Expr, stride: int, limit: Expr, number: float | int) -> Value:
        result = Value(self.fresh(value.name), value.type)
        self.add("pad", (value,), (result,), start=start, stride=stride, limit=limit, value=number)
        return result

    def window(self, value: Value, start: Expr, size: int, hint: str = "window") -> Value:
        """``start``: at most as many elements as there are more than ``size``."""
        result = self.value(hint, value.vector.dtype, size)
        self.add("window", (value,), (result,), start=start)
        return result

    def mma(self, instruction: str, a: Value, b: Value, acc: Value, hint: str = "acc") -> Value:
        result = Value(self.fresh(hint), acc.type)
        self.add("mma", (a, b, acc), (result,), instruction=instruction)
        return result

    def dot(self, instruction: str, a: Value, b: Value, acc: Value, start: int, runs: int, hint: str = "acc") -> Value:
        result = Value(self.fresh(hint), acc.type)
        self.add("dot", (a, b, acc), (result,), instruction=instruction, start=start, runs=runs)
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
        rare: bool = False,
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
            **({"rare": True} if rare else {}),
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
