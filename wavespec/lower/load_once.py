"""Thread kernel in, thread kernel out: what registers of a lane take from one place of an input is loaded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from wavespec.ir.comparing import key_of_attributes
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import BIND, LOAD, MMA_ASYNC, PURE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class LoadOnce(Pass):
    """Keep the first of loads of one place of an input, of those that a factor of a product is decoded by.

    Before: a factor that lanes make of what they load has registers for each of its elements, and of a scale that a
            group of them has as many loads, each with a branch of its own where a tile sticks out.
    After:  one load, whose result all of them use.
    Example: weights of i4 with a scale for 128: 16 loads of a step become two.
    """

    name: ClassVar[str] = "load-once"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
        return replace(kernel, body=_block(kernel.body, {}, inputs)[0])


def _block(
    ops: Sequence[Op], names: Mapping[str, Value], inputs: set[str]
) -> tuple[tuple[Op, ...], Mapping[str, Value]]:
    """The operations that are left, and what stands for the results of the others and of those around."""
    decoded, bound = _decoded_by(ops), {op["symbol"] for op in ops if op.is_(BIND)}
    names, known, result = dict(names), dict[tuple[Any, ...], Value](), list[Op]()
    for op in ops:
        op = replace(op, operands=_renamed(op.operands, names))
        if op.region:
            inside, inner = _block(op.region.ops, names, inputs)
            op = replace(op, region=replace(op.region, ops=inside, yields=_renamed(op.region.yields, inner)))
        elif op.is_(LOAD) and op.result.name in decoded and op["memory"] in inputs and bound.isdisjoint(op.symbols):
            first = known.setdefault((key_of_attributes(op), op.result.type), op.result)
            if first is not op.result:
                names[op.result.name] = first
                continue
        result.append(op)
    return tuple(result), names


def _decoded_by(ops: Sequence[Op]) -> set[str]:
    """Names of what factors in registers are made of, by operations of the block that compute and load alone."""
    makers = {
        value.name: op for op in ops if op.is_(PURE) or (op.is_(LOAD) and not op.operands) for value in op.results
    }
    found = set[str]()
    for factor in {value.name for op in ops if op.is_(MMA_ASYNC) for value in op.operands[:-1]}:
        made, waiting = set[str](), [factor]
        while waiting and waiting[-1] in makers:
            name = waiting.pop()
            waiting += [value.name for value in makers[name].operands if value.name not in made]
            made.add(name)
        found |= set() if waiting else made
    return found


def _renamed(values: Iterable[Value], names: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(names.get(value.name, value) for value in values)
