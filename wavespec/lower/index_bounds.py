"""Operations of a loop go in; where comparisons of indices hold, for all elements of a step or for none, comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, INDEX, REGISTER, SIZE

_Linear = tuple[dict[str, int], Expr]
"""Coefficients of the elements' places in a tile, by dim, and what is added."""
_NONE: Final = const(0)
_AT_LEAST: Final = {"le": (1, 0), "lt": (1, 1), "ge": (-1, 0), "gt": (-1, 1)}
"""By comparison: the sign of right minus left, and the least that it may then be."""


def holds_until(ops: Iterable[Op], dim: str, induction: str, outside: Mapping[str, Expr]) -> dict[str, Expr]:
    """By the name of a flag: the first place along ``dim`` such that it holds for all elements of steps that end there.

    Only for flags that hold up to somewhere along the dim, whose steps begin at the symbol ``induction``.  ``outside``:
    symbols that stand for numbers which the steps use, by the name of the value.
    """
    return {name: bound for name, (slope, bound) in _bounds(ops, dim, induction, outside).items() if slope < 0}


def holds_from(ops: Iterable[Op], dim: str, induction: str, outside: Mapping[str, Expr]) -> dict[str, Expr]:
    """The same for flags that hold from somewhere on: for all elements of steps that begin there or behind."""
    return {name: bound for name, (slope, bound) in _bounds(ops, dim, induction, outside).items() if slope > 0}


def _bounds(ops: Iterable[Op], dim: str, induction: str, outside: Mapping[str, Expr]) -> dict[str, tuple[int, Expr]]:
    """By the name of a flag: whether it begins (1) or ceases (-1) to hold, and where."""
    known: dict[str, _Linear] = {name: ({}, one) for name, one in outside.items()}
    found = dict[str, tuple[int, Expr]]()
    for op in ops:
        if len(op.results) != 1 or op.region is not None:
            continue
        if op.is_(ELEMENTWISE) and op["function"] in _AT_LEAST and all(v.name in known for v in op.operands):
            sign, least = _AT_LEAST[op["function"]]
            left, right = (known[value.name] for value in op.operands)
            bound = _bound(left, right, sign, op.result, dim, induction)
            if bound is not None:
                slope, place = bound
                found[op.result.name] = slope, place + slope * least
        elif (linear := _linear(op, known)) is not None:
            known[op.result.name] = linear
    return found


def fails_beyond(ops: Iterable[Op], dim: str, sizes: Mapping[str, Expr]) -> set[str]:
    """The flags that hold for no element beyond the edge of a dim that the other dims have."""
    known, found = dict[str, _Linear](), set[str]()
    for op in ops:
        if len(op.results) != 1 or op.region is not None:
            continue
        if op.is_(ELEMENTWISE) and op["function"] in _AT_LEAST and all(v.name in known for v in op.operands):
            sign, least = _AT_LEAST[op["function"]]
            left, right = (known[value.name] for value in op.operands)
            coefficients, most = _sum(((sign, right), (-sign, left)))
            if coefficients.get(dim, 0) < 0:
                for other, coefficient in coefficients.items():
                    most += coefficient * (sizes[dim] if other == dim else sizes[other] - 1 if coefficient > 0 else 0)
                if most.high is not None and most.high < least:
                    found.add(op.result.name)
        elif (linear := _linear(op, known, absolute=True)) is not None:
            known[op.result.name] = linear
    return found


def _linear(op: Op, known: Mapping[str, _Linear], *, absolute: bool = False) -> _Linear | None:
    """``absolute``: by the element's place in the dim."""
    if op.result.tile.dtype.kind != "int":
        return None
    if op.is_(INDEX):
        ((dim, origin),) = op["origin"]
        return {dim: 1}, _NONE if absolute else origin
    if op.is_(SIZE):
        return {}, op["extent"]
    if op.is_(REGISTER):
        return {}, const(int(op["value"]))
    operands = [known.get(value.name) for value in op.operands]
    if op.is_(CAST):
        return operands[0]
    if not op.is_(ELEMENTWISE) or op["function"] not in ("add", "sub", "neg") or None in operands:
        return None
    signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}[op["function"]]
    return _sum((sign, one) for sign, one in zip(signs, operands, strict=True) if one is not None)


def _sum(parts: Iterable[tuple[int, _Linear]]) -> _Linear:
    coefficients, rest = dict[str, int](), _NONE
    for sign, (own, added) in parts:
        rest += added * sign
        for dim, coefficient in own.items():
            coefficients[dim] = coefficients.get(dim, 0) + sign * coefficient
    return coefficients, rest


def _bound(left: _Linear, right: _Linear, sign: int, flag: Value, dim: str, induction: str) -> tuple[int, Expr] | None:
    """For right minus left, times the sign, to be at least 0: its slope along the dim, and the place behind a step at
    most, or the first one of a step at least."""
    coefficients, rest = _sum(((sign, right), (-sign, left)))
    slope = coefficients.pop(dim, 0)
    if abs(slope) != 1:
        return None
    extents = dict(zip(flag.tile.dims, flag.tile.extents, strict=True))
    for other, coefficient in coefficients.items():  # the element of the tile for which it is least
        rest += min(0, coefficient * (extents.get(other, 1) - 1))  # dims that the grid counts one by one are in no tile
    start = next((node for node in rest.walk() if node.kind == "symbol" and node.args[0] == induction), None)
    if start is None:
        return None
    bound = rest + start + 1 if slope < 0 else start - rest  # its coefficient is that of the dim
    return None if induction in bound.symbols else (slope, bound)
