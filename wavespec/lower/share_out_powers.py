"""Thread kernel in, thread kernel out: where products wait for powers of 2, what multiplies and adds makes some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Final

from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ELEMENTWISE, FOR, MMA_ASYNC
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.ops.steps import Steps
from wavespec.targets.machine import Machine

_MOST: Final = Fraction(3, 2)
"""Clocks of the unit for functions in a step, for one of the matrix unit: with more, that waits."""
_SHARE: Final = Fraction(2, 5)
"""Of the powers, which then take other units: with a half of them a step has as many instructions as it has clocks."""
_STEPS: Final = 13
"""Instructions that make one of them."""
_ROUND: Final = 1.5 * 2.0**23
_MANTISSA_BITS: Final = 23
# 2^f for |f| <= 1/2: off by 9e-8 of it at most.
_NEAR: Final = (
    *(1.0, 0.6931470036506653, 0.24022242426872253, 0.05550733581185341),
    *(0.009671512991189957, 0.001326472731307149),
)


class ShareOutPowers(Pass):
    """Make some of the powers of 2 in a loop of products by polynomials, as close as the machine's instruction.

    Before: steps whose products run beside what lanes compute, with ``exp2`` and other functions that one unit makes,
            for longer than the matrix unit multiplies.
    After:  two of five powers are ``2^n * 2^f``, of the nearest integer ``n``: from 2^-126 on what the instruction
            gives, 0 below that and of minus infinity, infinity from 2^127.5 on.
    Cases:  all stay where a step then has more instructions than that unit takes clocks.
    """

    name: ClassVar[str] = "share-out-powers"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.resources is not None and machine.resources.functions_per_clock > 0

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(loop: Op) -> tuple[Op, ...]:
            if not _waits_for_functions(kernel, loop.body.ops, machine):
                return (loop,)
            ops, number = list[Op](), 0
            for op in loop.body.ops:
                if is_moved := _is_power(op):
                    number += 1
                    is_moved = int(number * _SHARE) > int((number - 1) * _SHARE)
                ops += _by_polynomial(op, fresh) if is_moved else (op,)
            return (replace(loop, region=replace(loop.body, ops=tuple(ops))),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _waits_for_functions(kernel: Kernel, ops: Sequence[Op], machine: Machine) -> bool:
    """Whether the matrix unit waits for powers in a step, and a step has room for the instructions of polynomials."""
    resources, parts = machine.resources, kernel.lanes // machine.lanes
    assert resources is not None, "a machine that this pass applies to has a table of resources"
    products = Fraction(0)
    for op in ops:
        if op.is_(MMA_ASYNC) and (row := machine.instruction(op["instruction"])) is not None:
            products += Fraction(row.m * row.n * row.k, resources.macs_per_clock[row.a.dtype.name] * parts)
    steps = [op for op in ops if op.is_(ELEMENTWISE)]
    functions = [op for op in steps if op["function"] == "exp2" or op["function"] in machine.approximations]
    clocks = Fraction(machine.lanes, resources.functions_per_clock)
    elements = sum(op.result.vector.elements for op in functions)
    moved = sum(op.result.vector.elements for op in steps if _is_power(op)) * _SHARE
    issued = sum(op.result.vector.elements for op in steps) + moved * _STEPS
    return bool(products) and elements * clocks > products * _MOST and issued <= (elements - moved) * clocks


def _is_power(op: Op) -> bool:
    """Whether it makes powers of scores; those of a row are few, and others wait for them."""
    return op.is_(ELEMENTWISE) and op["function"] == "exp2" and op.result.vector.elements > 2


def _by_polynomial(op: Op, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    build = ThreadBuilder(fresh)
    build.span, build.node = op.span, op.node
    steps = Steps(build, op.operands[0], op.result.name)
    x = steps("minimum", steps("maximum", op.operands[0], -127.0), 128.0)
    shifted = steps("add", x, _ROUND)  # the nearest integer is in its low bits
    near = steps.polynomial(steps("sub", x, steps("sub", shifted, _ROUND)), *_NEAR)
    exponent = steps("shl", steps.bits(shifted, "i32"), _MANTISSA_BITS)
    power = steps.bits(steps("add", exponent, 127 << _MANTISSA_BITS), "f32")
    steps("mul", near, power)
    *before, last = build.ops
    return *before, replace(last, results=op.results)
