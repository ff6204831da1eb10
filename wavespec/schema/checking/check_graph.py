"""The graph of a spec goes in; names, types and writes that do not fit come out, at their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from wavespec.diagnostics import Related, Span, WavespecError, Where, name_hints, quote, raise_all
from wavespec.schema.checking.check_in_place import check_in_place
from wavespec.schema.checking.check_joins import check_joins
from wavespec.schema.checking.check_places import check_place
from wavespec.schema.language.constraints import Tiling
from wavespec.schema.language.dim_names import is_expression
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.errors import ANY_NAME
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.language.scalars import Scalar
from wavespec.schema.ops import AnyOp, Branch, Formula, Iterate, Read, Structured, Take, Written, walk
from wavespec.schema.ops.base import Op, ValueOp, ValueType
from wavespec.schema.ops.mapping import index_names
from wavespec.schema.resolve import UndefinedName, names_of_calls, resolve_params


class RedefinedName(WavespecError, code="redefined-name"):
    """A name is defined again where it already means something."""

    def __init__(self, where: Where, name: str, what: str, first: Span | None) -> None:
        super().__init__(
            where,
            f"{quote(name)} is already {what}; a name means one thing in a spec.",
            related=[Related(first, "first")] if first else [],
        )


class UndefinedValue(WavespecError, code="undefined-name"):
    """An operand names no value that is visible at the op."""


class NeverWritten(WavespecError, code="never-written"):
    def __init__(self, where: Where, tensor: str, role: str) -> None:
        super().__init__(
            where,
            f"Nothing is written to the {'output ' if role == 'output' else 'inout tensor '}{quote(tensor)}.",
            hints=[f"End the graph with '- {{write: value, to: {tensor}}}'."],
        )


class WrittenTwice(WavespecError, code="written-twice"):
    def __init__(self, where: Where, tensor: str, first: Span | None) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} is written already; every output is written once.",
            hints=[
                "Delete one of the writes, make one value of both ('where(index(N) < ..., one, other)'), or give the "
                "second one an output of its own."
            ],
            related=[Related(first, "first")] if first else [],
        )


class UnusedScalar(WavespecError, code="unused-scalar", severity="warning"):
    def __init__(self, where: Where, scalar: str) -> None:
        super().__init__(where, f"Nothing uses {quote(scalar)}.", hints=["Delete it."])


class UnusedTensor(WavespecError, code="unused-tensor", severity="warning"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(where, f"The graph never reads {quote(tensor)}.")


SECTIONS = (("dims", "a dim"), ("params", "a parameter"), ("tensors", "a tensor"), ("scalars", "a scalar"))
"""The parts of a spec that define names, and what these are."""


def plain_graph(spec: KernelSpec) -> tuple[tuple[AnyOp, ...], dict[str, ValueType]]:
    """The graph of a checked spec with plain ops in place of every expression, and the type of every value.

    Raises:
        WavespecError: what the constraints of a target leave out, where those of others have it.
    """
    scope = _GraphScope(spec, frozenset(), is_whole=True)
    scope.run(spec.graph)
    raise_all(scope.errors)
    return tuple(scope.plain(spec.graph)), scope.types


def types_at_accesses(spec: KernelSpec) -> dict[int, dict[str, ValueType]]:
    """Of each access of a checked spec that has a mapping, by its `id`, the types of the values that stand in its
    places, and of what it reads or writes under the empty name: names mean something else in another loop.

    Raises:
        WavespecError: as `plain_graph`.
    """
    scope = _GraphScope(spec, frozenset(), is_whole=True)
    scope.run(spec.graph)
    raise_all(scope.errors)
    return scope.of_accesses


def check_graph(spec: KernelSpec, broken: frozenset[str], *, is_whole: bool) -> list[WavespecError]:
    scope = _GraphScope(spec, broken, is_whole)
    scope.run(spec.graph)
    if is_whole and not scope.errors:
        scope.errors += [*check_in_place(spec), *check_joins(spec.graph, scope.types, scope.plain)]
        for name, tensor in spec.tensors.items():
            where = spec.where_key("tensors", name)
            if tensor.role != "input" and name not in scope.used:
                scope.report(NeverWritten(where, name, tensor.role))
            if tensor.role == "input" and name not in scope.used:
                scope.report(UnusedTensor(where, name))
        used = scope.used.union(_names_of_bounds(spec), names_of_calls(spec))
        for name in spec.scalars:
            if name not in used:
                scope.report(UnusedScalar(spec.where_key("scalars", name), name))
    return scope.errors


def _known_dims(spec: KernelSpec) -> Iterator[str]:
    """The dims of a spec but for expressions with a name that nothing has."""
    names = {*spec.dims, *spec.params, *spec.scalars}
    for name, dim in spec.dims.items():
        if dim.equals is None or not is_expression(name) or names.issuperset(dim.equals.names()):
            yield name


def _names_of_bounds(spec: KernelSpec) -> Iterator[str]:
    """The names in tiles and their bounds."""
    overrides = [over for settings in spec.targets.values() for over in (settings, *settings.cases)]
    for one in (*spec.constraints, *(one for over in overrides for one in over.constraints or ())):
        for bound in (getattr(one, field, None) for field in ("tile", "start", "count", "end")):
            yield from () if bound is None else bound.names()


class _Frame:
    """The names of one body. `incoming` are the carried names, and those that must have been meant to be carried, once
    this was reported, which are `meant`; `makes` are the names of its results; `walked` is the dim of its loop, if it
    is one's."""

    def __init__(
        self, incoming: dict[str, ValueType | None], makes: frozenset[str] = frozenset(), walked: str = ""
    ) -> None:
        self.incoming, self.makes, self.walked = incoming, makes, walked
        self.defined: dict[str, ValueType | None] = {}
        self.spans: dict[str, Span | None] = {}
        self.meant: set[str] = set()


class _GraphScope:
    def __init__(self, spec: KernelSpec, broken: frozenset[str], is_whole: bool) -> None:
        self.spec = spec
        self.broken = broken
        self.is_whole = is_whole
        self.frames = [_Frame({})]
        self.frames[0].defined.update({name: ValueType((), one.dtype) for name, one in spec.scalars.items()})
        self.loop_names: set[str] = set()
        self.around: list[Op] = []
        self.used: set[str] = set()
        self.writes: dict[str, Span | None] = {}
        self.errors: list[WavespecError] = []
        self.types: dict[str, ValueType] = {name: ValueType((), one.dtype) for name, one in spec.scalars.items()}
        self.expanded: dict[int, tuple[Op, ...]] = {}
        self.of_accesses: dict[int, dict[str, ValueType]] = {}
        made = (name for op in walk(spec.graph) for name in _results(op).values())
        self.taken = {*spec.dims, *spec.params, *spec.tensors, *spec.scalars, *made}
        self.params: dict[str, int] | None = None
        self.dims = {*_known_dims(spec)}

    def run(self, body: tuple[Op, ...]) -> None:
        for op in body:
            names = _results(op)
            for field, name in names.items():
                where = op.where_key(field) if field == "name" else op.where(field)
                self._refuse_redefinition(where, name)
            self.around.append(op)
            found = len(self.errors)
            result = op.infer(self)
            self.around.pop()
            if isinstance(op, Read | Take | Written) and op.at:
                self._see_access(op, result)
            if not isinstance(op, Structured) and any(one.severity == "error" for one in self.errors[found:]):
                self.errors[found:] = _of_one_operand(self.errors[found:])
                result = None  # a guess would not fit what the next statements make of it
            if isinstance(op, ValueOp):
                frame = self.frames[-1]
                for field, name in names.items():
                    if field != "name" and name == op.name:
                        self.report(RedefinedName(op.where(field), name, "a value", op.key_span_of("name")))
                    frame.spans[name] = op.key_span_of(field) if field == "name" else op.span_of(field)
                self.define(op.name, result)
                for name in names.values():
                    frame.defined.setdefault(name, None)  # a further result of what has a mistake
                if not op.is_value:
                    self.loop_names.add(op.name)

    def _see_access(self, op: Read | Take | Written, result: ValueType | None) -> None:
        known = {name: self.type_of(name) for place in op.at.values() for name in index_names(place)}
        known[""] = self.type_of(op.value) if isinstance(op, Written) else result
        self.of_accesses[id(op)] = {name: type_ for name, type_ in known.items() if type_ is not None}

    def value(self, op: Op, *path: str | int) -> ValueType | None:
        reference = str(_field(op, path))
        if reference in self.loop_names:
            self.report(self._loop_is_no_value(op.where(*path), reference))
            return None
        for frame in reversed(self.frames):
            for names in (frame.defined, frame.incoming):
                if reference in names:
                    self.used.add(reference)
                    return names[reference]
        if not self.broken.intersection((ANY_NAME, *reference.split("."))):
            self.report(self._undefined(op.where(*path), reference))
            if frame := self._made_later(reference):
                frame.incoming[reference] = None
                frame.meant.add(reference)
        return None

    def tensor(self, op: Op, *path: str | int) -> Tensor | None:
        name = str(_field(op, path))
        self.used.add(name)
        if name not in self.spec.tensors and name not in self.broken:
            self.report(UndefinedName(op.where(*path), name, "a tensor", list(self.spec.tensors)))
        tensor = self.spec.tensors.get(name)
        is_sound = tensor is not None and len({*tensor.shape} & self.dims) == len(tensor.shape)
        return tensor if is_sound else None

    def write(self, op: Op, *path: str | int) -> None:
        name = str(_field(op, path))
        if name in self.writes:
            self.report(WrittenTwice(op.where(*path), name, self.writes[name]))
        else:
            self.writes[name] = op.span_of(*path)

    def dim(self, op: Op, *path: str | int) -> str | None:
        name = str(_field(op, path))
        if name not in self.spec.dims:
            if name not in self.broken:
                self.report(UndefinedName(op.where(*path), name, "a dim", list(self.spec.dims)))
            return None
        return name

    def size(self, dim: str) -> int | None:
        return self.spec.dims[dim].value

    def least(self, dim: str) -> int:
        return self.spec.dims[dim].value or self.spec.dims[dim].min

    def is_dim(self, name: str) -> bool:
        return name in self.spec.dims

    def place(self, op: Op, *path: str | int, carried: Mapping[str, ValueType | None] | None = None) -> None:
        expression, carried = _field(op, path), carried or {}
        assert isinstance(expression, Expression)

        def dtype_of(name: str) -> DType | None:
            known = carried[name] if name in carried else self.type_of(name)
            return known.dtype if known else None

        broken = self.broken | {name for name, known in carried.items() if known is None}
        self.errors += check_place(self.spec, expression, op.where(*path), broken, dtype_of, carried)

    def is_tiled(self, dim: str) -> bool:
        constraints = [*self.spec.constraints]
        for override in self.spec.targets.values():
            constraints += override.constraints or ()
        tiled = {one.dim for one in constraints if isinstance(one, Tiling)}
        return not self.is_whole or dim in tiled or not tiled <= self.spec.dims.keys()

    def report(self, error: WavespecError) -> None:
        self.errors.append(error)

    def is_walked(self, dim: str) -> bool:
        return any(frame.walked == dim for frame in self.frames)

    def is_carried(self, name: str, dim: str) -> bool:
        own = next((frame for frame in reversed(self.frames) if name in frame.incoming), None)
        return own is not None and own.walked == dim

    def inside(
        self,
        carried: dict[str, ValueType | None],
        body: tuple[Op, ...],
        walked: str,
        known: Mapping[str, ValueType | None],
    ) -> dict[str, ValueType | None]:
        outer = _Frame({})
        outer.defined.update(known)
        self.frames.append(outer)
        self.frames.append(_Frame(carried, frozenset(name for op in body for name in _results(op).values()), walked))
        self.run(body)
        frame = self.frames.pop()
        self.frames.pop()
        # A statement that could not be read may have redefined the name, or one that is carried under another one.
        is_sure = self.is_whole and not frame.meant
        return frame.defined if is_sure else {**dict.fromkeys(carried), **frame.defined}

    def loops(self) -> tuple[str, ...]:
        return tuple(op.dim for op in self.around if isinstance(op, Iterate))

    def conditions(self) -> tuple[str, ...]:
        branches = (op for op in self.around if isinstance(op, Branch))
        names = [name for branch in branches for name in index_names(branch.condition)]
        values = [self.type_of(name) for name in names if name not in self.spec.dims]
        of_values = [dim for value in values if value is not None for dim in value.dims]
        return tuple(dict.fromkeys([*(name for name in names if name in self.spec.dims), *of_values]))

    def define(self, name: str, value: ValueType | None) -> None:
        self.frames[-1].defined[name] = value
        if value is not None:
            self.types[name] = value

    def param(self, name: str) -> int | None:
        if name not in self.spec.params:
            return None
        if self.params is None:
            try:
                self.params = resolve_params(self.spec)
            except WavespecError:  # reported where parameters are checked
                self.params = dict.fromkeys(self.spec.params, 1)
        return self.params[name]

    def scalar(self, name: str) -> Scalar | None:
        return self.spec.scalars.get(name)

    def dtype_of(self, name: str) -> DType | None:
        found = self.type_of(name)
        return found.dtype if found else None

    def type_of(self, name: str) -> ValueType | None:
        for frame in reversed(self.frames):
            for names in (frame.defined, frame.incoming):
                if found := names.get(name):
                    self.used.add(name)
                    return found
        return None

    def is_value(self, name: str) -> bool:
        return name in self._visible()

    def is_broken(self, name: str) -> bool:
        return bool(self.broken.intersection((ANY_NAME, *name.split("."))))

    def is_taken(self, name: str) -> bool:
        return name in self.taken

    def expand(self, op: Op, plain: tuple[Op, ...]) -> None:
        self.expanded[id(op)] = plain

    def plain(self, body: Sequence[AnyOp]) -> Iterator[AnyOp]:
        """The ops of a body, those that expressions stand for in their place."""
        for op in body:
            if isinstance(op, Formula):
                yield from cast("tuple[AnyOp, ...]", self.expanded[id(op)])
            else:
                bodies = op.bodies if isinstance(op, Structured) else ()
                plain = {field: tuple(self.plain(getattr(op, field))) for field in bodies}
                yield op.model_copy(update=plain) if plain else op

    def _refuse_redefinition(self, where: Where, result: str) -> None:
        for section, what in SECTIONS:
            if result in getattr(self.spec, section):
                self.report(RedefinedName(where, result, what, self.spec.key_span_of(section, result)))
                return
        for frame in reversed(self.frames):
            if result in frame.defined:
                self.report(RedefinedName(where, result, "a value", frame.spans.get(result)))
                self.frames[-1].incoming[result] = None
                return
            if result in frame.incoming:
                return

    def _loop_is_no_value(self, where: Where, loop: str) -> WavespecError:
        results = [name for name in self._visible() if name.startswith(f"{loop}.")]
        hints = [f"Its results are {', '.join(map(quote, results))}."] if results else []
        return UndefinedValue(where, f"{quote(loop)} is a loop, not a value.", hints=hints, about=[loop])

    def _undefined(self, where: Where, reference: str) -> WavespecError:
        message = f"{quote(reference)} is not a value of the graph at this point."
        visible, head = self._visible(), reference.partition(".")[0]
        heads = {name.partition(".")[0] for name in visible if "." in name}
        if head != reference and head not in heads:
            message = f"{quote(head)} is not a loop or a branch in front of this, whose results have its name."
            hints = name_hints(head, heads, "The loops and branches here are")
            return UndefinedValue(where, message, hints=hints, about=[head])
        results = [name for name in visible if name.endswith(f".{reference}")]
        if reference in self.spec.tensors:
            hints = (f"It is a tensor: read it first, as in '- {reference}_tile: {{read: {reference}}}'.",)
        elif results:
            hints = (f"After the loop it is {quote(results[0])}.",)
        elif self._made_later(reference):
            hints = (f"The body makes it below; 'carry: {{{reference}: ...}}' says what it is in the first step.",)
        elif reference in {getattr(op, "name", "") for op in self.spec.graph}:
            hints = (f"The graph makes it below: put this statement behind '- {reference}: ...'.",)
        else:
            written = [name for name in visible if "." in name or name in self.taken]  # not parts of formulas
            hints = name_hints(reference, written, "The values here are")
            hints = hints or ("Read a tensor first: '- tile: {read: tensor}'.",)
        return UndefinedValue(where, message, hints=hints, about=[reference])

    def _made_later(self, name: str) -> _Frame | None:
        """The innermost body that makes a value of that name, further down."""
        return next((frame for frame in reversed(self.frames) if name in frame.makes), None)

    def _visible(self) -> list[str]:
        names = [name for frame in self.frames for name in (*frame.incoming, *frame.defined)]
        return [name for name in dict.fromkeys(names) if name not in self.loop_names]


_OF_TYPES = ("dims-mismatch", "dtype-mismatch", "number-out-of-range")


def _of_one_operand(errors: Sequence[WavespecError]) -> Iterator[WavespecError]:
    """The errors of one statement, of those about the type of the same operand the first."""
    seen: set[str] = set()
    for error in errors:
        names = error.diagnostics[0].about
        if error.code not in _OF_TYPES or seen.isdisjoint(names):
            yield error
        seen.update(names if error.code in _OF_TYPES else ())


def _results(op: Op) -> dict[str, str]:
    """The fields that name results of an op, and the names."""
    if not isinstance(op, ValueOp):
        return {}
    names = {field: getattr(op, field) for field in ("name", *op.further)}
    return {field: name for field, name in names.items() if name is not None}


def _field(op: Op, path: tuple[str | int, ...]) -> object:
    value: Any = getattr(op, str(path[0]))
    for part in path[1:]:
        value = value[part]
    return value
