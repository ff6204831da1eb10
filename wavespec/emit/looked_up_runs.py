"""Loads of single elements at places that values say go in; their addresses as vectors of the values' lanes come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from wavespec.emit.function import Function
from wavespec.emit.indices import Indices, is_natural, is_wide
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const, total
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import BIND, SLICE

_LEAST = 4
"""Elements that are fewer take as long one by one."""
_GATHERED_BITS = (32, 64)


class _Check(NamedTuple):
    """``left + numbers[lane] < right`` in the lanes that check it."""

    left: Expr
    right: Expr
    numbers: Mapping[int, int]


class LookedUpRun(NamedTuple):
    """Elements whose places differ in lanes of vectors, and in numbers. Bytes from the beginning of the tensor are
    ``shared + lanes + numbers``; ``vectors``: what the symbols of the first lane are in all lanes, and where that begins."""

    length: int
    shared: Expr
    lanes: Expr
    numbers: tuple[int, ...]
    checks: tuple[_Check, ...]
    vectors: Mapping[str, tuple[Value, int]]


class LookedUpRuns:
    """Finds runs in which lane by lane the numbers of a place are those of one vector, as values say them, and writes
    their addresses."""

    def __init__(self, function: Function, indices: Indices) -> None:
        self.function, self.text, self.indices = function, function.text, indices
        slices = {op.result.name: op for op in function.kernel.walk() if op.is_(SLICE)}
        bound = ((op["symbol"], slices.get(op.operands[0].name)) for op in function.kernel.walk() if op.is_(BIND))
        self.lanes = {name: (op.operands[0], op["start"]) for name, op in bound if op is not None and op["size"] == 1}
        """The vector that a symbol is an element of, and which."""

    def run_of(self, ops: Sequence[Op], bytes_: int) -> LookedUpRun | None:
        """The first of ``ops`` as one run, of as many as the vectors are long or half of that; None where they are none."""
        length = len(ops)
        while length >= _LEAST:
            if len(ops) >= length and (run := self._run(ops[:length], bytes_)):
                return run
            length //= 2
        return None

    def _run(self, ops: Sequence[Op], bytes_: int) -> LookedUpRun | None:
        vectors: dict[str, tuple[Value, int]] = {}
        places: list[Expr] = []
        checks: dict[tuple[Expr, Expr], dict[int, int]] = {}
        for lane, op in enumerate(ops):
            known = self._canonical(op, lane, len(ops), vectors)
            if known is None or op["memory"] != ops[0]["memory"]:
                return None
            places.append((op["offset"] * bytes_).substitute(known))
            for left, right in ((one.substitute(known), other.substitute(known)) for one, other in op["mask"]):
                numbers = checks.setdefault((left - left.constant_part(), right), {})
                if numbers.setdefault(lane, left.constant_part()) != left.constant_part():
                    return None
        numbers = [place.beyond(places[0]) for place in places]
        parts = self.indices.distributed(places[0])
        own = [part for part in parts if not part.symbols.isdisjoint(vectors)]
        sides = [side for pair in checks for side in pair]
        known_numbers = tuple(number for number in numbers if number is not None)
        is_simple = all(_is_simple(one, vectors) for one in (*own, *sides))
        if not own or len(known_numbers) < len(ops) or not is_simple:
            return None
        shared = total((part, 1) for part in parts if part.symbols.isdisjoint(vectors))
        found = tuple(_Check(left, right, lanes) for (left, right), lanes in checks.items())
        return LookedUpRun(len(ops), shared, total((part, 1) for part in own), known_numbers, found, vectors)

    def _canonical(
        self, op: Op, lane: int, length: int, vectors: dict[str, tuple[Value, int]]
    ) -> dict[str, Expr] | None:
        """The symbols of the first lane for those of another one; None where one is not the same lane of a vector."""
        known: dict[str, Expr] = {}
        for name in op.symbols & self.lanes.keys():
            value, at = self.lanes[name]
            if value.name not in self.function.values:
                return None
            if lane == 0 and at % length == 0 and value.vector.elements % length == 0:
                vectors[name] = value, at
            first = next((one for one, held in vectors.items() if held == (value, at - lane)), None)
            if first is None:
                return None
            known[name] = self.function.kernel.symbol(first)
        return known

    def load(self, run: LookedUpRun, first: Op, start: str, zeros: Callable[[], str]) -> str:
        """SSA name of a vector; ``start``: the address of the tensor; ``zeros``: writes that of zeros."""
        memory, text = self.function.memory_of(first), self.text
        for part in self.indices.addends(run.shared):
            start = text.op(f"arith.addi {start}, {self.indices.integer(part, 64)} : i64")
        gathers = self.function.machine.globals.gathers and memory.dtype.bits in _GATHERED_BITS
        name = (self._gathered if gathers else self._one_by_one)(run, memory.dtype, start, zeros)
        bits, type_ = f"vector<{run.length}xi{memory.dtype.bits}>", vector_type(memory.dtype, run.length)
        return name if bits == type_ else text.op(f"arith.bitcast {name} : {bits} to {type_}")

    def _gathered(self, run: LookedUpRun, dtype: DType, start: str, _: Callable[[], str]) -> str:
        """By an instruction, of one address and how far each element is from there."""
        text, length, bits = self.text, run.length, f"vector<{run.length}xi{dtype.bits}>"
        places = self._numbered(run.lanes, run.numbers, 64, run)
        pointer, pointers = text.op(f"llvm.inttoptr {start} : i64 to !llvm.ptr"), f"vector<{length}x!llvm.ptr>"
        types = f"(!llvm.ptr, vector<{length}xi64>) -> {pointers}, i8"
        each = text.op(f"llvm.getelementptr {pointer}[{places}] : {types}")
        mask = self._mask(run) or text.constant(1, f"vector<{length}xi1>")
        operands = f"{each}, {mask}, {text.constant(0, bits)}"
        how = f"<{{alignment = {dtype.bytes} : i64}}> : ({pointers}, vector<{length}xi1>, {bits}) -> {bits}"
        return text.op(f'"llvm.intr.masked.gather"({operands}) {how}')

    def _one_by_one(self, run: LookedUpRun, dtype: DType, start: str, zeros: Callable[[], str]) -> str:
        text, addresses = self.text, f"vector<{run.length}xi64>"
        base = text.op(f"vector.broadcast {start} : i64 to {addresses}")
        places = self._join("addi", self._numbered(run.lanes, run.numbers, 64, run), base, addresses)
        if mask := self._mask(run):
            nowhere = text.op(f"vector.broadcast {zeros()} : i64 to {addresses}")
            places = text.op(f"arith.select {mask}, {places}, {nowhere} : vector<{run.length}xi1>, {addresses}")
        element, how = f"i{dtype.bits}", f"<{{alignment = {dtype.bytes} : i64}}>"
        names: list[str] = []
        for lane in range(run.length):
            address = text.op(f"vector.extract {places}[{lane}] : i64 from {addresses}")
            pointer = text.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
            names.append(text.op(f'"llvm.load"({pointer}) {how} : (!llvm.ptr) -> {element}'))
        return text.op(f"vector.from_elements {', '.join(names)} : vector<{run.length}x{element}>")

    # -------------------------------------------------------------------------------------------------------- checks

    def _mask(self, run: LookedUpRun) -> str:
        """SSA name of a vector of bits, none where nothing is checked."""
        every = set(range(run.length))
        positive = {one.right for one in run.checks if one.left is const(0) and {*one.numbers.values()} == {-1}}
        names: list[str] = []
        bits = f"vector<{run.length}xi1>"
        covered: set[Expr] = set()
        for check in run.checks:
            plain = {*check.numbers.values()} == {0} and {*check.numbers} == every
            if plain and check.left in positive and is_natural((check.right,)):
                covered.add(check.left)
                names.append(self._compared(check, "ult", run))
        for check in run.checks:
            plain = {*check.numbers.values()} == {0} and {*check.numbers} == every
            is_done = check.left in covered and plain and is_natural((check.right,))
            if is_done or (check.left is const(0) and {*check.numbers.values()} == {-1} and check.right in covered):
                continue
            name = self._compared(check, "slt", run)
            if {*check.numbers} != every:
                others = [int(lane not in check.numbers) for lane in range(run.length)]
                name = self._join(
                    "ori", name, self.text.op(f"arith.constant dense<{_bools(others)}> : {bits}", 0), bits
                )
            names.append(name)
        return reduce(lambda one, other: self._join("andi", one, other, bits), names) if names else ""

    def _compared(self, check: _Check, how: str, run: LookedUpRun) -> str:
        wide = (
            is_wide(check.left) or is_wide(check.right) or any(is_wide(check.left + n) for n in check.numbers.values())
        )
        bits = 64 if wide else 32
        numbers = tuple(check.numbers.get(lane, 0) for lane in range(run.length))
        left, right = self._numbered(check.left, numbers, bits, run), self._vector(check.right, bits, run)
        return self.text.op(f"arith.cmpi {how}, {left}, {right} : vector<{run.length}xi{bits}>")

    # -------------------------------------------------------------------------------------------------------- vectors

    def _numbered(self, expr: Expr, numbers: Sequence[int], bits: int, run: LookedUpRun) -> str:
        type_ = f"vector<{run.length}xi{bits}>"
        name = self._vector(expr, bits, run)
        return name if not any(numbers) else self._join("addi", name, self.text.numbers(numbers, type_), type_)

    def _vector(self, expr: Expr, bits: int, run: LookedUpRun) -> str:
        """SSA name of what an expression is in all lanes."""
        type_ = f"vector<{run.length}xi{bits}>"
        if expr.symbols.isdisjoint(run.vectors):
            return self.text.op(f"vector.broadcast {self.indices.integer(expr, bits)} : i{bits} to {type_}")
        if expr.kind == "symbol":
            return self._lanes(*run.vectors[expr.args[0]], bits, run.length)
        if expr.kind == "product":
            return reduce(
                lambda one, other: self._join("muli", one, other, type_),
                [self._vector(one, bits, run) for one in expr.args],
            )
        rest = expr - total((term, by) for by, term in expr.terms() if not term.symbols.isdisjoint(run.vectors))
        names = [self._vector(rest, bits, run)] if rest is not const(0) else []
        for by, term in expr.terms():
            if not term.symbols.isdisjoint(run.vectors):
                name = self._vector(term, bits, run)
                names.append(name if by == 1 else self._join("muli", name, self.text.constant(by, type_), type_))
        return reduce(lambda one, other: self._join("addi", one, other, type_), names)

    def _lanes(self, value: Value, first: int, bits: int, length: int) -> str:
        dtype = value.vector.dtype
        parts = self.function.parts(value, [length] * (value.vector.elements // length))
        name, own = parts[first // length].name, dtype.bits
        if own == bits:
            return name
        verb = "trunci" if own > bits else "extui" if dtype.kind == "uint" else "extsi"
        return self.text.op(f"arith.{verb} {name} : vector<{length}xi{own}> to vector<{length}xi{bits}>")

    def _join(self, verb: str, left: str, right: str, type_: str) -> str:
        return self.text.op(f"arith.{verb} {left}, {right} : {type_}")


def _is_simple(expr: Expr, vectors: Mapping[str, object]) -> bool:
    """Whether lanes are added and multiplied only."""
    if expr.symbols.isdisjoint(vectors) or expr.kind == "symbol":
        return True
    if expr.kind == "product":
        return all(_is_simple(one, vectors) for one in expr.args)
    return expr.kind == "sum" and all(_is_simple(term, vectors) for _, term in expr.terms())


def _bools(numbers: Sequence[int]) -> str:
    return str([bool(number) for number in numbers]).lower()
