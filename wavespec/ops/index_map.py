"""Index expressions of a spec in; places in a tensor, as index expressions of a kernel or as whole tensors, out.

At tile level an access with a mapping has ``at``, pairs (dim of the tensor, place): expressions over ``DIM.i``, the
index of an element along a dim of the tile, and ``value.N``, what the operand number N holds for the element; and
``over``, the dims of the tile as the graph has them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.expr_value import divisor
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.names import operand_name
from wavespec.ir.saturating import LARGEST, is_large_number, minus, plus, times
from wavespec.ir.tile_ops import COPY, WRITE
from wavespec.ops.contexts import LookUp, ReferenceContext, TileContext
from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary
from wavespec.schema.ops import Read, Take, Written
from wavespec.schema.ops.mapping import values_of

if TYPE_CHECKING:
    import torch


LARGEST_INDEX = 2**31 - 1
"""What indices of elements along one dim end at, so that products with numbers of a call are known to wrap or not."""


@cache
def index_of(dim: str) -> Expr:
    """The index of an element along a dim of its tile; in every tile at least 0."""
    return symbol(f"{dim}.i", 0, None)


def value_symbol(name: str, dtype: DType) -> Expr:
    """A symbol for what an element of an integer type holds."""
    if dtype.kind == "uint":
        return symbol(name, 0, 2**dtype.bits - 1)
    return symbol(name, -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if dtype.bits <= 32 else symbol(name, None)


def mapped(
    statement: Read | Written | Take, context: TileContext, shape: Sequence[str], dims: Sequence[str]
) -> tuple[tuple[Value, ...], dict[str, Any]]:
    """The values that places in something of that shape depend on, and the attributes of the access; none without a
    mapping."""
    if not statement.at:
        return (), {}
    known = {name: const(number) for name, number in context.params.items()} | {**context.scalars}
    names = values_of(statement.at, dims, known)
    values = tuple(context.names[name] for name in names)
    known |= {dim: index_of(dim) for dim in dims}
    for number, name in enumerate(names):
        known[name] = value_symbol(operand_name(number), context.names[name].tile.dtype)
    places = {
        dim: _place(statement.at[dim], known, dims, context) if dim in statement.at else index_of(dim) for dim in shape
    }
    return values, {"at": tuple(places.items()), "over": tuple(dims)}


def _place(expression: Expression, known: Mapping[str, Expr], dims: Sequence[str], context: TileContext) -> Expr:
    """A place; where numbers of a call that may have 64 bits are multiplied in it, what would wrap is outside."""
    numbers = [context.scalars[name] for name in expression.names() if name in context.scalars]
    if not any(is_large_number(number) for number in numbers):
        return _computed(expression, known, context.sizes, _IN_KERNELS)
    indices = {dim: symbol(f"{dim}.any", 0, LARGEST_INDEX) for dim in dims}
    place = _computed(expression, {**known, **indices}, context.sizes, _OF_LARGE_NUMBERS)
    return place.substitute({index.args[0]: index_of(dim) for dim, index in indices.items()})


def size_from(expression: Expression, known: Mapping[str, Expr]) -> Expr | None:
    """The size of a dim that follows from others, and from parameters; None where kernels cannot compute it of what is
    known: of an argument, or by an exact division."""
    signs = (node.op for node in expression.walk() if isinstance(node, Binary | Compare))
    if not known.keys() >= set(expression.names()) or any(sign not in _IN_KERNELS for sign in signs):
        return None
    try:
        return _computed(expression, known, known, _IN_KERNELS)
    except ValueError:  # divides by nothing, which is said of a call
        return None


def dims_of(op: Op) -> tuple[str, ...]:
    """The dims of what an access with a mapping moves, in the graph: the tile has those of which there is more than
    one element."""
    return op["over"]


def moved_dims(op: Op) -> tuple[str, ...]:
    """Of something with a mapping the dims whose places are not those of the same dims of the tile."""
    return tuple(dim for dim, place in op["at"] if place is not index_of(dim))


def stays_along(op: Op, dim: str) -> bool:
    """Whether each element of what a `take` makes is one with the same place along the dim."""
    return dict(op["at"]).get(dim) is index_of(dim)


def is_window(op: Op) -> bool:
    """Whether what is read moves along some dim with two dims of the tile, as a pixel does with a result and a tap."""
    return bool(_windows(op))


def windows_overlap(op: Op, sizes: Mapping[str, Expr]) -> bool:
    """Whether elements of a tile that is read may be one and the same in the tensor: of two steps along it, the shorter
    one is made often enough to come where the longer one does."""
    for one, other in _windows(op):
        (short, dim), (long, _) = sorted([one, other], key=lambda step: abs(step[0]))
        most = sizes[dim].high
        if most is None or abs(short) * (most - 1) >= abs(long):
            return True
    return False


def _windows(op: Op) -> list[tuple[tuple[int, str], tuple[int, str]]]:
    """Two steps along a dim of the tensor, each with the dim of the tile that it is for."""
    if op.is_(WRITE, COPY) or not op.get("at"):
        return []
    dims = {index_of(dim): dim for dim in dims_of(op)}
    steps = [[(number, dims[term]) for number, term in place.terms() if term in dims] for _, place in op["at"]]
    return [pair for along in steps for pair in combinations(along, 2)]


def seen_by(op: Op, kernel: Kernel) -> Memory:
    """The tensor of an access the way its tile sees it: with the dims of the tile, where there is a mapping, the one
    along which neighbours are neighbours in memory last."""
    memory = kernel.memory(op["source" if op.is_(COPY) else "memory"])
    if not op.get("at"):
        return memory
    row, sizes = contiguous_dim(op, memory), kernel.all_sizes
    dims = sorted(dims_of(op), key=lambda dim: dim == row)
    return replace(memory, dims=tuple(dims), shape=tuple(sizes[dim] for dim in dims))


def lies_along(op: Op, memory: Memory, dim: str) -> bool:
    """Whether neighbours along a dim of the tile are neighbours in memory, also those of a last dim of one element."""
    return dim == contiguous_dim(op, memory) or (not op.get("at") and dim == memory.dims[-1])


def contiguous_dim(op: Op, memory: Memory) -> str:
    """The dim of the tile whose neighbours are neighbours in memory, or most of them; empty where none are."""
    if not op.get("at"):
        return memory.contiguous_dim
    dims, expr = dims_of(op), dict(op["at"])[memory.contiguous_dim]
    while True:
        steps = {term for coefficient, term in expr.terms() if coefficient == 1}
        found = next((dim for dim in dims if index_of(dim) in steps), "")
        (term, *others) = [term for term in steps if term.kind == "mod"] or [expr]
        if found or others or term.kind != "mod":
            return found
        expr = term.args[0]


def places(
    statement: Read | Written | Take, context: ReferenceContext, shape: Sequence[str], dims: tuple[str, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """For every element of a whole value the element number in something of that shape, and whether it is inside."""
    import torch

    device = next(iter(context.tensors.values())).device
    extents = [context.sizes[dim] for dim in dims]

    def along(dim: str) -> torch.Tensor:
        index = torch.arange(context.sizes[dim], device=device)
        return index.reshape([-1 if other == dim else 1 for other in dims])

    known: dict[str, Any] = dict(context.params) | {dim: along(dim) for dim in dims}
    for name in values_of(statement.at, dims, context.params):
        if name in context.computation.scalars:
            known[name] = _at_most(int(context.names[name]))
            continue
        own = context.dims[name]
        value = context.names[name].long().permute([own.index(dim) for dim in dims if dim in own])
        known[name] = value[tuple(slice(None) if dim in own else None for dim in dims)]
    number = torch.zeros(extents, dtype=torch.int64, device=device)
    inside = torch.ones(extents, dtype=torch.bool, device=device)
    within = statement.to if isinstance(statement, Written) else getattr(statement, statement.headline[0])
    for dim, at in statement.at.items():
        if isinstance(at, Name) and at.name in context.names.keys() - context.computation.scalars - {*dims}:
            numbers = context.names[at.name]
            context.looked_up.append(LookUp(at.name, within, dim, numbers, context.sizes[dim]))
    for dim in shape:
        size = context.sizes[dim]
        place = _computed(statement.at[dim], known, context.sizes, _IN_TORCH) if dim in statement.at else known[dim]
        place = torch.as_tensor(place, device=device)
        inside &= (place >= 0) & (place < size)
        number = number * size + place
    return torch.where(inside, number, 0), inside


def taken(value: torch.Tensor, number: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """The elements at the places that `places` gives, 0 outside."""
    import torch

    flat = torch.cat([value.reshape(-1), value.new_zeros(1)])  # torch fills no tensors of 8-bit floats
    return flat[torch.where(inside, number, value.numel())]


def evaluate(condition: Expression, context: ReferenceContext) -> tuple[tuple[str, ...], torch.Tensor]:
    """Where a condition on places and values holds, for each element of the values: their dims, and bools.

    The tile of every dim is all of it.
    """
    import torch

    sizes = context.sizes
    known = {name: context.names[name] for name in condition.names() if name in context.names}
    whole = {f"start({dim})": 0 for dim in sizes} | context.params | sizes
    whole |= {f"{function}({dim})": size for dim, size in sizes.items() for function in ("end", "size")}
    if not known:
        return (), torch.tensor(condition.evaluate(whole), device=next(iter(context.tensors.values())).device)
    dims = max((context.dims[name] for name in known), key=len)
    return dims, holds(condition, {**whole, **{name: value.long() for name, value in known.items()}})


def holds(condition: Expression, known: Mapping[str, Any]) -> torch.Tensor:
    """Where a comparison of values and places holds, each by its name or, as `start(N)`, its text in ``known``."""
    import torch

    numbers = {name: _at_most(one) if isinstance(one, torch.Tensor) else one for name, one in known.items()}
    return _computed(condition, numbers, {}, _BOUNDED_IN_TORCH)


_Operations = Mapping[str, Callable[[Any, Any], Any]]


def _computed(expression: Expression, known: Mapping[str, Any], sizes: Mapping[str, Any], how: _Operations) -> Any:
    match expression:
        case Num(value=number):
            return how["number"](number, None)
        case Name(name=name):
            return known[name]
        case Unary(operand=operand):
            return how["-"](how["number"](0, None), _computed(operand, known, sizes, how))
        case Binary(op=sign, left=left, right=right) | Compare(op=sign, left=left, right=right):
            return how[sign](_computed(left, known, sizes, how), _computed(right, known, sizes, how))
        case Call() if str(expression) in known:
            return known[str(expression)]
        case Call(function="size", arguments=(dim,)):
            return sizes[str(dim)]
        case Call(function=function, arguments=arguments):
            first, *rest = [_computed(one, known, sizes, how) for one in arguments]
            for other in rest:
                first = how[function](first, other)
            return first
        case _:
            raise AssertionError(f"{expression} is no index")


def _at_most(number: Any, most: int = LARGEST) -> Any:
    """A whole number, or a tensor of them, as kernels take those of a call."""
    return max(-most, min(most, number)) if isinstance(number, int) else number.clamp(-most, most)


def _times(left: Any, right: Any) -> Any:
    """The product, of which no factor wraps: those beyond `LARGEST` count as that."""
    if isinstance(left, int) and isinstance(right, int):
        return _at_most(left * right)
    wide, other = (right, left) if isinstance(left, int) else (left, right)
    most = LARGEST // (max(1, abs(other)) if isinstance(other, int) else other.abs().clamp(min=1))
    return _torch_minimum(_torch_maximum(wide, -most), most) * other


def _product(left: Any, right: Any) -> Any:
    """The product of a place and what may be a number of the call; of elements alone that of torch."""
    large = any(isinstance(one, int) and abs(one) >= 2**31 for one in (left, right))
    return _times(left, right) if large else left * right


def _torch_minimum(left: Any, right: Any) -> Any:
    import torch

    return torch.minimum(torch.as_tensor(left), torch.as_tensor(right))


def _torch_maximum(left: Any, right: Any) -> Any:
    import torch

    return torch.maximum(torch.as_tensor(left), torch.as_tensor(right))


_PLAIN: _Operations = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "ceildiv": lambda a, b: (a + (b - 1)) // b,
    "xor": lambda a, b: a ^ b,
}
_IN_KERNELS: _Operations = {**_PLAIN, "number": lambda n, _: const(n), "min": minimum, "max": maximum}
_OF_LARGE_NUMBERS: _Operations = {
    **_IN_KERNELS,
    "+": plus,
    "-": minus,
    "*": times,
    "ceildiv": lambda a, b: plus(a, b - 1) // b,
}
_COMPARISONS: _Operations = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_IN_TORCH: _Operations = {
    **_PLAIN,
    **_COMPARISONS,
    "*": _product,
    "/": lambda a, b: a // divisor(b),  # exact, where it has a meaning
    "//": lambda a, b: a // divisor(b),
    "%": lambda a, b: a % divisor(b),
    "ceildiv": lambda a, b: (a + (b - 1)) // divisor(b),
    "number": lambda n, _: n,
    "min": _torch_minimum,
    "max": _torch_maximum,
}
_BOUNDED_IN_TORCH: _Operations = {
    **_IN_TORCH,
    "+": lambda a, b: _at_most(a + b),
    "-": lambda a, b: _at_most(a - b),
    "*": _times,
}
