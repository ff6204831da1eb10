"""What steps of a recurrence, and of scans, read at their own number is loaded steps before: right in the simulator, with
fewer steps than are ahead, and none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emit.test_hopper import NVIDIA
from tests.kernels import tensor_to_array
from wavespec.ir.kernel import Op
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: recurrence
dims: {B: {}, T: {}, D: {}}
tensors:
  x: {shape: [B, T, D], dtype: bf16}
  fade: {shape: [B, T], dtype: f32}
  y: {shape: [B, T, D], dtype: f32, role: output}
constraints:
  - {workgroup: D, tile: 64, axis: 0}
  - {workgroup: B, tile: 1, axis: 1}
graph:
  - none: {register: [B, D], dtype: f32, value: 0}
  - run:
      repeat: size(T)
      index: t
      carry: {h: none}
      body:
        - x_t: {read: x, dims: [B, D], at: {T: t}}
        - fade_t: {read: fade, dims: [B], at: {T: t}}
        - h: h * fade_t + f32(x_t)
        - {write: h, to: y, at: {T: t}}
schedule: {stages: STAGES}
"""


def spec_of(stages: int) -> KernelSpec:
    return loads(SPEC.replace("STAGES", str(stages)))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_results_are_those_of_loads_in_their_own_step(stages: int, steps: int) -> None:
    spec, generator = spec_of(stages), torch.Generator().manual_seed(steps)
    x = torch.randint(-3, 4, (2, steps, 70), generator=generator).bfloat16()
    fade = torch.randint(-1, 2, (2, steps), generator=generator).float()
    given = {name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in (("x", x), ("fade", fade))}
    report = simulate(lower(spec, NVIDIA), NVIDIA, given, complete_sizes(spec, {"B": 2, "T": steps, "D": 70}))
    assert report.ok, report.render()
    np.testing.assert_array_equal(np.asarray(report.tensors["y"]), reference(spec, x, fade).numpy())


def test_a_loop_carries_what_its_later_steps_take() -> None:
    def carried(stages: int) -> int:
        loop: Op = next(op for op in lower(spec_of(stages), NVIDIA).body if op.name == "for")
        return len(loop.operands)

    alone, loads = carried(1), carried(2) - carried(1)
    assert loads > 0 and [carried(stages) for stages in (3, 4)] == [alone + 2 * loads, alone + 3 * loads]
