"""A loop whose lanes copy goes in; the same, with what places are made of loaded once and a step ahead, comes out."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Region, Value
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread_ops import BIND, LOAD


def places_ahead(kernel: Kernel, loop: Op, fresh: Callable[[str], str]) -> list[Op]:
    """A loop that carries nothing, with what is to stand in front of it.

    What does not change from step to step is loaded in front of the loop.  The rest is loaded at the end of the step
    before, and carried: a lane would wait for it in front of each of its copies.  Places of places stay where they are,
    and what is read of a tensor that the kernel writes.
    """
    inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
    ops, induction = _once(kernel, loop.body.ops, inputs), loop["induction"]
    before, rest, loads, changing = list[Op](), list[Op](), list[Op](), {induction}
    values = set[str]()
    for op in ops:
        changes = not changing.isdisjoint(op.symbols) or not values.isdisjoint(value.name for value in op.operands)
        is_input = op.is_(LOAD) and op["memory"] in inputs
        if is_input and {*op.symbols} & changing == {induction} and not op.operands:
            loads.append(op)
        elif (is_input or op.is_(BIND)) and not changes:
            before.append(op)
            continue
        else:
            rest.append(op)
        values |= {value.name for value in op.results}
        changing |= {op["symbol"]} if op.is_(BIND) else set()
    step, names = {induction: kernel.symbol(induction) + loop["step"]}, dict[str, Value]()
    first = [copied(substituted(op, {induction: loop["lower"]}), fresh, {}) for op in loads]
    behind = [copied(substituted(op, step), fresh, {}) for op in loads]
    for op in loads:
        names[op.result.name] = Value(fresh(op.result.name), op.result.type)
    body = [replace(op, operands=tuple(names.get(value.name, value) for value in op.operands)) for op in rest]
    region = Region(tuple(names.values()), (*body, *behind), tuple(op.result for op in behind))
    results = tuple(Value(fresh(value.name), value.type) for value in names.values())
    return [*before, *first, replace(loop, operands=tuple(op.result for op in first), results=results, region=region)]


def _once(kernel: Kernel, ops: Sequence[Op], inputs: Container[str]) -> list[Op]:
    """The operations without loads of inputs, and symbols for what they give, that are there already."""
    found, known = list[Op](), dict[object, Op]()
    names, symbols = dict[str, Value](), dict[str, Expr]()
    for old in ops:
        op = substituted(old, symbols)
        op = replace(op, operands=tuple(names.get(value.name, value) for value in op.operands))
        key: object = op.attributes if op.is_(LOAD) and op["memory"] in inputs else None
        if op.is_(BIND):
            key = (op.operands[0].name, op.get("uniform"))
        if key in known:
            names |= {value.name: there for value, there in zip(op.results, known[key].results, strict=True)}
            symbols |= {op["symbol"]: kernel.symbol(known[key]["symbol"])} if op.is_(BIND) else {}
            continue
        if key is not None:
            known[key] = op
        found.append(op)
    return found
