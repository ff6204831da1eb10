"""Products of a graph go in; what they decode, what that is made of, how it lies, and how many elements have one scale,
come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import Mma, Op, Read, Structured, ValueType, every, walk
from wavespec.schema.renamed_dims import dims_along

LEAST_BLOCK = 32
"""Elements that have one scale: below, sums would be scaled too often."""
_MOST_IN_BLOCK = 1024
"""Beyond, steps have as many anyway."""


def elements_of_scale(scale: Read | None, steps: Sequence[str], constants: Mapping[str, int]) -> int:
    """Along steps, how many elements have one scale, if that is a power of two; 1 of scales that are computed.

    Args:
        constants: the values of all names in places, those of dims 0.
    """
    if scale is None:
        return 1
    steps_seen = (dict.fromkeys(steps, step) for step in range(2 * _MOST_IN_BLOCK))
    places = [[place.evaluate({**constants, **one}) for place in scale.at.values()] for one in steps_seen]
    length = _MOST_IN_BLOCK
    while any(place != places[step // length * length] for step, place in enumerate(places)):
        length //= 2
    return length


def reads_of(names: Iterable[str], ops: Sequence[Op]) -> tuple[Read, ...]:
    """The reads that values are made of; what a loop carries is made of itself."""
    return tuple(op for op in _ancestors(names, ops).values() if isinstance(op, Read))


def _ancestors(names: Iterable[str], ops: Sequence[Op]) -> dict[str, Op]:
    """What values are made of, they themselves first."""
    made = {name: op for op in walk(ops) if (name := getattr(op, "name", ""))}
    pending, found = [*names], dict[str, Op]()
    while pending:
        if (name := pending.pop()) not in found:
            found[name] = made[name]
            pending += [word for word in words_of(made[name]) if word in made]
    return found


def is_decoded(products: Sequence[Mma], reads: Mapping[str, Read], types: Mapping[str, ValueType]) -> bool:
    """Whether an operand is made of what is read, or of places that are computed, which lanes alone can look up."""
    operands = [one for op in products for one in (op.lhs, op.rhs)]
    names = {name for one in operands if one in reads for place in reads[one].at.values() for name in place.names()}
    return any(one not in reads for one in operands) or not names & types.keys() <= reads.keys()


def is_decoded_in_chain(products: Sequence[Mma], reads: Mapping[str, Read], ops: Sequence[Op]) -> bool:
    """Whether an operand of products that go into others is computed of what is read alone, and of no product."""
    made = {one for op in products for one in (op.lhs, op.rhs)} - reads.keys()
    return any(not any(isinstance(op, Mma) for op in _ancestors((one,), ops).values()) for one in made)


def is_used_beside(products: Sequence[Mma], reads: Mapping[str, Read], ops: Sequence[Op]) -> bool:
    """Whether lanes compute with an operand as well."""
    read = {one for op in products for one in (op.lhs, op.rhs) if one in reads}
    return any(read & set(words_of(op)) for op in walk(ops) if not isinstance(op, Mma | Structured | Read))


def lies_across(
    products: Sequence[Mma], spec: KernelSpec, ops: Sequence[Op], types: Mapping[str, ValueType], steps: Sequence[str]
) -> bool:
    """Whether an operand is computed of tensors with its dims, under whatever names, all of which have their elements
    side by side along another dim than steps."""
    reads = {op.name for op in every(Read, ops)}
    for name in {one for op in products for one in (op.lhs, op.rhs) if one not in reads}:
        read = [dims_along(op, spec.tensors[op.tensor].shape) for op in reads_of((name,), ops)]
        last = {dims[-1] for dims in read if dims and {*dims} == {*types[name].dims}}
        if last and last.isdisjoint(steps):
            return True
    return False


def held_by_steps(
    ops: Sequence[Op], types: Mapping[str, ValueType]
) -> dict[str, tuple[tuple[tuple[str, ...], int], ...]]:
    """Dims and bits of the operands of products, by the tensor they are read of, and under no name where computed."""
    reads = {op.name: op.tensor for op in every(Read, ops)}
    found = dict[str, list[tuple[tuple[str, ...], int]]]()
    for name in dict.fromkeys(one for op in every(Mma, ops) for one in (op.lhs, op.rhs)):
        found.setdefault(reads.get(name, ""), []).append((types[name].dims, DTYPES[types[name].dtype].bits))
    return {tensor: tuple(tiles) for tensor, tiles in found.items()}
