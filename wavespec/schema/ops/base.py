"""What every op of a graph has in common: its model, and the scope in which its types are inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import create_model

from wavespec.diagnostics import WavespecError
from wavespec.schema.language.base import Worded
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.names import Name


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value of the graph: its dims, whole and in order, and its element type."""

    dims: tuple[str, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self.dims)}]"


class TensorType(Protocol):
    """What an op may ask of a declared tensor."""

    @property
    def shape(self) -> tuple[str, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def role(self) -> str: ...


class ScalarType(Protocol):
    """What an op may ask of a declared scalar."""

    @property
    def dtype(self) -> str: ...
    @property
    def limits(self) -> tuple[int, int]: ...


class Scope(Protocol):
    """What is visible to an op while its types are inferred. A lookup that fails was reported."""

    def value(self, op: Op, *path: str | int) -> ValueType | None:
        """The type of the value that the field at `path` refers to."""
        ...

    def tensor(self, op: Op, *path: str | int) -> TensorType | None:
        """The tensor that the field at `path` names."""
        ...

    def write(self, op: Op, *path: str | int) -> None:
        """Record that the op writes the tensor that the field at `path` names."""
        ...

    def dim(self, op: Op, *path: str | int) -> str | None:
        """The dim that the field at `path` names."""
        ...

    def size(self, dim: str) -> int | None:
        """The one size of a dim, where it has one."""
        ...

    def least(self, dim: str) -> int:
        """The smallest size that a dim may have."""
        ...

    def place(self, op: Op, *path: str | int, carried: Mapping[str, ValueType | None] | None = None) -> None:
        """Check the names of the expression at `path`, which says a place: it has parameters, dims, and their tiles.

        `carried`: names that mean something else in the expression than around the op.
        """
        ...

    def is_dim(self, name: str) -> bool:
        """There is a dim of that name."""
        ...

    def is_tiled(self, dim: str) -> bool:
        """A `tiling` constraint walks over `dim`."""
        ...

    def is_walked(self, dim: str) -> bool:
        """A loop around the op walks over `dim`."""
        ...

    def is_carried(self, name: str, dim: str) -> bool:
        """`name` is carried from step to step by the loop over `dim` that the op is in."""
        ...

    def param(self, name: str) -> int | None:
        """The value of the parameter of that name."""
        ...

    def scalar(self, name: str) -> ScalarType | None:
        """The scalar of that name, which is a value as well."""
        ...

    def dtype_of(self, name: str) -> DType | None:
        """The element type of the value of that name, where there is one."""
        ...

    def type_of(self, name: str) -> ValueType | None:
        """The type of the value of that name, where there is one."""
        ...

    def is_value(self, name: str) -> bool:
        """There is a value of that name, whose type may be unknown after a mistake."""
        ...

    def is_broken(self, name: str) -> bool:
        """What the name means was defined wrongly, which was reported."""
        ...

    def is_taken(self, name: str) -> bool:
        """The name means something somewhere in the spec."""
        ...

    def expand(self, op: Op, plain: tuple[Op, ...]) -> None:
        """Record the plain ops that the op stands for."""
        ...

    def report(self, error: WavespecError) -> None: ...

    def inside(
        self,
        carried: dict[str, ValueType | None],
        body: tuple[Op, ...],
        walked: str,
        known: Mapping[str, ValueType | None],
    ) -> dict[str, ValueType | None]:
        """Infer a nested body, of a loop over the dim `walked` if it has one, in which there are values `known` that it
        may not redefine; returns the types of the names it defines."""
        ...

    def loops(self) -> tuple[str, ...]:
        """The dims of the loops around the op."""
        ...

    def conditions(self) -> tuple[str, ...]:
        """The dims on which conditions of branches around the op depend: those of tiles, and of values."""
        ...

    def define(self, name: str, value: ValueType | None) -> None:
        """Record a further result of the op, such as `loop.carried`."""
        ...


class Op(Worded):
    """One statement of a graph: `name: {word: headline, field: value}`, without the name for an effect."""

    def infer(self, scope: Scope) -> ValueType | None:
        """The type of the result; `None` for an effect, and where an error was reported."""
        raise NotImplementedError

    def in_words(self, *path: str | int) -> str:
        return ".".join(["graph", getattr(self, "name", self.word), *map(str, path)])


class ValueOp(Op):
    """An op that makes a value."""

    is_value: ClassVar[bool] = True
    """The name is a value; a loop's is not, only `loop.name` is."""
    further: ClassVar[tuple[str, ...]] = ()
    """Fields that may name further results."""

    name: Name
    """The name of the result."""


class EffectOp(Op):
    """An op without a result."""


AnOp = TypeVar("AnOp", bound=Op)


def op_of_row(base: type[AnOp], word: str, doc: str, module: str) -> type[AnOp]:
    """The model of an op that a row of a table tells from others like it; ``module``: where it is at home."""
    name = "".join(part.capitalize() for part in word.split("_"))
    fields: dict[str, Any] = {"op": (Literal[word], word)}
    return create_model(name, __base__=base, __doc__=doc, __module__=module, **fields)
