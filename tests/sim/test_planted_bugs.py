"""Right kernels with one mistake put in: each mistake is found, or shows in the result; the right kernel is clean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, AMD_COPYING, NVIDIA, Gemm, operands, run, source
from tests.lower.hopper_gemms import PING_PONG, hopper_gemm
from tests.sim.planted_bugs import (
    Bug,
    altered,
    dropped,
    for_itself_only,
    off_by_one,
    planted,
    sent_to,
    swapped_operands,
    unswizzled,
    with_arrivals,
)
from tests.sim.specialized_gemms import STAGES, run_gemm, specialized_gemm
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

ORDERS: tuple[Order, ...] = ("forward", "reverse", 0)


def next_stage(index: Expr) -> Expr:
    return (index + 1) % STAGES


def swapped_origins(op: Op) -> tuple[Op, ...]:
    """Rows of ``a`` are taken from where those of ``b`` are, and the other way round."""
    if op.name != "bulk_copy":
        return (op,)
    rows, depth = op["corner"]
    other = {"wg0": symbol("wg1", 0, 100000), "wg1": symbol("wg0", 0, 100000)}
    return (op.with_(corner=(rows.substitute(other), depth)),)


def met_by_one_lane(op: Op) -> tuple[Op, ...]:
    """The lane that copies waits for its whole wave."""
    return (op, Op("barrier", attributes=(("first", 2), ("waves", 1)))) if op.name == "bulk_copy" else (op,)


SPECIALIZED: dict[str, tuple[Bug, str]] = {
    "dropped barrier before the staging tile is overwritten": (dropped("barrier", 0), "race"),
    "dropped barrier before the staging tile is stored": (dropped("barrier", 1), "race"),
    "wrong rotation of what is copied": (altered("bulk_copy", "buffer", next_stage), "unwaited-copy"),
    "wrong rotation of what is multiplied": (altered("mma_async", "b_buffer", next_stage), "unwaited-copy"),
    "wrong rotation of what is released": (altered("signal_arrive", "index", next_stage, signal="empty"), "deadlock"),
    "early release of a stage": (altered("mma_wait", "pending", lambda _: 2, pending=1), "race"),
    "release of a stage that the first step does not have": (
        altered("if", "mask", lambda mask: mask[:1]),
        "signal-overrun",
    ),
    "stage that is never released": (dropped("signal_arrive", signal="empty"), "deadlock"),
    "stage that is refilled without waiting": (dropped("signal_wait", signal="empty"), "unwaited-copy"),
    "tile that is read without waiting": (dropped("signal_wait", signal="full"), "unwaited-copy"),
    "wait for the phase before": (altered("signal_wait", "phase", lambda p: 1 - p, signal="full"), "unwaited-copy"),
    "more bytes announced than come": (altered("signal_arrive", "bytes", lambda n: n and n + 16), "deadlock"),
    "fewer bytes announced than come": (altered("signal_arrive", "bytes", lambda n: n and n - 16), "signal-bytes"),
    "box that is smaller than announced": (altered("bulk_copy", "box", lambda _: (32, 64), source="b"), "deadlock"),
    "dropped fence of what the bulk store reads": (dropped("fence_async"), "unfenced-access"),
    "staging tile that is overwritten while it is read": (dropped("bulk_wait"), "race"),
    "end of the workgroup before the bulk store has read": (dropped("bulk_wait", 1), "unwaited-copy"),
    "accumulators that are used before they are complete": (
        altered("mma_wait", "pending", lambda _: 1, pending=0),
        "unwaited-product",
    ),
    "dropped fence of the accumulators": (dropped("mma_fence"), "unfenced-registers"),
    "barrier that only one lane comes to": (planted(met_by_one_lane), "divergent-operation"),
    "swapped operands": (planted(swapped_origins), "wrong"),
    "wrong swizzle of the staging tile": (unswizzled("store_matrix"), "wrong"),
    "origin off by one": (altered("bulk_copy", "corner", lambda at: (at[0] + 1, at[1]), source="a"), "wrong"),
    "matrix unit that starts a chunk too far": (altered("mma_async", "a_offset", lambda at: at + 8), "wrong"),
    "tile that no workgroup walks to": (
        altered("for", "upper", lambda upper: upper - 1, induction="tile"),
        "unwritten-output",
    ),
}
PIPELINED: dict[str, tuple[Bug, str]] = {
    "dropped barrier in the loop": (dropped("barrier", 1), "race"),
    "wrong rotation": (altered("copy_async", "buffer", lambda index: (index + 1) % 4), "unwaited-copy"),
    "wait that leaves one more copy in flight": (altered("async_wait", "pending", lambda n: n + 1), "unwaited-copy"),
    "dropped commit": (dropped("async_commit"), "unwaited-copy"),
    "wrong swizzle": (unswizzled("load_matrix", memory="a.shared"), "wrong"),
    "off-by-one mask of a copy": (off_by_one("copy_async", source="a"), "out-of-bounds"),
    "off-by-one mask of a store": (off_by_one("store"), "out-of-bounds"),
}
FEW = replace(NVIDIA, processors=2, clusters={2: 2, 4: 1})
"""Every workgroup walks over several tiles."""
ROLES: dict[str, tuple[Gemm, tuple[int, int, int]]] = {
    "persistent": (hopper_gemm(), (200, 136, 200)),
    "ping-pong": (hopper_gemm(tile=(64, 64, 64), schedule=PING_PONG), (200, 136, 200)),
    "cluster": (
        hopper_gemm(schedule="waves: {producers: 1}, workgroups: {persistent: true, cluster: 2}"),
        (300, 72, 328),
    ),
    "split": (
        hopper_gemm(schedule="waves: {producers: 1}, workgroups: {split: 4}"),
        (200, 72, 328),
    ),
    "copies by lanes": (hopper_gemm(dims=("", "multiple_of: 8", "multiple_of: 2"), stages=4), (200, 136, 202)),
}
BUGS_OF_ROLES: tuple[tuple[str, str, Bug, str], ...] = (
    ("persistent", "early release of a stage", altered("mma_wait", "pending", lambda n: n + 1, pending=1), "race"),
    ("persistent", "dropped barrier", dropped("barrier", 0), "race"),
    ("persistent", "staging tile that is overwritten while it is read", dropped("bulk_wait"), "race"),
    (
        "ping-pong",
        "waves that do not wait for their turn",
        dropped("signal_wait", signal="turn.next"),
        "signal-overrun",
    ),
    ("ping-pong", "stage released by a wave that does not use it", with_arrivals("at_K.empty", 2), "deadlock"),
    ("cluster", "copy to one workgroup", for_itself_only("bulk_copy"), "deadlock"),
    ("cluster", "release to one workgroup", for_itself_only("signal_arrive"), "deadlock"),
    ("cluster", "release by one workgroup for all", with_arrivals("at_K.empty", 2), "race"),
    ("split", "sums that are read before all are there", dropped("signal_wait", signal="sums.met"), "race"),
    ("split", "sums that not every lane has laid down", dropped("barrier", 0), "race"),
    ("split", "sums that one wave does not wait for", with_arrivals("sums.met", 7), "race"),
    ("split", "sums that are announced to one workgroup", sent_to("signal_arrive", 0, release=True), "deadlock"),
    ("split", "sums of one workgroup twice", altered("load", "rank", lambda rank: rank // 2 * 2, rank=1), "wrong"),
    ("copies by lanes", "dropped fence", dropped("fence_async"), "unfenced-access"),
    ("copies by lanes", "late wait", altered("async_wait", "pending", lambda n: n + 1), "unwaited-copy"),
    ("copies by lanes", "arrivals of a part of the lanes", with_arrivals("at_K.full", 64), "race"),
)
COPIED: dict[str, tuple[Bug, str]] = {
    "dropped barrier in the loop": (dropped("barrier", 1), "race"),
    "wrong rotation": (altered("load", "buffer", lambda index: 1 - index, memory="a.shared"), "race"),
    "dropped wait": (dropped("async_wait"), "unwaited-copy"),
    "dropped commit": (dropped("async_commit"), "unwaited-copy"),
    "wrong swizzle": (unswizzled("load", memory="a.shared"), "wrong"),
    "copy to where the swizzle would store": (unswizzled("copy_async", "source_offset", source="b"), "wrong"),
    "lanes that do not copy one behind another": (altered("copy_async", "offset", lambda at: at * 2), "scattered-copy"),
    "off-by-one mask of a copy": (off_by_one("copy_async", source="a"), "out-of-bounds"),
}
STAGED: dict[str, tuple[Bug, str]] = {
    "dropped barrier before the tile is overwritten": (dropped("barrier", 0), "race"),
    "dropped barrier before the tile is read": (dropped("barrier", 1), "race"),
    "swapped operands": (swapped_operands("mma"), "wrong"),
    "wrong swizzle": (unswizzled("store", memory="b.shared"), "wrong"),
    "off-by-one mask of a load": (off_by_one("load"), "out-of-bounds"),
    "off-by-one mask of a store": (off_by_one("store"), "out-of-bounds"),
}


def found(report: SimulationReport, right: np.ndarray) -> set[str]:
    """Kinds of findings, and ``wrong`` for a result that is not right."""
    actual = report.tensors["c"].astype(np.float64)
    return report.kinds() | (set() if np.array_equal(actual, right.astype(np.float64)) else {"wrong"})


def run_roles(name: str, plant: Bug, order: Order = "forward") -> tuple[SimulationReport, np.ndarray]:
    gemm, sizes = ROLES[name]
    return run(gemm.spec, FEW, dict(zip("MNK", sizes, strict=True)), kernel=plant(lower(gemm.spec, FEW)), order=order)


def run_lowered(kernel: Kernel, machine: Machine) -> tuple[SimulationReport, np.ndarray]:
    """One workgroup, whose tile sticks out of the result."""
    sizes = {"M": 99, "N": 71, "K": 264}
    inputs = operands(loads(source("gemm.wave.yaml"), "gemm.wave.yaml"), sizes)
    report = simulate(kernel, machine, inputs, sizes)
    return report, inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T


@pytest.mark.parametrize("order", ORDERS)
def test_specialized_gemm_is_clean_and_exact(order: Order) -> None:
    report, right = run_gemm(specialized_gemm(), order)
    assert found(report, right) == set(), report.render()


@pytest.mark.always  # a bug that the simulator no longer finds makes all that it finds right worth less
@pytest.mark.parametrize("order", [ORDERS[0], pytest.param(ORDERS[1], marks=pytest.mark.rare)])
@pytest.mark.parametrize("bug", SPECIALIZED)
def test_bug_in_a_specialized_gemm_is_caught(bug: str, order: Order) -> None:
    plant, kind = SPECIALIZED[bug]
    assert kind in found(*run_gemm(plant(specialized_gemm()), order))


@pytest.mark.parametrize(
    ("machine", "bugs"), [(NVIDIA, PIPELINED), (AMD, STAGED), (AMD_COPYING, COPIED)], ids=["sm_90", "gfx942", "gfx950"]
)
def test_bugs_in_a_lowered_gemm_are_caught(machine: Machine, bugs: dict[str, tuple[Bug, str]]) -> None:
    kernel = lower(loads(source("gemm.wave.yaml"), "gemm.wave.yaml"), machine)
    report, right = run_lowered(kernel, machine)
    assert found(report, right) == set(), report.render()
    for bug, (plant, kind) in bugs.items():
        assert kind in found(*run_lowered(plant(kernel), machine)), bug


@pytest.mark.parametrize("order", [ORDERS[1], *(pytest.param(order, marks=pytest.mark.rare) for order in ORDERS[2:])])
@pytest.mark.parametrize("name", ROLES)
def test_lowered_gemm_with_roles_is_clean_and_exact(name: str, order: Order) -> None:
    report, right = run_roles(name, lambda kernel: kernel, order)
    assert found(report, right) == set(), report.render()


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize(
    ("name", "bug", "plant", "kind"), BUGS_OF_ROLES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bug_in_a_lowered_gemm_with_roles_is_caught(name: str, bug: str, plant: Bug, kind: str) -> None:
    assert kind in found(*run_roles(name, plant)), bug


SYNCHRONISATION = (
    "barrier",
    "signal_wait",
    "signal_arrive",
    "fence_async",
    "mma_fence",
    "mma_commit",
    "bulk_wait",
    "bulk_commit",
)


@pytest.mark.parametrize("name", SYNCHRONISATION)
def test_no_synchronisation_can_be_left_out(name: str) -> None:
    count = sum(op.name == name for op in specialized_gemm().walk())
    assert count
    for nth in range(count):
        assert found(*run_gemm(dropped(name, nth)(specialized_gemm()))), f"{name} {nth}"
