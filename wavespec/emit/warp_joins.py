"""What every lane of a warp has goes in; what all of them have joined comes out, by one instruction for each word."""

from __future__ import annotations

from wavespec.emit.function import Emitter
from wavespec.emit.registers import Part
from wavespec.ir.kernel import Op

_WORD_BITS = 32
_OF_LOWER = {"maximum": ("umax", 0), "minimum": ("umin", -1)}
"""Of the lower words, which have no sign: how they are joined, and what a lane has whose upper word is another one."""
_KINDS = {"add": "add", "maximum": "max", "minimum": "min"}


class WarpJoins(Emitter):
    """Integers of 32 bits, and extremes of 64."""

    def emit_join_lanes(self, op: Op) -> None:
        (value,) = op.operands
        join = self._one if value.vector.dtype.bits == _WORD_BITS else self._two
        names = [join(name, op["function"]) for name in self.function.scalars(value)]
        self.values[op.result.name] = tuple(Part(name, 1) for name in names)

    def _one(self, name: str, function: str) -> str:
        return self._joined(name, _KINDS[function])

    def _two(self, name: str, function: str) -> str:
        """The upper words, and then the lower ones of those lanes that have the upper one that was found."""
        text, kind = self.text, "i64"
        shift = text.constant(_WORD_BITS, kind)
        upper = text.op(f"arith.trunci {text.op(f'arith.shrsi {name}, {shift} : {kind}')} : {kind} to i32")
        found = self._joined(upper, _KINDS[function])
        lower, (of_lower, nothing) = text.op(f"arith.trunci {name} : {kind} to i32"), _OF_LOWER[function]
        is_like = text.op(f"arith.cmpi eq, {upper}, {found} : i32")
        lower = text.op(f"arith.select {is_like}, {lower}, {text.constant(nothing, 'i32')} : i32")
        above = text.op(f"arith.shli {text.op(f'arith.extsi {found} : i32 to {kind}')}, {shift} : {kind}")
        below = text.op(f"arith.extui {self._joined(lower, of_lower)} : i32 to {kind}")
        return text.op(f"arith.ori {above}, {below} : {kind}")

    def _joined(self, word: str, kind: str) -> str:
        everyone = self.text.constant(-1, "i32")
        return self.text.op(f"nvvm.redux.sync {kind} {word}, {everyone} : i32 -> i32")
