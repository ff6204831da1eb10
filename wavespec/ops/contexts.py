"""What an op may ask of its surroundings in each of its three lives: as a tile, as registers of a lane, as whole
tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wavespec.diagnostics import Span, Where
from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, TileType, Value, attribute_pairs
from wavespec.ir.saturating import LARGEST
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.tile_ops import CAST, ITERATE, MMA, WRITE
from wavespec.targets.machine import Machine

SMALLEST_NORMAL = 2.0**-126
"""Of f32."""
_FEW_BITS = 16

if TYPE_CHECKING:
    import torch

    from wavespec.schema.language.expressions import Expression
    from wavespec.schema.resolved import Computation


class PlaceExpressions(Protocol):
    """Makes index expressions of those of a spec, written at ``where``."""

    def place(self, expression: Any, where: Where, values: Mapping[str, Expr]) -> Expr:
        """``values``: the symbols that stand for values of the graph."""
        ...

    def condition(self, expression: Any, where: Where, values: Mapping[str, Expr]) -> Expr:
        """1 where it holds, else 0."""
        ...


class TileContext:
    """Builds tile-level operations from statements; names of the spec are resolved per scope."""

    def __init__(
        self,
        fresh: Callable[[str], str],
        lower: Callable[[Any, TileContext], None],
        tensors: Mapping[str, tuple[tuple[str, ...], str]],
        sizes: Mapping[str, Expr],
        expressions: PlaceExpressions,
        bounds: Mapping[str, Mapping[str, Expr]],
        params: Mapping[str, int],
        scalars: Mapping[str, Expr],
        fast_math: frozenset[str],
        streamed: frozenset[str],
        always: frozenset[Expression] = frozenset(),
    ) -> None:
        """``streamed``: outputs that a case has stored past the caches; ``always``: what holds in every tile."""
        self.ops: list[Op] = []
        self.names: dict[str, Value] = {}
        self.symbols: list[Expr] = []
        self.fresh, self.lower, self.tensors, self.sizes = fresh, lower, tensors, sizes
        self.expressions, self.bounds, self.params, self.scalars = expressions, bounds, params, scalars
        self.fast_math, self.streamed, self.always = fast_math, streamed, always

    def nested(self) -> TileContext:
        inner = TileContext(
            self.fresh,
            self.lower,
            self.tensors,
            self.sizes,
            self.expressions,
            self.bounds,
            self.params,
            self.scalars,
            self.fast_math,
            self.streamed,
            self.always,
        )
        inner.names, inner.symbols = dict(self.names), self.symbols
        return inner

    def bound(self, expression: Any, span: Span | None, carried: Mapping[str, Value] | None = None) -> dict[str, Expr]:
        """Symbols for the values that an expression of a spec names, which get their numbers here, and its scalars.

        ``carried``: names that mean something else in the expression than here.
        """
        symbols: dict[str, Expr] = {}
        values = {**self.names, **(carried or {})}
        for name in expression.names():
            if name in self.scalars:
                symbols[name] = self.scalars[name]
            elif name in values and name not in self.sizes:
                value = values[name]
                symbols[name] = _bound_symbol(self.fresh(f"value_{name}"), value.tile.dtype)
                self.symbols.append(symbols[name])
                self.add("bind", (value,), (), span, symbol=symbols[name].args[0])
        return symbols

    def tile(self, name: str, dims: tuple[str, ...], dtype: str | DType) -> Value:
        """A new tile value called ``name`` (or ``name.1`` ... when that is taken)."""
        dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        return Value(self.fresh(name), TileType(dims, (0,) * len(dims), dtype))

    def add(
        self,
        op: str,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        span: Span | None,
        region: Region | None = None,
        node: str = "",
        **attributes: Any,
    ) -> None:
        """Append an operation; ``node`` is the name of its statement."""
        self.ops.append(Op(op, operands, results, attribute_pairs(attributes), region, span, node))


def _bound_symbol(name: str, dtype: DType) -> Expr:
    """What stands for a value in conditions and bounds."""
    return symbol(name, -LARGEST, LARGEST) if dtype.bits > 32 else symbol(name, -(2**31), 2**31 - 1)


class ThreadContext:
    """Builds one lane's operations from tile operations.

    ``block``: what builds operations in a row.  ``fragments``: the registers of every tile.  ``by_unit``: the reads of
    tiles that stay in shared memory.  ``factors``: values that nothing but products use; ``rounded``: those that are
    numbers of at most 16 bits wherever they are used.  ``totals``: what loops come to, all of which registers hold.
    ``constants``: what the inductions of unrolled loops stand for.
    ``memories``, ``symbols``: those that operations add.
    """

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        build: ThreadBuilder,
        block: Callable[[tuple[Op, ...], ThreadContext], None],
    ) -> None:
        self._block = block
        self.kernel, self.machine, self.build = kernel, machine, build
        self.fragments: dict[str, tuple[Value, ...]] = {}
        self.by_unit: dict[str, Op] = {}
        self.factors = _factors(kernel)
        self.rounded = _rounded(kernel)
        self.totals = frozenset(value.name for op in kernel.walk() if op.is_(ITERATE) for value in op.results)
        self.constants: dict[str, Expr] = {}
        self.memories: list[Memory] = []
        self.symbols: list[Expr] = []

    def block(self, ops: tuple[Op, ...]) -> None:
        """Build what operations in a row are for one lane."""
        self._block(ops, self)

    def origin(self, op: Op) -> dict[str, Expr]:
        """Where the access of ``op`` starts, dim by dim."""
        return {dim: expr.substitute(self.constants) for dim, expr in op["origin"]}


def _factors(kernel: Kernel) -> frozenset[str]:
    found, others = set[str](), set[str]()
    for op in kernel.walk():
        factors = op.operands[:2] if op.is_(MMA) else ()
        found.update(value.name for value in factors)
        others.update(value.name for value in op.operands[len(factors) :])
        others.update(value.name for value in (op.region.yields if op.region else ()))
    return frozenset(found - others)


def _rounded(kernel: Kernel) -> frozenset[str]:
    found, others = set[str](), set[str]()
    for op in kernel.walk():
        (found if _rounds(kernel, op) else others).update(value.name for value in op.operands)
        others.update(value.name for value in (op.region.yields if op.region else ()))
    return frozenset(found - others)


def _rounds(kernel: Kernel, op: Op) -> bool:
    dtype = op.result.type.dtype if op.is_(CAST) else kernel.memory(op["memory"]).dtype if op.is_(WRITE) else None
    return dtype is not None and dtype.is_float and dtype.bits <= _FEW_BITS and len(op.operands) == 1


class LookUp(NamedTuple):
    """The elements of `within` along `dim`, of which there are `size`, that the numbers of a value named."""

    value: str
    within: str
    dim: str
    numbers: torch.Tensor
    size: int


class Found(NamedTuple):
    """What a call has found for an `atomic`, in the type of its tensor, and what it combined that with."""

    old: torch.Tensor
    value: torch.Tensor
    expected: torch.Tensor


class ReferenceContext:
    """Whole-tensor values while a graph is interpreted; ``compute`` is the dtype that floating point is computed in.

    ``run``: what computes one statement.
    """

    def __init__(
        self,
        computation: Computation,
        tensors: Mapping[str, torch.Tensor],
        compute: torch.dtype | None,
        run: Callable[[Any, ReferenceContext], None],
    ) -> None:
        self._run = run
        self.computation, self.tensors, self.compute = computation, tensors, compute
        self.names: dict[str, torch.Tensor] = {}
        self.dims: dict[str, tuple[str, ...]] = {}
        self.types: dict[str, str] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.sizes: dict[str, int] = {}
        self.params: dict[str, int] = {}
        self.looked_up: list[LookUp] = []
        self.flushes = False
        """Whether numbers of f32 below the smallest normal one count as 0."""
        self.found: Mapping[str, Found] = {}
        """By the name of an `atomic` what a call has found, where the results of that call are to be explained."""
        self.impossible: list[str] = []
        """What no order of elements finds."""
        self.conditions: list[tuple[tuple[str, ...], torch.Tensor]] = []
        """Of the branches on values that a statement is in, for which elements they are taken."""

    def run(self, body: Iterable[Any]) -> None:
        """Compute the statements of a body."""
        for statement in body:
            self._run(statement, self)

    def dtype(self, name: str) -> torch.dtype:
        """The torch dtype of a spec dtype; floating point types widen to ``compute`` when that is set."""
        plain = self.plain(name)
        return self.compute if self.compute is not None and plain.is_floating_point else plain

    def plain(self, name: str) -> torch.dtype:
        """The torch dtype of a spec dtype, or a wider one that torch computes in."""
        import torch

        row = DTYPES[name]
        if row.is_packed or (row.is_float and not row.mantissa):  # torch keeps them and computes nothing with them
            return torch.float32 if row.is_float else torch.int8
        return getattr(torch, row.torch)

    def where(
        self, taken: tuple[tuple[str, ...], torch.Tensor], name: str, then: torch.Tensor, otherwise: torch.Tensor
    ) -> torch.Tensor:
        """What the value ``name`` is, ``then`` for elements for which ``taken``, as of `evaluate`, holds."""
        import torch

        return torch.where(self.mask(taken, self.dims[name]), then, otherwise)

    def mask(self, taken: tuple[tuple[str, ...], torch.Tensor], dims: tuple[str, ...]) -> torch.Tensor:
        """For elements of a value of ``dims``, whether ``taken`` holds: somewhere along dims that it lacks."""
        of, holds = taken
        for number, dim in reversed([*enumerate(of)]):
            holds = holds if dim in dims else holds.any(number)
        kept = [dim for dim in of if dim in dims]
        order = sorted(kept, key=dims.index)
        holds = holds.permute([kept.index(dim) for dim in order])
        return holds.reshape([holds.shape[order.index(dim)] if dim in order else 1 for dim in dims])

    def define(self, name: str, dims: tuple[str, ...], value: torch.Tensor) -> None:
        if self.flushes and self.types.get(name) == "f32":
            import torch

            value = torch.where(value.abs() < SMALLEST_NORMAL, value * 0, value)
        self.names[name], self.dims[name] = value, dims

    def output(self, name: str) -> torch.Tensor:
        """The result called ``name``: 0, or what was there, where nothing was written, as in a branch not taken."""
        if name not in self.outputs and name in self.tensors:
            return self.tensors[name].to(self.dtype(self.computation.tensors[name].dtype), copy=True)
        if name not in self.outputs:
            tensor, like = self.computation.tensors[name], next(iter(self.tensors.values()))
            shape = [self.sizes[dim] for dim in tensor.shape]
            self.outputs[name] = like.new_zeros(shape, dtype=self.dtype(tensor.dtype))
        return self.outputs[name]
