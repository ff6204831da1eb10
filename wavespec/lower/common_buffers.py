"""The shared memories that each loop of a kernel fills go in; which of these lie in which others comes out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.tile_ops import ITERATE


def loops_before(kernel: Kernel) -> dict[int, int]:
    """Of loops that stand behind others in their block the loop before, by number."""
    numbers = {id(op): number for number, op in enumerate(op for op in kernel.walk() if op.is_(ITERATE))}
    blocks = [kernel.body, *(op.region.ops for op in kernel.walk() if op.region)]
    loops = ([op for op in ops if op.is_(ITERATE) and not op.get("once")] for ops in blocks)
    return {numbers[id(op)]: numbers[id(before)] for some in loops for before, op in itertools.pairwise(some)}


def buffers_in_common(
    memories: Mapping[str, Memory], filled_in: Mapping[str, int | None], before: Mapping[int, int]
) -> dict[str, str]:
    """All memories of a loop lie in those of the loop before it in its block, where steps of both are as large: waves
    that only copy fill the buffers of one after those of the other.

    Args:
        memories: by name.
        filled_in: the number of the loop that fills each.
        before: see `loops_before`.
    """
    found = dict[str, str]()
    for loop, other in before.items():
        own, free = ([memories[name] for name, number in filled_in.items() if number == one] for one in (loop, other))
        pairs = dict[str, str]()
        for memory in own:
            there = next((one for one in free if _lies_alike(one, memory)), None)
            if there is not None:
                free.remove(there)
                pairs[memory.name] = found.get(there.name, there.name)
        found |= pairs if len(pairs) == len(own) and not free else {}
    return found


def _lies_alike(one: Memory, other: Memory) -> bool:
    """Whether two memories differ in the names of their dims alone."""
    assert one.arrangement is not None and other.arrangement is not None
    arrangement = other.arrangement.renamed(dict(zip(other.dims, one.dims, strict=True)))
    alike = (one.dtype, one.shape, one.buffers, one.packed) == (other.dtype, other.shape, other.buffers, other.packed)
    return alike and one.arrangement == arrangement
