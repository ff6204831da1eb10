"""A checked spec and a target go in; all that later stages read of it comes out: plain statements, integers, defaults.

What a kernel computes (`Computation`) stands apart from how a machine does it (`ResolvedKernel`): the reference needs
the first alone.  Nothing behind this module evaluates parameters, merges targets or looks at constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wavespec.diagnostics import Span, Where
from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.checking.check_schedules import is_for_one_target
from wavespec.schema.checking.partly_written import partly_written
from wavespec.schema.language.conditions import narrowed_dims
from wavespec.schema.language.constraints import Assume, Hardware, HardwareSettings, Tiling, Wave, Workgroup
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Dim, KernelSpec, Schedule, Tensor
from wavespec.schema.language.scalars import Scalar
from wavespec.schema.ops import AnyOp
from wavespec.schema.resolve import (
    complete_sizes,
    derivations,
    evaluate_constant,
    fixed_dims,
    resolve_params,
    spec_for_target,
)


class Written(NamedTuple):
    """An expression of indices, and where it is written."""

    expression: Expression
    where: Where


@dataclass(frozen=True, slots=True)
class Computation:
    """What a kernel computes, whatever machine does it."""

    spec: KernelSpec = field(repr=False)
    """What it was made of; for messages, and for the sizes of a call."""
    params: Mapping[str, int]
    statements: tuple[AnyOp, ...]
    """The graph, with plain ops in place of expressions."""
    types: Mapping[str, str]
    """The element type of every value of the graph."""
    value_dims: Mapping[str, tuple[str, ...]] = field(repr=False)
    """The dims of every value of the graph."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def dims(self) -> Mapping[str, Dim]:
        """What a call is asked for, of every dim."""
        return self.spec.dims

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self.spec.tensors

    @property
    def scalars(self) -> Mapping[str, Scalar]:
        return self.spec.scalars

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors that it writes, in the order of its results: what is changed in place, then the outputs."""
        names = (name for name, tensor in self.tensors.items() if tensor.role != "input")
        return tuple(sorted(names, key=lambda name: self.tensors[name].role == "output"))

    def complete(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of all dims of a call; `ValueError` where they contradict each other."""
        return complete_sizes(self.spec, sizes)


@dataclass(frozen=True, slots=True)
class Tiles:
    """A dim in tiles of so many elements, which an axis of the grid, of the waves, or a loop counts."""

    dim: str
    tile: int
    axis: int = 0
    order: Written | None = None
    """The tile at a place, where it is not the one of that number."""
    start: Written | None = None
    """The first element of a loop; none: 0."""
    count: Written | None = None
    """Steps of a loop; none: up to the end of the dim."""
    end: Written | None = None
    """Where the tiles of workgroups end; none: with the dim."""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class ResolvedKernel:
    """What one target computes, and how, with every choice of the spec made."""

    target: str
    computation: Computation
    values: Mapping[str, int]
    """What an expression may use before the kernel runs: parameters, and dims that were given one size."""
    sizes: Mapping[str, int]
    """Of the dims of one size, given or following from parameters."""
    equals: Mapping[str, Expression]
    """What the sizes of other dims follow from at a call, each behind those that it follows from."""
    promised: Mapping[str, Dim]
    """What the compiler may rely on: what dims promise, and what assumptions do."""
    assumptions: tuple[Expression, ...]
    """What a call is asked for, beside what dims promise."""
    zeroed: frozenset[str]
    """Outputs that start as zeros."""
    workgroup: tuple[Tiles, ...]
    loops: tuple[Tiles, ...]
    waves: tuple[Tiles, ...]
    vectors: tuple[Tiles, ...]
    fast_math: frozenset[str]
    flushes: bool
    """Functions that may be approximate."""
    instruction: str
    instruction_span: Span | None
    schedule: Schedule
    is_for_target: bool
    """Whether the schedule was written for this target alone, so that all of it should have a meaning."""

    @property
    def scalars(self) -> Mapping[str, Scalar]:
        """Those of the computation, integers with the limits that are promised of them."""
        return {
            name: scalar.model_copy(update={"min": dim.min, "max": dim.max}) if dim is not None else scalar
            for name, scalar in self.computation.scalars.items()
            for dim in [self.promised.get(name)]
        }


def computation_of(spec: KernelSpec) -> Computation:
    """
    Raises:
        WavespecError: a parameter without a value, or what a target leaves out and the graph needs.
    """
    statements, types = plain_graph(spec)
    dtypes = {name: one.dtype for name, one in types.items()}
    return Computation(spec, resolve_params(spec), statements, dtypes, {name: one.dims for name, one in types.items()})


def resolve(spec: KernelSpec, target: str) -> ResolvedKernel:
    """What ``target`` computes for all sizes; of the spec of a `TargetCase`, for those of the case.

    Raises:
        WavespecError: a spec that is not for the target, or a tile or parameter without a constant value.
    """
    plain = spec_for_target(spec, target)
    computation = computation_of(plain)
    fixed = fixed_dims(plain)
    values = {**fixed, **computation.params}

    def constant(expression: Expression, where: Where) -> int:
        return int(evaluate_constant(plain, expression, where, values))

    def tiles(one: Workgroup | Tiling | Wave) -> Tiles:
        written = {
            word: Written(expression, one.where(word))
            for word in ("order", "start", "count", "end")
            if (expression := getattr(one, word, None)) is not None
        }
        tile, axis = constant(one.tile, one.where("tile")), 0 if isinstance(one, Tiling) else one.axis
        return Tiles(one.dim, tile, axis, **written, span=one.span_of("tile"))

    equals = dict(derivations(plain))
    sizes = fixed | {
        name: constant(expression, plain.where("dims", name, "equals"))
        for name, expression in equals.items()
        if name not in fixed and all(other in values for other in expression.names())
    }
    hardware = next((one.settings for one in plain.constraints if isinstance(one, Hardware)), HardwareSettings())
    assumptions = tuple(one.condition for one in plain.constraints if isinstance(one, Assume))
    return ResolvedKernel(
        target=target,
        computation=computation,
        values=values,
        sizes=sizes,
        equals={name: expression for name, expression in equals.items() if name not in sizes},
        promised=_promised(plain, assumptions, values),
        assumptions=assumptions,
        zeroed=partly_written(plain),
        workgroup=tuple(tiles(one) for one in plain.constraints if isinstance(one, Workgroup)),
        loops=tuple(tiles(one) for one in plain.constraints if isinstance(one, Tiling)),
        waves=tuple(tiles(one) for one in plain.constraints if isinstance(one, Wave)),
        vectors=tuple(
            Tiles(dim, constant(count, hardware.where("vector", dim)), span=hardware.span_of("vector", dim))
            for dim, count in hardware.vector.items()
        ),
        fast_math=frozenset(hardware.fast_math) - (set() if _is_rounded(computation) else {"exp"}),
        flushes=hardware.denormals == "flush",
        instruction=hardware.mma or "auto",
        instruction_span=hardware.span_of("mma"),
        schedule=plain.schedule or Schedule(),
        is_for_target=is_for_one_target(plain),
    )


def _is_rounded(computation: Computation) -> bool:
    """Whether all results are of floating point with 16 bits or less, which do not show the last bits of f32."""
    types = [DTYPES[str(computation.tensors[name].dtype)] for name in computation.written]
    return all(dtype.is_float and dtype.bits <= 16 for dtype in types)


def _promised(spec: KernelSpec, assumptions: tuple[Expression, ...], values: Mapping[str, int]) -> Mapping[str, Dim]:
    """The dims and numbers with what assumptions promise of them; dims of which those leave one size only are checked,
    no more."""
    every = spec.dims | spec.numbers
    narrowed = narrowed_dims(every, assumptions, values)
    if isinstance(narrowed, Expression):
        return every
    return {name: every[name] if name in spec.dims and dim.min == dim.max else dim for name, dim in narrowed.items()}
