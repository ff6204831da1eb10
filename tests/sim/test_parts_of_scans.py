"""A loop that writes what running sums say of its elements, and carries what follows from these: its kernels of parts find
what one loop over the dim finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import tensor_to_array
from tests.sim.cases import lowered_case
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines


def spec_of(
    target: str, dtype: str = "f32", written: str = "- {write: result, to: y}", *, in_place: bool = False
) -> KernelSpec:
    role = ", role: inout" if in_place else ""
    y = f"  y: {{shape: [M, N], dtype: {dtype}, role: output}}\n" if "to: y" in written else ""
    written = written and f"        {written}\n"
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: nucleus
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}{role}}}
{y}  kept: {{shape: [M], dtype: i32, role: output}}
  total: {{shape: [M], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 2, axis: 0}}
  - {{tiling: N, tile: 64}}
  - {{wave: N, tile: 32}}
graph:
  - none: {{register: [M], dtype: {dtype}, value: 3}}
  - nobody: {{register: [M], dtype: i32, value: 5}}
  - rows:
      iterate: N
      carry: {{before: none, count: nobody}}
      body:
        - part: {{read: x}}
        - running: {{cumsum: part, dim: N, init: before}}
        - before: {{sum: part, dim: N, init: before}}
        - allowed: running - part < 20
        - result: where(allowed, running, 0)
        - ones: i32(allowed)
        - count: {{sum: ones, dim: N, init: count}}
{written}  - {{write: rows.count, to: kept}}
  - {{write: rows.before, to: total}}
targets:
  {target}:
    cases:
      - when: [M <= 100]
        schedule: {{parts: {{N: 4}}}}
""",
        "nucleus.wave.yaml",
    )


def found(target: str, spec: KernelSpec, x: torch.Tensor) -> dict[str, np.ndarray]:
    """The outputs of a call."""
    (case, *_), machine = cases_for_target(spec, target), machines(target)[0]
    assert len(case.kernels) == 3
    kernels, sizes = lowered_case(case, machine), {"M": x.shape[0], "N": x.shape[1]}
    given = {"x": tensor_to_array(x, spec.tensors["x"].dtype)}
    arrays, reports = simulate_before(case, kernels[:-1], machine, given, sizes, {})
    read = {name: array for name, array in arrays.items() if name in case.spec.tensors}
    report = simulate(kernels[-1], machine, read, complete_sizes(case.spec, sizes))
    assert all(one.ok for one in (*reports, report)), [one.render() for one in (*reports, report)]
    return {
        name: np.asarray({**arrays, **report.tensors}[name])
        for name, tensor in spec.tensors.items()
        if tensor.role != "input"
    }


@pytest.mark.parametrize("columns", [1, 64, 65, 300, 1000])
@pytest.mark.parametrize("target", ["cpu", "sm_90", "gfx942"])
def test_what_follows_from_running_sums_is_joined_behind_the_walk(target: str, columns: int) -> None:
    generator = torch.Generator().manual_seed(columns)
    x = torch.randint(-3, 5, (3, columns), generator=generator).float()
    spec = spec_of(target)
    for (name, one), right in zip(found(target, spec, x).items(), reference(spec, x), strict=True):
        np.testing.assert_array_equal(one, right.numpy(), name)


@pytest.mark.parametrize("written", ["", "- {write: result, to: y}"], ids=["nothing", "running"])
@pytest.mark.parametrize("dtype", ["i32", "f64"])
@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_of_other_types_and_where_the_loop_writes_nothing(target: str, dtype: str, written: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-3, 5, (2, 300), generator=generator).to({"i32": torch.int32, "f64": torch.float64}[dtype])
    spec = spec_of(target, dtype, written)
    for (name, one), right in zip(found(target, spec, x).items(), reference(spec, x), strict=True):
        np.testing.assert_array_equal(one, right.numpy(), name)


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_what_the_walk_changes_in_place_is_what_a_simulated_call_changes(target: str) -> None:
    spec = spec_of(target, written="- {write: result, to: x}", in_place=True)
    x = torch.randint(-3, 5, (3, 300), generator=torch.Generator().manual_seed(1)).float()
    assert [spec.tensors[name].role for name in spec.tensors] == ["inout", "output", "output"]
    changed, kept, total = reference(spec, x.clone())
    of_call = found(target, spec, x)
    for name, right in (("x", changed), ("kept", kept), ("total", total)):
        np.testing.assert_array_equal(of_call[name], right.numpy(), name)


def test_running_sums_err_by_a_rounding_or_two_however_many_steps() -> None:
    x = torch.rand((1, 3000), generator=torch.Generator().manual_seed(3)) / 3000
    spec = spec_of("sm_90")
    y, exact = found("sm_90", spec, x)["y"], 3 + x.double().cumsum(1).numpy()
    assert np.abs(y - exact).max() <= 1.5 * 2**-23
