"""Dim sizes of a call go in; what a launcher needs for every call of these sizes comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import prod
from typing import Final

from wavespec.ir.strided import LARGEST_SIZE, offset_of, span_elements, stride_of
from wavespec.runtime.artifact import DTYPE_BYTES, KernelArtifact, TensorParameter
from wavespec.runtime.size_expr import evaluate, evaluate_all

_SOME_WORK: Final = 16
"""Of a place of all dims, where nobody counted."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything about a launch that follows from the sizes of the dims, and from offsets and strides of tensors that
    may have any."""

    sizes: dict[str, int]
    constants: tuple[int, ...]
    """Push constants: the dynamic dims, each below 2**31 (`strided.LARGEST_SIZE`), then both halves of what says where
    elements of strided tensors are, as signed numbers of 32 bits, then the words of scalars."""
    shapes: tuple[tuple[int, ...], ...]
    """Of all tensors: inputs, then outputs."""
    grid: tuple[int, int, int]
    workgroups: int
    """Product of `grid`; 0 means that there is nothing to launch."""
    work: int
    """`KernelArtifact.work`; of one without, the product of all dims, a few times."""
    scratch_bytes: tuple[int, ...]
    member: int = 0
    """Index in `KernelArtifact.members` of the kernel that is for these sizes."""
    starts: tuple[int, ...] = ()
    """Bytes of all tensors between the address that the kernel gets and the first element; nothing where all are 0 in
    any call."""
    strides: tuple[tuple[int, ...], ...] = ()
    """Of all tensors, in elements, nothing for one that is contiguous; nothing where all are."""
    steps: tuple[LaunchPlan, ...] = ()
    """Of the steps of a kernel that has some."""
    workgroup_size: tuple[int, int, int] = (1, 1, 1)
    """Threads of a workgroup along x, y, z."""
    shared_memory_bytes: int = 0
    """Of one workgroup."""

    def tensor_bytes(self, tensors: Sequence[TensorParameter]) -> tuple[int, ...]:
        """From the first element of each tensor up to the last one in memory."""
        spans = (
            span_elements(shape, strides) if strides else prod(shape)
            for shape, strides in zip(self.shapes, self.strides or repeat(()), strict=False)
        )
        # Packed elements are bytes here, as they are for torch.
        return tuple(span * DTYPE_BYTES.get(one.dtype, 1) for span, one in zip(spans, tensors, strict=True))

    def with_words(self, words: tuple[int, ...]) -> LaunchPlan:
        """The plan of a call with these words of scalars, of one that has none yet."""
        steps = tuple(step.with_words(words) for step in self.steps)
        return replace(self, constants=self.constants + words, steps=steps)


def make_plan(artifact: KernelArtifact, sizes: Mapping[str, int]) -> LaunchPlan:
    """The plan of a call whose dims, and scalars that shape it, have `sizes`, which were checked by `check_inputs`;
    it lacks the words of scalars."""
    member = artifact.member_for(sizes)
    taken = artifact.members[member]
    own = dict(sizes) if taken is artifact else _sizes_in(taken, sizes)
    own_of_steps = [(step, _sizes_in(step, own)) for step in taken.steps]
    if (own != sizes and not _is_for(taken, own)) or not all(_is_for(*step) for step in own_of_steps):
        member, taken, own, own_of_steps = len(artifact.cases), artifact, dict(sizes), []
    return replace(_plan(taken, own), member=member, steps=tuple(_plan(*step) for step in own_of_steps))


def _plan(taken: KernelArtifact, sizes: Mapping[str, int]) -> LaunchPlan:
    strided = [(tensor, tensor.is_strided) for tensor in taken.tensors] if taken.numbers else []
    wanted = (*taken.grid, *taken.workgroup_size, taken.unlaunched_bytes, taken.work, *taken.scratch_bytes)
    x, y, z, threads_x, threads_y, threads_z, unlaunched, work, *scratch_bytes = evaluate_all(wanted, sizes)
    return LaunchPlan(
        sizes=dict(sizes),
        constants=(
            *(sizes[name] for name in taken.dynamic_dims),
            *(half for name in taken.numbers for half in _halves(sizes[name])),
        ),
        shapes=tuple(parameter.shape(sizes) for parameter in taken.tensors),
        grid=(x, y, z),
        workgroup_size=(threads_x, threads_y, threads_z),
        shared_memory_bytes=taken.shared_memory_bytes - unlaunched,
        workgroups=x * y * z,
        work=work or _SOME_WORK * prod(sizes[dim.name] for dim in taken.dims),
        scratch_bytes=tuple(scratch_bytes),
        starts=tuple(sizes[offset_of(t.name)] * DTYPE_BYTES[t.dtype] if is_one else 0 for t, is_one in strided),
        strides=tuple(_strides(tensor, sizes) if is_one else () for tensor, is_one in strided),
    )


def _sizes_in(taken: KernelArtifact, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with those dims that the kernel of a case makes of others in a way of its own, such as room beside the
    rows of an image, or has as numbers."""
    known = {**sizes, **{dim.name: dim.size for dim in taken.dims if dim.size is not None}}
    for name, equals in taken.following().items():
        known[name] = evaluate(equals, known)
    return known


def _is_for(taken: KernelArtifact, sizes: Mapping[str, int]) -> bool:
    """Whether a case's own sizes, or those of a step of it, are such as its kernel relies on."""
    multiples = all(sizes[dim.name] % dim.multiple_of == 0 for dim in taken.dims if dim.equals is not None)
    fit = all(sizes[name] <= LARGEST_SIZE for name in taken.dynamic_dims)
    return fit and multiples and all(one.holds(sizes) for one in taken.assumptions)


def _strides(tensor: TensorParameter, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return (*(sizes[stride_of(tensor.name, dim)] for dim in tensor.dim_names[:-1]), 1)[: len(tensor.dims)]


def _halves(number: int) -> tuple[int, int]:
    """Two signed numbers of 32 bits, the lower one first."""
    low = number & 0xFFFFFFFF
    return low - ((low & 0x80000000) << 1), number >> 32
