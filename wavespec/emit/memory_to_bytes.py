"""Thread kernel in, thread kernel out: tensors hold a byte for each bool, and bytes that several small elements share;
registers hold a bit for a bool, and a byte for each small element.

Two operations are met by emitters alone. `unpack`: bytes, in order, become the elements that begin in the first one, at
the bit ``offset``. `pack_bits`: elements, as many as fill whole bytes, become these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, VectorType, attribute_pairs, rewrite
from wavespec.ir.layout import Arrangement, Digit
from wavespec.ir.thread_ops import BULK_COPY, CAST, FOR, LOAD, LOAD_MATRIX, PREFETCH, STORE

_BYTE, _FLAG = DTYPES["u8"], DTYPES["bool"]


def memory_to_bytes(kernel: Kernel) -> Kernel:
    """Loads and stores of bool become those of u8 with a cast behind or before them; those of packed elements, of which
    stores have whole bytes, those of bytes, with an ``unpack`` behind them or a ``pack_bits`` before them; their boxes
    and what is announced of them are those of bytes."""
    flags = {memory.name for memory in kernel.memories if memory.dtype == _FLAG}
    packed = {memory.name: memory.dtype for memory in kernel.memories if memory.is_packed}
    if not flags and not packed:
        return kernel
    count = itertools.count()

    def as_bytes(value: Value, elements: int) -> Value:
        return Value(f"{value.name}.byte{next(count)}", VectorType(_BYTE, elements))

    def change(op: Op) -> tuple[Op, ...]:
        memory = op["memory"]
        if memory in packed and op.is_(BULK_COPY):
            return (_box_of_bytes(op, packed[memory]),)
        if op.is_(PREFETCH):
            return (_place_of_bytes(op, packed[memory]) if memory in packed else op,)
        if memory in packed:
            convert = _unpacked if op.is_(LOAD) else _shared
            return tuple(convert(op, packed[memory], count))
        if memory not in flags or op.is_(BULK_COPY):  # a copy moves bytes as they are
            return (op,)
        if op.is_(LOAD, LOAD_MATRIX):
            loaded = as_bytes(op.result, op.result.vector.elements)
            return replace(op, results=(loaded,)), replace(op, name=CAST.name, operands=(loaded,), attributes=())
        stored = as_bytes(op.operands[0], op.operands[0].vector.elements)
        return replace(op, name=CAST.name, results=(stored,), attributes=()), replace(op, operands=(stored,))

    def of_bytes(memory: Memory) -> Memory:
        if memory.name in packed:
            elements, bytes_ = memory.dtype.packed
            shape = (*memory.shape[:-1], memory.shape[-1] // elements * bytes_)
            arranged = memory.arrangement and _arranged_in_bytes(memory.arrangement, memory)
            return replace(memory, dtype=_BYTE, shape=shape, arrangement=arranged)
        return replace(memory, dtype=_BYTE) if memory.name in flags else memory

    body = rewrite(kernel.body, change, LOAD | LOAD_MATRIX | STORE | PREFETCH | BULK_COPY)
    return replace(kernel, memories=tuple(map(of_bytes, kernel.memories)), body=_carried_as_bytes(body))


def _carried_as_bytes(body: tuple[Op, ...]) -> tuple[Op, ...]:
    """Loops whose steps load small elements for the next one carry the bytes that these share: else each of them would
    be in a register of its own from step to step."""
    shared = {
        op.result.name: op for one in body for op in one.walk() if op.name == "unpack" and op["offset"] == const(0)
    }

    def change(loop: Op) -> tuple[Op, ...]:
        body, operands, results = loop.body, [*loop.operands], [*loop.results]
        arguments, yields, unpacked, behind = [*body.arguments], [*body.yields], list[Op](), list[Op]()
        for at, (given, following) in enumerate(zip(loop.operands, body.yields, strict=True)):
            if given.name not in shared or following.name not in shared:
                continue
            first, later = shared[given.name].operands[0], shared[following.name].operands[0]
            argument, result = (Value(f"{one.name}.bytes", first.type) for one in (arguments[at], results[at]))
            unpacked.append(replace(shared[given.name], operands=(argument,), results=(arguments[at],)))
            behind.append(replace(shared[given.name], operands=(result,), results=(results[at],)))
            operands[at], yields[at], arguments[at], results[at] = first, later, argument, result
        if not unpacked:
            return (loop,)
        region = Region(tuple(arguments), (*unpacked, *body.ops), tuple(yields))
        return (replace(loop, operands=tuple(operands), results=tuple(results), region=region), *behind)

    return rewrite(body, change, FOR)


def _arranged_in_bytes(arrangement: Arrangement, memory: Memory) -> Arrangement:
    """The arrangement of bytes where there was one of the elements that share them."""
    elements, bytes_ = memory.dtype.packed

    def change(digit: Digit) -> Digit:
        stride = digit.stride // elements * bytes_
        if digit.dim != memory.contiguous_dim:
            return replace(digit, stride=stride)
        if digit.step == 1:
            return replace(digit, extent=digit.extent // elements * bytes_)
        return replace(digit, step=digit.step // elements * bytes_, stride=stride)

    swizzle = arrangement.swizzle
    if swizzle is not None:
        swizzle = replace(swizzle, chunk=swizzle.chunk // elements * bytes_)
    return Arrangement(tuple(map(change, arrangement.digits)), swizzle)


def _place_of_bytes(hint: Op, dtype: DType) -> Op:
    elements, bytes_ = dtype.packed
    return hint.with_(offset=hint["offset"] // elements * bytes_)


def _box_of_bytes(copy: Op, dtype: DType) -> Op:
    elements, bytes_ = dtype.packed
    *rows, width = copy["box"]
    *places, first = copy["corner"]
    return copy.with_(
        box=(*rows, width // elements * bytes_),
        corner=(*places, first // elements * bytes_),
        offset=copy["offset"] // elements * bytes_,
    )


def _unpacked(load: Op, dtype: DType, count: Iterator[int]) -> Iterator[Op]:
    """Whole groups where the load, and what of it is inside its row, are known to start and end with one; else element
    by element."""
    (group, bytes_), size, offset, valid = dtype.packed, load.result.vector.elements, load["offset"], load["valid"]

    def loaded(at: Expr, elements: int, **attributes: Any) -> Op:
        value = Value(f"{load.result.name}.byte{next(count)}", VectorType(_BYTE, elements))
        return replace(load.with_(offset=at, **attributes), results=(value,))

    if all(number % group == 0 for number in (size, offset.divisor, valid.divisor if valid is not None else 0)):
        width = size // group  # a power of two where machines want that, and aligned as the elements are
        first, inside = offset // group * bytes_, None if valid is None else valid // group * bytes_
        starts = [part * width for part in range(bytes_)]
        loads = [loaded(first + at, width, valid=None if inside is None else inside - at) for at in starts]
        yield from _joined(load, loads, load.result, const(0))
        return
    parts: list[Value] = []
    for number in range(size):
        bit = (offset + number) * dtype.bits
        ends = (bit // 8, (bit + dtype.bits - 1) // 8)
        mask = load["mask"] if valid is None else (*load["mask"], (const(number), valid))
        parts.append(Value(f"{load.result.name}.element{next(count)}", VectorType(dtype, 1)))
        yield from _joined(load, [loaded(at, 1, mask=mask, valid=None) for at in ends[:bytes_]], parts[-1], bit % 8)
    yield Op("pack", tuple(parts), (load.result,), span=load.span, node=load.node)


def _shared(store: Op, dtype: DType, count: Iterator[int]) -> Iterator[Op]:
    """As many stores as there are bytes in a group: a power of two of bytes each, where machines want that."""
    (value,), (group, bytes_), offset, valid = store.operands, dtype.packed, store["offset"], store["valid"]
    total = value.vector.elements // group * bytes_
    made = Value(f"{value.name}.bytes{next(count)}", VectorType(_BYTE, total))
    yield Op("pack_bits", (value,), (made,), span=store.span, node=store.node)
    width, first = total // bytes_, offset // group * bytes_
    for start in range(0, total, width):
        part = Value(f"{value.name}.byte{next(count)}", VectorType(_BYTE, width))
        attributes = attribute_pairs({"start": start, "size": width})
        yield Op("slice", (made,), (part,), attributes, span=store.span, node=store.node)
        inside = None if valid is None else valid // group * bytes_ - start
        yield replace(store.with_(offset=first + start, valid=inside), operands=(part,))


def _joined(load: Op, loads: list[Op], result: Value, shift: Expr) -> Iterator[Op]:
    """The loads of some bytes, and what makes elements of them."""
    values = tuple(one.result for one in loads)
    total = Value(f"{result.name}.bytes", VectorType(_BYTE, sum(value.vector.elements for value in values)))
    yield from loads
    yield Op("pack", values, (total,), span=load.span, node=load.node)
    yield Op("unpack", (total,), (result,), attribute_pairs({"offset": shift}), span=load.span, node=load.node)
