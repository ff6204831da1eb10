"""A spec without tiles that joins elements along dims of any size goes in; the spec with loops over these comes out.

`mean: sq, dim: N` of rows of any length is one loop that carries the mean, and what is made of it along N another loop
that makes its elements anew, as one would write it. The graph means the same before and behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.base import Position
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import (
    ELEMENTWISE,
    AnyOp,
    ArgReduce,
    Bitcast,
    Cast,
    Formula,
    Index,
    Iterate,
    Mma,
    Op,
    Random,
    Read,
    Reduce,
    Register,
    Scan,
    Size,
    Structured,
    Take,
    ValueType,
    Write,
    walk,
)
from wavespec.schema.ops.reduce import REDUCE
from wavespec.schema.resolve import constant_values

_PURE = (Read, Take, Formula, Cast, Bitcast, Index, Size, Random, Register, Scan, *ELEMENTWISE)
"""What is made anew in every loop that needs it."""
_REDUCTION_OF = {
    kind.reduction.function: kind for kind in REDUCE if not kind.reduction.of_flags and not kind.reduction.divided
}
_FAR = 2**31 - 1
"""A place behind every element."""
_JOINS = (Reduce, Mma, ArgReduce, Scan)


class _AsItIs(Exception):
    """The graph has something that no loop of its own does the same as."""


def with_walked_dims(spec: KernelSpec) -> KernelSpec:
    """The spec itself where its graph has a loop, or a mistake, or joins nothing along dims of any size."""
    if any(isinstance(op, Structured) for op in spec.graph) or not any(isinstance(op, _JOINS) for op in spec.graph):
        return spec
    try:
        _, types = plain_graph(spec)
        constants = constant_values(spec)
    except WavespecError:
        return spec
    open_dims = {
        name
        for name, dim in spec.dims.items()
        if dim.value is None and dim.max is None and not (dim.equals and {*dim.equals.names()} <= constants.keys())
    }
    walked = [dim for op in spec.graph for dim in (*_along(op, types), *_scanned(op)) if dim in open_dims]
    if not walked:
        return spec
    try:
        order = _from_outside(spec.graph, types, list(dict.fromkeys(walked)))
        taken = {*spec.dims, *spec.params, *spec.tensors, *spec.scalars, *types}
        graph = _Walk(types, frozenset(order), _read_and_written(spec), taken).block(spec.graph, order)
    except _AsItIs:
        return spec
    return spec.model_copy(update={"graph": graph})


def _read_and_written(spec: KernelSpec) -> frozenset[str]:
    return frozenset(name for name, tensor in spec.tensors.items() if tensor.role == "inout")


def _along(op: Op, types: Mapping[str, ValueType]) -> tuple[str, ...]:
    """The dims along which an op joins elements to fewer."""
    if isinstance(op, Reduce):
        return op.along
    if isinstance(op, ArgReduce):
        return (op.dim,)
    if isinstance(op, Mma) and {op.lhs, op.rhs, op.acc} <= types.keys():
        return tuple(dim for dim in types[op.lhs].dims if dim in types[op.rhs].dims and dim not in types[op.acc].dims)
    return ()


def _scanned(op: Op) -> tuple[str, ...]:
    return (op.dim,) if isinstance(op, Scan) else ()


def _from_outside(graph: Sequence[Op], types: Mapping[str, ValueType], dims: Sequence[str]) -> list[str]:
    """The dims in an order in which a loop over one has those over the following ones inside: what is joined along a
    dim for each element of another one is so in a loop over that."""
    around = {dim: set[str]() for dim in dims}
    for op in graph:
        for dim in (*_along(op, types), *_scanned(op)):
            if dim in around:
                around[dim] |= {other for other in types[getattr(op, "name", "")].dims if other in around} - {dim}
    order = list[str]()
    while len(order) < len(dims):
        free = next((dim for dim in dims if dim not in order and around[dim] <= {*order}), None)
        if free is None:
            raise _AsItIs
        order.append(free)
    return order


@dataclass(frozen=True, slots=True)
class _Walk:
    types: Mapping[str, ValueType]
    walked: frozenset[str]
    in_place: frozenset[str]
    """Tensors that are changed: nothing is read of them anew once they are written."""
    taken: set[str] = field(repr=False)

    def block(self, ops: Sequence[AnyOp], dims: Sequence[str]) -> tuple[AnyOp, ...]:
        """These statements, with loops over ``dims``, each inside of those in front of it."""
        for at, dim in enumerate(dims):
            if any(self._has(op, dim) and self._is_end(op, dim) for op in ops):
                ops = self._in_loops(ops, dim, dims[at + 1 :])
        return tuple(ops)

    def _in_loops(self, ops: Sequence[AnyOp], dim: str, inner: Sequence[str]) -> tuple[AnyOp, ...]:
        """The statements with those along a dim in loops over it: one for what is joined of elements as they are, one
        for what is joined of elements that the first loop's results go into, and so on."""
        stage = self._stages(ops, dim)
        last = max(stage[id(op)] for op in ops)
        of_dim = {id(op) for op in ops if self._has(op, dim)}
        starts = {start for op in ops if id(op) in of_dim and self._is_end(op, dim) for start in _starts(op)}
        around, made = self._around([op for op in ops if id(op) not in of_dim], starts), list[AnyOp]()
        for number in range(last + 1):
            made += [op for op in around if stage[id(op)] == number]
            ends = [op for op in ops if id(op) in of_dim and stage[id(op)] == number and self._is_end(op, dim)]
            if ends:
                made += self._loop(ops, ends, dim, inner)
        return tuple(made)

    def _around(self, ops: Sequence[AnyOp], starts: Set[str]) -> list[AnyOp]:
        """The statements around loops over a dim, without those whose elements along others these loops make anew.
        ``starts``: what the loops carry begins as."""
        kept, needed = list[AnyOp](), set(starts)
        for op in reversed(ops):
            is_anew = isinstance(op, _PURE) and any(self._has(op, other) for other in self.walked)
            if not is_anew or getattr(op, "name", "") in needed:
                kept.insert(0, op)
                needed.update(_words(op))
        return kept

    def _stages(self, ops: Sequence[AnyOp], dim: str) -> dict[int, int]:
        """Behind how many loops over the dim a statement stands, or which of them it is in."""
        behind, found = dict[str, int](), dict[int, int]()
        for op in ops:
            found[id(op)] = max((behind.get(word, 0) for word in _words(op)), default=0)
            if isinstance(op, Take) and dim in op.at and dim in self.types[op.value].dims:
                raise _AsItIs
            if isinstance(op, Scan) and op.dim == dim and (op.reverse or op.init is not None):
                raise _AsItIs
            if self._has(op, dim) and not isinstance(op, (*_PURE, Write, Reduce, Mma, ArgReduce)):
                raise _AsItIs
            for name in self._results(op):
                behind[name] = found[id(op)] + (dim in _along(op, self.types))
        last = max(found[id(op)] for op in ops if self._is_end(op, dim) and self._has(op, dim))
        for op in ops:
            if isinstance(op, Write) and op.to in self.in_place and self._has(op, dim):
                found[id(op)] = last
        return found

    def _has(self, op: AnyOp, dim: str) -> bool:
        """Whether a statement has to do with single elements along a dim."""
        if isinstance(op, Iterate):
            return False  # what it needs along other dims it makes itself
        named = [op.value] if isinstance(op, Write) else self._results(op)
        if not isinstance(op, (Write, *_PURE, Reduce, Mma, ArgReduce)):
            named = [*named, *(word for word in _words(op) if word in self.types)]
        return dim in _along(op, self.types) or any(
            dim in self.types[name].dims for name in named if name in self.types
        )

    def _is_end(self, op: AnyOp, dim: str) -> bool:
        return isinstance(op, Write) or dim in _along(op, self.types)

    def _results(self, op: AnyOp) -> list[str]:
        return [name for name in (getattr(op, "name", ""), getattr(op, "extreme", None)) if name]

    def _loop(self, ops: Sequence[AnyOp], ends: Sequence[AnyOp], dim: str, inner: Sequence[str]) -> Iterator[AnyOp]:
        """What some joins start from, a loop that makes them with writes beside, and their results by their names."""
        needed, body = set[str](), list[AnyOp]()
        for op in reversed(ops):
            if op in ends or (self._is_made_anew(op, dim) and needed & {*self._results(op)}):
                body.insert(0, op)
                needed.update(_taken(op) if dim in _along(op, self.types) else _words(op))
        carry = dict[str, str | Register]()
        for op in [one for one in body if dim in _along(one, self.types) or (isinstance(one, Scan) and one.dim == dim)]:
            at = body.index(op)
            starts, body[at : at + 1] = self._carried(op)
            carry |= starts
        for start in carry.values():
            yield from () if isinstance(start, str) else (_as_in(ends[0], start),)
        name = self._free(f"along_{dim}" if dim.isidentifier() else "along")
        first = {one: start if isinstance(start, str) else start.name for one, start in carry.items()}
        yield _as_in(ends[0], Iterate(name=name, dim=dim, carry=first, body=self.block(body, inner)))
        for one in (one for one in carry if one in self.types):  # what else it carries, nobody has a name for
            yield _as_in(ends[0], Formula(name=one, text=f"{name}.{one}"))

    def _is_made_anew(self, op: AnyOp, dim: str) -> bool:
        """Whether a loop over the dim makes what it needs of a statement itself."""
        if isinstance(op, _PURE):
            return any(self._has(op, other) for other in self.walked)
        return isinstance(op, (Reduce, Mma, ArgReduce)) and self._has(op, dim) and dim not in _along(op, self.types)

    def _carried(self, op: AnyOp) -> tuple[dict[str, str | Register], list[AnyOp]]:
        """What each result of a statement starts from, a value or a number, and the statements of one step."""
        if isinstance(op, Mma):
            return {op.name: op.acc}, [op.model_copy(update={"acc": op.name})]
        if isinstance(op, ArgReduce):
            return self._carried_places(op)
        if isinstance(op, Scan):
            of_all = _REDUCTION_OF[op.scan.function](name=self._free(f"{op.name}_before"), value=op.value, dim=op.dim)
            type_ = self.types[op.value]
            left = ValueType(tuple(dim for dim in type_.dims if dim != op.dim), type_.dtype)
            starts, step = self._joined(of_all, left)
            return starts, [op.model_copy(update={"init": of_all.name}), _as_in(op, step)]
        assert isinstance(op, Reduce)
        starts, step = self._joined(op, self.types[op.name])
        return starts, [step]

    def _joined(self, op: Reduce, type_: ValueType) -> tuple[dict[str, str | Register], Reduce]:
        number = {"add": 0, "mul": 1, "maximum": _least(type_.dtype), "minimum": _most(type_.dtype)}
        start = op.init or self._register(op.name, type_, number[op.reduction.function])
        return {op.name: start}, op.model_copy(update={"init": op.name})

    def _carried_places(self, op: ArgReduce) -> tuple[dict[str, str | Register], list[AnyOp]]:
        extreme = op.extreme or self._free(f"{op.name}_extreme")
        step = op.model_copy(update={"extreme": extreme, "init": (op.name, extreme)})
        if op.init is not None:
            return dict(zip((op.name, extreme), op.init, strict=True)), [step]
        dims, dtype = self.types[op.name].dims, self.types[op.value].dtype
        place = self._register(op.name, ValueType(dims, op.dtype), _FAR)
        worst = self._register(extreme, ValueType(dims, dtype), _least(dtype) if op.row.largest else _most(dtype))
        return {op.name: place, extreme: worst}, [step]

    def _register(self, name: str, type_: ValueType, value: float) -> Register:
        return Register(name=self._free(f"{name}_start"), shape=type_.dims, dtype=type_.dtype, value=value)

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _starts(op: AnyOp) -> tuple[str, ...]:
    """The values that a statement joins elements to."""
    if isinstance(op, Mma):
        return (op.acc,)
    if isinstance(op, ArgReduce):
        return op.init or ()
    return (op.init,) if isinstance(op, Reduce) and op.init is not None else ()


def _taken(op: AnyOp) -> list[str]:
    """The names that a statement uses for what it joins elements of."""
    taken = _words(op)
    for start in _starts(op):
        taken.remove(start)
    return taken


def _words(op: AnyOp) -> list[str]:
    """The names that a statement uses, without those that its body has for itself."""
    own = {getattr(one, "name", "") for one in walk(op.body)} if isinstance(op, Iterate) else set[str]()
    carried = [*op.carry.values()] if isinstance(op, Iterate) else []
    return [*carried, *(word for word in words_of(op) if word not in own)]


def _least(dtype: str) -> float:
    kind = DTYPES[dtype]
    return float("-inf") if kind.is_float else 0 if dtype in ("bool", "u8") else -(2 ** (kind.bits - 1))


def _most(dtype: str) -> float:
    kind = DTYPES[dtype]
    if kind.is_float:
        return float("inf")
    return 1 if dtype == "bool" else 255 if dtype == "u8" else 2 ** (kind.bits - 1) - 1


def _as_in(op: Any, made: AnyOp) -> AnyOp:
    """A statement that stands for another one, in its place in the file."""
    span = op.span
    made.was_written_at({(): Position(span)} if span else {})
    return made
