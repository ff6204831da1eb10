"""Values made outputs: where they are defined, beside what the kernel computes."""

from __future__ import annotations

import pytest
import torch

from tests.lower.gemms import Gemm
from tests.ops.control import Product
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import compile
from wavespec.schema import loads
from wavespec.schema.debug import debug
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import reference


def test_a_value_of_the_graph_becomes_an_output() -> None:
    spec = debug(Gemm().spec, "k_loop.acc", "a_tile")
    assert list(spec.tensors) == ["a", "b", "c", "debug_k_loop_acc", "debug_a_tile"]
    assert spec.tensors["debug_a_tile"].shape == ("M", "K") and spec.tensors["debug_a_tile"].dtype == "f16"
    text = dump_yaml(spec)
    assert text.index("{write: debug_a_tile_value, to: debug_a_tile}") < text.index("acc: {mma")
    assert loads(text) == spec


def test_an_op_of_the_graph_says_where() -> None:
    text = Gemm().text.replace("        - acc: {mma", "        - {debug: b_tile}\n        - acc: {mma")
    plain = loads(text, "gemm.wave.yaml")
    assert loads(dump_yaml(plain)) == plain and list(debug(plain).tensors)[3:] == ["debug_b_tile"]
    assert debug(Gemm().spec) == Gemm().spec


def test_a_name_that_is_no_value_is_refused() -> None:
    with pytest.raises(WavespecError, match=r"'acd' is not a value of the graph(.|\n)*acc"):
        debug(Gemm().spec, "acd")


@pytest.mark.compiles
@pytest.mark.parametrize("loop", ["branch", "none"])
def test_what_is_shown_is_what_the_reference_has(loop: str) -> None:
    product = Product(loop=loop, space="global", tile=(32, 32, 32))
    spec = debug(product.spec, "a_tile", "k_loop.acc") if loop == "none" else debug(product.spec, "k_loop.acc")
    a, b = map(torch.tensor, product.operands((33, 20, 40)))
    for found, exact in zip(compile(spec)(a, b), reference(spec, a, b), strict=True):
        assert torch.equal(found.double(), exact)


STEPS = """\
apiVersion: wavespec/v1
kind: Kernel
name: steps
dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: f32}}
  n: {{shape: [M], dtype: i32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
graph:
  - start: {{read: x}}
  - flags: {{read: n}}
  - one: {{register: [], dtype: i32, value: 1}}
  - steps:
      repeat: {steps}
      carry: {{acc: start, number: one}}
      body:
        - half: acc * 0.5
        - {{debug: half}}
        - large: half > f32(flags)
        - twice:
            if: number > 2
            carry: {{other: half}}
            body:
              - inner: other + 1
              - other: inner
        - acc: twice.other
        - number: number + 1
  - {{write: steps.acc, to: y}}
"""


@pytest.mark.compiles
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_what_is_shown_of_a_repeat_is_that_of_its_last_step(steps: int) -> None:
    spec = debug(loads(STEPS.format(steps=steps), "steps.wave.yaml"), "large", "acc", "twice.other", "steps.acc")
    x, n = torch.arange(100).float(), torch.arange(100).int() % 7
    found = compile(spec)(x, n)
    for one, exact in zip(found, reference(spec, x, n), strict=True):
        assert torch.equal(one.double(), exact.double())
    halves = x * {0: 0, 1: 0.5, 4: 0.0625}[steps] + (0.5 if steps == 4 else 0)
    assert torch.equal(dict(zip([name for name in spec.tensors][2:], found, strict=True))["debug_half"], halves)


def test_what_is_made_inside_of_a_step_has_to_be_carried_out() -> None:
    with pytest.raises(WavespecError, match=r"steps\.wave\.yaml:\d+:.*\[not-carried-out\]: 'inner'.*'steps'"):
        debug(loads(STEPS.format(steps=2), "steps.wave.yaml"), "inner")
