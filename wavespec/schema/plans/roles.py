"""What the dims of a kernel are for, as tables of plans ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["products", "attention", "rows", "pairs", "ordered", "columns", "windows", "elements", "transposed"]


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
    """Dims of results of which a workgroup has one element."""
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
    sums: bool = False
    """Whether loops do nothing but join elements, in any order."""
    largest: int = 0
    """How many largest elements are looked for, at most."""
    loops: int = 0
    """How many loops there are, each of which reads what it is over."""
    pairs: Roles | None = None
    """The same with tiles of two sides, where what is read is of one of them and meets all of the other."""
    parted: bool = False
    """Whether a kernel before may join the elements of parts of the dim of the loop."""
    products: int = 0
    """Sums of products beside each other."""
    joined: bool = False
    """Whether ops join the elements of a product along its columns, of which a workgroup has all; those of results are
    another dim, if there is one."""
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
    pixels: bool = False
    """Whether elements of operands that are side by side are so along steps, though perhaps not along all of them."""
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
    decoded_once: Roles | None = None
    """The same where kernels of their own write what is decoded first, if they can."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What those write, each with its dims in their order."""
    with_sums: Roles | None = None
    """The same where kernels of their own make the sums of one side first, which their loops carry."""
    sums_before: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """These sums, each with its dims in their order."""
    along_steps: Roles | None = None
    """The same where kernels of their own lay operands out along the steps first."""
    laid_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """These operands, each with its dims in their order."""
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

    def dim_of(self, role: str) -> str:
        """The dim of results that has a role, or none."""
        return {"rows": self.rows, "columns": self.columns, "lines": self.lines}[role]
