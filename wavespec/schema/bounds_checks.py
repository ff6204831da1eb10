"""A spec goes in; the spec that writes which places of its accesses lie outside to outputs of their own comes out.

Every access with an index mapping is checked, along every dim that its mapping may leave.  What is written is 0 for a
place inside, a place below 0 as it is, and one beyond the end and 1 more: outputs start as zeros, so that what a branch
leaves out is not outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from wavespec.schema.checking.check_graph import plain_graph, types_at_accesses
from wavespec.schema.computed_places import ComputedPlaces, Place
from wavespec.schema.further_outputs import with_outputs
from wavespec.schema.language.expressions import Binary, Expression, Name, Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import (
    AnyOp,
    Branch,
    Formula,
    Iterate,
    Read,
    Register,
    Repeat,
    Structured,
    Take,
    Write,
    Written,
    walk,
)
from wavespec.schema.ops.base import Op, ValueType
from wavespec.schema.ops.elementwise import shared_dims
from wavespec.schema.resolve import parameters_of_sizes

Access = Read | Take | Written
_IN_STEPS = "it is in a loop over tiles inside of a 'repeat', and no output has room for each of its steps"
_TOO_MUCH = "it follows from indices and sizes alone, and with all such places the kernel has too much code"


class CheckedPlace(NamedTuple):
    """The place of an access along one dim; ``is_data``: whether it depends on what a call passes, not on indices and
    sizes alone."""

    op: Access
    dim: str
    is_data: bool

    @property
    def within(self) -> str:
        """The name of the tensor, or of the value."""
        return self.op.to if isinstance(self.op, Written) else getattr(self.op, self.op.headline[0])


class UncheckedPlace(NamedTuple):
    place: CheckedPlace
    why: str


class Checked(NamedTuple):
    """``outputs``: of ``spec``, i64, with the places that each is about."""

    spec: KernelSpec
    outputs: Mapping[str, CheckedPlace]
    unchecked: tuple[UncheckedPlace, ...]


class _Found(NamedTuple):
    """What is outside of one place: the output that has it, the value that is it, and its dims."""

    output: str
    value: str
    dims: tuple[str, ...]

    @property
    def kept(self) -> str:
        """The name of what a `repeat` carries of it."""
        return f"{self.output}_kept"


def with_bounds_checks(spec: KernelSpec, *, of_data_alone: bool = False) -> Checked:
    """The spec with an output, behind its own, for every place of an access that is not known to be inside; or for
    those that depend on data, where the others would be too much code.

    Raises:
        WavespecError: a kernel for that cannot be.
    """
    checks = _Checks(spec, of_data_alone)
    graph = tuple(checks.written(spec.graph, ()))
    if not checks.outputs:
        return Checked(spec, {}, tuple(checks.unchecked))
    outputs = {name: ValueType(checks.dims[name], "i64") for name in checks.outputs}
    whole = with_outputs(_of_one_size(spec, checks.dims.values()), outputs, graph)
    return Checked(whole, checks.outputs, tuple(checks.unchecked))


def _of_one_size(spec: KernelSpec, shapes: Iterable[tuple[str, ...]]) -> KernelSpec:
    """The spec without what gives a dim of such a shape another size, or other places, in a case or on a target: what
    outputs have is the same everywhere."""
    following = parameters_of_sizes(spec)
    fixed = {name for shape in shapes for dim in shape for name in following.get(dim, ())}
    targets = dict(spec.targets)
    for name, one in targets.items():
        alike = (case for case in one.cases if fixed.isdisjoint(case.params or ()))
        cases = tuple(case for case in alike if case.schedule is None or not case.schedule.pack)
        params = {param: value for param, value in one.params.items() if param not in fixed}
        targets[name] = one.model_copy(update={"cases": cases, "params": params})
    return spec.model_copy(update={"targets": targets})


class _Checks:
    def __init__(self, spec: KernelSpec, of_data_alone: bool) -> None:
        self.spec, self.places, self.types = spec, ComputedPlaces(spec), types_at_accesses(spec)
        self.stem = "outside"
        while any(
            name.startswith(self.stem) for name in (*spec.tensors, *spec.dims, *spec.params, *plain_graph(spec)[1])
        ):
            self.stem += "_"
        self.outputs: dict[str, CheckedPlace] = {}
        self.dims: dict[str, tuple[str, ...]] = {}
        self.unchecked: list[UncheckedPlace] = []
        self.of_data_alone = of_data_alone

    def written(self, body: Iterable[AnyOp], loops: tuple[str, ...]) -> Iterator[AnyOp]:
        """The body, inside of ``loops``, with what is outside written in front of each access."""
        for op in body:
            if isinstance(op, Repeat):
                carried = list[_Found]()
                loop = self._carrying(op, carried)
                for one in carried:
                    yield Register(name=f"{one.kept}_before", shape=one.dims, dtype="i64", value=0)
                first = {one.kept: f"{one.kept}_before" for one in carried}
                yield loop.model_copy(update={"carry": loop.carry | first})
                for one in carried:
                    yield from self._write(one._replace(value=f"{op.name}.{one.kept}"), loops)
            elif isinstance(op, Structured):
                around = (*loops, op.dim) if isinstance(op, Iterate) else loops
                yield op.with_bodies(partial(self.written, loops=around))
            else:
                for place in self._open(op):
                    statements, found = self._outside(place)
                    yield from statements
                    yield from self._write(found, loops)
                yield op

    def _write(self, found: _Found, loops: tuple[str, ...]) -> Iterator[AnyOp]:
        """Writes a value to its output, with elements for each step of the loops around."""
        output, value, dims = found
        for dim in loops:
            if dim not in dims:
                every = Formula(name=f"{output}_in_{loops.index(dim)}", text=f"where(index({dim}) >= 0, {value}, 0)")
                yield every
                value, dims = every.name, shared_dims(((dim,), dims))
        self.dims[output] = dims
        yield Write(value=value, to=output)

    def _carrying(self, op: Repeat | Branch, carried: list[_Found]) -> Repeat | Branch:
        """The loop, or branch, with what is outside in its bodies, which is added to ``carried``, and is to be
        carried."""
        return op.with_bodies(lambda body: self._accumulated(body, carried))

    def _accumulated(self, body: Iterable[AnyOp], carried: list[_Found]) -> Iterator[AnyOp]:
        """The body in which what is carried stays, or where it is 0 becomes what is outside now."""
        for op in body:
            if isinstance(op, Iterate):
                self.unchecked += [
                    UncheckedPlace(place, _IN_STEPS) for one in walk(op.body) for place in self._open(one)
                ]
                yield op
            elif isinstance(op, Repeat | Branch):
                inner = list[_Found]()
                made = self._carrying(op, inner)
                yield made.model_copy(update={"carry": made.carry | {one.kept: one.kept for one in inner}})
                yield from (Formula(name=one.kept, text=f"{op.name}.{one.kept}") for one in inner)
                carried += inner
            else:
                for place in self._open(op):
                    statements, found = self._outside(place)
                    yield from statements
                    yield Formula(name=found.kept, text=f"where({found.kept} == 0, {found.value}, {found.kept})")
                    carried.append(found)
                yield op

    def _open(self, op: Op) -> Iterator[CheckedPlace]:
        """The places of an access that are not known to be inside."""
        if isinstance(op, Read | Take | Written):
            for dim, place in op.at.items():
                computed = self._computed(op, place, self.stem)
                is_inside = computed.low >= 0 and computed.high < self.places.size(dim)[0]
                if is_inside or self._is_along(dim, place, op):
                    continue
                found = CheckedPlace(op, dim, computed.is_data)
                if found.is_data or not self.of_data_alone:
                    yield found
                else:
                    self.unchecked.append(UncheckedPlace(found, _TOO_MUCH))

    def _computed(self, op: Access, place: Expression, prefix: str) -> Place:
        return self.places.compute(place, self.types[id(op)], prefix)

    def _tile(self, op: Access) -> tuple[str, ...]:
        """The dims of the value that is read or written."""
        return self.types[id(op)][""].dims

    def _is_along(self, dim: str, place: Expression, op: Access) -> bool:
        """Whether a place is the index along a dim of the same size, or the half of it where that is the size:
        `K // 2` along `K // 2`, where 2 divides K."""
        match place:
            case Name(name=name) if name in self._tile(op):
                return name == dim or self.spec.dims[dim].equals == place or self.spec.dims[name].equals == Name(dim)
            case Binary(op="//", left=Name(name=name), right=Num(value=int(by))) if name in self._tile(op):
                return self.spec.dims[dim].equals == place and self.spec.dims[name].multiple_of % by == 0
            case _:
                return False

    def _outside(self, place: CheckedPlace) -> tuple[list[Formula], _Found]:
        """The statements that compute where a place is outside, for an output of its own."""
        output = f"{self.stem}_{len(self.outputs)}"
        self.outputs[output] = place
        at = self._computed(place.op, place.op.at[place.dim], output)
        if at.number is not None:
            at = self.places.add(f"i64({at.text})", at.low, at.high)
        above = self.places.add(f"where({at.text} >= size({place.dim}), {at.text} + 1, 0)", 0, 0, at)
        found = self.places.add(f"where({at.text} < 0, {at.text}, {above.text})", 0, 0, at, above)
        return self.places.made, _Found(output, found.text, found.dims)
