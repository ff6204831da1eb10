"""Branches and loops between bounds, in the simulator: right at every edge, with every schedule, and they skip."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.control import LOOPS, RAGGED, Product, Rows, ragged_inputs
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

ROLES = ", waves: {producers: 1}"


@pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("loop", LOOPS)
def test_rows_of_a_triangle(loop: str, machine: Machine) -> None:
    for sizes in ((8, 16), (37, 50), (1, 1), (50, 9), (2, 0)):
        report, expected = Rows(loop).run(machine, sizes)
        assert report.ok, report.render()
        assert (report.tensors["y"] == expected).all()


@pytest.mark.parametrize("loop", LOOPS)
def test_reference_leaves_nothing_out(loop: str) -> None:
    x = np.random.default_rng(0).integers(-9, 10, (37, 50)).astype(np.float32)
    assert (np.asarray(reference(Rows(loop).spec, torch.tensor(x))) == Rows(loop).expected(x)).all()


@pytest.mark.parametrize(
    ("machine", "stages"),
    [pytest.param(CPU, 1, marks=pytest.mark.rare), (NVIDIA, 1), (NVIDIA, 3), (AMD, 2)],
    ids=lambda value: getattr(value, "variant", value),
)
@pytest.mark.parametrize("loop", ["branch", "end"])
def test_products_of_a_triangle(loop: str, machine: Machine, stages: int) -> None:
    product = Product(stages, loop, space="global" if machine is CPU else "shared")
    kernel = lower(product.spec, machine)
    for sizes in ((70, 40, 136), (3, 5, 8), (65, 1, 0)):
        report, expected = product.run(machine, sizes, kernel)
        assert report.ok, report.render()
        assert (report.tensors["c"] == expected).all()


def test_waves_that_only_copy_follow_bounds() -> None:
    report, expected = Product(3, "end", ROLES, tile=(64, 64, 64), wave=(64, 64)).run(NVIDIA, (130, 70, 256))
    assert report.ok, report.render()
    assert (report.tensors["c"] == expected).all()


@pytest.mark.parametrize("auto", ["prefetch", "modulo"])
def test_schedules_end_with_the_bound(auto: str) -> None:
    product = Product(2, schedule=f", auto: {auto}")
    for sizes in ((130, 70, 256), (40, 40, 64)):
        report, expected = product.run(AMD, sizes)
        assert report.ok, report.render()
        assert (report.tensors["c"] == expected).all()


def test_what_is_left_out_is_not_read() -> None:
    whole = Product(loop="none").run(AMD, (256, 64, 256))[0]
    for loop in ("branch", "end"):
        part = Product(loop=loop).run(AMD, (256, 64, 256))[0]
        assert part.counts["mma"] == whole.counts["mma"] * 20 // 32
        assert part.counts["global load bytes"] < whole.counts["global load bytes"] * 0.7


def test_a_start_leaves_out_the_steps_before_it() -> None:
    report, expected = Product(loop="none", start="K - K % 32", stages=2).run(AMD, (64, 64, 72))
    a, b = Product().operands((64, 64, 72))
    assert report.ok, report.render()
    assert (report.tensors["c"] == a[:, 64:].astype(np.float32) @ b[:, 64:].astype(np.float32).T).all()
    assert expected.shape == (64, 64)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_tiles_of_a_workgroup_may_differ_in_steps(stages: int) -> None:
    """Each begins with the first buffer; how many rounds there were goes from tile to tile."""
    schedule = f"{ROLES}, workgroups: {{persistent: true, count: 2}}"
    product = Product(stages, "end", schedule, tile=(64, 64, 16), wave=(64, 64))
    for sizes in ((400, 70, 136), (130, 70, 0), (256, 64, 16)):
        report, expected = product.run(NVIDIA, sizes)
        assert report.ok, report.render()
        assert (report.tensors["c"] == expected).all()


def test_steps_of_tiles_that_waves_take_in_turns_are_counted() -> None:
    schedule = ", waves: {producers: 1, order: ping_pong}, workgroups: {persistent: true}"
    product = Product(3, "end", schedule, tile=(64, 64, 64), wave=(64, 64))
    with pytest.raises(WavespecError, match=r"error\[steps-not-counted\]"):
        lower(product.spec, NVIDIA)


def test_waves_that_only_copy_have_nothing_to_do_where_all_reads_are_in_a_branch() -> None:
    product = Product(3, "branch", ROLES, tile=(64, 64, 64), wave=(64, 64))
    with pytest.raises(WavespecError, match=r"error\[nothing-to-copy\]"):
        lower(product.spec, NVIDIA)


def test_a_note_says_that_steps_with_a_branch_do_not_overlap() -> None:
    assert lower(Product(2, "branch").spec, AMD).notes == (
        "k_loop: steps do not overlap, because of the branch in them.",
    )
    assert not lower(Product(1, "branch").spec, AMD).notes


def test_a_tiling_may_say_where_loops_start_and_how_many_steps_they_have() -> None:
    report, _ = Product(loop="none", walked=", start: 40, count: 2", stages=2).run(AMD, (64, 64, 200))
    a, b = Product().operands((64, 64, 200))
    assert report.ok, report.render()
    kept = slice(32, 96)
    assert (report.tensors["c"] == a[:, kept].astype(np.float32) @ b[:, kept].astype(np.float32).T).all()


def test_a_number_of_workgroups_stays_where_a_machine_does_not_say_how_many_processors_it_has() -> None:
    product = Product(2, "none", ", workgroups: {persistent: true, count: 3}")
    kernel = lower(product.spec, AMD)
    assert [one.evaluate({"M": 300, "N": 200, "K": 8}) for one in kernel.grid] == [3]
    for sizes in ((300, 200, 72), (3, 5, 8)):
        report, expected = product.run(AMD, sizes, kernel)
        assert report.ok, report.render()
        assert (report.tensors["c"] == expected).all()
    with pytest.raises(WavespecError, match="persistence-not-possible"):
        lower(Product(1, "none", ", workgroups: {persistent: true, count: 3}", "global").spec, CPU)


@pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
def test_values_are_bounds_and_conditions(machine: Machine) -> None:
    lengths, x, expected = ragged_inputs()
    kernel = lower(loads(RAGGED), machine)
    report = simulate(kernel, machine, {"lengths": lengths, "x": x}, {"B": 4, "N": 30, "D": 20})
    assert report.ok, report.render()
    assert (report.tensors["y"] == expected).all()


def test_the_reference_takes_values_element_by_element() -> None:
    lengths, x, expected = ragged_inputs()
    assert (np.asarray(reference(loads(RAGGED), torch.tensor(lengths), torch.tensor(x))) == expected).all()


def test_a_value_has_to_be_one_for_a_workgroup() -> None:
    with pytest.raises(WavespecError, match=r"error\[not-uniform\]"):
        lower(loads(RAGGED.replace("{workgroup: B, tile: 1,", "{workgroup: B, tile: 2,")), AMD)
