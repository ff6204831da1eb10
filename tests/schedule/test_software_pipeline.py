"""Rounds: what runs before the loop, what it carries, and steps beyond its end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.gemms import AMD, AMD_COPYING, NVIDIA, Gemm, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op, Region, Value, rewrite
from wavespec.lower.pipeline_loops import PipelineLoops
from wavespec.schema import loads
from wavespec.targets.machine import Machine

PROMISED = ("", "", "multiple_of: 8")
GEMM = Gemm(dims=PROMISED)


def the_loop(kernel: Kernel) -> Op:
    (loop,) = (op for op in kernel.body if op.name == "for")
    return loop


def names(ops: tuple[Op, ...]) -> list[str]:
    return [op.name for op in ops]


def test_first_rounds_stand_before_the_loop() -> None:
    kernel = replace(GEMM, stages=3).lowered(AMD, "pipeline-loops")
    before = kernel.body[: kernel.body.index(the_loop(kernel))]
    inside = the_loop(GEMM.lowered(AMD, "pipeline-loops")).body.ops
    loads = sum(op.node.endswith(".load") for op in inside)
    assert sum(op.node.endswith(".load") for op in before) == 2 * loads, "of the first two steps"
    assert sum(op.node.endswith(".store") for op in before) == loads, "of the first one"


@pytest.mark.parametrize(("auto", "after"), [("prefetch", ["async_wait"]), ("modulo", ["async_commit", "async_wait"])])
def test_copies_behind_the_last_commit_are_closed_and_awaited_behind_the_loop(auto: str, after: list[str]) -> None:
    gemm = replace(GEMM, tile=(64, 64, 64), wave=(32, 32), stages=2, schedule=f"auto: {auto}")
    body = gemm.lowered(AMD_COPYING, "pipeline-loops").body
    loop = next(at for at, op in enumerate(body) if op.name == "for")
    assert [op.name for op in body[loop + 1 :] if op.name.startswith("async")] == after


def test_hardware_that_checks_ranges_needs_no_masks_for_steps_beyond_the_end() -> None:
    loop = the_loop(Gemm(dims=("", "", "multiple_of: 32"), stages=2).lowered(AMD, "pipeline-loops"))
    loads = [op for op in loop.body.ops if op.node.endswith(".load")]
    assert loads and all("at_K + 32)" in str(op["offset"]) and "min(" in str(op["offset"]) for op in loads), (
        "the last step that exists, again"
    )
    assert not any("at_K" in str(left) for op in loads for left, _ in op["mask"])


def test_other_hardware_loads_zeros_there() -> None:
    gemm = Gemm(stages=2)  # rows at any address: through registers
    loads = [op for op in the_loop(gemm.lowered(NVIDIA, "pipeline-loops")).body.ops if op.node.endswith(".load")]
    assert loads and all(any("at_K" in str(left) for left, _ in op["mask"]) for op in loads)


def test_rounds_of_several_steps_have_longer_strides() -> None:
    kernel = replace(GEMM, schedule="loops: {k_loop: {unroll: 4}}").lowered(AMD, "pipeline-loops")
    assert the_loop(kernel)["step"].value == 4 * 32
    assert next(known for known in kernel.symbols if known.args[0] == "at_K").divisor == 4 * 32
    once = the_loop(GEMM.lowered(AMD, "pipeline-loops")).body.ops
    assert names(the_loop(kernel).body.ops).count("mma") == 4 * names(once).count("mma")


def doubling(kernel: Kernel) -> Kernel:
    """The kernel with what its loop carries doubled in every step."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for":
            return (op,)
        body = op.body
        made = [Value(f"twice_{value.name}", value.type) for value in body.yields]
        function = (("function", "add"),)
        ops = [
            Op("elementwise", (value, value), (new,), function, node="twice")
            for value, new in zip(body.yields, made, strict=True)
        ]
        return (replace(op, region=Region(body.arguments, (*body.ops, *ops), tuple(made))),)

    return replace(kernel, body=rewrite(kernel.body, change))


@pytest.mark.parametrize(
    ("schedule", "refused"),
    [
        ("auto: prefetch", False),
        ("loops: {k_loop: {unroll: 2}}", True),
        ("loops: {k_loop: {nodes: {a_tile.load: 0, b_tile.load: 0, acc: 1}}}", False),
        ("loops: {k_loop: {nodes: {a_tile.load: 0, a_tile.store: 0, b_tile.load: 0, b_tile.store: 0, "
         "a_tile: 0, b_tile: 0, acc: 0, twice: 1}}}", True),
    ],
)  # fmt: skip
def test_only_sums_of_products_may_see_steps_beyond_the_end(schedule: str, refused: bool) -> None:
    kernel = doubling(replace(GEMM, schedule=schedule).lowered(AMD, "tile-to-thread"))
    if not refused:
        PipelineLoops()(kernel, AMD)
        return
    with pytest.raises(WavespecError) as caught:
        PipelineLoops()(kernel, AMD)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["steps-beyond-end"]


def test_a_loop_around_another_is_left_alone_unless_it_is_named() -> None:
    def around(kernel: Kernel) -> Kernel:
        def change(op: Op) -> tuple[Op, ...]:
            if op.name != "for":
                return (op,)
            inner = Op(
                "for", attributes=(*((k, v) for k, v in op.attributes if k != "induction"), ("induction", "lane"))
            )
            inner = replace(inner, region=Region((), (), ()), attributes=tuple(sorted(inner.attributes)))
            return (replace(op, region=replace(op.body, ops=(*op.body.ops, inner))),)

        return replace(kernel, body=rewrite(kernel.body, change))

    plain = around(GEMM.lowered(AMD, "tile-to-thread"))
    assert PipelineLoops()(plain, AMD) == plain
    named = around(replace(GEMM, schedule="loops: {k_loop: {stages: 2}}").lowered(AMD, "tile-to-thread"))
    with pytest.raises(WavespecError) as caught:
        PipelineLoops()(named, AMD)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["not-innermost"]


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_no_stages_no_unrolling_and_no_size_change_a_result(data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from([AMD, NVIDIA]))
    promise = data.draw(st.sampled_from(["", "multiple_of: 8", "multiple_of: 64"]))
    auto = data.draw(st.sampled_from(["prefetch", "modulo"]))
    schedule = f"auto: {auto}, loops: {{k_loop: {{unroll: {data.draw(st.integers(1, 4))}}}}}"
    gemm = Gemm(dims=("", "", promise), stages=data.draw(st.integers(1, 5)), value=1, schedule=schedule)
    k = data.draw(st.integers(0, 5)) * 64 if "64" in promise else data.draw(st.integers(0, 20)) * 8
    report, expected = run(gemm.spec, machine, {"M": data.draw(st.integers(1, 40)), "N": 65, "K": k})
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


CARRIED_TWICE = """\
apiVersion: wavespec/v1
kind: Kernel
name: carried_twice
dims: {{M: {{}}, N: {{}}, K: {{multiple_of: 8, max: 64}}}}
tensors:
  a: {{shape: [M, K], dtype: f16}}
  b: {{shape: [N, K], dtype: f16, space: shared}}
  c: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 32, axis: 0}}
  - {{tiling: N, tile: 32}}
  - {{tiling: K, tile: 64}}
  - {{wave: M, tile: 16}}
graph:
  - lower: {{register: [M], dtype: f32, value: -100}}
  - higher: {{register: [M], dtype: f32, value: 7}}
  - rows: {{read: a}}
  - loop:
      iterate: N
      carry: {{one: lower, other: higher}}
      body:
        - columns: {{read: b}}
        - zero: {{register: [M, N], dtype: f32, value: 0}}
        - products: {{mma: [rows, columns, zero]}}
        - largest: {{max: products, dim: N}}
        - top: maximum(maximum(one, other), largest)
        - one: top
        - other: top
  - both: loop.one + 2 * loop.other
  - {{write: both, to: c}}
schedule: {{stages: {stages}}}
"""


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
@pytest.mark.parametrize(("stages", "n"), [(2, 8), (2, 32), (2, 136), (4, 40)])
def test_a_value_that_is_carried_under_two_names_starts_as_each_of_them(machine: Machine, stages: int, n: int) -> None:
    spec = loads(CARRIED_TWICE.format(stages=stages), "carried_twice.wave.yaml")
    report, expected = run(spec, machine, {"M": 33, "N": n, "K": 40})
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)
