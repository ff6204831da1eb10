"""What a workgroup that stays loaded once waits in shared memory, where lanes have no registers for it beside a tile."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.keep_in_shared import KeepInShared

STAYING = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol lane in 0..31 by 1
    symbol wave in 0..31 by 1
    symbol workgroup in 0..131 by 1
    symbol round in 0..4096 by 1
    plan "auto" stages 1 group 1 persistent
    wave wave 32
    grid [132]
    memory @weight : f32 (N: [8192]) global input
    memory @x : f32 (M: [M], N: [8192]) global input
    memory @y : f32 (M: [M], N: [8192]) global output
""")


def body(weights: int, elements: int = 4) -> str:
    """A loop that adds to 16 numbers of each tile so many accesses of weights."""
    made = [
        f'%w{n} = load {{memory = "weight", offset = [lane*4 + {n * 128}]}} : f32x{elements}' for n in range(weights)
    ]
    parts = [f'%x{n} = load {{memory = "x", offset = [round*8192 + lane*4 + {n * 128}]}} : f32x4' for n in range(4)]
    uses = [f'store %w{n} {{memory = "y", offset = [round*8192 + lane*4 + {n * 128}]}}' for n in range(weights)]
    kept = [f'store %x{n} {{memory = "y", offset = [round*8192 + lane*4 + {4096 + n * 128}]}}' for n in range(4)]
    loop = 'for {induction = "round", lower = [0], step = [1], unroll = 1, upper = [M]} () do'
    return "\n".join((*made, loop, *("  " + one for one in (*parts, *uses, *kept)), "  yield", "end"))


def test_what_fits_beside_a_tile_stays_in_registers() -> None:
    """A lane of 32 waves has 64: 20 for others, 16 of a tile, 28 of weights."""
    kernel = STAYING.kernel(body(7))
    assert KeepInShared()(kernel, NVIDIA) is kernel


def test_as_many_as_do_not_fit_wait_in_shared_memory() -> None:
    text = STAYING.after(KeepInShared(), NVIDIA, body(8))
    before, _, inside = text.partition("for {")
    assert lines(before.replace('"weight"', "W").split("%w1")[0]) == lines("""
        %w0 = load {memory = W, offset = [lane*4]} : f32x4
        store %w0 {memory = "kept.f32", offset = [lane*4 + wave*128]}
    """)
    assert inside.count('= load {memory = "kept.f32"') == 1
    assert inside.index("%w0.1 = load") < inside.index("store %w0.1") and "store %w0 " not in inside
    (kept,) = (one for one in KeepInShared()(STAYING.kernel(body(8)), NVIDIA).memories if one.name == "kept.f32")
    assert kept.own and kept.elements.value == 4 * 1024


def test_numbers_of_one_word_stay() -> None:
    kernel = STAYING.kernel(body(40, 1))
    assert KeepInShared()(kernel, NVIDIA) is kernel


def test_shared_memory_that_is_full_takes_no_more() -> None:
    text = STAYING.after(KeepInShared(), NVIDIA, body(30))
    assert text.count('= load {memory = "kept.f32"') == 14, "of 16 KiB each, 227 in all"


def test_workgroups_of_one_tile_keep_nothing() -> None:
    kernel = STAYING.changed((" persistent", "")).kernel(body(30))
    assert KeepInShared()(kernel, NVIDIA) is kernel
