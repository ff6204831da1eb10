"""Tile kernel in, the same kernel out, or the error that its tiles are more code than a compiler takes in good time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from wavespec.diagnostics import Span, WavespecError, Where
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import ELEMENTWISE, JOINED, READ, REDUCE, SCAN, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.planned_tiles import hints_of_plan
from wavespec.lower.tile_properties import copies_are_distributed, tiles_have_layouts
from wavespec.targets.machine import Machine

_ONE_BY_ONE = ELEMENTWISE | JOINED | READ | REDUCE | SCAN | WRITE
"""Operations that become a step, or more, for each vector register of a tile."""


class TooMuchCode(WavespecError, code="too-much-code"):
    """``planned``: what to do about tiles of the compiler."""

    def __init__(self, where: Where, lines: int, machine: Machine, planned: Sequence[str] = ()) -> None:
        super().__init__(
            where,
            f"The tiles become at least {lines} lines of code; "
            f"for {machine.variant} {machine.most_lines} compile in good time.",
            hints=planned or ["Use smaller tiles: more workgroups, more waves, or a loop with more steps."],
        )


class LimitCode(Pass):
    """Refuse tiles whose operations, written out, no compiler takes in good time.

    Before: tiles with layouts.
    After:  the same; what one lane has of the tiles is at most ``machine.most_lines`` vector registers in all.
    Errors: ``too-much-code`` at the largest tile of a workgroup or of a step.  It counts what there is at least;
            `check_lines` counts the lines themselves, which take longer to make.
    """

    name: ClassVar[str] = "limit-code"
    requires = (tiles_have_layouts, copies_are_distributed)

    def applies_to(self, machine: Machine) -> bool:
        return machine.most_lines > 0

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        _check(sum(_steps(op, kernel, machine) for op in kernel.walk()), kernel, machine)
        return kernel


def check_steps(steps: int, kernel: Kernel, machine: Machine) -> None:
    """
    Raises:
        TooMuchCode: for more steps, each a line or more, than a compiler takes in good time.
    """
    _check(steps, kernel, machine)


def check_lines(text: str, kernel: Kernel, machine: Machine) -> None:
    """
    Raises:
        TooMuchCode: for MLIR with more lines than the compiler behind takes in good time.
    """
    _check(text.count("\n"), kernel, machine)


def too_much_code(lines: int, kernel: Kernel, machine: Machine) -> TooMuchCode:
    """The error of a kernel with so many lines or more."""
    return TooMuchCode(_largest_tile(kernel) or _longest(kernel), lines, machine, hints_of_plan(kernel))


def _check(lines: int, kernel: Kernel, machine: Machine) -> None:
    if machine.most_lines and lines > machine.most_lines:
        raise too_much_code(lines, kernel, machine)


def _largest_tile(kernel: Kernel) -> Span | None:
    splits = [split for split in (*kernel.distribution.workgroup, *kernel.distribution.loops) if split.span]
    return max(splits, key=lambda split: split.tile).span if splits else None


def _longest(kernel: Kernel) -> Span | None:
    """The statement that most operations are of."""
    spans = Counter(op.span for op in kernel.walk() if op.span)
    return max(spans, key=lambda span: spans[span], default=None)


def _steps(op: Op, kernel: Kernel, machine: Machine) -> int:
    """Vector registers of what one lane has of a tile.  Elements at places that values say may be moved in loops, and
    those in the memory of the workgroup many at a time; what is combined is so one by one."""
    if not op.is_(_ONE_BY_ONE):
        return 0
    if op.get("memory") and kernel.memory(op["memory"]).space != "global":
        return 0
    tile = (op.operands or op.results)[0].tile
    assert tile.layout is not None
    if op.is_(WRITE) and op.get("combine"):
        return tile.layout.elements
    if op.get("at"):
        by_values = len(op.operands) > op.is_(WRITE)
        return 0 if by_values else tile.layout.elements // tile.layout.fragment_elements
    # Where lanes have no vector registers, one step takes a widest access of an operand.
    native_bits = (machine.vector_bytes or machine.globals.access_bytes) * 8
    return -(-tile.layout.elements * tile.dtype.bits // native_bits)
