"""The models of a kernel spec: what a `.wave.yaml` file says, as frozen typed Python."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from wavespec.schema.base import SpecModel
from wavespec.schema.constraints import AnyConstraint, HardwareSettings
from wavespec.schema.dtypes import DType
from wavespec.schema.expressions import Expression
from wavespec.schema.names import Name
from wavespec.schema.ops import AnyOp

API_VERSION = "wavespec/v1"

Space = Literal["global", "shared"]
TargetName = Literal["cpu", "sm_90", "gfx942", "gfx950"]
TARGETS: tuple[str, ...] = get_args(TargetName)


def _printable(text: str) -> str:
    if not all(character.isprintable() or character in "\t\n" for character in text):
        raise PydanticCustomError("bad_name", "{problem}", {"problem": "has an unprintable character"})
    return text


Doc = Annotated[str, Field(max_length=10_000), AfterValidator(_printable)]
Extent = Annotated[int, Field(ge=0, lt=2**62)]


class Dim(SpecModel):
    """The size of tensors along one axis, bound when the kernel is called."""

    multiple_of: Annotated[int, Field(ge=1, lt=2**31)] = 1
    """A promise, checked at the call: the size is a multiple of this."""
    value: Extent | None = None
    """The one size that is allowed; absent for any."""
    min: Extent = 0
    """The smallest size."""
    max: Extent | None = None
    """The largest size; absent for no limit."""


class Tensor(SpecModel):
    """An argument or a result of the kernel."""

    shape: Annotated[tuple[Name, ...], Field(max_length=16)]
    """Its dims, outermost first."""
    dtype: DType
    """Its element type."""
    space: Space = "global"
    """`shared`: the compiler stages its tiles through shared memory; `global`: it is read directly."""
    role: Literal["input", "output"] = "input"
    """An argument of the kernel, or a result."""


class Schedule(SpecModel):
    """How steps of a loop overlap in time. Never changes a result."""

    stages: Annotated[int, Field(ge=1, le=8)] = 1
    """Buffers of shared memory in flight: 1 loads and computes in turn, 2 loads the next tile meanwhile."""


class TensorOverride(SpecModel):
    """What differs for a tensor on one target."""

    space: Space
    """Where its tiles are staged."""


class TargetOverride(SpecModel):
    """What differs on one target, and nothing else. It never changes a result."""

    params: Annotated[dict[Name, Expression], Field(max_length=64)] = Field(default_factory=dict)
    """Parameters with another value."""
    hardware: HardwareSettings | None = None
    """Settings that replace those of the `hardware` constraint."""
    tensors: Annotated[dict[Name, TensorOverride], Field(max_length=64)] = Field(default_factory=dict)
    """Tensors that are staged elsewhere."""
    constraints: Annotated[tuple[AnyConstraint, ...], Field(max_length=64)] | None = None
    """All constraints, in place of the kernel's."""
    schedule: Schedule | None = None
    """The schedule, in place of the kernel's."""


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
    dims: Annotated[dict[Name, Dim], Field(min_length=1, max_length=64)]
    """Sizes of the tensors: symbols bound when the kernel is called."""
    params: Annotated[dict[Name, Expression], Field(max_length=64)] = Field(default_factory=dict)
    """Compile-time symbols: the tuning knobs. Integers, or expressions of other parameters."""
    tensors: Annotated[dict[Name, Tensor], Field(min_length=1, max_length=64)]
    """Arguments and results, in the order of the call."""
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
    workloads: Annotated[tuple[dict[Name, Extent], ...], Field(max_length=256)] = ()
    """Sizes of the dims for `check` and `bench`."""

    def in_words(self, *path: str | int) -> str:
        return ".".join([self.name, *map(str, path)])

    def __eq__(self, other: object) -> bool:
        # The order of the tensors is the order of the call; that of dims and parameters means nothing.
        return super().__eq__(other) and isinstance(other, KernelSpec) and list(self.tensors) == list(other.tensors)
