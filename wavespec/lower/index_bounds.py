"""Operations of a loop go in; where comparisons of indices hold, for all elements of a step or for none, comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Op, Value
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, INDEX, REGISTER, SIZE


class _Linear(NamedTuple):
    """``coefficients`` of the elements' places in a tile, by dim, and what is ``added``: of places that are divided, or
    multiplied, a function of them (`_element`).  ``growth``: how much larger than a size it may be."""

    coefficients: dict[str, int]
    added: Expr
    growth: float = 1


_NONE: Final = const(0)
_ELEMENT: Final = ".element"
_BY_NUMBERS: Final = ("mul", "floor_divide", "remainder")
"""Of places with numbers that are the same for all elements; both kinds of division round towards minus infinity."""
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
    known = {name: _Linear({}, one) for name, one in outside.items()}
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
            coefficients, most, _ = _sum(((sign, right), (-sign, left)))
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
        return _Linear({dim: 1}, _NONE if absolute else origin)
    if op.is_(SIZE):
        return _Linear({}, op["extent"])
    if op.is_(REGISTER):
        return _Linear({}, const(int(op["value"])), 0)
    operands = [known.get(value.name) for value in op.operands]
    if op.is_(CAST):
        return operands[0]
    if not op.is_(ELEMENTWISE) or None in operands:
        return None
    if op["function"] in _BY_NUMBERS and not absolute:
        return _by_number(op, *(one for one in operands if one is not None))
    if op["function"] not in ("add", "sub", "neg"):
        return None
    signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}[op["function"]]
    return _sum((sign, one) for sign, one in zip(signs, operands, strict=True) if one is not None)


def _by_number(op: Op, places: _Linear, number: _Linear) -> _Linear | None:
    """Places divided by a number above 0, or times one where products are no larger than sizes, as those of 32 bits are
    none otherwise."""
    by, function = number.added, op["function"]
    if number.coefficients or not by.is_const or by.value < 1:
        return None
    if function == "mul" and places.growth * by.value > 1:
        return None
    rest, extents = places.added, dict(zip(op.result.tile.dims, op.result.tile.extents, strict=True))
    for dim, coefficient in places.coefficients.items():
        rest += _element(dim, extents.get(dim, 1)) * coefficient
    if function == "mul":
        return _Linear({}, rest * by, places.growth * by.value)
    if function == "floor_divide":
        return _Linear({}, rest // by, places.growth / by.value)
    return _Linear({}, rest % by, 0)


def _element(dim: str, extent: int) -> Expr:
    """The place of an element in a tile with so many along a dim."""
    return symbol(f"{dim}{_ELEMENT}", 0, extent - 1)


def _least(place: Expr) -> Expr | None:
    """For the element of a tile for which that is least; None where nobody knows."""
    found = place
    for coefficient, term in place.terms():
        if any(name.endswith(_ELEMENT) for name in term.symbols):
            part = term * coefficient
            if part.low is None or any(not name.endswith(_ELEMENT) for name in term.symbols):
                return None
            found += part.low - part
    return found


def _sum(parts: Iterable[tuple[int, _Linear]]) -> _Linear:
    coefficients, rest, growth = dict[str, int](), _NONE, 0.0
    for sign, (own, added, of_part) in parts:
        rest, growth = rest + added * sign, growth + of_part
        for dim, coefficient in own.items():
            coefficients[dim] = coefficients.get(dim, 0) + sign * coefficient
    return _Linear(coefficients, rest, growth)


def _bound(left: _Linear, right: _Linear, sign: int, flag: Value, dim: str, induction: str) -> tuple[int, Expr] | None:
    """For right minus left, times the sign, to be at least 0: its slope along the dim, and the place behind a step at
    most, or the first one of a step at least."""
    coefficients, rest, _ = _sum(((sign, right), (-sign, left)))
    slope = coefficients.pop(dim, 0)
    if abs(slope) != 1:
        return None
    extents = dict(zip(flag.tile.dims, flag.tile.extents, strict=True))
    for other, coefficient in coefficients.items():  # the element of the tile for which it is least
        rest += min(0, coefficient * (extents.get(other, 1) - 1))  # dims that the grid counts one by one are in no tile
    if f"{dim}{_ELEMENT}" in rest.symbols or (least := _least(rest)) is None:
        return None
    rest = least
    start = next((node for node in rest.walk() if node.kind == "symbol" and node.args[0] == induction), None)
    if start is None:
        return None
    bound = rest + start + 1 if slope < 0 else start - rest  # its coefficient is that of the dim
    return None if induction in bound.symbols else (slope, bound)
