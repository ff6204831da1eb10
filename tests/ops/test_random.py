"""Random numbers: those of the published algorithm, the same on every machine and however work is split."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.ops.philox import philox_reference
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


def spec(tile: tuple[int, int] = (4, 64), wave: int = 2, *, order: str = "M, N", dtype: str = "f32") -> KernelSpec:
    """Numbers for ``y[M, N]`` whose dims run in ``order``."""
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: numbers
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  seed: {{shape: [], dtype: i64}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: {tile[0]}, axis: 0}}
  - {{workgroup: N, tile: {tile[1]}, axis: 1}}
  - {{wave: M, tile: {wave}}}
graph:
  - part: {{read: x}}
  - key: {{read: seed}}
  - chance: {{random: key, dims: [{order}], dtype: {dtype}}}
  - result: part + chance
  - {{write: result, to: y}}
""",
        "numbers.wave.yaml",
    )


@pytest.mark.parametrize(("counter", "key", "words"), [(0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))])
def test_words_are_those_of_the_published_algorithm(counter: int, key: int, words: tuple[int, ...]) -> None:
    found = philox_reference(torch.tensor([counter]), torch.tensor(key))
    assert tuple(int(word) for word in found) == words


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize(
    ("tile", "wave", "order"),
    [((4, 64), 2, "M, N"), ((8, 128), 8, "M, N"), ((2, 1), 2, "M, N"), ((4, 64), 2, "N, M")],
    ids=["rows", "wide", "columns", "turned"],
)
def test_numbers_are_the_same_everywhere(
    machine: Machine, dtype: str, tile: tuple[int, int], wave: int, order: str
) -> None:
    made = spec(tile, wave, order=order, dtype=dtype)
    seed, shape = np.array(0x123456789ABCDEF), (7, 70)
    x = np.zeros(shape, np.float32 if dtype == "f32" else np.int32)
    report = simulate(lower(made, machine), machine, {"x": x, "seed": seed}, dict(zip("MN", shape, strict=True)))
    assert report.ok, report.render()
    expected = np.asarray(reference(made, torch.tensor(x), torch.tensor(seed), compute=None))
    np.testing.assert_array_equal(report.tensors["y"], expected)


def test_numbers_are_uniform_and_depend_on_the_seed() -> None:
    x = torch.zeros(512, 515)
    first, second = (reference(spec(), x, torch.tensor(seed)) for seed in (1, 2))
    assert first.min() >= 0 and first.max() < 1 and not torch.equal(first, second)
    assert abs(first.mean() - 0.5) < 0.002 and abs(first.var() - 1 / 12) < 0.002
    assert torch.histc(first, 64, 0, 1).div(first.numel() / 64).sub(1).abs().max() < 0.1
    assert first.flatten().unique().numel() > 0.99 * first.numel()
    assert abs(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]) < 0.01


def test_python_writes_the_same() -> None:
    k = KernelBuilder("k")
    m, n = k.dim("M"), k.dim("N")
    y = k.output("y", [m, n], "f32")
    k.input("x", [m, n], "f32")
    k.write(k.random("chance", 7, [m, n]), y)
    built = k.build()
    assert built.graph[0].model_dump()["dims"] == ("M", "N")


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("random: part, dims: [M, N]", "dims-mismatch", 22),
        ("random: number, dims: [M, N]", "dtype-mismatch", 22),
        ("random: 9223372036854775808, dims: [M]", "number-out-of-range", 22),
        ("random: key, dims: [M, Q]", "undefined-name", 37),
        ("random: key, dims: [M, M]", "dims-mismatch", 37),
    ],
)
def test_mistakes_are_shown_at_their_column(text: str, code: str, column: int) -> None:
    lines = dump_yaml(spec()).replace("random: key, dims: [M, N]", text)
    lines = lines.replace("  - chance", "  - number: f32(key)\n  - chance")
    with pytest.raises(WavespecError) as caught:
        loads(lines)
    found = next(one for one in caught.value.diagnostics if one.is_error)
    assert found.span is not None
    assert (found.code, found.span.column) == (code, column)
