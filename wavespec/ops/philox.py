"""Counters and a key in, four words of 32 random bits for each counter out: Philox4x32 with 10 rounds.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC11), figure 3 and table 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavespec.ir.kernel import Value
from wavespec.ops.steps import Steps

if TYPE_CHECKING:
    import torch

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox(steps: Steps, counter: Value, key: Value) -> tuple[Value, Value, Value, Value]:
    """``counter`` and ``key`` are i64: the two low words of the counter, and both words of the key."""
    state, keys = [*_words(steps, counter)], _words(steps, key)
    state += [steps.constant(0, state[0].vector.dtype)] * 2
    for number in range(_ROUNDS):
        if number:
            keys = tuple(steps("add", word, _signed(weyl)) for word, weyl in zip(keys, _WEYL, strict=True))
        (low0, high0), (low1, high1) = (
            _words(steps, steps("mul", _unsigned(steps, word), multiplier))
            for word, multiplier in zip(state[::2], _MULTIPLIERS, strict=True)
        )
        first = steps("xor", steps("xor", high1, state[1]), keys[0])
        third = steps("xor", steps("xor", high0, state[3]), keys[1])
        state = [first, low1, third, low0]
    return state[0], state[1], state[2], state[3]


def _words(steps: Steps, value: Value) -> tuple[Value, Value]:
    """The low and the high word of i64."""
    return steps.cast(value, "i32"), steps.cast(steps("shr", value, 32), "i32")


def _unsigned(steps: Steps, word: Value) -> Value:
    return steps("and", steps.cast(word, "i64"), _WORD)


def _signed(word: int) -> int:
    return word - (word >> 31 << 32)


def philox_reference(counter: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same words, from 0 to 2^32 - 1, in i64."""
    state = [counter & _WORD, counter >> 32 & _WORD, counter * 0, counter * 0]
    keys = [key & _WORD, key >> 32 & _WORD]
    for number in range(_ROUNDS):
        if number:
            keys = [word + weyl & _WORD for word, weyl in zip(keys, _WEYL, strict=True)]
        first, second = state[0] * _MULTIPLIERS[0], state[2] * _MULTIPLIERS[1]
        high = [product >> 32 & _WORD for product in (first, second)]
        state = [high[1] ^ state[1] ^ keys[0], second & _WORD, high[0] ^ state[3] ^ keys[1], first & _WORD]
    return tuple(state)
