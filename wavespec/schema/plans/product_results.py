"""The products of a graph go in; the dims of results that are their rows and their columns come out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from wavespec.schema.ops import Mma, ValueType

Types = Mapping[str, ValueType]


class ProductResults(NamedTuple):
    """Dims of results that have tiles, "" where there is none."""

    row: str
    column: str
    joined: bool
    """Ops join the columns of products; ``column`` is what they look up, or compute, for each row."""
    after: bool
    """Rows are those of products behind the loop."""


def results_of_products(
    products: Sequence[Mma],
    within: Sequence[Mma],
    looped: Sequence[Mma],
    types: Types,
    whole: Collection[str],
    results: Sequence[str],
) -> ProductResults:
    """``within``: products in loops; ``looped``: those that have a say in the columns, the first of them alone, and
    in the rows, all of them; ``whole``: dims that a value needs all of; ``results``: dims of what is written."""
    sides = [sides_of(op, types) for op in looped]
    first = sides[0]
    rows = [dim for dim in first[0] if dim in results and all(dim in side[0] for side in sides)]
    columns = [dim for dim in first[1] if dim in results]
    if is_after := not rows:  # what the loop has made is multiplied by others behind it
        behind = [dim for op in products if op not in within for side in sides_of(op, types) for dim in side]
        rows = [dim for dim in dict.fromkeys(behind) if dim in results and dim not in columns]
    joined = not columns and not {*whole}.isdisjoint(first[1])
    if joined:  # what is looked up, or computed, for each row
        of_products = {dim for op in products for name in (op.lhs, op.rhs) for dim in types[name].dims}
        columns = [dim for dim in results if dim not in of_products]
    row, column = rows[-1] if rows else "", columns[-1] if columns else ""
    return ProductResults(row, column, joined, is_after and bool(rows))


def sides_of(op: Mma, types: Types) -> tuple[list[str], list[str]]:
    """The dims of the rows of a product, and those of its columns."""
    lhs, rhs, acc = (types[one].dims for one in (op.lhs, op.rhs, op.acc))
    rows = [dim for dim in lhs if dim in acc and dim not in rhs]
    return rows, [dim for dim in rhs if dim in acc and dim not in lhs]
