"""A loop and how many parts its dim has go in; the kernel that reduces each part, the one that walks over each, and the
one that joins what they have found, come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import AnyConstraint, Tiling, Wave, Workgroup
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Tensor
from wavespec.schema.made_kernels import free_name, plain_kernel, unfolded, with_sizes, words_of
from wavespec.schema.ops import AnyOp, Formula, Iterate, Read, Reduce, Register, Scan, Topk, Write, every
from wavespec.schema.ops.base import ValueType

IDENTITIES = {"sum": (0, 0), "prod": (1, 1), "max": (-float("inf"), -1), "min": (float("inf"), 1)}
"""What changes nothing, by the reduction: of floating point; of integers the number, or that end of their range."""
_JOINED = {"sum": "{} + {}", "prod": "{} * {}", "max": "maximum({}, {})", "min": "minimum({}, {})"}
_ENDS = ("max", "min")
_LONG: DType = "f64"
"""What sums of f32 in front of a part are made in, of which it rounds once."""
_NOWHERE = 2**31 - 1
"""Behind every place."""
_WORD = 32
_WAVES, _CANDIDATES = 8, 512
"""Waves of a workgroup that joins parts, and how many elements of theirs it looks for the largest in at once."""


def needed_for(loop: Iterate, names: Iterable[str]) -> tuple[AnyOp, ...]:
    """The statements of a body that make what the next step gets by these names."""
    needed, kept = set(names), list[AnyOp]()
    for op in reversed(loop.body):
        if _name(op) in needed:
            kept.insert(0, op)
            needed.update(words_of(op))
    return tuple(kept)


def found_by_walking(loop: Iterate) -> tuple[str, ...]:
    """Of what a loop carries, what is made of other values that it carries: parts have it when these are known."""
    if any(every(Topk, loop.body)) or inner_loop(loop) is not None:
        return ()
    others = {name: loop.carry.keys() - {name} for name in loop.carry}
    used = {name: {word for op in needed_for(loop, [name]) for word in words_of(op)} for name in loop.carry}
    return tuple(name for name in loop.carry if used[name] & others[name])


def inner_loop(loop: Iterate) -> Iterate | None:
    """The loop that a loop does nothing but run, handing on what both carry."""
    match loop.body:
        case (Iterate() as inner, *handed) if all(isinstance(op, Formula) for op in handed) and not any(
            every(Iterate, inner.body)
        ):
            results = {op.name: op.text for op in handed if isinstance(op, Formula)}
            own = {name: f"{inner.name}.{one}" for one, name in inner.carry.items()}
            return inner if results == own and own.keys() == loop.carry.keys() else None
        case _:
            return None


def reductions_of(loop: Iterate) -> dict[str, Reduce]:
    """What joins elements, by what the loop carries it as."""
    inner = inner_loop(loop)
    if inner is None:
        return {op.name: op for op in loop.body if isinstance(op, Reduce)}
    made = {op.name: op for op in inner.body if isinstance(op, Reduce)}
    return {name: made[one] for one, name in inner.carry.items() if one in made}


def _used(ops: Sequence[AnyOp]) -> set[str]:
    """The names that statements use, but for those that only say another name for a value, which nothing uses."""
    used = set[str]()
    for op in reversed(ops):
        if not isinstance(op, Formula) or op.name in used:
            used.update(words_of(op))
    return used


def free_axis(constraints: Sequence[AnyConstraint]) -> int:
    """The first axis of the grid behind those that are taken."""
    return max((one.axis + 1 for one in constraints if isinstance(one, Workgroup)), default=0)


class KernelsOfParts:
    """What the kernels call the parts, and the elements of one.

    ``by_bounds``: a part of what is only reduced is some steps of the loop, so that nothing is left out by its index.
    Lanes that compare places at no cost have all parts alike instead.
    """

    def __init__(self, spec: KernelSpec, dim: str, count: int, loop: Iterate, *, by_bounds: bool = False) -> None:
        self.spec, self.dim, self.count, self.loop = spec, dim, count, loop
        self.types = plain_graph(spec)[1]
        self.part, self.inside = free_name(spec, f"{dim}_part"), free_name(spec, f"{dim}_in_part")
        self.tile = next(one.tile for one in spec.constraints if isinstance(one, Tiling) and one.dim == dim)
        self.reductions = reductions_of(loop)
        self.largest = {op.name: op for op in loop.body if isinstance(op, Topk)}
        self.places = {op.indices: op for op in self.largest.values() if op.indices is not None}
        self.found = free_name(spec, f"{dim}_found")
        self.walked = found_by_walking(loop)
        self.walks = bool(self.walked) or any(every(Write, loop.body))
        self.by_bounds = by_bounds and not self.walks and not self.largest
        self.behind = _used(spec.graph[spec.graph.index(loop) + 1 :])

    @property
    def are_joined(self) -> bool:
        """Whether something behind the loop uses what it carries, for which a kernel has to join parts."""
        return self.loop.name in self.behind

    def reducing(self) -> KernelSpec:
        """The kernel that finds, in each workgroup, what the loop carries behind one part, of what it may know."""
        starts = self._starts_of_parts(name for name in self.loop.carry if name not in self.walked)
        registers = [self._nothing(start, name, (self.part, *self._kind(name).dims)) for name, start in starts.items()]
        needed = needed_for(self.loop, starts)
        if self.by_bounds:
            body = tuple(map(self._in_steps, needed))
            update: dict[str, Any] = {"carry": starts, "body": body, "start": self._start(0), "end": self._start(1)}
        else:
            body = tuple(one for op in needed for one in self._in_part(op, masked=True))
            update = {"dim": self.inside, "carry": starts, "body": body}
        loop = self.loop.model_copy(update=update)
        writes = [one for name in starts for one in self._written(name)]
        around = self._around(body)
        read = {op.tensor for op in every(Read, (*around, *body))}
        tensors = {name: tensor for name, tensor in self.spec.tensors.items() if name in read}
        tensors |= dict(map(self._made, starts))
        graph = [*around, *registers, loop, *writes]
        kernel = plain_kernel(self.spec, self.loop.name, tensors, graph, self._tiles_of_parts(), self._dims())
        return kernel.model_copy(update={"params": self.spec.params})

    def joining(self, *before: KernelSpec, goes_on: bool = False) -> KernelSpec:
        """The kernel with a loop over the parts in place of that over the dim.

        ``goes_on``: other loops over the dim are behind it, which have parts as well, and the waves.
        """
        along = self.found if self.largest else self.part
        body, read, carry = list[AnyOp](), dict[str, str](), dict(self.loop.carry)
        if len(before) > 1:  # what the walk alone needed is none of its business
            carry = {name: first for name, first in carry.items() if name in self.behind}
        for name in carry:
            read[name] = free_name(self.spec, f"{name}_of_one")
            body.append(Read(name=read[name], tensor=self._made(name)[0]))
            if name in self.reductions:
                # Elements of other dims are joined.
                body.append(_changed(self.reductions[name], name=name, init=name, value=read[name], dim=along))
        for name, op in self.largest.items():
            body.append(_changed(op, value=read[name], dim=along, places=read[op.indices or ""]))
        loop = self.loop.model_copy(update={"dim": along, "carry": carry, "body": tuple(body)})
        dims = {one: dim for one, dim in self._dims().items() if one == along}
        size = dims[along].value or 1
        others = {one.dim for op in self.spec.graph if op is not self.loop for one in every(Iterate, [op])}
        left = set[str]() if goes_on else {self.dim, *(one.dim for one in every(Iterate, self.loop.body))} - others
        found: list[AnyConstraint] = [one for one in self.spec.constraints if getattr(one, "dim", "") not in left]
        tile = min(_CANDIDATES, 1 << (size - 1).bit_length()) if self.largest else size
        if goes_on and any(DTYPES[self._kind(name).dtype].bits > _WORD for name in carry):  # a wave has all parts
            tile = max(1, tile // 2)
        added: list[AnyConstraint] = [Tiling(dim=along, tile=_number(tile))]
        has_waves = goes_on or any(isinstance(one, Wave) for one in found)  # those of the loops behind
        if not self.largest and not has_waves and not size % _WAVES:
            added.append(Wave(dim=along, tile=_number(size // _WAVES)))
        schedule: dict[str, Any] = {"stages": 1} if self.walks else {}  # all parts are one step
        schedule |= {"parts": {self.dim: self.count}} if goes_on else {}
        return self._behind(before, self._with_loop([loop]), [*found, *added], dims, **schedule)

    def walking(self, *before: KernelSpec) -> KernelSpec:
        """The kernel that walks over one part in each workgroup, from what all parts before it have."""
        other = free_name(self.spec, f"{self.dim}_part_before")
        starts, ops = self._starts_of_parts(self.walked), list[AnyOp]()
        ops += [self._nothing(start, name, (self.part, *self._kind(name).dims)) for name, start in starts.items()]
        for name in self.loop.carry:
            if name not in self.walked:
                starts[name] = free_name(self.spec, f"{name}_at_first")
                ops += self._in_front(name, starts[name], other)
        body = tuple(one for op in self.loop.body for one in self._in_part(op, masked=_name(op) in self.walked))
        carry = {name: starts[name] for name in self.loop.carry}
        loop = self.loop.model_copy(update={"dim": self.inside, "carry": carry, "body": body})
        dims = {**self._dims(), other: Dim(value=self.count)}
        if not self.are_joined:
            return self._behind(before, self._with_loop([*ops, loop]), self._tiles_of_parts(), dims)
        writes = (one for name in self.walked for one in self._written(name))
        return self._between(before[0], (*self._around((*ops, *body)), *ops, loop, *writes), dims)

    def _starts_of_parts(self, names: Iterable[str]) -> dict[str, str]:
        """What carried names of a part start from, where what is before it does not matter."""
        return {name: free_name(self.spec, f"{name}_of_none") for name in names}

    def _in_front(self, name: str, start: str, other: str) -> list[AnyOp]:
        """What a carried name is in front of a part, of all parts before it, as ``start``."""
        made, tensor = self._made(name)
        found, earlier, nothing, none, front = (
            free_name(self.spec, f"{name}_{what}") for what in ("of_each", "earlier", "nothing", "of_none", "in_front")
        )
        dims = tensor.shape[:-1]  # parts lie side by side: each workgroup reads a row
        is_long = self.reductions[name].word == "sum" and tensor.dtype == "f32"
        dtype = _LONG if is_long else tensor.dtype
        each, first = (f"{dtype}({one})" if is_long else one for one in (found, self.loop.carry[name]))
        text = _JOINED[self.reductions[name].word].format(first, front)
        # A value has the dims of the largest operand first, and what the loop carries has its parts first.
        every_dim = (self.part, *dims, other) if len(dims) > 1 else ()
        return [
            Read(name=found, tensor=made, dims=(*dims, other), at={self.part: parse_index(other)}),
            self._nothing(nothing, name, every_dim, dtype),
            self._nothing(none, name, (self.part, *dims), dtype),
            Formula(name=earlier, text=f"where(index({other}) < index({self.part}), {each}, {nothing})"),
            _changed(self.reductions[name], name=front, value=earlier, dim=other, init=none),
            Formula(name=start, text=f"{tensor.dtype}({text})" if is_long else text),
        ]

    def _between(self, before: KernelSpec, graph: Sequence[AnyOp], dims: dict[str, Dim]) -> KernelSpec:
        """The kernel that walks, where one behind it goes on: with the schedule of the case, and what is written."""
        assert self.spec.schedule is not None
        read, written = {op.tensor for op in every(Read, graph)}, {op.to for op in every(Write, graph)}
        tensors = {name: one for name, one in _as_inputs(before).items() if name in read}
        tensors |= {name: one for name, one in self.spec.tensors.items() if name in read | written}
        tensors |= dict(map(self._made, self.walked))
        kernel = plain_kernel(self.spec, f"{self.loop.name}_walked", tensors, graph, self._tiles_of_parts(), dims)
        schedule = self.spec.schedule.model_copy(update={"parts": {}})
        return kernel.model_copy(update={"schedule": schedule, "params": self.spec.params}).with_own_schedule(True)

    def _behind(
        self,
        before: Sequence[KernelSpec],
        graph: tuple[AnyOp, ...],
        tiles: Sequence[AnyConstraint],
        dims: dict[str, Dim],
        **schedule: object,
    ) -> KernelSpec:
        """The kernel that reads what those before it made; ``schedule``: what is other than that of the case."""
        assert self.spec.schedule is not None
        used = {op.tensor for op in every(Read, graph)} | {op.to for op in every(Write, graph)}
        made = {name: one for kernel in before for name, one in _as_inputs(kernel).items() if name in used}
        kept = {name: one for name, one in self.spec.tensors.items() if name in used}
        update: dict[str, Any] = {
            "dims": {**unfolded(self.spec.dims), **dims},
            "graph": graph,
            "tensors": {**made, **with_sizes(self.spec.dims, {**made, **kept}, self.spec.tensors), **kept},
            "constraints": tuple(tiles),
            "schedule": self.spec.schedule.model_copy(update={"parts": {}, **schedule}),
        }
        return self.spec.model_copy(update=update)

    @property
    def _of_part(self) -> str:
        """Elements of one: a multiple of a tile, so that the last ones may have less, or nothing."""
        return f"ceildiv({self.dim}, {self.count} * ({self.tile})) * ({self.tile})"

    def _start(self, later: int) -> Expression:
        """Where the part of a workgroup begins, or one after it."""
        return parse_expression(f"(start({self.part}) + {later}) * ({self._of_part})")

    def _in_steps(self, op: AnyOp) -> AnyOp:
        """What a step does with a tile of a part that has some steps of the loop."""
        if isinstance(op, Iterate):
            return _changed(op, body=tuple(map(self._in_steps, op.body)))
        shape = (op.dims or self.spec.tensors[op.tensor].shape) if isinstance(op, Read) else ()
        if self.dim not in shape:
            return op
        return _changed(op, dims=(self.part, *shape), at={self.dim: parse_index(self.dim)})

    def _dims(self) -> dict[str, Dim]:
        dims = {self.part: Dim(value=self.count)}
        if not self.by_bounds:
            dims[self.inside] = Dim(equals=parse_expression(self._of_part))
        for op in self.largest.values():
            dims[self.found] = Dim(value=self.count * (self.spec.dims[op.k].value or 1))
        return dims

    def _kind(self, name: str) -> ValueType:
        """What is carried under a name."""
        return self.types[f"{self.loop.name}.{name}"]

    def _made(self, name: str) -> tuple[str, Tensor]:
        """The tensor that holds what is carried behind each part; the largest elements of all parts side by side."""
        kind, op = self._kind(name), self.largest.get(name) or self.places.get(name)
        shape = (*kind.dims, self.part) if self.walks else (self.part, *kind.dims)
        if op is not None:
            shape = tuple(self.found if dim == op.k else dim for dim in kind.dims)
        return free_name(self.spec, f"{name}_of_parts"), Tensor(shape=shape, dtype=kind.dtype, role="output")

    def _written(self, name: str) -> list[AnyOp]:
        """What writes it; places of a part as those of the dim, nowhere what lies behind that."""
        result, made, op = f"{self.loop.name}.{name}", self._made(name)[0], self.places.get(name)
        if name in self.reductions:
            dims = (*self._kind(name).dims, self.part) if self.walks else ()
            return [Write(value=result, to=made, at={dim: parse_index(dim) for dim in dims})]
        if op is None:
            op = self.largest[name]
            return [Write(value=result, to=made, at=self._side_by_side(op))]
        place, within = (free_name(self.spec, f"{name}_{what}") for what in ("of_all", "within"))
        text = f"i64(index({self.part})) * size({self.inside}) + i64({result})"
        known = f"{op.dtype}(where({place} < size({self.dim}), {place}, {_NOWHERE}))"
        return [
            Formula(name=place, text=text),
            Formula(name=within, text=known),
            Write(value=within, to=made, at=self._side_by_side(op)),
        ]

    def _side_by_side(self, op: Topk) -> dict[str, Expression]:
        """The place of what is found in a part, among what is found in all of them."""
        return {self.found: parse_index(f"{self.part} * size({op.k}) + {op.k}")}

    def _nothing(self, name: str, of: str, shape: tuple[str, ...], dtype: DType | None = None) -> Register:
        """What the reduction of a carried name starts from."""
        dtype = dtype or self._kind(of).dtype
        if of in self.places:
            return Register(name=name, shape=shape, dtype=dtype, value=_NOWHERE)
        ends = {name: "max" if op.largest else "min" for name, op in self.largest.items()}
        word = ends[of] if of in ends else self.reductions[of].word
        number, of_integers = IDENTITIES[word]
        if dtype == "bool":
            number = int(word == "min")
        elif dtype[0] in "iu":
            bits, lowest = int(dtype[1:]), 0 if dtype[0] == "u" else -(2 ** (int(dtype[1:]) - 1))
            end = lowest if of_integers < 0 else lowest + 2**bits - 1
            number = end if word in _ENDS else of_integers
        return Register(name=name, shape=shape, dtype=dtype, value=number)

    def _around(self, body: Sequence[AnyOp]) -> list[AnyOp]:
        """What stands in front of the loop and is used in it."""
        needed, kept = {word for op in body for word in words_of(op)}, list[AnyOp]()
        for op in reversed(self.spec.graph[: self.spec.graph.index(self.loop)]):
            if _name(op) in needed:
                kept.insert(0, op)
                needed.update(words_of(op))
        return kept

    def _with_loop(self, ops: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
        """The graph with ``ops`` in place of the loop."""
        at = self.spec.graph.index(self.loop)
        return (*self.spec.graph[:at], *ops, *self.spec.graph[at + 1 :])

    def _in_part(self, op: AnyOp, *, masked: bool) -> list[AnyOp]:
        """What a step does with a tile of a part; ``masked``: reductions leave out what lies behind the dim."""
        place = {self.dim: parse_index(f"{self.part} * size({self.inside}) + {self.inside}")}
        if isinstance(op, Read):
            shape = op.dims or self.spec.tensors[op.tensor].shape
            dims = (self.part, *(self.inside if dim == self.dim else dim for dim in shape))
            return [_changed(op, dims=dims, at=place) if self.dim in shape else op]
        if isinstance(op, Iterate):
            return [_changed(op, body=tuple(one for inner in op.body for one in self._in_part(inner, masked=masked)))]
        if isinstance(op, Write):
            return [_changed(op, at=place)]
        if isinstance(op, Register):
            return [_changed(op, shape=tuple(self.inside if dim == self.dim else dim for dim in op.shape))]
        if not isinstance(op, Reduce | Scan | Topk):
            return [op]
        if not masked:
            return [self._reduced(op, op.value)]
        # A loop in the loop may carry it by another name.
        name = next((one for one, made in self.reductions.items() if made == op), op.name)
        nothing, within = (free_name(self.spec, f"{name}_{what}") for what in ("nothing", "within"))
        here = f"i64(index({self.part})) * size({self.inside}) + i64(index({self.inside})) < size({self.dim})"
        where = Formula(name=within, text=f"where({here}, {op.value}, {nothing})")
        return [self._nothing(nothing, name, ()), where, self._reduced(op, within)]

    def _reduced(self, op: Reduce | Scan | Topk, value: Any) -> AnyOp:
        """What joins elements of a part, with other dims of theirs where it joins along these, too."""
        others = op.along if isinstance(op, Reduce) else ()
        dims = tuple(self.inside if dim == self.dim else dim for dim in others)
        return _changed(op, value=value, dim=dims if len(dims) > 1 else self.inside)

    def _tiles_of_parts(self) -> list[AnyConstraint]:
        """Those of the kernel, with the elements of a part in place of the dim, and a workgroup for each part."""
        found: list[AnyConstraint] = [
            _changed(one, dim=self.inside) if one.dim == self.dim and not self.by_bounds else one
            for one in self.spec.constraints
            if isinstance(one, Tiling | Wave | Workgroup)
        ]
        return [*found, Workgroup(dim=self.part, tile=_number(1), axis=free_axis(self.spec.constraints))]


def _name(op: AnyOp) -> str:
    """Of the value that it defines; of no value without one."""
    return getattr(op, "name", "")


def _as_inputs(kernel: KernelSpec) -> dict[str, Tensor]:
    """What a kernel writes, as one behind it reads it."""
    written = {name: one for name, one in kernel.tensors.items() if one.role == "output"}
    return {name: tensor.model_copy(update={"role": "input"}) for name, tensor in written.items()}


def _changed(part: Any, **update: object) -> Any:
    return part.model_copy(update=update)


def _number(value: int) -> Expression:
    return parse_expression(str(value))
