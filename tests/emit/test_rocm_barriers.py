"""Barriers that wait by themselves: those at which another block's accesses of LDS may be in flight."""

from __future__ import annotations

import pytest

from tests.lower.ir_text import Text
from wavespec.emit.rocm_barriers import UnseenAccesses

LANES = Text("""
    thread kernel @rows target gfx942 lanes 64
    symbol lane in 0..63 by 1
    symbol step in 0..7 by 1
    symbol tile in 0..7 by 1
    plan "auto" stages 1 group 1
    grid [1]
    memory @out : f32 (d0: [64]) global output
    memory @s : f32 (d0: [64]) shared [d0/1: 64 by 1]
""")
PUT = 'store %zero {memory = "s", offset = [lane]}'
GET = '%got = load {memory = "s", offset = [lane]} : f32x1'
USE = 'store %got {memory = "out", offset = [lane]}'
MEET = "barrier"


def loop(*body: str, over: str = "step") -> str:
    inside = "\n".join(body)
    return f'for {{induction = "{over}", lower = [0], step = [1], unroll = 1, upper = [8]}} () do\n{inside}\nyield\nend'


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ([PUT, MEET], [False]),
        ([MEET, PUT, MEET], [False, False]),
        ([loop(MEET, PUT, MEET, GET, USE)], [False, False]),
        ([loop(MEET, PUT)], [True]),
        ([loop(PUT, MEET, GET, USE, PUT)], [False]),
        ([loop(MEET, GET)], [True]),
        ([loop(MEET, GET, USE)], [False]),
        ([loop(MEET, PUT, loop(MEET, GET, USE), over="tile")], [True, True]),
        ([loop(MEET, PUT, loop(GET, USE), MEET, over="tile")], [False, True]),
        ([loop(USE.replace("%got", "%zero")), MEET], [False]),
    ],
    ids=[
        "of the same block", "nothing before", "a staged step", "left by the step before", "of this step as well",
        "a value nobody has waited for", "a value that was waited for", "a loop without steps", "behind a loop",
        "memory of all",
    ],
)  # fmt: skip
def test_which_barriers_wait(body: list[str], waits: list[bool]) -> None:
    kernel = LANES.kernel("\n".join(["%zero = constant {value = 0.0} : f32x1", *body]))
    unseen = UnseenAccesses(kernel)
    assert [unseen.meets(op) for op in kernel.walk() if op.name == "barrier"] == waits
