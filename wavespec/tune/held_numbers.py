"""What an input holds goes in, as plain numbers; tensors that hold it come out, or what in a tensor does not.

Needs torch only: bundles that are measured elsewhere carry this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

Bound = int | float | None
_WHOLE = 3
"""Whole numbers of floating point are drawn up to this, either side of 0, where nothing is said."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a tensor holds in one call: `least` and `most` are numbers that may be there, rounded to its type."""

    least: Bound = None
    most: Bound = None
    order: str = ""
    """`sorted`, `permutation` or `distinct`, along `axis`."""
    axis: int = -1
    matrix: tuple[int, ...] = ()
    """The two axes over which it is symmetric and positive definite."""

    def limits(self, dtype: torch.dtype) -> tuple[Bound, Bound]:
        """Both bounds as numbers of a type."""
        return _rounded(self.least, dtype), _rounded(self.most, dtype)


ANYTHING = Held()


def draw(
    held: Held, shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator, *, whole: bool = False
) -> Tensor:
    """A tensor on the device of the generator; floating point holds whole numbers where those are asked for.

    Numbers of floating point are normal ones where nothing is said, even from bound to bound, or as far from the only
    bound as normal ones from 0. Integers are from the whole range up to 8 bits, or what of that is in bounds.
    """
    device = generator.device
    if held.matrix:
        return _matrices(shape, held.matrix, generator).to(dtype)
    if held.order == "permutation":
        return torch.rand(tuple(shape), generator=generator, device=device).argsort(held.axis).to(dtype)
    if dtype in (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu):  # pairs of any bits; scales from 1/128 to 128
        low, high = (0, 256) if dtype == torch.float4_e2m1fn_x2 else (120, 135)
        bits = torch.randint(low, high, tuple(shape), generator=generator, device=device)
        return bits.to(torch.uint8).view(dtype)
    least, most = held.limits(dtype)
    if dtype.is_floating_point and not whole:
        made = _between(least, most, shape, torch.float64 if dtype == torch.float64 else torch.float32, generator)
    else:
        made = _integers(least, most, shape, dtype, generator)
    if held.order == "sorted" and made.numel():
        made = made.sort(held.axis).values
        for place, end in ((0, least), (-1, most)):
            if end is not None:
                made.select(held.axis, place).fill_(end)
    if held.order == "distinct" and made.numel():
        apart = _apart(made if whole else made.to(dtype), held.axis, most, generator)  # whole numbers stay whole
        return apart.to(dtype)
    return made.to(dtype)


def problem(held: Held, name: str, tensor: Tensor) -> str | None:
    """Which elements of a tensor are not what it holds, as a sentence without its end; `None` where all are."""
    if not tensor.numel() or held == ANYTHING:
        return None
    if held.matrix:
        return _matrix_problem(held, name, tensor.movedim(held.matrix, (-2, -1)).double())
    # Integers are compared as they are, small floats as numbers that torch compares.
    numbers = tensor if not tensor.dtype.is_floating_point else tensor.double()
    if held.order == "permutation":
        return _permutation_problem(held, name, numbers)
    least, most = held.limits(tensor.dtype)
    if least is not None or most is not None:
        fits = torch.ones_like(numbers, dtype=torch.bool)
        fits &= fits if least is None else numbers >= least
        fits &= fits if most is None else numbers <= most
        if not fits.all():
            return _outside(name, numbers, ~fits, least, most)
    if held.order == "distinct" and (twice := _twice(held, name, numbers)):
        return f"{twice} is, which makes them not distinct"
    if held.order == "sorted":
        size = numbers.shape[held.axis]
        later, earlier = numbers.narrow(held.axis, 1, size - 1), numbers.narrow(held.axis, 0, size - 1)
        falls = ~(later >= earlier)
        if falls.any():
            before = _first(falls)
            place = list(before)
            place[held.axis] += 1
            return f"{_shown(name, place, numbers)}, less than {_shown(name, before, numbers)} before it"
    return None


def _rounded(bound: Bound, dtype: torch.dtype) -> Bound:
    if bound is None or not dtype.is_floating_point:
        return bound
    return torch.tensor(float(bound), dtype=torch.float64).to(dtype).double().item()


def _between(least: Bound, most: Bound, shape: Sequence[int], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    if least is not None and most is not None:
        share = torch.rand(tuple(shape), generator=random, dtype=dtype, device=random.device)
        return (least * (1 - share) + most * share).clamp(least, most)
    normal = torch.randn(tuple(shape), generator=random, dtype=dtype, device=random.device)
    if least is None and most is None:
        return normal
    return least + normal.abs() if least is not None else (most or 0) - normal.abs()


def _integers(least: Bound, most: Bound, shape: Sequence[int], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    if dtype == torch.bool:
        low, high, smallest, largest = 0, 1, 0, 1
    elif dtype.is_floating_point:
        low, high, smallest, largest = -_WHOLE, _WHOLE, -(2**53), 2**53
    else:
        smallest, largest = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        low, high = max(smallest, -128), min(largest, 127)
    span = high - low
    if least is not None:
        low = max(math.ceil(least), smallest)
        high = max(high, low + span) if most is None else high
    if most is not None:
        high = min(math.floor(most), largest)
        low = min(low, high - span) if least is None else low
    low, high = max(low, smallest), min(high, largest)
    high = min(max(high, low), 2**63 - 2)  # bounds that nothing is between: the least, which callers report
    return torch.randint(low, high + 1, tuple(shape), generator=random, device=random.device)


def _apart(numbers: Tensor, axis: int, most: Bound, random: torch.Generator) -> Tensor:
    """The numbers in another order, equal ones moved on to the next ones that their type has: bounds that have room for
    fewer are passed below, which callers report."""
    dtype, size = numbers.dtype, numbers.shape[axis]
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    last = int(_counted(torch.tensor([limits.max if most is None else most]).to(dtype)))
    shape = [1] * numbers.dim()
    shape[axis] = size
    places = torch.arange(size, device=numbers.device).view(shape)
    rising = (_counted(numbers).sort(axis).values - places).cummax(axis).values + places
    rising = torch.minimum(rising, last - (size - 1) + places)
    shuffled = torch.rand(numbers.shape, generator=random, device=numbers.device).argsort(axis)
    return _uncounted(rising.gather(axis, shuffled), dtype)


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _counted(numbers: Tensor) -> Tensor:
    """Integers as they are; of floating point which one of its type each is, counted from 0."""
    if not numbers.dtype.is_floating_point:
        return numbers.long()
    bits = numbers.view(_BITS[numbers.dtype.itemsize]).long()
    magnitude = bits & (2 ** (8 * numbers.dtype.itemsize - 1) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)


def _uncounted(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers that `_counted` makes these of."""
    if not dtype.is_floating_point:
        return counts.to(dtype)
    sign = -(2 ** (8 * dtype.itemsize - 1))  # all bits but the sign are those of the magnitude
    return torch.where(counts < 0, sign - counts, counts).to(_BITS[dtype.itemsize]).view(dtype)


def _matrices(shape: Sequence[int], axes: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Symmetric, with eigenvalues from 1 to about 5."""
    size = shape[axes[0]]
    others = [extent for axis, extent in enumerate(shape) if axis not in axes]
    factor = torch.randn((*others, size, size), generator=random, dtype=torch.float64, device=random.device)
    product = factor @ factor.mT / max(size, 1)
    return ((product + product.mT) / 2 + torch.eye(size, dtype=product.dtype, device=product.device)).movedim(
        (-2, -1), axes
    )


def _outside(name: str, numbers: Tensor, outside: Tensor, least: Bound, most: Bound) -> str:
    if least is not None and most is not None:
        limits = f"from {_number(least)} to {_number(most)}"
    else:
        limits = f"at least {_number(least)}" if least is not None else f"at most {_number(most)}"
    count, first = int(outside.sum()), _shown(name, _first(outside), numbers)
    return f"{count} of {numbers.numel()} elements of '{name}' are not {limits}, the first is {first}"


def _permutation_problem(held: Held, name: str, numbers: Tensor) -> str | None:
    size = numbers.shape[held.axis]
    outside = (numbers < 0) | (numbers >= size)
    if outside.any():
        return _outside(name, numbers, outside, 0, size - 1)
    twice = _twice(held, name, numbers)
    return f"{twice} is, which makes no permutation" if twice else None


def _twice(held: Held, name: str, numbers: Tensor) -> str | None:
    """The first element along the axis that is there before, and where: `x[4] = 2, as x[1]`."""
    size = numbers.shape[held.axis]
    order = numbers.sort(dim=held.axis, stable=True)
    same = order.values.narrow(held.axis, 1, size - 1) == order.values.narrow(held.axis, 0, size - 1)
    if not same.any():
        return None
    at = list(_first(same))
    earlier, later = list(at), list(at)
    earlier[held.axis] = int(order.indices[tuple(at)])
    at[held.axis] += 1
    later[held.axis] = int(order.indices[tuple(at)])
    return f"{_shown(name, later, numbers)}, as {_place(name, earlier)}"


def _matrix_problem(held: Held, name: str, matrices: Tensor) -> str | None:
    """Of tensors whose last two axes are those of the matrices; places are those of the tensor itself."""

    def placed(place: Sequence[int]) -> list[int]:
        whole = list(place[:-2])
        for axis, index in sorted(zip(held.matrix, place[-2:], strict=True)):
            whole.insert(axis, index)
        return whole

    apart = matrices != matrices.mT
    if apart.any():
        place = list(_first(apart))
        mirrored = [*place[:-2], place[-1], place[-2]]
        one, other = (f"{_place(name, placed(at))} = {matrices[tuple(at)].item()}" for at in (place, mirrored))
        return f"{one}, and {other}, which makes no symmetric matrix"
    failed: Tensor = cast("Any", torch.linalg).cholesky_ex(matrices).info
    if not failed.any():
        return None
    batch = list(_first(failed.reshape(matrices.shape[:-2]) != 0)) if matrices.dim() > 2 else []
    order = int(failed.reshape(matrices.shape[:-2])[tuple(batch)])
    end = _place(name, placed([*batch, order - 1, order - 1]))
    return f"the matrix that ends at {end} is not positive definite"


def _first(which: Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in which.nonzero()[0])


def _place(name: str, place: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def _shown(name: str, place: Sequence[int], numbers: Tensor) -> str:
    return f"{_place(name, place)} = {_number(numbers[tuple(place)].item())}"


def _number(number: Bound) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)
