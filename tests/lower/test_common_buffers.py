"""Loops behind one another fill the same shared memory where all of their tiles are as large."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.sim.test_gathered_keys import text
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.common_buffers import loops_before
from wavespec.pipeline import lower
from wavespec.schema import loads


def promoted(spec: str) -> Kernel:
    return lower(loads(spec, "gathered.wave.yaml"), NVIDIA, after="promote-shared")


def shares(kernel: Kernel) -> dict[str, str]:
    return {memory.name: memory.shares for memory in kernel.memories if memory.shares}


def test_memories_of_the_second_loop_lie_in_those_of_the_first() -> None:
    assert shares(promoted(text())) == {"k.shared": "k_tile.shared", "v.shared": "v_tile.shared"}


@pytest.mark.parametrize(("old", "new"), [("{tiling: F, tile: 64}", "{tiling: F, tile: 32}")])
def test_tiles_of_another_size_have_memories_of_their_own(old: str, new: str) -> None:
    assert shares(promoted(text().replace(old, new))) == {}


def test_a_loop_shares_all_of_its_memories_or_none() -> None:
    """Else one buffer would be filled by two producers' counts of steps."""
    more = text().replace("  k: {shape", "  w: {shape: [F, N], dtype: f16, space: shared}\n  k: {shape")
    more = more.replace("        - v_tile: {read: v}\n", "        - v_tile: {read: v}\n        - w_tile: {read: w}\n")
    body = "        - acc: {mma: [p, v_tile, scaled]}\n  - {write"
    assert body in more
    more = more.replace(
        body, "        - half: {mma: [p, v_tile, scaled]}\n        - acc: {mma: [p, w_tile, half]}\n  - {write"
    )
    assert shares(promoted(more)) == {}


def test_loops_of_a_block_stand_behind_one_another() -> None:
    assert loops_before(lower(loads(text()), NVIDIA, after="spec-to-tile")) == {1: 0}


def test_what_lies_in_another_is_printed_and_parsed() -> None:
    kernel = promoted(text())
    assert parse_kernel(print_kernel(kernel)) == kernel
