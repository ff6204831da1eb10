"""What a call found at places that it changed one element at a time goes in; whether any order finds that comes out.

Each element is a step of its place from one state to another: from its old value to what this becomes. An order of all
elements of a place is a path that takes each of these steps once, from what the place held at first: there is one where
steps are connected, and as many lead to a state as leave it, but for the first and the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Walk(NamedTuple):
    """``held``: what places hold in the end; ``wrong``: the places where no order finds what was found."""

    held: Tensor
    wrong: Tensor


def walked(held: Tensor, places: Tensor, old: Tensor, new: Tensor) -> Walk:
    """Follow all steps.

    Args:
        held: what places hold at first; flat, as is all else.
        places: of each element.
        old: what was found there, of the type of ``held``.
        new: what that became.
    """
    import torch

    used, _ = _different(places)
    states = torch.cat([held[used], old, new])
    pairs = torch.stack([torch.cat([used, places, places]), _bits(states)], 1)
    nodes, numbers = _different(pairs)
    first, steps = numbers[: len(used)], numbers[len(used) :]
    tail, head = steps[: len(places)], steps[len(places) :]
    count = len(nodes)
    surplus = torch.bincount(head, minlength=count) - torch.bincount(tail, minlength=count)
    surplus[first] += 1
    is_last = surplus == 1
    own = torch.searchsorted(used, nodes[:, 0].contiguous())
    uneven = torch.zeros_like(used).index_add_(0, own, surplus.ne(0).long())
    roots = _connected(tail, head, count)
    apart = roots[tail] != roots[first[torch.searchsorted(used, places)]]
    is_wrong = uneven != 1
    is_wrong[torch.searchsorted(used, places[apart])] = True
    values = torch.empty(count, dtype=held.dtype, device=held.device)
    values[numbers] = states
    after = held.clone()
    after[nodes[is_last, 0]] = values[is_last]
    return Walk(after, used[is_wrong])


def _different(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The different rows in order, and of each row which of them it is."""
    return rows.unique(dim=0, return_inverse=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _bits(values: Tensor) -> Tensor:
    """One number for each value: zeros are one, and so is all that is no number."""
    import torch

    if not values.dtype.is_floating_point:
        return values.long()
    plain = torch.where(values.isnan(), torch.full_like(values, torch.nan), values + 0.0)
    return plain.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]).long()


def _connected(one: Tensor, other: Tensor, count: int) -> Tensor:
    """Of nodes between which there are edges, the first of those that each is connected with."""
    import torch

    root = torch.arange(count, device=one.device)
    while True:
        left, right = root[one], root[other]
        lower = torch.minimum(left, right)
        following = root.scatter_reduce(0, left, lower, "amin").scatter_reduce(0, right, lower, "amin")
        while not torch.equal(further := following[following], following):
            following = further
        if torch.equal(following, root):
            return root
        root = following
