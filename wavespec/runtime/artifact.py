"""A compiled kernel with everything a launch needs to know: tensors, dims, grid, memory, binaries, cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import (
    alignment_of,
    contiguous_strides,
    names_of_tensor,
    numbers_of_tensor,
    with_dense_strides,
)
from wavespec.runtime.code import Binary
from wavespec.runtime.first_case import FirstCase
from wavespec.runtime.scalars import SCALAR_WORDS, ScalarParameter, words_of
from wavespec.runtime.size_expr import SizeExpr, evaluate, names_in

Backend = Literal["cpu", "cuda", "hip"]
Strides = Literal["", "any", "contiguous"]
"""Which tensors a call takes: others are copied first, where they are only read; any whose last dim is dense; or only
contiguous ones."""

DTYPE_BYTES: Final = {name: dtype.bytes for name, dtype in DTYPES.items() if not dtype.is_packed}
"""The element types that a tensor argument may have, with the bytes of one element in memory."""

PACKED: Final = {name: dtype.packed for name, dtype in DTYPES.items() if dtype.is_packed}
"""The others, whose elements share bytes along the last dim, the first one in the lowest bits: as few as fill whole
bytes, and these bytes, which torch takes for the elements."""

TENSOR_MAP_BYTES: Final = 128
"""Bytes of a tensor map as an argument."""


def stored_shape(dtype: str, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The shape for torch of a tensor with so many elements along its dims."""
    if dtype not in PACKED:
        return extents
    elements, bytes_ = PACKED[dtype]
    return (*extents[:-1], extents[-1] // elements * bytes_)


@dataclass(frozen=True, slots=True)
class Dim:
    """One symbolic size of a kernel: `size` is set where it is compiled in, `equals` where it follows from others, else
    the call decides."""

    name: str
    multiple_of: int = 1
    size: int | None = None
    equals: SizeExpr | None = None
    leading: bool = False
    """Whether it is the first dim of every tensor that has it, where a call may have any number of dims in its place:
    then it is the product of their sizes."""


@dataclass(frozen=True, slots=True)
class TensorParameter:
    """One tensor argument, `dims` outermost first (a dim name or a literal size); row-major, unless it may
    have any strides."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    output: bool = False
    updated: bool = False
    """Whether it is an input that the kernel changes in place."""
    zeroed: bool = False
    """Whether it is an output that starts as zeros, because not every element is written in every call."""
    strides: Strides = ""
    promised: tuple[SizeExpr, ...] = ()
    """Of one that may have any strides, where the spec says of each what it has to be: numbers, sizes, expressions of
    sizes; or names that the call binds."""

    @property
    def is_strided(self) -> bool:
        """Whether the kernel is passed where its elements are."""
        return self.strides == "any"

    @property
    def dim_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.dims))

    @property
    def written(self) -> bool:
        return self.output or self.updated

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its extents for torch where the dims have these ``sizes``."""
        return stored_shape(self.dtype, tuple(dim if isinstance(dim, int) else sizes[dim] for dim in self.dims))

    def dense_strides(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its strides as they are promised, else those of a contiguous one; ``sizes`` have the names of strides."""
        if self.promised:
            return tuple(evaluate(stride, sizes) for stride in self.promised)
        return contiguous_strides(self.shape(sizes))

    def leading(self, shape: Sequence[int]) -> tuple[int, ...]:
        """What a ``shape`` with any number of dims in place of the first one has there."""
        return tuple(shape[: len(shape) - len(self.dims) + 1])

    def extents(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The sizes of its dims, in elements, where torch has this ``shape``."""
        if self.dtype not in PACKED:
            return tuple(shape)
        elements, bytes_ = PACKED[self.dtype]
        return (*shape[:-1], shape[-1] // bytes_ * elements)


def with_dense_names(tensors: Sequence[TensorParameter], sizes: Mapping[str, int]) -> dict[str, int]:
    """The ``sizes`` of dims, with names of strides; those that are not among them have rows behind each other."""
    shapes = [(one.shape(sizes), one.promised) for one in tensors if one.promised]
    return with_dense_strides(shapes, sizes, lambda one: one if isinstance(one, str) else None, evaluate)


@dataclass(frozen=True, slots=True)
class Assumption:
    """What the compiler relied on, a promise of the spec or a limit of the target: `condition` has to be nonzero."""

    text: str
    condition: SizeExpr
    of_machine: bool = False
    """Whether it is the machine that cannot do more: calls beyond it are left to later cases, where there are some."""

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it does for these sizes; `K % M == 0` says nothing about an empty M, `K / 2 > 4` nothing about an odd
        K."""
        try:
            return bool(evaluate(self.condition, sizes))
        except ArithmeticError:
            return False


@dataclass(frozen=True, slots=True)
class Window:
    """Windows along a dim: the `first` one's start, the `step` to the next, and the `count` of them."""

    first: int
    step: int
    count: SizeExpr


ENDED_DIMS: Final = 2
"""Dims that a map has in front of those of the tensor where copies say how many rows there are."""
ENDED_ROWS: Final = 2**30


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How bulk copies of the machine see a tensor: in boxes, swizzled in rows of some bytes (0 = not)."""

    tensor: str
    box: tuple[int, ...]
    """Elements along each dim of the view, outermost first."""
    swizzle_bytes: int = 0
    view: tuple[SizeExpr, ...] = ()
    """Sizes of dims that count over those of the tensor; nothing for these themselves."""
    windows: tuple[Window, ...] = ()
    """Where windows move over the dims between the first and the last, of which a box has so many rows."""
    rounded: str = ""
    """The type of fewer bits that f32 is rounded to."""
    ended: int | None = None
    """The dim along which each copy says how many rows of its box there are, the others being zeros.

    The hardware leaves out what lies beyond the end of a dim, so rows have an end of their own: `ENDED_ROWS` of them,
    the last of which is the last one of the box.  Two dims in front bring the box to its place: place ``(ENDED_ROWS,
    end, ..., ENDED_ROWS - rows, ...)`` is that of the first of so many rows in front of row ``end`` of the tensor."""
    row_step: int = 1
    """A box has every so many-th of its rows in the tensor, along the largest dim but the last: first those from the
    first on, then those from the second on, and so on.  Rows are two dims of the map, so it divides their number."""

    def fits(self, rank: int) -> bool:
        """Whether it can be of a tensor of so many dims."""
        if self.windows:
            return len(self.box) == 2 and len(self.windows) == rank - 2 and self.ended is None
        return len(self.box) == (len(self.view) or rank) and (self.ended or 0) < max(1, len(self.box) - 1)


@dataclass(frozen=True, slots=True)
class KernelArtifact:
    """A kernel compiled for one target.

    Arguments are bound in this order: `tensors` (inputs, then outputs), one scratch buffer per entry of
    `scratch_bytes`, `tensor_maps`, then every dim without a compiled-in size as one 32-bit integer, in the order of
    `dims`, every one of `numbers` as two, the lower half first, and the words of every scalar, in the order of
    `scalars`.
    `binaries` are ordered best first; the first whose `requires` the machine meets is used.

    Its own launch data is for all sizes; `cases` are the same kernel compiled for some, and come first.  A kernel of
    several `steps` has no code of its own: a call runs these one after another, each of which reads what those before
    it wrote.  Tensors of theirs that are none of `tensors` are memory of the call.
    """

    name: str
    target: str
    backend: Backend
    architecture: str
    """`x86_64`, `sm_90a`, `gfx942`: what the launcher compares with the device; `x86_64+aarch64` has code for both."""
    entry_point: str
    tensors: tuple[TensorParameter, ...]
    dims: tuple[Dim, ...]
    grid: tuple[SizeExpr, SizeExpr, SizeExpr]
    """Workgroups along x, y, z."""
    workgroup_size: tuple[SizeExpr, SizeExpr, SizeExpr]
    """Threads of a workgroup along x, y, z."""
    binaries: tuple[Binary, ...]
    shared_memory_bytes: int = 0
    """Dynamic shared memory of one workgroup, to be asked for at the launch."""
    unlaunched_bytes: SizeExpr = 0
    """Of these, what a launch does without that has fewer waves than the code is for."""
    scratch_bytes: tuple[SizeExpr, ...] = ()
    """Of memory that no two launches have at the same time; on NVIDIA GPUs it is zeros, as a launch leaves it."""
    unset_scratch: int = 0
    """How many of them, the last ones, hold anything when a launch starts, and at its end."""
    waits: bool = False
    """Whether its code waits for the launch in front of it, so that it may be launched before that one ends."""
    tensor_maps: tuple[TensorMap, ...] = ()
    """Passed by value, 128 bytes each."""
    assumptions: tuple[Assumption, ...] = ()
    spec_sha256: str = ""
    compiler: str = ""
    """Name and version of what made the machine code."""
    cases: tuple[ArtifactCase, ...] = ()
    scalars: tuple[ScalarParameter, ...] = ()
    steps: tuple[KernelArtifact, ...] = ()
    work: SizeExpr = 0
    """Of a kernel for a CPU, the instructions of a call, were each for one element; 0 where nobody counted them."""
    _first_case: FirstCase = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_first_case", FirstCase([[a.condition for a in one.conditions] for one in self.cases])
        )
        dims = [dim.name for dim in self.dims]
        numbers = {*dims, *(scalar.name for scalar in self.scalars if scalar.shapes)}
        kernels = [case.kernel for case in self.cases]
        sizes = [dim for one in kernels for dim in one.dims]
        order = [tensor.output for tensor in self.tensors]
        inputs = {name for tensor in self.inputs for name in tensor.dims}
        ranks = {tensor.name: len(tensor.dims) for tensor in self.tensors}
        checks = (
            (len(set(dims)) == len(dims), f"dim names repeat: {dims}"),
            (order == sorted(order), "inputs have to come before outputs"),
            (
                False in order and any(tensor.written for tensor in self.tensors),
                "a kernel needs an input and an output, or an input that it changes",
            ),
            (not any(tensor.output and tensor.updated for tensor in self.tensors), "an output holds nothing to change"),
            (
                all(d.size is not None or d.equals is not None or d.name in inputs for d in self.dims),
                "a dynamic dim is in no input",
            ),
            (all(s.dtype in SCALAR_WORDS for s in self.scalars), "a scalar has an unknown dtype"),
            (
                all(n in dims for t in self.tensors for n in t.dims if isinstance(n, str)),
                "a tensor has an undeclared dim",
            ),
            (self._expression_names() <= {*numbers, *self._known_numbers()}, "an expression has an undeclared dim"),
            (not any(t.is_strided and t.dtype in PACKED for t in self.tensors), "packed elements have strides"),
            (
                all(not t.promised or (t.is_strided and len(t.promised) == len(t.dims)) for t in self.tensors),
                "a tensor has other strides than dims",
            ),
            (all(t.dtype in DTYPE_BYTES or t.dtype in PACKED for t in self.tensors), "a tensor has an unknown dtype"),
            (len({b.label for b in self.binaries}) == len(self.binaries), "labels of binaries repeat"),
            (
                all((k.name, k.tensors, k.scalars) == (self.name, self.tensors, self.scalars) for k in kernels),
                "a case is of another kernel",
            ),
            (
                all(d.name in dims or d.equals is not None or d.size is not None for d in sizes),
                "a case has a dim of its own",
            ),
            (
                not any(dim in self.leading_dims for tensor in self.tensors for dim in tensor.dims[1:]),
                "a dim that stands for leading ones is not the first of a tensor",
            ),
            (self.following().keys() == self._derived().keys(), "a dim follows from itself"),
            (all(t.dims for t in self.tensors if t.dtype in PACKED), "a tensor of packed elements has no dims"),
            (
                all(m.swizzle_bytes in (0, 32, 64, 128) and m.fits(ranks.get(m.tensor, 0)) for m in self.tensor_maps),
                "a tensor map is of no tensor",
            ),
            (not any(case.kernel.cases for case in self.cases), "a case has cases"),
            (not any(step.cases or step.steps for step in self.steps), "a step is no kernel by itself"),
            (not (self.steps and self.binaries), "a kernel of several steps has code of its own"),
            (self._steps_follow(), "a step reads what none before it wrote, or none writes an output"),
        )
        for holds, problem in checks:
            if not holds:
                raise ValueError(f"Kernel {self.name!r} for {self.target!r}: {problem}.")

    @property
    def inputs(self) -> tuple[TensorParameter, ...]:
        return tuple(tensor for tensor in self.tensors if not tensor.output)

    @property
    def outputs(self) -> tuple[TensorParameter, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.output)

    @property
    def updated(self) -> tuple[TensorParameter, ...]:
        """The inputs that are changed in place."""
        return tuple(tensor for tensor in self.tensors if tensor.updated)

    @property
    def leading_dims(self) -> frozenset[str]:
        """The dims in whose place a call may have any number of dims."""
        return frozenset(dim.name for dim in self.dims if dim.leading)

    @property
    def dynamic_dims(self) -> tuple[str, ...]:
        """Names of those push constants that are sizes, in order."""
        return tuple(dim.name for dim in self.dims if dim.size is None)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Offsets and strides of tensors, in the order in which they are passed."""
        strided = (tensor for tensor in self.tensors if tensor.is_strided)
        return tuple(name for tensor in strided for name in names_of_tensor(tensor.name, tensor.dim_names))

    @property
    def stride_names(self) -> tuple[str, ...]:
        """The names that a call binds to strides."""
        others = {*(dim.name for dim in self.dims), *(scalar.name for scalar in self.scalars)}
        names = (one for tensor in self.tensors for one in tensor.promised if isinstance(one, str))
        return tuple(dict.fromkeys(name for name in names if name not in others))

    def dense(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What conditions name beside ``sizes``: offsets, strides and alignments, and names of strides that ``sizes``
        lack; all of tensors that start where memory does, and whose rows lie behind each other.

        Errors: `ArithmeticError` where a promised stride has no value.
        """
        named, found = with_dense_names(self.tensors, sizes), dict[str, int]()
        for tensor in self.tensors:
            if tensor.is_strided:
                shape, bytes_ = tensor.shape(sizes), DTYPES[tensor.dtype].bytes
                strides, are_promised = tensor.dense_strides(named), bool(tensor.promised)
                found |= numbers_of_tensor(
                    tensor.name, tensor.dim_names, shape, strides, 0, bytes_, are_promised=are_promised
                )
        return found | {name: named[name] for name in self.stride_names}

    @property
    def constant_count(self) -> int:
        """The 32-bit integers of a launch."""
        words = sum(words_of(scalar.dtype) for scalar in self.scalars)
        return len(self.dynamic_dims) + 2 * len(self.numbers) + words

    @property
    def parts(self) -> tuple[KernelArtifact, ...]:
        """What has code, of this case alone: its steps, or the kernel itself."""
        return self.steps or (self,)

    def with_parts(self, parts: Sequence[KernelArtifact]) -> KernelArtifact:
        """The same with others in place of `parts`."""
        return replace(self, steps=tuple(parts)) if self.steps else parts[0]

    def _steps_follow(self) -> bool:
        known = {tensor.name for tensor in self.inputs}
        for step in self.steps:
            if not known.issuperset(tensor.name for tensor in step.inputs):
                return False
            known |= {tensor.name for tensor in step.outputs}
        written = [tensor for step in self.steps for tensor in step.outputs]
        return not self.steps or all(tensor in written for tensor in self.outputs)

    @property
    def members(self) -> tuple[KernelArtifact, ...]:
        """The kernels of all cases in order, and this one, which is for all sizes."""
        return (*(case.kernel for case in self.cases), self)

    def member_for(self, sizes: Mapping[str, int]) -> int:
        """Index in `members` of the kernel for a call whose dims have `sizes`."""
        return self._first_case(sizes)

    def following(self) -> dict[str, SizeExpr]:
        """The dims that follow from others, each behind those, and what they are; without any that follow from
        themselves."""
        left = self._derived()
        found: dict[str, SizeExpr] = {}
        while ready := [name for name, equals in left.items() if left.keys().isdisjoint(names_in(equals))]:
            found |= {name: left.pop(name) for name in ready}
        return found

    def _derived(self) -> dict[str, SizeExpr]:
        return {dim.name: dim.equals for dim in self.dims if dim.equals is not None and dim.size is None}

    def _known_numbers(self) -> set[str]:
        """What conditions may name beside dims."""
        return {
            *self.numbers,
            *self.stride_names,
            *(alignment_of(tensor.name) for tensor in self.tensors if tensor.is_strided),
        }

    def _expression_names(self) -> frozenset[str]:
        conditions = (a for case in self.cases for a in case.conditions)
        equals = (dim.equals for dim in self.dims if dim.equals is not None)
        expressions = (
            *equals,
            *(stride for tensor in self.tensors for stride in tensor.promised),
            *self.grid,
            *self.workgroup_size,
            self.unlaunched_bytes,
            *self.scratch_bytes,
            self.work,
            *(size for one in self.tensor_maps for size in (*one.view, *(window.count for window in one.windows))),
            *(a.condition for a in (*self.assumptions, *conditions)),
        )
        return names_in(*expressions)


@dataclass(frozen=True, slots=True)
class ArtifactCase:
    """A kernel compiled for the sizes that meet all `conditions`.

    Its `dims` have more sizes compiled in, or larger multiples, than a call has to promise.
    """

    conditions: tuple[Assumption, ...]
    kernel: KernelArtifact
