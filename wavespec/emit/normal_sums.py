"""A kernel goes in; the values that an instruction may round to bf16 that takes numbers below the smallest normal one for
zero come out, each with that instruction: results of products that are never such, and what becomes operands of
products that take those for zero as well."""

from __future__ import annotations

from collections.abc import Iterable

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import CAST, CONSTANT, DOT, FOR, MMA, PACK, PAD, SLICE
from wavespec.targets.machine import Machine


def normal_sums(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """The instruction by the name of a value, none of whose elements is below the smallest normal number and not zero."""
    found = dict[str, str]()
    _look(kernel.body, machine, found)
    return {name: rounding for name, rounding in found.items() if rounding}


_FACTORS = 2
_TO_OPERANDS = SLICE | PACK | PAD
_LOOKED_UP = "look_up"
_Users = dict[str, list[tuple[Op | None, int]]]
"""Who has a value, and as which operand; nobody, where a region yields it."""


def rounded_operands(kernel: Kernel, machine: Machine) -> dict[str, str]:
    """The instruction by the name of a conversion's result that nobody uses but products."""
    users: _Users = {}
    for op in kernel.walk():
        for number, value in enumerate(op.operands):
            users.setdefault(value.name, []).append((op, number))
        for value in op.region.yields if op.region else ():
            users.setdefault(value.name, []).append((None, 0))
    known = dict[str, str]()
    casts = [op for op in kernel.walk() if op.is_(CAST) and op.result.vector.dtype.name == "bf16"]
    return {op.result.name: found for op in casts if (found := _of_users(op.result, users, known, machine))}


def _of_users(value: Value, users: _Users, known: dict[str, str], machine: Machine) -> str:
    """The instruction that all users of a value would have it rounded by; empty where they are not of one mind."""
    if value.name not in known:
        found = {_of_user(op, number, users, known, machine) for op, number in users.get(value.name, ())}
        known[value.name] = found.pop() if len(found) == 1 else ""
    return known[value.name]


def _of_user(op: Op | None, number: int, users: _Users, known: dict[str, str], machine: Machine) -> str:
    if op is None:
        return ""
    if op.is_(MMA) and number < _FACTORS:
        row = machine.instruction(op["instruction"])
        return row.rounded_operands if row is not None else ""
    goes_on = op.is_(_TO_OPERANDS) or (op.name == _LOOKED_UP and number)
    return _of_users(op.result, users, known, machine) if goes_on else ""


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
