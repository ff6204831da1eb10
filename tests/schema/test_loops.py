"""Loops whose result depends on the tile are refused; those that share out elements in any way are taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.ops.joinings import HEADER
from wavespec.diagnostics import WavespecError
from wavespec.schema import loads
from wavespec.schema.checking.array_values import FUNCTIONS_OF_ARRAYS
from wavespec.schema.checking.function_values import function_value
from wavespec.schema.ops.elementwise import FUNCTIONS

CODE = "depends-on-tile"


def spec(carry: str, *body: str, more: Sequence[str] = (), result: str = "loop.total", bounds: str = "") -> str:
    """``y[M]`` of ``x[M, N]`` by a loop over tiles of N that carries values from ``zero``, or ``low``, on."""
    lines = [
        f"{HEADER}dims: {{M: {{}}, N: {{min: 1}}, K: {{value: 2}}}}",
        "tensors:",
        "  x: {shape: [M, N], dtype: f32}",
        "  y: {shape: [M], dtype: f32, role: output}",
        *more,
        "constraints: [{workgroup: M, tile: 4, axis: 0}, {tiling: N, tile: 16}]",
        "graph:",
        "  - zero: {register: [M], dtype: f32, value: 0}",
        "  - low: {register: [M], dtype: f32, value: -.inf}",
        "  - nowhere: {register: [M], dtype: i64, value: 0}",
        "  - loop:",
        f"      iterate: N{bounds}",
        f"      carry: {{{carry}}}",
        "      body:",
        "        - part: {read: x}",
        *(f"        - {line}" for line in body),
        f"  - result: {result}",
        "  - {write: result, to: y}",
    ]
    return "\n".join(lines) + "\n"


OUT = ("  z: {shape: [M, N], dtype: f32, role: output}",)
TAKEN = {
    "sum": spec("total: zero", "total: {sum: part, dim: N, init: total}"),
    "sum of parts": spec("total: zero", "more: {sum: part, dim: N}", "total: total + more"),
    "largest": spec("total: low", "total: {max: part, dim: N, init: total}"),
    "softmax": spec(
        "largest: low, total: zero",
        "highest: {max: part, dim: N}",
        "largest_next: maximum(largest, highest)",
        "power: exp(part - largest_next)",
        "more: {sum: power, dim: N}",
        "total: total * exp(largest - largest_next) + more",
        "largest: largest_next",
    ),
    "softmax that seldom scales, whose sums alone depend on the tile": spec(
        "largest: zero, total: zero",
        "highest: {max: part, dim: N}",
        "shown: where(highest > largest + 0.25, highest, largest)",
        "power: exp(part - shown)",
        "more: {sum: power, dim: N}",
        "total: total * exp(largest - shown) + more",
        "largest: shown",
        result="log(loop.total) + loop.largest",
    ),
    "mean and variance": spec(
        "n: zero, middle: zero, total: zero",
        "one: where(part == part, 1.0, 0.0)",
        "count: {sum: one, dim: N}",
        "sums: {sum: part, dim: N}",
        "center: sums / count",
        "off: (part - center) * (part - center)",
        "squares: {sum: off, dim: N}",
        "apart: center - middle",
        "total: total + squares + apart * apart * n * count / (n + count)",
        "middle: middle + apart * count / (n + count)",
        "n: n + count",
    ),
    "running sums": spec(
        "total: zero",
        "so_far: {cumsum: part, dim: N, init: total}",
        "{write: so_far, to: z}",
        "total: {sum: part, dim: N, init: total}",
        more=OUT,
    ),
    "place of the largest": spec(
        "at: nowhere, top: low",
        "at: {argmax: part, dim: N, extreme: top, init: [at, top]}",
        result="f32(loop.at) + loop.top",
    ),
    "linear recurrence": spec(
        "total: zero",
        "kept: exp(part)",
        "run: {scan: N, carry: {a: kept, h: part}, identity: {a: 1, h: 0}, init: {a: one, h: total}, last: {h: end}, "
        "combine: [h: h * kept + part, a: a * kept]}",
        "total: run.end",
    ).replace("  - loop:", "  - one: {register: [M], dtype: f32, value: 1}\n  - loop:"),
    "last one": spec(
        "total: zero", "kept: 'where(index(N) == size(N) - 1, part, 0)'", "total: {sum: kept, dim: N, init: total}"
    ),
    "rows that are known to end, whatever there is behind": spec(
        "total: zero", "total: {sum: part, dim: N, init: total}", bounds="\n      end: end(M)"
    ),
    "what is not known": spec(
        "total: zero",
        "bits: {bitcast: part, dtype: i32}",
        "more: {sum: bits, dim: N}",
        "total: total * 0.5 + f32(more)",
    ),
}
REFUSED = {
    "steps are counted": (spec("total: zero", "total: total + 1"), "'y[0]' is 1 with one tile of 4, and 2 with tiles of 2"),
    "sums fade from step to step": (spec("total: zero", "more: {sum: part, dim: N}", "total: total * 0.5 + more"), ""),
    "a step of a recurrence": (spec("total: zero", "more: {sum: part, dim: N}", "total: tanh(total + more)"), ""),
    "largest of sums": (spec("total: low", "more: {sum: part, dim: N}", "total: maximum(total, more)"), ""),
    "the last tile alone": (spec("total: zero", "more: {sum: part, dim: N}", "total: more + total * 0"), ""),
    "softmax without scale": (
        spec(
            "largest: low, total: zero",
            "highest: {max: part, dim: N, init: largest}",
            "power: exp(part - highest)",
            "more: {sum: power, dim: N}",
            "total: total + more",
            "largest: highest",
        ),
        "",
    ),
    "sums that start again": (
        spec("total: zero", "so_far: {cumsum: part, dim: N, init: zero}", "{write: so_far, to: z}", "total: {sum: part, dim: N, init: total}", more=OUT),
        "'z[0, 2]'",
    ),
    "elements with what steps have made": (
        spec("total: zero", "more: {sum: part, dim: N}", "scaled: part * total", "{write: scaled, to: z}", "total: total + more", more=OUT),
        "'z[0, 2]'",
    ),
    "the first tile of a softmax is nothing": (
        spec("total: zero", "more: {sum: part, dim: N}", "total: 'where(total == 0, more, total)'"), ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_any_tile_is_taken(name: str) -> None:
    assert loads(TAKEN[name]).name


@pytest.mark.parametrize("name", REFUSED)
def test_dependence_on_the_tile_is_refused(name: str) -> None:
    text, says = REFUSED[name]
    with pytest.raises(WavespecError) as caught:
        loads(text)
    (found,) = caught.value.diagnostics
    assert found.code == CODE and found.span is not None
    line = next(at for at, written in enumerate(text.splitlines(), 1) if "iterate: N" in written)
    assert found.span.line == line
    assert says in found.message


def test_the_loop_is_named_that_makes_the_difference() -> None:
    text = spec("total: zero", "total: {sum: part, dim: N, init: total}", result="loop.total + wrong.seen")
    text = text.replace("N: {min: 1}", "N: {min: 1}, P: {}").replace("{tiling: N", "{tiling: P, tile: 8}, {tiling: N")
    text = text.replace("tensors:\n", "tensors:\n  w: {shape: [M, P], dtype: f32}\n")
    lines = ["  - wrong:", "      iterate: P", "      carry: {seen: zero}", "      body:", "        - other: {read: w}"]
    lines += ["        - most: {max: other, dim: P}", "        - seen: seen + most", "  - result"]
    text = text.replace("  - result", "\n".join(lines))
    with pytest.raises(WavespecError, match=CODE) as caught:
        loads(text)
    span = caught.value.diagnostics[0].span
    assert span is not None and text.splitlines()[span.line - 1].strip() == "iterate: P"


def test_what_differs_in_a_body_is_shown() -> None:
    with pytest.raises(WavespecError) as caught:
        loads(REFUSED["a step of a recurrence"][0])
    ((_, said),) = [(one.span, one.label) for one in caught.value.diagnostics[0].related]
    assert said == "what is carried to the next step"


@pytest.mark.parametrize("word", sorted(FUNCTIONS_OF_ARRAYS))
def test_functions_of_arrays_are_those_of_numbers(word: str) -> None:
    count = next(one.operands for one in FUNCTIONS if one.word == word)
    numbers = (-3.5, -1.0, 0.0, 0.25, 2.0, float("inf"), float("nan"))
    for at in range(len(numbers)):
        operands = tuple(numbers[(at + 3 * other) % len(numbers)] for other in range(count))
        if word == "where":
            operands = (float(at % 2), *operands[1:])
        expected = function_value(word, "f64", operands)
        with np.errstate(all="ignore"):
            found = float(FUNCTIONS_OF_ARRAYS[word](*(np.array(one) for one in operands)))
        np.testing.assert_allclose(found, float(expected), rtol=1e-14, err_msg=f"{word}{operands}")


def test_loops_whose_result_is_one_element_of_a_tensor_that_is_read_and_written() -> None:
    text = f"""{HEADER}dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: f32}}
  total: {{shape: [], dtype: f32, role: inout}}
constraints: [{{tiling: M, tile: 16}}]
graph:
  - none: {{register: [], dtype: f32, value: 0}}
  - rows: {{iterate: M, carry: {{whole: none}}, body: [{{part: {{read: x}}}}, {{whole: {{sum: part, dim: M, init: whole}}}}]}}
  - {{write: rows.whole, to: total}}
"""
    assert loads(text).tensors["total"].shape == ()
