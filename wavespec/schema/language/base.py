"""The base of every spec model: strict, frozen, and aware of where each of its parts was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr

from wavespec.diagnostics import Span, Where

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a part was written: its value, and its key where it has one."""

    value: Span
    key: Span | None = None


class SpecModel(BaseModel):
    """A frozen part of a spec. Positions count for nothing in equality and dumps."""

    # Validators are built when a model is first validated: no process meets all of the 170 models.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True, ser_json_inf_nan="constants")

    _positions: Mapping[Path, Position] = PrivateAttr(default_factory=dict[Path, Position])

    @property
    def span(self) -> Span | None:
        """Where this part was written; `None` for a spec written in Python."""
        return self.span_of()

    def span_of(self, *path: str | int) -> Span | None:
        """Where the value at `path` below this part was written: `tensor.span_of("shape", 1)`.

        A value that is not in the file (a default) has the span of the nearest part around it that is.
        """
        position = self._position(path)
        return position.value if position else None

    def key_span_of(self, *path: str | int) -> Span | None:
        """Like `span_of`, for the key in front of the value: `spec.key_span_of("dims", "M")`."""
        position = self._position(path)
        return (position.key or position.value) if position else None

    def where(self, *path: str | int) -> Where:
        """The span of `path`, or words for it where this part was written in Python."""
        return self.span_of(*path) or self.in_words(*path)

    def where_key(self, *path: str | int) -> Where:
        return self.key_span_of(*path) or self.in_words(*path)

    def in_words(self, *path: str | int) -> str:
        """Words that lead a reader of Python code to `path`."""
        return ".".join(str(part) for part in path) or type(self).__name__

    def was_written_at(self, positions: Mapping[Path, Position]) -> None:
        """Remember where the parts were written; called once, by what made this model from a file."""
        self._positions = positions

    @property
    def positions(self) -> Mapping[Path, Position]:
        # Not by its name: pydantic looks for that everywhere else first, and positions are asked for all the time.
        return cast("dict[str, Any]", self.__pydantic_private__)["_positions"]

    def _position(self, path: Path) -> Position | None:
        owner, rest = self._owner(path)
        positions = owner.positions
        while True:
            if found := positions.get(rest):
                return found
            if not rest:
                return None
            rest = rest[:-1]

    def _owner(self, path: Path) -> tuple[SpecModel, Path]:
        # The deepest model on the path knows its own positions best.
        owner: SpecModel = self
        rest = path
        value: object = self
        for index, part in enumerate(path):
            value = _step(value, part)
            if isinstance(value, SpecModel):
                owner, rest = value, path[index + 1 :]
        return owner, rest

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__


class Worded(SpecModel):
    """A part that YAML writes with its word in front: `{workgroup: M, tile: BLOCK_M}`.

    The value behind the word fills `headline`: one field, or several from a list. Others are written by name.
    """

    word: ClassVar[str]
    headline: ClassVar[tuple[str, ...]]

    @classmethod
    def surface_fields(cls) -> tuple[str, ...]:
        """The fields that YAML writes by name, in order."""
        hidden = {*cls.headline, "op", "constraint", "name"}
        return tuple(name for name in cls.model_fields if name not in hidden)


def _step(value: object, part: str | int) -> object:
    if isinstance(value, SpecModel) and isinstance(part, str):
        return getattr(value, part, None)
    if isinstance(value, Mapping):
        return cast("Mapping[Any, object]", value).get(part)
    if isinstance(value, tuple) and isinstance(part, int):
        items = cast("tuple[object, ...]", value)
        return items[part] if part < len(items) else None
    return None
