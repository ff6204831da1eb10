"""Index mappings: which element of a tensor, or of a value, each element of a tile is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import is_float
from wavespec.schema.language.expressions import Binary, Call, Expression, Num
from wavespec.schema.language.expressions import Name as NameNode
from wavespec.schema.language.index_parser import IndexExpression
from wavespec.schema.ops.always_outside import AlwaysOutside, is_always_outside
from wavespec.schema.ops.base import Op, Scope
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch

IndexMap = Annotated[dict[DimName, IndexExpression], Field(max_length=16)]


class UnknownIndex(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, name: str, dims: Sequence[str], *, is_dim: bool) -> None:
        known = f"the tile's dims are {listing(dims)}" if dims else "the tile has no dims"
        message = f"{quote(name)} is not a dim of the tile, a parameter or a value; {known}."
        hints = [f"Its size is 'size({name})'."] if is_dim else []
        super().__init__(where, message, hints=hints, about=[name])


class SizeOfNoDim(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(where, f"{quote(name)} is not a dim.", about=[name])


class NotPlaced(WavespecError, code="dims-mismatch"):
    def __init__(self, where: Where, tensor: str, dim: str) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} has the dim {quote(dim)}, and the tile has not.",
            hints=[f"Say which element: 'at: {{{dim}: ...}}'."],
            about=[tensor],
        )


class NoDivisor(WavespecError, code="no-constant-value"):
    def __init__(self, where: Where, text: str) -> None:
        super().__init__(
            where,
            f"{quote(text)} cannot divide an index: it may be 0 or less.",
            hints=[
                "Divide by a positive number, a parameter, the size of a dim, a scalar with 'min: 1', an index and 1, "
                "or 'max(..., 1)'."
            ],
        )


def check_mapping(
    op: Op, shape: Sequence[str], name: str, at: Mapping[str, Expression], dims: Sequence[str], scope: Scope
) -> bool:
    """Whether every dim in the `shape` of what is called `name` has a place for each element of a tile with `dims`;
    what is wrong is reported."""
    errors = list(_errors(op, shape, name, at, dims, scope))
    for error in errors or _places_outside(op, at, dims, scope):
        scope.report(error)
    return not errors


def values_of(at: Mapping[str, Expression], dims: Sequence[str], params: Mapping[str, object]) -> tuple[str, ...]:
    """The values that places depend on, each once, in order."""
    names = (name for expression in at.values() for name in index_names(expression))
    return tuple(dict.fromkeys(name for name in names if name not in dims and name not in params))


def index_names(expression: Expression) -> Iterator[str]:
    """The names that stand for an index, a parameter or a value, not for a size."""
    for node in index_nodes(expression):
        if isinstance(node, NameNode):
            yield node.name


def index_nodes(expression: Expression) -> Iterator[Expression]:
    """The nodes of an index expression, without what is inside of `size`."""
    yield expression
    if not (isinstance(expression, Call) and expression.function == "size"):
        for child in expression.children:
            yield from index_nodes(child)


def _errors(
    op: Op, shape: Sequence[str], name: str, at: Mapping[str, Expression], dims: Sequence[str], scope: Scope
) -> Iterator[WavespecError]:
    for dim, expression in at.items():
        if dim not in shape:
            message = f"{quote(name)} has the dims [{', '.join(shape)}], not {quote(dim)}."
            yield DimsMismatch(op.where_key("at", dim), message, about=[name])
        for node in index_nodes(expression):
            place = _part(op.where("at", dim), node)
            if isinstance(node, NameNode):
                yield from _name_errors(node.name, place, dims, scope)
            elif isinstance(node, Num) and not isinstance(node.value, int):
                yield DtypeMismatch(place, f"An index is an integer, not {node.value}.")
            elif isinstance(node, Call) and node.function == "size":
                (argument,) = node.arguments
                if not scope.is_dim(str(argument)) and not scope.is_broken(str(argument)):
                    yield SizeOfNoDim(_part(op.where("at", dim), argument), str(argument))
            elif isinstance(node, Binary) and node.op in ("//", "%") and _may_be_none(node.right, dims, scope):
                yield NoDivisor(_part(op.where("at", dim), node.right), str(node.right))
    # A dim that is spelt in another way is missing there, and not too much here.
    for dim in shape if at.keys() <= {*shape} else ():
        if dim not in at and dim not in dims and not scope.is_broken(dim):
            yield NotPlaced(op.where(), name, dim)


def _places_outside(op: Op, at: Mapping[str, Expression], dims: Sequence[str], scope: Scope) -> Iterator[WavespecError]:
    for dim, place in at.items():
        if is_always_outside(place, dim, dims, scope):
            indices = [name for name in dict.fromkeys(index_names(place)) if name in dims]
            yield AlwaysOutside(op.where("at", dim), place, dim, indices)


def _name_errors(name: str, place: Where, dims: Sequence[str], scope: Scope) -> Iterator[WavespecError]:
    if name in dims or scope.param(name) is not None or scope.is_broken(name):
        return
    value = scope.type_of(name)
    if value is None:
        if not scope.is_value(name):
            yield UnknownIndex(place, name, dims, is_dim=scope.is_dim(name))
    elif is_float(value.dtype) or (value.dtype == "bool" and scope.scalar(name) is None):
        yield DtypeMismatch(place, f"An index is an integer; {quote(name)} is {value.dtype}.", about=[name])
    elif not set(value.dims) <= set(dims):
        mine, theirs = ", ".join(value.dims), ", ".join(dims)
        message = f"{quote(name)} has the dims [{mine}]; the tile has [{theirs}]."
        yield DimsMismatch(place, message, about=[name])


def _may_be_none(divisor: Expression, dims: Sequence[str], scope: Scope) -> bool:
    known = all(not list(_name_errors(name, None, dims, scope)) for name in index_names(divisor))
    return known and not _is_at_least(1, divisor, dims, scope)


def _is_at_least(least: int, node: Expression, dims: Sequence[str], scope: Scope) -> bool:
    """Whether a divisor is no less than 0, or 1, whatever a call has: numbers, parameters, sizes, which count as 1
    where they divide, indices along ``dims``, and sums and products of such."""

    def each(nodes: Sequence[Expression], number: int = least) -> Iterator[bool]:
        return (_is_at_least(number, one, dims, scope) for one in nodes)

    match node:
        case Num(value=value):
            return isinstance(value, int) and value >= least
        case NameNode(name=name):
            number, scalar = scope.param(name), scope.scalar(name)
            if number is None and scalar is None:
                return least == 0 and name in dims
            return number >= least if number is not None else scalar is not None and scalar.limits[0] >= least
        case Call(function="max", arguments=arguments):
            return any(each(arguments))
        case Call(function=function, arguments=arguments):
            return function == "size" or (function != "xor" and all(each(arguments)))
        case Binary(op="+", left=left, right=right):
            return all(each((left, right), 0)) and (least == 0 or any(each((left, right))))
        case Binary(op="*", left=left, right=right):
            return all(each((left, right)))
        case Binary(op=("//" | "%"), left=left, right=right):
            return least == 0 and all(each((left,))) and all(each((right,), 1))
        case _:
            return False


def _part(where: Where, node: Expression) -> Where:
    return where.part(*node.at) if where is not None and not isinstance(where, str) else where
