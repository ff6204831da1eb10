"""Lowered GEMMs, run for their whole grid on every target: exact results, no race, no stray access, no bank
conflict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.lower.gemms import AMD, AMD_COPYING, CPU, MACHINES, NVIDIA, Gemm, operands, run, source
from wavespec.ir.kernel import Kernel, Op, Region
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

DTYPES = ("f32", "f16", "bf16", "i8")
SIZES = {
    "aligned": (64, 128, 128),
    "unaligned": (70, 131, 72),
    "tiny": (1, 1, 1),
    "empty sum": (5, 3, 0),
    "odd depth": (33, 65, 100),
}
TILES = {
    "aligned": (2, 1, 1),
    "unaligned": (2.3, 1.1, 1.25),
    "tiny": (0, 0, 0),
    "empty sum": (0.4, 0.2, 0),
    "odd depth": (1, 0.9, 1.1),
}
CONCURRENT = [machine for machine in MACHINES if machine.concurrent_waves]
SERIAL = [machine for machine in MACHINES if not machine.concurrent_waves]


@cache
def lowered(gemm: Gemm, target: str, variant: str) -> tuple[KernelSpec, Kernel]:
    """The same for all sizes."""
    machine = next(machine for machine in machines(target) if machine.variant == variant)
    return gemm.spec, gemm.lowered(machine)


def exact(gemm: Gemm, machine: Machine, sizes: tuple[int, int, int]) -> dict[str, float]:
    """Check the result and return the bank conflicts."""
    spec, kernel = lowered(gemm, machine.target, machine.variant)
    report, expected = run(spec, machine, dict(zip("MNK", sizes, strict=True)), kernel=kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))
    return dict(report.bank_conflicts)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine", CONCURRENT, ids=lambda machine: machine.variant)
def test_gemm_is_exact_and_free_of_bank_conflicts(machine: Machine, dtype: str, size: str) -> None:
    conflicts = exact(Gemm(dtype, tile=(64, 128, 64), wave=(32, 64)), machine, SIZES[size])
    assert set(conflicts.values()) <= {1.0}, conflicts


@pytest.mark.parametrize("size", TILES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine", SERIAL, ids=lambda machine: machine.variant)
def test_gemm_on_cpu_is_exact(machine: Machine, dtype: str, size: str) -> None:
    row = next(row for row in machine.instructions if dtype in [known.name for known in row.inputs])
    tile = (row.m, row.n * 2, max(16, row.k))
    m, n, k = (int(extent * share) for extent, share in zip(tile, TILES[size], strict=True))
    exact(Gemm(dtype, tile, wave=(None, None)), machine, (max(1, m), max(1, n), 1 if size == "tiny" else k))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("depth", [8, 32, 96, 200])
def test_pipelined_gemm_is_exact(stages: int, depth: int) -> None:
    gemm = Gemm(tile=(64, 64, 32), wave=(32, 32), stages=stages, dims=("", "", "multiple_of: 8"))
    exact(gemm, NVIDIA, (65, 70, depth))


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("auto", ["prefetch", "modulo"])
@pytest.mark.parametrize(("dtype", "tile"), [("f16", (64, 64, 32)), ("f16", (64, 64, 128)), ("i8", (64, 64, 64))])
@pytest.mark.parametrize("depth", [0, 16, 64, 208])
def test_gemm_with_copies_in_lane_order_is_exact_and_free_of_bank_conflicts(
    dtype: str, tile: tuple[int, int, int], auto: str, stages: int, depth: int
) -> None:
    promise = ("", "", "multiple_of: 16")
    gemm = Gemm(dtype, tile, wave=(32, 32), stages=stages, dims=promise, schedule=f"auto: {auto}")
    assert any(op.name == "copy_async" for op in gemm.lowered(AMD_COPYING).walk())
    conflicts = exact(gemm, AMD_COPYING, (65, 70, depth))
    assert set(conflicts.values()) <= {1.0}, conflicts


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_gemm_starts_from_the_value_of_its_register(machine: Machine) -> None:
    exact(
        Gemm("f32", tile=(48, 64, 8) if machine is CPU else (64, 64, 16), wave=(None, None), value=-2),
        machine,
        (20, 30, 17),
    )


@pytest.mark.parametrize("orders", [("K, M", "N, K", "M, N"), ("M, K", "K, N", "M, N"), ("K, M", "K, N", "N, M")])
@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
def test_tensors_may_have_their_dims_in_any_order(machine: Machine, orders: tuple[str, str, str]) -> None:
    gemm = Gemm(tile=(48, 64, 8) if machine is CPU else (64, 64, 32), wave=(None, None), orders=orders)
    exact(gemm, machine, (30, 40, 33))


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
def test_gemm_of_the_repository_is_exact_for_one_workgroup(machine: Machine) -> None:
    spec = loads(source("gemm.wave.yaml"), "gemm.wave.yaml")
    sizes = {"M": 130, "N": 129, "K": 72}
    kernel, inputs = lower(spec, machine), operands(spec, sizes)
    report = simulate(kernel, machine, inputs, sizes, workgroups=[(0, 0)])
    assert report.ok, report.render()
    expected = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    np.testing.assert_array_equal(report.tensors["c"][:128, :128], expected[:128, :128])
    assert set(report.bank_conflicts.values()) == {1.0}


def without_each_barrier(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel once for each of its barriers, with that one left out."""

    def removed(ops: tuple[Op, ...], number: int) -> tuple[tuple[Op, ...], int]:
        kept: list[Op] = []
        for op in ops:
            if op.region:
                inner, number = removed(op.region.ops, number)
                op = replace(op, region=Region(op.region.arguments, inner, op.region.yields))
            if op.name == "barrier":
                number -= 1
                if number == -1:
                    continue
            kept.append(op)
        return tuple(kept), number

    for number in range(sum(op.name == "barrier" for op in kernel.walk())):
        yield replace(kernel, body=removed(kernel.body, number)[0])


@pytest.mark.parametrize(
    ("machine", "stages"), [(NVIDIA, 1), (NVIDIA, 2), (AMD, 1)], ids=["sm_90", "sm_90, 2", "gfx942"]
)
def test_any_missing_barrier_is_a_race_at_its_line(machine: Machine, stages: int) -> None:
    gemm = Gemm(tile=(32, 64, 32), stages=stages, dims=("", "", "multiple_of: 8"))
    kernel, sizes = gemm.lowered(machine), {"M": 32, "N": 64, "K": 128}
    source_lines = gemm.text.splitlines()
    broken = list(without_each_barrier(kernel))
    assert len(broken) >= 2
    for one in broken:
        report, _ = run(gemm.spec, machine, sizes, kernel=one)
        races = [finding for finding in report.findings if finding.kind in ("race", "unwaited-copy")]
        assert races, "a barrier that nothing needs"
        for finding in races:
            assert finding.span is not None and finding.span.file == "gemm.wave.yaml"
            assert source_lines[finding.span.line - 1].strip() in (
                "- a_tile: {read: a}",
                "- b_tile: {read: b}",
                "- acc: {mma: [a_tile, b_tile, acc]}",
            )


def test_race_is_rendered_on_the_spec() -> None:
    gemm = Gemm(tile=(32, 64, 32))
    one = list(without_each_barrier(gemm.lowered(AMD)))[-1]
    report, _ = run(gemm.spec, AMD, {"M": 32, "N": 64, "K": 32}, kernel=one)
    assert not report.ok
    first = report.render().splitlines()
    assert first[0] == (
        "gemm.wave.yaml:29:19: error[race]: 'load' reads what another thread wrote without a barrier between: "
        "element 1 of @a.shared, lane 0 of wave 0 of workgroup 0 and lane 1 of wave 0 of workgroup 0."
    )
    assert first[1:7] == [
        "    |",
        " 29 |         - a_tile: {read: a}",
        "    |                   ^^^^^^^^^",
        "    |",
        " 29 |         - a_tile: {read: a}",
        "    |                   --------- the other 'store'",
    ]
