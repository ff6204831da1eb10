"""A layout in, the digits of the places along a dim out: which registers, lanes and waves tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.targets.machine import Machine


class LanesEntangled(WavespecError, code="lanes-entangled"):
    def __init__(self, where: Where, name: str, dim: str) -> None:
        super().__init__(
            where,
            f"'{name}' is distributed over lanes in a way that '{dim}' cannot be taken out of.",
            hints=["Reduce before the value meets a matrix product, or over its other dim."],
        )


@dataclass(frozen=True, slots=True)
class Digit:
    """``extent`` places, ``stride`` apart.

    ``source``: a number of ``axes`` counts them, or a bit of the lane number, or a wave symbol tells them apart.
    """

    stride: int
    extent: int
    kind: str
    source: int | str


def digits(op: Op, layout: Layout, axes: tuple[RegisterAxis, ...], dim: str, kernel: Kernel) -> list[Digit]:
    """The digits of the places along ``dim``, the lowest first, where all of ``axes`` count registers.

    Raises:
        LanesEntangled: places do not follow each other in the order of any digits.
    """
    found: list[Digit] = []
    for number, axis in enumerate(axes):
        if axis.stride(dim) and axis.extent > 1:
            if any(stride for other, stride in axis.strides if other != dim):
                raise LanesEntangled(op.span, op.operands[0].name, dim)
            found.append(Digit(axis.stride(dim), axis.extent, "registers", number))
    base = layout.base_of(dim)
    start = base.substitute({name: const(0) for name in base.symbols})
    for bit in lane_bits(op, layout, dim, kernel.lanes):
        step = base.substitute({name: const(bit if name == "lane" else 0) for name in base.symbols}) - start
        found.append(Digit(step.value, 2, "lanes", bit))
    for wave, count in kernel.waves:
        if count > 1 and wave in base.symbols:
            step = base.substitute({name: const(name == wave) for name in base.symbols}) - start
            found.append(Digit(step.value, count, "waves", wave))
    found.sort(key=lambda digit: digit.stride)
    below = 0
    for digit in found:
        if digit.stride <= below:
            raise LanesEntangled(op.span, op.operands[0].name, dim)
        below += (digit.extent - 1) * digit.stride
    return found


def in_reach(bits: Sequence[int], machine: Machine) -> tuple[list[int], list[int]]:
    """Of bits of the lane number those in which lanes that exchange registers may differ, and the others: a matrix
    instruction may be of more lanes than that."""
    return [bit for bit in bits if bit < machine.lanes], [bit for bit in bits if bit >= machine.lanes]


def lane_bits(op: Op, layout: Layout, dim: str, lanes: int) -> list[int]:
    """The bits of the lane number that tell places along ``dim`` apart; every other dim has bits of its own."""

    def place(name: str, lane: int) -> Expr:
        return layout.base_of(name).substitute({"lane": const(lane)})

    bits: list[int] = []
    for bit in (1 << number for number in range((lanes - 1).bit_length())):
        moved = [name for name in layout.dims if place(name, bit) != place(name, 0)]
        if dim in moved:
            bits.append(bit)
            if len(moved) > 1:
                raise LanesEntangled(op.span, op.operands[0].name, dim)
    steps = {bit: place(dim, bit) - place(dim, 0) for bit in bits}
    for lane in range(lanes):
        total = place(dim, 0)
        for bit in bits:
            total = total + steps[bit] if lane & bit else total
        if total != place(dim, lane):
            raise LanesEntangled(op.span, op.operands[0].name, dim)
    return bits
