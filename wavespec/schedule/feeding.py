"""Operations in; what they use, as values or as symbols that are bound to values, and who makes that, out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import BIND


def bound_symbols(ops: Iterable[Op]) -> dict[str, Value]:
    """The symbols that operations bind, and the value that each stands for."""
    return {op["symbol"]: op.operands[0] for op in ops if op.is_(BIND)}


def symbols_of(op: Op) -> frozenset[str]:
    """Symbols that an operation, or one inside of it, names."""
    return op.symbols if op.region is None else frozenset[str]().union(*[inner.symbols for inner in op.walk()])


def used_values(op: Op, bound: Mapping[str, Value]) -> tuple[Value, ...]:
    """Operands of an operation, then what the symbols that it names are ``bound`` to."""
    if not bound:
        return op.operands
    return (*op.operands, *(bound[name] for name in sorted(symbols_of(op) & bound.keys())))


def feeding(ops: Sequence[Op], wanted: Iterable[int]) -> list[int]:
    """The operations that make what the ``wanted`` ones use, without those themselves, in order.

    Numbers are places in ``ops``.
    """
    numbers = frozenset(wanted)
    values, symbols = set[str](), set[str]()
    found: list[int] = []
    for number in reversed(range(len(ops))):
        op = ops[number]
        makes = any(value.name in values for value in op.results) or (op.is_(BIND) and op["symbol"] in symbols)
        if makes and number not in numbers:
            found.append(number)
        if makes or number in numbers:
            values |= {value.name for inner in op.walk() for value in inner.operands}
            symbols |= symbols_of(op)
    return found[::-1]
