"""A row of a machine's file in, the matrix instructions that it stands for out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, cast

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import symbol
from wavespec.ir.expr_parser import parse_expr
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.targets.records import record


@dataclass(frozen=True, slots=True)
class Fragment:
    """One operand of a matrix instruction: element type and where each element lives, in dims ``m``, ``n``, ``k``."""

    dtype: DType
    layout: Layout
    staging: Literal["rows", "panels", "row_panels", "none"] = "rows"
    """How a staged tile of this operand lies on machines that pack panels; ``row_panels``: panels, of the rows that are
    a wave's own where such are staged apart; ``none`` reads it in place."""
    from_shared: bool = False
    """Whether the matrix unit reads this operand from shared memory itself."""
    kept_bits: int = 0
    """Of an element, that the unit takes; it cuts off the lower ones.  0 = all of them."""
    bias: int = 0
    """Added to every element when it is staged, for units that multiply unsigned by signed; the emitter takes away
    what that adds to a product."""

    @property
    def in_panels(self) -> bool:
        """Whether a staged tile is packed in the order in which the instruction reads it."""
        return self.staging in ("panels", "row_panels")

    @property
    def of_rows(self) -> bool:
        """Whether a wave stages the rows of a tile that are its own by itself."""
        return self.staging in ("rows", "row_panels")


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """``acc[m, n] += a[m, k] · b[n, k]`` by one wave, in one step of the machine."""

    name: str
    m: int
    n: int
    k: int
    """Extents of one issue, in elements."""
    a: Fragment
    b: Fragment
    acc: Fragment
    inputs: tuple[DType, ...]
    """Element types in memory that it takes; a type other than ``a.dtype`` is converted when it is staged."""
    lanes: int
    emit: str
    """How the emitter spells it: ``family`` or ``family:intrinsic``."""
    source: str
    """Where the row was read: vendor page and table."""
    auto: bool = True
    """Whether ``mma: auto`` may pick it; a row that changes the numerics of its types is taken by name only."""
    majors: tuple[str, ...] = ("k", "mn")
    """Which dims may be contiguous in shared memory that the matrix unit reads: k, or the other one."""
    product_of: str = ""
    """The row that multiplies high and low parts of the operands, which this one is made of; nothing: it is one of the
    machine."""
    unroll: int = 1
    """Steps along k that one iteration of the inner loop issues (machines that keep the inner loop rolled)."""
    chain: int = 0
    """Elements along k that go into one sum before it is added to that of those before, at most; 0 = any number.  Every
    step of the unit rounds, and the longer the chain, the larger the numbers that are rounded."""
    short_chain: int = 0
    """The same where all of k is known to be at most two chains, so that few blocks are added; 0 = as ever."""
    truncates: bool = False
    """Whether what is added to a large sum loses bits that f32 would keep, always the same way: long sums go wrong by
    more than operands of its types are rounded."""
    rounded_pairs: str = ""
    """How the compiler behind calls an instruction that rounds two vectors of f32, the second one's elements first, to
    one of bf16.  It takes numbers below the smallest normal one for zero, and results of this row are never such."""
    rounded: str = ""
    """The same of an instruction that rounds one vector of f32 to half a one of bf16."""
    rounded_operands: str = ""
    """The same for operands of this row, which takes numbers below the smallest normal one for zero as well."""
    written_out: bool = False
    """Whether sums of products that a kernel has written out take it before one that multiplies pairs."""
    family: str = ""
    """The name as the table writes it, for all members of a row with ``each``, or what the row says: rows that multiply
    other types in the same way share one."""
    _swapped: MatrixInstruction | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def reads_shared(self) -> bool:
        """Whether the matrix unit reads from shared memory itself: one operand always, the other where it is staged.
        Its results are in flight until they are waited for."""
        return self.a.from_shared or self.b.from_shared

    @property
    def in_tile_registers(self) -> bool:
        """Whether its operands and results are in registers of their own, of 16 rows of 64 bytes."""
        return self.emit.startswith("amx:")

    @property
    def of_lanes(self) -> bool:
        """Whether it multiplies vectors lane by lane: ``n`` results, of as many matrices as have them."""
        return self.emit.startswith("lanes:")

    @property
    def adds_across(self) -> bool:
        """Whether lanes share out the elements along k, multiply their own, and add up what all of them have."""
        return self.emit == "lanes:add"

    def swapped(self) -> MatrixInstruction:
        """The same instruction computing the transposed product: ``a`` takes n, ``b`` takes m."""
        if self._swapped is None:  # passes ask for it of every product, and machines stay
            object.__setattr__(self, "_swapped", self._turned())
        return cast("MatrixInstruction", self._swapped)

    def _turned(self) -> MatrixInstruction:
        names = {"m": "n", "n": "m", "k": "k"}

        def flip(fragment: Fragment) -> Fragment:
            return replace(fragment, layout=fragment.layout.renamed(names))

        return replace(
            self, m=self.n, n=self.m, a=flip(self.b), b=flip(self.a), acc=flip(self.acc), emit=self.emit + ":swapped"
        )


def instructions_of(row: dict[str, Any], lanes: int) -> Iterator[MatrixInstruction]:
    """Those of one row of a machine's file, whose waves have so many lanes where it says nothing else."""
    yield from (_instruction(member, lanes) for member in _members(row))


def _members(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that one row with ``each`` stands for: every combination of its values, put where the row says
    ``{name}``."""
    each: dict[str, list[Any]] = row.get("each", {})
    for values in product(*each.values()):
        yield {**_filled(row, dict(zip(each, values, strict=True))), "family": row.get("family", row["name"])}


def _filled(item: Any, values: Mapping[str, Any]) -> Any:
    match item:
        case str():
            for name, value in values.items():
                item = item.replace(f"{{{name}}}", str(value))
            return item
        case list():
            return [_filled(part, values) for part in cast("list[Any]", item)]
        case dict():
            return {key: _filled(part, values) for key, part in cast("dict[str, Any]", item).items()}
        case _:
            return item


def _number(written: int | str) -> int:
    return parse_expr(str(written), {}).value


def _instruction(row: dict[str, Any], lanes: int) -> MatrixInstruction:
    lanes = row.get("lanes", lanes)
    rest = {key: value for key, value in row.items() if key not in ("shape", "each")}
    fragments = {name: _fragment(row[name], lanes) for name in ("a", "b", "acc")}
    extents = dict(zip("mnk", map(_number, row["shape"]), strict=True))
    inputs = tuple(DTYPES[name] for name in row.get("inputs", [row["a"]["dtype"]]))
    return record(MatrixInstruction, {**rest, **extents, **fragments, "inputs": inputs, "lanes": lanes}, row["name"])


def _fragment(row: dict[str, Any], lanes: int) -> Fragment:
    symbols = {"lane": symbol("lane", 0, lanes - 1)}
    base = tuple((dim, parse_expr(str(text), symbols)) for dim, text in row["base"].items())
    axes = tuple(
        RegisterAxis(_number(axis["extent"]), tuple((dim, stride) for dim, stride in axis.items() if dim != "extent"))
        for axis in row["registers"]
    )
    rest = {key: value for key, value in row.items() if key not in ("base", "registers")}
    layout = Layout(base, axes, len(axes))
    return record(Fragment, {**rest, "dtype": DTYPES[row["dtype"]], "layout": layout}, "fragment")
