"""A `for` of a thread kernel goes in; a loop that counts, one that may end early, or a branch comes out, with what it
carries in the parts that the machine computes with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wavespec.emit.registers import Part, Parts, vector_type
from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value

if TYPE_CHECKING:
    from wavespec.emit.thread_to_mlir import ThreadToMlir

Sizes = list[list[int]]
"""Elements in each part of each carried value."""


def emit_loop(emitter: ThreadToMlir, op: Op) -> None:
    """Write a `for`: ``once`` makes a branch of it, and one with ``goes_on`` may end early."""
    if op.get("once"):
        _branch(emitter, op)
    elif op.get("goes_on") is not None:
        _ending(emitter, op)
    else:
        _counting(emitter, op)


def _counting(emitter: ThreadToMlir, op: Op) -> None:
    text, indices, bits = emitter.text, emitter.indices, emitter.counter_bits(op)
    lower, upper, step = (indices.integer(op[key], bits) for key in ("lower", "upper", "step"))
    sizes = _sizes(emitter, op)
    first, types = _names(_parts(emitter, op.operands, sizes)), _types(op, sizes)
    induction = text.name()
    text.open()
    indices.open()
    indices.define(op["induction"], induction, bits)
    arguments = [text.name() for _ in types]
    _define(emitter, op.body.arguments, arguments, sizes)
    emitter.block(op.body.ops)
    text.span = op.span
    emitter.end_body(op)
    last = _names(_parts(emitter, op.body.yields, sizes))
    if types:
        text.do(f"scf.yield {', '.join(last)} : {', '.join(types)}")
    indices.close()
    lines = text.close()
    result = text.name()
    head = f"scf.for {induction} = {lower} to {upper} step {step}"
    if types:
        carried = ", ".join(f"{name} = {start}" for name, start in zip(arguments, first, strict=True))
        head = f"{result}:{len(types)} = {head} iter_args({carried}) -> ({', '.join(types)})"
    text.blocks[-1] += [f"{head}  : i{bits} {{", *lines]
    text.do(f"}}{emitter.loop_attribute()}")
    _define(emitter, op.results, [f"{result}#{number}" for number in range(len(types))], sizes)


def _ending(emitter: ThreadToMlir, op: Op) -> None:
    """`scf.while` of the counter, of whether the loop goes on, which its symbols say anew at the end of the body, and of
    what is carried."""
    text, indices, asked = emitter.text, emitter.indices, ((const(0), op["goes_on"]),)
    bits = emitter.counter_bits(op)
    lower, upper, step = (indices.integer(op[key], bits) for key in ("lower", "upper", "step"))
    enters = indices.holds(asked)
    sizes = _sizes(emitter, op)
    first, types = _names(_parts(emitter, op.operands, sizes)), _types(op, sizes)
    at, goes_on, asked_of = text.name(), text.name(), [text.name() for _ in types]
    counter, arguments = text.name(), [text.name() for _ in types]
    text.open()
    indices.open()
    indices.define(op["induction"], counter, bits)
    _define(emitter, op.body.arguments, arguments, sizes)
    emitter.block(op.body.ops)
    text.span = op.span
    last = _names(_parts(emitter, op.body.yields, sizes))
    still = indices.holds(asked)
    following = text.op(f"arith.addi {counter}, {step} : i{bits}")
    kinds, kept = ", ".join((f"i{bits}", "i1", *types)), ", ".join((f"i{bits}", *types))
    text.do(f"scf.yield {', '.join((following, still, *last))} : {kinds}")
    indices.close()
    body = text.close()

    text.open()
    inside = text.op(f"arith.cmpi slt, {at}, {upper} : i{bits}")
    more = text.op(f"arith.andi {inside}, {goes_on} : i1")
    text.do(f"scf.condition({more}) {', '.join((at, *asked_of))} : {kept}")
    before = text.close()

    result = text.name()
    starts = zip((at, goes_on, *asked_of), (lower, enters, *first), strict=True)
    given = ", ".join(f"{name} = {start}" for name, start in starts)
    carried = ", ".join(
        f"{name}: {kind}" for name, kind in zip((counter, *arguments), (f"i{bits}", *types), strict=True)
    )
    head = f"{result}:{1 + len(types)} = scf.while ({given}) : ({kinds}) -> ({kept}) {{"
    text.blocks[-1] += [head, *before, "} do {", f"^bb0({carried}):", *body]
    text.do("}")
    _define(emitter, op.results, [f"{result}#{1 + number}" for number in range(len(types))], sizes)


def _branch(emitter: ThreadToMlir, op: Op) -> None:
    """What it does not change has the value from before."""
    text, indices = emitter.text, emitter.indices
    condition = indices.holds(((op["lower"], op["upper"]),))
    sizes = _sizes(emitter, op)
    types, before = _types(op, sizes), _parts(emitter, op.operands, sizes)
    text.open()
    indices.open()
    indices.define(op["induction"], text.constant(0, "i32"), 32)
    emitter.values |= {value.name: parts for value, parts in zip(op.body.arguments, before, strict=True)}
    emitter.block(op.body.ops)
    text.span = op.span
    after = _parts(emitter, op.body.yields, sizes)
    indices.close()
    result, head = text.name(), f"scf.if {condition}"
    if types:
        text.do(f"scf.yield {', '.join(_names(after))} : {', '.join(types)}")
        head = f"{result}:{len(types)} = {head} -> ({', '.join(types)})"
    lines = text.close()
    if types:
        lines += ["} else {", f"scf.yield {', '.join(_names(before))} : {', '.join(types)} {text.location()}"]
    text.blocks[-1] += [f"{head} {{", *lines]
    text.do("}")
    _define(emitter, op.results, [f"{result}#{number}" for number in range(len(types))], sizes)


def _sizes(emitter: ThreadToMlir, op: Op) -> Sizes:
    return [emitter.native_sizes(value.vector.dtype, value.vector.elements) for value in op.operands]


def _types(op: Op, sizes: Sizes) -> list[str]:
    pairs = zip(op.operands, sizes, strict=True)
    return [vector_type(value.vector.dtype, size) for value, wanted in pairs for size in wanted]


def _parts(emitter: ThreadToMlir, values: Sequence[Value], sizes: Sizes) -> list[Parts]:
    return [emitter.parts(value, wanted) for value, wanted in zip(values, sizes, strict=True)]


def _names(values: Iterable[Parts]) -> list[str]:
    return [part.name for parts in values for part in parts]


def _define(emitter: ThreadToMlir, values: Sequence[Value], names: Sequence[str], sizes: Sizes) -> None:
    """Let values be made of parts of these names."""
    following = iter(names)
    for value, wanted in zip(values, sizes, strict=True):
        emitter.values[value.name] = tuple(Part(next(following), size) for size in wanted)
