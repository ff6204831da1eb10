"""A graph and roles of its dims go in; how much of a value a row has, and what elements are counted in, come out."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Op, Read, Write, Written, every
from wavespec.schema.plans.roles import Roles

MOST_WORDS = 2048
"""Of a value of a row that a wave has, in words of 32 bits."""
_WORD = 32


def row_words(spec: KernelSpec, roles: Roles) -> int:
    """Words of the largest value that is made of a row behind a product; of operands, which have steps, it has none."""
    rows = {*roles.alone, roles.rows}
    sizes = {name: roles.fixed.get(name, dim.max or 1) for name, dim in spec.dims.items()}
    values = ((dims, bits) for dims, bits in roles.values if {*roles.steps}.isdisjoint(dims))
    words = (prod(sizes[dim] for dim in dims if dim not in rows) * bits // _WORD for dims, bits in values)
    return max(words, default=0)


def counted_dims(spec: KernelSpec, ops: Sequence[Op]) -> tuple[str, ...]:
    """The dims of the one tensor of integers that elements are combined with at computed places, and that nothing
    reads; none without."""
    written = [op for op in every(Written, ops) if isinstance(op, Write) and op.combine and op.at]
    names = {op.to for op in written}
    if len(names) != 1 or any(op.tensor in names for op in every(Read, ops)):
        return ()
    tensor = spec.tensors[names.pop()]
    return tensor.shape if tensor.dtype == "i32" else ()
