"""A spec whose products sum over a dim that is that of results as well goes in, such as the one of a head of keys and
of values; the spec whose results have a dim of their own, of the same size, comes out: one that tiles can split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from wavespec.diagnostics import WavespecError
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import free_name, words_of
from wavespec.schema.ops import (
    ELEMENTWISE,
    AnyOp,
    Bitcast,
    Cast,
    Formula,
    Index,
    Iterate,
    Mma,
    Op,
    Read,
    Reduce,
    Register,
    Structured,
    ValueType,
    Write,
    every,
    walk,
)
from wavespec.schema.tiled_loops import with_tiled_loops

_ELEMENTS = (*ELEMENTWISE, Bitcast, Cast, Formula)
_KNOWN = (*_ELEMENTS, Index, Iterate, Mma, Read, Reduce, Register, Write)
"""What a dim can be renamed in."""
_SUMMED = "summed by "


def with_own_columns(spec: KernelSpec) -> KernelSpec:
    """The spec itself where no dim has both uses, or where values have it in both."""
    if sum(1 for _ in every(Mma, spec.graph)) < 2:
        return spec
    try:
        _, types = plain_graph(with_tiled_loops(spec))
    except WavespecError:  # checks report it
        return spec
    for dim in spec.dims:
        uses = _Uses(spec, types, dim)
        if uses.are_apart():
            spec = uses.spec_with_own()
    return spec


class _Uses:
    """The values of a graph that have a dim, in classes that an op makes one of the other."""

    def __init__(self, spec: KernelSpec, types: Mapping[str, ValueType], dim: str) -> None:
        self.spec, self.types, self.dim = spec, types, dim
        self.ops = list(walk(spec.graph))
        self.reads = {op.name: op for op in self.ops if isinstance(op, Read)}
        self.above: dict[str, str] = {}
        for op in self.ops:
            for own, operand in self._met(op):
                if operand not in self.reads:
                    self.above[self.class_of(operand)] = self.class_of(own)

    def are_apart(self) -> bool:
        """Whether a product sums over the dim, another one has it as columns, and no value is of both."""
        columns = [op for op in every(Mma, self.spec.graph) if self.is_columns(op)]
        summed = [op for op in every(Mma, self.spec.graph) if self._is_summed(op)]
        if not columns or not summed or self._is_elsewhere():
            return False
        self.own = {self.class_of(op.name) for op in columns}
        return self.own.isdisjoint(self.class_of(_SUMMED + op.name) for op in summed)

    def spec_with_own(self) -> KernelSpec:
        name = free_name(self.spec, f"{self.dim}_of_results")
        size = self.spec.dims[self.dim].model_copy(update={"equals": parse_expression(self.dim)})
        graph = _Renamed(self, name).body(self.spec.graph)
        return self.spec.model_copy(update={"dims": {**self.spec.dims, name: size}, "graph": graph})

    def is_own(self, name: str) -> bool:
        """Whether a value, which is not read, gets the dim of its own."""
        return self.has(name) and self.class_of(name) in self.own

    def uses_of(self, read: Read) -> set[bool]:
        """Whether what uses a read gets the dim of its own."""
        return {
            self.class_of(own) in self.own for op in self.ops for own, operand in self._met(op) if operand == read.name
        }

    def has(self, name: str) -> bool:
        return name in self.types and self.dim in self.types[name].dims

    def class_of(self, name: str) -> str:
        while name in self.above and self.above[name] != name:
            name = self.above[name]
        return name

    def _met(self, op: Op) -> Iterable[tuple[str, str]]:
        """Which values with the dim an op makes one class, each with that of what the op makes."""
        if isinstance(op, Mma):
            side = _SUMMED + op.name if self._is_summed(op) else op.name
            pairs = [(side, op.lhs), (side, op.rhs), (op.name, op.acc)]
        elif isinstance(op, Iterate):
            pairs = [*op.carry.items()]
        elif isinstance(op, Reduce):
            pairs = [(_SUMMED + op.name if self.dim in op.along else op.name, one) for one in op.values]
        elif isinstance(op, Write):
            pairs = [(_written(op), op.value)]
        else:
            pairs = [(op.name, word) for word in words_of(op)] if isinstance(op, _ELEMENTS) else []
        return [(own, _last(operand)) for own, operand in pairs if self.has(operand) or self.has(_last(operand))]

    def _is_summed(self, op: Mma) -> bool:
        return self.has(op.lhs) and self.has(op.rhs) and not self.has(op.acc)

    def is_columns(self, op: Mma) -> bool:
        return self.has(op.rhs) and self.has(op.acc) and not self.has(op.lhs)

    def _is_elsewhere(self) -> bool:
        """Whether something speaks of the dim that is not renamed."""
        of_dim = [op for op in self.ops if isinstance(op, Index | Iterate) and op.dim == self.dim]
        if of_dim or any(not isinstance(op, _KNOWN) for op in self.ops):
            return True
        mapped = (op for op in self.ops if isinstance(op, Read | Write))
        return any(self.dim in op.at or self.dim in _names(op.at.values()) for op in mapped)


class _Renamed:
    """The graph in which values of one class have another dim."""

    def __init__(self, uses: _Uses, name: str) -> None:
        self.uses, self.name = uses, name
        self.twice = {
            read.name: free_name(uses.spec, f"{read.name}_as_{name}")
            for read in uses.reads.values()
            if len(uses.uses_of(read)) > 1
        }
        self.place = {uses.dim: parse_index(name)}

    def body(self, ops: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
        return tuple(one for op in ops for one in self._changed(op))

    def _changed(self, op: AnyOp) -> Iterable[AnyOp]:
        uses = self.uses
        if isinstance(op, Structured):
            yield op.with_bodies(self.body)
        elif isinstance(op, Read) and op.name in uses.types and uses.has(op.name):
            own = op.model_copy(update={"dims": self._dims(uses.types[op.name].dims), "at": {**op.at, **self.place}})
            if op.name in self.twice:
                yield op
                yield own.model_copy(update={"name": self.twice[op.name]})
            else:
                yield own if True in uses.uses_of(op) else op
        elif isinstance(op, Write) and uses.has(_last(op.value)) and uses.class_of(_written(op)) in uses.own:
            yield op.model_copy(update={"at": {**op.at, **self.place}})
        elif isinstance(op, Register) and uses.is_own(op.name):
            yield op.model_copy(update={"shape": self._dims(uses.types[op.name].dims)})
        elif isinstance(op, Formula) and uses.is_own(op.name):
            text = re.sub(rf"\bindex\(\s*{re.escape(uses.dim)}\s*\)", f"index({self.name})", op.text)
            for one, other in self.twice.items():
                text = re.sub(rf"\b{re.escape(one)}\b", other, text)
            yield op.model_copy(update={"text": text})
        elif isinstance(op, Mma) and uses.is_columns(op):
            yield op.model_copy(update={"rhs": self.twice.get(op.rhs, op.rhs)})
        elif isinstance(op, Bitcast | Cast) and uses.is_own(op.name):
            yield op.model_copy(update={"value": self.twice.get(op.value, op.value)})
        else:
            yield op

    def _dims(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.name if dim == self.uses.dim else dim for dim in dims)


def _written(op: Write) -> str:
    return f"written to {op.to}"


def _last(name: str) -> str:
    """Of ``loop.name``, the name."""
    return name.rpartition(".")[2]


def _names(places: Iterable[Expression]) -> set[str]:
    return {name for place in places for name in place.names()}
