"""A number that a workgroup takes from a counter goes in; one lane that asks for it, and waves that are told, come out.

What that lane was given stands in shared memory, in one of two buffers: it asks for the next number before all others
have seen this one.
"""

from __future__ import annotations

from collections.abc import Callable

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Value, attribute_pairs
from wavespec.ir.thread_ops import TAKE_NUMBER
from wavespec.schedule.buffer_ring import in_first_lane, make, signal

NUMBER = symbol("number_taken", 0, 2**30)
"""The number that a workgroup has: in front of a loop that takes some the first one, then what it was given."""
_BUFFERS = 2
_GIVEN = symbol("given", 0, 2**30)
"""What the counter held."""


def given_in(kernel: Kernel, *, by_lanes: bool) -> tuple[tuple[Memory, ...], tuple[Expr, ...]]:
    """The memory in which numbers stand, with its signals, and the symbols, of a kernel that takes some.

    ``by_lanes``: all lanes of the waves that only copy run, not one.
    """
    found = [op for op in kernel.walk() if op.is_(TAKE_NUMBER)]
    readers = kernel.lanes * kernel.wave_count + (kernel.lanes * kernel.producers if by_lanes else 1)
    memories = [
        memory
        for op in found
        for memory in (
            Memory(_place(op), op.result.vector.dtype, (), (), "shared", buffers=_BUFFERS),
            signal(_full(op), _BUFFERS, 1),
            signal(_empty(op), _BUFFERS, readers),
        )
    ]
    return tuple(memories), (_GIVEN,) if found else ()


def asked(kernel: Kernel, take: Op, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """What waves that only copy do: one lane counts on, writes down what it was given when everybody has read the
    number before the last one, and tells them."""
    type_, index = take.result.vector, _index(take)
    one, given, number = (Value(fresh(name), type_) for name in ("one", "given", "number"))
    place = {"memory": _place(take), "offset": const(0), "buffer": index, "mask": (), "valid": None}
    atomic = {"memory": take["memory"], "offset": const(0), "function": "add", "mask": ()}
    ask = in_first_lane(
        kernel,
        Op("constant", (), (one,), attribute_pairs({"value": 1})),
        Op("atomic", (one,), (given,), attribute_pairs(atomic), span=take.span),
        Op("bind", (given,), (), attribute_pairs({"symbol": _GIVEN.args[0]})),
        Op("coordinates", (), (number,), attribute_pairs({"places": (take["first"] + _GIVEN,)})),
        make("signal_wait", signal=_empty(take), index=index, phase=const(1) - _round(take)),
        Op("store", (number,), (), attribute_pairs(place)),
        make("signal_arrive", signal=_full(take), index=index, bytes=0),
    )
    return ask, *told(take)


def told(take: Op) -> tuple[Op, ...]:
    """What every lane does: wait for the number, read it, and say that it has."""
    index = _index(take)
    place = {"memory": _place(take), "offset": const(0), "buffer": index, "mask": (), "valid": None}
    return (
        make("signal_wait", signal=_full(take), index=index, phase=_round(take)),
        Op("load", (), take.results, attribute_pairs(place), span=take.span),
        make("signal_arrive", signal=_empty(take), index=index, bytes=0),
    )


def _index(take: Op) -> Expr:
    return take["step"] % _BUFFERS


def _round(take: Op) -> Expr:
    return take["step"] // _BUFFERS % 2


def _place(take: Op) -> str:
    return f"{take['memory']}.shared"


def _full(take: Op) -> str:
    return f"{take['memory']}.full"


def _empty(take: Op) -> str:
    return f"{take['memory']}.empty"
