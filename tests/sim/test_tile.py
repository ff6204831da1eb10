"""A whole kernel, a double-buffered 128x128 product on 8 waves of `mma.sync`, and broken forms of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.simulated_kernels import NVIDIA, built, kernel, numbers, shared, tensor
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread import ThreadBuilder
from wavespec.sim.simt import simulate

F16, F32 = DTYPES["f16"], DTYPES["f32"]
ROW = 40
"""Halves from one row of a staged 128 x 32 tile to the next: 8 of padding."""


def gemm() -> Kernel:
    memories = [
        tensor("A", "input", 128, 128, dtype="f16"),
        tensor("B", "input", 128, 128, dtype="f16"),
        tensor("C", "output", 128, 128),
        shared("SA", 128, 32, dtype="f16", padding=ROW - 32, buffers=2),
        shared("SB", 128, 32, dtype="f16", padding=ROW - 32, buffers=2),
    ]
    header = kernel(NVIDIA, memories, waves=8, symbols="symbol t in 0..3 by 1")
    lane, wave, step = header.symbol("lane"), header.symbol("wave"), header.symbol("t")
    row, column = wave // 4 * 64, wave % 4 * 32

    def stage(build: ThreadBuilder, tile: Expr) -> None:
        for part in range(2):
            chunk = wave * 32 + lane + 256 * part
            for source, memory in (("A", "SA"), ("B", "SB")):
                place = chunk // 4 * ROW + chunk % 4 * 8
                begin = chunk // 4 * 128 + tile * 32 + chunk % 4 * 8
                build.copy_async(source, begin, memory, place, 8, buffer=tile % 2, mask=((tile, const(4)),))
        build.add("async_commit", (), ())

    def fill(build: ThreadBuilder) -> None:
        stage(build, const(0))
        zeros = tuple(build.constant(0.0, F32, 4) for _ in range(16))
        body = build.nested()
        arguments = tuple(body.value("acc", F32, 4) for _ in zeros)
        body.add("async_wait", (), (), pending=0)
        body.barrier()
        stage(body, step + 1)
        acc = list(arguments)
        for depth in (0, 16):
            left = [
                body.load_matrix(
                    "SA", F16, 4, (row + i * 16 + lane % 16) * ROW + depth + lane // 16 * 8, buffer=step % 2
                )
                for i in range(4)
            ]
            right = [
                body.load_matrix(
                    "SB",
                    F16,
                    2,
                    (column + j * 8 + lane % 8) * ROW + depth + lane // 8 % 2 * 8,
                    buffer=step % 2,
                )
                for j in range(4)
            ]
            for i in range(16):
                acc[i] = body.mma("mma_m16n8k16_f16", left[i // 4], right[i % 4], acc[i])
        results = build.loop("t", 0, 4, 1, zeros, arguments, tuple(body.ops), tuple(acc))
        build.add("async_wait", (), (), pending=0)
        for i, result in enumerate(results):
            for half in range(2):
                place = (row + i // 4 * 16 + lane // 4 + 8 * half) * 128 + column + i % 4 * 8 + lane % 4 * 2
                build.store(build.slice(result, 2 * half, 2), "C", place)

    return built(header, fill)


TENSORS = {"A": numbers(128, 128, dtype=np.float16, seed=1), "B": numbers(128, 128, dtype=np.float16, seed=2)}


def test_double_buffered_product_equals_numpy() -> None:
    report = simulate(gemm(), NVIDIA, TENSORS, {})
    assert report.ok and not report.findings, report.render()
    expected = TENSORS["A"].astype(np.float32) @ TENSORS["B"].astype(np.float32).T
    np.testing.assert_array_equal(report.tensors["C"], expected)
    assert report.counts["mma"] == 8 * 4 * 2 * 16 and report.counts["barrier"] == 4
    assert report.counts["global load bytes"] == 2 * 128 * 128 * 2
    assert report.bank_conflicts["load_matrix @SA"] == 1.0


def without_barrier(op: Op) -> tuple[Op, ...]:
    return () if op.name == "barrier" else (op,)


def without_wait(op: Op) -> tuple[Op, ...]:
    return () if op.name == "async_wait" else (op,)


def barrier_before_wait(op: Op) -> tuple[Op, ...]:
    return {"barrier": (), "async_wait": (Op("barrier"), op)}.get(op.name, (op,))


def one_buffer(op: Op) -> tuple[Op, ...]:
    return (op.with_(buffer=const(0)),) if op.get("buffer") is not None and "memory" in dict(op.attributes) else (op,)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (without_barrier, {"race"}),
        (without_wait, {"unwaited-copy"}),
        (barrier_before_wait, {"race"}),
        (one_buffer, {"unwaited-copy"}),
    ],
)
def test_broken_synchronisation_is_found(change, kinds: set[str]) -> None:
    broken = gemm()
    report = simulate(replace(broken, body=rewrite(broken.body, change)), NVIDIA, TENSORS, {})
    assert kinds <= report.kinds() and not report.ok, report.render()
