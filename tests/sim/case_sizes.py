"""A case of a kernel in; sizes of a call it is right for come out, near the edges of its tiles: none, one, a tile and one
more or less, shares of a split without elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from tests.kernels import Sizes, Subject
from wavespec.ir.kernel import Kernel
from wavespec.schema.cases import TargetCase
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.expressions import EvaluationError
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.resolve import complete_sizes, constant_values

Choose = Callable[[Sequence[Any]], Any]
_MOST_STEPS = 40
"""Of a call, in all of its tiles."""
_MOST_ELEMENTS = 1 << 20
"""Of a tensor."""


def sizes_at_edges(subject: Subject, case: TargetCase, kernels: Sequence[Kernel], choose: Choose) -> Sizes | None:
    """Sizes that keep what the case promises of its dims; None where those that were drawn do not, or take long."""
    spec, tiles = case.spec, dict[str, int]()
    for kernel in kernels:
        for split in (*kernel.distribution.loops, *kernel.distribution.workgroup):
            tiles[split.dim] = max(tiles.get(split.dim, 1), split.tile)
    free = {name: dim for name, dim in subject.spec.dims.items() if dim.equals is None and dim.value is None}
    sizes: dict[str, int] = {}
    for name, dim in free.items():
        sizes[name] = choose([*_near_edges(spec.dims.get(name, dim), tiles.get(name, 1))])
    try:
        whole = subject.complete(sizes)
        if not all(_is_promised(one, whole) for one in (subject.spec, *case.kernels)):
            return None
    except (EvaluationError, ValueError, ZeroDivisionError):
        return None
    steps = prod(max(1, -(-whole.get(dim, 1) // tile)) for dim, tile in tiles.items())
    tensors = (prod(whole.get(dim, 1) for dim in tensor.shape) for tensor in subject.spec.tensors.values())
    return whole if steps <= _MOST_STEPS and max(tensors) <= _MOST_ELEMENTS else None


def _near_edges(dim: Dim, tile: int) -> Iterator[int]:
    """Of a dim, as it is promised to be."""
    factor, least = dim.multiple_of, dim.min or 0
    edges = [0, 1, 2, 3, *(count * tile + more for count in (1, 1, 2, 3) for more in (-factor, -1, 0, 0, 1, factor))]
    for size in {*edges, *(least + edge for edge in edges)}:
        rounded = max(least + -least % factor, size - size % factor)
        if dim.max is None or rounded <= dim.max:
            yield rounded


def _is_promised(spec: KernelSpec, sizes: Sizes) -> bool:
    free = {name: sizes[name] for name, dim in spec.dims.items() if dim.equals is None and name in sizes}
    own = complete_sizes(spec, free)
    conditions = [one.condition for one in spec.constraints if isinstance(one, Assume)]
    values = {**constant_values(spec), **own}
    known = (one for one in conditions if spec.numbers.keys().isdisjoint(one.names()))
    return all(_is_of(spec.dims[name], size) for name, size in own.items()) and all(
        one.evaluate(values) for one in known
    )


def _is_of(dim: Dim, size: int) -> bool:
    return size >= (dim.min or 0) and (dim.max is None or size <= dim.max) and size % dim.multiple_of == 0
