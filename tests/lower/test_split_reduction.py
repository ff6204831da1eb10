"""A deep mma becomes a loop over steps of k, its operands read just before use."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, lines
from wavespec.diagnostics import WavespecError

STAGE = "split-reduction"


def test_operands_are_read_step_by_step() -> None:
    kernel = Gemm().lowered(NVIDIA, STAGE)
    assert '{dim = "K", extent = [32], induction = "in_K", step = [16], unroll = 0}' in lines(kernel, "iterate")[1]
    assert lines(kernel, "read") == [
        '%a_tile.1 = read {memory = "a.shared", origin = (("M", [0],), ("K", [in_K],),)} : tile<M: 32, K: 16, f16>',
        '%b_tile.1 = read {memory = "b.shared", origin = (("N", [0],), ("K", [in_K],),)} : tile<N: 64, K: 16, f16>',
    ]


def test_copies_stay_before_the_inner_loop() -> None:
    assert [line.split()[0] for line in lines(Gemm().lowered(NVIDIA, STAGE), "copy", "iterate", "read", "mma")] == [
        "%k_loop_acc",
        "copy",
        "copy",
        "%acc.1",
        "%a_tile.1",
        "%b_tile.1",
        "%acc.3",
    ]


def test_step_is_as_deep_as_the_widest_access_feeds() -> None:
    steps = [
        lines(Gemm(dtype, tile=(64, 64, 64)).lowered(AMD, STAGE), "read")[0].split("K: ")[1] for dtype in ("f16", "i8")
    ]
    assert steps == ["32, f16>", "64, i8>"], "16 bytes of a lane are two instructions' worth"


def test_step_divides_the_tile() -> None:
    read = lines(Gemm(tile=(64, 64, 48)).lowered(AMD, STAGE), "read")[0]
    assert "K: 16, f16>" in read


def test_loop_of_serial_waves_stays_and_ends_with_the_data() -> None:
    inner = lines(Gemm("f32", tile=(24, 64, 8), wave=(None, None)).lowered(CPU, STAGE), "iterate")[1]
    assert "unroll = 1" in inner and "min(" in inner


def test_direct_reads_are_split_too() -> None:
    read = lines(Gemm(spaces=("global", "global")).lowered(NVIDIA, STAGE), "read")[0]
    assert 'memory = "a", origin = (("M", [wg0*32],), ("K", [at_K + in_K],),)' in read or "[in_K + at_K]" in read


def test_a_step_of_too_many_instructions_is_refused_at_the_loops_tile() -> None:
    with pytest.raises(WavespecError) as raised:
        Gemm(tile=(16, 16, 8192), wave=(16, 16), spaces=("global", "global")).lowered(AMD, STAGE)
    assert "error[too-many-instructions]: One step over 'K' would be 512 matrix instructions" in str(raised.value)
