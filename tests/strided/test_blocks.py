"""Weights whose elements lie in blocks, said by a shape of blocks and a mapping: right, and read as widely as others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import COPY_ASYNC, LOAD
from wavespec.pipeline import compile, lower
from wavespec.schema import KernelSpec, load, loads
from wavespec.targets.machine import machines

TEXT = (Path(__file__).parents[1] / "specs" / "matmul_blocked.wave.yaml").read_text()
BLOCKS = "shape: [G, K / 32, R, C]"


def spec(shape: str, place: str, dims: str) -> KernelSpec:
    """The product with a weight of another shape, whose element ``[N, K]`` is at a place."""
    lines = [line for line in TEXT.splitlines() if not line.startswith("dims:")]
    text = "\n".join(lines).replace(BLOCKS, f"shape: {shape}").replace("params:", f"dims: {dims}\nparams:", 1)
    start = text.index("let: ")
    return loads(text.replace(text[start : text.index("\n", start)], f"let: {{block: {place}}}"))


def plain() -> KernelSpec:
    return spec("[N, K]", "{N: N}", "{M: {}, N: {}, K: {multiple_of: 32}}")


def _copies(kernel: Kernel) -> list[tuple[str, int]]:
    loads = [("load", op.result.vector.elements) for op in kernel.walk() if op.is_(LOAD) and op["memory"] == "w"]
    return loads + [("copy", op["elements"]) for op in kernel.walk() if op.is_(COPY_ASYNC) and op["source"] == "w"]


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
def test_blocks_are_copied_as_widely_as_rows(target: str) -> None:
    (machine,) = machines(target)
    blocked = load(Path(__file__).parents[1] / "specs" / "matmul_blocked.wave.yaml")
    copied = _copies(lower(blocked, machine))
    assert copied and copied == _copies(lower(plain(), machine))
    assert all(elements == 8 for _, elements in copied)


def _product(x: Tensor, w: Tensor) -> Tensor:
    return x.float() @ w.float().T


@pytest.mark.compiles
@pytest.mark.parametrize("size", [(37, 80, 96), (64, 16, 32), (1, 48, 160)])
def test_pairs_of_rows_as_dot_products_take_them(size: tuple[int, int, int]) -> None:
    """`[K / 2, N, 2]`, as VNNI instructions and many libraries have weights."""
    m, n, k = size
    pairs = spec(
        "[K / 2, N, P]",
        "{K / 2: K // 2, P: K % 2}",
        "{M: {}, N: {}, K: {multiple_of: 32}, P: {value: 2}}",
    )
    x, w = torch.randint(-4, 5, (m, k)).bfloat16(), torch.randint(-4, 5, (n, k)).bfloat16()
    packed = w.view(n, k // 2, 2).transpose(0, 1).contiguous()
    assert torch.equal(compile(pairs, "cpu")(x, packed), _product(x, w))


@pytest.mark.compiles
def test_blocks_of_a_padded_weight() -> None:
    """Blocks with room behind each row of them: a mapping, and strides that are written down."""
    text = TEXT.replace(BLOCKS, f"{BLOCKS}, strides: [ROW, 512, 32, 1]")
    kernel = compile(loads(text), "cpu")
    x, w = torch.randint(-4, 5, (21, 64)).bfloat16(), torch.randint(-4, 5, (48, 64)).bfloat16()
    blocks = w.view(3, 16, 2, 32).transpose(1, 2)
    whole = torch.zeros(3, 2 * 512 + 64).bfloat16()
    room = whole[:, : 2 * 512].view(3, 2, 16, 32).copy_(blocks)
    for _ in range(3):
        assert torch.equal(kernel(x, room), _product(x, w))
