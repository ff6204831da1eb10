"""The plain spec of a case goes in; the kernel that reduces parts of a dim, each by workgroups of its own, and the one
that joins what they have found, come out: plain specs like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.base import Position
from wavespec.schema.language.constraints import AnyConstraint, Tiling, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule, Tensor
from wavespec.schema.made_kernels import free_name, plain_kernel, unfolded, with_sizes, words_of
from wavespec.schema.ops import AnyOp, Bitcast, Cast, Formula, Index, Iterate, Read, Reduce, Register, Size, Write, every
from wavespec.schema.ops.elementwise import ELEMENTWISE

_ALONG = (Read, Formula, Cast, Bitcast, Register, Size, Reduce, *ELEMENTWISE)
"""What a step may do of which each workgroup has a part."""
_IDENTITIES = {"sum": (0, 0), "prod": (1, 1), "max": (-float("inf"), -1), "min": (float("inf"), 1)}
"""What changes nothing: of floating point; of integers the number itself, or the end of their range."""
_MOST_AXES, _WAVES = 5, 8


class PartsNotPossible(WavespecError, code="parts-not-possible"):
    """A dim of which a kernel before cannot reduce the parts."""

    def __init__(self, where: Where, dim: str, why: str, hint: str) -> None:
        super().__init__(where, f"{quote(dim)} has no parts: {why}.", hints=[hint], about=[dim])


def parted(spec: KernelSpec) -> tuple[KernelSpec, KernelSpec]:
    """The kernel that makes what loops over the dim of `parts` find in each part, and the one that joins it.

    Raises:
        PartsNotPossible: another graph than one loop over the dim whose results are reductions, at the schedule.
    """
    schedule = spec.schedule
    assert schedule is not None
    ((dim, count),) = schedule.parts.items()
    for why, hint in _obstacles(spec, schedule, dim):
        raise PartsNotPossible(schedule.where_key("parts", dim), dim, why, hint)
    (loop,) = (op for op in spec.graph if isinstance(op, Iterate) and op.dim == dim)
    names = _Names(spec, dim, count, loop)
    before = names.reducing()
    span = schedule.key_span_of("parts", dim)
    before.was_written_at({(): Position(span)} if span else {})
    return before, names.joining(before, schedule)


def _obstacles(spec: KernelSpec, schedule: Schedule, dim: str) -> Iterator[tuple[str, str]]:
    """Why the parts of a dim cannot be reduced apart, each with what to do about it."""
    leave_out = "Leave out 'parts'."
    if schedule.materialize or (schedule.workgroups is not None and schedule.workgroups.split != 1):
        yield "the schedule has 'materialize' or 'split' as well", "Use one of them."
    if dim not in spec.dims:
        yield "it is no dim", "Name the dim of a loop."
        return
    loops = [op for op in spec.graph if isinstance(op, Iterate) and op.dim == dim]
    if len(loops) != 1 or sum(one.dim == dim for one in every(Iterate, spec.graph)) != 1:
        yield "that takes one loop over it, in no other one", leave_out
        return
    (loop,) = loops
    if any(bound is not None for bound in (loop.start, loop.end, loop.step, loop.until)):
        yield f"{quote(loop.name)} does not take all of it", leave_out
    if any(dim in words_of(op) for op in spec.graph if op is not loop):
        yield f"what is around {quote(loop.name)} has the dim as well", leave_out
    if sum(isinstance(one, Workgroup) for one in spec.constraints) and _axis(spec.constraints) >= _MOST_AXES:
        yield "all axes of the grid are taken", "Let two dims share one."
    yield from _in_body(spec, loop)


def _in_body(spec: KernelSpec, loop: Iterate) -> Iterator[tuple[str, str]]:
    leave_out = "Leave out 'parts'."
    for op in loop.body:
        if not isinstance(op, _ALONG):
            yield f"{quote(loop.name)} has {quote(op.word)}", leave_out
        elif isinstance(op, Read) and op.at:
            yield f"{quote(op.name)} is read by a mapping", leave_out
    if any(one.dim == loop.dim for one in every(Index, plain_graph(spec)[0])):
        yield "its elements ask for their place", leave_out
    made = {op.name: op for op in loop.body if isinstance(op, Reduce)}
    for name in loop.carry:
        op, uses = made.get(name), sum(words_of(one).count(name) for one in loop.body)
        if op is None or op.init != name or uses != 1 or op.along != (loop.dim,) or len(op.values) != 1:
            yield f"{quote(name)} is not only what a reduction has so far", leave_out
        elif op.word not in _IDENTITIES:
            yield f"parts of {quote(op.word)} cannot be joined by it", "Use 'sum', 'prod', 'max' or 'min'."
    if made.keys() - loop.carry.keys():
        yield f"{quote(loop.name)} reduces what it does not carry", leave_out


class _Names:
    """What both kernels call the parts, and the elements of one."""

    def __init__(self, spec: KernelSpec, dim: str, count: int, loop: Iterate) -> None:
        self.spec, self.dim, self.count, self.loop = spec, dim, count, loop
        self.types = plain_graph(spec)[1]
        self.part, self.inside = free_name(spec, f"{dim}_part"), free_name(spec, f"{dim}_in_part")
        self.tile = next(one.tile for one in spec.constraints if isinstance(one, Tiling) and one.dim == dim)

    @property
    def dims(self) -> dict[str, Dim]:
        """Parts are multiples of a tile: the last ones may have less, or nothing."""
        of_part = f"ceildiv({self.dim}, {self.count} * ({self.tile})) * ({self.tile})"
        return {self.part: Dim(value=self.count), self.inside: Dim(equals=parse_expression(of_part))}

    def made(self, name: str) -> tuple[str, Tensor]:
        """The tensor that holds a result of the loop for each part."""
        kind = self.types[f"{self.loop.name}.{name}"]
        shape = (self.part, *kind.dims)
        return free_name(self.spec, f"{name}_of_parts"), Tensor(shape=shape, dtype=kind.dtype, role="output")

    def reducing(self) -> KernelSpec:
        """The kernel that walks over one part in each workgroup."""
        starts: list[AnyOp] = []
        carry: dict[str, str] = {}
        for name in self.loop.carry:
            _, tensor = self.made(name)
            carry[name] = free_name(self.spec, f"{name}_of_none")
            starts.append(self.nothing(carry[name], name, tensor.shape))
        body = tuple(one for op in self.loop.body for one in self.in_part(op))
        loop = self.loop.model_copy(update={"dim": self.inside, "carry": carry, "body": body})
        writes = [Write(value=f"{self.loop.name}.{name}", to=self.made(name)[0]) for name in carry]
        read = {op.tensor for op in every(Read, body)}
        tensors = {name: tensor for name, tensor in self.spec.tensors.items() if name in read}
        tensors |= dict(map(self.made, carry))
        around = self._around(starts, body)
        kernel = plain_kernel(
            self.spec, self.loop.name, tensors, [*around, *starts, loop, *writes], self.tiles_of_parts(), self.dims
        )
        return kernel.model_copy(update={"params": self.spec.params})

    def _around(self, starts: Sequence[AnyOp], body: Sequence[AnyOp]) -> list[AnyOp]:
        """What stands in front of the loop and is used in it."""
        needed = {word for op in (*starts, *body) for word in words_of(op)}
        kept: list[AnyOp] = []
        for op in reversed(self.spec.graph[: self.spec.graph.index(self.loop)]):
            if getattr(op, "name", "") in needed:
                kept.insert(0, op)
                needed.update(words_of(op))
        return kept

    def nothing(self, name: str, of: str, shape: tuple[str, ...]) -> Register:
        """What the reduction of a carried name starts from."""
        op = next(op for op in self.loop.body if isinstance(op, Reduce) and op.name == of)
        dtype = self.types[f"{self.loop.name}.{of}"].dtype
        number, of_integers = _IDENTITIES[op.word]
        if dtype[0] != "i" and dtype[0] != "u":
            return Register(name=name, shape=shape, dtype=dtype, value=number)
        if op.word in ("max", "min"):
            bits, low = int(dtype[1:]), 0 if dtype[0] == "u" else -1
            lowest = low * 2 ** (bits - 1)
            of_integers = lowest if of_integers < 0 else lowest + 2**bits - 1
        return Register(name=name, shape=shape, dtype=dtype, value=of_integers)

    def in_part(self, op: AnyOp) -> list[AnyOp]:
        """What a step does with a tile of a part; what lies behind the dim is left out of reductions."""
        place = f"{self.part} * size({self.inside}) + {self.inside}"
        if isinstance(op, Read):
            shape = op.dims or self.spec.tensors[op.tensor].shape
            if self.dim not in shape:
                return [op]
            dims = (self.part, *(self.inside if dim == self.dim else dim for dim in shape))
            return [op.model_copy(update={"dims": dims, "at": {self.dim: parse_index(place)}})]
        if not isinstance(op, Reduce):
            return [op]
        (value,), name = op.values, op.name
        nothing, inside = (free_name(self.spec, f"{name}_{what}") for what in ("nothing", "inside"))
        here = f"i64(index({self.part})) * size({self.inside}) + i64(index({self.inside})) < size({self.dim})"
        masked = Formula(name=inside, text=f"where({here}, {value}, {nothing})")
        return [
            self.nothing(nothing, name, ()),
            masked,
            cast("AnyOp", op.model_copy(update={"value": inside, "dim": self.inside})),
        ]

    def tiles_of_parts(self) -> list[AnyConstraint]:
        """Those of the kernel, with the elements of a part in place of the dim, and a workgroup for each part."""
        found: list[AnyConstraint] = []
        for one in self.spec.constraints:
            if isinstance(one, Tiling | Wave) and one.dim == self.dim:
                found.append(one.model_copy(update={"dim": self.inside}))
            elif isinstance(one, Tiling | Wave | Workgroup):
                found.append(one)
        return [*found, Workgroup(dim=self.part, tile=_number(1), axis=_axis(self.spec.constraints))]

    def tiles_of_joining(self) -> list[AnyConstraint]:
        """All parts in one step, shared out among waves where no other dim is."""
        found = [one for one in self.spec.constraints if getattr(one, "dim", "") != self.dim]
        added: list[AnyConstraint] = [Tiling(dim=self.part, tile=_number(self.count))]
        if not any(isinstance(one, Wave) for one in found) and not self.count % _WAVES:
            added.append(Wave(dim=self.part, tile=_number(self.count // _WAVES)))
        return [*found, *added]

    def joining(self, before: KernelSpec, schedule: Schedule) -> KernelSpec:
        """The kernel with a loop over the parts in place of that over the dim."""
        body: list[AnyOp] = []
        for name in self.loop.carry:
            op = next(op for op in self.loop.body if isinstance(op, Reduce) and op.name == name)
            read = Read(name=free_name(self.spec, f"{name}_of_one"), tensor=self.made(name)[0])
            body += [read, cast("AnyOp", op.model_copy(update={"value": read.name, "dim": self.part}))]
        loop = self.loop.model_copy(update={"dim": self.part, "body": tuple(body)})
        graph = tuple(loop if op is self.loop else op for op in self.spec.graph)
        read_here = {op.tensor for op in every(Read, graph)}
        made = {
            name: tensor.model_copy(update={"role": "input"})
            for name, tensor in before.tensors.items()
            if tensor.role == "output"
        }
        kept = {name: one for name, one in self.spec.tensors.items() if one.role != "input" or name in read_here}
        update: dict[str, Any] = {
            "dims": {**unfolded(self.spec.dims), self.part: self.dims[self.part]},
            "graph": graph,
            "tensors": {**made, **with_sizes(self.spec.dims, {**made, **kept}, self.spec.tensors), **kept},
            "constraints": tuple(self.tiles_of_joining()),
            "schedule": schedule.model_copy(update={"parts": {}}),
        }
        return self.spec.model_copy(update=update)


def _axis(constraints: Sequence[AnyConstraint]) -> int:
    """The first axis of the grid behind those that are taken."""
    return max((one.axis + 1 for one in constraints if isinstance(one, Workgroup)), default=0)


def _number(value: int) -> Expression:
    return parse_expression(str(value))
