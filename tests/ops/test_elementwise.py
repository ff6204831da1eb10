"""The functions of elementwise ops: near enough in their steps, and the same as torch's on whole tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.ops.epilogues import epilogue
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value, VectorType
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.elementwise import MEANINGS, Steps
from wavespec.schema.ops import FUNCTIONS
from wavespec.sim.elements import elementwise
from wavespec.sim.reference import reference

UNARY = [function.word for function in FUNCTIONS if function.operands == 1]
BINARY = [function.word for function in FUNCTIONS if function.operands == 2]
SPECIAL = (0.0, 1e30, -1e30, float("inf"), -float("inf"), float("nan"))


def run(ops: list[Op], values: dict[str, np.ndarray]) -> np.ndarray:
    """The steps, one after the other, in the arithmetic of f32; the last result."""
    for op in ops:
        if op.name == "constant":
            values[op.result.name] = np.asarray(op["value"], np.float32)
        else:
            values[op.result.name] = elementwise(op["function"], [values[value.name] for value in op.operands])
    return values[ops[-1].result.name]


def in_steps(word: str, *operands: torch.Tensor) -> torch.Tensor:
    count = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    names = [Value(f"x{number}", VectorType(DTYPES["f32"], 1)) for number in range(len(operands))]
    MEANINGS[word].steps(Steps(build, names[0], "y"), *names)
    values = {name.name: operand.numpy() for name, operand in zip(names, operands, strict=True)}
    return torch.tensor(run(build.ops, values))


def by_torch(word: str, *operands: torch.Tensor) -> torch.Tensor:
    function: Callable[..., torch.Tensor] = (
        torch.nn.functional.gelu if word.startswith("gelu") else getattr(torch, word, torch.nn.functional.silu)
    )
    return function(*operands, **MEANINGS[word].options)


@pytest.mark.parametrize("word", UNARY)
@pytest.mark.parametrize("limit", [0.01, 1.0, 4.0, 20.0])
def test_steps_err_at_most_twice_as_much_as_torch(word: str, limit: float) -> None:
    x = torch.linspace(-limit, limit, 100_001)
    exact = by_torch(word, x.double())
    allowed = max((by_torch(word, x).double() - exact).abs().max(), 2.0**-24 * exact.abs().max())
    assert (in_steps(word, x).double() - exact).abs().max() <= 2 * allowed


@pytest.mark.parametrize("word", UNARY)
def test_the_largest_numbers_have_the_limits_of_the_function(word: str) -> None:
    x = torch.tensor(SPECIAL)
    expected = by_torch(word, x.double()).float()
    if word == "gelu":
        expected[3:5] = torch.tensor([float("inf"), 0.0])  # where torch multiplies infinity by 0
    torch.testing.assert_close(in_steps(word, x), expected, equal_nan=True)


@pytest.mark.parametrize("word", BINARY)
def test_arithmetic_is_that_of_torch(word: str) -> None:
    x, y = torch.randn(2, 1000)
    x[:2], y[1:3] = float("nan"), float("nan")
    torch.testing.assert_close(in_steps(word, x, y), by_torch(word, x, y), rtol=0, atol=0, equal_nan=True)


def test_reference_matches_dims_by_name() -> None:
    spec = epilogue(
        "bias_tile: {read: bias}",
        "turned_tile: {read: turned}",
        "biased: {sub: [bias_tile, sums.acc]}",
        "y: {mul: [biased, turned_tile]}",
        tensors="bias: {shape: [N], dtype: f32}\n  turned: {shape: [N, M], dtype: f32}",
    )
    a, b, bias, turned = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5), torch.randn(5, 3)
    expected = (bias.double() - a.double() @ b.double().T) * turned.double().T
    torch.testing.assert_close(reference(spec, a, b, bias, turned), expected)


@pytest.mark.parametrize(("compute", "dtype"), [(None, torch.bfloat16), (torch.float64, torch.float64)])
def test_reference_rounds_only_where_it_computes_in_the_types_of_the_spec(
    compute: torch.dtype | None, dtype: torch.dtype
) -> None:
    spec = epilogue("y: {cast: sums.acc, dtype: bf16}", result="bf16")
    assert reference(spec, torch.randn(2, 3), torch.randn(4, 3), compute=compute).dtype == dtype


def test_reference_cuts_numbers_off_to_integers() -> None:
    spec = epilogue("y: {cast: sums.acc, dtype: i32}", result="i32")
    actual = reference(spec, torch.tensor([[1.7], [-1.7]]), torch.ones(1, 1))
    assert actual.dtype == torch.int32 and actual.flatten().tolist() == [1, -1]
