"""A family whose members change an argument in place: its function, its operator, and calls that are refused."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.generate import family_files, write_files
from wavespec.runtime import ArgumentError
from wavespec.schema.families.load_family import loads_family

SCATTERED = """\
apiVersion: wavespec/v1
kind: Family
name: scattered
doc: "Y[index[M], N] is added X[M, N] to, or is the larger of both; total[M] = 2 index[M]."
parameters: {DTYPE: [f32, i32], HOW: [add, max]}
pick: {DTYPE: dtype(y), HOW: keyword(how)}
template: |
  dims: {M: {}, N: {}, R: {}}
  tensors:
    y: {shape: [R, N], dtype: {{ DTYPE }}, role: inout}
    row: {shape: [M], dtype: i64}
    x: {shape: [M, N], dtype: {{ DTYPE }}}
    total: {shape: [M], dtype: i64, role: output}
  constraints:
    - {workgroup: M, tile: 4, axis: 0}
    - {workgroup: N, tile: 64, axis: 1}
  graph:
    - at: {read: row}
    - part: {read: x}
    - {write: part, to: y, at: {R: at}, combine: {{ HOW }}}
    - twice: at * 2
    - {write: twice, to: total}
"""


@pytest.fixture(scope="module")
def module(one_variant: None, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder, family = tmp_path_factory.mktemp("scattered"), loads_family(SCATTERED, "scattered.wave.yaml")
    name = "specs/scattered.wave.yaml"
    files = family_files(family, ["cpu"], name, command="wavespec build", cache=CompileCache(folder / "cache"))
    write_files(files, folder)
    return import_wrapper(folder / "scattered.py")


def arguments(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ones(3, 70, dtype=dtype), torch.tensor([2, 0, 2, 2]), torch.arange(280).reshape(4, 70).to(dtype)


def expected(how: str, y: Tensor, row: Tensor, x: Tensor) -> Tensor:
    return y.scatter_reduce(0, row[:, None].expand_as(x), x, {"add": "sum", "max": "amax"}[how])


@pytest.mark.parametrize("how", ["add", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_the_argument_is_changed_and_returned(module: ModuleType, how: str, dtype: torch.dtype) -> None:
    y, row, x = arguments(dtype)
    right = expected(how, y, row, x)
    changed, total = module.scattered(y, row, x, how=how)
    assert changed is y
    assert torch.equal(y, right) and torch.equal(total, 2 * row)
    module.scattered_raw(y, row, x, total, how=how)
    assert torch.equal(y, expected(how, right, row, x))


@pytest.mark.parametrize("how", ["add", "max"])
def test_torch_knows_what_is_written(module: ModuleType, how: str) -> None:
    assert "(Tensor(a!) y, Tensor row, Tensor x, str how) -> Tensor" in str(module._scattered_op._schema)
    torch.library.opcheck(module._scattered_op, (*arguments(torch.float32), how))

    def function(y: Tensor, row: Tensor, x: Tensor) -> Tensor:
        before = y + 0
        return module.scattered(y, row, x, how=how)[0] - before

    torch._dynamo.reset()
    y, row, x = arguments(torch.float32)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(y.clone(), row, x), expected(how, y, row, x) - y)


def test_wrong_calls_name_the_argument(module: ModuleType) -> None:
    y, row, x = arguments(torch.float32)
    with pytest.raises(ArgumentError, match="'y' shares memory with 'x'"):
        module.scattered(x[:3], row, x, how="add")
    with pytest.raises(ArgumentError, match="'y' requires grad, but this kernel has no backward"):
        module.scattered(y.clone().requires_grad_(), row, x, how="add")
    with pytest.raises(ArgumentError, match="expected 'add' or 'max'"):
        module.scattered(y, row, x, how="mean")
    assert torch.equal(y, torch.ones(3, 70))


def test_members_agree_on_what_is_changed() -> None:
    roles = SCATTERED.replace("role: output", "role: {{ 'inout' if HOW == 'add' else 'output' }}")
    with pytest.raises(WavespecError) as caught:
        loads_family(roles, "scattered.wave.yaml")
    assert "members-differ" in {one.code for one in caught.value.diagnostics}
