"""Hand-built kernels that use every form the textual IR has."""

from __future__ import annotations

from itertools import count

from wavespec.diagnostics import Span
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const, maximum, minimum, symbol
from wavespec.ir.kernel import (
    Distribution,
    Kernel,
    Memory,
    Op,
    Region,
    Split,
    TileType,
    Value,
    attribute_pairs,
)
from wavespec.ir.layout import Arrangement, Layout, RegisterAxis, Swizzle, panels, row_major
from wavespec.ir.thread import ThreadBuilder

F16, F32, I32, BOOL = (DTYPES[name] for name in ("f16", "f32", "i32", "bool"))
M, N, K = symbol("M", 1, None), symbol("N", 1, None), symbol("K", 8, 65536, 8)
SHIFT, ANY = symbol("shift", -8, 7), symbol("any", None, None)
LANE, WAVE, GROUP, STEP = (
    symbol("lane", 0, 63),
    symbol("wave_m", 0, 1),
    symbol("group_m", 0, None),
    symbol("step", 0, None, 64),
)

FRAGMENT = Layout(
    (("M", GROUP * 64 + WAVE * 32 + LANE // 16 * 4), ("N", LANE % 16)),
    (RegisterAxis(2, (("M", 16),)), RegisterAxis(4, (("M", 1),))),
    1,
)


def tile_kernel() -> Kernel:
    """A GEMM and a scalar: tiles with and without extents and layouts, a loop."""
    whole, tiled = TileType(("M", "K"), (0, 0), F16), TileType(("M", "K"), (64, 32), F16)
    acc_type = TileType(("M", "N"), (64, 64), F32, FRAGMENT)
    a, b = Value("a_tile", whole), Value("b_tile.1", tiled)
    zero, carried, product, result = (Value(name, acc_type) for name in ("zero", "acc", "acc.1", "k_loop"))
    scalar, predicate = Value("scale", TileType((), (), F32)), Value("p", TileType(("M",), (64,), BOOL))
    body = (
        Op(
            "read",
            (),
            (a,),
            attribute_pairs({"memory": "a", "origin": (("M", GROUP * 64), ("K", STEP + LANE % 4))}),
        ),
        Op("read", (), (b,), attribute_pairs({"memory": "b", "origin": ()})),
        Op(
            "mma",
            (a, b, carried),
            (product,),
            attribute_pairs({"instruction": "f32_16x16x16_f16"}),
        ),
    )
    ops = (
        Op("register", (), (zero,), attribute_pairs({"value": 0.0})),
        Op("register", (), (scalar,), attribute_pairs({"value": 1})),
        Op(
            "iterate",
            (zero,),
            (result,),
            attribute_pairs({"dim": "K"}),
            Region((carried,), body, (product,)),
            Span("s", 1, 2, 1, 5),
        ),
        Op("elementwise", (result, zero), (predicate,), attribute_pairs({"function": "lt"})),
        Op("write", (result,), (), attribute_pairs({"memory": "c"})),
    )
    memories = (
        Memory("a", F16, ("M", "K"), (M, K), "global", "input", staged=True),
        Memory("b", F16, ("N", "K"), (N, K), "global", "input"),
        Memory("c", F32, ("M", "N"), (M, N + SHIFT * 2), "global", "output"),
        Memory("scalar", F32, (), (), "global", "input"),
    )
    plan = Distribution(
        (Split("M", 128, 0), Split("N", 64, 1)),
        (Split("K", 32),),
        (Split("M", 64),),
        "f32_16x16x16_f16",
        3,
        8,
    )
    return Kernel("gemm_1", "tile", "gfx942", (M, N, K, SHIFT, ANY, LANE, WAVE, GROUP, STEP), memories, ops, plan)


EVERY = {
    "integer": -3,
    "zero": 0,
    "true": True,
    "false": False,
    "nothing": None,
    "half": 0.5,
    "tiny": -1.5e-07,
    "huge": 1e22,
    "infinite": float("-inf"),
    "positive": float("inf"),
    "text": 'say "no" \\ twice\\',
    "empty": "",
    "dtype": F16,
    "expression": minimum(M - 64 * GROUP, 64) % 7,
    "constant": const(-5),
    "layout": FRAGMENT,
    "nested": ((1, ("x",)), (), (None,)),
    "extremes": maximum(SHIFT ^ LANE, ANY // 3) * M % K,
}
"""Attributes of every kind there is."""


def thread_kernel() -> Kernel:
    """One use of every thread-level operation, with shared memories in every arrangement."""
    numbers = count()
    build = ThreadBuilder(lambda hint: f"{hint}_{next(numbers)}")
    build.barrier()
    start = build.constant(0.0, F32, 4)
    least = build.constant(float("-inf"), F32, 1)
    build.copy_async("a", GROUP * 64 + LANE, "staged_a", LANE * 8, 8, mask=((GROUP, M), (LANE, K)), valid=M - GROUP)
    build.add("async_commit", (), ())
    build.add("async_wait", (), (), pending=1)
    build.barrier()
    loop = build.nested()
    acc = loop.value("acc", F32, 4)
    left = loop.load_matrix("staged_a", F16, 4, LANE % 16 * 64 + STEP, buffer=STEP // 64 % 2)
    right = loop.load("staged_b", F16, 8, LANE * 8, mask=((STEP, K),), valid=const(3))
    swapped = loop.transpose(loop.slice(right, 0, 4), 2, 2)
    updated = loop.mma("mma_m16n8k16_f16", left, swapped, acc)
    loop.barrier()
    (result,) = build.loop("step", 0, K, 64, (start,), (acc,), tuple(loop.ops), (updated,), unroll=2)
    (twice,) = build.loop("step", 0, 1, 1, (result,), (inner := build.value("inner", F32, 4),), (), (inner,))
    narrow = build.cast(build.pack([twice, build.slice(result, 1, 2), least]), F16)
    build.store(narrow, "c", GROUP * 64 + LANE, mask=((LANE, N),))
    build.barrier()
    memories = (
        Memory("a", F16, ("M", "K"), (M, K), "global", "input"),
        Memory("c", F32, ("M", "N"), (M, N), "global", "output"),
        Memory(
            "staged_a",
            F16,
            ("M", "K"),
            (const(64), const(64)),
            "shared",
            None,
            Arrangement(row_major(("M", "K"), (64, 64)).digits, Swizzle("M", "K", 8, 8, 1, 2, 4)),
            2,
            True,
        ),
        Memory("staged_b", F16, ("N", "K"), (const(96), const(64)), "shared", None, panels("N", 96, 32, "K", 64, 2)),
        Memory("padded", I32, ("N", "K"), (const(8), const(5)), "shared", None, row_major(("N", "K"), (8, 5), 3)),
        Memory("scratch", F32, ("N",), (const(256),), "private"),
    )
    return Kernel(
        "gemm_1",
        "thread",
        "sm_90",
        (M, N, K, LANE, WAVE, GROUP, STEP),
        memories,
        tuple(build.ops),
        Distribution(),
        ((M + 63) // 64, N // 8 + 1),
        (("wave_m", 2), ("wave_n", 1)),
        32,
    )
