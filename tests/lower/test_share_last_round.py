"""The last round: workgroups share out the steps of its tiles, and the last one adds up what they have."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, lines, run
from tests.lower.hopper_gemms import hopper_gemm
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Op, rewrite
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ir.thread_ops import FOR
from wavespec.pipeline import emit
from wavespec.sim.interleaving import Order
from wavespec.targets.machine import Machine

MOST = 8


def shared_gemm(most: int = MOST, *, stays: bool = False, resident: int = 1, **others: Any) -> Gemm:
    workgroups = f"{{last_round: {most}, persistent: {str(stays).lower()}, resident: {resident}}}"
    return hopper_gemm(schedule=f"waves: {{producers: 1}}, workgroups: {workgroups}", **others)


def machine_of(processors: int) -> Machine:
    return replace(NVIDIA, processors=processors)


def parts_of(tiles: int, processors: int, most: int = MOST) -> int:
    """By trying: what takes the least in one round, or in two of thirds."""
    rest = tiles % processors
    in_one = min(most, processors // max(rest, 1))
    if in_one > 1:
        return in_one
    return min((1, 3) if most >= 3 else (1,), key=lambda parts: ceil(rest * parts / processors) / parts)


def test_a_workgroup_takes_its_part_of_the_steps() -> None:
    kernel = shared_gemm().lowered(NVIDIA, "share-last-round")
    loop, branch = lines(kernel, "iterate")
    assert "extent = [min(max(K - (part_of_steps*((parts + (K + 63)//64 - 1)//parts))*64, 0)" in loop
    assert "lower" not in loop, "steps of rings are counted from 0"
    assert "once = true" in branch and "is_last" in branch
    (sums,) = lines(kernel, "shared_sum")
    assert 'memory = "k_loop_acc.handed"' in sums and 'counter = "k_loop_acc.arrived"' in sums


def test_plan_is_printed_and_parsed() -> None:
    kernel = shared_gemm().lowered(NVIDIA, "assign-tiles")
    assert "last_round 8" in print_kernel(kernel) and parse_kernel(print_kernel(kernel)) == kernel


def test_one_processor_has_no_last_round() -> None:
    """No other one waits while it has its last tile."""
    for stays in (False, True):
        kernel = shared_gemm(stays=stays).lowered(machine_of(1))
        assert not lines(kernel, "shared_sum") and kernel.distribution.last_round == 1


def test_of_two_parts_the_last_one_reads_those_of_the_other() -> None:
    """And as before all of them, part after part, where there are more: a sum of three has an order."""
    kernel = shared_gemm().lowered(machine_of(5))
    (loop,) = (op for op in kernel.walk() if op.is_(FOR) and op["induction"].startswith("part_of_sum"))
    read = {
        (parts, part): range(
            *(int(loop[end].evaluate({"parts": parts, "part_of_steps": part})) for end in ("lower", "upper"))
        )
        for parts in (2, 3)
        for part in range(parts)
    }
    assert read == {(2, 0): range(1, 2), (2, 1): range(1), **{(3, part): range(3) for part in range(3)}}


@pytest.mark.parametrize(("processors", "most"), [(132, 8), (132, 2), (132, 3), (12, 8), (7, 4)])
def test_every_part_of_every_tile_has_one_workgroup(processors: int, most: int) -> None:
    kernel = shared_gemm(most, tile=(64, 64, 64), wave=(64, 64)).lowered(machine_of(processors))
    lets = {op["symbol"]: op["value"] for op in kernel.body if op.name == "let"}
    for columns in range(1, 2 * processors, 5):
        sizes = {"M": 64, "N": 64 * columns, "K": 640}
        parts, found = parts_of(columns, processors, most), list[tuple[int, int, int]]()
        for number in range(int(kernel.grid[0].evaluate(sizes))):
            known = {**sizes, "id0": number}
            for name, value in lets.items():
                known[name] = int(value.evaluate(known))
            found.append((known["wg1"], known["part_of_steps"], known["parts"]))
        whole = columns // processors * processors
        expected = [(tile, 0, 1) for tile in range(whole)]
        expected += [(tile, part, parts) for tile in range(whole, columns) for part in range(parts)]
        assert sorted(found) == sorted(expected), columns


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize(
    ("processors", "size"),
    [
        (6, (200, 72, 328)),  # four tiles: two thirds
        (5, (130, 64, 328)),  # two, each by two
        (3, (200, 136, 200)),  # six: no last round
        (4, (200, 136, 200)),  # four, and two by two
        (9, (70, 8, 64)),  # one by eight, of which seven have no steps
        (5, (130, 136, 0)),  # nothing to add up
    ],
)
def test_shared_tiles_are_right(processors: int, size: tuple[int, int, int], order: Order, stays: bool) -> None:
    machine = machine_of(processors)
    gemm, sizes = shared_gemm(stays=stays), dict(zip("MNK", size, strict=True))
    report, expected = run(gemm.spec, machine, sizes, kernel=gemm.lowered(machine), order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize(
    ("clusters", "size"),
    [
        (3, (200, 72, 328)),  # two pairs: two thirds
        (2, (330, 136, 200)),  # six, of which two have no second tile
        (8, (70, 8, 64)),  # one by eight, of which seven have no steps
    ],
)
def test_clusters_share_out_pairs_of_tiles(clusters: int, size: tuple[int, int, int], order: Order) -> None:
    """Both have the same part, so that what they copy for each other is of the same steps."""
    machine = replace(NVIDIA, processors=2 * clusters, clusters={2: clusters})
    gemm = hopper_gemm(
        schedule=f"waves: {{producers: 1}}, workgroups: {{last_round: {MOST}, persistent: true, cluster: 2}}"
    )
    sizes = dict(zip("MNK", size, strict=True))
    report, expected = run(gemm.spec, machine, sizes, kernel=gemm.lowered(machine), order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_processors_with_room_for_several_have_a_counter_for_each_tile_of_a_round() -> None:
    """Workgroups that stay are as many as there is room for: two tiles are a short round for two processors."""
    machine, gemm = machine_of(2), shared_gemm(stays=True, resident=2, tile=(64, 64, 64), wave=(64, 64))
    kernel, sizes = gemm.lowered(machine), {"M": 64, "N": 120, "K": 328}
    report, expected = run(gemm.spec, machine, sizes, kernel=kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_simulator_finds_a_counter_that_nobody_sets_back() -> None:
    machine, gemm = machine_of(5), shared_gemm()
    kernel = gemm.lowered(machine)

    def dropped(op: Op) -> tuple[Op, ...]:
        return () if op.name == "atomic" and op["function"] == "exchange" else (op,)

    broken = replace(kernel, body=rewrite(kernel.body, dropped))
    report, _ = run(gemm.spec, machine, {"M": 130, "N": 64, "K": 328}, kernel=broken)
    assert [finding.kind for finding in report.findings] == ["counter-left"]


@pytest.mark.parametrize(
    ("gemm", "machine", "why"),
    [
        (hopper_gemm(schedule="workgroups: {last_round: 8}"), NVIDIA, "waves that only copy"),
        (Gemm(schedule="workgroups: {last_round: 8}"), AMD, "a machine that counts"),
        (
            hopper_gemm(schedule="waves: {producers: 1}, workgroups: {last_round: 8, persistent: true, count: 264}"),
            NVIDIA,
            "workgroups of one processor each",
        ),
        (replace(shared_gemm(), value=3), NVIDIA, "starts from other numbers than 0"),
    ],
)
def test_what_cannot_be_shared_is_refused(gemm: Gemm, machine: Machine, why: str) -> None:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(machine)
    (found,) = caught.value.diagnostics
    assert found.code == "last-round-not-possible" and why in found.message


def test_counting_comes_behind_what_was_laid_down() -> None:
    """For all who find the number: a workgroup that reads the sums of others, and lanes of them that wrote them."""
    gemm = shared_gemm()
    kernel = gemm.lowered(NVIDIA)
    (counted,) = (op for op in kernel.walk() if op.name == "atomic" and op["function"] == "add")
    assert counted["ordered"] and 'syncscope("device") acq_rel' in emit(gemm.spec, NVIDIA).text


def test_one_workgroup_a_tile_is_no_sharing() -> None:
    gemm = shared_gemm(1)
    assert gemm.lowered(NVIDIA, "share-last-round") == gemm.lowered(NVIDIA, "split-k")
