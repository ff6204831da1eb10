"""A loop whose lanes copy goes in; the same, with what places are made of loaded once and a step ahead, comes out."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, Region, Value
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread_ops import BIND, LOAD
from wavespec.schedule.places_by_lanes import places_by_lanes


def places_ahead(kernel: Kernel, loop: Op, wave_lanes: int, fresh: Callable[[str], str]) -> tuple[list[Op], list[Expr]]:
    """A loop that carries nothing, with what is to stand in front of it, and the symbols that it binds anew.

    What does not change from step to step is loaded in front of the loop.  The rest is loaded at the end of the step
    before, and carried: a lane would wait for it in front of each of its copies.  Places of places stay where they are,
    and what is read of a tensor that the kernel writes.  ``wave_lanes`` hand each other words, and so places.
    """
    inputs, induction = {memory.name for memory in kernel.memories if memory.role == "input"}, loop["induction"]
    before, ops, changing = _hoisted(_once(kernel, loop.body.ops, inputs), induction, inputs)
    ops, symbols = places_by_lanes(kernel, ops, changing, wave_lanes, fresh)
    ops = _once(kernel.with_symbols(*symbols), ops, inputs)
    changing |= {op["symbol"] for op in ops if op.is_(BIND)}
    loads = [op for op in ops if _is_input(op, inputs) and {*op.symbols} & changing == {induction} and not op.operands]
    rest = [op for op in ops if op not in loads]
    step, names = {induction: kernel.symbol(induction) + loop["step"]}, dict[str, Value]()
    first = [copied(substituted(op, {induction: loop["lower"]}), fresh, {}) for op in loads]
    behind = [copied(substituted(op, step), fresh, {}) for op in loads]
    for op in loads:
        names[op.result.name] = Value(fresh(op.result.name), op.result.type)
    body = [replace(op, operands=tuple(names.get(value.name, value) for value in op.operands)) for op in rest]
    region = Region(tuple(names.values()), (*body, *behind), tuple(op.result for op in behind))
    results = tuple(Value(fresh(value.name), value.type) for value in names.values())
    loop = replace(loop, operands=tuple(op.result for op in first), results=results, region=region)
    return [*before, *first, loop], symbols


def _hoisted(ops: Sequence[Op], induction: str, inputs: Container[str]) -> tuple[list[Op], list[Op], set[str]]:
    """What is the same in all steps, the rest, and the symbols that change."""
    before, rest, changing, values = list[Op](), list[Op](), {induction}, set[str]()
    for op in ops:
        changes = not changing.isdisjoint(op.symbols) or not values.isdisjoint(value.name for value in op.operands)
        if not changes and (op.is_(BIND) or _is_input(op, inputs)):
            before.append(op)
            continue
        rest.append(op)
        values |= {value.name for value in op.results}
        changing |= {op["symbol"]} if op.is_(BIND) else set()
    return before, rest, changing


def _is_input(op: Op, inputs: Container[str]) -> bool:
    return op.is_(LOAD) and op["memory"] in inputs


def _once(kernel: Kernel, ops: Sequence[Op], inputs: Container[str]) -> list[Op]:
    """The operations without loads of inputs, and symbols for what they give, that are there already."""
    found, known = list[Op](), dict[object, Op]()
    names, symbols = dict[str, Value](), dict[str, Expr]()
    for old in ops:
        op = substituted(old, symbols)
        op = replace(op, operands=tuple(names.get(value.name, value) for value in op.operands))
        key: object = op.attributes if _is_input(op, inputs) else None
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
