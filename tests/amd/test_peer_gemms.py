"""The eight GEMMs that a peer has figures for: code no larger than the peer's, and right, on both machines."""

from __future__ import annotations

import pytest

from benchmarks.peer_gemms import PEER_GEMMS
from tests.amd.amd_gemms import Gemm, Peer, PeerAsMeasured, count, figures, loop, opcodes, require_emulator, run

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]

EVERY = range(len(PEER_GEMMS))
NAMES = [case.name for case in PEER_GEMMS]
MEASURED = [number for number in EVERY if PEER_GEMMS[number].figures is not None]
TARGETS = ("gfx942", "gfx950")


@pytest.mark.parametrize("number", MEASURED, ids=[NAMES[number] for number in MEASURED])
def test_nothing_is_more_than_the_peers(number: int) -> None:
    gemm, peer = PeerAsMeasured(number), PEER_GEMMS[number].figures
    assert peer is not None
    body, notes = loop(gemm), figures(gemm)
    matrix = count(body, "v_mfma")
    assert matrix == peer.matrix, "the loops do the same"
    assert len(body) - matrix <= peer.loop - peer.matrix
    assert count(body, "s_waitcnt") <= peer.waits
    assert count(body, "v_") - matrix <= peer.vector
    assert notes["vgpr"] + notes["agpr"] <= peer.registers
    assert notes["lds_bytes"] <= peer.shared_bytes
    assert count(opcodes(gemm), "s_barrier") <= peer.barriers


@pytest.mark.parametrize("number", EVERY, ids=NAMES)
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_spilled_and_accesses_are_wide_at_any_size(target: str, number: int) -> None:
    notes, names = figures(Peer(number, target)), opcodes(Peer(number, target))
    assert (notes["scratch_bytes_per_lane"], notes["vgpr_spill"], notes["sgpr_spill"]) == (0, 0, 0)
    assert count(names, "buffer_load_dwordx4") == count(names, "buffer_load") > 0
    assert count(names, "buffer_store_dwordx4") > 0


@pytest.mark.parametrize("number", EVERY, ids=NAMES)
def test_only_whole_vectors_are_stored_where_sizes_are_known(number: int) -> None:
    notes, names = figures(PeerAsMeasured(number)), opcodes(PeerAsMeasured(number))
    assert (notes["scratch_bytes_per_lane"], notes["vgpr_spill"], notes["sgpr_spill"]) == (0, 0, 0)
    assert count(names, "buffer_store_dwordx4") == count(names, "buffer_store") > 0


@pytest.mark.parametrize("number", EVERY, ids=NAMES)
@pytest.mark.parametrize(("target", "order"), [("gfx942", "fwd"), ("gfx942", "rev"), ("gfx950", "rev")])
def test_results_are_exact_for_any_size(target: str, order: str, number: int) -> None:
    m, _, k = PEER_GEMMS[number].tile
    sizes = ((m + 3, 70, k + 8), (5, 3, 8), (9, 7, 0))
    assert [size for size in sizes if not run(Peer(number, target), *size, order).right] == []


@pytest.mark.parametrize("number", EVERY, ids=NAMES)
def test_results_are_exact_at_fixed_sizes_and_no_banks_collide(number: int) -> None:
    m, n, k = PEER_GEMMS[number].tile
    size = (m, n, 3 * k)
    done = run(Peer(number, sides=size), *size)
    assert done.right
    assert done.statistics["lds_cycles"] == done.statistics["lds_ideal_cycles"]


def test_waves_that_take_turns_either_move_data_or_multiply_with_priority() -> None:
    letters = {"s_barrier": "|", "s_setprio": "p", "buffer_load": "l", "ds_read": "r", "ds_write": "w", "v_mfma": "m"}
    body = [letter for name in loop(Peer(6)) for start, letter in letters.items() if name.startswith(start)]
    phases = ["".join(sorted(set(phase))) for phase in "".join(body).split("|")]
    assert phases == ["lr", "mp", "w", "mp", ""]


@pytest.mark.parametrize("target", TARGETS)
def test_modulo_schedule_of_rows_without_a_promise(target: str) -> None:
    gemm = Gemm(sizes=("", "", ""), target=target, schedule="{auto: modulo}")
    assert [size for size in ((65, 66, 33), (5, 3, 7)) if not run(gemm, *size).right] == []
