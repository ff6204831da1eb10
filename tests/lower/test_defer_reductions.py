"""A loop carries what each register has so far, and joins lanes and waves behind it; results stay exact."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.lower.ir_text import ROWS, lines
from tests.ops.rows import Rows
from wavespec.lower.defer_reductions import DeferReductions
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

SUM = """
    %zero = register {value = 3.0} : tile<M: 4, f32>
    %sum = iterate %zero {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %part, %acc {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %acc.1
    end
    write %sum {memory = "y", origin = (("M", [wg0*4],),)}
"""


@pytest.mark.parametrize(("function", "nothing"), [("add", "0.0"), ("maximum", "-inf"), ("mul", "1.0")])
def test_loop_joins_element_by_element_and_one_reduction_is_behind_it(function: str, nothing: str) -> None:
    expected = """
        %zero = register {value = 3.0} : tile<M: 4, f32>
        %acc.2 = register {value = NOTHING} : tile<M: 4, N: 64, f32>
        %acc.5 = iterate %acc.2 {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, N: 64, f32> (%acc.3 : tile<M: 4, N: 64, f32>) do
          %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %acc.4 = join %acc.3, %part {dim = "N", function = "FUNCTION", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, N: 64, f32>
          yield %acc.4
        end
        %sum = reduce %acc.5, %zero {dim = "N", divided = false, function = "FUNCTION", size = [N]} : tile<M: 4, f32>
        write %sum {memory = "y", origin = (("M", [wg0*4],),)}
    """
    found = ROWS.after(DeferReductions(), NVIDIA, SUM.replace('"add"', f'"{function}"'))
    assert found == lines(expected.replace("FUNCTION", function).replace("NOTHING", nothing))


def test_elements_along_another_dim_are_joined_behind_the_loop_where_waves_take_turns() -> None:
    """Channels of a group in a loop over pixels: a vector is joined across its elements once, not in each step."""
    text = SUM.replace('iterate %zero {dim = "N"', 'iterate %zero {dim = "M"')
    assert "= join %acc.3, %part" in ROWS.after(DeferReductions(), CPU, text)
    assert ROWS.after(DeferReductions(), NVIDIA, text) == lines(text)
    mean = text.replace("divided = false", "divided = true")
    assert ROWS.after(DeferReductions(), CPU, mean) == lines(mean)


def test_a_mean_is_divided_behind_the_loop() -> None:
    found = ROWS.after(DeferReductions(), NVIDIA, SUM.replace("divided = false", "divided = true"))
    assert '%sum = reduce %acc.5, %zero {dim = "N", divided = true' in found and "join %acc.3, %part" in found


def test_small_floats_are_carried_in_f32() -> None:
    text = ROWS.changed((": f32 (M: [M], N", ": bf16 (M: [M], N"), (": f32 (M: [M])", ": bf16 (M: [M])"))
    found = text.after(DeferReductions(), NVIDIA, SUM.replace("f32", "bf16"))
    assert "(%acc.3 : tile<M: 4, N: 64, f32>) do" in found
    assert found.splitlines()[-2].endswith("tile<M: 4, bf16>") and found.splitlines()[-1].startswith("write %sum ")


@pytest.mark.parametrize(
    "body",
    [
        SUM.replace("N: 64", "N: 4096"),
        SUM.replace("      yield", '      %again = elementwise %acc.1, %acc.1 {function = "add"} : tile<M: 4, f32>\n      yield'),
        SUM.replace("      yield", '      %again = elementwise %acc, %acc {function = "add"} : tile<M: 4, f32>\n      yield'),
    ],
    ids=["more registers than are free", "a loop that uses the result", "a loop that uses what it carries"],
)  # fmt: skip
def test_each_step_reduces_where_there_are(body: str) -> None:
    kernel = ROWS.kernel(body)
    assert DeferReductions()(kernel, NVIDIA) is kernel


def test_a_spec_gets_there() -> None:
    kernel = lower(Rows().spec, NVIDIA, after="defer-reductions")
    assert [op.name for op in kernel.body] == ["register", "register", "iterate", "reduce", "write"]


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize(("word", "dtype"), [("sum", "f32"), ("max", "i8"), ("min", "f16"), ("prod", "f64")])
def test_results_are_exact_at_every_edge(word: str, dtype: str, machine: Machine) -> None:
    for sizes in ((5, 130), (3, 64), (2, 1), (1, 0)):
        if word == "prod" and sizes[1] > 64:
            sizes = (5, 9)
        report, expected = Rows(word, dtype=dtype, init=1).run(machine, sizes)
        assert report.ok, report.render()
        assert np.array_equal(report.tensors["y"].astype(np.float64), expected)
