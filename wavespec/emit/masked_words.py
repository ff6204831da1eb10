"""Masked vectors of elements that no instruction leaves out one by one: 32-bit words that it does, and the rest.

AVX2 masks 32-bit elements (vmaskmov); of smaller ones LLVM makes a branch for each element, which takes it long and is
slow.  As words, a vector of 16 such elements takes one access, and a branch for what is left of the last word.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import mlir_type, vector_type
from wavespec.ir.dtype import DType

_WORD = 4
# Words and their elements are bitcast by LLVM: MLIR makes one operation of a truncation and the `vector.bitcast` behind
# it, which computes in the type before them, 16 bits, what becomes words of 32.


def are_words(dtype: DType, size: int) -> bool:
    """Whether a vector of elements, smaller than words, is one of whole words."""
    return 8 <= dtype.bits < 8 * _WORD and not size * dtype.bytes % _WORD


@dataclass(frozen=True, slots=True)
class MaskedWords:
    """An access of ``size`` elements at ``pointer``, which is ``buffer[at]``; the first ``count``, an index of at most
    ``size``, are there.  ``is_cut``: it may be neither 0 nor ``size``."""

    text: MlirText
    dtype: DType
    size: int
    pointer: str
    buffer: str
    buffer_type: str
    at: str
    count: str
    is_cut: bool

    def load(self) -> str:
        """The name of the vector, 0 in place of what is not there."""
        words = self._words()
        before = self.text.constant(0, self._type)
        if self.is_cut:
            last = self.text.op(f"arith.addi {words}, {self.text.constant(1, 'index')} : index")
            last = self.text.op(f"vector.create_mask {last} : {self._mask}")
            rest = self.text.op(f"vector.broadcast {self._rest(words)} : i32 to {self._type}")
            before = self.text.op(f"arith.select {last}, {rest}, {before} : {self._mask}, {self._type}")
        some = self.text.op(f"vector.create_mask {words} : {self._mask}")
        types = f"(!llvm.ptr, {self._mask}, {self._type}) -> {self._type}"
        name = self.text.op(f'"llvm.intr.masked.load"({self.pointer}, {some}, {before}) {self._how} : {types}')
        return self.text.op(f"llvm.bitcast {name} : {self._type} to {vector_type(self.dtype, self.size)}")

    def store(self, value: str) -> None:
        """Store what is there of a vector."""
        words = self._words()
        value = self.text.op(f"llvm.bitcast {value} : {vector_type(self.dtype, self.size)} to {self._type}")
        some = self.text.op(f"vector.create_mask {words} : {self._mask}")
        types = f"({self._type}, !llvm.ptr, {self._mask}) -> ()"
        self.text.do(f'"llvm.intr.masked.store"({value}, {self.pointer}, {some}) {self._how} : {types}')
        for number in range(_WORD // self.dtype.bytes - 1) if self.is_cut else ():
            place, is_there = self._of_last(words, number)
            self.text.either(is_there, functools.partial(self._store_one, value, words, number, place))

    @property
    def _type(self) -> str:
        return f"vector<{self.size * self.dtype.bytes // _WORD}xi32>"

    @property
    def _mask(self) -> str:
        return self._type.replace("i32", "i1")

    @property
    def _how(self) -> str:
        return f"<{{alignment = {self.dtype.bytes} : i64}}>"

    def _words(self) -> str:
        """How many words are whole."""
        each = self.text.constant(_WORD // self.dtype.bytes, "index")
        return self.text.op(f"arith.divui {self.count}, {each} : index")

    def _of_last(self, words: str, number: int) -> tuple[str, str]:
        """Where an element of the word that is not whole stands, from the first on, and whether it is there."""
        place = self.text.op(f"arith.muli {words}, {self.text.constant(_WORD // self.dtype.bytes, 'index')} : index")
        place = self.text.op(f"arith.addi {place}, {self.text.constant(number, 'index')} : index")
        is_there = self.text.op(f"arith.cmpi ult, {place}, {self.count} : index")
        return self.text.op(f"arith.addi {self.at}, {place} : index"), is_there

    def _rest(self, words: str) -> str:
        """The word that is not whole, 0 in place of what is not there."""
        word = self.text.constant(0, "i32")
        for number in range(_WORD // self.dtype.bytes - 1):
            place, is_there = self._of_last(words, number)
            load = functools.partial(self._load_one, number, place)
            found = self.text.either(is_there, load, lambda: [self.text.constant(0, "i32")], ["i32"])
            word = self.text.op(f"arith.ori {word}, {found}#0 : i32")
        return word

    def _load_one(self, number: int, place: str) -> list[str]:
        element, bits = mlir_type(self.dtype), f"i{self.dtype.bits}"
        name = self.text.op(f"memref.load {self.buffer}[{place}] : {self.buffer_type}")
        if element != bits:
            name = self.text.op(f"arith.bitcast {name} : {element} to {bits}")
        name = self.text.op(f"arith.extui {name} : {bits} to i32")
        return [self.text.op(f"arith.shli {name}, {self._shift(number)} : i32")]

    def _store_one(self, value: str, words: str, number: int, place: str) -> list[str]:
        element, bits = mlir_type(self.dtype), f"i{self.dtype.bits}"
        name = self.text.op(f"vector.extract {value}[{words}] : i32 from {self._type}")
        name = self.text.op(f"arith.shrui {name}, {self._shift(number)} : i32")
        name = self.text.op(f"arith.trunci {name} : i32 to {bits}")
        if element != bits:
            name = self.text.op(f"arith.bitcast {name} : {bits} to {element}")
        self.text.do(f"memref.store {name}, {self.buffer}[{place}] : {self.buffer_type}")
        return []

    def _shift(self, number: int) -> str:
        return self.text.constant(number * self.dtype.bits, "i32")
