"""A kernel, resolved for its target, in; the sizes of its dims as index expressions out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.names import size_name
from wavespec.ir.strided import LARGEST_SIZE
from wavespec.ops.index_map import size_from
from wavespec.schema.resolved import ResolvedKernel


def dim_sizes(resolved: ResolvedKernel) -> dict[str, Expr]:
    """The size of every dim: a symbol, or a number.

    One that follows from others, and is as long as one of them, or as a number, for the parameters of this kernel, is
    that.
    """
    sizes = own_sizes(resolved)
    for name, same in _followed(resolved, sizes):
        own = sizes[name]
        is_as_promised = same.divisor % own.divisor == 0 and _is_within(same, own)
        if same.kind in ("symbol", "const") and is_as_promised:
            sizes[name] = same
    return sizes


def _is_within(size: Expr, promised: Expr) -> bool:
    """Whether all that a size may be is what is promised of another."""
    least = (size.low or 0) >= (promised.low or 0)
    return least and size.high is not None and promised.high is not None and size.high <= promised.high


def smallest_sizes(resolved: ResolvedKernel) -> dict[str, int]:
    """Of dims that follow from others, the least that they are if those are as long as is promised."""
    sizes = {name: _own_size(resolved, name) for name in resolved.computation.dims}
    return {name: size.low for name, size in _followed(resolved, sizes) if size.low is not None}


def _followed(resolved: ResolvedKernel, sizes: Mapping[str, Expr]) -> Iterator[tuple[str, Expr]]:
    """The dims that follow from others alone, each behind those, and what they follow from."""
    params = {name: const(value) for name, value in resolved.computation.params.items()}
    for name, expression in resolved.equals.items():
        if (size := size_from(expression, {**params, **sizes})) is not None:
            yield name, size


def own_sizes(resolved: ResolvedKernel) -> dict[str, Expr]:
    """The size of every dim as its own symbol, or the number that it always is; of one that follows from others, a
    multiple of all that they make it one of, at least what they make it, and at most that where one of them has a
    maximum."""
    sizes = {name: _own_size(resolved, name) for name in resolved.computation.dims}
    known = dict(sizes)
    for name, same in _followed(resolved, known):
        own = sizes[name]
        if same.is_const:
            known[name] = same
        high = max(own.low or 0, min(_most(same), LARGEST_SIZE if own.high is None else own.high))
        low = min(high, max(own.low or 0, same.low or 0))
        if own.kind == "symbol" and (own.divisor % same.divisor or (low, high) != (own.low, own.high)):
            sizes[name] = known[name] = symbol(own.args[0], low, high, math.lcm(own.divisor, same.divisor))
    return sizes


def _most(size: Expr) -> int:
    """What a size is at most if one that it follows from has a maximum."""
    bounds = [one.high for one in size.walk() if one.kind == "symbol" and one.high is not None]
    has_maximum = any(bound < LARGEST_SIZE for bound in bounds)
    return size.high if has_maximum and size.high is not None else LARGEST_SIZE


def _own_size(resolved: ResolvedKernel, name: str) -> Expr:
    if name in resolved.sizes:
        return const(resolved.sizes[name])
    dim = resolved.promised[name]
    most = LARGEST_SIZE if dim.max is None else min(dim.max, LARGEST_SIZE)
    return symbol(size_name(name), dim.min, most, dim.multiple_of)
