"""Elementwise functions at the limits of f32: a kernel of some of them, the numbers, and what torch makes of these."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tests.ops.rests import RESTS, by_c
from wavespec.ops.elementwise import MEANINGS
from wavespec.schema import KernelSpec, loads
from wavespec.schema.ops import FUNCTIONS

LARGEST, LEAST, INF = 3.4028234663852886e38, 2.0**-126, float("inf")
_SIZES = (0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 16.0, 20.0, 87.0, 103.0, 128.0, 150.0, 2.0**24, 1e10, 1e30, LEAST, 1e-30)
NUMBERS = (float("nan"), *(sign * size for size in (*_SIZES, 1.7e38, LARGEST / 2, LARGEST, INF) for sign in (1, -1)))
"""Without those below the least with a leading digit, of which the language promises less."""
_TURNS = 2.0**50
"""Sines, cosines and tangents are of numbers up to here."""


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Every one of the numbers beside every one, as two matrices."""
    numbers = torch.tensor(NUMBERS)
    count = len(NUMBERS)
    return numbers[:, None].expand(count, count).contiguous(), numbers.expand(count, count).contiguous()


def kernel_of(words: Sequence[str]) -> KernelSpec:
    """``c_word[M, N]`` for every one of ``words`` applied to ``x[M, N]``, or to ``x`` and ``y``."""
    rows = [row for row in FUNCTIONS if row.word in words]
    tensors = "\n".join(
        f"  c_{row.word}: {{shape: [M, N], dtype: {'bool' if row.result == 'bool' else 'f32'}, role: output}}"
        for row in rows
    )
    graph = "\n".join(
        f"  - v_{row.word}: {{{row.word}: {'left' if row.operands == 1 else '[left, right]'}}}\n"
        f"  - {{write: v_{row.word}, to: c_{row.word}}}"
        for row in rows
    )
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: limits
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32}}
{tensors}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - left: {{read: x}}
  - right: {{read: y}}
{graph}
""",
        "limits.wave.yaml",
    )


def check_limits(word: str, result: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """Assert that a function of `pairs` is that of torch in f64: infinite and no number where it is, and else as near as
    f32 comes, but for results that count as 0."""
    expected = _by_torch(word, x, y)
    known = x.abs() < _TURNS if word in ("sin", "cos", "tan") else torch.ones_like(x, dtype=torch.bool)
    known |= ~x.isfinite()
    least = 2.0**-24 if word.startswith("gelu") else LEAST  # torch itself loses the digits of its tail against 1
    ulps, least = (2.0**-20, least) if result.is_floating_point() else (0.0, 0.0)
    close = torch.isclose(result[known], expected[known], rtol=ulps, atol=least, equal_nan=True)
    places = torch.stack([x, y], -1)[known][~close]
    assert not len(places), f"{word} is wrong at {len(places)} places, such as {places[:4]}"


def _by_torch(word: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if word in RESTS:
        return by_c(word, x, y)
    meaning = MEANINGS[word]
    function = meaning.reference
    if isinstance(function, str):
        module = torch.nn.functional if function.startswith("nn.") else torch
        function = getattr(module, function.split(".")[-1])
    operands = (x,) if next(row for row in FUNCTIONS if row.word == word).operands == 1 else (x, y)
    expected = function(*(one if meaning.of_type else one.double() for one in operands), **meaning.options)
    return expected if expected.dtype == torch.bool else expected.float()
