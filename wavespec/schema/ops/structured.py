"""What ops with a body have in common: values that go in under names of the body, and come out as `name.carried`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Op, Scope, ValueOp, ValueType

_Kind = TypeVar("_Kind", bound=Op)


class CarryTypeMismatch(WavespecError, code="carry-type-mismatch"):
    def __init__(self, where: Where, name: str, what: str, first: ValueType, later: ValueType) -> None:
        super().__init__(where, f"{quote(name)} enters the {what} as {first} and leaves {_END[what]} as {later}.")


_END = {"loop": "each step", "branch": "it", "combine": "it"}


class Structured(ValueOp):
    """An op with a body. Its name is no value; `name.carried` is."""

    is_value: ClassVar[bool] = False
    what: ClassVar[str]
    """What messages call it."""
    bodies: ClassVar[tuple[str, ...]] = ("body",)
    """The fields that hold statements."""

    carry: Annotated[dict[Name, Reference], Field(max_length=64)] = Field(default_factory=dict)
    """Name inside the body: the value that it has there at first."""

    def with_bodies(self, change: Callable[[Any], Iterable[Op]]) -> Self:
        """The op with what `change` makes of each of its bodies."""
        return self.model_copy(update={field: tuple(change(getattr(self, field))) for field in self.bodies})

    def inside(
        self,
        scope: Scope,
        first: dict[str, ValueType | None],
        body: tuple[Op, ...],
        walked: str = "",
        known: Mapping[str, ValueType | None] | None = None,
    ) -> dict[str, ValueType | None]:
        """Infer a body, of a loop over `walked` if it has one, in which `known` are values; returns what it defines."""
        defined = scope.inside(first, body, walked, known or {})
        for name, before in first.items():
            after = defined.get(name)
            if before and after and before != after:
                scope.report(CarryTypeMismatch(self.where("carry", name), name, self.what, before, after))
        return defined


def walk(body: Sequence[Op]) -> Iterator[Op]:
    """Every op of a body, and behind each those inside of it."""
    for op in body:
        yield op
        for field in op.bodies if isinstance(op, Structured) else ():
            yield from walk(getattr(op, field))


def every(kind: type[_Kind], body: Sequence[Op]) -> Iterator[_Kind]:
    """The ops of one kind in a body, however deep."""
    return (op for op in walk(body) if isinstance(op, kind))


def left(before: ValueType | None, *after: ValueType | None) -> ValueType | None:
    """The type of a carried name behind a body; None where that leaves it as another one, or as nobody knows what."""
    return before if all(one == before for one in after) else None
