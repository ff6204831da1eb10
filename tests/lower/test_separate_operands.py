"""What is read for products is read for them alone, once for each way in which they want it."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.separate_operands import SeparateOperands

PRODUCTS = Text("""
    tile kernel @separate target sm_90 lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    plan "auto" stages 1 group 0
    memory @a : f16 (M: [M], K: [K]) global input
    memory @b : f16 (N: [N], K: [K]) global input
""")
OPERANDS = """
    %a = read {memory = "a"} : tile<M, K, f16>
    %b = read {memory = "b"} : tile<N, K, f16>
    %acc = register {value = 0.0} : tile<M, N, f32>
"""
MMA = '    %c = mma %a, %b, %acc {instruction = "mma_m16n8k16_f16", k = "K", m = "M", n = "N"} : tile<M, N, f32>\n'
OTHER = MMA.replace("%c", "%d").replace("mma_m16n8k16_f16", "fma_f32_32x64x4")


def test_what_is_used_otherwise_too_is_read_again() -> None:
    wide = "    %wide = cast %a : tile<M, K, f32>\n"
    expected = OPERANDS.replace("    %b =", '    %a.1 = read {direct = true, memory = "a"} : tile<M, K, f16>\n    %b =')
    assert PRODUCTS.after(SeparateOperands(), NVIDIA, OPERANDS + MMA + wide) == lines(
        expected + MMA + wide.replace("cast %a ", "cast %a.1 ")
    )


def test_products_of_different_instructions_have_a_read_each() -> None:
    found = PRODUCTS.after(SeparateOperands(), NVIDIA, OPERANDS + MMA + OTHER)
    assert found.count(" = read ") == 4 and "direct" not in found
    assert "%c = mma %a, %b, %acc " in found and "%d = mma %a.1, %b.1, %acc " in found


def test_products_that_want_the_same_share_a_read() -> None:
    kernel = PRODUCTS.kernel(OPERANDS + MMA + MMA.replace("%c", "%d"))
    assert SeparateOperands()(kernel, NVIDIA) is kernel


def test_what_is_used_by_no_product_stays() -> None:
    kernel = PRODUCTS.kernel(OPERANDS + "    %wide = cast %a : tile<M, K, f32>\n    %more = cast %a : tile<M, K, f32>")
    assert SeparateOperands()(kernel, NVIDIA) is kernel


def test_what_is_added_to_a_product_of_the_same_staged_tensor_is_read_where_it_is() -> None:
    copied = PRODUCTS.changed(("global input", "global input staged"))
    staged = copied.changed(("stages 1 group 0", "stages 2 group 0 roles 1 together 0 0"))
    again = '    %same = read {memory = "a"} : tile<M, K, f16>\n    %wide = cast %same : tile<M, K, f32>\n'
    found = staged.after(SeparateOperands(), NVIDIA, OPERANDS + MMA + again)
    assert "%same = read {" in found
    assert [line.split()[0] for line in found.splitlines() if "direct = true" in line] == ["%same"]
    small = copied.changed(("plan", "split workgroup M 64 0\n    split loop K 64 0\n    plan"))
    assert "direct" not in small.after(SeparateOperands(), NVIDIA, OPERANDS + MMA + again), "all waves copy 8 KiB"
    assert "direct" in copied.after(SeparateOperands(), NVIDIA, OPERANDS + MMA + again), "nothing says how much it is"
