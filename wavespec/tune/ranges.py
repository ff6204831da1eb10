"""Workloads to be tuned go in; the sizes that the result of each is good for, as conditions of a case, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd, sqrt

from wavespec.schema.language.models import Dim, KernelSpec

# Wide accesses have at most 16 elements; a larger multiple would keep sizes out that run just as well.
_MULTIPLE = 16
_FACTOR = 2
"""How far from a measured size, in either direction, nothing else was measured and it still decides."""


def ranges(spec: KernelSpec, workloads: Sequence[Mapping[str, int]]) -> list[list[str]]:
    """Conditions for each workload, such as ``M > 8``, ``M <= 512``, ``K % 16 == 0``; no two of them overlap.

    Between two sizes of a dim the border is their geometric mean.  Multiples are asked of dims along which memory is
    contiguous.  A dim that others say has no borders of its own.
    """
    contiguous = {tensor.shape[-1] for tensor in spec.tensors.values() if tensor.shape}
    found: list[list[str]] = []
    for workload in workloads:
        conditions: list[str] = []
        for name, dim in spec.dims.items():
            if dim.value is not None:
                continue
            if dim.equals is None:
                below, above = _borders(workload[name], sorted({other[name] for other in workloads}))
                conditions += _bounds(name, dim, below, above)
            multiple = gcd(workload[name], _MULTIPLE)
            if name in contiguous and dim.multiple_of % multiple:
                conditions.append(f"{name} % {multiple} == 0")
        found.append(conditions)
    return found


def _borders(size: int, sizes: Sequence[int]) -> tuple[int, int]:
    """The largest size that is too small, and the largest that is not too large."""
    place = sizes.index(size)
    below = size // _FACTOR if place == 0 else _between(sizes[place - 1], size)
    above = size * _FACTOR if place == len(sizes) - 1 else _between(size, sizes[place + 1])
    return min(below, size - 1), max(above, size)


def _between(small: int, large: int) -> int:
    return max(small, min(large - 1, ceil(sqrt(small * large))))


def _bounds(name: str, dim: Dim, below: int, above: int) -> list[str]:
    """The borders as conditions, where the dim does not say as much itself."""
    conditions = [f"{name} > {below}"] if below >= dim.min and below >= 0 else []
    if dim.max is None or above < dim.max:
        conditions.append(f"{name} <= {above}")
    return conditions
