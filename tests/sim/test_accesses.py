"""Loads, stores and copies: what they do, and which mistakes are found at which operation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.lower.gemms import AMD_COPYING
from tests.sim.simulated_kernels import AMD, CPU, NVIDIA, built, kernel, line, numbers, shared, tensor
from wavespec.ir.dtype import DTYPES
from wavespec.ir.thread import ThreadBuilder
from wavespec.sim.simt import simulate

F32 = DTYPES["f32"]


def exchange(barrier: bool):
    """Every lane stages one element in shared memory and takes the one of its neighbour, in two waves."""
    header = kernel(NVIDIA, [tensor("A", "input", 64), tensor("B", "output", 64), shared("S", 64)], waves=2)
    own = header.symbol("lane") + header.symbol("wave") * 32

    def fill(build: ThreadBuilder) -> None:
        build.span = line(3)
        value = build.load("A", F32, 1, own)
        build.store(value, "S", own)
        if barrier:
            build.barrier()
        build.span = line(7)
        value = build.load("S", F32, 1, 63 - own)
        build.store(value, "B", own)

    return built(header, fill)


def test_copy_through_shared_memory_with_barrier_is_clean() -> None:
    a = numbers(64)
    report = simulate(exchange(barrier=True), NVIDIA, {"A": a}, {})
    np.testing.assert_array_equal(report.tensors["B"], a[::-1])
    assert report.ok and report.findings == ()
    assert report.counts["global load bytes"] == 256 and report.counts["barrier"] == 1


def test_missing_barrier_is_a_race_at_the_reading_line() -> None:
    report = simulate(exchange(barrier=False), NVIDIA, {"A": numbers(64)}, {})
    (finding,) = report.findings
    assert finding.kind == "race" and finding.span == line(7) and not report.ok
    assert finding.related is not None and finding.related.span == line(3)
    assert "copy.wave.yaml:7:1: error[race]" in report.render() and finding.count == 64


def test_overwriting_what_another_wave_still_reads_is_a_race() -> None:
    body = """
    %a = constant {value = 1.0} : f32x1
    store %a {memory = "S", offset = [lane + wave*32]}
    barrier
    %b = load {memory = "S", offset = [63 - lane - wave*32]} : f32x1
    store %a {memory = "S", offset = [lane + wave*32]}
    """
    report = simulate(kernel(NVIDIA, [shared("S", 64)], body, waves=2), NVIDIA, {}, {})
    assert [(f.kind, "reads" in f.message) for f in report.findings] == [("race", True)]


def test_one_element_written_differently_by_two_lanes_is_a_race_and_written_alike_is_not() -> None:
    body = """
    %a = load {memory = "A", offset = [lane]} : f32x1
    store %a {memory = "S", offset = [lane//2]}
    """
    test = kernel(NVIDIA, [tensor("A", "input", 32), shared("S", 16)], body)
    assert simulate(test, NVIDIA, {"A": np.arange(32, dtype=np.float32)}, {}).kinds() == {"race"}
    assert simulate(test, NVIDIA, {"A": np.ones(32, np.float32)}, {}).ok


def test_masked_elements_are_neither_read_nor_written() -> None:
    body = """
    %a = load {memory = "A", offset = [lane*4], mask = (([lane], [3],),), valid = [10 - lane*4]} : f32x4
    store %a {memory = "B", offset = [lane*4], mask = (([lane], [3],),), valid = [10 - lane*4]}
    """
    a = numbers(10)
    report = simulate(kernel(AMD, [tensor("A", "input", 10), tensor("B", "output", 10)], body), AMD, {"A": a}, {})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["B"], a)
    assert report.counts["global store bytes"] == 40 and report.counts["global load 16 B"] == 3


def test_masked_load_gives_zeros() -> None:
    body = """
    %a = load {memory = "A", offset = [lane], mask = (([lane], [5],),), valid = none} : f32x1
    store %a {memory = "B", offset = [lane]}
    """
    report = simulate(
        kernel(NVIDIA, [tensor("A", "input", 5), tensor("B", "output", 32)], body),
        NVIDIA,
        {"A": np.ones(5, np.float32)},
        {},
    )
    assert report.ok and report.tensors["B"].sum() == 5


def test_a_load_that_every_lane_leaves_out_is_wherever_it_is() -> None:
    """Of no place there is nothing to be looked up: neither is it outside nor not aligned."""
    body = """
    %a = load {memory = "A", offset = [lane*4 + 1001], mask = (([lane], [0],),)} : f32x4
    store %a {memory = "B", offset = [lane*4]}
    """
    arrays = [tensor("A", "input", 12), tensor("B", "output", 128)]
    report = simulate(kernel(NVIDIA, arrays, body), NVIDIA, {"A": numbers(12)}, {})
    assert report.findings == () and not report.tensors["B"].any()
    assert (report.counts["global load bytes"], report.counts["global load 16 B"]) == (0, 0)


@pytest.mark.parametrize("space", ["global", "shared"])
def test_out_of_bounds_names_the_element(space: str) -> None:
    memory = tensor("A", "output", 31) if space == "global" else shared("A", 31)
    body = """
    %a = constant {value = 1.0} : f32x1
    store %a {memory = "A", offset = [lane]}
    """
    report = simulate(kernel(NVIDIA, [memory], body), NVIDIA, {}, {})
    (finding,) = report.findings
    assert finding.kind == "out-of-bounds" and finding.count == 1
    assert (
        finding.message
        == "'store' touches element 31 of @A, which has 31 elements, in lane 31 of wave 0 of workgroup 0."
    )


def test_unwritten_shared_memory_is_found() -> None:
    body = """
    %a = load {memory = "S", offset = [lane]} : f32x1
    store %a {memory = "B", offset = [lane]}
    """
    report = simulate(kernel(NVIDIA, [shared("S", 32), tensor("B", "output", 32)], body), NVIDIA, {}, {})
    assert report.kinds() == {"unwritten-read"} and np.isnan(report.tensors["B"]).all()


def async_copy(wait: bool, barrier: bool, *, shift: int = 16):
    """One 16-byte asynchronous copy per lane, then a read of the neighbour's (or one's own) 4 elements."""
    steps = f"{'async_wait {pending = 0}' if wait else ''}\n{'barrier' if barrier else ''}"
    body = f"""
    copy_async {{source = "A", source_offset = [lane*4], memory = "S", offset = [lane*4], elements = 4,
                 mask = (([lane], [30],),), valid = none}}
    async_commit
    {steps}
    %b = load {{memory = "S", offset = [(lane + {shift})%32*4]}} : f32x4
    store %b {{memory = "B", offset = [lane*4]}}
    """
    return kernel(NVIDIA, [tensor("A", "input", 120), tensor("B", "output", 128), shared("S", 128)], body)


def test_async_copy_lands_at_the_wait_and_fills_masked_elements_with_zeros() -> None:
    a = numbers(120)
    report = simulate(async_copy(True, True), NVIDIA, {"A": a}, {})
    assert report.ok, report.render()
    expected = np.concatenate([a, np.zeros(8, np.float32)]).reshape(2, 64)[::-1].reshape(-1)
    np.testing.assert_array_equal(report.tensors["B"], expected)


def test_async_copy_read_without_wait_or_without_barrier_is_found() -> None:
    a = numbers(120)
    assert simulate(async_copy(False, True), NVIDIA, {"A": a}, {}).kinds() == {"unwaited-copy"}
    assert simulate(async_copy(True, False), NVIDIA, {"A": a}, {}).kinds() == {"race"}
    assert simulate(async_copy(True, False, shift=0), NVIDIA, {"A": a}, {}).ok


@pytest.mark.parametrize(("offset", "kinds"), [("lane*8", set[str]()), ("(63 - lane)*8", {"scattered-copy"})])
def test_lanes_that_do_not_copy_one_behind_another_are_found(offset: str, kinds: set[str]) -> None:
    body = f"""
    copy_async {{source = "A", source_offset = [(63 - lane)*8], memory = "S", offset = [{offset}], elements = 8,
                 mask = (), valid = none}}
    async_commit
    async_wait {{pending = 0}}
    """
    memories = [tensor("A", "input", 512, dtype="f16"), shared("S", 512, dtype="f16")]
    report = simulate(kernel(AMD_COPYING, memories, body), AMD_COPYING, {"A": np.zeros(512, np.float16)}, {})
    assert report.kinds() == kinds


@pytest.mark.parametrize("commit", ["", "async_commit"])
def test_copy_that_nobody_waits_for_is_found(commit: str) -> None:
    body = f"""
    copy_async {{source = "A", source_offset = [lane*4], memory = "S", offset = [lane*4], elements = 4,
                 mask = (), valid = none}}
    {commit}
    """
    report = simulate(
        kernel(NVIDIA, [tensor("A", "input", 128), shared("S", 128)], body), NVIDIA, {"A": numbers(128)}, {}
    )
    assert report.kinds() == {"unwaited-copy"} and "under way" in report.render()


def rotation(pending: int):
    """Four tiles of 128 elements through three buffers, two copies ahead."""

    def copy(tile: str) -> str:
        return f"""
        copy_async {{source = "A", source_offset = [({tile})*128 + lane*4], memory = "S",
                     offset = [lane*4], elements = 4, buffer = [({tile})%3],
                     mask = (([{tile}], [4],),), valid = none}}
        async_commit"""

    body = f"""
    {copy("0")}
    {copy("1")}
    %zero = constant {{value = 0.0}} : f32x4
    %last = for %zero {{induction = "t", lower = [0], upper = [4], step = [1]}} : f32x4 (%old : f32x4) do
      async_wait {{pending = {pending}}}
      barrier
      {copy("t + 2")}
      %part = load {{memory = "S", offset = [124 - lane*4], buffer = [t%3]}} : f32x4
      store %part {{memory = "B", offset = [t*128 + lane*4]}}
      yield %part
    end
    async_wait {{pending = 0}}
    """
    memories = [tensor("A", "input", 512), tensor("B", "output", 512), shared("S", 128, buffers=3)]
    return kernel(NVIDIA, memories, body, symbols="symbol t in 0..3 by 1")


def test_buffers_rotate() -> None:
    a = numbers(512)
    report = simulate(rotation(pending=1), NVIDIA, {"A": a}, {})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["B"], a.reshape(4, 32, 4)[:, ::-1].reshape(-1))
    assert simulate(rotation(pending=2), NVIDIA, {"A": a}, {}).kinds() == {"unwaited-copy"}


def test_buffer_that_does_not_exist_is_out_of_bounds() -> None:
    body = """
    %a = constant {value = 1.0} : f32x1
    store %a {memory = "S", offset = [lane], buffer = [2]}
    """
    report = simulate(kernel(NVIDIA, [shared("S", 32, buffers=2)], body), NVIDIA, {}, {})
    assert "buffer 2 of @S" in report.findings[0].message


@pytest.mark.parametrize("transposed", [False, True])
def test_load_matrix_gives_each_lane_two_elements_of_each_matrix(transposed: bool) -> None:
    body = """
    %a = load {memory = "A", offset = [lane*16]} : f16x16
    store %a {memory = "S", offset = [lane*24]}
    barrier
    %m = load_matrix {memory = "S", offset = [lane%16*24 + lane//16*8], count = 4ORDER} : f16x8
    store %m {memory = "B", offset = [lane*8]}
    """
    memories = [
        tensor("A", "input", 32, 16, dtype="f16"),
        tensor("B", "output", 32, 8, dtype="f16"),
        shared("S", 32, 16, dtype="f16", padding=8),
    ]
    a = np.arange(512, dtype=np.float16).reshape(32, 16)
    body = body.replace("ORDER", ", transposed = true" if transposed else "")
    report = simulate(kernel(NVIDIA, memories, body), NVIDIA, {"A": a}, {})
    assert report.ok, report.render()
    lanes = np.arange(32)
    for register in range(8):
        row, column = lanes // 4, lanes % 4 * 2 + register % 2
        row, column = (column, row) if transposed else (row, column)
        expected = a[row + 8 * (register // 2 % 2), column + 8 * (register // 4)]
        np.testing.assert_array_equal(report.tensors["B"][:, register], expected)


def test_store_matrix_is_the_inverse_of_load_matrix() -> None:
    body = """
    %a = load {memory = "A", offset = [lane*8]} : f16x8
    store_matrix %a {memory = "S", offset = [lane%16*24 + lane//16*8], buffer = [0], count = 4}
    BARRIER
    %m = load_matrix {memory = "S", offset = [lane%16*24 + lane//16*8], count = 4} : f16x8
    store %m {memory = "B", offset = [lane*8]}
    """
    memories = [
        tensor("A", "input", 32, 8, dtype="f16"),
        tensor("B", "output", 32, 8, dtype="f16"),
        shared("S", 16, 16, dtype="f16", padding=8),
    ]
    a = np.arange(256, dtype=np.float16).reshape(32, 8)
    report = simulate(kernel(NVIDIA, memories, body.replace("BARRIER", "barrier")), NVIDIA, {"A": a}, {})
    assert report.ok and report.counts["shared matrix store bytes"] == 512, report.render()
    np.testing.assert_array_equal(report.tensors["B"], a)
    racing = kernel(NVIDIA, memories, body.replace("BARRIER", ""))
    assert simulate(racing, NVIDIA, {"A": a}, {}).kinds() == {"race"}


def test_transposed_store_matrix_lays_down_columns() -> None:
    """What lanes hold of the rows of four matrices is in their columns."""
    body = """
    %a = load {memory = "A", offset = [lane*8]} : f16x8
    store_matrix %a {memory = "S", offset = [lane%16*24 + lane//16*8], buffer = [0], count = 4, transposed = true}
    barrier
    %m = load_matrix {memory = "S", offset = [lane%16*24 + lane//16*8], count = 4, transposed = true} : f16x8
    store %m {memory = "B", offset = [lane*8]}
    %row = load {memory = "S", offset = [lane%16*24 + lane//16*8]} : f16x8
    store %row {memory = "C", offset = [lane*8]}
    """
    memories = [
        tensor("A", "input", 32, 8, dtype="f16"),
        tensor("B", "output", 32, 8, dtype="f16"),
        tensor("C", "output", 32, 8, dtype="f16"),
        shared("S", 16, 16, dtype="f16", padding=8),
    ]
    a = np.arange(256, dtype=np.float16).reshape(32, 8)
    report = simulate(kernel(NVIDIA, memories, body), NVIDIA, {"A": a}, {})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["B"], a)
    matrices = a.reshape(8, 4, 4, 2).transpose(2, 0, 1, 3).reshape(4, 8, 8)  # register pair i of lane 4r + c: row r
    np.testing.assert_array_equal(report.tensors["C"].reshape(4, 8, 8), matrices.transpose(0, 2, 1))


def test_load_matrix_needs_a_barrier_and_whole_rows() -> None:
    body = """
    %a = constant {value = 1.0} : f16x16
    store %a {memory = "S", offset = [lane*20]}
    %m = load_matrix {memory = "S", offset = [lane*20], count = 4} : f16x8
    """
    report = simulate(kernel(NVIDIA, [shared("S", 32, 16, dtype="f16", padding=4)], body), NVIDIA, {}, {})
    assert sorted(finding.kind for finding in report.findings) == ["misaligned", "misaligned", "race"]
    assert not report.ok


def test_two_workgroups_that_write_one_output_differently_are_found() -> None:
    body = """
    %a = load {memory = "A", offset = [wg0]} : f32x1
    store %a {memory = "B", offset = [0], mask = (([lane], [1],),), valid = none}
    """
    test = kernel(NVIDIA, [tensor("A", "input", 2), tensor("B", "output", 1)], body, grid=2)
    assert simulate(test, NVIDIA, {"A": np.array([1, 2], np.float32)}, {}).kinds() == {"output-conflict"}
    assert simulate(test, NVIDIA, {"A": np.array([1, 1], np.float32)}, {}).ok


@pytest.mark.parametrize(("offset", "kinds"), [("lane + wave*32", set()), ("lane", {"race"})])
def test_waves_do_not_share_a_place_in_shared_memory(offset: str, kinds: set[str]) -> None:
    """Not even for the same value: nothing orders the two writes, although both run in step here."""
    body = f"""
    %a = constant {{value = 1}} : f32x1
    store %a {{memory = "S", offset = [{offset}]}}
    """
    report = simulate(kernel(NVIDIA, [shared("S", 64)], body, waves=2), NVIDIA, {}, {})
    assert report.kinds() == kinds
    assert all("writes what several waves write" in finding.message for finding in report.findings)


@pytest.mark.parametrize(("values", "kinds"), [((1, 1), set()), ((1, 2), {"race"})])
def test_waves_that_store_one_element_of_an_output_agree(values: tuple[int, int], kinds: set[str]) -> None:
    """Each by an operation of its own, as waves with roles do."""
    body = """
    %a = load {memory = "A", offset = [wave]} : f32x1
    store %a {memory = "B", offset = [0], mask = (([lane + wave], [1],),)}
    store %a {memory = "B", offset = [0], mask = (([lane + 1 - wave], [1],),)}
    """
    test = kernel(NVIDIA, [tensor("A", "input", 2), tensor("B", "output", 1)], body, waves=2)
    assert simulate(test, NVIDIA, {"A": np.array(values, np.float32)}, {}).kinds() == kinds


def test_reading_what_another_workgroup_writes_is_a_race() -> None:
    body = """
    %a = load {memory = "B", offset = [0]} : f32x1
    store %a {memory = "B", offset = [lane + wg0*32]}
    """
    test = kernel(NVIDIA, [tensor("B", "output", 64)], body, grid=2)
    assert simulate(test, NVIDIA, {"B": np.ones(64, np.float32)}, {}).kinds() == {"race"}


def test_output_element_that_nobody_writes_is_found() -> None:
    body = """
    %a = constant {value = 1} : i8x1
    store %a {memory = "B", offset = [lane]}
    """
    test = kernel(NVIDIA, [tensor("B", "output", 5, 8, dtype="i8")], body)
    assert "element [4, 0] of output @B" in simulate(test, NVIDIA, {}, {}).findings[0].message
    assert simulate(test, NVIDIA, {"B": np.zeros((5, 8), np.int8)}, {}).ok
    assert simulate(test, NVIDIA, {}, {}, workgroups=[(0,)]).ok


def test_private_memory_and_serial_waves_of_a_cpu() -> None:
    body = """
    for {induction = "wave", lower = [0], upper = [4], step = [1]} () do
      %a = load {memory = "A", offset = [wave*8]} : bf16x8
      %w = cast %a : f32x8
      store %w {memory = "P", offset = [wave*8]}
      yield
    end
    barrier
    for {induction = "wave", lower = [0], upper = [4], step = [1]} () do
      %p = load {memory = "P", offset = [24 - wave*8]} : f32x8
      %n = cast %p : bf16x8
      store %n {memory = "B", offset = [wave*8]}
      yield
    end
    """
    memories = [
        tensor("A", "input", 32, dtype="bf16"),
        tensor("B", "output", 32, dtype="bf16"),
        "memory @P : f32 (d0: [32]) private",
    ]
    a = numbers(32, dtype=ml_dtypes.bfloat16)
    report = simulate(kernel(CPU, memories, body, symbols="symbol wave in 0..3 by 1"), CPU, {"A": a}, {})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["B"], a.reshape(4, 8)[::-1].reshape(-1))


@pytest.mark.parametrize(
    ("machine", "padding", "expected"), [(NVIDIA, 0, 4.0), (NVIDIA, 8, 1.0), (AMD, 0, 4.0), (AMD, 8, 1.0)]
)
def test_bank_conflicts_of_rows_of_32_halves(machine, padding: int, expected: float) -> None:
    body = f"""
    %a = constant {{value = 1.0}} : f16x8
    store %a {{memory = "S", offset = [lane*{32 + padding}]}}
    """
    test = kernel(machine, [shared("S", machine.lanes, 32, dtype="f16", padding=padding)], body)
    assert simulate(test, machine, {}, {}).bank_conflicts == {"store @S": expected}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [("lane", 1.0), ("lane*2", 2.0), ("0", 1.0), ("lane%2*32", 2.0), ("lane*32", 32.0)],
)
def test_bank_conflicts_of_single_words(offset: str, expected: float) -> None:
    body = f"""
    %a = constant {{value = 1.0}} : f32x1
    store %a {{memory = "S", offset = [{offset}]}}
    """
    assert simulate(kernel(NVIDIA, [shared("S", 32, 32)], body), NVIDIA, {}, {}).bank_conflicts == {
        "store @S": expected
    }


def test_atomic_operations_on_one_element_are_no_race_and_all_count() -> None:
    body = """
    %a = load {memory = "A", offset = [lane*2]} : f32x2
    atomic %a {function = "add", memory = "B", offset = [0]}
    """
    test = kernel(NVIDIA, [tensor("A", "input", 64), tensor("B", "inout", 2)], body, waves=2, grid=3)
    a = np.arange(64, dtype=np.float32)
    report = simulate(test, NVIDIA, {"A": a, "B": np.array([5, 7], np.float32)}, {})
    assert report.ok and report.findings == ()
    np.testing.assert_array_equal(report.tensors["B"], a.reshape(32, 2).sum(0) * 6 + [5, 7])
    assert report.counts["global atomic bytes"] == 2 * 4 * 64 * 3
    with pytest.raises(ValueError, match="'B' is missing"):
        simulate(test, NVIDIA, {"A": a}, {})


@pytest.mark.parametrize("first", ["load", "store", "atomic"])
@pytest.mark.parametrize("barrier", ["", "barrier"])
def test_an_atomic_operation_beside_a_plain_access_is_a_race(first: str, barrier: str) -> None:
    access = {
        "load": '%b = load {memory = "S", offset = [lane + wave*32]} : f32x1',
        "store": 'store %a {memory = "S", offset = [lane + wave*32]}',
        "atomic": 'atomic %a {function = "maximum", memory = "S", offset = [63 - lane - wave*32]}',
    }
    other = access["atomic" if first != "atomic" else "load"]
    body = f"""
    %a = constant {{value = 1.0}} : f32x1
    {access["store"]}
    barrier
    {access[first].replace("%b", "%first")}
    {barrier}
    {other}
    """
    report = simulate(kernel(NVIDIA, [shared("S", 64)], body, waves=2), NVIDIA, {}, {})
    assert report.kinds() == (set() if barrier else {"race"}), report.render()


def test_an_element_that_one_workgroup_stores_and_another_updates_is_a_conflict() -> None:
    body = """
    %a = constant {value = 1.0} : f32x1
    store %a {memory = "B", offset = [0], mask = (([wg0], [1],), ([lane], [1],),)}
    atomic %a {function = "add", memory = "B", offset = [0], mask = (([0], [wg0],),)}
    """
    test = kernel(NVIDIA, [tensor("B", "inout", 1)], body, grid=2)
    assert simulate(test, NVIDIA, {"B": np.ones(1, np.float32)}, {}).kinds() == {"output-conflict"}


def test_updating_what_nothing_has_written_is_found() -> None:
    body = """
    %a = constant {value = 1.0} : f32x1
    atomic %a {function = "add", memory = "S", offset = [lane]}
    """
    assert simulate(kernel(NVIDIA, [shared("S", 32)], body), NVIDIA, {}, {}).kinds() == {"unwritten-read"}
