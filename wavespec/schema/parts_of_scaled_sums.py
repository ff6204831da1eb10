"""A loop that carries extremes and sums relative to them, as of attention, goes in; the kernel that runs the steps of
each part of its dim, and the one that joins what the parts have found, come out.

A step takes the larger of two maxima and multiplies its sums by a factor made of both (`split_loops.py`). So the sums
of a part, times the factor that a step makes of the part's maximum and that of all parts, are those it would have found
relative to the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Any, Final, cast

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import AnyConstraint, Tiling, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.models import Dim, KernelSpec, Tensor
from wavespec.schema.made_kernels import free_name, plain_kernel, words_of
from wavespec.schema.ops import OPS, AnyOp, Iterate, Op, Read, Register, Write, every
from wavespec.schema.products_of_sums import is_dropped
from wavespec.schema.split_loops import Carried, may_be_split
from wavespec.schema.unused_ops import without_unused

_ROWS, _COLUMNS, _PARTS = 4, 128, 32
"""Of a workgroup that joins parts, a wave for each row, and of how many parts at a time."""
_LAST_AXIS: Final = 4
_LARGEST: Final = 3.4028234663852886e38
"""Of f32."""


def has_scaled_sums(spec: KernelSpec, dim: str) -> bool:
    """Whether the loop over a dim carries extremes, and sums relative to these, of rows and columns of its products."""
    ops, types = plain_graph(spec)
    loop = next((op for op in ops if isinstance(op, Iterate) and op.dim == dim), None)
    if loop is None or not loop.carry:
        return False
    grid = {one.dim: str(one.tile) for one in spec.constraints if isinstance(one, Workgroup)}
    widest = max((types[name].dims for name in loop.carry), key=len)
    tiled = [name for name in widest if grid.get(name) not in (None, "1")]
    alone = [name for name, tile in grid.items() if tile == "1"]
    return may_be_split(ops, types, dim, tiled, alone) and bool(Carried(loop, ops, types).found)


class PartsOfScaledSums:
    """The kernels, whose dim of parts is ``part``."""

    def __init__(self, spec: KernelSpec, dim: str, count: int) -> None:
        self.spec, self.dim, self.count = spec, dim, count
        self.ops, self.types = plain_graph(spec)
        self.loop = next(op for op in self.ops if isinstance(op, Iterate) and op.dim == dim)
        self.carried = Carried(self.loop, self.ops, self.types)
        assert self.carried.are_joined()
        self.part = free_name(spec, f"{dim}_part")
        self.dims = {self.part: Dim(value=count)}
        self.tile = next(str(one.tile) for one in spec.constraints if isinstance(one, Tiling) and one.dim == dim)

    def reducing(self) -> KernelSpec:
        """The kernel that runs the steps of a part, with the tiles and the schedule of the case."""
        assert self.spec.schedule is not None
        starts = {first: self._start(first) for first in dict.fromkeys(self.loop.carry.values())}
        carry = {name: starts[first].name for name, first in self.loop.carry.items()}
        bounds = {"start": self._bound("start"), "end": self._bound("end")}
        loop = self.loop.model_copy(update={"carry": carry, **bounds})
        writes = [Write(value=f"{loop.name}.{name}", to=self._made(name)[0]) for name in carry]
        front = self.ops[: self.ops.index(self.loop)]
        graph = without_unused((*front, *starts.values(), loop, *writes), is_dropped)
        read = {op.tensor for op in every(Read, graph)}
        tensors = {name: tensor for name, tensor in self.spec.tensors.items() if name in read}
        tensors |= dict(map(self._made, carry))
        taken = {one.axis for one in self.spec.constraints if isinstance(one, Workgroup)}
        axis = next((axis for axis in range(_LAST_AXIS) if axis not in taken), _LAST_AXIS)
        tiles = (*self.spec.constraints, Workgroup(dim=self.part, tile=Num(1), axis=axis))
        kernel = plain_kernel(self.spec, loop.name, tensors, graph, tiles, self.dims)
        update = {"schedule": self.spec.schedule.model_copy(update={"parts": {}}), "params": self.spec.params}
        return kernel.model_copy(update=update).with_own_schedule(True)

    def joining(self) -> KernelSpec:
        """The kernel that goes on from what the parts have found."""
        update = {"dim": self.part, "body": tuple(self._joined()), "start": None, "end": None}
        loop = self.loop.model_copy(update=update)
        at = self.ops.index(self.loop)
        graph = without_unused((*self.ops[:at], loop, *self.ops[at + 1 :]), is_dropped)
        used = {op.tensor for op in every(Read, graph)} | {op.to for op in every(Write, graph)}
        made = dict(map(self._made, self.loop.carry))
        tensors = {name: one.model_copy(update={"role": "input"}) for name, one in made.items()}
        tensors |= {name: _global(one) for name, one in self.spec.tensors.items() if name in used and name not in made}
        return plain_kernel(self.spec, f"{self.loop.name}_joined", tensors, graph, self._tiles(), self.dims).model_copy(
            update={"name": self.spec.name, "doc": self.spec.doc, "params": self.spec.params}
        )

    def _joined(self) -> list[AnyOp]:
        """A step over parts: the extreme of these, the factor of each, and the sums of all."""
        found = list[Any]()
        read = {name: free_name(self.spec, f"{name}_of_one") for name in self.loop.carry}
        found += [Read(name=read[name], tensor=self._made(name)[0]) for name in self.loop.carry]
        for name, extreme in self.carried.found.items():
            op = self.carried.made[extreme]
            found.append(op.model_copy(update={"value": read[name], "dim": self.part}))
        factors = {name: self.carried.factors[name] for name in self.loop.carry if name in self.carried.factors}
        kept = self._behind([*(f"{name}'" for name in self.carried.found), *factors.values()])
        found += [op for op in self.loop.body if any(op is self.carried.made[key] for key in kept)]
        of_one = dict[str, str]()
        for factor in dict.fromkeys(factors.values()):
            found += self._of_each(factor, read, of_one)
        for name in self.loop.carry:
            if name not in self.carried.found:
                found += self._added(name, read[name], factors.get(name, ""), of_one)
        return found

    def _behind(self, keys: Sequence[str]) -> list[str]:
        """What values are made of by a step, themselves among them, from extremes on."""
        pending, known = [*keys], list[str]()
        given = {*self.carried.found, *self.carried.found.values()}
        while pending:
            key = pending.pop()
            if key in known or key in given or key not in self.carried.made:
                continue
            known.append(key)
            pending += self.carried.used[key]
        return known

    def _of_each(self, factor: str, read: dict[str, str], of_one: dict[str, str]) -> list[Any]:
        """What makes a factor, of the extremes of each part in place of those in front of a step."""
        extremes = self._behind([f"{name}'" for name in self.carried.found])  # which are those of all parts
        keys = {*self._behind([factor])} - {*extremes}
        found, begun = list[Any](), {name: read[name] for name in self.carried.found}
        for op in self.loop.body:
            key = next((key for key in keys if self.carried.made[key] is op), "")
            changed = {self.carried.used[key][at]: one for at, one in enumerate(_words(op, self.types))} if key else {}
            if {*changed}.isdisjoint({*begun, *of_one}):
                continue
            of_one[key] = free_name(self.spec, f"{key}_of_one")
            names = {word: of_one.get(used, begun.get(used, word)) for used, word in changed.items()}
            operands = {field: getattr(op, field) for field in type(op).model_fields if field not in ("name", "op")}
            fields = {field: names.get(one, one) for field, one in operands.items() if isinstance(one, str)}
            found.append(op.model_copy(update={**fields, "name": of_one[key]}))
        return found

    def _added(self, name: str, read: str, factor: str, of_one: dict[str, str]) -> list[Any]:
        """The sum of the parts' sums, added to what is carried."""
        scaled, more, before = (free_name(self.spec, f"{name}_{what}") for what in ("scaled", "of_parts_too", "before"))
        found: list[Any] = [OPS["mul"](**_pair(scaled, read, of_one[factor]))] if factor else []
        found.append(OPS["sum"](**{"name": more, "value": scaled if factor else read, "dim": self.part}))
        found += [OPS["mul"](**_pair(before, name, factor))] if factor else []
        return [*found, OPS["add"](**_pair(name, before if factor else name, more))]

    def _start(self, name: str) -> Register:
        """What a part starts from: its dim behind those that all rows have, so that rows stay the first of a product.
        A part may have nothing that counts: infinity less infinity would be no number."""
        op = next(op for op in self.ops if isinstance(op, Register) and op.name == name)
        value = min(max(op.value, -_LARGEST), _LARGEST) if isinf(op.value) else op.value
        start = free_name(self.spec, f"{name}_of_part")
        return op.model_copy(update={"name": start, "shape": self._in_parts(op.shape), "value": value})

    def _in_parts(self, dims: Sequence[str]) -> tuple[str, ...]:
        common = set(dims).intersection(*(self.types[name].dims for name in self.loop.carry))
        own = [dim for dim in dims if dim in common]
        return (*own, self.part, *(dim for dim in dims if dim not in common))

    def _made(self, name: str) -> tuple[str, Tensor]:
        kind = self.types[f"{self.loop.name}.{name}"]
        shape = self._in_parts(kind.dims)
        return free_name(self.spec, f"{name}_of_parts"), Tensor(shape=shape, dtype=kind.dtype, role="output")

    def _bound(self, edge: str) -> Expression:
        each = f"ceildiv({self.dim}, {self.count} * ({self.tile})) * ({self.tile})"
        return parse_expression(f"{edge}({self.part}) * ({each})")

    def _tiles(self) -> list[AnyConstraint]:
        """A wave for each row, and columns side by side."""
        *outer, row, column = max((self.types[name].dims for name in self.loop.carry), key=len)
        found: list[AnyConstraint] = [
            Workgroup(dim=row, tile=Num(_ROWS), axis=0),
            Workgroup(dim=column, tile=Num(_COLUMNS), axis=1),
        ]
        found += [Workgroup(dim=dim, tile=Num(1), axis=min(axis, _LAST_AXIS)) for axis, dim in enumerate(outer, 2)]
        return [*found, Wave(dim=row, tile=Num(1)), Tiling(dim=self.part, tile=Num(min(_PARTS, self.count)))]


def _global(tensor: Tensor) -> Tensor:
    return tensor.model_copy(update={"space": "global"})


def _words(op: Op, types: object) -> list[str]:
    return [word for word in words_of(op) if word in cast("dict[str, object]", types)]


def _pair(name: str, lhs: str, rhs: str) -> dict[str, Any]:
    return {"name": name, "lhs": lhs, "rhs": rhs}
