"""A kernel and a machine go in; the machine as far as it decides what becomes of the kernel comes out, so that variants
which differ elsewhere are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import BIND, ELEMENTWISE
from wavespec.ir.tile_ops import CAST, DOT, MMA
from wavespec.lower.multiply_in_pairs import pairing_instruction
from wavespec.ops.cast import may_be_in_table
from wavespec.ops.elementwise import multiplies_by_powers
from wavespec.targets.machine import Machine

_POWERS: Final = ("exp2", "times_power")
"""Steps whose code is up to the machine."""


def narrowed_for(kernel: Kernel, machine: Machine) -> Machine:
    """The machine as passes over lanes see it, of a kernel behind those over tiles: with the instructions of its
    products, and what sums of products may become; and with the instructions that its functions and casts take."""
    used = {op["instruction"].partition(":")[0] for op in kernel.walk() if op.is_(MMA, DOT)}
    row = pairing_instruction(kernel, machine) if not used else None
    kept = {"times_power" for op in kernel.walk() if multiplies_by_powers(op.get("function", ""))}
    kept |= {"byte_tables" for op in kernel.walk() if op.is_(CAST) and may_be_in_table(op.operands[0], op.result)}
    return machine.narrowed(used if row is None else {row.name}, kept)


def written_for(kernel: Kernel, narrowed: Machine, whole: Machine) -> Machine:
    """The machine as emitters see it, of a kernel behind all passes: with what the code of its powers, and of elements
    at places that are values, asks of ``whole``."""
    found = [op for op in kernel.walk() if op.is_(BIND | ELEMENTWISE)]
    powers = any(op.is_(ELEMENTWISE) and op["function"] in _POWERS for op in found)
    return narrowed.written_for(whole, powers=powers, places=any(op.is_(BIND) for op in found))


def differ_in_name(one: Machine, other: Machine) -> bool:
    """Whether two variants differ in their names alone, if at all."""
    return replace(one, variant=other.variant) == other
