"""Schedules that name nodes: what they make of a loop, and what is wrong with those that cannot hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Op
from wavespec.targets.machine import Machine

GEMM = Gemm(dims=("", "", "multiple_of: 8"))
THREE = "a_tile.load: 0, b_tile.load: 0, a_tile.store: 1, b_tile.store: 1, a_tile: 1, b_tile: 1, acc: 2"
TWO = "a_tile.load: 0, b_tile.load: 0, a_tile.store: 0, b_tile.store: 0, a_tile: 1, b_tile: 1, acc: 1"


def scheduled(fields: str, gemm: Gemm = GEMM) -> Gemm:
    return replace(gemm, schedule=f"loops: {{k_loop: {{{fields}}}}}")


def the_loop(gemm: Gemm, machine: Machine = AMD) -> Op:
    (loop,) = (op for op in gemm.lowered(machine, "pipeline-loops").body if op.name == "for")
    return loop


def nodes(ops: tuple[Op, ...]) -> list[str]:
    """The nodes in order, runs of one node as one."""
    named = [op.node for op in ops if op.node]
    return [node for at, node in enumerate(named) if at == 0 or named[at - 1] != node]


@pytest.mark.parametrize("machine", [AMD, NVIDIA], ids=["amd", "nvidia"])
@pytest.mark.parametrize("sizes", [(64, 64, 160), (33, 65, 40), (5, 3, 0)])
@pytest.mark.parametrize(
    "fields",
    [
        f"nodes: {{{THREE}}}",
        f"nodes: {{{TWO}}}, clusters: [[a_tile.load, b_tile.load, a_tile, b_tile], [acc], [a_tile.store, b_tile.store]]",
        "nodes: {a_tile.load: 0, b_tile.load: 0, acc: 2}, buffers: 4",
        "nodes: {a_tile.load: 0, a_tile.store: 1, a_tile: 2, b_tile.load: 1, b_tile.store: 1, b_tile: 1, acc: 3}, unroll: 2",
        "unroll: 3",
        "stages: 3, unroll: 2",
    ],
)
def test_no_schedule_changes_a_result(fields: str, sizes: tuple[int, int, int], machine: Machine) -> None:
    gemm = scheduled(fields, replace(GEMM, value=3))
    report, expected = run(gemm.spec, machine, dict(zip("MNK", sizes, strict=True)))
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_clusters_are_the_order_of_a_round_with_nothing_moved_between_them() -> None:
    clusters = "[[b_tile.load, a_tile.load], [a_tile, b_tile], [acc], [b_tile.store, a_tile.store]]"
    ops = the_loop(scheduled(f"nodes: {{{TWO}}}, clusters: {clusters}")).body.ops
    order = nodes(ops)
    assert order[0] in ("a_tile.load", "b_tile.load") and order[-1] in ("a_tile.store", "b_tile.store")
    assert order.index("a_tile") < order.index("acc") < order.index("a_tile.store")
    assert sum(op.name == "schedule_fence" for op in ops) == 3


def test_without_clusters_a_round_starts_with_what_takes_longest() -> None:
    order = nodes(the_loop(scheduled(f"nodes: {{{THREE}}}")).body.ops)
    assert order[0] in ("a_tile.load", "b_tile.load")


def test_values_that_cross_stages_are_carried() -> None:
    plain, three = the_loop(GEMM), the_loop(scheduled(f"nodes: {{{THREE}}}"))
    more = len(three.operands) - len(plain.operands)
    loads = sum(op.node in ("a_tile.load", "b_tile.load") for op in plain.body.ops)
    fragments = sum(op.name == "slice" for op in plain.body.ops)
    assert more == loads + fragments, "loads wait for their store, fragments for their products"


def test_buffers_are_as_few_as_the_stages_allow() -> None:
    def buffers(fields: str) -> set[int]:
        kernel = scheduled(fields).lowered(AMD, "pipeline-loops")
        return {memory.buffers for memory in kernel.memories if memory.space == "shared"}

    loads, stores, fragments = "a_tile.load, b_tile.load", "a_tile.store, b_tile.store", "a_tile, b_tile"
    assert buffers(f"nodes: {{{TWO}}}, clusters: [[{loads}], [{fragments}], [acc], [{stores}]]") == {1}
    assert buffers(f"nodes: {{{TWO}}}, clusters: [[{loads}], [{stores}], [{fragments}], [acc]]") == {2}
    assert buffers("nodes: {a_tile.store: 0, b_tile.store: 0, a_tile.load: 0, b_tile.load: 0, acc: 3}") == {3}


def test_what_is_read_before_other_tiles_are_copied_is_refused() -> None:
    """Copies of a step are one group, of which none has landed before the last one is under way."""
    apart = "a_tile.load: 0, a_tile: 1, b_tile.load: 2, b_tile: 3, acc: 3"
    with pytest.raises(WavespecError, match="copies of a step are awaited together"):
        scheduled(f"nodes: {{{apart}}}").lowered(NVIDIA)


def test_a_group_is_closed_behind_the_last_copy_of_its_own_stage() -> None:
    apart = "nodes: {a_tile.load: 2, b_tile.load: 0, acc: 2}, clusters: [[a_tile.load, a_tile]]"
    gemm = scheduled(apart)
    assert all(op["pending"] >= 0 for op in gemm.lowered(NVIDIA).walk() if op.name == "async_wait")
    report, expected = run(gemm.spec, NVIDIA, {"M": 33, "N": 65, "K": 136})
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(
    ("schedule", "code", "words"),
    [
        ("loops: {kloop: {stages: 2}}", "unknown-loop", "Did you mean 'k_loop'?"),
        ("loops: {k_loop: {nodes: {a_tile.lod: 0}}}", "unknown-node", "Did you mean 'a_tile.load'?"),
        ("loops: {k_loop: {clusters: [[tile]]}}", "unknown-node", "has no node 'tile'"),
        ("loops: {k_loop: {clusters: [[acc], [acc]]}}", "repeated-node", "'acc' is in two clusters"),
        ("loops: {k_loop: {nodes: {a_tile: 1, acc: 0}}}", "broken-dependence", "'acc' comes before 'a_tile'"),
        (
            "loops: {k_loop: {nodes: {a_tile.load: 1, a_tile: 0, b_tile: 1, acc: 1}}}",
            "broken-dependence",
            "it reads what is written to 'a.shared'",
        ),
        ("loops: {k_loop: {clusters: [[acc], [a_tile]]}}", "broken-dependence", "it uses %a_tile"),
        (
            "loops: {k_loop: {nodes: {a_tile.load: 0, b_tile.load: 0, a_tile.store: 0, b_tile.store: 0, acc: 3}, "
            "buffers: 1}}",
            "broken-dependence",
            "has 1 buffer, which it writes anew",
        ),
    ],
)
def test_schedules_that_cannot_hold_are_refused_where_they_are_written(schedule: str, code: str, words: str) -> None:
    gemm = replace(GEMM, schedule=schedule)
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(AMD)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and words in str(caught.value)
    line = next(i for i, text in enumerate(gemm.text.splitlines(), 1) if text.startswith("schedule"))
    assert diagnostic.where is not None and diagnostic.where.line == line  # pyright: ignore


@pytest.mark.parametrize(
    ("schedule", "marked"),
    [
        ("loops: {kloop: {stages: 2}}", "kloop"),
        ("loops: {k_loop: {nodes: {a_tile.lod: 0}}}", "a_tile.lod"),
        ("loops: {k_loop: {clusters: [[acc], [tile]]}}", "tile"),
    ],
)
def test_carets_are_at_the_name_that_is_unknown(schedule: str, marked: str) -> None:
    with pytest.raises(WavespecError) as caught:
        replace(GEMM, schedule=schedule).lowered(AMD)
    (diagnostic,) = caught.value.diagnostics
    span = diagnostic.span
    assert span is not None and span.source is not None
    assert span.source.lines[span.line - 1][span.column - 1 : span.end_column - 1] == marked


def test_the_dependence_that_is_broken_is_said_with_both_stages() -> None:
    with pytest.raises(WavespecError) as caught:
        scheduled("nodes: {a_tile: 1, acc: 0}").lowered(AMD)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:33:64: error[broken-dependence]: 'acc' comes before 'a_tile', on which it depends: it uses %a_tile.1.
    |
 33 | schedule: {stages: 1, loops: {k_loop: {nodes: {a_tile: 1, acc: 0}}}}
    |                                                                ^
    = note: They are in stages 0 and 1.
    = note: For gfx942.
    = hint: Give 'acc' a stage of at least 1."""
    )


def test_more_products_in_a_row_than_compilers_like_are_refused() -> None:
    big = replace(GEMM, tile=(128, 128, 128), wave=(64, 64))
    with pytest.raises(WavespecError) as caught:
        scheduled("unroll: 8", replace(big, mma="f32_16x16x16_f16", spaces=("shared", "global"))).lowered(AMD)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["schedule-too-long"]


def test_more_shared_memory_or_registers_than_there_are_is_refused() -> None:
    big = replace(GEMM, tile=(128, 128, 64), wave=(64, 64))
    for fields, code in [
        ("nodes: {a_tile.load: 0, b_tile.load: 0, acc: 4}, buffers: 4", "shared-memory-exceeded"),
        (
            "nodes: {a_tile.load: 0, b_tile.load: 0, a_tile.store: 16, b_tile.store: 16, acc: 16}",
            "schedule-takes-registers",
        ),
    ]:
        with pytest.raises(WavespecError) as caught:
            scheduled(fields, big).lowered(AMD)
        assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [code]
