"""Every property of thread kernels, and of both levels, in a kernel that has it and in one that does not."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.ir.kernel import Kernel
from wavespec.lower import thread_properties as properties
from wavespec.lower.contracts import ContractError, Property, check
from wavespec.lower.thread_properties import THREAD_PROPERTIES

LANES = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol K in 0..4096 by 1
    symbol lane in 0..31 by 1
    symbol wg0 in 0..127 by 1
    symbol wg1 in 0..127 by 1
    symbol step in 0..7 by 1
    symbol wave_M in 0..3 by 1
    plan "auto" stages 1 group 0
    grid [K]
    memory @x : f32 (K: [K]) global input
    memory @y : f32 (K: [K]) global output
    memory @s : f32 (K: [32]) shared [K/1: 32 by 1] x3
""")
SIZE_OF_WAVE = LANES.changed(
    ("symbol K in 0..4096 by 1", "symbol K in 0..4096 by 1\n    symbol wave_M.size in 0..64 by 1"),
    ("    memory @x", "    size wave_M [wave_M.size]\n    memory @x"),
)
"""With a dim that is called like the symbol of a wave."""
PERSISTENT = LANES.changed(("group 0", "group 0 persistent"))
PRODUCERS = LANES.changed(("grid [K]", "producers 1\n    grid [K]"))

ZERO = "%zero = constant {value = 0.0} : f32x1\n"
LOAD = '%a = load {memory = "x", offset = [lane]} : f32x1\n'
STORE = 'store %a {memory = "y", offset = [lane]}\n'
PUT = 'store %zero {memory = "s", offset = [lane]}\n'
GET = '%got = load {memory = "s", offset = [31 - lane]} : f32x1\n'
SUM = 'accumulate %zero {buffer = [0], mask = (), memory = "s", offset = [lane], onto = (([0], [step],),), valid = none}\n'
ASYNC = 'copy_async {elements = 4, memory = "s", offset = [lane], source = "x", source_offset = [lane]}\n'
LET = 'let {symbol = "wg1", value = [wg0 % 4]}\n'
BY_WG1 = '%b = load {memory = "x", offset = [wg1]} : f32x1\n'
FRAGMENTS = (
    "%f = constant {value = 0.0} : f16x8\n%g = constant {value = 0.0} : f16x4\n%h = constant {value = 0.0} : f32x4\n"
)
MMA = '%p = mma %f, %g, %h {instruction = "mma_m16n8k16_f16"} : f32x4\n'


def loop(body: str, induction: str = "step") -> str:
    inside = "".join(f"  {line}\n" for line in body.splitlines())
    return (
        f'for {{induction = "{induction}", lower = [0], step = [1], unroll = 1, upper = [8]}} () do\n'
        f"{inside}  yield\nend\n"
    )


def role(body: str, first: int = 0) -> str:
    inside = "".join(f"  {line}\n" for line in body.splitlines())
    return f"role {{first = [{first}], registers = 0, waves = 1}} () do\n{inside}  yield\nend\n"


def buffered(text: str, buffer: str) -> str:
    return text.replace("{", f"{{buffer = [{buffer}], ")


BY_STEP = '%a = load {memory = "x", offset = [step]} : f32x1\n'

CASES: dict[Property, tuple[Kernel, Kernel, str]] = {
    properties.symbols_are_in_scope: (
        LANES.kernel(loop(BY_STEP)),
        LANES.kernel(BY_STEP + loop("barrier")),
        "operation 'load': 'step' means nothing here",
    ),
    properties.shared_memory_fits: (
        LANES.kernel("barrier"),
        LANES.changed(("x3", "x3000")).kernel("barrier"),
        "kernel 'k': it needs 384000 bytes; sm_90 has 232448",
    ),
    properties.memories_are_filled_first: (
        LANES.kernel(ZERO + buffered(PUT, "0") + loop(buffered(GET, "step%3") + buffered(PUT, "(step + 1)%3"))),
        LANES.kernel(ZERO + buffered(PUT, "1") + loop(buffered(GET, "step%3") + buffered(PUT, "(step + 1)%3"))),
        "operation 'load': nothing is in '@s' yet",
    ),
    properties.is_of_lanes: (
        LANES.kernel("barrier"),
        Text(LANES.head.replace("thread kernel", "tile kernel")).kernel('%a = read {memory = "x"} : tile<K, f32>'),
        "kernel 'k': it is at tile level",
    ),
    properties.lanes_are_in_reach: (
        LANES.kernel(ZERO + "%far = shuffle %zero {bits = 16} : f32x1\n"),
        LANES.kernel(ZERO + "%far = shuffle %zero {bits = 32} : f32x1\n"),
        "operation 'shuffle': it asks a lane 32 away; sm_90 has waves of 32",
    ),
    properties.buffers_are_in_range: (
        LANES.kernel(loop(ZERO + PUT.replace("{", "{buffer = [step%3], "))),
        LANES.kernel(loop(ZERO + PUT.replace("{", "{buffer = [step%4], "))),
        "operation 'store': it takes buffer step%4 of '@s', which has 3",
    ),
    properties.values_are_used: (
        LANES.kernel(ZERO + PUT + LOAD),
        LANES.kernel(ZERO + LOAD),
        "operation 'constant': nothing uses %zero",
    ),
    properties.tiles_are_walked_over: (
        PERSISTENT.kernel('let {symbol = "wg1", value = [lane]}\n' + BY_WG1),
        PERSISTENT.kernel(BY_WG1),
        "operation 'load': nothing says what 'wg1' is",
    ),
    properties.roles_are_apart: (
        PRODUCERS.kernel(role(ASYNC) + role(FRAGMENTS + MMA, first=1)),
        PRODUCERS.kernel(role(ASYNC + FRAGMENTS + MMA)),
        "operation 'role': it copies and multiplies",
    ),
    properties.waves_are_loops: (
        LANES.kernel(loop(BY_STEP.replace("step", "wave_M"), induction="wave_M")),
        LANES.kernel(BY_STEP.replace("step", "wave_M")),
        "operation 'load': no loop counts 'wave_M'",
    ),
    properties.invariants_are_outside: (
        LANES.kernel(ZERO + loop(PUT)),
        LANES.kernel(loop(ZERO + PUT)),
        "operation 'constant': %zero is the same in every step of 'step'",
    ),
    properties.accesses_are_ordered: (
        LANES.kernel(ZERO + PUT + "barrier\n" + GET),
        LANES.kernel(ZERO + PUT + GET),
        "operation 'load': it reads '@s', which other lanes have just written to",
    ),
    properties.grid_is_of_a_launch: (
        LANES.kernel('let {symbol = "wg1", value = [wg0 % 4]}\n' + BY_WG1),
        LANES.kernel(BY_WG1),
        "operation 'load': nothing says what 'wg1' is",
    ),
}  # fmt: skip


def test_every_property_is_here() -> None:
    assert set(CASES) == set(THREAD_PROPERTIES)


@pytest.mark.parametrize("one", THREAD_PROPERTIES, ids=str)
def test_a_kernel_that_has_it_and_one_that_has_not(one: Property) -> None:
    holds, broken, message = CASES[one]
    check(holds, NVIDIA, [one], "here")
    with pytest.raises(ContractError) as caught:
        check(broken, NVIDIA, [one], "here")
    assert message in str(caught.value) and one.doc in str(caught.value)


@pytest.mark.parametrize(
    ("one", "kernel"),
    [
        (properties.symbols_are_in_scope, LANES.kernel(LET + BY_WG1)),
        (properties.symbols_are_in_scope, LANES.changed(("    grid [K]\n", "")).kernel(loop(BY_STEP))),
        (properties.memories_are_filled_first, LANES.kernel(LOAD)),
        (properties.memories_are_filled_first, PRODUCERS.kernel(role(GET) + role(ASYNC, first=1))),
        (properties.memories_are_filled_first, LANES.kernel(ZERO + loop(SUM))),
        (properties.memories_are_filled_first, LANES.kernel(ZERO + loop(loop(GET, "turn").replace("[8]", "[step]") + PUT))),
        (properties.buffers_are_in_range, LANES.kernel(loop(ZERO + buffered(PUT, "step - 5")).replace("lower = [0]", "lower = [5]"))),
        (properties.buffers_are_in_range, LANES.kernel(loop(ZERO + buffered(PUT, "step")).replace("upper = [8]", "upper = [0]"))),
        (properties.waves_are_loops, LANES.kernel(loop(BY_STEP))),
        (properties.waves_are_loops, SIZE_OF_WAVE.kernel(BY_STEP.replace("step", "wave_M.size"))),
        (properties.invariants_are_outside, LANES.kernel(loop(BY_STEP + '%twice = elementwise %a, %a {function = "add"} : f32x1'))),
        (properties.tiles_are_walked_over, LANES.kernel(BY_WG1)),
        (properties.roles_are_apart, LANES.kernel(ASYNC + FRAGMENTS + MMA)),
        (properties.accesses_are_ordered, LANES.changed(("lanes 32", "lanes 1")).kernel(ZERO + PUT + GET)),
        (properties.accesses_are_ordered, LANES.kernel(ZERO + buffered(PUT, "0") + buffered(GET, "1"))),
        (properties.accesses_are_ordered, LANES.kernel(ASYNC + "async_commit\nasync_wait {pending = 0}\nbarrier\n" + GET)),
        (properties.accesses_are_ordered, LANES.kernel(ZERO + loop(PUT + "barrier\n" + GET + "barrier"))),
        (properties.accesses_are_ordered, LANES.kernel(ZERO + loop(buffered(PUT, "step%3") + "barrier\n" + buffered(GET, "step%3")))),
        (properties.accesses_are_ordered, PRODUCERS.kernel(ZERO + role(PUT) + role(GET, first=1))),
    ],
)  # fmt: skip
def test_what_it_leaves_alone(one: Property, kernel: Kernel) -> None:
    check(kernel, NVIDIA, [one], "here")


@pytest.mark.parametrize(
    ("one", "kernel", "message"),
    [
        (properties.symbols_are_in_scope, LANES.kernel(BY_WG1 + LET), "'wg1' means nothing here"),
        (properties.symbols_are_in_scope, LANES.kernel(loop(LET) + BY_WG1), "'wg1' means nothing here"),
        (properties.symbols_are_in_scope, LANES.changed(("grid [K]", "grid [K]\n    grid [step + 1]")).kernel(loop("barrier")), "as many workgroups as 'step'"),
        (properties.memories_are_filled_first, LANES.kernel(GET + ZERO + PUT), "nothing is in '@s' yet"),
        (properties.memories_are_filled_first, LANES.kernel(ZERO + loop(SUM.replace("(([0], [step],),)", "()"))), "nothing is in '@s' yet"),
        (properties.buffers_are_in_range, LANES.kernel(loop(ZERO + buffered(PUT, "step - 6")).replace("lower = [0]", "lower = [5]")), "it takes buffer step - 6"),
        (properties.tiles_are_walked_over, PERSISTENT.changed(("grid [K]", "grid [K]\n    grid [K]")).kernel("barrier"), "its grid has 2 axes"),
        (properties.lanes_are_in_reach, LANES.kernel(ZERO + "%far = from_lane %zero {lane = 8, lanes = 8} : f32x1\n"), "it asks lane 8 of 8"),
        (properties.lanes_are_in_reach, LANES.kernel(ZERO + "%far = from_lane %zero {lane = 8, lanes = 64} : f32x1\n"), "waves of 32"),
        (properties.roles_are_apart, PRODUCERS.kernel(FRAGMENTS + MMA), "operation 'mma': it has no role"),
        (properties.waves_are_loops, LANES.changed(("grid [K]", "wave wave_M 4\n    grid [K]")).kernel("barrier"), "it has waves 'wave_M'"),
        (properties.grid_is_of_a_launch, LANES.changed(("grid [K]", "grid [K]\n" * 4)).kernel("barrier"), "its grid has 4 axes"),
        (properties.grid_is_of_a_launch, LANES.changed(("grid [K]", "grid [K]\n    grid [K] joined")).kernel("barrier"), "1 of them joined"),
        (properties.accesses_are_ordered, LANES.kernel(ASYNC + GET), "it reads '@s'"),
        (properties.accesses_are_ordered, LANES.kernel(ASYNC + "async_commit\nasync_wait {pending = 0}\n" + GET), "it reads '@s'"),
        (properties.accesses_are_ordered, LANES.kernel(GET + ZERO + PUT), "it writes to '@s'"),
        (properties.accesses_are_ordered, LANES.kernel(ZERO + loop(PUT + "barrier\n" + GET)), "it writes to '@s'"),
        (properties.accesses_are_ordered, LANES.kernel(ZERO + loop(PUT) + GET), "it reads '@s'"),
    ],
)  # fmt: skip
def test_other_ways_to_break_it(one: Property, kernel: Kernel, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        check(kernel, NVIDIA, [one], "here")
    assert message in str(caught.value)
