"""An operation of the IR, the values it takes and makes, and what it is asked: which one it is, and its attributes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, cast, overload

from wavespec.diagnostics import Span
from wavespec.ir import attribute_keys as keys
from wavespec.ir.declarations import Group
from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr
from wavespec.ir.layout import Layout
from wavespec.ir.names import name_text
from wavespec.ir.nodes import node, replace

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=None)

Mask = tuple[tuple[Expr, Expr], ...]
"""A conjunction: the first of each pair is below the second."""
Places = tuple[tuple[str, Expr], ...]
"""An index along each of some dims."""


@node
class TileType:
    """A tile: its dims, their extents in elements (0 = whole tensor, not yet tiled), element type and distribution."""

    dims: tuple[str, ...]
    extents: tuple[int, ...]
    dtype: DType
    layout: Layout | None = None

    def extent(self, dim: str) -> int:
        return self.extents[self.dims.index(dim)]

    def without(self, dims: Container[str]) -> TileType:
        """The tile of one element along each of some dims."""
        kept = [(dim, extent) for dim, extent in zip(self.dims, self.extents, strict=True) if dim not in dims]
        return replace(self, dims=tuple(dim for dim, _ in kept), extents=tuple(extent for _, extent in kept))

    def __str__(self) -> str:
        shape = "".join(
            f"{name_text(d)}{f': {e}' if e else ''}, " for d, e in zip(self.dims, self.extents, strict=True)
        )
        return f"tile<{shape}{self.dtype}{f', {self.layout}' if self.layout else ''}>"


@node
class VectorType:
    """``elements`` registers of one lane."""

    dtype: DType
    elements: int

    def __str__(self) -> str:
        return f"{self.dtype}x{self.elements}"


@node
class Value:
    """One SSA value; names are unique in a kernel."""

    name: str
    type: TileType | VectorType

    @property
    def tile(self) -> TileType:
        assert isinstance(self.type, TileType), f"%{self.name} is {self.type}, not a tile"
        return self.type

    @property
    def vector(self) -> VectorType:
        assert isinstance(self.type, VectorType), f"%{self.name} is {self.type}, not a vector"
        return self.type


@node
class Region:
    """The body of a structured operation: its arguments, operations and what it hands on."""

    arguments: tuple[Value, ...]
    ops: tuple[Op, ...]
    yields: tuple[Value, ...]


@node
class Op:
    """One operation.  ``attributes`` holds numbers, texts, expressions, layouts, None, and tuples of them.

    ``node``: the name of the graph that it comes from, as schedules say it: ``x``, ``x.load`` or ``x.store``.
    """

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    region: Region | None = None
    span: Span | None = field(default=None, compare=False)
    node: str = field(default="", compare=False)
    # Every pass asks for these of every operation that the pass before it left alone.
    _inside: tuple[Op, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _symbols: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)
    _names_inside: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    def is_(self, group: Group, *others: Group) -> bool:
        """Whether it is one of these operations, as ``wavespec.ir.tile_ops`` and ``thread_ops`` declare them."""
        if self.name in group.names:
            return True
        for other in others:  # noqa: SIM110 - passes ask it of every operation, and `any` takes three times as long
            if self.name in other.names:
                return True
        return False

    @overload
    def __getitem__(self, key: keys.Text) -> str: ...
    @overload
    def __getitem__(self, key: keys.Integer) -> int: ...
    @overload
    def __getitem__(self, key: keys.Number) -> int | float: ...
    @overload
    def __getitem__(self, key: keys.Flag) -> bool: ...
    @overload
    def __getitem__(self, key: keys.Expression) -> Expr: ...
    @overload
    def __getitem__(self, key: keys.Extent) -> Expr | None: ...
    @overload
    def __getitem__(self, key: keys.Mask) -> Mask: ...
    @overload
    def __getitem__(self, key: keys.Places) -> Places: ...
    @overload
    def __getitem__(self, key: keys.Expressions) -> tuple[Expr, ...]: ...
    @overload
    def __getitem__(self, key: keys.Names) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, key: keys.Numbers) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, key: keys.Layout) -> Layout: ...
    @overload
    def __getitem__(self, key: keys.Table | keys.Mixed) -> Any: ...
    def __getitem__(self, key: str) -> Any:
        for name, value in self.attributes:  # as in `attribute`, which passes would wait for at every access
            if name == key:
                return value
        raise KeyError(f"'{self.name}' has no attribute '{key}'")

    @overload
    def get(self, key: keys.Text, default: T = ...) -> str | T: ...
    @overload
    def get(self, key: keys.Integer, default: T = ...) -> int | T: ...
    @overload
    def get(self, key: keys.Number, default: T = ...) -> int | float | T: ...
    @overload
    def get(self, key: keys.Flag, default: T = ...) -> bool | T: ...
    @overload
    def get(self, key: keys.Expression, default: T = ...) -> Expr | T: ...
    @overload
    def get(self, key: keys.Extent, default: T = ...) -> Expr | T | None: ...
    @overload
    def get(self, key: keys.Mask, default: T = ...) -> Mask | T: ...
    @overload
    def get(self, key: keys.Places, default: T = ...) -> Places | T: ...
    @overload
    def get(self, key: keys.Expressions, default: T = ...) -> tuple[Expr, ...] | T: ...
    @overload
    def get(self, key: keys.Names, default: T = ...) -> tuple[str, ...] | T: ...
    @overload
    def get(self, key: keys.Numbers, default: T = ...) -> tuple[int, ...] | T: ...
    @overload
    def get(self, key: keys.Layout, default: T = ...) -> Layout | T: ...
    @overload
    def get(self, key: keys.Table | keys.Mixed, default: object = ...) -> Any: ...
    def get(self, key: str, default: Any = None) -> Any:
        for name, value in self.attributes:
            if name == key:
                return value
        return default

    def attribute(self, key: str) -> Any:
        """What ``op[key]`` is, for a key that is only known when it runs."""
        return self[cast("keys.Mixed", key)]

    @property
    def result(self) -> Value:
        assert len(self.results) == 1, f"'{self.name}' has {len(self.results)} results"
        return self.results[0]

    @property
    def body(self) -> Region:
        assert self.region is not None, f"'{self.name}' has no body"
        return self.region

    def with_(self, **attributes: Any) -> Op:
        """The same operation with some attributes set."""
        return replace(self, attributes=attribute_pairs({**dict(self.attributes), **attributes}))

    def without(self, *keys: str) -> Op:
        """The same operation without some attributes."""
        return replace(self, attributes=tuple(pair for pair in self.attributes if pair[0] not in keys))

    def expressions(self) -> list[Expr]:
        """Every index expression among the attributes, not those of operations inside."""
        found: list[Expr] = []
        for _, value in self.attributes:
            if not isinstance(value, _PLAIN):  # most are
                _collect(value, found)
        return found

    @property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols in `expressions`."""
        known = self._symbols
        if known is None:
            known = _NO_NAMES.union(*[expr.symbols for expr in self.expressions()])
            object.__setattr__(self, "_symbols", known)
        return known

    def contains(self, group: Group) -> bool:
        """Whether one of the operations inside it is of the group: those of a region are looked up once."""
        known = self._names_inside
        if known is None:
            known = frozenset([op.name for op in self.walk()[1:]])
            object.__setattr__(self, "_names_inside", known)
        return not known.isdisjoint(group.names)

    def walk(self) -> tuple[Op, ...]:
        """This operation and all operations inside it, in program order."""
        if self.region is None:
            return (self,)
        known = self._inside
        if known is None:
            inside: list[Op] = []
            for op in self.region.ops:
                if op.region is None:
                    inside.append(op)
                else:
                    inside += op.walk()
            known = tuple(inside)
            object.__setattr__(self, "_inside", known)
        # Not the operation itself, which would then never be freed without a search for cycles.
        return (self, *known)


_NO_NAMES: Final = frozenset[str]()
_PLAIN: Final = (str, int, float)


def _collect(value: object, found: list[Expr]) -> None:
    """Put the expressions in a value of an attribute into `found`: no generator, as every pass asks for all of them."""
    if type(value) is Expr:
        found.append(value)
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            _collect(item, found)


def attribute_pairs(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes in canonical order."""
    return tuple(sorted(attributes.items()))
