"""MLIR for CPUs with tile registers in, MLIR that any CPU runs out: eight tiles in memory, and loops that do what the
instructions do.

https://www.intel.com/content/www/us/en/docs/intrinsics-guide/index.html#text=_tile_ says what each does.
"""

from __future__ import annotations

import itertools
import re

_CALL = re.compile(r'llvm\.call_intrinsic "llvm\.x86\.(\w+)"\(([^)]*)\)')
_TILES = "memref<2048xi32, #iree_codegen.workgroup_local>"
"""Eight tiles of 16 rows of 16 words."""
_ROW = "vector<16xi32>"
_PAIR = re.compile(r'(%\S+) = llvm\.call_intrinsic "llvm\.x86\.avx512bf16\.cvtne2ps2bf16\.512"\((%\S+), (%\S+)\)')
"""Two vectors of f32, the second one's elements first, rounded to one of bf16."""
_ONE = re.compile(r'(%\S+) = llvm\.call_intrinsic "llvm\.x86\.avx512bf16\.cvtneps2bf16\.512"\((%\S+)\)')
"""One vector of f32 rounded to half a one of bf16."""


def emulated(module: str) -> str:
    """The module without an instruction of tile registers."""
    numbers, lines = itertools.count(), list[str]()
    for line in module.splitlines():
        call = _CALL.search(line)
        if line.lstrip().startswith("func.func"):
            lines += [line, *_head()]
        elif pair := _PAIR.search(line):
            lines += _rounded(f"%e{next(numbers)}_", pair[1], pair[3], pair[2])
        elif one := _ONE.search(line):
            lines += _rounded(f"%e{next(numbers)}_", one[1], one[2])
        elif call is None:
            lines.append(line)
        else:
            lines += _Loops(f"%e{next(numbers)}_").lines(call[1], call[2].split(", "))
    return "\n".join(lines)


def _head() -> list[str]:
    constants = {"zero": 0, "one": 1, "side": 16}
    return [
        f'%tiles = "memref.alloc"() <{{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}}> : () -> {_TILES}',
        *(f"%tile_{name} = arith.constant {value} : index" for name, value in constants.items()),
        f"%tile_empty = arith.constant dense<0> : {_ROW}",
    ]


def _rounded(prefix: str, result: str, *vectors: str) -> list[str]:
    """To the nearest, ties to the even one, of numbers alone."""
    constants = {"half": 0x7FFF, "one": 1, "bits": 16}
    lines = [f"{prefix}{name} = arith.constant dense<{value}> : {_ROW}" for name, value in constants.items()]
    for number, name in enumerate(vectors):
        own = f"{prefix}{number}_"
        lines += [
            f"{own}word = arith.bitcast {name} : vector<16xf32> to {_ROW}",
            f"{own}upper = arith.shrui {own}word, {prefix}bits : {_ROW}",
            f"{own}odd = arith.andi {own}upper, {prefix}one : {_ROW}",
            f"{own}even = arith.addi {own}word, {own}odd : {_ROW}",
            f"{own}sum = arith.addi {own}even, {prefix}half : {_ROW}",
            f"{own}kept = arith.shrui {own}sum, {prefix}bits : {_ROW}",
            f"{own}short = arith.trunci {own}kept : {_ROW} to vector<16xi16>",
        ]
    if len(vectors) == 1:
        return [*lines, f"{result} = arith.bitcast {prefix}0_short : vector<16xi16> to vector<16xbf16>"]
    both = "vector<16xi16>, vector<16xi16>"
    return [
        *lines,
        f"{prefix}both = vector.shuffle {prefix}0_short, {prefix}1_short {[*range(32)]} : {both}",
        f"{result} = arith.bitcast {prefix}both : vector<32xi16> to vector<32xbf16>",
    ]


class _Loops:
    """What one instruction does; its names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.names, self.made = prefix, itertools.count(), list[str]()

    def lines(self, word: str, operands: list[str]) -> list[str]:
        if word in ("ldtilecfg", "tilerelease"):
            return []
        self.made.append(f"scf.for {self.prefix}row = %tile_zero to %tile_side step %tile_one {{")
        if word.startswith("tdp"):
            self._product(word, *operands)
        elif word == "tilezero":
            self._to_tile(operands[0], "%tile_empty")
        else:
            self._move(word, *operands)
        return [*self.made, "}"]

    def _op(self, text: str) -> str:
        name = f"{self.prefix}{next(self.names)}"
        self.made.append(f"{name} = {text}")
        return name

    def _place(self, tile: str, row: str) -> str:
        number = self._op(f"arith.index_cast {tile} : i8 to index")
        first = self._op(f"arith.muli {number}, %tile_side : index")
        first = self._op(f"arith.addi {first}, {row} : index")
        return self._op(f"arith.muli {first}, %tile_side : index")

    def _to_tile(self, tile: str, value: str) -> None:
        at = self._place(tile, f"{self.prefix}row")
        self.made.append(f"vector.store {value}, %tiles[{at}] : {_TILES}, {_ROW}")

    def _row_of(self, tile: str, row: str) -> str:
        return self._op(f"vector.load %tiles[{self._place(tile, row)}] : {_TILES}, {_ROW}")

    def _move(self, word: str, tile: str, pointer: str, stride: str) -> None:
        """Rows of 64 bytes from or to memory, ``stride`` bytes apart."""
        row = self._op(f"arith.index_cast {self.prefix}row : index to i64")
        offset = self._op(f"arith.muli {row}, {stride} : i64")
        start = self._op(f"llvm.ptrtoint {pointer} : !llvm.ptr to i64")
        place = self._op(f"arith.addi {start}, {offset} : i64")
        place = self._op(f"llvm.inttoptr {place} : i64 to !llvm.ptr")
        if word in ("tileloadd64", "tileloaddt164"):
            self._to_tile(
                tile,
                self._op(f'"llvm.load"({place}) <{{alignment = 1 : i64, ordering = 0 : i64}}> : (!llvm.ptr) -> {_ROW}'),
            )
        else:
            assert word == "tilestored64", word
            value = self._row_of(tile, f"{self.prefix}row")
            self.made.append(
                f'"llvm.store"({value}, {place}) <{{alignment = 1 : i64, ordering = 0 : i64}}> : ({_ROW}, !llvm.ptr) -> ()'
            )

    def _product(self, word: str, sums: str, left: str, right: str) -> None:
        """``sums[m, n] += left[m, k] · right[k, n]`` of one m; an element of an operand is a word of small ones."""
        row, k = f"{self.prefix}row", f"{self.prefix}k"
        self.made.append(f"scf.for {k} = %tile_zero to %tile_side step %tile_one {{")
        at = self._op(f"arith.addi {self._place(left, row)}, {k} : index")
        element = self._op(f"memref.load %tiles[{at}] : {_TILES}")
        element = self._op(f"vector.broadcast {element} : i32 to {_ROW}")
        others, total = self._row_of(right, k), self._row_of(sums, row)
        if word == "tdpbf16ps":
            total = self._pairs(element, others, total)
        else:
            assert word == "tdpbssd", word
            total = self._quads(element, others, total)
        self._to_tile(sums, total)
        self.made.append("}")

    def _pairs(self, left: str, right: str, total: str) -> str:
        real = "vector<16xf32>"
        total = self._op(f"arith.bitcast {total} : {_ROW} to {real}")
        for part in (self._low, self._high):
            one, other = (self._op(f"arith.bitcast {part(word)} : {_ROW} to {real}") for word in (left, right))
            total = self._op(f"math.fma {one}, {other}, {total} : {real}")
        return self._op(f"arith.bitcast {total} : {real} to {_ROW}")

    def _low(self, word: str) -> str:
        return self._op(f"arith.shli {word}, {self._filled(16)} : {_ROW}")

    def _high(self, word: str) -> str:
        return self._op(f"arith.andi {word}, {self._filled(-65536)} : {_ROW}")

    def _quads(self, left: str, right: str, total: str) -> str:
        for byte in range(4):
            bytes_: list[str] = []
            for word in (left, right):
                top = self._op(f"arith.shli {word}, {self._filled(24 - 8 * byte)} : {_ROW}")
                bytes_.append(self._op(f"arith.shrsi {top}, {self._filled(24)} : {_ROW}"))
            product = self._op(f"arith.muli {bytes_[0]}, {bytes_[1]} : {_ROW}")
            total = self._op(f"arith.addi {total}, {product} : {_ROW}")
        return total

    def _filled(self, value: int) -> str:
        return self._op(f"arith.constant dense<{value}> : {_ROW}")
