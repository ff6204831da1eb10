"""A family of good form, and its members, go in; what makes no sense together comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.schema.checking.check_graph import RedefinedName
from wavespec.schema.checking.check_spec import size_problem
from wavespec.schema.families.family_errors import in_members
from wavespec.schema.language.errors import UnknownValue, WrongType
from wavespec.schema.language.family import FamilySpec, Member, Pick, parse_pick
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.language.scalars import Scalar
from wavespec.schema.resolve import UndefinedName


class RepeatedValue(WavespecError, code="repeated-value"):
    def __init__(self, where: Where, value: str | int) -> None:
        super().__init__(where, f"{quote(str(value))} is twice among the values.")


class AmbiguousMembers(WavespecError, code="ambiguous-members"):
    def __init__(self, where: Where, first: Member, second: Member, free: Sequence[str]) -> None:
        super().__init__(
            where,
            f"A call cannot tell {first.label} from {second.label}.",
            hints=[f"Add {listing(free, 'or')} to 'pick', or leave one of them out with 'when'."],
        )


class UnreachableMember(WavespecError, code="unreachable-member"):
    """The call that picks a member does not fit it."""


class AmbiguousSize(WavespecError, code="ambiguous-size"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"{quote(dim)} is in no place that is the same for all members, so a call cannot tell its size.",
            hints=["Pick by the dtype of an argument or by a keyword, or by a dim that does not move."],
        )


class MembersDiffer(WavespecError, code="members-differ"):
    def __init__(self, where: Where, first: Member, second: Member) -> None:
        super().__init__(
            where,
            f"Members differ in what they take alone, but {first.label} is {_signature(first.spec)} "
            f"and {second.label} is {_signature(second.spec)}.",
            hints=[
                "Another result, or another meaning of an argument, is for another family, which may extend this one."
            ],
        )


class UnorderedInputs(WavespecError, code="unordered-inputs"):
    def __init__(self, where: Where, member: Member, inputs: Sequence[str]) -> None:
        super().__init__(
            where,
            f"{member.label} is {_signature(member.spec)}, but a call gives {listing(inputs, 'and')} in this order.",
            hints=["Inputs that not all members have come behind those that all have, and everywhere in one order."],
        )


def check_spec(spec: FamilySpec) -> Iterator[WavespecError]:
    """Mistakes that show without the members."""
    for name, values in spec.parameters.items():
        for index, value in enumerate(values):
            if value in values[:index]:
                yield RepeatedValue(spec.where("parameters", name, index), value)
    for name in spec.pick:
        if name not in spec.parameters:
            where = spec.where_key("pick", name)
            yield UndefinedName(where, name, "a parameter of the family", list(spec.parameters))


def check_members(
    spec: FamilySpec, members: Sequence[Member], picks: Sequence[tuple[str, Pick]]
) -> Iterator[WavespecError]:
    """Mistakes that show when each member is right by itself.

    Args:
        picks: those of the family, and of the element types of its members.
    """
    if pair := _differing(members):
        span = pair[0].spec.key_span_of("tensors")
        yield MembersDiffer(spec.where("template") if span is None else span, *pair)
        return
    inputs = inputs_of_members(members)
    for member in members:
        its = [name for name, _ in _inputs(member.spec)]
        if its != [name for name in inputs if name in its]:
            yield UnorderedInputs(member.spec.where_key("tensors"), member, inputs)
            return
    own = {name: pick for name, text in spec.pick.items() if (pick := parse_pick(text)) is not None}
    errors = [error for name, pick in own.items() for error in _pick_errors(spec, name, pick, members)]
    misfits = [
        (member.label, diagnostic)
        for name, pick in ({} if errors else own).items()
        for member in members
        for error in _misfits(name, pick, member)
        for diagnostic in error.diagnostics
    ]
    yield from errors
    if misfits:
        yield WavespecError.of(in_members(misfits, [member.label for member in members]))
    elif not errors:
        yield from _ambiguities(spec, picks, members)


def inputs_of_members(members: Sequence[Member]) -> list[str]:
    """The inputs of the function: those that all members have, then the others, which a call may leave out."""
    every = list(dict.fromkeys(name for member in members for name, _ in _inputs(member.spec)))
    return sorted(every, key=lambda name: any(name not in member.spec.tensors for member in members))


def scalars_of_members(members: Sequence[Member]) -> list[str]:
    """The scalars of the function: those that all members have, then the others, which may be None."""
    every = list(dict.fromkeys(name for member in members for name in member.spec.scalars))
    return sorted(every, key=lambda name: any(name not in member.spec.scalars for member in members))


def value_of_call(member: Member, parameter: str, pick: Pick) -> str | int | None:
    """What of a call has to be what for this member; None for the dtype of an input that it does not have."""
    if pick.what == "dtype":
        tensor = member.spec.tensors.get(pick.name)
        return None if tensor is None else tensor.dtype
    return member.values[parameter]


def place_of_size(members: Sequence[Member], dim: str) -> tuple[str, int] | None:
    """Input and axis that have the size of `dim` in all members."""
    common: set[tuple[str, int]] | None = None
    for member in members:
        places = {
            (name, axis)
            for name, tensor in member.spec.tensors.items()
            if tensor.role != "output"
            for axis, found in enumerate(tensor.shape)
            if found == dim
        }
        common = places if common is None else common & places
    order = list(members[0].spec.tensors)
    return min(common, key=lambda place: (order.index(place[0]), place[1])) if common else None


def _pick_errors(spec: FamilySpec, name: str, pick: Pick, members: Sequence[Member]) -> Iterator[WavespecError]:
    where = spec.where("pick", name)
    inputs = inputs_of_members(members)
    match pick.what:
        case "keyword":
            kernel = next((one.spec for one in members if pick.name in one.spec.scalars), members[0].spec)
            section = "scalars" if pick.name in kernel.scalars else "tensors"
            if pick.default and pick.default not in map(str, spec.parameters[name]):
                yield UnknownValue(where, pick.default, list(map(str, spec.parameters[name])), pick.name)
            if pick.name in getattr(kernel, section) or pick.name in (*inputs, "out", spec.name):
                yield RedefinedName(where, pick.name, "an argument", kernel.key_span_of(section, pick.name))
            first, *others = spec.parameters[name]
            for index, value in enumerate(others, 1):
                if isinstance(value, str) != isinstance(first, str):
                    kind = "text" if isinstance(first, str) else "an integer"
                    place = spec.where("parameters", name, index)
                    yield WrongType(place, f"{kind}, as the value in front of it", quote(str(value)))
        case "dtype" if pick.name not in inputs:
            yield UndefinedName(where, pick.name, "an input of the members", inputs)
        case "dtype":
            pass
        case "size":
            if missing := next((member for member in members if pick.name not in member.spec.dims), None):
                yield UndefinedName(where, pick.name, "a dim of all members", list(missing.spec.dims))
            elif place_of_size(members, pick.name) is None:
                yield AmbiguousSize(where, pick.name)
            else:
                for index, value in enumerate(spec.parameters[name]):
                    if isinstance(value, str):
                        place = spec.where("parameters", name, index)
                        yield WrongType(place, "an integer, for a size", f"the text {quote(value)}")


def _misfits(parameter: str, pick: Pick, member: Member) -> Iterator[WavespecError]:
    """Why a call that picks the member would not fit it."""
    value = member.values[parameter]
    dtype = value_of_call(member, parameter, pick) if pick.what == "dtype" else None
    if dtype is not None and value != dtype:
        yield UnreachableMember(
            member.spec.where("tensors", pick.name, "dtype"),
            f"Calls with {quote(pick.name)} of {value} pick this member, which takes {dtype}.",
            label=f"{parameter} is {value}",
        )
    if pick.what != "size" or not isinstance(value, int):
        return
    if problem := size_problem(member.spec.dims[pick.name], value):
        message = f"{quote(pick.name)} of calls that pick this member is {value}, {problem}."
        yield UnreachableMember(member.spec.where("dims", pick.name), message)


def _ambiguities(
    spec: FamilySpec, picks: Sequence[tuple[str, Pick]], members: Sequence[Member]
) -> Iterator[WavespecError]:
    taken: dict[tuple[object, ...], Member] = {}
    picked = {name for name, _ in picks}
    for member in members:
        given = frozenset(name for name, _ in _inputs(member.spec))
        key = (given, *(value_of_call(member, name, pick) for name, pick in picks))
        if earlier := taken.get(key):
            free = [name for name in member.values if earlier.values.get(name) != member.values[name]]
            yield AmbiguousMembers(
                spec.where_key("pick"), earlier, member, [name for name in free if name not in picked] or free
            )
            return
        taken[key] = member


def _inputs(spec: KernelSpec) -> Iterator[tuple[str, Tensor]]:
    return ((name, tensor) for name, tensor in spec.tensors.items() if tensor.role != "output")


def _differing(members: Sequence[Member]) -> tuple[Member, Member] | None:
    """Two members with other results or changed arguments, or with two meanings of the name of one argument."""
    meanings: dict[str, tuple[Member, str]] = {}
    for member in members:
        if _written(member.spec) != _written(members[0].spec):
            return members[0], member
        named = {name: name for name, _ in _inputs(member.spec)}
        named |= {name: _described((name, scalar)) for name, scalar in member.spec.scalars.items()}
        for name, meaning in named.items():
            first, known = meanings.setdefault(name, (member, meaning))
            if known != meaning:
                return first, member
    return None


def _written(spec: KernelSpec) -> list[tuple[str, str]]:
    return [(name, tensor.role) for name, tensor in spec.tensors.items() if tensor.role != "input"]


def _signature(spec: KernelSpec) -> str:
    """`(a, b) -> (c)`, with scalars `(a, b, eps: f32 = 1e-06) -> (c)`."""
    inputs, outputs = (
        ", ".join(name for name, tensor in spec.tensors.items() if tensor.role == role) for role in ("input", "output")
    )
    return f"({', '.join([inputs, *map(_described, spec.scalars.items())])}) -> ({outputs})"


def _described(named: tuple[str, Scalar]) -> str:
    name, scalar = named
    return f"{name}: {scalar.dtype}" + (f" = {scalar.default}" if scalar.default is not None else "")
