"""A call's work is counted by what is computed, whatever the tiles are."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavespec.emit.work import UNTOLD
from wavespec.pipeline import best_variant, emit
from wavespec.runtime.size_expr import evaluate, names_in
from wavespec.runtime.workgroups import _SHORT_WORK  # pyright: ignore[reportPrivateUsage]
from wavespec.schema import load, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target

SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize(
    ("name", "sizes", "least", "most"),
    [
        ("add_broadcast", {"M": 100, "N": 64}, 3 * 6400, 3 * 6400 + 64),  # two reads, one of them of a row, a sum
        ("softmax", {"M": 10, "N": 1000}, 30_000 * 10, 40_000 * 10),  # two powers and a quotient of each element
        ("gemm_f32", {"M": 64, "N": 64, "K": 64}, 64**3, 64**3 + 4 * 64**2),  # a product for each instruction
    ],
)
def test_work_follows_from_what_is_computed(name: str, sizes: dict[str, int], least: int, most: int) -> None:
    case = case_for_sizes(cases_for_target(load(SPECS / f"{name}.wave.yaml"), "cpu"), sizes)
    work = emit(case.spec, best_variant("cpu")).interface.work
    assert names_in(work) <= sizes.keys()
    assert least <= evaluate(work, sizes) <= most


def test_fixed_sizes_are_multiplied_out_and_steps_of_loops_counted() -> None:
    """What a call knows is left in the expression, nothing else."""
    spec = loads("""
        apiVersion: wavespec/v1
        kind: Kernel
        name: powers
        dims: {M: {}, N: {value: 32}}
        tensors:
          x: {shape: [M, N], dtype: f32}
          y: {shape: [M, N], dtype: f32, role: output}
        constraints:
          - {workgroup: M, tile: 4, axis: 0}
        graph:
          - first: {read: x}
          - steps:
              repeat: 5
              carry: {product: first}
              body:
                - product: product * first
          - {write: steps.product, to: y}
    """)
    assert emit(spec, best_variant("cpu")).interface.work == ("mul", "M", 32 * (1 + 5 + 1))


@pytest.mark.parametrize("steps", ["size(N)", "count", "5"])
def test_a_loop_that_nobody_knows_to_be_short_is_no_short_launch(steps: str) -> None:
    """Which would keep Python's lock: other threads, and who interrupts, would wait for all its steps."""
    spec = loads(f"""
        apiVersion: wavespec/v1
        kind: Kernel
        name: powers
        dims: {{M: {{}}, N: {{}}}}
        scalars: {{count: {{dtype: i32}}}}
        tensors:
          x: {{shape: [M, N], dtype: f32}}
          y: {{shape: [M, N], dtype: f32, role: output}}
        graph:
          - first: {{read: x}}
          - number: {{cast: count, dtype: f32}}
          - steps:
              repeat: {steps}
              carry: {{product: first}}
              body:
                - product: product * first + number
          - {{write: steps.product, to: y}}
    """)
    work = emit(
        case_for_sizes(cases_for_target(spec, "cpu"), {"M": 1, "N": 8}).spec, best_variant("cpu")
    ).interface.work
    found = evaluate(work, {"M": 1, "N": 8})
    assert (found < UNTOLD) == (steps == "5") and UNTOLD >= _SHORT_WORK
