"""Thread kernel in, thread kernel out: what follows from elements of four bits and less, and from numbers that all of
them share, is looked up.

An operation is met by emitters alone. `look_up`: bytes that elements share, and a table of words of 16 bits, become
the word of each element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, Value, VectorType, attribute_pairs
from wavespec.ir.rewriting import without_unused
from wavespec.ir.thread_ops import BITCAST, BROADCAST, CAST, CONSTANT, COORDINATES, ELEMENTWISE, PURE, SLICE

CODE_BITS: Final = 4
AT_ONCE: Final = 32
"""Elements that one look-up is for."""
_CODES, _WORD_BITS = 1 << CODE_BITS, 16
_LEAST_STEPS = 3
"""Operations that a look-up is worth."""
_STEPS = CAST | BITCAST | ELEMENTWISE
_OF_EMITTERS = ("unpack", "look_up")

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Elements of what was unpacked: ``size`` of them from ``start`` on."""

    unpacked: Op
    start: int
    size: int

    @property
    def place(self) -> tuple[str, int, int]:
        return self.unpacked.result.name, self.start, self.size


@dataclass(frozen=True, slots=True)
class _Form:
    """How each element of a value follows from its code, or is the same number whatever the code.

    ``key``: alike where it is the same function.  ``op``: the last step, of ``operands``; None of codes.
    """

    key: _Key
    dtype: DType
    source: _Source | None
    op: Op | None = None
    operands: tuple[_Form, ...] = ()

    @property
    def steps(self) -> int:
        return sum(one.steps for one in self.operands) + 1 if self.source and self.op else 0


def look_up_codes(kernel: Kernel) -> Kernel:
    """Words of 16 bits that follow step by step from elements of four bits become words of a table, which the same steps
    make of all sixteen codes."""
    if not any(op.name == "unpack" and op.result.vector.dtype.bits == CODE_BITS for op in kernel.walk()):
        return kernel
    makers = {op.result.name: op for op in kernel.walk() if op.is_(CONSTANT, BROADCAST)}
    body = _Block(makers, itertools.count()).changed(kernel.body, ())
    return replace(kernel, body=without_unused(body, lambda op: op.is_(PURE) or op.name in _OF_EMITTERS))


class _Block:
    """The operations of one block; ``makers``: of numbers that all elements of a value share, by their names."""

    def __init__(self, makers: Mapping[str, Op], numbers: Iterator[int]) -> None:
        self.makers, self.numbers = makers, numbers
        self.forms = dict[str, _Form]()
        self.made = list[Op]()
        self.known = dict[_Key, Value]()
        """What was made for tables, and of them."""

    def changed(self, ops: Sequence[Op], yields: Sequence[Value]) -> tuple[Op, ...]:
        forms = [self._form(op) if op.region is None and len(op.results) == 1 else None for op in ops]
        rest = {value.name for value in yields}
        for op, form in zip(ops, forms, strict=True):
            if form is None:
                rest.update(value.name for inner in op.walk() for value in inner.operands)
                rest.update(value.name for inner in op.walk() if inner.region for value in inner.region.yields)
        for op, form in zip(ops, forms, strict=True):
            if op.region is not None:
                inside = _Block(self.makers, self.numbers).changed(op.region.ops, op.region.yields)
                self.made.append(replace(op, region=replace(op.region, ops=inside)))
            elif form is not None and op.result.name in rest:
                self.made.append(self._last(op, form))
            else:
                self.made.append(op)
        return tuple(self.made)

    def _form(self, op: Op) -> _Form | None:
        """That of the result of an operation, if it has one; it is remembered by its name."""
        vector, form = op.result.vector, None
        if op.name == "unpack" and vector.dtype.bits == CODE_BITS:
            is_whole = vector.elements % AT_ONCE == 0 and op["offset"] is const(0)
            form = _Form((vector.dtype.name,), vector.dtype, _Source(op, 0, vector.elements)) if is_whole else None
        elif op.is_(SLICE):
            form = self._known_form(op.operands[0])
            if form is not None and form.source is not None:
                source = replace(form.source, start=form.source.start + op["start"], size=op["size"])
                form = replace(form, source=source)
        elif op.is_(_STEPS):
            form = self._step(op)
        if form is not None:
            self.forms[op.result.name] = form
        return form

    def _step(self, op: Op) -> _Form | None:
        forms = [form for value in op.operands if (form := self._known_form(value)) is not None]
        sources = {form.source.place: form.source for form in forms if form.source is not None}
        if len(forms) < len(op.operands) or len(sources) > 1:
            return None
        dtype = op.result.vector.dtype
        key = op.name, op.attributes, dtype.name, *(form.key for form in forms)
        return _Form(key, dtype, next(iter(sources.values()), None), op, tuple(forms))

    def _known_form(self, value: Value) -> _Form | None:
        maker = self.makers.get(value.name)
        if maker is None:
            return self.forms.get(value.name)
        key = maker.name, maker.attributes, value.vector.dtype.name, *(one.name for one in maker.operands)
        return _Form(key, value.vector.dtype, None, maker)

    def _last(self, op: Op, form: _Form) -> Op:
        """The last of the steps: words of a table, or what is converted from such; or the operation as it is."""
        if (words := self._words(op, form)) is not None:
            return replace(words, results=op.results)
        if not op.is_(CAST) or (words := self._words(op, form.operands[0])) is None:
            return op
        before = Value(f"{op.operands[0].name}.words{next(self.numbers)}", op.operands[0].type)
        self.made.append(replace(words, results=(before,)))
        return replace(op, operands=(before,))

    def _words(self, op: Op, form: _Form) -> Op | None:
        """What takes a part of the words that were looked up for all that was unpacked."""
        source = form.source
        if source is None or form.dtype.bits != _WORD_BITS or form.steps < _LEAST_STEPS:
            return None
        key = "look_up", source.place[0], form.key
        if key not in self.known:
            table, unpacked = self._table(form, op), source.unpacked
            words = VectorType(form.dtype, unpacked.result.vector.elements)
            self._add(
                key, replace(unpacked, name="look_up", operands=(*unpacked.operands, table), attributes=()), words
            )
        attributes = attribute_pairs({"start": source.start, "size": source.size})
        return Op(SLICE.name, (self.known[key],), (), attributes, span=op.span, node=op.node)

    def _table(self, form: _Form, user: Op) -> Value:
        """The same steps of every code."""
        if form.key in self.known:
            return self.known[form.key]
        vector = VectorType(form.dtype, _CODES)
        if form.op is not None:
            operands = tuple(self._table(one, user) for one in form.operands) if form.operands else form.op.operands
            return self._add(form.key, replace(form.op, operands=operands), vector)
        signed = form.dtype.kind == "int"
        places = tuple(const(code - _CODES if signed and code >= _CODES // 2 else code) for code in range(_CODES))
        codes = Op(COORDINATES.name, (), (), attribute_pairs({"places": places}), span=user.span, node=user.node)
        bytes_ = self._add(("codes", *form.key), codes, VectorType(DTYPES["i8"], _CODES))
        return self._add(form.key, replace(codes, name=BITCAST.name, operands=(bytes_,), attributes=()), vector)

    def _add(self, key: _Key, op: Op, vector: VectorType) -> Value:
        value = self.known[key] = Value(f"look_up.table{next(self.numbers)}", vector)
        self.made.append(replace(op, results=(value,)))
        return value
