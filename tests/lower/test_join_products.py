"""Products that add to each other's sums are in flight together; the last wait has what they read."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.join_products import JoinProducts

HEAD = Text(
    """
    thread kernel @products target sm_90 lanes 128
    symbol lane in 0..127 by 1
    plan "auto" stages 1 group 1
    grid [1]
    memory @b : f32 (N: [8], K: [32]) shared [N/1: 8 by 32, K/1: 32 by 1; swizzle K 4 x 8 by N//1]
    memory @low : f32 (N: [8], K: [32]) shared [N/1: 8 by 32, K/1: 32 by 1; swizzle K 4 x 8 by N//1]
    memory @c : f32 (M: [512]) shared [M/1: 512 by 1]
    """
)


def product(result: str, factor: str, total: str, memory: str) -> str:
    return f"""
    mma_fence
    %{result}.flying = mma_async %{factor}, %{total} {{b_buffer = [0], b_major = "k", b_memory = "{memory}",
      b_offset = [0], instruction = "wgmma_m64n8k8_tf32"}} : f32x4
    mma_commit
    %{result} = mma_wait %{result}.flying {{pending = 0}} : f32x4"""


START = """
    %zero = constant {value = 0.0} : f32x4
    %left = load {memory = "b", offset = [lane % 32 * 4]} : f32x4
    %other = load {memory = "b", offset = [lane % 32 * 4 + 128]} : f32x4"""
END = """
    store %all {memory = "c", offset = [lane * 4]}"""


def joined(body: str) -> list[str]:
    made = HEAD.after(JoinProducts(), NVIDIA, body).strip()
    return [line.split("{")[0].strip() for line in made.splitlines()]


def test_one_wait_for_both_has_the_factors_as_well() -> None:
    found = joined(START + product("half", "left", "zero", "b") + product("all", "other", "half", "low") + END)
    assert found == [
        "%zero = constant",
        "%left = load",
        "mma_fence",
        "%half.flying = mma_async %left, %zero",
        "mma_commit",
        "%other = load",
        "mma_fence",
        "%all.flying = mma_async %other, %half.flying",
        "mma_commit",
        "%all, %left.1 = mma_wait %all.flying, %left",
        "store %all",
    ]


def test_parts_of_one_factor_are_one_group() -> None:
    """They read the same memory, so that nothing is gained by issuing one before the other is made."""
    made = '\n    %both = elementwise %other, %left {function = "sub"} : f32x4'
    found = joined(START + product("half", "left", "zero", "b") + made + product("all", "both", "half", "b") + END)
    assert found[3:] == [
        "%both = elementwise %other, %left",
        "mma_fence",
        "%half.flying = mma_async %left, %zero",
        "%all.flying = mma_async %both, %half.flying",
        "mma_commit",
        "%all = mma_wait %all.flying",
        "store %all",
    ]


def test_a_wait_stays_where_what_the_product_reads_is_written() -> None:
    store = '\n    store %other {memory = "b", offset = [lane % 32 * 4]}'
    found = joined(START + product("half", "left", "zero", "b") + store + product("all", "other", "half", "b") + END)
    assert [line for line in found if "wait" in line] == [
        "%half = mma_wait %half.flying",
        "%all = mma_wait %all.flying",
    ]


def test_what_the_product_does_not_read_may_be_written_beside_it() -> None:
    store = '\n    store %other {memory = "low", offset = [lane % 32 * 4]}'
    found = joined(START + product("half", "left", "zero", "b") + store + product("all", "other", "half", "low") + END)
    assert sum("wait" in line for line in found) == 1


def test_sums_that_something_else_uses_are_waited_for() -> None:
    store = '\n    store %half {memory = "c", offset = [lane * 4]}'
    found = joined(START + product("half", "left", "zero", "b") + product("all", "other", "half", "b") + store + END)
    assert sum("wait" in line for line in found) == 2


def test_products_that_have_nothing_in_common_are_one_group() -> None:
    stores = END + '\n    store %half {memory = "c", offset = [lane * 4]}'
    found = joined(START + product("half", "left", "zero", "b") + product("all", "other", "zero", "low") + stores)
    assert found[3:] == [
        "mma_fence",
        "%half.flying = mma_async %left, %zero",
        "%all.flying = mma_async %other, %zero",
        "mma_commit",
        "%half, %all, %left.1 = mma_wait %half.flying, %all.flying, %left",
        "store %all",
        "store %half",
    ]


def test_sums_that_something_uses_before_the_next_product_are_waited_for() -> None:
    stores = END + '\n    store %half {memory = "c", offset = [lane * 4]}'
    between = '\n    store %half {memory = "low", offset = [lane * 4]}'
    found = joined(
        START + product("half", "left", "zero", "b") + between + product("all", "other", "zero", "b") + stores
    )
    assert sum("wait" in line for line in found) == 2
