"""What passes ask of kernels, operations and memories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ir.kernels import F16, STEP, K, M, N, thread_kernel, tile_kernel
from wavespec.diagnostics import Span
from wavespec.ir import nodes
from wavespec.ir.comparing import is_same
from wavespec.ir.expr import const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, TileType, VectorType, retype, rewrite
from wavespec.ir.thread_ops import BARRIER, BIND, MMA


def test_lookups() -> None:
    kernel = thread_kernel()
    assert kernel.memory("c").role == "output"
    assert kernel.symbol("K") is K
    assert kernel.symbol("wave_of_one") is const(0), "an identifier with one value needs no symbol"
    assert (kernel.wave_count, kernel.threads) == (2, 64)
    extra = symbol("extra", 0, 1)
    assert kernel.with_symbols(extra, K).symbols == (*kernel.symbols, extra)
    with pytest.raises(KeyError, match="no memory '@nothing'"):
        kernel.memory("nothing")


def test_memory_places() -> None:
    a = Memory("a", F16, ("M", "N", "K"), (M, N, K), "global", "input")
    m, n, k = (symbol(name, 0, 9) for name in "mnk")
    assert a.offset({"M": m, "N": n, "K": k}) is (m * N + n) * K + k
    assert a.elements is M * N * K
    assert a.contiguous_dim == "K"
    one = replace(a, dims=("M", "N", "K", "B", "C"), shape=(M, N, K, const(1), const(1)))
    assert (one.contiguous_dim, one.row_length) == ("K", K), "neighbours are along the last dim that has several"
    assert replace(a, dims=("B",), shape=(const(1),)).contiguous_dim == "B"
    staged = thread_kernel().memory("padded")
    assert staged.elements is const(8 * 8 - 3)
    assert staged.offset({"N": const(3), "K": const(4)}) is const(3 * 8 + 4)


def test_attributes() -> None:
    op = Op("load").with_(offset=STEP, buffer=0)
    assert op["offset"] is STEP and op.get("missing") is None
    assert [key for key, _ in op.attributes] == ["buffer", "offset"]
    with pytest.raises(KeyError, match="'load' has no attribute 'missing'"):
        _ = op["missing"]


def test_walk_rewrite_and_retype() -> None:
    kernel = thread_kernel()
    names = [op.name for op in kernel.walk()]
    assert names.count("barrier") == 4 and "load_matrix" in names
    without = rewrite(kernel.body, lambda op: () if op.name == "barrier" else (op,))
    assert "barrier" not in [op.name for op in replace(kernel, body=without).walk()]
    assert rewrite(kernel.body, lambda op: (op,)) == kernel.body
    loop = next(op for op in kernel.body if op.region)
    renewed = retype(loop, {loop.body.arguments[0].name: VectorType(F16, 9)})
    assert str(renewed.body.arguments[0].type) == "f16x9"
    assert next(op for op in renewed.walk() if op.name == "mma").operands[2].type == VectorType(F16, 9)


def test_rewriting_of_a_group_passes_by_all_others() -> None:
    kernel, seen = thread_kernel(), list[str]()

    def change(op: Op) -> tuple[Op, ...]:
        seen.append(op.name)
        return (op.with_(pending=1),)

    without = rewrite(kernel.body, change, BARRIER)
    assert seen == ["barrier"] * 4, "those in loops among them"
    assert [op.name for op in replace(kernel, body=without).walk()] == [op.name for op in kernel.walk()]
    loop = next(op for op in kernel.body if op.region)
    assert loop.contains(MMA)
    assert not loop.contains(BIND)
    assert not kernel.body[0].contains(MMA)


def test_a_node_with_other_fields_is_as_dataclasses_make_it() -> None:
    op = next(op for op in thread_kernel().body if op.region)
    assert nodes.replace(op, operands=(), node="x") == replace(op, operands=(), node="x")
    assert nodes.replace(op).span is op.span
    assert nodes.replace(op, attributes=()).symbols == frozenset(), "what is known of the one is not of the other"
    with pytest.raises(KeyError, match="unknown"):
        nodes.replace(op, unknown=1)


def test_tile_types() -> None:
    loop = next(op for op in tile_kernel().body if op.region)
    assert loop.result.tile.extent("N") == 64
    assert str(TileType((), (), F16)) == "tile<f16>"
    assert str(TileType(("M", "K"), (0, 32), F16)) == "tile<M, K: 32, f16>"
    with pytest.raises(AssertionError, match="not a vector"):
        _ = loop.result.vector


def test_rewriting_nothing_gives_back_the_same_operations() -> None:
    body = thread_kernel().body
    assert any(op.region for op in body)
    assert rewrite(body, lambda op: (op,)) is body
    loop = next(op for op in body if op.region)
    changed = rewrite(body, lambda op: (op.with_(unroll=7),) if op is loop else (op,))
    assert [old is new for old, new in zip(body, changed, strict=True)] == [op is not loop for op in body]
    assert rewrite(body, lambda op: (op,) if op is not body[-1] else ()) == body[:-1]


def test_kernels_are_the_same_when_they_agree_in_what_operations_say_of_the_spec() -> None:
    kernel = thread_kernel()
    (loop, number) = next((op, number) for number, op in enumerate(kernel.body) if op.region)

    def with_loop(made: Op) -> Kernel:
        return replace(kernel, body=(*kernel.body[:number], made, *kernel.body[number + 1 :]))

    def with_first(**changes: object) -> Kernel:
        first, *others = loop.body.ops
        return with_loop(replace(loop, region=replace(loop.body, ops=(replace(first, **changes), *others))))

    assert is_same(kernel, kernel) and is_same(kernel, replace(kernel))
    assert is_same(kernel, with_first()), "operations that were made anew, but say the same"
    assert with_first(node="other") == kernel and not is_same(kernel, with_first(node="other"))
    assert not is_same(kernel, with_first(span=Span("gemm.wave.yaml", 1, 1, 1, 2)))
    assert not is_same(kernel, replace(kernel, grid=(K,)))
    assert not is_same(kernel, replace(kernel, memories=kernel.memories[1:]))
    assert not is_same(kernel, replace(kernel, body=kernel.body[1:]))
    assert not is_same(kernel, with_loop(replace(loop, region=replace(loop.body, yields=()))))


def test_zeros_of_different_signs_are_not_the_same() -> None:
    zero = Op("constant", attributes=(("value", 0.0),))
    kernel = replace(thread_kernel(), body=(zero,))
    assert not is_same(kernel, replace(kernel, body=(zero.with_(value=-0.0),)))
