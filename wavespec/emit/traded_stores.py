"""Stores of one word by each of four lanes side by side go in; these lanes trade words, and each stores 16 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from wavespec.emit.function import Function
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import ROLE, STORE

_LANES = 4
"""That have a row of a tile of sums side by side."""
_WORD_BITS = 32

Word = TypeVar("Word")


class _Traded(NamedTuple):
    """Four stores, of which each lane makes one of all four lanes' words; its offset and its mask."""

    stores: tuple[Op, ...]
    offset: Expr
    mask: Mask


class TradedStores:
    """Finds such stores where waves have roles: all lanes of a wave are there, since its products need them.

    Args:
        move: a word of 32 bits of the lane whose number differs in the bits of a mask.
        address: the pointer to an element of a memory.
    """

    def __init__(self, function: Function, move: Callable[[str, int], str], address: Callable[[Op, Expr], str]) -> None:
        self.function, self.text, self.move, self.address = function, function.text, move, address
        self.lane = function.kernel.symbol("lane")
        self.has_roles = any(op.is_(ROLE) for op in function.kernel.body)

    def run(self, ops: Sequence[Op], start: int) -> int:
        """Write the stores that follow each other from a place on, if all of them can be traded."""
        stop = next((at for at in range(start, len(ops)) if not ops[at].is_(STORE)), len(ops))
        stores = ops[start:stop]
        groups = list(self._groups(stores)) if self.has_roles else []
        if not groups or sum(len(group.stores) for group in groups) < len(stores):
            return start
        odd, upper = (self._has_bit(bit) for bit in (1, 2))
        for group in groups:
            self.text.span = group.stores[0].span
            self._store(group, odd, upper)
        return stop

    def _groups(self, stores: Sequence[Op]) -> Iterator[_Traded]:
        known = {(op["memory"], op["offset"]): op for op in stores}
        taken = set[int]()
        for op in stores:
            elements = op.operands[0].vector.elements
            if id(op) in taken or op.operands[0].vector.dtype.bits * elements != _WORD_BITS or elements < 2:
                continue
            apart = elements * _LANES
            others = [known.get((op["memory"], op["offset"] + apart * number)) for number in range(_LANES)]
            found = tuple(other for other in others if other is not None)
            if len(found) == _LANES and (traded := self._traded(found, elements)):
                taken |= {id(other) for other in found}
                yield traded

    def _traded(self, stores: tuple[Op, ...], elements: int) -> _Traded | None:
        """Where lanes of a quad are as far apart as the words are now, and rows end between what four of them have."""
        first, width = stores[0], elements * _LANES
        if first["valid"] is not None or any(first.get(key) for key in ("cache", "apart", "mapped")):
            return None
        if self.function.memory_of(first).space != "global":
            return None
        offset, mask = self._moved(first["offset"], elements), list[tuple[Expr, Expr]]()
        for place, (left, right) in enumerate(first["mask"]):
            moved = self._moved(left, elements)
            by = 0 if moved is None else width
            if any(op["mask"][place] != (left + by * number, right) for number, op in enumerate(stores)):
                return None
            if moved is not None and (moved.divisor % width or right.divisor % width):
                return None
            mask.append((left if moved is None else moved, right))
        if offset is None or offset.divisor % width or any(len(op["mask"]) != len(mask) for op in stores):
            return None
        return _Traded(stores, offset, tuple(mask))

    def _moved(self, expr: Expr, elements: int) -> Expr | None:
        """A place that lanes of a quad have side by side, with these as far apart as the words of one lane are."""
        own = self.lane % _LANES
        if (elements, own) not in expr.terms():
            return None
        return expr + own * elements * (_LANES - 1)

    def _has_bit(self, bit: int) -> str:
        """SSA name of an ``i1``: the number of the lane has it."""
        rest = self.function.indices.integer((self.lane // bit) % 2, _WORD_BITS)
        return self.text.op(f"arith.cmpi ne, {rest}, {self.text.constant(0, 'i32')} : i32")

    def _store(self, group: _Traded, odd: str, upper: str) -> None:
        holds = {1: odd, 2: upper}

        def select(bit: int, yes: str, no: str) -> str:
            return self.text.op(f"arith.select {holds[bit]}, {yes}, {no} : i32")

        words = traded([self._word(op) for op in group.stores], select, self.move)
        type_ = f"vector<{_LANES}xi32>"
        with self.function.when(group.mask):
            pointer = self.address(group.stores[0], group.offset)
            name = self.text.op(f"vector.from_elements {', '.join(words)} : {type_}")
            attributes = "alignment = 16 : i64, ordering = 0 : i64"
            self.text.do(f'"llvm.store"({name}, {pointer}) <{{{attributes}}}> : ({type_}, !llvm.ptr<1>) -> ()')

    def _word(self, op: Op) -> str:
        (value,) = op.operands
        name, vector = self.function.whole(value), value.vector
        return self.text.op(f"llvm.bitcast {name} : vector<{vector.elements}x{vector.dtype}> to i32")


def traded(
    words: Sequence[Word], select: Callable[[int, Word, Word], Word], move: Callable[[Word, int], Word]
) -> list[Word]:
    """Of four lanes that have four words each: in lane `i` the word `i` of all of them, by the lane.

    Args:
        words: of a lane.
        select: the first of two words where the number of the lane has a bit, else the second.
        move: what the lane has whose number differs in a bit.
    """
    result = list(words)
    for bit in (1, 2):
        for low in (number for number in range(_LANES) if not number & bit):
            own, other = result[low], result[low | bit]
            got = move(select(bit, own, other), bit)
            result[low], result[low | bit] = select(bit, got, own), select(bit, other, got)
    return result
