"""Every rule of the verifier, broken on purpose in a kernel that is otherwise sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.ir.kernels import F16, F32, STEP, thread_kernel, tile_kernel
from wavespec.diagnostics import Span
from wavespec.ir.expr import symbol
from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, VectorType, rewrite
from wavespec.ir.verifier import VerificationError, verify

LOST = symbol("lost", 0, 3)


def changed(kernel: Kernel, name: str, change: Callable[[Op], Op]) -> Kernel:
    """The kernel with the first operation called ``name`` changed."""
    done: list[Op] = []

    def apply(op: Op) -> tuple[Op, ...]:
        if op.name == name and not done:
            done.append(op)
            return (change(op),)
        return (op,)

    kernel = replace(kernel, body=rewrite(kernel.body, apply))
    assert done
    return kernel


def appended(kernel: Kernel, *ops: Op) -> Kernel:
    return replace(kernel, body=(*kernel.body, *ops))


def set_region(op: Op, **parts: object) -> Op:
    return replace(op, region=replace(op.body, **parts))


TILE, THREAD = tile_kernel(), thread_kernel()
EXTRA = Value("extra", VectorType(F32, 4))
WRONG = VectorType(F32, 2)


def inner_value(kernel: Kernel) -> Value:
    loop = next(op for op in kernel.walk() if op.region)
    return next(op for op in loop.body.ops if op.results).result


def constant(value: Value) -> Op:
    return Op("constant", (), (value,), (("value", 0),))


def renamed_attribute(op: Op, old: str, new: str) -> Op:
    return replace(op, attributes=tuple((new if key == old else key, value) for key, value in op.attributes))


BROKEN: dict[str, tuple[Kernel, str]] = {
    "misspelt operation": (
        changed(TILE, "read", lambda op: replace(op, name="raed")),
        "operation 'raed': there is no such operation at tile level",
    ),
    "operation of the other level": (
        appended(THREAD, Op("register", (), (EXTRA,), (("value", 0),))),
        "there is no such operation at thread level",
    ),
    "misspelt attribute": (
        changed(TILE, "read", lambda op: renamed_attribute(op, "memory", "memroy")),
        "it has no attribute 'memroy'",
    ),
    "missing attribute": (
        changed(THREAD, "store", lambda op: replace(op, attributes=op.attributes[1:])),
        "it lacks 'buffer'",
    ),
    "attribute of another kind": (
        changed(THREAD, "store", lambda op: op.with_(offset=4)),
        "its 'offset' is 4, not an index expression",
    ),
    "product with one operand": (
        changed(TILE, "mma", lambda op: replace(op, operands=op.operands[:1])),
        "it has 1 operands, not 3 to 5",
    ),
    "result of a store": (
        changed(THREAD, "store", lambda op: replace(op, results=(EXTRA,))),
        "it has 1 results, not 0",
    ),
    "loop without a body": (
        changed(THREAD, "for", lambda op: replace(op, region=None)),
        "it has no region",
    ),
    "used before defined": (
        appended(THREAD, Op("cast", (EXTRA,), (Value("y", VectorType(F16, 4)),))),
        "%extra is used before it is defined",
    ),
    "result used by itself": (
        appended(THREAD, Op("cast", (EXTRA,), (EXTRA,))),
        "%extra is used before it is defined",
    ),
    "defined twice": (
        appended(THREAD, constant(EXTRA), constant(EXTRA)),
        "%extra is defined twice",
    ),
    "defined twice in a region": (
        changed(THREAD, "for", lambda op: set_region(op, ops=(constant(op.operands[0]), *op.body.ops))),
        "is defined twice",
    ),
    "region value used outside": (
        appended(THREAD, Op("store", (inner_value(THREAD),))),
        "is used before it is defined",
    ),
    "another type at the use": (
        changed(THREAD, "cast", lambda op: replace(op, operands=(replace(op.operands[0], type=WRONG),))),
        "is used as f32x2 but is f32x7",
    ),
    "vector at tile level": (
        appended(TILE, Op("register", (), (EXTRA,), (("value", 0),))),
        "%extra is f32x4 in a kernel at tile level",
    ),
    "tile at thread level": (
        appended(THREAD, constant(Value("t", TileType(("M",), (4,), F32)))),
        "%t is tile<M: 4, f32> in a kernel at thread level",
    ),
    "unknown memory": (
        changed(THREAD, "store", lambda op: op.with_(memory="d")),
        "memory '@d' does not exist",
    ),
    "unknown source of a copy": (
        changed(THREAD, "copy_async", lambda op: op.with_(source="d")),
        "memory '@d' does not exist",
    ),
    "unknown symbol": (
        changed(THREAD, "store", lambda op: op.with_(offset=LOST * 2)),
        "symbol 'lost' is not declared",
    ),
    "unknown symbol in a mask": (
        changed(THREAD, "store", lambda op: op.with_(mask=((STEP, LOST + 1),))),
        "symbol 'lost' is not declared",
    ),
    "yields another type": (
        changed(
            THREAD,
            "for",
            lambda op: set_region(op, ops=(*op.body.ops, constant(Value("y", WRONG))), yields=(Value("y", WRONG),)),
        ),
        "its yields are ['f32x2'], its operands ['f32x4']",
    ),
    "yields nothing": (
        changed(THREAD, "for", lambda op: set_region(op, yields=())),
        "its yields are [], its operands ['f32x4']",
    ),
    "takes nothing": (
        changed(THREAD, "for", lambda op: replace(op, region=Region((), (), op.operands))),
        "its arguments are [], its operands ['f32x4']",
    ),
    "returns nothing": (
        changed(THREAD, "for", lambda op: replace(op, results=())),
        "its results are [], its operands ['f32x4']",
    ),
    "yields an unknown value": (
        changed(THREAD, "for", lambda op: set_region(op, yields=(EXTRA,))),
        "%extra is used before it is defined",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(case: str) -> None:
    kernel, message = BROKEN[case]
    with pytest.raises(VerificationError) as caught:
        verify(kernel)
    assert message in str(caught.value)
    assert str(caught.value).startswith("kernel 'gemm_1', operation '")


def test_sound_kernels_pass() -> None:
    verify(TILE)
    verify(THREAD)


def test_the_message_has_the_place_in_the_spec() -> None:
    broken = changed(THREAD, "store", lambda op: replace(op.with_(memory="d"), span=Span("gemm.yaml", 12, 5, 12, 9)))
    with pytest.raises(VerificationError, match=r"operation 'store' \(gemm.yaml:12:5\)"):
        verify(broken)
