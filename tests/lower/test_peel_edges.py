"""Whole tiles are computed without bound checks, what is left with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import SPECS
from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.lower.ir_text import ROWS, Text, lines
from tests.ops.rows import Rows
from wavespec.lower.peel_edges import PeelEdges
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import cases_for_target
from wavespec.schema.language.models import Dim
from wavespec.targets.machine import Machine

SUM = """
    %zero = register {value = 0.0} : tile<M: 4, f32>
    %sum = iterate %zero {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
      %part = read {masked = ("M", "N",), memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %part, %acc {dim = "N", divided = false, function = "add", masked = true, origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %acc.1
    end
    write %sum {masked = ("M",), memory = "y", origin = (("M", [wg0*4],),)}
"""


def test_checks_are_left_in_the_last_step_alone() -> None:
    assert ROWS.after(PeelEdges(), NVIDIA, SUM) == lines("""
        %zero = register {value = 0.0} : tile<M: 4, f32>
        %sum.1 = iterate %zero {dim = "N", extent = [N - N%64], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc.2 : tile<M: 4, f32>) do
          %part.1 = read {masked = ("M",), memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %acc.3 = reduce %part.1, %acc.2 {dim = "N", divided = false, function = "add", masked = false, origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
          yield %acc.3
        end
        %sum = iterate %sum.1 {dim = "N", extent = [N], induction = "at_N", lower = [N - N%64], step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
          %part = read {masked = ("M", "N",), memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %acc.1 = reduce %part, %acc {dim = "N", divided = false, function = "add", masked = true, origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
          yield %acc.1
        end
        write %sum {masked = ("M",), memory = "y", origin = (("M", [wg0*4],),)}
    """)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (
            ROWS.changed(("symbol N in 0..4096 by 1", "symbol N in 0..4096 by 64")),
            SUM.replace('masked = ("M", "N",)', 'masked = ("M",)').replace("masked = true", "masked = false"),
        ),
        (ROWS, SUM.replace("step = ", "lower = [64], step = ")),
        (ROWS, SUM.replace("unroll = 1", "unroll = 0")),
        (ROWS, SUM.replace('"at_N", step', '"at_N", goes_on = [1], step')),
    ],
    ids=["checks nothing along its dim", "starts somewhere", "is written out", "may end early"],
)
def test_loop_stays_one_that(text: Text, body: str) -> None:
    kernel = text.kernel(body)
    assert PeelEdges()(kernel, NVIDIA) is kernel


def test_loops_of_two_steps_stay_one_where_waves_take_turns() -> None:
    """Strips of a tile of two were written out twice."""
    for most, machine, stays in ((128, CPU, True), (128, NVIDIA, False), (129, CPU, False)):
        kernel = ROWS.changed(("symbol N in 0..4096 by 1", f"symbol N in 0..{most} by 1")).kernel(SUM)
        assert (PeelEdges()(kernel, machine) is kernel) == stays


def test_loops_of_products_stay() -> None:
    product = """
        %acc = register {value = 0.0} : tile<M: 4, D: 4, f32>
        %b = register {value = 1.0} : tile<D: 4, N: 64, f32>
        %sum = iterate %acc {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, D: 4, f32> (%c : tile<M: 4, D: 4, f32>) do
          %a = read {masked = ("M", "N",), memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %c.1 = mma %a, %b, %c {instruction = "fma_f32_32x64x4", k = "N", m = "M", n = "D"} : tile<M: 4, D: 4, f32>
          yield %c.1
        end
    """
    kernel = ROWS.kernel(product)
    assert PeelEdges()(kernel, NVIDIA) is kernel


PRODUCT = """
    %none = register {value = 0.0} : tile<M: 4, f32>
    %a = register {value = 1.0} : tile<M: 4, D: 4, f32>
    %b = register {value = 1.0} : tile<D: 4, N: 64, f32>
    %zero = register {value = 0.0} : tile<M: 4, N: 64, f32>
    %sum = iterate %none {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
      copy {masked = ("M", "N",), memory = "x.shared", origin = (("M", [wg0*4],), ("N", [at_N],),), source = "x"}
      %s = mma %a, %b, %zero {instruction = "fma_f32_32x64x4", k = "D", m = "M", n = "N"} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %s, %acc {dim = "N", divided = false, function = "add", masked = true, origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %acc.1
    end
"""
SHARED = ROWS.changed(
    ("memory @y", "memory @x.shared : f32 (M: [4], N: [64]) shared\n    memory @y"),
)


def test_beside_waves_that_copy_whole_tiles_of_products_check_nothing_but_copies() -> None:
    roles = SHARED.changed(("    grid", "    producers 1\n    grid"))
    text = roles.after(PeelEdges(), NVIDIA, PRODUCT)
    whole, rest = (line for line in text.splitlines() if " = iterate " in line)
    assert "extent = [N - N%64]" in whole and "lower = [N - N%64]" in rest
    sums = [line for line in text.splitlines() if " = reduce " in line]
    assert ["masked = true" in line for line in sums] == [False, True]
    assert text.count('copy {masked = ("M", "N",)') == 2, "one loop copies for both"


def test_tiles_in_front_of_where_a_window_is_whole_are_a_loop_of_their_own() -> None:
    window = """%n = index {dim = "N", origin = (("N", [at_N],),)} : tile<N: 64, i32>
      %m = index {dim = "M", origin = (("M", [wg0*4],),)} : tile<M: 4, i32>
      %flag = elementwise %n, %m {function = "gt"} : tile<M: 4, N: 64, bool>
      %no = register {value = 0.0} : tile<f32>
      %seen = elementwise %flag, %s, %no {function = "where"} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %seen, %acc"""
    roles = SHARED.changed(("    grid", "    producers 1\n    grid"))
    text = roles.after(PeelEdges(), NVIDIA, PRODUCT.replace("%acc.1 = reduce %s, %acc", window))
    loops = [line for line in text.splitlines() if " = iterate " in line]
    start = "min(N, (wg0//16)*64 + 64)"
    assert f"extent = [{start}]" in loops[0] and f"lower = [{start}]" in loops[1]
    assert [line.count('"where"') for line in text.split(" = iterate ")[1:]] == [1, 0, 0]


WINDOW = """%n = index {dim = "N", origin = (("N", [at_N],),)} : tile<N: 64, i32>
      %m = index {dim = "M", origin = (("M", [wg0*4],),)} : tile<M: 4, i32>
      %wide = register {value = 200} : tile<i32>
      %first = elementwise %m, %wide {function = "sub"} : tile<M: 4, i32>
      %early = elementwise %n, %first {function = "gt"} : tile<M: 4, N: 64, bool>
      %late = elementwise %n, %m {function = "le"} : tile<M: 4, N: 64, bool>
      %no = register {value = 0.0} : tile<f32>
      %some = elementwise %early, %s, %no {function = "where"} : tile<M: 4, N: 64, f32>
      %seen = elementwise %late, %some, %no {function = "where"} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %seen, %acc"""


def test_edges_of_a_window_that_is_longer_than_a_step_check_one_bound_each() -> None:
    """A window of 200 rows: in front of its whole steps no key comes too late, and so none lies outside; behind them
    none comes too early."""
    roles = SHARED.changed(("    grid", "    producers 1\n    grid"))
    for wide, checks in ((200, [1, 0, 1]), (65, [2, 0, 1])):
        body = PRODUCT.replace("%acc.1 = reduce %s, %acc", WINDOW.replace("200", str(wide)))
        steps = roles.after(PeelEdges(), NVIDIA, body).split(" = iterate ")[1:]
        assert [step.count('"where"') for step in steps] == checks, wide


@pytest.mark.parametrize(("least", "checks"), [(65, [2, 0, 1]), (200, [1, 0, 1])])
def test_windows_that_a_call_passes_have_whole_steps_as_well(least: int, checks: list[int]) -> None:
    symbol, scalar = f"symbol window.scalar in {least}..65536 by 1\n    ", "scalar window i32\n    "
    roles = SHARED.changed(("symbol N", f"{symbol}symbol N"), ("memory @x :", f"{scalar}memory @x :"))
    roles = roles.changed(("    grid", "    producers 1\n    grid"))
    outside = "%wide = scalar {number = [window.scalar]} : tile<i32>\n    %none = register"
    inside = WINDOW.replace("%wide = register {value = 200} : tile<i32>\n      ", "")
    body = PRODUCT.replace("%acc.1 = reduce %s, %acc", inside).replace("%none = register", outside)
    steps = roles.after(PeelEdges(), NVIDIA, body).split(" = iterate ")[1:]
    assert [step.count('"where"') for step in steps] == checks


def test_loops_of_products_stay_where_every_wave_copies() -> None:
    kernel = SHARED.kernel(PRODUCT)
    assert PeelEdges()(kernel, NVIDIA) is kernel


def test_single_rows_in_turn_are_not_checked_twice() -> None:
    kernel = lower(Rows(tile=(8, 64), wave=(1, 64)).spec, CPU)
    assert not any("M" in left.symbols for op in kernel.walk() for left, _ in op.get("mask", ()))
    assert not any(op.get("mask") for op in kernel.walk())


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dim", ["M", "N"])
def test_results_are_exact_at_every_edge(dim: str, machine: Machine) -> None:
    for sizes in ((64, 129), (8, 64), (1, 1), (63, 0)):
        report, expected = Rows(dim=dim, tile=(8, 64), wave=(1, 64) if dim == "N" else (8, 64)).run(machine, sizes)
        assert report.ok, report.render()
        assert np.array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.target)
@pytest.mark.parametrize("keys", [16, 77, 100, 128])
def test_a_fixed_number_of_keys_keeps_every_contract(machine: Machine, keys: int) -> None:
    spec = load(SPECS / "attention.wave.yaml")
    fixed = spec.model_copy(update={"dims": {**spec.dims, "N": Dim(value=keys)}})
    for case in cases_for_target(fixed, machine.target):
        assert lower(case.spec, machine).level == "thread"  # contracts are checked in tests
