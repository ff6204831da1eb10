"""A loop that may end early goes in; `scf.while` comes out, with the counter, whether it goes on, and what is carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavespec.emit.registers import Part, vector_type
from wavespec.ir.expr import const
from wavespec.ir.kernel import Op

if TYPE_CHECKING:
    from wavespec.emit.thread_to_mlir import ThreadToMlir


def emit_ending_loop(emitter: ThreadToMlir, op: Op) -> None:
    """Write a `for` with ``goes_on``, which its symbols say anew at the end of the body."""
    text, indices, asked = emitter.text, emitter.indices, ((const(0), op["goes_on"]),)
    bits = emitter.counter_bits(op)
    lower, upper, step = (indices.integer(op[key], bits) for key in ("lower", "upper", "step"))
    enters = indices.holds(asked)
    sizes = [emitter.native_sizes(value.vector.dtype, value.vector.elements) for value in op.operands]
    pairs = list(zip(op.operands, sizes, strict=True))
    first = [part.name for value, wanted in pairs for part in emitter.parts(value, wanted)]
    types = [vector_type(value.vector.dtype, size) for value, wanted in pairs for size in wanted]

    def named() -> list[str]:
        return [text.name() for _ in types]

    at, goes_on, asked_of = text.name(), text.name(), named()
    counter, arguments = text.name(), named()
    text.open()
    indices.open()
    indices.define(op["induction"], counter, bits)
    names = iter(arguments)
    for value, wanted in zip(op.body.arguments, sizes, strict=True):
        emitter.values[value.name] = tuple(Part(next(names), size) for size in wanted)
    emitter.block(op.body.ops)
    text.span = op.span
    last = [
        part.name for value, wanted in zip(op.body.yields, sizes, strict=True) for part in emitter.parts(value, wanted)
    ]
    still = indices.holds(asked)
    following = text.op(f"arith.addi {counter}, {step} : i{bits}")
    text.do(f"scf.yield {', '.join((following, still, *last))} : {', '.join((f'i{bits}', 'i1', *types))}")
    indices.close()
    body = text.close()

    text.open()
    inside = text.op(f"arith.cmpi slt, {at}, {upper} : i{bits}")
    more = text.op(f"arith.andi {inside}, {goes_on} : i1")
    text.do(f"scf.condition({more}) {', '.join((at, *asked_of))} : {', '.join((f'i{bits}', *types))}")
    before = text.close()

    result = text.name()
    starts = zip((at, goes_on, *asked_of), (lower, enters, *first), strict=True)
    given = ", ".join(f"{name} = {start}" for name, start in starts)
    kinds, kept = ", ".join((f"i{bits}", "i1", *types)), ", ".join((f"i{bits}", *types))
    carried = ", ".join(
        f"{name}: {kind}" for name, kind in zip((counter, *arguments), (f"i{bits}", *types), strict=True)
    )
    block = text.blocks[-1]
    block.append(f"{result}:{1 + len(types)} = scf.while ({given}) : ({kinds}) -> ({kept}) {{")
    block += [*before, "} do {", f"^bb0({carried}):", *body]
    text.do("}")
    number = 1
    for value, wanted in zip(op.results, sizes, strict=True):
        emitter.values[value.name] = tuple(Part(f"{result}#{number + i}", size) for i, size in enumerate(wanted))
        number += len(wanted)
