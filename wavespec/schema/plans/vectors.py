"""Roles of a product go in; those of the same one by vectors of its results, if operands lie so, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Mma, Op, Read, ValueType, Written, every
from wavespec.schema.plans.roles import Roles


def in_vectors(spec: KernelSpec, ops: Sequence[Op], types: Mapping[str, ValueType], roles: Roles) -> Roles | None:
    """Roles whose columns are the dim along which results, and one operand, have their elements side by side: vectors
    of that operand meet elements of the other one, and both are read where they lie.  None where that is not so, and
    for more than a product of two tensors in a loop over all of a dim."""
    is_other = roles.decoded or roles.mapped or roles.joined or roles.behind or roles.beside or roles.walked
    if roles.kind != "products" or roles.products != 1 or is_other or not roles.single:
        return None
    (product, *more), written = every(Mma, ops), [*every(Written, ops)]
    last = {types[op.value].dims[-1] for op in written if op.value in types and types[op.value].dims}
    if more or len(last) != 1 or any(op.at for op in written):
        return None
    (columns,) = last
    reads = {op.name: op for op in every(Read, ops)}
    sides = [reads[name] for name in (product.lhs, product.rhs) if columns in types[name].dims]
    if columns not in (roles.rows, roles.columns) or len(sides) != 1 or not _ends_with(spec, sides[0], columns):
        return None
    rows = roles.rows if columns == roles.columns else roles.columns
    return replace(roles, rows=rows, columns=columns) if rows else None


def _ends_with(spec: KernelSpec, read: Read, dim: str) -> bool:
    return not read.at and spec.tensors[read.tensor].shape[-1] == dim
