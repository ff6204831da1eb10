"""Codes of 8 bits and less in; the words of 16 bits that vectors of a machine have for them in tables out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from wavespec.emit.decoded import encoded
from wavespec.emit.function import Emitter, Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.look_up_codes import AT_ONCE, CODE_BITS
from wavespec.emit.registers import Part, vector_type
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Op

_BESIDE = 12
"""Bits from a code to the same place in the next word."""
_CODE_OF_WORDS = 0x000F000F
"""Bits of two codes, each in a word of its own."""
_TWO_CODES = 0x0F0F
"""Bits of two codes, each in a byte of its own."""
_WORDS, _BYTES, _HALF = f"vector<{AT_ONCE}xi16>", f"vector<{AT_ONCE}xi8>", f"vector<{AT_ONCE // 2}xi8>"
_REGISTER: Final = 64
"""Bytes of a vector register, half as many as there are codes without a sign."""
_RUN: Final = 8
"""Bytes of a quarter of a register that are woven into one."""
_SIGN, _INFINITY, _NAN = 0x80, 0x7F80, 0x7FC0


class WordTables(Emitter):
    """Writes `look_up`, and conversions of f8 to bf16; ``lanes`` writes all others."""

    def __init__(self, function: Function, lanes: LaneOperations) -> None:
        super().__init__(function)
        self.lanes = lanes

    def emit_look_up(self, op: Op) -> None:
        bytes_, table = op.operands
        dtype, half = op.result.vector.dtype, AT_ONCE // 2
        type_, one = vector_type(dtype, AT_ONCE), vector_type(dtype, half)
        name, other = self.function.whole(table), self.function.whole(table)
        if self.machine.word_table:
            other = self.text.constant(0.0, one)
        twin = self.text.op(f"vector.shuffle {name}, {other} {[*range(AT_ONCE)]} : {one}, {one}")
        twin = self.text.op(f"arith.bitcast {twin} : {type_} to {_WORDS}")
        find = self._words_of(twin) if self.machine.word_table else self._bytes_of(twin)
        self.values[op.result.name] = tuple(
            Part(self.text.op(f"arith.bitcast {find(part.name)} : {_WORDS} to {type_}"), AT_ONCE)
            for part in self.function.parts(bytes_, [half] * (bytes_.vector.elements // half))
        )

    def _words_of(self, twin: str) -> Callable[[str], str]:
        """A byte and the same twelve bits further up have the first code in the lower word, the second one in the other, and
        nothing else once their other bits are cleared, by the instruction that joins the two."""
        text, pairs = self.text, f"vector<{AT_ONCE // 2}xi32>"

        def find(codes: str) -> str:
            low = text.op(f"arith.extui {codes} : {_HALF} to {pairs}")
            high = text.op(f"arith.shli {low}, {text.constant(_BESIDE, pairs)} : {pairs}")
            places = text.op(f"arith.ori {low}, {high} : {pairs}")
            places = text.op(f"arith.andi {places}, {text.constant(_CODE_OF_WORDS, pairs)} : {pairs}")
            places = text.op(f"vector.bitcast {places} : {pairs} to {_WORDS}")
            how = f"({_WORDS}, {_WORDS}) -> {_WORDS}"
            return text.op(f'llvm.call_intrinsic "{self.machine.word_table}"({twin}, {places}) : {how}')

        return find

    def _bytes_of(self, twin: str) -> Callable[[str], str]:
        """Lower and upper bytes of the words have a table each, once in each half of a register."""
        text, pairs, count = self.text, f"vector<{AT_ONCE // 2}xi16>", AT_ONCE
        both = f"vector<{2 * count}xi8>"
        table = text.op(f"vector.bitcast {twin} : {_WORDS} to {both}")
        tables = [
            text.op(f"vector.shuffle {table}, {table} {[*range(first, 2 * count, 2)]} : {both}, {both}")
            for first in (0, 1)
        ]
        quarter = count // 4
        order = [place for start in (0, 2, 1, 3) for place in range(start * quarter, (start + 1) * quarter)]
        inverse = [order.index(place) for place in range(count)]
        woven = [place for one in inverse for place in (one, count + one)]

        def find(codes: str) -> str:
            low = text.op(f"arith.extui {codes} : {_HALF} to {pairs}")
            high = text.op(f"arith.shli {low}, {text.constant(CODE_BITS, pairs)} : {pairs}")
            places = text.op(f"arith.ori {low}, {high} : {pairs}")
            places = text.op(f"arith.andi {places}, {text.constant(_TWO_CODES, pairs)} : {pairs}")
            places = text.op(f"vector.bitcast {places} : {pairs} to {_BYTES}")
            # A register weaves two others within its halves: the middle quarters change places, and are in order then.
            places = text.op(f"vector.shuffle {places}, {places} {order} : {_BYTES}, {_BYTES}")
            how = f"({_BYTES}, {_BYTES}) -> {_BYTES}"
            lower, upper = (
                text.op(f'llvm.call_intrinsic "{self.machine.byte_table}"({one}, {places}) : {how}') for one in tables
            )
            words = text.op(f"vector.shuffle {lower}, {upper} {woven} : {_BYTES}, {_BYTES}")
            return text.op(f"vector.bitcast {words} : {both} to {_WORDS}")

        return find

    def emit_cast(self, op: Op) -> None:
        (value,), after = op.operands, op.result.vector
        if (
            not self.machine.word_tables
            or not is_in_tables(value.vector.dtype, after.dtype)
            or after.elements % AT_ONCE
        ):
            self.lanes.emit_cast(op)
            return
        tables = _tables(value.vector.dtype)
        if self.machine.byte_tables:
            width = math.gcd(after.elements, _REGISTER)
            parts = self.function.parts(value, [width] * (after.elements // width))
            names = [name for part in parts for name in self._found_by_bytes(part.name, width, tables, after.dtype)]
            self.values[op.result.name] = tuple(Part(name, AT_ONCE) for name in names)
            return
        self.values[op.result.name] = tuple(
            Part(self._found(part.name, tables, after.dtype), AT_ONCE)
            for part in self.function.parts(value, [AT_ONCE] * (after.elements // AT_ONCE))
        )

    def _found_by_bytes(self, codes: str, width: int, tables: list[list[int]], dtype: DType) -> list[str]:
        """Upper and lower bytes of words, each by one look-up of seven bits; the sign is that of the code.  A register
        weaves within its quarters, so that each has a half of its codes from either half of theirs."""
        text, register, half = self.text, f"vector<{_REGISTER}xi8>", _REGISTER // 2
        runs = [run % width for start in range(0, half, _RUN) for run in (start, half + start)]
        order = [place for run in runs for place in range(run, run + _RUN)]
        small = f"vector<{width}xi8>"
        places = text.op(f"vector.shuffle {codes}, {codes} {order} : {small}, {small}")
        words = [word for table in tables for word in table]
        how = f"({register}, {register}, {register}) -> {register}"
        found = list[str]()
        for shift in (0, 8):
            bytes_ = [word >> shift & 0xFF for word in words]
            low, high = (text.numbers(bytes_[at : at + _REGISTER], register) for at in (0, _REGISTER))
            found.append(text.op(f'llvm.call_intrinsic "{self.machine.byte_tables}"({low}, {places}, {high}) : {how}'))
        sign = text.op(f"arith.andi {places}, {text.constant(-_SIGN, register)} : {register}")
        lower, upper = found[0], text.op(f"arith.ori {found[1]}, {sign} : {register}")
        made = list[str]()
        for first in range(0, width // 4, _RUN):
            inside = [quarter + first + at for quarter in range(0, _REGISTER, _REGISTER // 4) for at in range(_RUN)]
            woven = [place for at in inside for place in (at, _REGISTER + at)]
            both = text.op(f"vector.shuffle {lower}, {upper} {woven} : {register}, {register}")
            made.append(text.op(f"vector.bitcast {both} : {register} to {vector_type(dtype, AT_ONCE)}"))
        return made

    def _found(self, codes: str, tables: list[list[int]], dtype: DType) -> str:
        """Of codes with seven bits beside their sign: two look-ups by six, of which the seventh chooses one."""
        text, small = self.text, f"vector<{AT_ONCE}xi8>"
        places = text.op(f"arith.extui {codes} : {small} to {_WORDS}")
        names = [text.numbers(table, _WORDS) for table in tables]
        how = f"({_WORDS}, {_WORDS}, {_WORDS}) -> {_WORDS}"
        lower, upper = (
            text.op(f'llvm.call_intrinsic "{self.machine.word_tables}"({low}, {places}, {high}) : {how}')
            for low, high in zip(names[::2], names[1::2], strict=True)
        )
        seventh = text.op(f"arith.andi {places}, {text.constant(_SIGN >> 1, _WORDS)} : {_WORDS}")
        is_upper = text.op(f"arith.cmpi ne, {seventh}, {text.constant(0, _WORDS)} : {_WORDS}")
        magnitude = text.op(f"arith.select {is_upper}, {upper}, {lower} : vector<{AT_ONCE}xi1>, {_WORDS}")
        moved = text.op(f"arith.shli {places}, {text.constant(8, _WORDS)} : {_WORDS}")
        sign = text.op(f"arith.andi {moved}, {text.constant(-(_SIGN << 8), _WORDS)} : {_WORDS}")
        bits = text.op(f"arith.ori {magnitude}, {sign} : {_WORDS}")
        return text.op(f"arith.bitcast {bits} : {_WORDS} to {vector_type(dtype, AT_ONCE)}")


def is_in_tables(before: DType, after: DType) -> bool:
    return before.name in ("f8e4m3fn", "f8e5m2") and after.name == "bf16"


def _tables(dtype: DType) -> list[list[int]]:
    """What codes without a sign stand for as bf16, in vectors."""
    words = [_word(code, dtype) for code in range(_SIGN)]
    return [words[start : start + AT_ONCE] for start in range(0, _SIGN, AT_ONCE)]


def _word(code: int, dtype: DType) -> int:
    last = _SIGN - (1 << dtype.mantissa)  # the largest exponent: of numbers, too, where there is no infinity
    if dtype.name == "f8e5m2" and code >= last:
        return _INFINITY if code == last else _NAN
    return _NAN if code == _SIGN - 1 else encoded(code, dtype, DTYPES["bf16"])
