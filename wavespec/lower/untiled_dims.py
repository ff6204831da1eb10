"""A dim that a workgroup cannot have all of, or has a part of, goes in; the error that says which lines to write comes
out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel
from wavespec.ir.op import Op
from wavespec.ir.tile_ops import ACROSS, ITERATE, MMA, REDUCE, TAKE, TOPK, WRITE
from wavespec.lower.base import written_name
from wavespec.ops.index_map import moved_dims

_AXES = 5
_REDUCTIONS = {"add": ("sum", "0"), "mul": ("prod", "1"), "maximum": ("max", "-.inf"), "minimum": ("min", ".inf")}
"""Of each function that joins numbers the word of its reduction, and the number that it starts from."""
_TILE, _MOST = 64, 1024


class UntiledDim(WavespecError, code="untiled-dim"):
    def __init__(self, where: Where, name: str, dim: str, hints: Sequence[str]) -> None:
        super().__init__(
            where,
            f"One workgroup would hold '{name}' along all of '{dim}', "
            "whose size is known only when the kernel is called.",
            hints=hints,
        )


class ReductionSplit(WavespecError, code="reduction-split"):
    """``word``: of the operation that joins."""

    def __init__(self, where: Where, word: str, dim: str, hints: Sequence[str]) -> None:
        super().__init__(
            where,
            f"'{word}' joins all elements along '{dim}', of which {{workgroup: {dim}, ...}} gives each workgroup a "
            "part; no step of a kernel joins what workgroups have.",
            hints=hints,
        )


def untiled_dim(kernel: Kernel, op: Op, name: str, dim: str) -> UntiledDim:
    """The error for a value of ``op`` along a dim without a tile, by what the kernel does along that dim."""
    return UntiledDim(op.span, name, dim, _hints(kernel, dim))


def reduction_split(kernel: Kernel, op: Op) -> ReductionSplit:
    """The error for an ``op`` that joins elements along a dim which workgroups split."""
    dim = op["dim"]
    parts = "Or let each workgroup write what its part has, along a dim of parts, and join these in a second kernel: "
    hints = [
        f"Write {{tiling: {dim}, tile: {_TILE}}} in place of {{workgroup: {dim}, ...}}, so that one workgroup has all "
        f"of it, and go through it in a loop: {_loop(kernel, op)}.",
        *_combined(kernel, op),
        f"{parts}'How to split a kernel in two' in docs/splitting.md.",
    ]
    return ReductionSplit(op.span, _word(op), dim, hints)


def _hints(kernel: Kernel, dim: str) -> list[str]:
    every = list(kernel.walk())
    whole = (
        f"{{{dim}: {{max: {_MOST}}}}} in 'dims' and, where there are 'constraints', {{tiling: {dim}, tile: {_MOST}}} "
        "among them: one tile has all of it."
    )
    if any(op.is_(TAKE) and dim in moved_dims(op) for op in every):
        return [
            f"'take' needs all of '{dim}'. If it is never large, say so: {whole}",
            "Else take elements where they are: 'read' has 'at' as well, for tensors of any size.",
        ]
    joins = [op for op in every if _along(op) == dim]
    if not joins:
        return [f"Add {{workgroup: {dim}, tile: {_TILE}, axis: {_free_axis(kernel)}}} to 'constraints'."]
    hints = [hint for op in joins for hint in _combined(kernel, op)]
    if no_loop := _why_no_loop(kernel, joins, dim):
        return [*hints, no_loop, f"Or, where '{dim}' is never large: {whole}"]
    hints.append(
        f"Go through '{dim}' in a loop: {_loop(kernel, joins[0])}; where there are 'constraints', with "
        f"{{tiling: {dim}, tile: {_TILE}}} among them."
    )
    is_written = any(op.is_(WRITE) and dim in op.operands[0].tile.dims for op in every)
    if is_written and all(op.is_(REDUCE, TOPK) for op in joins):
        hints.append(f"What is written along '{dim}' takes a second loop over it (specs/softmax.wave.yaml).")
    if all(op.is_(REDUCE, MMA) for op in joins) and not any(op.is_(ITERATE) for op in every):
        hints.append(
            "Or say nothing of tiles, without any 'workgroup', 'tiling' and 'wave': the compiler then writes the loop."
        )
    return [*hints, f"Or, where '{dim}' is never large: {whole}"]


def _why_no_loop(kernel: Kernel, joins: Sequence[Op], dim: str) -> str:
    """What to do where no loop over a dim does what operations join along it; "" where one does."""
    for op in joins:
        if op.get("reverse"):
            turned = f"'at: {{{dim}: size({dim}) - 1 - {dim}}}'"
            return (
                f"'{_named(kernel, op)}' starts at the last element. Read what it joins with {turned}, join it without "
                f"'reverse', and write it with the same 'at'."
            )
        for other in kernel.walk():
            across = _along(other)
            is_around = across in op.results[0].tile.dims and dim in other.results[0].tile.dims if across else False
            if is_around and across != dim:
                return (
                    f"'{_named(kernel, op)}' goes through '{dim}' for each element along '{across}', and "
                    f"'{_named(kernel, other)}' through '{across}' for each along '{dim}', of which one loop cannot be "
                    "in the other. Make two specs of it."
                )
    return ""


def _along(op: Op) -> str:
    """The dim that an operation joins elements along, if it does."""
    if op.is_(MMA):
        return op["k"]
    return op["dim"] if op.is_(ACROSS) else ""


def _named(kernel: Kernel, op: Op) -> str:
    """What the spec calls what an operation joins."""
    return op.node or written_name(kernel, op.results[0])


def _loop(kernel: Kernel, op: Op) -> str:
    """The statements that do what an operation does along all of a dim tile by tile, in the names of the spec."""
    result, dim = op.results[0], op["k"] if op.is_(MMA) else op["dim"]
    name, dtype = written_name(kernel, result), result.tile.dtype
    operands = [written_name(kernel, operand) for operand in op.operands]
    if op.is_(MMA):
        lhs, rhs, acc = operands[:3]
        step = f"{{iterate: {dim}, carry: {{{name}: {acc}}}, body: [..., {name}: {{mma: [{lhs}, {rhs}, {name}]}}]}}"
        return f"'- steps: {step}', with '{lhs}' and '{rhs}' in its body, and 'steps.{name}' behind it"
    word, start = _REDUCTIONS.get(op["function"], ("", "")) if op.is_(REDUCE) else ("", "")
    if not word or not dtype.is_float or _is_of_several(kernel, op):
        body = f"'- steps: {{iterate: {dim}, carry: ..., body: [...]}}'"
        return f"{body}, with '{_named(kernel, op)}' and what it is made of inside"
    part = operands[0]
    zero = f"{{register: [{', '.join(result.tile.dims)}], dtype: {dtype.name}, value: {start}}}"
    join = f"{name}: {{{_word(op)}: {part}, dim: {dim}, init: {name}}}"
    step = f"{{iterate: {dim}, carry: {{{name}: start}}, body: [..., {join}]}}"
    return f"'- start: {zero}', '- steps: {step}', with '{part}' in its body, and 'steps.{name}' behind it"


def _is_of_several(kernel: Kernel, op: Op) -> bool:
    """Whether a statement joins several dims, or several values, of which the operation has one."""
    return sum(other.is_(REDUCE) and other.node == op.node for other in kernel.walk()) > 1


def _word(op: Op) -> str:
    if not op.is_(REDUCE):
        return op.name
    return "mean" if op["divided"] else _REDUCTIONS.get(op["function"], (op["function"], ""))[0]


def _combined(kernel: Kernel, op: Op) -> list[str]:
    """How a `write` that combines joins all elements itself, where the result goes there."""
    for write in kernel.walk():
        if write.is_(WRITE) and write.get("combine") and write.operands[0].name == op.results[0].name:
            part, dims = op.operands[0].name, write.operands[0].tile.dims
            at = ", ".join(f"{dim}: {dim}" for dim in dims)
            how = f"'{{write: {part}, to: {write['memory']}, at: {{{at}}}, combine: {write['combine']}}}'"
            return [f"'combine' joins elements of all workgroups itself: {how}, without '{op.results[0].name}'."]
    return []


def _free_axis(kernel: Kernel) -> int:
    taken = {split.axis for split in kernel.distribution.workgroup}
    return next((axis for axis in range(_AXES) if axis not in taken), 0)
