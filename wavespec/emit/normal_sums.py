"""A kernel goes in; the values that an instruction may round to bf16 that takes numbers below the smallest normal one for
zero come out, each with that instruction: results of products that are never such, and what becomes operands of
products that take those for zero as well."""

from __future__ import annotations

from collections.abc import Iterable

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import (
    ACCUMULATE,
    CAST,
    CONSTANT,
    DOT,
    FOR,
    LOAD,
    LOAD_TILE,
    MMA,
    PACK,
    PAD,
    SLICE,
    STORE,
    TRANSPOSE,
)
from wavespec.targets.machine import Machine


def normal_sums(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """The instruction by the name of a value, none of whose elements is below the smallest normal number and not zero."""
    found = dict[str, str]()
    _look(kernel.body, machine, found)
    known = dict[str, str]()
    while (kept := _kept_sums(kernel, found)) != known:
        known = kept
        found |= {op.result.name: kept[op["memory"]] for op in kernel.walk() if op.is_(LOAD) and op["memory"] in kept}
        _look(kernel.body, machine, found)
    return {name: rounding for name, rounding in found.items() if rounding}


def _kept_sums(kernel: Kernel, found: dict[str, str]) -> dict[str, str]:
    """The instruction by the name of a private memory that such numbers alone are stored to, and none is added to: what
    is left of two that cancel may be smaller."""
    writes = dict[str, set[str | None]]()
    for op in kernel.walk():
        if op.is_(STORE, ACCUMULATE):
            writes.setdefault(op["memory"], set()).add(found.get(op.operands[0].name) if op.is_(STORE) else None)
    private = [memory.name for memory in kernel.memories if memory.space == "private"]
    known = {name: writes[name] for name in private if None not in writes.get(name, {None})}
    return {name: max(filter(None, one)) for name, one in known.items() if any(one)}


_FACTORS = 2
_TO_OPERANDS = SLICE | PACK | PAD | TRANSPOSE
_LOOKED_UP = "look_up"
_Use = tuple[Op | None, int]
"""Who has a value, and as which operand; nobody, where a region yields it."""


def rounded_operands(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """The instruction by the name of a conversion's result that nobody uses but products, be it by way of a memory."""
    users = _Users(kernel, machine)
    casts = [op for op in kernel.walk() if op.is_(CAST) and op.result.vector.dtype.name == "bf16"]
    return {op.result.name: found for op in casts if (found := users.of(op.result))}


class _Users:
    """What the users of values of a kernel would have them rounded by."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.machine = machine
        self.uses = dict[str, list[_Use]]()
        self.inside = {memory.name for memory in kernel.memories if memory.space != "global"}
        self.readers = dict[str, list[Op]]()  # of a memory of the kernel's own
        self.known = dict[str, str]()
        for op in kernel.walk():
            for number, value in enumerate(op.operands):
                self.uses.setdefault(value.name, []).append((op, number))
            for value in op.region.yields if op.region else ():
                self.uses.setdefault(value.name, []).append((None, 0))
            if not op.is_(STORE) and op.get("memory"):
                self.readers.setdefault(op["memory"], []).append(op)

    def of(self, value: Value) -> str:
        """The instruction that all users of a value would have it rounded by; empty where they are not of one mind."""
        if value.name not in self.known:
            self.known[value.name] = ""  # for whoever asks on the way: what loops exchange comes round to itself
            found = {self._of(op, number) for op, number in self.uses.get(value.name, ())}
            self.known[value.name] = found.pop() if len(found) == 1 else ""
        return self.known[value.name]

    def _of(self, op: Op | None, number: int) -> str:
        if op is None:
            return ""
        if op.is_(MMA) and number < _FACTORS:
            row = self.machine.instruction(op["instruction"])
            return row.rounded_operands if row is not None else ""
        if op.is_(STORE) and op["memory"] in self.inside:
            readers = self.readers.get(op["memory"], ())
            found = {self.of(one.result) if one.is_(LOAD, LOAD_TILE) else "" for one in readers}
            return found.pop() if len(found) == 1 else ""
        goes_on = op.is_(_TO_OPERANDS) or (op.name == _LOOKED_UP and number)
        return self.of(op.result) if goes_on else ""


def _look(ops: Iterable[Op], machine: Machine, found: dict[str, str]) -> None:
    """Zeros are found as well, without an instruction."""
    for op in ops:
        if op.is_(CONSTANT) and op["value"] == 0:
            found[op.result.name] = ""
        elif op.is_(MMA, DOT):
            row = machine.instruction(op["instruction"].partition(":")[0])
            if row is not None and row.rounded:
                found[op.result.name] = row.rounded
        elif op.is_(SLICE, PACK):
            known = {found.get(value.name) for value in op.operands}
            if None not in known:
                found[op.result.name] = max(rounding or "" for rounding in known)
        elif op.is_(FOR):
            _look_in_loop(op, machine, found)
        elif op.region is not None:
            _look(op.region.ops, machine, found)


def _look_in_loop(loop: Op, machine: Machine, found: dict[str, str]) -> None:
    """What a loop carries is such a number where it begins as one, and each step makes one of one."""
    carried = list(zip(loop.operands, loop.body.arguments, loop.body.yields, loop.results, strict=True))
    supposed = [one for one in carried if one[0].name in found]
    while True:
        inside = {**found, **{argument.name: found[before.name] for before, argument, *_ in supposed}}
        _look(loop.body.ops, machine, inside)
        left = [one for one in supposed if one[2].name in inside]
        if len(left) == len(supposed):
            break
        supposed = left
    found |= inside
    found |= {result.name: inside[after.name] for *_, after, result in supposed}
