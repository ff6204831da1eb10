"""Of the powers that products wait for, polynomials make some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import BITCAST, CONSTANT, ELEMENTWISE, FOR
from wavespec.lower.share_out_powers import ShareOutPowers
from wavespec.sim.elements import Array, elementwise, numpy_dtype

STEPS = Text("""
    thread kernel @steps target sm_90 lanes 128
    symbol lane in 0..127 by 1
    symbol at_N in 0..4032 by 128
    plan "auto" stages 1 group 0
    memory @q.shared : bf16 (M: [64], D: [64]) shared staged [M/1: 64 by 64, D/1: 64 by 1; swizzle D 8 x 8 by M//1]
    memory @k.shared : bf16 (N: [64], D: [64]) shared staged [N/1: 64 by 64, D/1: 64 by 1; swizzle D 8 x 8 by N//1]
    memory @y : f32 (N: [4096]) global output
""")
PRODUCT = (
    '%p{} = mma_async %p{} {{a_buffer = [0], a_major = "k", a_memory = "q.shared", a_offset = [0], b_buffer = [0], '
    'b_major = "k", b_memory = "k.shared", b_offset = [0], instruction = "wgmma_m64n64k16_bf16"}} : f32x32'
)


def steps(products: int, more: int = 0) -> Kernel:
    """A loop of that many products, 32 numbers of a lane that are capped and made powers, and ``more`` sums of each."""
    body = ["mma_fence", *(PRODUCT.format(n + 1, n) for n in range(products)), "mma_commit"]
    body += [f"%s = mma_wait %p{products} {{pending = 0}} : f32x32"]
    for n in range(8):
        body += [f"%x{n} = slice %s {{size = 4, start = {4 * n}}} : f32x4"]
        body += [f'%t{n}.0 = elementwise %x{n} {{function = "tanh"}} : f32x4']
        body += [f'%t{n}.{k + 1} = elementwise %t{n}.{k}, %x{n} {{function = "add"}} : f32x4' for k in range(more)]
        body += [f'%e{n} = elementwise %t{n}.{more} {{function = "exp2"}} : f32x4']
        body += [f'store %e{n} {{memory = "y", offset = [lane*32 + {4 * n}]}}']
    inside = "\n".join(f"  {line}" for line in (*body, "yield"))
    start = "%p0 = constant {value = 0.0} : f32x32"
    loop = 'for {induction = "at_N", lower = [0], step = [128], unroll = 1, upper = [4096]} () do'
    return STEPS.kernel(f"{start}\n{loop}\n{inside}\nend\n")


def powers(kernel: Kernel) -> int:
    return sum(op.is_(ELEMENTWISE) and op["function"] == "exp2" for op in kernel.walk())


def made(numbers: Array) -> Array:
    """Powers as the pass has the third ones made."""
    (loop,) = (op for op in ShareOutPowers()(steps(products=4), NVIDIA).body if op.is_(FOR))
    known = {"t2.0": numbers}
    for op in loop.body.ops:
        name = op.results[0].name if op.results else ""
        if op.is_(CONSTANT):
            known[name] = np.full_like(numbers, op["value"], numpy_dtype(op.result.vector.dtype))
        elif op.is_(BITCAST) and op.operands[0].name in known:
            known[name] = known[op.operands[0].name].view(numpy_dtype(op.result.vector.dtype))
        elif op.is_(ELEMENTWISE) and all(value.name in known for value in op.operands):
            with np.errstate(all="ignore"):
                known[name] = elementwise(op["function"], [known[value.name] for value in op.operands])
    return known["e2"]


def test_two_of_five_powers_are_polynomials_where_products_wait() -> None:
    kernel = steps(products=4)
    assert powers(kernel) == 8
    assert powers(ShareOutPowers()(kernel, NVIDIA)) == 5


@pytest.mark.parametrize(("products", "more"), [(12, 0), (4, 8)], ids=["the matrix unit takes as long", "no room"])
def test_all_stay_where_another_unit_has_as_much_to_do(products: int, more: int) -> None:
    kernel = steps(products, more)
    assert ShareOutPowers()(kernel, NVIDIA) is kernel


def test_machines_whose_units_are_not_known_keep_all() -> None:
    assert NVIDIA.resources is not None
    unknown = replace(NVIDIA, resources=replace(NVIDIA.resources, functions_per_clock=0))
    assert not any(ShareOutPowers().applies_to(machine) for machine in (CPU, unknown))


def test_a_polynomial_is_as_close_as_the_instruction() -> None:
    """Minus infinity, what is masked, has no weight at all; NaN stays what it is."""
    some = [-np.inf, np.nan, 128.0, np.inf, -127.0, -1000.0]
    exponents = np.concatenate([some, np.linspace(-125.9, 127.4, 9994)]).astype(np.float32)
    actual = made(exponents)
    assert actual[0] == 0 and np.isnan(actual[1]) and np.isinf(actual[2:4]).all() and (actual[4:6] == 0).all()
    expected = np.exp2(exponents[6:].astype(np.float64))
    assert np.abs(actual[6:] / expected - 1).max() < 2.0**-21
