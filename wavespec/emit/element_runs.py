"""Loads or stores of single elements that are checked one by one go in; where their places differ in numbers alone, those
of one vector come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import NamedTuple

from wavespec.emit.index_vectors import Exprs, IndexVectors, are_alike, are_same, arguments_of, columns_of
from wavespec.emit.indices import Indices, is_natural
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, at_most, const, total
from wavespec.ir.kernel import Op
from wavespec.ir.quotients import without_remainders
from wavespec.ir.thread import Mask


class Checks(NamedTuple):
    """``shared``: of all elements.  ``inside``: places and sizes of each, compared as unsigned numbers, which also are
    not below 0.  ``below``: what else is less than what."""

    shared: Mask
    inside: tuple[tuple[Exprs, Exprs], ...]
    below: tuple[tuple[Exprs, Exprs], ...]


class Places(NamedTuple):
    """Bytes from the beginning of a tensor: what all elements share, and the rest of each.  ``step``: a size that each
    element is further on than the one before it, beside that."""

    shared: Expr
    rest: Exprs
    step: Expr = const(0)


class Parts(NamedTuple):
    """Elements lie side by side where these numbers are those of the first element, and from the first one on that has
    others, as pixels do of one image and of the next; none where all do.  ``period``: how many in a row have the same,
    at least; where that may be less than there are elements, there may be more parts than two."""

    numbers: Exprs
    period: Expr


class ElementRun(NamedTuple):
    """Elements of one tensor.  ``parts``: None where they lie side by side in other ways."""

    length: int
    checks: Checks
    places: Places
    parts: Parts | None

    @property
    def apart(self) -> int:
        """How many elements' bytes each is behind the one before it, where all are and none lies side by side; else 0."""
        ways = {after.beyond(before) for before, after in pairwise(self.places.rest)}
        way = ways.pop() if len(ways) == 1 and self.parts is None else None
        return way if way is not None and way > 0 else 0

    @property
    def asked(self) -> Mask:
        """What has to be known of sizes for the parts to be two at most."""
        known = self.parts is None or at_most(const(self.length), self.parts.period)
        return () if known or self.parts is None else ((const(self.length - 1), self.parts.period),)


def run_of(ops: Sequence[Op], bytes_: int, indices: Indices, *, of_rows: bool = False) -> ElementRun | None:
    """What vectors compute of loads, or None where they do not.  ``of_rows``: these are the first elements of rows."""
    first = ops[0]
    if any(op["memory"] != first["memory"] or len(op["mask"]) != len(first["mask"]) for op in ops):
        return None
    offsets = [op["offset"] * bytes_ for op in ops]
    places = _places(offsets, indices) or (in_steps(offsets) if of_rows else None)
    checks = _checks([op["mask"] for op in ops])
    if places is None or checks is None:
        return None
    return ElementRun(len(ops), checks, places, parts_side_by_side(tuple(op["offset"] for op in ops)))


@lru_cache(maxsize=1 << 10)
def parts_side_by_side(offsets: Exprs) -> Parts | None:
    """What tells the two parts of a run apart: a quotient that is another one once at most, where all that does not
    follow from it is one more from element to element."""
    count = len(offsets)
    if all(offset.beyond(offsets[0]) == number for number, offset in enumerate(offsets)):
        return Parts((), const(count))
    whole = [without_remainders(offset) for offset in offsets]
    columns = columns_of([offset.terms() for offset in whole])
    if columns is None or any(one.constant_part() - whole[0].constant_part() != at for at, one in enumerate(whole)):
        return None
    factors: list[Exprs] = []
    for _, column in columns:
        found = arguments_of(column) if all(expr.kind == "product" for expr in column) else [column]
        if found is None:
            return None
        factors += [factor for factor in found if not are_same(factor)]
    quotient = factors[0] if len({*factors}) == 1 else None
    period = _period(quotient) if quotient else None
    may_be = period is not None and (period.high is None or period.high >= count)
    return Parts(quotient, period) if quotient and period is not None and may_be else None


def _period(quotient: Exprs) -> Expr | None:
    """How many numbers in a row have the same quotient."""
    period = const(1)
    while all(expr.kind == "floordiv" and expr.args[1] is quotient[0].args[1] for expr in quotient):
        period *= quotient[0].args[1]
        quotient = tuple(expr.args[0] for expr in quotient)
    in_turn = all(expr.beyond(quotient[0]) == number for number, expr in enumerate(quotient))
    return period if in_turn else None


def _places(offsets: list[Expr], indices: Indices) -> Places | None:
    parts = [indices.distributed(offset) for offset in offsets]
    columns = columns_of([[(1, part) for part in row if not part.is_const] for row in parts])
    if columns is None or not all(are_alike(column) for _, column in columns):
        return None
    shared = total((column[0], 1) for _, column in columns if are_same(column))
    own = [column for _, column in columns if not are_same(column)]
    own.append(tuple(const(sum(part.value for part in row if part.is_const)) for row in parts))
    rest = tuple(total((column[lane], 1) for column in own) for lane in range(len(offsets)))
    return Places(shared, rest) if are_alike(rest) else None


def in_steps(offsets: Sequence[Expr]) -> Places | None:
    """Of rows of a matrix: each element is as far behind the one before it, by what sizes say."""
    first, step = offsets[0], offsets[1] - offsets[0]
    if any(offset - first is not step * lane for lane, offset in enumerate(offsets)):
        return None
    return Places(first, (const(0),) * len(offsets), step)


def _checks(masks: Sequence[Mask]) -> Checks | None:
    pairs = [tuple(zip(*column, strict=True)) for column in zip(*masks, strict=True)]
    if not all(are_alike(left) and are_alike(right) for left, right in pairs):
        return None
    shared = tuple((left[0], right[0]) for left, right in pairs if are_same(left) and are_same(right))
    own = [(left, right) for left, right in pairs if not (are_same(left) and are_same(right))]
    found = {right for left, right in own if left[0] == const(-1)}
    inside = [(left, right) for left, right in own if left in found and is_natural(right)]
    done = {left for left, _ in inside}
    below = [pair for pair in own if pair not in inside and not (pair[0][0] == const(-1) and pair[1] in done)]
    return Checks(shared, tuple(inside), tuple(below))


class ElementRuns:
    """Writes loads of runs, 0 in place of what is not there: of neighbours by masks, of others from chosen addresses; and
    stores of neighbours.

    Args:
        masked_bits: the smallest elements that the machine leaves out of a vector one by one.
        masks_are_vectors: of such elements, not bits of their own.
    """

    def __init__(self, text: MlirText, indices: Indices, masked_bits: int, *, masks_are_vectors: bool) -> None:
        self.text, self.indices, self.masked_bits = text, indices, masked_bits
        self.masks_are_vectors = masks_are_vectors
        self.vectors = IndexVectors(text, indices)

    def load(self, run: ElementRun, dtype: DType, start: str, zeros: Callable[[], str]) -> str:
        """SSA name of a vector; ``start``: the address of the tensor; ``zeros``: writes that of zeros."""
        for part in self.indices.addends(run.places.shared):
            start = self._add(start, part)
        if run.parts is None or dtype.bits < self.masked_bits:
            name = self._gathered(run, dtype, start, zeros())
        elif run.parts.numbers:
            name = self._joined(run, dtype, start, run.parts.numbers)
        else:
            outside = self._outside(run)
            mask = self._none(outside, run.length) if outside else self._mask(run)
            name = self._masked(run, dtype, self._add(start, run.places.rest[0]), mask)
        bits, type_ = _bits(run, dtype), vector_type(dtype, run.length)
        return name if bits == type_ else self.text.op(f"arith.bitcast {name} : {bits} to {type_}")

    def has_all(self, run: ElementRun) -> str:
        """SSA name of a bit: all elements are there; none where nothing is checked."""
        mask = self._mask(run)
        return self.text.op(f"vector.reduction <and>, {mask} : vector<{run.length}xi1> into i1") if mask else ""

    def load_apart(self, run: ElementRun, dtype: DType, start: str) -> str:
        """SSA name of a vector of elements that are all there and ``run.apart`` bytes from each other, of a few vectors
        with what lies between: the last one ends with the last element."""
        for part in self.indices.addends(run.places.shared):
            start = self._add(start, part)
        start = self._add(start, run.places.rest[0])
        count, every, bits = run.length, run.apart // dtype.bytes, _bits(run, dtype)
        last = (count - 1) * every + 1 - count
        name, lanes = "", list(range(count))
        for number, begin in enumerate(min(count * number, last) for number in range(every)):
            pointer = self.text.op(f"llvm.inttoptr {self._add(start, const(begin * dtype.bytes))} : i64 to !llvm.ptr")
            how = f"<{{alignment = {dtype.bytes} : i64}}>"
            vector = self.text.op(f'"llvm.load"({pointer}) {how} : (!llvm.ptr) -> {bits}')
            here = [count * number <= every * lane < count * (number + 1) for lane in lanes]
            before = [every * lane % count if number == 1 else lane for lane in lanes]
            taken = [count + every * lane - begin if here[lane] else before[lane] for lane in lanes]
            name = self.text.op(f"vector.shuffle {name}, {vector} {taken} : {bits}, {bits}") if name else vector
        type_ = vector_type(dtype, count)
        return name if bits == type_ else self.text.op(f"arith.bitcast {name} : {bits} to {type_}")

    def can_store(self, run: ElementRun, dtype: DType) -> bool:
        """Whether masks of bits leave out what is not there, or is of another part, which takes two stores at most."""
        return not self.masks_are_vectors and dtype.bits >= self.masked_bits and run.parts is not None and not run.asked

    def store(self, run: ElementRun, dtype: DType, start: str, value: str) -> None:
        """Store a vector, where `can_store`; ``start``: the address of the tensor."""
        assert run.parts is not None
        for part in self.indices.addends(run.places.shared):
            start = self._add(start, part)
        bits, type_, masks = _bits(run, dtype), vector_type(dtype, run.length), f"vector<{run.length}xi1>"
        value = value if bits == type_ else self.text.op(f"arith.bitcast {value} : {type_} to {bits}")
        mask = self._mask(run) or self.text.constant(1, masks)
        if not run.parts.numbers:
            self._store_masked(run, dtype, self._add(start, run.places.rest[0]), mask, value)
            return
        first, last = (without_remainders(run.places.rest[lane]) for lane in (0, -1))
        for place, how in ((first, "eq"), (last - (run.length - 1) * dtype.bytes, "ne")):
            part = self.vectors.compared(run.parts.numbers, (run.parts.numbers[0],) * run.length, how)
            part = self.text.op(f"arith.andi {mask}, {part} : {masks}")
            self._store_masked(run, dtype, self._add(start, place), part, value)

    def _store_masked(self, run: ElementRun, dtype: DType, address: str, mask: str, value: str) -> None:
        bits = _bits(run, dtype)
        pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        types, how = f"({bits}, !llvm.ptr, vector<{run.length}xi1>) -> ()", f"<{{alignment = {dtype.bytes} : i64}}>"
        self.text.do(f'"llvm.intr.masked.store"({value}, {pointer}, {mask}) {how} : {types}')

    def _add(self, address: str, bytes_: Expr) -> str:
        return self.text.op(f"arith.addi {address}, {self.indices.integer(bytes_, 64)} : i64")

    def _joined(self, run: ElementRun, dtype: DType, start: str, parts: Exprs) -> str:
        """Both parts, each as if all elements were as far apart."""
        first, last = (without_remainders(run.places.rest[lane]) for lane in (0, -1))
        last -= (run.length - 1) * dtype.bytes
        self.vectors.tell_lanes(parts, (0, run.length - 1))
        outside = self._outside(run)
        mask = "" if outside else self._mask(run)
        loaded: list[str] = []
        for place, lane, how in ((first, 0, "eq"), (last, -1, "ne")):
            if outside:  # where both parts are one, it is loaded twice
                part = self.vectors.unlike(parts, lane)
                part = self._none(self.text.op(f"arith.ori {outside}, {part} : vector<{run.length}xi32>"), run.length)
            else:
                part = self.vectors.compared(parts, (parts[0],) * run.length, how)
                part = self.text.op(f"arith.andi {mask}, {part} : vector<{run.length}xi1>")
            loaded.append(self._masked(run, dtype, self._add(start, place), part))
        return self.text.op(f"arith.ori {', '.join(loaded)} : {_bits(run, dtype)}")

    def _outside(self, run: ElementRun) -> str:
        """SSA name of numbers of 32 bits that are 0 where an element is there, of a few instructions each where masks are
        vectors; none where they are not, or a check takes more bits."""
        if not self.masks_are_vectors:
            return ""
        found = [self.vectors.beyond(*pair) for pair in run.checks.inside]
        found += [self.vectors.behind(*pair) for pair in run.checks.below]
        if not all(found) or not (found or run.checks.shared):
            return ""
        type_ = f"vector<{run.length}xi32>"
        if run.checks.shared:
            none, all_ = (self.text.constant(number, "i32") for number in (0, -1))
            how = self.text.op(f"arith.select {self.indices.inside(run.checks.shared)}, {none}, {all_} : i32")
            found.append(self.text.op(f"vector.broadcast {how} : i32 to {type_}"))
        return reduce(lambda one, other: self.text.op(f"arith.ori {one}, {other} : {type_}"), found)

    def _none(self, number: str, length: int) -> str:
        """SSA name of a vector of bits: a number is 0."""
        type_ = f"vector<{length}xi32>"
        return self.text.op(f"arith.cmpi eq, {number}, {self.text.constant(0, type_)} : {type_}")

    def _masked(self, run: ElementRun, dtype: DType, address: str, mask: str) -> str:
        """From an address on, which may be outside of the tensor."""
        bits = _bits(run, dtype)
        pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        types = f"(!llvm.ptr, vector<{run.length}xi1>, {bits}) -> {bits}"
        operands = f"{pointer}, {mask}, {self.text.constant(0, bits)}"
        return self.text.op(f'"llvm.intr.masked.load"({operands}) <{{alignment = {dtype.bytes} : i64}}> : {types}')

    def _gathered(self, run: ElementRun, dtype: DType, start: str, zeros: str) -> str:
        element, how = f"i{dtype.bits}", f"<{{alignment = {dtype.bytes} : i64}}>"
        names: list[str] = []
        for address in self.addresses(run, start, zeros):
            pointer = self.text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
            names.append(self.text.op(f'"llvm.load"({pointer}) {how} : (!llvm.ptr) -> {element}'))
        return self.text.op(f"vector.from_elements {', '.join(names)} : {_bits(run, dtype)}")

    def addresses(self, run: ElementRun, start: str, zeros: str, depth: int | None = None) -> Iterator[str]:
        """SSA names, each written as it is asked for: where an element is, or zeros where it is not there.  ``start``:
        what its place is counted from; ``depth``: of the block that has them."""
        count, addresses = run.length, f"vector<{run.length}xi64>"
        places = self._rest(run)
        both = (start, zeros)
        bases, nowhere = (self.text.op(f"vector.broadcast {name} : i64 to {addresses}", depth) for name in both)
        places = self.text.op(f"arith.addi {places}, {bases} : {addresses}", depth)
        mask = self._mask(run, depth)
        places = self.text.op(f"arith.select {mask}, {places}, {nowhere} : vector<{count}xi1>, {addresses}", depth)
        for lane in range(count):
            yield self.text.op(f"vector.extract {places}[{lane}] : i64 from {addresses}", depth)

    def _rest(self, run: ElementRun) -> str:
        """SSA name of a vector: what each element does not share."""
        step, type_, lanes = run.places.step, f"vector<{run.length}xi64>", range(run.length)
        if step is const(0):
            return self.vectors.vector(run.places.rest, 64)

        def counted(depth: int) -> str:
            each = self.vectors.vector((step,) * run.length, 64)
            return self.text.op(f"arith.muli {each}, {self.text.numbers([*lanes], type_)} : {type_}", depth)

        return self.indices.once(("steps", run.length), step, counted)

    def _mask(self, run: ElementRun, depth: int | None = None) -> str:
        bits, name = f"vector<{run.length}xi1>", ""
        parts = [self.vectors.compared(*pair, "ult") for pair in run.checks.inside]
        parts += [self.vectors.compared(*pair, "slt") for pair in run.checks.below]
        if run.checks.shared:
            parts.append(
                self.text.op(f"vector.broadcast {self.indices.inside(run.checks.shared)} : i1 to {bits}", depth)
            )
        for part in parts:
            name = self.text.op(f"arith.andi {name}, {part} : {bits}", depth) if name else part
        return name


def _bits(run: ElementRun, dtype: DType) -> str:
    """The type of a run as integers: LLVM would round bf16 by a library."""
    return f"vector<{run.length}xi{dtype.bits}>"
