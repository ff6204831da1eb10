"""What the code objects of GEMMs are made of: registers, memory, instructions of the loop, bank conflicts."""

from __future__ import annotations

import pytest

from tests.amd.amd_gemms import Gemm, count, figures, loop, opcodes, require_emulator, run

require_emulator()
pytestmark = pytest.mark.amd

DEFAULT = Gemm()
ANY = ("", "", "")
EVERY = [
    DEFAULT,
    Gemm("bf16"),
    Gemm("f32"),
    Gemm("i8", tile=(128, 128, 64)),
    Gemm(sizes=ANY),
    Gemm("f32", sizes=ANY),
    Gemm(target="gfx950"),
    Gemm("i8", tile=(128, 128, 64), target="gfx950"),
    Gemm(mma="f32_32x32x8_f16"),
]


@pytest.mark.parametrize("gemm", EVERY, ids=lambda gemm: f"{gemm.target}-{gemm.dtype}-{gemm.mma}")
def test_everything_stays_in_registers(gemm: Gemm) -> None:
    actual = figures(gemm)
    assert (actual["scratch_bytes_per_lane"], actual["vgpr_spill"], actual["sgpr_spill"]) == (0, 0, 0)
    assert actual["vgpr"] + actual["agpr"] <= 128  # four waves on each of a compute unit's four parts


def test_shared_memory_holds_the_two_tiles() -> None:
    assert figures(DEFAULT)["lds_bytes"] == (128 + 128) * 32 * 2


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_loop_of_the_default_tile(dtype: str) -> None:
    body = loop(Gemm(dtype))
    assert count(body, "v_mfma_f32_16x16x16_") == 32
    assert count(body, "buffer_load_dwordx4") == count(body, "buffer_load") == 4
    assert count(body, "ds_write_b128") == count(body, "ds_write") == 4
    assert count(body, "ds_read_b128") == count(body, "ds_read") == 8
    assert count(body, "s_barrier") == 2
    assert count(body, "v_") - count(body, "v_mfma") <= 3  # the end of K: a comparison, and an offset for each row


def test_loop_is_shorter_than_the_peers() -> None:
    assert len(loop(DEFAULT)) < 69  # wave-lang's best for this tile, which also prefetches


def test_loads_are_all_issued_before_the_first_store_to_shared_memory() -> None:
    body = loop(DEFAULT)
    last_load = max(at for at, name in enumerate(body) if name.startswith("buffer_load"))
    assert last_load < body.index("ds_write_b128")


def test_promise_on_k_removes_its_mask() -> None:
    body = loop(Gemm(sizes=("", "", "multiple_of: 32")))
    assert count(body, "v_") == count(body, "v_mfma")


def test_gfx950_uses_its_deep_instruction() -> None:
    assert count(loop(Gemm(target="gfx950")), "v_mfma_f32_16x16x32_f16") == 16


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("dtype", "depth"), [("f16", 32), ("f16", 64), ("bf16", 32), ("f32", 32), ("i8", 64)])
def test_shared_memory_has_no_bank_conflicts(dtype: str, depth: int, target: str) -> None:
    statistics = run(Gemm(dtype, tile=(128, 128, depth), target=target), 128, 128, 128).statistics
    assert statistics["lds_cycles"] == statistics["lds_ideal_cycles"]


@pytest.mark.parametrize(
    "sizes", [("", "multiple_of: 4", "multiple_of: 8"), ("value: 256", "value: 256", "value: 256")]
)
def test_rows_of_whole_vectors_are_only_stored_whole(sizes: tuple[str, str, str]) -> None:
    names = opcodes(Gemm(sizes=sizes))
    assert count(names, "buffer_store_dwordx4") == count(names, "buffer_store") == 16


def test_rows_of_any_length_are_stored_whole_except_at_their_end() -> None:
    executed = run(DEFAULT, 128, 129, 32).executed
    assert executed["buffer_store_dwordx4"] == 16 * 4
    assert executed["buffer_store_dword"] == 64 * 4
