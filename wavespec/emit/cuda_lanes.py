"""What one lane of an NVIDIA machine does with registers, which are words of 32 bits, and with those of other lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.emit.decoded import CODES, byte_of, decoded_integers, decoded_pair, decoded_words, has_codes, has_table
from wavespec.emit.function import Function
from wavespec.emit.lane_operations import LaneOperations
from wavespec.emit.rearranged import bytes_turned
from wavespec.emit.registers import Part, Parts, vector_type
from wavespec.emit.unpack import unpack
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Op, Value

_WORD = 4
"""Bytes of a register."""
_BYTE_BITS = 8
_FEW = 4
"""Elements that are compared one by one sooner than all at once."""


class CudaLanes(LaneOperations):
    """Accumulators are scalars, and pairs of elements are converted at a time."""

    def __init__(self, function: Function, matrices: Mapping[str, str]) -> None:
        """``matrices``: of elements that a matrix load gives, the word that they came in."""
        super().__init__(function)
        self._matrices = matrices
        self._pairs: dict[str, Parts] = {}
        """Of slices of what a matrix load gives, the pairs of elements."""
        self._bytes: dict[str, str] = {}
        """Of two elements that share a byte, that byte."""
        self._words: dict[str, tuple[str, int]] = {}
        """Of those that are a part of a word, that word and which of its pairs they are."""
        self._decoded: dict[tuple[str, str], list[str]] = {}
        """The pairs that a word was decoded to, by the word and the type."""
        self._numbers: dict[int, str] = {}

    def _kept(self, number: int) -> str:
        """A number of 32 bits in a register, made once of a size of the call: one that the assembler knows it writes
        into every instruction, which then takes no other, or moves there anew for each."""
        if number not in self._numbers:
            signed = number - (1 << 32 if number >> 31 else 0)
            self._numbers[number] = self.text.op(f"arith.constant {signed} : i32", depth=0)
            size = next((one for one in self.indices.symbols.values() if one.bits == 32), None)
            if size is not None and size.depth == 0:  # sizes are below 2^31
                code = f'asm_dialect = att "shr.u32 $0, $1, 31; xor.b32 $0, $0, {number};", "=&r,r" {size.name}'
                self._numbers[number] = self.text.op(f"llvm.inline_asm {code} : (i32) -> i32", depth=0)
        return self._numbers[number]

    def native_sizes(self, dtype: DType, elements: int) -> list[int]:
        """32-bit registers: accumulators as scalars, which LLVM need not take apart, fragments as words."""
        size = 1 if dtype.kind == "bool" else max(1, 4 // dtype.bytes)  # flags are registers of their own
        return [size] * (elements // size) if elements % size == 0 else [1] * elements

    def cast_sizes(self, value: Value, after: DType) -> list[int]:
        elements = value.vector.elements
        before = value.vector.dtype
        if before.name in self.machine.widened_pairs or after.name in self.machine.narrowed_pairs:
            return [2] * (elements // 2)
        words_of_four = before.kind in ("int", "uint") and before.bits < 16
        by_f32 = words_of_four or (before.is_float and before.bits > 32)
        if _in_pairs(DTYPES["f32"] if by_f32 else before, after) and elements % 2 == 0:
            return [2] * (elements // 2)
        return super().cast_sizes(value, after)

    def transposed(self, value: Value, rows: int, columns: int, unit: int) -> Parts:
        """Blocks of bytes word by word."""
        if value.vector.dtype.stored_bits != _BYTE_BITS or unit > 1 or rows % _WORD or columns % _WORD:
            return super().transposed(value, rows, columns, unit)
        return bytes_turned(self.text, self.function.parts(value, [columns] * rows), rows, columns)

    def emit_unpack(self, op: Op) -> None:
        """Elements of four bits by pairs, whose byte is kept for what converts them."""
        (value,), kind = op.operands, op.result.vector
        if kind.dtype.bits != 4 or kind.elements == 1:
            super().emit_unpack(op)
            return
        names = [part.name for part in self.function.parts(value, [1] * value.vector.elements)]
        pairs = [unpack(self.text, name, kind.dtype, 2, "") for name in names]
        self._bytes |= dict(zip(pairs, names, strict=True))
        if value.vector.elements % _WORD == 0:
            words = self.function.parts(value, [_WORD] * (value.vector.elements // _WORD))
            places = [(word.name, place) for word in words for place in range(_WORD)]
            self._words |= dict(zip(pairs, places, strict=True))
        self.values[op.result.name] = tuple(Part(pair, 2) for pair in pairs)

    def emit_slice(self, op: Op) -> None:
        (value,), first, size = op.operands, op["start"], op["size"]
        parts = self.function.held(value)
        if not (first % 2 or size % 2 or any(part.name not in self._matrices for part in parts)):
            self._pairs[op.result.name] = parts[first // 2 : (first + size) // 2]
        if first % 2 or size % 2 or any(part.name not in self._bytes for part in parts):
            super().emit_slice(op)
            return
        self.values[op.result.name] = parts[first // 2 : (first + size) // 2]

    def emit_cast(self, op: Op) -> None:
        """What shares bytes is converted byte by byte, and halves of numbers are by words."""
        (value,) = op.operands
        before, after, parts = value.vector.dtype, op.result.vector.dtype, self.function.held(value)
        if (before.name, after.name) == ("bf16", "f32") and (words := self._words_of_pairs(value, parts)):
            halves = [name for word in words for name in self._first_halves(word)]
            self.values[op.result.name] = tuple(Part(name, 1) for name in halves)
            return
        if after.kind == "bool" and before.bits == 8 and all(part.size in (2, _WORD) for part in parts):
            self.values[op.result.name] = tuple(Part(name, 1) for part in parts for name in self._set_bytes(part))
            return
        if not has_codes(before, after) or any(part.name not in self._bytes for part in parts):
            super().emit_cast(op)
            return
        self.values[op.result.name] = tuple(Part(self._decoded_pair(part.name, before, after), 2) for part in parts)

    def emit_opaque(self, op: Op) -> None:
        """Word by word, by an assembly of no instruction, which no compiler looks into."""
        (value,) = op.operands
        kind, made = value.vector.dtype, list[Part]()
        held = self.function.held(value)
        if any(part.size * kind.bits % 32 for part in held):  # elements that were loaded one by one
            held = self.function.parts(value, [value.vector.elements])
        for part in held:
            type_, words = vector_type(kind, part.size), part.size * kind.bits // 32
            word_type = "i32" if words == 1 else f"vector<{words}xi32>"
            word = self.text.op(f"llvm.bitcast {part.name} : {type_} to {word_type}")
            if words == 1:
                word = self._opaque(word)
            else:
                for number in range(words):
                    at = self.text.constant(number, "i32")
                    one = self.text.op(f"llvm.extractelement {word}[{at} : i32] : {word_type}")
                    word = self.text.op(f"llvm.insertelement {self._opaque(one)}, {word}[{at} : i32] : {word_type}")
            made.append(Part(self.text.op(f"llvm.bitcast {word} : {word_type} to {type_}"), part.size))
        self.values[op.result.name] = tuple(made)

    def _opaque(self, word: str) -> str:
        return self.text.op(f'llvm.inline_asm has_side_effects asm_dialect = att "", "=r,0" {word} : (i32) -> i32')

    def _set_bytes(self, part: Part) -> Iterator[str]:
        """Which bytes of a word are not 0, each by one instruction: nobody takes it out of the word."""
        word = self.text.op(f"llvm.bitcast {part.name} : vector<{part.size}xi8> to i{8 * part.size}")
        if part.size < _WORD:
            word = self.text.op(f"arith.extui {word} : i{8 * part.size} to i32")
        zero = self.text.constant(0, "i32")
        for number in range(part.size):
            byte = self.text.op(f"arith.andi {word}, {self.text.constant(0xFF << 8 * number, 'i32')} : i32")
            yield self.text.op(f"arith.cmpi ne, {byte}, {zero} : i32")

    def _words_of_pairs(self, value: Value, parts: Parts) -> list[str]:
        """The words that pairs of elements came in; none where they came one by one."""
        if value.name in self._pairs:
            return [self._matrices[part.name] for part in self._pairs[value.name]]
        if any(part.size % 2 for part in parts):
            return []
        pairs = self.function.parts(value, [2] * (value.vector.elements // 2))
        type_ = vector_type(value.vector.dtype, 2)
        return [self.text.op(f"llvm.bitcast {pair.name} : {type_} to i32") for pair in pairs]

    def _first_halves(self, word: str) -> tuple[str, str]:
        """Two numbers of f32, the first halves of which are in a word: as elements the assembler would take the second
        out of it, and then move it back."""
        first = self.text.op(f"arith.shli {word}, {self.text.constant(16, 'i32')} : i32")
        second = self.text.op(f"arith.andi {word}, {self.text.constant(-1 << 16, 'i32')} : i32")
        low, high = (self.text.op(f"arith.bitcast {one} : i32 to f32") for one in (first, second))
        return low, high

    def _decoded_pair(self, pair: str, before: DType, after: DType) -> str:
        word, place = self._words.get(pair, ("", 0))
        if not word or not has_codes(before, after):
            return decoded_pair(self.text, self._bytes[pair], before, after, self._kept(CODES))
        if (word, after.name) not in self._decoded:
            bits = self.text.op(f"llvm.bitcast {word} : vector<{_WORD}xi8> to i32")
            decode = decoded_words if has_table(before, after) else decoded_integers
            self._decoded[word, after.name] = decode(self.text, bits, before, after, self._kept)
        return self._decoded[word, after.name][place]

    def step(self, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
        if function == "mul" and dtype.name in self.machine.packed_products:
            # IREE makes a product of f32 of the dialect-neutral form.
            return self.text.op(f"llvm.fmul {', '.join(names)} : {vector_type(dtype, size)}")
        if instruction := self.machine.approximations.get(function):
            assert (dtype.name, size) == ("f32", 1), "registers of floating point are scalars"
            code = f'asm_dialect = att "{instruction} $0, $1;", "=f,f" {names[0]} : (f32) -> f32'
            return self.text.op(f"llvm.inline_asm {code}")
        if function == "rsqrt":
            assert size == 1, "registers of floating point are scalars"
            code = f'asm_dialect = att "{self.machine.inverse_root} $0, $1;", "=f,f" {names[0]} : (f32) -> f32'
            return self.text.op(f"llvm.inline_asm {code}")
        if function == "ratio":
            assert size == 1, "registers of floating point are scalars"
            code = f'asm_dialect = att "{self.machine.ratio} $0, $1, $2;", "=f,f,f" {", ".join(names)}'
            return self.text.op(f"llvm.inline_asm {code} : (f32, f32) -> f32")
        return super().step(function, names, dtype, size)

    def convert(self, name: str, before: DType, after: DType, old: str, new: str) -> str:
        pairs = self.machine.widened_pairs.get(before.name)
        if pairs is not None and old.startswith("vector"):
            return self._widened(name, pairs, after, old, new)
        if kind := self.machine.narrowed_pairs.get(after.name):
            high, low = (self.text.op(f"vector.extract {name}[{i}] : f32 from {old}") for i in (1, 0))
            code = f'asm_dialect = att "cvt.rn.satfinite.{kind}.f32 $0, $1, $2;", "=h,f,f" {high}, {low}'
            word = self.text.op(f"llvm.inline_asm {code} : (f32, f32) -> i16")
            return self.text.op(f"llvm.bitcast {word} : i16 to {new}")
        if _in_pairs(before, after) and old.startswith("vector"):  # what LLVM would take apart for narrow stores
            high, low = (self.text.op(f"vector.extract {name}[{i}] : f32 from {old}") for i in (1, 0))
            nearest = "<{rnd = #nvvm.fp_rnd_mode<rn>}>"
            return self.text.op(
                f'"nvvm.convert.f32x2.to.{after.name}x2"({high}, {low}) {nearest} : (f32, f32) -> {new}'
            )
        if _in_pairs(before, after):  # IREE makes integer arithmetic of the dialect-neutral form
            return self.text.op(f"llvm.fptrunc {name} : {old} to {new}")
        return super().convert(name, before, after, old, new)

    def _widened(self, name: str, pairs: str, after: DType, old: str, new: str) -> str:
        """Two numbers by way of f16."""
        half = DTYPES["f16"]
        type_ = vector_type(half, 2)
        if not pairs:
            before = DTYPES["f4e2m1fn"]
            target = after if has_codes(before, after) else half
            made = decoded_pair(self.text, byte_of(self.text, name), before, target, self._kept(CODES))
            return made if target is after else self.convert(made, half, after, type_, new)
        word = self.text.op(f"llvm.bitcast {name} : {old} to i16")
        code = f'asm_dialect = att "cvt.rn.f16x2.{pairs} $0, $1;", "=r,h" {word} : (i16) -> i32'
        halves = self.text.op(f"llvm.bitcast {self.text.op(f'llvm.inline_asm {code}')} : i32 to {type_}")
        return self.convert(halves, half, after, type_, new) if after != half else halves

    def exp2(self, name: str, size: int) -> str:
        assert size == 1, "registers of floating point are scalars"
        return self.text.op(f'llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"({name}) : (f32) -> f32')

    def emit_pad(self, op: Op) -> None:
        """With one comparison where all elements are below the limit, or none is; elements that are, as most, need no
        more than that either."""
        (value,), dtype = op.operands, op.result.vector.dtype
        start, limit, size = op["start"], op["limit"], value.vector.elements
        last = start + op["stride"] * (size - 1)
        is_whole = op["stride"] == 0 and size > 1
        if not is_whole and (size < _FEW or abs(op["stride"]) != 1):
            super().emit_pad(op)
            return
        parts = self.function.parts(value, self.native_sizes(dtype, size))
        types = [vector_type(dtype, part.size) for part in parts]
        inside = self.indices.holds(((last if op["stride"] > 0 else start, limit),))
        if is_whole or (op["stride"] > 0 and not start.divisor % size and not limit.divisor % size):
            others = [self.text.constant(op["value"], type_) for type_ in types]
            pairs = zip(parts, others, types, strict=True)
            names = [
                self.text.op(f"arith.select {inside}, {part.name}, {other} : {type_}") for part, other, type_ in pairs
            ]
        else:

            def padded() -> list[str]:
                if self.indices.hide is None or any(part.size > 1 for part in parts):
                    super(CudaLanes, self).emit_pad(op)
                    return [part.name for part in self.values[op.result.name]]
                places = [start + number * op["stride"] for number in range(size)]
                flags = [self.indices.holds(((place, limit),)) for place in places]
                other = self.text.constant(op["value"], types[0])
                pairs = zip(flags, parts, strict=True)
                return [self.text.op(f"arith.select {flag}, {part.name}, {other} : {types[0]}") for flag, part in pairs]

            result = self.function.either(inside, lambda: [part.name for part in parts], padded, types)
            names = [f"{result}#{number}" for number in range(len(types))]
        self.values[op.result.name] = tuple(Part(name, part.size) for name, part in zip(names, parts, strict=True))

    def word_of_lane(self, word: str, mask: int) -> str:
        everyone, distance, clamp = (self.text.constant(value, "i32") for value in (-1, mask, 31))
        return self.text.op(f"nvvm.shfl.sync bfly {everyone}, {word}, {distance}, {clamp} : i32 -> i32")

    def word_from_lane(self, word: str, lane: int, lanes: int) -> str:
        """The bits of a lane's number above 8 in what clamps it are those that every lane keeps of its own."""
        kept = (self.machine.lanes - lanes) << 8 | self.machine.lanes - 1
        everyone, place, clamp = (self.text.constant(value, "i32") for value in (-1, lane, kept))
        return self.text.op(f"nvvm.shfl.sync idx {everyone}, {word}, {place}, {clamp} : i32 -> i32")

    def same_in_wave(self, name: str, depth: int) -> str:
        """An ``i32`` that all lanes of a warp have, in a uniform register: what the instruction joins them to is one."""
        everyone = self.text.constant(-1, "i32")
        return self.text.op(f"nvvm.redux.sync and {name}, {everyone} : i32 -> i32", depth)

    def of_any(self, name: str) -> str:
        everyone, none = (self.text.constant(value, "i32") for value in (-1, 0))
        own = self.text.op(f"arith.cmpi ne, {name}, {none} : i32")
        found = self.text.op(f"nvvm.vote.sync any {everyone}, {own} -> i1")
        return self.text.op(f"arith.extui {found} : i1 to i32")

    def words(self, value: Value, word: str) -> list[str]:
        """32-bit registers of an operand, as the instruction takes them."""
        dtype = value.vector.dtype
        size = 4 // dtype.bytes
        type_ = vector_type(dtype, size)
        parts = self.function.parts(value, [size] * (value.vector.elements // size))
        if type_ == word:
            return [part.name for part in parts]
        return [self.text.op(f"llvm.bitcast {part.name} : {type_} to {word}") for part in parts]


def _in_pairs(before: DType, after: DType) -> bool:
    """Whether one instruction converts two elements."""
    return before.name == "f32" and after.name in ("f16", "bf16")
