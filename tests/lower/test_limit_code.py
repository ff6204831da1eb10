"""What no compiler takes in good time is refused before time is spent on it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.lower import cut_tiles, tiles_of_waves
from wavespec.lower.limit_code import LimitCode
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: add_one
dims: {M: {}, N: {}}
params: {R: 8, C: 1048576}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: R, axis: 0}
  - {workgroup: N, tile: C, axis: 1}
  - {wave: M, tile: R}
  - {wave: N, tile: C}
graph:
  - v: {read: x}
  - r: "v + 1"
  - {write: r, to: y}
"""
(*_, V3) = machines("cpu")


@pytest.fixture
def uncut(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tile is cut into strips, and no wave narrowed, so that small specs have the code of large ones that cannot be
    cut."""
    monkeypatch.setattr(cut_tiles, "_MOST_VECTORS", 1 << 60)
    monkeypatch.setattr(tiles_of_waves, "_MOST_OF_A_WAVE", 1 << 60)


def test_a_tile_of_a_million_columns_is_cut() -> None:
    assert emit(loads(TEXT), V3).text.count("\n") < V3.most_lines // 10


@pytest.mark.usefixtures("uncut")
def test_a_tile_of_a_million_columns_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(WavespecError) as caught:
        emit(loads(TEXT, "add_one.wave.yaml"), V3)
    assert (
        str(caught.value)
        == """\
add_one.wave.yaml:11:26: error[too-much-code]: The tiles become at least 3145728 lines of code; for x86_64_v3 60000 compile in good time.
    |
 11 |   - {workgroup: N, tile: C, axis: 1}
    |                          ^
    = note: For cpu.
    = hint: Use smaller tiles: more workgroups, more waves, or a loop with more steps."""
    )
    assert time.process_time() - start < 2  # it took more than 200 seconds


def adding(registers: int) -> Kernel:
    """A kernel whose one lane adds up tiles of as many vector registers."""
    elements = registers * V3.vector_bytes // 4
    tile = f"tile<N: {elements}, f32, {{N = 0; {registers} by N 8 | 8 by N 1}}>"
    return Text("""
        tile kernel @k target cpu lanes 1
        plan "auto" stages 1 group 0
    """).kernel(f"""
        %a = register {{value = 1.0}} : {tile}
        %b = elementwise %a, %a {{function = "add"}} : {tile}
    """)


def test_vector_registers_of_tiles_are_counted() -> None:
    kernel = adding(V3.most_lines)
    assert LimitCode()(kernel, V3) is kernel
    with pytest.raises(WavespecError, match=f"at least {V3.most_lines + 1} lines of code"):
        LimitCode()(adding(V3.most_lines + 1), V3)
    more = adding(V3.most_lines + 1)
    assert LimitCode()(more, NVIDIA) is more, "where no compiler takes long there is no limit"


@pytest.mark.usefixtures("uncut")
def test_tiles_with_more_lines_than_vectors_are_refused_by_their_lines() -> None:
    text = TEXT.replace("1048576", "1024").replace('"v + 1"', '"atan2(v, exp(v))"')
    with pytest.raises(WavespecError, match="too-much-code"):
        emit(loads(text), V3)


@pytest.mark.usefixtures("uncut")
def test_a_single_operation_stops_where_its_steps_are_too_many() -> None:
    """Elements at places of their own may become a step each, which is not known before they are made."""
    text = TEXT.replace("1048576", "1024").replace("{read: x}", "{read: x, at: {N: N * 7 % size(N)}}")
    small = replace(V3, most_lines=4000)
    with pytest.raises(WavespecError, match=f"at least {small.most_lines + 1} lines"):
        lower(loads(text), small)


@pytest.mark.usefixtures("uncut")
def test_elements_at_places_of_their_own_count_before_they_are_found() -> None:
    text = (
        TEXT.replace("f32", "u8")
        .replace("C: 1048576", "C: 131072")
        .replace("{read: x}", "{read: x, at: {M: size(M) - 1 - M}}")
        .replace('  - r: "v + 1"\n', "")
        .replace("{write: r, to: y}", "{write: v, to: y}")
    )
    with pytest.raises(WavespecError, match="too-much-code"):
        lower(loads(text), V3, after="limit-code")


def test_tiles_that_compile_in_time_pass() -> None:
    assert emit(loads(TEXT.replace("1048576", "2048")), V3).text.count("\n") < V3.most_lines


def test_tiles_of_any_size_compile_where_turns_may_share_them() -> None:
    """What one wave takes is what is code; unless the spec says it, the compiler does."""
    text = TEXT.replace("  - {wave: M, tile: R}\n  - {wave: N, tile: C}\n", "")
    assert emit(loads(text), V3).text.count("\n") < V3.most_lines // 10


@pytest.mark.parametrize(("columns", "waves"), [(512, 1), (1024, 8), (65536, 512)])
def test_waves_of_a_spec_are_narrowed_where_they_are_much_code(columns: int, waves: int) -> None:
    """Up to 4,096 elements a wave is what the spec says, else what the compiler says: 1,024."""
    kernel = lower(loads(TEXT.replace("1048576", str(columns))), V3, after="assign-tiles")
    assert kernel.wave_count == waves


COUNTING = """\
apiVersion: wavespec/v1
kind: Kernel
name: count
dims: {N: {}, B: {}}
tensors:
  counts: {shape: [B], dtype: i32, role: inout}
  x: {shape: [N], dtype: i64}
constraints:
  - {workgroup: N, tile: 8192, axis: 0}
  - {wave: N, tile: 4096}
graph:
  - number: {read: x}
  - one: {register: [N], dtype: i32, value: 1}
  - {write: one, to: counts, at: {B: number}, combine: add}
"""


def test_elements_that_are_combined_one_by_one_narrow_waves_earlier() -> None:
    """Each is two dozen lines: a wave of 1,024 took seven seconds of a compiler."""
    assert lower(loads(COUNTING), V3, after="assign-tiles").wave_count == 64
    assert emit(loads(COUNTING), V3).text.count("\n") < 5_000


def test_a_tile_that_no_loop_walks_over_is_near_what_there_may_be() -> None:
    text = TEXT.replace("N: {}", "N: {max: 200}").replace("{workgroup: N, tile: C, axis: 1}", "{tiling: N, tile: 4096}")
    text = text.replace("  - {wave: N, tile: C}\n", "").replace("{wave: M, tile: R}", "{wave: M, tile: 1}")
    kernel = lower(loads(text), V3, after="assign-tiles")
    assert {op.result.tile.extent("N") for op in kernel.walk() if op.results and op.result.tile.dims} == {256}


def test_writing_stops_at_the_first_line_too_many() -> None:
    """Accesses with bound checks are few steps and many lines: all of them were written, and counted then."""
    text = TEXT.replace("1048576", "1024").replace("{read: x}", "{read: x, at: {N: N - 1}}")
    steps = sum(1 for _ in lower(loads(text), V3).walk())
    small = replace(V3, most_lines=2 * steps)
    with pytest.raises(WavespecError, match=f"too-much-code.*at least {small.most_lines + 1} lines"):
        emit(loads(text), small)


@pytest.mark.usefixtures("uncut")
def test_elements_that_are_combined_count_one_by_one() -> None:
    """Places that values say may be in loops, but atomic operations are not: this took 13 s."""
    text = (
        TEXT.replace("tensors:\n", "tensors:\n  rows: {shape: [M], dtype: i32}\n")
        .replace("role: output}", "role: inout}")
        .replace("C: 1048576", "C: 32768")
        .replace('  - r: "v + 1"\n', "  - row: {read: rows}\n")
        .replace("{write: r, to: y}", "{write: v, to: y, at: {M: row}, combine: add}")
    )
    with pytest.raises(WavespecError, match="too-much-code"):
        lower(loads(text), V3, after="limit-code")
