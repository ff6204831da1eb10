"""Running sums, and sums that steps carry, are made in a type that keeps the error of a long dim."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import ROWS, lines
from wavespec.lower.defer_reductions import DeferReductions
from wavespec.lower.widen_sums import WidenSums
from wavespec.targets.machine import Machine

RUNNING = """
    %none = register {value = 0.0} : tile<M: 4, f32>
    %total = iterate %none {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%before : tile<M: 4, f32>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %run = scan %part, %before {dim = "N", function = "add"} : tile<M: 4, N: 64, f32>
      write %run {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)}
      %before.1 = reduce %part, %before {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %before.1
    end
    write %total {memory = "y", origin = (("M", [wg0*4],),)}
"""
SUM = """
    %none = register {value = 0.0} : tile<M: 4, bf16>
    %total = iterate %none {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, bf16> (%before : tile<M: 4, bf16>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, bf16>
      %before.1 = reduce %part, %before {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, bf16>
      yield %before.1
    end
    write %total {memory = "y", origin = (("M", [wg0*4],),)}
"""


def test_a_running_sum_and_what_it_starts_from_are_f64_where_the_machine_has_them_so() -> None:
    assert ROWS.after(WidenSums(), CPU, RUNNING) == lines("""
        %none = register {value = 0.0} : tile<M: 4, f32>
        %none.1 = cast %none : tile<M: 4, f64>
        %before.4 = iterate %none.1 {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f64> (%before.2 : tile<M: 4, f64>) do
          %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %part.2 = cast %part : tile<M: 4, N: 64, f64>
          %run.1 = scan %part.2, %before.2 {dim = "N", function = "add"} : tile<M: 4, N: 64, f64>
          %run = cast %run.1 : tile<M: 4, N: 64, f32>
          write %run {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)}
          %part.1 = cast %part : tile<M: 4, N: 64, f64>
          %before.3 = reduce %part.1, %before.2 {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f64>
          yield %before.3
        end
        %total = cast %before.4 : tile<M: 4, f32>
        write %total {memory = "y", origin = (("M", [wg0*4],),)}
    """)


def test_elsewhere_f32_stays() -> None:
    kernel = ROWS.kernel(RUNNING)
    assert WidenSums()(kernel, NVIDIA) is kernel


@pytest.mark.parametrize("machine", [CPU, NVIDIA], ids=lambda machine: machine.target)
def test_a_carried_sum_of_small_floats_is_f32_and_still_joined_behind_the_loop(machine: Machine) -> None:
    kernel = WidenSums()(ROWS.kernel(SUM), machine)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [value.tile.dtype.name for value in loop.results] == ["f32"]
    (deferred,) = (op for op in DeferReductions()(kernel, machine).body if op.name == "iterate")
    assert [op.name for op in deferred.body.ops] == ["read", "cast", "join"]


def test_what_else_uses_a_carried_sum_has_it_rounded() -> None:
    used = SUM.replace(
        "      yield",
        '      %twice = elementwise %before, %before.1 {function = "add"} : tile<M: 4, bf16>\n      yield',
    )
    kernel = WidenSums()(ROWS.kernel(used), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [op.name for op in loop.body.ops] == ["cast", "read", "cast", "reduce", "cast", "elementwise"]
    assert loop.body.ops[-1].operands == (loop.body.ops[0].result, loop.body.ops[-2].result)


@pytest.mark.parametrize("function", ["maximum", "minimum"])
def test_extremes_which_do_not_round_stay(function: str) -> None:
    kernel = ROWS.kernel(RUNNING.replace('"add"', f'"{function}"'))
    assert WidenSums()(kernel, CPU) is kernel


def test_a_sum_that_a_loop_adds_to_what_it_carries_starts_from_it() -> None:
    apart = SUM.replace("reduce %part, %before {", "reduce %part {").replace("%before.1 =", "%here =")
    added = apart.replace(
        "      yield", '      %before.1 = elementwise %before, %here {function = "add"} : tile<M: 4, bf16>\n      yield'
    )
    kernel = WidenSums()(ROWS.kernel(added), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [op.name for op in loop.body.ops] == ["read", "cast", "reduce"]
    assert loop.body.ops[-1].operands[1:] == loop.body.arguments


def test_products_are_f64_where_the_machine_has_long_sums_so() -> None:
    body = SUM.replace("bf16", "f32").replace('"add"', '"mul"')
    kernel = WidenSums()(ROWS.kernel(body), CPU)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [value.tile.dtype.name for value in loop.results] == ["f64"]


def test_flags_are_carried_as_the_numbers_that_they_are_joined_in() -> None:
    """Else no lane could carry what it has so far, nor could workgroups share out the loop."""
    flags = """
        %none = register {value = 0} : tile<M: 4, bool>
        %some = iterate %none {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, bool> (%p : tile<M: 4, bool>) do
          %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, bool>
          %ones = cast %part : tile<M: 4, N: 64, i32>
          %so_far = cast %p : tile<M: 4, i32>
          %joined = reduce %ones, %so_far {dim = "N", divided = false, function = "maximum", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, i32>
          %p.1 = cast %joined : tile<M: 4, bool>
          yield %p.1
        end
        write %some {memory = "y", origin = (("M", [wg0*4],),)}
    """
    kernel = WidenSums()(ROWS.kernel(flags), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [value.tile.dtype.name for value in loop.results] == ["i32"]
    assert [op.name for op in loop.body.ops] == ["read", "cast", "reduce"]
    assert [op.name for op in kernel.body[-2:]] == ["cast", "write"]
