"""Thread kernel in, thread kernel out: a long loop adds up blocks of its steps, and the sums of the blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import ClassVar

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, ceildiv, const, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, VectorType, attribute_pairs, rewrite
from wavespec.ir.thread_ops import DOT, ELEMENTWISE, FOR, MMA, MMA_ASYNC
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction

_STEPS = 32
"""Of a block: its end costs as much as a step or two."""
_STEPS_TO_LONG_SUMS = 16
"""Of a block whose sum meets others in a type of its own: then most of the error is that of a block."""
_WIDE = 256
"""Elements of a step from which on no row of usual length has many steps."""


class ShortenSums(Pass):
    """Round each sum along a dim a few dozen times in place of once for each step.

    Before: a loop of small steps adds what each has, or a product, to carried floats of at most 32 bits.
    After:  where it may have more steps than a block, it is two loops: the inner one adds up the steps of a block,
            from zero, and the outer one the blocks.  The errors of a row then grow with the square root of its
            length, and a tile of few columns errs no more than one of many.  What blocks without products come to is in
            the type that the machine has for long sums (`Machine.long_sums`).  Of a product a block is what its
            instruction should sum at once (`MatrixInstruction.chain`, and `short_chain` of a short dim), also where one
            tile has all of the dim.
    Cases:  loops with asynchronous products stay: their registers are taken, and a product is on its way from each
            step to the next.
    """

    name: ClassVar[str] = "shorten-sums"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, symbols = fresh_names(kernel), list[Expr]()

        def change(op: Op) -> tuple[Op, ...]:
            length = _length_of_block(op, kernel, machine)
            of_products = bool(length) and _chain(op, kernel, machine) > 0
            sums = _sums(op, with_products=of_products) if length else ()
            if not length or not any(sums):
                return (op,)
            block = _block(op, length, fresh(f"{op['induction']}_block"))
            symbols.append(block)
            wide = DTYPES[machine.long_sums] if machine.long_sums and not of_products else None
            return _with_wide_sums(_in_blocks(op, sums, block, length, wide, fresh), fresh)

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel.with_symbols(*symbols), body=body)


def _length_of_block(loop: Op, kernel: Kernel, machine: Machine) -> int | None:
    """Elements of the loop's dim whose sums begin at zero; None where the loop stays as it is."""
    step, way = loop["step"], loop["upper"] - loop["lower"]
    if loop.get("once") or loop.get("goes_on") is not None or not step.is_const or step.value >= _WIDE:
        return None
    if any(op.is_(MMA_ASYNC) for op in loop.body.ops):
        return None
    if chain := _chain(loop, kernel, machine):
        length = most = chain // step.value * step.value
    else:
        length = (_STEPS_TO_LONG_SUMS if machine.long_sums else _STEPS) * step.value
        most = 2 * _STEPS * step.value
    return length if length and (way.high is None or way.high > most) else None


def _chain(loop: Op, kernel: Kernel, machine: Machine) -> int:
    """What the instructions of its products should sum at once, at most; 0 without such."""
    length, step, sizes = loop["upper"] - loop["lower"], loop["step"].value, kernel.all_sizes.values()
    is_whole = length in sizes or any(length == ceildiv(size, step) * step for size in sizes)
    longest = length.high if is_whole else None  # all of a dim, or unknown
    rows = [instruction_of(op, machine) for op in loop.body.ops if op.is_(MMA, DOT)]
    return min([_chain_of(row, longest) for row in rows], default=0)


def _chain_of(row: MatrixInstruction, longest: int | None) -> int:
    is_short = longest is not None and longest <= 2 * row.chain
    return row.short_chain or row.chain if is_short else row.chain


def _sums(loop: Op, *, with_products: bool) -> tuple[bool, ...]:
    """Of each carried value, whether all that becomes of it in a step is that a number, or a product, is added."""
    body = loop.body
    inner = [op for outer in body.ops for op in outer.walk()]
    uses = Counter(value.name for op in inner for value in op.operands)
    uses.update(value.name for op in inner if op.region for value in op.region.yields)
    uses.update(value.name for value in body.yields)
    made = {op.result.name: op.operands for op in body.ops if op.is_(ELEMENTWISE) and op["function"] == "add"}
    if with_products:
        made |= {op.result.name: op.operands[2:] for op in body.ops if op.is_(MMA, DOT)}
    dots = {op.result.name for op in body.ops if op.is_(DOT)}

    def is_sum(argument: Value, last: Value) -> bool:
        dtype = argument.vector.dtype
        while last.name in dots and last.name in made and argument not in made[last.name] and uses[last.name] == 1:
            (last,) = made[last.name]  # one product after the other
        if last.name not in made or not dtype.is_float or dtype.bits > 32:
            return False
        return argument in made[last.name] and uses[argument.name] == 1 and uses[last.name] == 1

    return tuple([is_sum(*pair) for pair in zip(body.arguments, body.yields, strict=True)])


def _block(loop: Op, length: int, name: str) -> Expr:
    lower, upper = loop["lower"], loop["upper"]
    return symbol(name, lower.low, upper.high, gcd(lower.divisor, length))


def _in_blocks(
    loop: Op, sums: tuple[bool, ...], block: Expr, length: int, wide: DType | None, fresh: Callable[[str], str]
) -> Op:
    """The loop over blocks with the loop as it was inside; sums start at zero there, and are added up in ``wide``."""

    def again(value: Value) -> Value:
        return Value(fresh(value.name), value.type)

    def long(value: Value, is_sum: bool) -> Value:
        return Value(fresh(value.name), _wider(value, wide) if is_sum else value.type)

    arguments = tuple([long(*pair) for pair in zip(loop.body.arguments, sums, strict=True)])
    parts = tuple([again(value) for value in loop.results])
    step = const(length)
    starts: list[Op] = []
    inner: list[Value] = []
    ends: list[Op] = []
    totals: list[Value] = []
    for is_sum, argument, part in zip(sums, arguments, parts, strict=True):
        start, total = argument, part
        if is_sum:
            start = again(replace(argument, type=part.type))
            total = again(part) if part.type == argument.type else again(argument)
            starts.append(Op("constant", (), (start,), attribute_pairs({"value": 0.0}), None, loop.span, loop.node))
            adds = attribute_pairs({"function": "add"})
            if part.type != argument.type:
                summand = again(argument)
                ends.append(Op("cast", (part,), (summand,), (), None, loop.span, loop.node))
                part = summand
            ends.append(Op("elementwise", (argument, part), (total,), adds, None, loop.span, loop.node))
        inner.append(start)
        totals.append(total)
    inside = replace(loop, operands=tuple(inner), results=parts)
    inside = inside.with_(lower=block, upper=minimum(loop["upper"], block + step))
    region = Region(arguments, (*starts, inside, *ends), tuple(totals))
    (name,) = block.symbols
    return replace(loop, region=region).with_(induction=name, step=step, unroll=1)


def _wider(value: Value, wide: DType | None) -> VectorType:
    vector = value.vector
    return vector if wide is None or vector.dtype.bits >= wide.bits else replace(vector, dtype=wide)


def _with_wide_sums(loop: Op, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The loop over blocks between conversions of what it starts from and of what it comes to."""
    before, behind = list[Op](), list[Op]()

    def converted(value: Value, kind: VectorType, ops: list[Op], *, is_result: bool) -> Value:
        if value.type == kind:
            return value
        other = Value(fresh(value.name), kind)
        operand, result = (other, value) if is_result else (value, other)
        ops.append(Op("cast", (operand,), (result,), (), None, loop.span, loop.node))
        return other

    kinds = [argument.vector for argument in loop.body.arguments]
    operands = [converted(*pair, before, is_result=False) for pair in zip(loop.operands, kinds, strict=True)]
    results = [converted(*pair, behind, is_result=True) for pair in zip(loop.results, kinds, strict=True)]
    return (*before, replace(loop, operands=tuple(operands), results=tuple(results)), *behind)
