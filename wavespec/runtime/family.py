"""What a call of a family has goes in; sizes that pick a member, or the error that no member fits, come out."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from wavespec.runtime.argument_errors import ArgumentError, ArgumentTypeError, counted

_MOST_SHOWN = 8


def size_in(family: str, tensor: Tensor, argument: str, dim: str, axis: int) -> int:
    """The size of a dim that picks the member: a number, also while torch traces.

    Errors: `ArgumentError` where the tensor has too few dims.
    """
    if tensor.dim() <= axis:
        raise ArgumentError(
            f"{family}: argument '{argument}' has {counted(tensor.dim(), 'dim')}, but {dim} is its dim {axis}."
        )
    return int(tensor.shape[axis])


def given_tensors(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Of the tensors that a call may leave out, those that it gives."""
    return tuple(tensor for tensor in tensors if tensor is not None)


def no_tensor(family: str, **arguments: object) -> ArgumentTypeError:
    """The error of a call where one of the `arguments` that pick the member is no tensor, such as None."""
    name, given = next((name, one) for name, one in arguments.items() if not isinstance(one, Tensor))
    return ArgumentTypeError(f"{family}: argument '{name}' is of type {type(given).__name__}, expected a torch.Tensor.")


def no_member(family: str, members: Iterable[tuple[object, ...]], *found: tuple[str, object]) -> ArgumentError:
    """The error of a call that picks none of `members`, which are their values.

    Args:
        found: for every value what it is, in words, and what it is in this call.
    """
    keys = list(members)
    for index, (words, value) in enumerate(found):
        expected = list(dict.fromkeys(key[index] for key in keys))
        if value not in expected:
            kind = ArgumentTypeError if any(isinstance(one, torch.dtype) for one in expected) else ArgumentError
            return kind(f"{family}: {words} is {_shown(value)}, expected {_either(expected)}.")
    call = ", ".join(f"{words} is {_shown(value)}" for words, value in found)
    there = "; ".join(", ".join(map(_shown, key)) for key in keys[:_MOST_SHOWN])
    more = f"; and {len(keys) - _MOST_SHOWN} more" if len(keys) > _MOST_SHOWN else ""
    return ArgumentError(f"{family}: no member is for a call where {call}; there are {there}{more}.")


def _either(values: list[object]) -> str:
    shown = [_shown(value) for value in values]
    return f"{', '.join(shown[:-1])}{' or ' if shown[1:] else ''}{shown[-1]}"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):  # of an input that not all members have
        return "given" if value else "left out"
    return repr(value) if isinstance(value, str) else str(value)
