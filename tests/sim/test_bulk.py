"""Bulk copies and bulk stores: boxes that stick out of a tensor, swizzles, and when shared memory may be used again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.simulated_kernels import NVIDIA, kernel, numbers, tensor
from wavespec.ir.layout import swizzled_slabs
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate

LANES = 32


def tile(rows: int, columns: int, *, buffers: int = 1) -> str:
    """Rows of 2-byte elements, swizzled over their whole width."""
    arrangement = swizzled_slabs(("r", "c"), (rows, columns), 16)
    copies = f" x{buffers}" if buffers > 1 else ""
    return f"memory @S : f16 (r: [{rows}], c: [{columns}]) shared {arrangement}{copies}"


def one_lane(*ops: str) -> str:
    return "if {mask = (([lane], [1],),)} () do\n" + "\n".join(ops) + "\nyield\nend"


def copy_in(rows: int, columns: int, origin: tuple[int, int], *, announced: int | None = None) -> str:
    count = rows * columns * 2 if announced is None else announced
    return one_lane(
        f'signal_arrive {{signal = "full", index = [0], bytes = {count}}}',
        f'bulk_copy {{source = "A", corner = ([{origin[0]}], [{origin[1]}],), box = ({rows}, {columns},), memory = "S",'
        ' offset = [0], buffer = [0], signal = "full", index = [0]}',
    )


WAIT = 'signal_wait {signal = "full", index = [0], phase = [0]}'


def run(
    *body: str, source: tuple[int, int], target: tuple[int, int], staged: str
) -> tuple[SimulationReport, np.ndarray]:
    memories = [
        tensor("A", "input", *source, dtype="f16"),
        tensor("B", "output", *target, dtype="f16"),
        staged,
        "memory @full : i64 () signal arrivals 1",
    ]
    a = numbers(*source, dtype=np.float16)
    return simulate(kernel(NVIDIA, memories, "\n".join(body)), NVIDIA, {"A": a}, {}), a


def read_out(rows: int, columns: int) -> str:
    """Every element where `Arrangement.offset` has it, a row per lane."""
    width, chunk, period = columns * 2 // 16, 8, 128 // (columns * 2)
    place = f"xor(c//{chunk}, lane//{period}%{width})*{chunk} + c%{chunk}" if width > 1 else "c"
    return "\n".join(
        f"""%v{c} = load {{memory = "S", offset = [lane*{columns} + {place.replace("c", str(c))}], mask = (([lane], [{rows}],),)}} : f16x1
        store %v{c} {{memory = "B", offset = [lane*{columns} + {c}], mask = (([lane], [{rows}],),)}}"""
        for c in range(columns)
    )


@pytest.mark.parametrize("columns", [8, 16, 32, 64], ids=lambda columns: f"{columns * 2} bytes")
@pytest.mark.parametrize("origin", [(0, 0), (-3, 8), (20, 40), (100, 0)])
def test_box_lies_as_its_arrangement_says_with_zeros_beyond_the_tensor(columns: int, origin: tuple[int, int]) -> None:
    report, a = run(
        copy_in(LANES, columns, origin),
        WAIT,
        read_out(LANES, columns),
        source=(40, 72),
        target=(LANES, columns),
        staged=tile(LANES, columns),
    )
    assert report.ok, report.render()
    around = np.pad(a, ((200, 200), (200, 200)))
    row, column = origin[0] + 200, origin[1] + 200
    np.testing.assert_array_equal(report.tensors["B"], around[row : row + LANES, column : column + columns])


def windows(start: tuple[int, int, int], offsets: tuple[int, int], *, steps: tuple[int, int] = (2, 1)) -> str:
    """32 windows over images of 7 x 5 elements of 16 channels: 3 along the first dim, 4 along the second."""
    return one_lane(
        'signal_arrive {signal = "full", index = [0], bytes = 512}',
        f'bulk_copy {{source = "A", corner = ([{start[0]}], [{start[1]}], [{start[2]}], [8],), box = (32, 8,), memory = "S",'
        f" windows = ((-1, {steps[0]}, [3], [9],), (-2, {steps[1]}, [4], [9],),), offsets = ([{offsets[0]}], [{offsets[1]}],),"
        ' offset = [0], buffer = [0], signal = "full", index = [0]}',
    )


def in_windows(body: str) -> tuple[SimulationReport, np.ndarray]:
    memories = [
        tensor("A", "input", 2, 7, 5, 16, dtype="f16"),
        tensor("B", "output", LANES, 8, dtype="f16"),
        tile(LANES, 8),
        "memory @full : i64 () signal arrivals 1",
    ]
    a = numbers(2, 7, 5, 16, dtype=np.float16)
    body = "\n".join((body, WAIT, read_out(LANES, 8)))
    return simulate(kernel(NVIDIA, memories, body), NVIDIA, {"A": a}, {}), a


@pytest.mark.parametrize("offsets", [(0, 0), (2, 0), (1, 4)])
def test_rows_of_a_box_are_windows_one_after_another(offsets: tuple[int, int]) -> None:
    """From the second one of the first image on, over the second image and beyond it, where there are zeros."""
    report, a = in_windows(windows((0, -1, -1), offsets))
    assert report.ok, report.render()
    around = np.pad(a, ((0, 2), (9, 9), (9, 9), (0, 0)))
    for row in range(LANES):
        image, place = divmod(row + 1, 12)
        down, across = place // 4 * 2 - 1 + offsets[0], place % 4 - 2 + offsets[1]
        np.testing.assert_array_equal(report.tensors["B"][row], around[image, down + 9, across + 9, 8:])


def test_start_between_two_windows_is_found() -> None:
    report, _ = in_windows(windows((0, 0, -1), (0, 0)))
    assert report.kinds() == {"misaligned"} and "at 0: they start at -1, every 2" in report.render()


def test_box_of_a_view_counts_over_dims_of_the_tensor() -> None:
    copy = copy_in(LANES, 8, (38, 0)).replace("memory", "view = ([44], [8],), memory", 1)
    memories = [
        tensor("A", "input", 4, 12, 8, dtype="f16"),
        tensor("B", "output", LANES, 8, dtype="f16"),
        tile(LANES, 8),
        "memory @full : i64 () signal arrivals 1",
    ]
    a = numbers(4, 12, 8, dtype=np.float16)
    body = "\n".join((copy, WAIT, read_out(LANES, 8)))
    report = simulate(kernel(NVIDIA, memories, body), NVIDIA, {"A": a}, {})
    assert report.ok, report.render()
    expected = np.zeros((LANES, 8), np.float16)
    expected[:6] = a.reshape(48, 8)[38:44]
    np.testing.assert_array_equal(report.tensors["B"], expected)


def test_tile_that_is_read_before_the_wait_is_in_flight() -> None:
    report, _ = run(
        copy_in(LANES, 8, (0, 0)), read_out(LANES, 8), WAIT, source=(40, 8), target=(LANES, 8), staged=tile(LANES, 8)
    )
    assert report.kinds() == {"unwaited-copy"}


@pytest.mark.parametrize(("bytes_", "kinds"), [(528, {"deadlock"}), (496, {"signal-bytes"})])
def test_bytes_have_to_be_those_announced(bytes_: int, kinds: set[str]) -> None:
    body = copy_in(LANES, 8, (0, 0), announced=bytes_), WAIT
    report, _ = run(*body, source=(40, 8), target=(0, 8), staged=tile(LANES, 8))
    assert report.kinds() == kinds
    if "deadlock" in kinds:
        assert "phase 0 of @full[0] has 1 of 1 arrivals, 16 bytes to come" in report.findings[0].message


def test_bytes_that_nobody_waits_for_are_found_at_the_end() -> None:
    report, _ = run(copy_in(LANES, 8, (0, 0), announced=528), source=(40, 8), target=(0, 8), staged=tile(LANES, 8))
    assert [finding.kind for finding in report.findings] == ["signal-bytes"]
    assert "At the end, phase 0 of @full[0]" in report.findings[0].message


def test_rows_have_to_be_aligned() -> None:
    report, _ = run(copy_in(LANES, 8, (0, 0)), WAIT, source=(40, 9), target=(0, 8), staged=tile(LANES, 8))
    assert report.kinds() == {"misaligned"} and not report.ok


def test_copy_of_a_signal_that_does_not_exist_is_out_of_bounds() -> None:
    body = copy_in(LANES, 8, (0, 0)).replace(
        'signal = "full", index = [0]}\nyield', 'signal = "full", index = [3]}\nyield'
    )
    report, _ = run(body, source=(40, 8), target=(0, 8), staged=tile(LANES, 8))
    assert "out-of-bounds" in report.kinds()


def test_copy_over_what_lanes_wrote_needs_a_fence() -> None:
    written = """
    %one = constant {value = 1.0} : f16x8
    store %one {memory = "S", offset = [lane*8]}
    """
    for fence, kinds in (("fence_async", set[str]()), ("", {"unfenced-access"})):
        body = written, fence, "barrier", copy_in(LANES, 8, (0, 0)), WAIT
        report, _ = run(*body, source=(40, 8), target=(0, 8), staged=tile(LANES, 8))
        assert report.kinds() == kinds, report.render()


def store_out(
    *,
    fence: str = "fence_async",
    barrier: str = "barrier",
    wait: str = "bulk_wait {pending = 0}",
    after: str = "",
    column: int = 2,
) -> str:
    place = f"corner = ([20], [{column}],), box = (32, 8,)"
    store = f'bulk_store {{memory = "S", offset = [0], buffer = [0], target = "B", {place}}}'
    return f"""
    %a = load {{memory = "A", offset = [lane*8]}} : f16x8
    store %a {{memory = "S", offset = [lane*8]}}
    {fence}
    {barrier}
    {one_lane(store, "bulk_commit", wait)}
    {after}
    """


def test_box_of_a_bulk_store_leaves_out_what_lies_beyond_the_tensor() -> None:
    memories = [tensor("A", "input", 32, 8, dtype="f16"), tensor("B", "output", 25, 8, dtype="f16"), tile(32, 8)]
    a, before = numbers(32, 8, dtype=np.float16), np.full((25, 8), 9, np.float16)
    report = simulate(kernel(NVIDIA, memories, store_out()), NVIDIA, {"A": a, "B": before}, {})
    assert report.ok, report.render()
    expected = before.copy()
    expected[20:, 2:] = a[:5, :6]
    np.testing.assert_array_equal(report.tensors["B"], expected)
    assert report.counts["global bulk store bytes"] == 60


def test_a_bulk_store_begins_at_no_place_before_the_tensor() -> None:
    memories = [tensor("A", "input", 32, 8, dtype="f16"), tensor("B", "output", 25, 8, dtype="f16"), tile(32, 8)]
    values = {"A": numbers(32, 8, dtype=np.float16), "B": np.zeros((25, 8), np.float16)}
    report = simulate(kernel(NVIDIA, memories, store_out(column=-2)), NVIDIA, values, {})
    assert report.kinds() == {"out-of-bounds"}
    assert "begins at -2 of @B" in report.render()


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (store_out(fence=""), {"unfenced-access"}),
        (store_out(barrier=""), {"race"}),
        (store_out(wait=""), {"unwaited-copy"}),
        (store_out(after='barrier\nstore %a {memory = "S", offset = [lane*8]}'), set[str]()),
        (store_out(after='store %a {memory = "S", offset = [lane*8]}'), {"race"}),
        (store_out(wait="", after='barrier\nstore %a {memory = "S", offset = [lane*8]}'), {"race", "unwaited-copy"}),
        (store_out(after='%b = load {memory = "B", offset = [162]} : f16x1'), {"race"}),
    ],
)
def test_synchronisation_of_a_bulk_store(body: str, kinds: set[str]) -> None:
    memories = [tensor("A", "input", 32, 8, dtype="f16"), tensor("B", "output", 25, 8, dtype="f16"), tile(32, 8)]
    a, before = numbers(32, 8, dtype=np.float16), np.zeros((25, 8), np.float16)
    report = simulate(kernel(NVIDIA, memories, body), NVIDIA, {"A": a, "B": before}, {})
    assert report.kinds() == kinds, report.render()
