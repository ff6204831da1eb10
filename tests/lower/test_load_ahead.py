"""Workgroups that stay load the next tile's inputs while they compute one, as far as they have registers for them."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.load_ahead import LoadAhead

STAYING = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol lane in 0..31 by 1
    symbol wave in 0..31 by 1
    symbol workgroup in 0..131 by 1
    symbol round in 0..4096 by 1
    symbol tile in 0..4096 by 1
    plan "auto" stages 1 group 1 persistent
    wave wave 32
    grid [132]
    memory @x : bf16 (M: [M], N: [2048]) global input
    memory @z : f32 (M: [M], N: [2048]) global input
    memory @y : bf16 (M: [M], N: [2048]) global output
""")
LOAD = '%x = load {memory = "x", offset = [tile*2048 + lane*2]} : bf16x2'
ROUNDS = f"""
    for {{induction = "round", lower = [0], step = [1], unroll = 1, upper = [(M + 131 - workgroup)//132]}} () do
      let {{symbol = "tile", value = [workgroup + round*132]}}
      {LOAD}
      store %x {{memory = "y", offset = [tile*2048 + lane*2]}}
      yield
    end
"""


def loads(text: str) -> tuple[int, int]:
    """Loads in front of the loop, and in it."""
    before, _, inside = text.partition("induction")
    return before.count("= load"), inside.count("= load")


def test_a_round_stores_what_the_one_before_it_loaded() -> None:
    assert STAYING.after(LoadAhead(), NVIDIA, ROUNDS) == lines("""
        let {symbol = "tile_start", value = [workgroup]}
        %x.1 = load {mask = (([0], [(M - workgroup + 131)//132],),), memory = "x", offset = [lane*2 + tile_start*2048]} : bf16x2
        %x.4 = for %x.1 {induction = "round", lower = [0], step = [1], unroll = 1, upper = [(M - workgroup + 131)//132]} : bf16x2 (%x.3 : bf16x2) do
          let {symbol = "tile", value = [round*132 + workgroup]}
          let {symbol = "tile_ahead", value = [round*132 + workgroup + 132]}
          %x.2 = load {mask = (([round + 1], [(M - workgroup + 131)//132],),), memory = "x", offset = [lane*2 + tile_ahead*2048]} : bf16x2
          store %x.3 {memory = "y", offset = [lane*2 + tile*2048]}
          yield %x.2
        end
    """)


def wide(count: int, elements: int) -> str:
    """So many loads of a lane, with one of `LOAD` behind them."""
    at = [f"tile*2048 + lane*{elements} + {number * 32 * elements}" for number in range(count)]
    loads = [f'%x{n} = load {{memory = "z", offset = [{place}]}} : f32x{elements}' for n, place in enumerate(at)]
    return ROUNDS.replace(LOAD, "\n      ".join((*loads, LOAD)))


def test_loads_move_as_far_as_there_are_registers() -> None:
    """A lane of 32 waves has 64; 8 numbers of f32 that wait while as many are computed with take 16. No copy of the
    machine has 32 bytes; one of 4 bytes waits in shared memory."""
    text = STAYING.after(LoadAhead(), NVIDIA, wide(4, 8))
    assert loads(text) == (2, 5), "two of the next round, two of this and the last one of what waits"
    assert text.count("copy_async") == 2 and '"x.ahead"' in text


def test_what_lanes_have_no_registers_for_waits_in_shared_memory() -> None:
    """6 times 4 numbers are 48 registers of 44; a lane finds its own copies, and nobody meets. What a wave has lies together."""
    text = STAYING.after(LoadAhead(), NVIDIA, wide(6, 4))
    before, _, inside = text.partition("induction")
    assert before.count("copy_async {") == inside.count("copy_async {") == 7 and loads(text) == (0, 7)
    assert inside.index("async_wait") < inside.index("%x0 = load") < inside.index("copy_async") < inside.index("store")
    assert 'memory = "z.ahead", offset = [lane*4 + wave*768 + 128]' in inside
    assert text.rstrip().endswith("async_wait {pending = 0}"), "no copy is under way when the workgroup ends"
    memories = LoadAhead()(STAYING.kernel(wide(6, 4)), NVIDIA).memories
    assert [(one.name, one.own, one.elements.value) for one in memories[-2:]] == [
        ("z.ahead", True, 6 * 4 * 1024),
        ("x.ahead", True, 2 * 1024),
    ]


def test_shared_memory_that_is_full_takes_no_more() -> None:
    """Each of 15 loads of a workgroup of 1024 lanes takes 16 KiB of 227; others wait in registers."""
    text = STAYING.after(LoadAhead(), NVIDIA, wide(15, 4))
    assert text.count("copy_async {") == 2 * 14 and loads(text) == (2, 14 + 2)


def test_what_all_tiles_read_is_near_and_does_not_wait() -> None:
    """Weights beside rows that start anywhere: which elements a lane has depends on the tile by a remainder alone."""
    beside = ROUNDS.replace("[tile*2048 + lane*2]} : bf16x2", "[tile*3%8 + lane*2]} : bf16x2")
    assert loads(STAYING.after(LoadAhead(), NVIDIA, beside)) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('memory = "x"', 'memory = "y"'),  # may have been written since
        ("offset = [tile*2048 + lane*2]} : bf16x2", "offset = [row*2048 + lane*2]} : bf16x2"),
    ],
    ids=("what the kernel writes", "what a value says where it is"),
)
def test_what_may_be_another_by_then_is_loaded_in_its_round(old: str, new: str) -> None:
    head = STAYING.changed(("symbol tile in", "symbol row in 0..4096 by 1\n    symbol tile in"))
    bind = '%row = constant {value = 3} : i32x1\n      bind %row {symbol = "row", uniform = false}\n      '
    body = ROUNDS.replace(LOAD, (bind if "row" in new else "") + LOAD.replace(old, new))
    assert loads(head.after(LoadAhead(), NVIDIA, body)) == (0, 1)


def test_workgroups_of_one_tile_have_no_next() -> None:
    kernel = STAYING.changed((" persistent", "")).kernel(ROUNDS)
    assert LoadAhead()(kernel, NVIDIA) is kernel
