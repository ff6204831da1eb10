"""What stops a spec from being built is told as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL
from wavespec.cache import CompileCache
from wavespec.check_builds import Part, check_builds
from wavespec.schema import loads


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pass_that_looks_for_what_is_not_there_is_no_end_of_the_kernels(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`next` of nothing ended the loop over kernels, and what was told was that `zip` had fewer of one than another."""

    def stops(parts: list[Part]) -> list[object]:
        return [next(iter(())) for _ in parts]

    monkeypatch.setattr("wavespec.check_builds.problems_of_case", stops)
    monkeypatch.setattr("wavespec.check_builds._FEWEST_FOR_PROCESSES", 2)
    with pytest.raises((StopIteration, RuntimeError)) as caught:
        check_builds([loads(SMALL)], cache=CompileCache(tmp_path), workers=workers)
    assert isinstance(caught.value, StopIteration) or isinstance(caught.value.__cause__, StopIteration)


TRACE = """
apiVersion: wavespec/v1
kind: Kernel
name: trace
dims: {B: {}, I: {}, J: {}}
tensors:
  a: {shape: [B, I, J], dtype: f32}
  c: {shape: [B], dtype: f32, role: output}
graph:
  - none: {register: [B, J], dtype: f32, value: 0}
  - rows:
      iterate: I
      carry: {total: none}
      body:
        - x: {read: a}
        - total: {sum: x, dim: I, init: total}
  - flat: {sum: rows.total, dim: J}
  - {write: flat, to: c}
"""


def test_a_mistake_of_a_spec_without_tiles_is_told_once_in_its_own_names(tmp_path: Path) -> None:
    """Cases and parts are the compiler's own there: seven mistakes of one spoke of `rows_total` and `total_of_none`."""
    ((found,),) = check_builds([loads(TRACE, "trace.wave.yaml")], cache=CompileCache(tmp_path))
    assert found.code == "untiled-dim" and found.targets == ("cpu", "sm_90", "gfx942", "gfx950") and not found.notes
    assert "{register: [B], dtype: f32, value: 0}" in found.hints[0]
    assert "flat: {sum: rows.total, dim: J, init: flat}" in found.hints[0]


COLUMN_SUMS = """\
apiVersion: wavespec/v1
kind: Kernel
name: column_sums
dims: {M: {}, N: {max: 1024}, L: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  z: {shape: [M, L], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
  total: {shape: [N], dtype: f32, role: inout}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - beside: {iterate: L, carry: {sum_: none}, body: [part: {read: z}, sum_: {sum: part, dim: L, init: sum_}]}
  - value: {read: x}
  - result: value - beside.sum_
  - {write: result, to: y}
  - columns: {sum: value, dim: M}
  - {write: columns, to: total, combine: add}
"""


def test_sums_over_rows_beside_rows_are_combined_says_the_hint_and_builds_then() -> None:
    """As the gradient of a norm's weight: a loop over the rows would have no place for what is made of each of them."""
    ((found, *_),) = check_builds([loads(COLUMN_SUMS)], ["cpu"])
    hint = "'{write: value, to: total, at: {N: N}, combine: add}'"
    assert found.code == "untiled-dim" and hint in found.hints[0]
    said = COLUMN_SUMS.replace("  - columns: {sum: value, dim: M}\n", "")
    said = said.replace("{write: columns, to: total, combine: add}", hint.strip("'"))
    assert check_builds([loads(said)], ["cpu"]) == [()]
