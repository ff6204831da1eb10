"""What the dims of a kernel are for, as tables of plans ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from wavespec.schema.language.models import KernelSpec

Kind = Literal["products", "attention", "rows", "pairs", "ordered", "columns", "windows", "elements", "transposed"]

_NARROW_BITS, _NARROW_WORDS, _WIDE_WORDS = 16, 128, 1024


@dataclass(frozen=True, slots=True)
class Roles:
    """What the dims of a kernel are for."""

    kind: Kind
    """What tables of tiles are by: one product in a loop; products that others in the loop go into; loops along rows
    that join elements in any order, of two rows each, or in theirs; loops across rows; loops over neighbours; none;
    none, and rows become columns."""
    rows: str
    """The dim of results whose tiles are along the first side of a product, or across accesses; empty for none."""
    columns: str
    """That along the other side, or along accesses."""
    steps: tuple[str, ...]
    """The dims of loops of which a step has a tile, that of the main loop first; all of a window."""
    alone: tuple[str, ...]
    """Dims of results of which a workgroup has one element, but where a table has a tile of the last one, `batch`."""
    walked: tuple[str, ...]
    """Other dims of loops, of which a step has one element."""
    whole: tuple[str, ...]
    """Dims that a value needs all of: those that ops join elements along, outside of a loop over them."""
    operands: tuple[str, ...]
    """Tensors that products take their operands from as they are, or whose rows become columns."""
    bits: int
    """Of an element of what is multiplied, else of what is read most."""
    single: bool
    """Whether loops are over all of one dim, nothing decides what runs, and workgroups may share out what is read."""
    uniform: frozenset[str]
    """Dims of values that decide about loops and branches, of which a workgroup has one answer."""
    ordered: bool
    """Whether lanes join elements in their order, or exchange them."""
    fixed: Mapping[str, int]
    """Dims of one size."""
    values: tuple[tuple[tuple[str, ...], int], ...]
    """Dims and bits of every value."""
    handed_on: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Dims and bits of values behind products that lanes have in another way than what is made of them, which has a
    dim more."""
    along: bool = False
    """Whether elements of what is read lie side by side along a dim that is whole."""
    sums: bool = False
    """Whether loops do nothing but join elements, in any order."""
    largest: int = 0
    """How many largest elements are looked for, at most."""
    loops: int = 0
    """How many loops there are, each of which reads what it is over."""
    sweeps: int = 0
    """How many of them are over the first of `steps`."""
    counted: tuple[str, ...] = ()
    """Dims of the one tensor of integers that elements are combined with at computed places, if there is one."""
    pairs: Roles | None = None
    """The same with tiles of two sides, where what is read is of one of them and meets all of the other."""
    parted: bool = False
    """Whether a kernel before may join the elements of parts of the dim of the loop."""
    walk_parted: bool = False
    """Whether one may join those of parts of the first of `walked`."""
    products: int = 0
    """Sums of products beside each other."""
    narrow: int = 0
    """How many further products beside them have few columns."""
    joined: bool = False
    """Whether ops join the elements of a product along its columns, of which a workgroup has all; those of results are
    another dim, if there is one."""
    row_words: int = 0
    """Words of 32 bits of the largest value that is made of a row of a product then, by the most that its dims have."""
    behind: bool = False
    """Whether products behind the loop take what it has summed."""
    after: bool = False
    """Whether rows are those of such products alone, which have all of what the loop has summed."""
    beside: bool = False
    """Whether lanes compute with an operand of a product as well, which is one as it is read."""
    decoded: bool = False
    """Whether that is so, or an operand or its places are computed, or it is scaled."""
    contiguous: bool = False
    """Whether operands that are read have their elements along the steps side by side."""
    last: frozenset[str] = frozenset()
    """Dims along which operands that are read have their elements side by side."""
    mapped: tuple[str, ...] = ()
    """Tensors among the operands whose elements are found by a mapping."""
    looked_up: bool = False
    """Whether places of elements of operands are values of a step; without products, of columns that all rows share."""
    divisors: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By `rows` and `columns`: dims whose sizes take places along them apart, of kernels without loops."""
    pixels: bool = False
    """Whether elements of operands that are side by side are so along steps, though perhaps not along all of them."""
    shifted: int = 0
    """Taps of a window of which each is a row of a product further down, where rows have room; 0: there are none."""
    shifted_lines: tuple[str, ...] = ()
    """Dims that say then how long lines are, and how many an image has."""
    lines: str = ""
    """A further dim of results that windows move along."""
    moved: frozenset[str] = frozenset()
    """Dims of results that windows move along."""
    split: bool = False
    """Whether workgroups may share out the steps of the loop of products, and add up what they have found."""
    heads: tuple[str, str] | None = None
    """A dim of which a workgroup has one element and neighbours share what is read, and that by which they share it:
    rows of tiles may be those of all neighbours."""
    staged: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Dims and bits of the operands of products that are read."""
    units_stage: tuple[tuple[tuple[str, ...], int], ...] = ()
    """The same where matrix units read what is staged: of reads of the same elements, one tile."""
    held: Mapping[str, tuple[tuple[tuple[str, ...], int], ...]] = field(
        default_factory=dict[str, tuple[tuple[tuple[str, ...], int], ...]]
    )
    """Of steps that make several products, and are no tiles of a loop: dims and bits of the operands by the tensor that
    they are read of, and under no name of those that are computed, which all steps hold at once."""
    decoded_once: Roles | None = None
    """The same where kernels of their own write what is decoded first, if they can."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What those write, each with its dims in their order."""
    with_sums: Roles | None = None
    """The same where kernels of their own make the sums of one side first, which their loops carry."""
    sums_before: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """These sums, each with its dims in their order."""
    product_beside: Roles | None = None
    """The same where kernels of their own make products of the same rows and few columns first."""
    products_made: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """These products, each with its dims in order."""
    product_before: Roles | None = None
    """Of the product alone, where its columns are joined and another kernel can go on from it row by row."""
    apart: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """That product, with its dims in order."""
    along_steps: Roles | None = None
    """The same where kernels of their own lay operands out along the steps first."""
    laid_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """These operands, each with its dims in their order."""
    vectors: Roles | None = None
    """The same where vectors along results, and along an operand that is read where it lies, are of columns."""
    turned: tuple[Roles, ...] = ()
    """The same where columns are decoded in registers beside their product, from what is staged; rows that are decoded
    too are written first. Behind it, if there are scales: those where kernels of their own turn these round, so that
    their rows start where a widest access may."""
    round: bool = False
    """Whether scales are turned round."""
    across: bool = False
    """Whether what is decoded for a product lies side by side along another dim than steps."""
    columns_once: Roles | None = None
    """The same where a kernel of its own writes what columns are decoded from across steps, where rows are decoded too:
    waves along rows would each decode the columns again."""
    made: int = 0
    """How many operands of a product are decoded."""
    block: int = 0
    """Along steps, elements that have one scale, by which products multiply what is written; 0 where they do not."""

    grouped: tuple[KernelSpec, Roles] | None = None
    """Of a spec without products whose sums are such of rows of groups: the spec with these as products, and its
    roles."""
    neighbours: tuple[str, str] | None = None
    """The dim whose neighbours are rows then, and that by which they share what is read."""
    following: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dims that such a spec has of its own, each with its size in those of the other one."""

    def least_divisor(self, role: str) -> str:
        """The least of the sizes that take places along rows or columns apart; 0 where there are none."""
        return reduce(lambda least, dim: f"min({least}, {dim})", self.divisors.get(role) or ("0",))

    @property
    def has_narrow_rows(self) -> bool:
        """Whether a product of 16 bits or less makes few words of each row."""
        return self.bits <= _NARROW_BITS and self.row_words <= _NARROW_WORDS

    @property
    def may_start_anywhere(self) -> bool:
        """Whether a product that is made alone may have rows that start anywhere: of 16 bits, lanes would copy them one
        by one."""
        return self.bits > _NARROW_BITS or self.row_words >= _WIDE_WORDS

    def dim_of(self, role: str) -> str:
        """The dim of results that has a role, or none."""
        batch = self.alone[-1] if self.alone else ""
        steps, walked = (dims[0] if dims else "" for dims in (self.steps, self.walked))
        named = {"rows": self.rows, "columns": self.columns, "lines": self.lines}
        return {**named, "batch": batch, "steps": steps, "walked": walked}[role]
