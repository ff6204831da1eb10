"""`hardware: {vector: ...}`: lanes take the vectors that a spec asks for, or it is refused at its line."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


def spec(vector: str) -> KernelSpec:
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: twice
dims: {{M: {{}}, N: {{}}}}
params: {{V: 2}}
tensors:
  x: {{shape: [M, N], dtype: f32}}
  b: {{shape: [N], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 8, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
  - {{wave: M, tile: 4}}
  - {{hardware: {{vector: {vector}}}}}
graph:
  - part: {{read: x}}
  - bias: {{read: b}}
  - result: part * 2 + bias
  - {{write: result, to: y}}
""",
        "twice.wave.yaml",
    )


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize(
    ("vector", "elements"), [("{N: 4}", 4), ("{N: V}", 2), ("{M: 2, N: 2}", 4), ("{M: 4}", 4), ("{N: 1}", 1)]
)
def test_lanes_have_the_vectors_that_are_asked_for(machine: Machine, vector: str, elements: int) -> None:
    kernel = lower(spec(vector), machine, after="assign-layouts")
    layout = next(op.result.tile.layout for op in kernel.walk() if op.name == "read")
    # One lane that has all elements has vectors along the contiguous dim, too.
    along = 16 if machine.lanes == 1 and "N" not in vector else 1
    assert layout is not None and layout.fragment_elements == elements * along
    x, b = np.arange(7 * 70.0, dtype=np.float32).reshape(7, 70), np.arange(70.0, dtype=np.float32)
    report = simulate(lower(spec(vector), machine), machine, {"x": x, "b": b}, {"M": 7, "N": 70})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x * 2 + b)


def test_vectors_survive_text() -> None:
    assert loads(dump_yaml(spec("{M: 2, N: V}"))) == spec("{M: 2, N: V}")
    kernel = lower(spec("{N: 4}"), AMD, after="assign-layouts")
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    assert "split vector N 4 0" in print_kernel(kernel)
    builder = KernelBuilder("k")
    builder.hardware(vector={"N": 4})
    assert list(builder._constraints[0]["settings"]) == ["vector"]  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("vector", "code", "message"),
    [
        (
            "{N: 3}",
            "vector-not-possible",
            "Lanes cannot take vectors like this: a wave has 64 elements along 'N', in vectors of 3.",
        ),
        ("{Q: 4}", "undefined-name", "'Q' is not a dim."),
    ],
)
def test_what_does_not_fit_is_refused_at_its_line(vector: str, code: str, message: str) -> None:
    with pytest.raises(WavespecError) as caught:
        lower(spec(vector), AMD)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert (diagnostic.code, diagnostic.message, diagnostic.span.line) == (code, message, 14)
