"""The models of a kernel spec: what a `.wave.yaml` file says, as frozen typed Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import LARGEST_STRIDE, alignment_of, most_alignment, stride_of
from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.constraints import AnyConstraint, HardwareSettings
from wavespec.schema.language.dim_names import DimName, expression_of_dim, is_expression
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.expressions import Name as NameNode
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.language.scalars import Scalar
from wavespec.schema.language.values import Values
from wavespec.schema.ops import AnyOp
from wavespec.targets.names import TargetName

API_VERSION = "wavespec/v1"

Space = Literal["global", "shared", "streamed"]
StridesWord = Literal["any", "contiguous"]
StridesList = Annotated[tuple[SpecExpression, ...], Field(max_length=16)]


def _printable(text: str) -> str:
    if not all(character.isprintable() or character in "\t\n" for character in text):
        raise PydanticCustomError("bad_name", "{problem}", {"problem": "has an unprintable character"})
    return text


Doc = Annotated[str, Field(max_length=10_000), AfterValidator(_printable)]
Extent = Annotated[int, Field(ge=0, lt=2**62)]
FixedExtent = Annotated[int, Field(ge=1, lt=2**62)]


class Dim(SpecModel):
    """The size of tensors along one axis, bound when the kernel is called."""

    multiple_of: Annotated[int, Field(ge=1, lt=2**31)] = 1
    """A promise, checked at the call: the size is a multiple of this."""
    value: FixedExtent | None = None
    """The one size that is allowed; absent for any."""
    min: Extent = 0
    """The smallest size."""
    max: FixedExtent | None = None
    """The largest size; absent for no limit."""
    fold: Annotated[Literal["leading"] | None, Field(exclude_if=lambda value: value is None)] = None
    """`leading`: in place of this dim, the first of every tensor that has it, arguments may have any number of dims, of
    which it is the product; results have the same."""
    equals: SpecExpression | None = None
    """What the size follows from: an expression of other dims and parameters, `(H - R) // STRIDE + 1`, computed at the
    call; where an input has the dim, it is checked. Absent: some input has the dim."""


class Tensor(SpecModel):
    """An argument or a result of the kernel."""

    shape: Annotated[tuple[DimName, ...], Field(max_length=16)]
    """Its dims, outermost first: names in `dims`, or expressions of such, `K // 2`, as in `equals`."""
    dtype: DType
    """Its element type."""
    space: Space = "global"
    """`shared`: the compiler stages its tiles through shared memory; `global`: it is accessed directly. `streamed`, of
    outputs: its `write` is `cache: streaming`, which a case can so say for results that are larger than the caches."""
    role: Literal["input", "output", "inout"] = "input"
    """An argument of the kernel, or a result. `inout`: an argument that the kernel changes in place; what it does not
    write stays."""
    strides: StridesWord | StridesList | None = None
    """`any`: a call may pass a view of any strides whose last dim is dense, and it is never copied. `contiguous`: a
    promise, checked at the call. A list, `[LD, 1]`, of one entry for each dim, in elements: a name is what a call has
    there, the same wherever it stands; numbers, and expressions of dims, parameters and such names, are promises.
    Absent: an input that is not contiguous is copied first, all else has to be."""
    values: Annotated[Values | None, Field(exclude_if=lambda value: value is None)] = None
    """What an argument is meant to hold, `{min: 0, max: V - 1}`; it changes no code."""

    @property
    def is_strided(self) -> bool:
        """Whether a call says where its elements are."""
        return self.strides is not None and self.strides != "contiguous"

    @property
    def strides_word(self) -> Literal["", "any", "contiguous"]:
        """Which tensors a call passes, in a word: what a list says of strides it is asked for besides."""
        return "any" if isinstance(self.strides, tuple) else self.strides or ""

    @property
    def promised_strides(self) -> tuple[Expression, ...]:
        """What a list says of its strides."""
        return self.strides if isinstance(self.strides, tuple) else ()


def named_strides(tensors: Mapping[str, Tensor], others: Collection[str]) -> dict[str, tuple[str, str]]:
    """The names that calls bind to strides, each with a tensor and its dim that has this stride, inputs first;
    ``others`` are dims, parameters and scalars."""
    found: dict[str, tuple[str, str]] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].role == "output"):
        for dim, stride in zip(tensor.shape, tensor.promised_strides, strict=False):
            if isinstance(stride, NameNode) and stride.name not in others:
                found.setdefault(stride.name, (name, dim))
    return found


def numbers_of(tensors: Mapping[str, Tensor], others: Collection[str]) -> dict[str, Dim]:
    """Strides and alignments of the tensors that have any; ``others``: names that stand for no stride."""
    strided = {name: tensor for name, tensor in tensors.items() if tensor.is_strided}
    any_ = {name: tensor for name, tensor in strided.items() if not tensor.promised_strides}
    found = {stride_of(name, dim): Dim(max=LARGEST_STRIDE) for name, one in any_.items() for dim in one.shape[:-1]}
    found |= {name: Dim(max=LARGEST_STRIDE) for name in named_strides(tensors, others)}
    most = {name: most_alignment(DTYPES[one.dtype].bytes) for name, one in strided.items()}
    return found | {alignment_of(name): Dim(min=1, max=most[name]) for name in strided}


class WaveRegisters(SpecModel):
    """Registers of one lane, where the machine can hand them from waves to waves."""

    producer: Annotated[int, Field(ge=24, le=256, multiple_of=8)]
    """Of waves that only copy."""
    consumer: Annotated[int, Field(ge=24, le=256, multiple_of=8)]
    """Of waves that compute."""


class WaveSchedule(SpecModel):
    """Roles of the waves of a workgroup."""

    producers: Annotated[int, Field(ge=0, le=1)] = 0
    """Waves that only copy, beside those that compute. 0: every wave does both."""
    order: Literal["together", "in_parts", "in_turn", "ping_pong"] = "together"
    """`together`: the waves that compute share one tile. `in_parts`: they do, and issue most of the last product of a
    step between the arithmetic of the next one, beside `producers`. `in_turn`: they share a tile, and in each step of a
    loop issue their products one behind the other, beside `producers`. `ping_pong`: they take turns at multiplying."""
    early_wait: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether waves that share a tile wait for the last product of a step as soon as lanes of the next one have told
    each other of its sums, in front of what they make of both, beside `producers`."""
    registers: WaveRegisters | None = None
    """How the registers are shared between producers and the others; absent: evenly."""
    buffers: Annotated[dict[Name, Annotated[int, Field(ge=1, le=32)]], Field(max_length=16)] = Field(
        default_factory=dict[Name, int], exclude_if=lambda value: not value
    )
    """Copies of the tiles of staged tensors that lanes read beside products, with `producers`: `{bias: 1}`. Absent: as
    many as `stages`, or one where these do not fit. Of what is read in front of loops, where workgroups stay: with
    `{q: 1}` the last step of a tile gives it back, as soon as it is multiplied; with `{q: 2}` the next tile is copied
    ahead where results have no bytes of their own then, and leave through the tile."""


class WorkgroupSchedule(SpecModel):
    """The order in which tiles of the result are computed."""

    group: Annotated[int, Field(ge=1, le=64)] | None = None
    """Workgroups along axis 0 that run together with their neighbours along axis 1, at each place of further axes;
    1: a row of tiles after the other; absent: the machine's choice in grids of these two axes."""
    chiplets: bool | None = None
    """Whether each chiplet gets neighbours, where the machine hands workgroups out to chiplets in turns; absent: where
    tiles come in such groups."""
    cluster: Annotated[int, Field(ge=1, le=16)] = 1
    """Neighbours along axis 0 that run at the same time and copy what they share once, each a part, for all of them."""
    split: Annotated[int, Field(ge=1, le=16)] = 1
    """Workgroups that share out the steps of the loop over a tile, or of all loops over a dim, and join what they have
    found through each other's shared memory. For grids with fewer tiles than the machine has processors, and rows that
    one processor cannot hold."""
    last_round: Annotated[int, Field(ge=1, le=16)] = 1
    """Workgroups, at most so many, that share out the steps of the loop over each tile of the last round, where the
    machine has processors for several of each; they join their sums through memory of the call. 1: each tile has
    one."""
    persistent: bool = False
    """One workgroup per processor, or `resident` of them, walk over the tiles, so that copies for the next tile run
    under this one's end; without producers and matrix units, they load its inputs ahead, to registers or, where these
    do not suffice, to shared memory."""
    count: Annotated[int, Field(ge=1, le=2**20)] | None = None
    """How many workgroups walk over the tiles, with `persistent`; absent: one per processor of the machine, or
    `resident` of them."""
    resident: Annotated[int, Field(ge=1, le=32)] = 1
    """Workgroups that a processor has room for at once, so that some load while others compute: lanes have as many
    registers as that leaves. 1: as many as it happens to."""
    registers: Annotated[int, Field(ge=0, le=512)] = Field(default=0, exclude_if=lambda value: not value)
    """Of a lane, in place of `resident`: a processor has room for as many workgroups as lanes with so many leave. One
    number for tiles of several sizes. 0: as `resident` says."""
    fitted: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether a launch has as many waves as the dim has elements for that they share out, whose tile is the most: one
    kernel then has the speed of many tiles. Takes loops of one step, and `registers` in place of `resident`."""


class LoopSchedule(SpecModel):
    """How the steps of one loop overlap. A node is a name of the loop's body; of a tile staged through shared memory,
    `x.load` is its way out of the tensor, `x.store` its way into shared memory and `x` its way into registers."""

    stages: Annotated[int, Field(ge=1, le=32)] | None = None
    """Steps in flight at once, as in the schedule."""
    auto: Literal["prefetch", "modulo"] | None = None
    """Who decides, as in the schedule."""
    nodes: Annotated[dict[Reference, Annotated[int, Field(ge=0, le=31)]], Field(max_length=256)] = Field(
        default_factory=dict
    )
    """The stage of each node: 0 runs furthest ahead. A node that is left out is in the last stage."""
    clusters: Annotated[tuple[tuple[Reference, ...], ...], Field(max_length=256)] = ()
    """Groups of nodes, in the order in which one round of the loop runs them; nodes left out come last."""
    buffers: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies of every staged tile; absent: as few as the stages allow."""
    unroll: Annotated[int, Field(ge=1, le=8)] | None = None
    """Steps written out in one round of the loop; absent: as many as have buffers of their own, where that saves
    arithmetic, else one."""


_Neighbours = Annotated[int, Field(ge=2, le=64)]


class Schedule(SpecModel):
    """How steps of a loop overlap in time. Never changes a result."""

    stages: Annotated[int, Field(ge=1, le=32)] = 1
    """Buffers of shared memory in flight: 1 loads and computes in turn, 2 loads the next tile meanwhile."""
    auto: Literal["prefetch", "modulo"] | None = None
    """`prefetch`: loads run ahead of the computation. `modulo`: every operation has its place in a pattern that
    repeats, as tight as the machine's units allow."""
    loops: Annotated[dict[Name, LoopSchedule], Field(max_length=64)] = Field(default_factory=dict)
    """What differs for the loops named here."""
    waves: WaveSchedule | None = None
    """Roles of the waves of a workgroup."""
    workgroups: WorkgroupSchedule | None = None
    """The order in which tiles of the result are computed."""
    materialize: Annotated[dict[Name, tuple[DimName, ...]], Field(max_length=16)] = Field(
        default_factory=dict[Name, tuple[DimName, ...]], exclude_if=lambda value: not value
    )
    """Inputs, and values of the graph, that kernels of their own write to memory of the call before this one starts,
    each with its dims in this order: `{a_tile: [M, K]}`. For a case. An operand that a product scales is written times
    its scales, an input with another order of its dims is the same input laid out anew, and of a reduction that a loop
    carries it is what the loop ends with. So it is of a product that a loop carries alone, which has the tiles and the
    schedule then; each wave of the kernel that goes on from it has a row. The output is written so to memory of the
    call, and to where it belongs by a kernel behind this one. In place of a dim of an input there may be one that
    `equals: ceildiv(C, 8) * 8` makes of it: behind the last element there are zeros."""
    parts: Annotated[dict[DimName, Annotated[int, Field(ge=2, le=1024)]], Field(max_length=1)] = Field(
        default_factory=dict[DimName, int], exclude_if=lambda value: not value
    )
    """Parts of a dim that a kernel before this one reduces, each by workgroups of its own, to memory of the call:
    `{N: 128}`; this one joins what they have found. For a case of few results of very many elements, which the
    workgroups of a `split` are too few for. The loop carries reductions, or products and sums relative to extremes that
    it carries as well, as attention does."""
    pack: Annotated[dict[DimName, tuple[DimName, DimName | _Neighbours]], Field(max_length=1)] = Field(
        default_factory=dict[DimName, tuple[DimName, DimName | int]], exclude_if=lambda value: not value
    )
    """Rows of tiles: `{M: [H, G]}` are the elements of M for all the H // G neighbours along H that share what is read
    along G, which is so read once for them. For a case of few elements of M. `{M: [H, 4]}` are those for four
    neighbours along H, as many of each in a wave, in the order of M: for tiles that end where values say. Of a
    spec without M `{H: [H, G]}` are the neighbours themselves, and what lanes would multiply and add up for each of
    them is a product of matrices."""
    shift: Annotated[dict[DimName, Annotated[int, Field(ge=8, le=512)]], Field(max_length=1)] = Field(
        default_factory=dict[DimName, int], exclude_if=lambda value: not value
    )
    """Rows of a product that are the pixels of images, line by line, `{M: 64}`: with room beside the pixels of a line
    and below the lines of an image, all taps of a window are rows further down, so that a pixel is staged once for
    them; what is summed goes over the taps of 64 channels at a time. For a case of windows that move by one, and of
    lines that are not too long for shared memory, `W <= 120`, whose channels such parts divide, `C % 64 == 0`."""


class TensorOverride(SpecModel):
    """What differs for a tensor on one target."""

    space: Space
    """Where its tiles are staged, or that stores pass the caches by."""


class Override(SpecModel):
    """What replaces parts of a kernel on one target, or for some sizes."""

    params: Annotated[dict[Name, SpecExpression], Field(max_length=64)] = Field(default_factory=dict)
    """Parameters with another value."""
    hardware: HardwareSettings | None = None
    """Settings that replace those of the `hardware` constraint."""
    tensors: Annotated[dict[Name, TensorOverride], Field(max_length=64)] = Field(default_factory=dict)
    """Tensors that are staged elsewhere."""
    constraints: Annotated[tuple[AnyConstraint, ...], Field(max_length=64)] | None = None
    """All constraints, in place of the kernel's."""
    schedule: Schedule | None = None
    """The schedule, in place of the kernel's."""

    @property
    def is_read(self) -> bool:
        """Whether the constraints are there that were written: those of the kernel are not meant in their place."""
        return self.constraints is not None or ("constraints",) not in self.positions


class Conditional(SpecModel):
    """What holds for the calls of some sizes only."""

    when: Annotated[tuple[SpecExpression, ...], Field(min_length=1, max_length=64)]
    """Conditions on the sizes of a call, written as in `assume`, all of which have to hold: `K % 8 == 0`. One about
    parameters alone, `STRIDE == 1`, says for which kernels this is: others have no such case."""


class Case(Override, Conditional):
    """What differs for some sizes, over what the target says. The compiler relies on the conditions."""

    variants: Annotated[tuple[Name, ...], Field(max_length=32)] = Field(
        default_factory=tuple[Name, ...], exclude_if=lambda value: not value
    )
    """Variants of the target that have this case, `[x86_64_v4_bf16]`; absent: all. Others take the next that fits, as
    kernels do whose inputs, as they are multiplied, have no type that the `mma` named by such a case takes."""
    each: Annotated[dict[Name, Annotated[tuple[int, ...], Field(min_length=1, max_length=64)]], Field(max_length=1)] = (
        Field(default_factory=dict[Name, "tuple[int, ...]"], exclude_if=lambda value: not value)
    )
    """Numbers of a parameter, for each of which there is a case like this one, in this order:
    `{when: [N <= COLUMNS], each: {COLUMNS: [2048, 3072, 4096]}}` gives rows the smallest tile that they fit."""

    least: Annotated[SpecExpression | None, Field(exclude_if=lambda value: value is None)] = None
    """What a call takes by this case, a number of sizes and parameters, `ceildiv(tiles, 132) * 350`: of neighbouring
    cases that have one, and whose conditions hold, the one with the least is taken, the first of several."""

    @property
    def all_asked(self) -> tuple[Expression, ...]:
        """All that is computed of a call to choose the case, or not."""
        return self.when if self.least is None else (*self.when, self.least)

    def one_for_each(self) -> Iterator[Case]:
        """The cases that this one stands for."""
        if not self.each:
            yield self
        for name, numbers in self.each.items():
            for number in numbers:
                yield self.model_copy(update={"params": {**self.params, name: Num(value=number)}, "each": {}})


def _one_for_each(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    return tuple(one for case in cases for one in case.one_for_each())


class TargetOverride(Override):
    """What differs on one target, and nothing else. It never changes a result."""

    cases: Annotated[tuple[Case, ...], Field(max_length=64), AfterValidator(_one_for_each)] = ()
    """Other settings for some sizes; the first case whose conditions all hold for a call is taken."""


class KernelSpec(SpecModel):
    """A kernel: what it computes, how the work is split, and what differs per machine."""

    apiVersion: Literal["wavespec/v1"]
    """The version of the language."""
    kind: Literal["Kernel"]
    """What the file describes."""
    name: Name
    """The name of the kernel and of its Python function."""
    doc: Doc = ""
    """What the kernel computes, in one formula."""
    dims: Annotated[dict[DimName, Dim], Field(min_length=1, max_length=64)]
    """Sizes of the tensors: symbols bound when the kernel is called. An expression of a shape, `K // 2`, is there for
    what it promises alone, `K // 2: {multiple_of: 2}`."""
    params: Annotated[dict[Name, SpecExpression], Field(max_length=64)] = Field(default_factory=dict)
    """Compile-time symbols: the tuning knobs. Integers, or expressions of other parameters."""
    tensors: Annotated[dict[Name, Tensor], Field(min_length=1, max_length=64)]
    """Arguments and results, in the order of the call."""
    scalars: Annotated[dict[Name, Scalar], Field(max_length=64)] = Field(default_factory=dict)
    """Numbers that a call passes by name, behind its tensors."""
    constraints: Annotated[tuple[AnyConstraint, ...], Field(max_length=64)] = ()
    """How the work is split, apart from what is computed."""
    graph: Annotated[tuple[AnyOp, ...], Field(min_length=1, max_length=2000)]
    """The computation: ops on whole tensors, in order."""
    schedule: Schedule | None = None
    """How steps of a loop overlap in time."""
    targets: Annotated[dict[TargetName, TargetOverride], Field(max_length=16)] = Field(
        default_factory=dict[TargetName, TargetOverride]
    )
    """What differs per machine."""
    only: Annotated[tuple[TargetName, ...], Field(min_length=1, max_length=16)] | None = None
    """The targets that the kernel is for, where others lack its types; absent: all of them."""
    workloads: Annotated[tuple[dict[Name, Extent], ...], Field(max_length=256)] = ()
    """Sizes of the dims for `check` and `bench`."""

    _has_own_schedule: bool | None = PrivateAttr(default=None)
    _is_planned: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _add_sizes_of_shapes(self) -> Self:
        """Have a dim for each expression in a shape. It is the spec's own `dims` that gets them: those of a caller were
        copied."""
        for text in (dim for tensor in self.tensors.values() for dim in tensor.shape if is_expression(dim)):
            promised = self.dims.get(text, Dim())
            if promised.equals is None:
                self.dims[text] = promised.model_copy(update={"equals": expression_of_dim(text)})
        return self

    @property
    def numbers(self) -> dict[str, Dim]:
        """What conditions may name beside dims and parameters: strides and alignments of tensors, and whole scalars;
        with what each may be, as for a dim."""
        limits = {name: scalar.limits for name, scalar in self.scalars.items() if not scalar.is_float}
        # Unlike sizes they may be negative, which the form of a dim refuses.
        whole = {name: Dim.model_construct(min=least, max=most) for name, (least, most) in limits.items()}
        return numbers_of(self.tensors, self._not_strides) | whole

    @property
    def named_strides(self) -> dict[str, tuple[str, str]]:
        """The names of strides, each with a tensor and its dim that has this stride."""
        return named_strides(self.tensors, self._not_strides)

    @property
    def _not_strides(self) -> Collection[str]:
        return {*self.dims, *self.params, *self.scalars}

    @property
    def has_own_schedule(self) -> bool | None:
        """Whether the schedule of a plain spec was written for its target or case alone; `None` for a whole spec."""
        return self._has_own_schedule

    def with_own_schedule(self, is_own: bool) -> KernelSpec:
        """The spec as a plain one."""
        plain = self.model_copy()
        plain._has_own_schedule = is_own
        return plain

    @property
    def is_planned(self) -> bool:
        """Whether the compiler chose the tiles, as the spec names none."""
        return self._is_planned

    def as_planned(self) -> KernelSpec:
        """The spec as one with tiles of the compiler."""
        plan = self.model_copy()
        plan._is_planned = True
        return plan

    def in_words(self, *path: str | int) -> str:
        return ".".join([self.name, *map(str, path)])

    def __eq__(self, other: object) -> bool:
        # The order of the tensors is the order of the call; that of dims and parameters means nothing.
        return super().__eq__(other) and isinstance(other, KernelSpec) and list(self.tensors) == list(other.tensors)
