"""How the work of a kernel is split over a machine, apart from what it computes: one model per constraint."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.schema.language.base import SpecModel, Worded
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.expression_parser import SpecExpression


class Constraint(Worded):
    """One entry of `constraints`."""

    def in_words(self, *path: str | int) -> str:
        return ".".join(["constraints", f"{{{self.word}: {self.subject}}}", *map(str, path)])

    @property
    def subject(self) -> str:
        """What the constraint is about, for messages."""
        return str(getattr(self, self.headline[0]))


class Workgroup(Constraint):
    """Splits a dim over workgroups: each computes one tile of it."""

    word: ClassVar[str] = "workgroup"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    constraint: Literal["workgroup"] = "workgroup"
    dim: DimName
    """The dim that is split."""
    tile: SpecExpression
    """Elements of the dim that one workgroup computes.  Of a dim with 1 the grid counts the elements, such as batches.
    Products may have such dims in addition to their own, and a few elements of them in a tile."""
    axis: Annotated[int, Field(ge=0, le=4)]
    """The grid axis that counts the tiles: 0 to 4. Those of the lower axes run next to each other. Dims may share one:
    tiles of the dim that is written first run next to each other."""
    order: SpecExpression | None = None
    """The tile that a workgroup computes, of its place `index` among the `count` along the dim: `count - 1 - index`
    starts with the last one. Every tile has to come once, which is checked for all counts; absent: `index`."""
    end: SpecExpression | None = None
    """Up to where tiles have something to write, of what is read for places along other dims: the rows of a group,
    `beyond - first`. `persistent` workgroups leave out the tiles from there on; absent: the size of the dim."""


class Tiling(Constraint):
    """Walks over a dim in tiles, one after another, inside a workgroup: the dim of an `iterate`."""

    word: ClassVar[str] = "tiling"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    constraint: Literal["tiling"] = "tiling"
    dim: DimName
    """The dim that is walked over."""
    tile: SpecExpression
    """Elements of the dim in one step."""
    start: SpecExpression | None = None
    """The first element that loops over the dim may have to do with, as in `iterate`; absent: 0."""
    count: SpecExpression | None = None
    """Steps of these loops, from there on; absent: up to the end of the dim."""


class Device(Constraint):
    """Splits a dim over devices: each has one part of the tensors that have the dim, and runs the kernel on it.

    Whoever launches the kernel hands out the parts; a kernel is compiled for those of one device.
    """

    word: ClassVar[str] = "device"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    constraint: Literal["device"] = "device"
    dim: DimName
    """The dim that is split."""
    tile: SpecExpression
    """Elements of the dim that one device has; a multiple of a workgroup's."""


class Wave(Constraint):
    """Splits a workgroup's tile over its waves, or that of a loop over a dim that products sum over: each wave then
    multiplies its own elements of the tile, and behind the loop the sums of all of them are added up."""

    word: ClassVar[str] = "wave"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    constraint: Literal["wave"] = "wave"
    dim: DimName
    """The dim whose tile is split."""
    tile: SpecExpression
    """Elements of the dim that one wave computes; divides the tile."""
    axis: Annotated[int, Field(ge=0, le=4)] = 0
    """How the waves of a workgroup are numbered: those along dims of the lower axes are next to each other; of one
    axis, those along the dim that is split over workgroups last."""


class HardwareSettings(SpecModel):
    """What the machine is asked to use."""

    mma: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")] | None = None
    """The matrix instruction of every `mma`, or `auto` for the best one of the target; absent: `auto`. `left_in_place`,
    `right_in_place`: the best one that takes the rows of this operand as they lie, and the other one packed where it
    packs any, for a large operand whose elements meet few of the other one: tile registers then read it where it is."""
    vector: dict[DimName, SpecExpression] = Field(default_factory=dict)
    """Of kernels without products: neighbours along a dim that each lane takes together; absent: a widest access."""
    fast_math: Annotated[tuple[Literal["tanh", "exp"], ...], Field(exclude_if=lambda value: not value)] = ()
    """Functions that may be approximate; absent: none. `tanh`, off by 2^-10 at most: the machine's own instruction
    where it has one, else fewer steps. `exp`, off by 2^-17 of the result at most, and 0 where that is below 2^-126: in
    kernels all of whose results are of floating point with 16 bits or less, which hide that; in others it is exact."""
    denormals: Annotated[Literal["keep", "flush"] | None, Field(exclude_if=lambda value: value is None)] = None
    """`flush`: numbers of f32 below the smallest normal one, 2^-126, may count as 0 of their sign where arithmetic
    meets or makes them; on CPUs those of f64, too. `keep`, or absent: they are numbers."""


class Hardware(Constraint):
    """Chooses features of the machine."""

    word: ClassVar[str] = "hardware"
    headline: ClassVar[tuple[str, ...]] = ("settings",)

    constraint: Literal["hardware"] = "hardware"
    settings: HardwareSettings
    """The features to use, such as `{mma: auto}`."""

    @property
    def subject(self) -> str:
        return f"{{mma: {self.settings.mma or 'auto'}}}"


class Assume(Constraint):
    """A promise about dims and parameters that the compiler may use, checked when the kernel is called."""

    word: ClassVar[str] = "assume"
    headline: ClassVar[tuple[str, ...]] = ("condition",)

    constraint: Literal["assume"] = "assume"
    condition: SpecExpression
    """A comparison, such as `K > 4 * BLOCK_K`."""


CONSTRAINTS: tuple[type[Constraint], ...] = (Workgroup, Tiling, Wave, Hardware, Assume, Device)

AnyConstraint = Annotated[
    Workgroup | Tiling | Wave | Hardware | Assume | Device,
    Field(discriminator="constraint"),
]
