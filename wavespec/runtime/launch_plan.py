"""Dim sizes of a call go in; what a launcher needs for every call of these sizes comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.size_expr import evaluate


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything about a launch that follows from the sizes of the dims alone."""

    sizes: dict[str, int]
    constants: tuple[int, ...]
    """Push constants: the dynamic dims, each below 2**31 (`checks.LARGEST_SIZE`), then the words of scalars."""
    shapes: tuple[tuple[int, ...], ...]
    """Of all tensors: inputs, then outputs."""
    grid: tuple[int, int, int]
    workgroups: int
    """Product of `grid`; 0 means that there is nothing to launch."""
    scratch_bytes: tuple[int, ...]
    member: int = 0
    """Index in `KernelArtifact.members` of the kernel that is for these sizes."""

    def with_words(self, words: tuple[int, ...]) -> LaunchPlan:
        """The plan of a call with these words of scalars, of one that has none yet."""
        return replace(self, constants=self.constants + words)


def make_plan(artifact: KernelArtifact, sizes: Mapping[str, int]) -> LaunchPlan:
    """The plan of a call whose dims, and scalars that shape it, have `sizes`, which were checked by `check_inputs`;
    it lacks the words of scalars."""
    member = artifact.member_for(sizes)
    taken = artifact.members[member]
    x, y, z = (evaluate(expression, sizes) for expression in taken.grid)
    return LaunchPlan(
        sizes=dict(sizes),
        constants=tuple(sizes[name] for name in taken.dynamic_dims),
        shapes=tuple(parameter.shape(sizes) for parameter in artifact.tensors),
        grid=(x, y, z),
        workgroups=x * y * z,
        scratch_bytes=tuple(evaluate(expression, sizes) for expression in taken.scratch_bytes),
        member=member,
    )
