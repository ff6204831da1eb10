"""Loops that carry extremes and sums relative to them, shared out among workgroups: what is joined, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kernels import SPECS
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.ir.tile_ops import CLUSTER_EXTREME, CLUSTER_SUM, ITERATE
from wavespec.lower.scaled_sums import CarriedValues
from wavespec.pipeline import lower
from wavespec.schema import load, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.families.kernel_meant import kernel_meant
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines

(NVIDIA,) = machines("sm_90")
Changes = Sequence[tuple[str, str]]


def attention(changes: Changes = (), *, split: int = 2, after: str = "split-k") -> Kernel:
    """Of few queries, with heads of up to 64 elements."""
    cases = cases_for_target(kernel_meant(load(SPECS / "attention.wave.yaml")), "sm_90")
    case = next(one for one in cases if "waves: {producers: 1}}" in dump_yaml(one.spec))  # nothing is shared out yet
    text = dump_yaml(case.spec)
    for old, new in (
        ("waves: {producers: 1}", f"waves: {{producers: 1}}, workgroups: {{split: {split}}}"),
        *changes,
    ):
        assert old in text, text
        text = text.replace(old, new)
    return lower(loads(text, "attention.wave.yaml"), NVIDIA, after=after)


def test_sums_are_scaled_to_the_extremes_of_all_workgroups() -> None:
    kernel = attention(split=4)
    (loop,) = [op for op in kernel.body if op.is_(ITERATE)]
    carried = CarriedValues("N", loop.body)
    assert [carried.extremes[0].function, *carried.sums] == ["maximum", 1, 2]
    behind = kernel.body[kernel.body.index(loop) + 1 :]
    (extreme,) = [op for op in behind if op.is_(CLUSTER_EXTREME)]
    assert extreme.operands == loop.results[:1] and extreme["function"] == "maximum"
    sums = [op for op in behind if op.is_(CLUSTER_SUM)]
    assert [op.result.tile.extents for op in sums] == [(16,), (16, 64)]
    scaled = [op for op in behind if op.results and op.result in (sums[0].operands[0], sums[1].operands[0])]
    assert [(op["function"], op.operands[0]) for op in scaled] == [("mul", value) for value in loop.results[1:]]
    assert scaled[0].operands[1] == scaled[1].operands[1]


def test_steps_begin_where_the_loop_does() -> None:
    kernel = attention([("iterate: N\n", "iterate: N\n      start: N - 100\n")])
    (loop,) = [op for op in kernel.body if op.is_(ITERATE)]
    assert "wg0" in loop["lower"].symbols and "N" in loop["lower"].symbols


REFUSED: dict[str, tuple[Changes, str]] = {
    "a sum that starts from a number": (
        [("none: {register: [B, H, M], dtype: f32, value: 0}", "none: {register: [B, H, M], dtype: f32, value: 1}")],
        "'total' starts from other numbers than 0",
    ),
    "an extreme that is used behind the loop": (
        [("steps.total, 1)", "steps.total + steps.largest, 1)")],
        "'largest' is used behind the loop",
    ),
    "a sum that is scaled in one operation": (
        [("total * shrink + part", "fma(total, shrink, part)")],
        "'total' is no sum of matrix products over the loop",
    ),
}


@pytest.mark.parametrize(("changes", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_joined_is_refused(changes: Changes, why: str) -> None:
    with pytest.raises(WavespecError, match="cannot be split among 2 workgroups") as caught:
        attention(changes)
    assert why in str(caught.value) and caught.value.code == "split-not-possible"
