"""Places of accesses: outputs that tell which are outside, on every target, and for whatever numbers data hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import wavespec as ws
from tests.kernels import SPECS
from wavespec.pipeline import build, lower
from wavespec.schema.bounds_checks import with_bounds_checks
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import is_for, spec_as_on
from wavespec.sim.reference import reference
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS

HEAD = """\
apiVersion: wavespec/v1
kind: Kernel
name: places
"""
GATHER = (
    HEAD
    + """\
dims: {T: {}, V: {}, D: {}, W: {value: 4}}
params: {STEP: 3}
scalars: {shift: {dtype: i64, default: 0}}
tensors:
  token: {shape: [T], dtype: i64}
  table: {shape: [V, D], dtype: f32}
  part: {shape: [T], dtype: u8}
  large: {shape: [W], dtype: f32}
  y: {shape: [T, D], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 8, axis: 0}
  - {workgroup: D, tile: 64, axis: 1}
graph:
  - row: {read: token}
  - small: {read: part}
  - values: {read: table, dims: [T, D], at: {V: "PLACE"}}
  - shifted: {read: large, dims: [T], at: {W: "small % 4"}}
  - result: values + shifted
  - {write: result, to: y}
"""
)
STEPS = (
    HEAD
    + """\
dims: {T: {}, S: {value: 4}, N: {}}
tensors:
  start: {shape: [T], dtype: i32}
  back: {shape: [N], dtype: i32}
  x: {shape: [N], dtype: f32}
  y: {shape: [T], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 8, axis: 0}
graph:
  - at: {read: start}
  - zero: {register: [T], dtype: f32, value: 0}
  - walk:
      repeat: size(S)
      index: s
      carry: {place: at, total: zero}
      body:
        - value: {read: x, dims: [T], at: {N: place + s}}
        - first: total + value
        - maybe:
            if: s > 1
            carry: {total: first}
            body:
              - more: {read: x, dims: [T], at: {N: place - s}}
              - total: total + more
        - total: maybe.total
        - place: {read: back, dims: [T], at: {N: place}}
  - {write: walk.total, to: y}
"""
)


def outside(text: str, *inputs: torch.Tensor, **scalars: Any) -> dict[str, list[int]]:
    """By the place of an access what is written of it."""
    checked = with_bounds_checks(ws.loads(text))
    results = reference(checked.spec, *inputs, **scalars)[-len(checked.outputs) :]
    said = [f"{place.within} {place.op.at[place.dim]}" for place in checked.outputs.values()]
    return {name: result.tolist() for name, result in zip(said, results, strict=True)}


def gathered(place: str, numbers: list[int], size: int = 10, **scalars: Any) -> list[int]:
    """What is outside of a table with this many rows."""
    token = torch.tensor(numbers)
    others = torch.zeros(size, 1), torch.zeros(len(numbers), dtype=torch.uint8), torch.zeros(4)
    (found,) = outside(GATHER.replace("PLACE", place), token, *others, **scalars).values()
    return found


def test_places_below_and_beyond_are_told_apart() -> None:
    assert gathered("row", [0, 9, 10, -1, 17, -8]) == [0, 0, 11, -1, 18, -8]


@pytest.mark.parametrize(
    ("place", "row", "at"),
    [
        ("row * STEP - 1", 4, 11),
        ("row // 2 + T", 19, 9),
        ("row % 4 + 8", -2, 10),
        ("min(row, 12)", 99, 12),
        ("max(row, 3) * 2", 0, 6),
        ("xor(row, 8)", 7, 15),
        ("ceildiv(row, size(V))", 95, 10),
        ("-row", 3, -3),
        ("size(V) - row", 0, 10),
        ("row + shift", 3, 3),
    ],
)
def test_places_are_computed_as_the_language_says(place: str, row: int, at: int) -> None:
    (found,) = gathered(place, [row])
    assert found == (0 if 0 <= at < 10 else at if at < 0 else at + 1)


@pytest.mark.parametrize("row", [2**62, -(2**63), 2**63 - 1, 2**60])
@pytest.mark.parametrize("place", ["row", "row * 16", "row * 4 + row * 4", "row * row", "row * shift"])
def test_no_place_wraps_round(place: str, row: int) -> None:
    (found,) = gathered(place, [row], shift=2**61)
    assert found != 0


def test_what_is_known_to_be_inside_has_no_output() -> None:
    text = GATHER.replace("PLACE", "row").replace("small % 4", "small % 5")
    assert len(with_bounds_checks(ws.loads(text)).outputs) == 2
    whole = ws.loads(GATHER.replace('{V: "PLACE"}', "{V: T}").replace("V: {}", "V: {equals: T}"))
    assert with_bounds_checks(whole) == (whole, {}, ())


def test_steps_that_follow_each_other_are_all_looked_at() -> None:
    start, back = torch.tensor([0, 3, 1], dtype=torch.int32), torch.tensor([1, 2, 9, 0], dtype=torch.int32)
    found = outside(STEPS, start, back, torch.zeros(4))
    assert found == {"x place + s": [5, 6, 12], "x place - s": [7, -1, 8], "back place": [10, 0, 10]}


def test_data_are_told_from_indices() -> None:
    text = GATHER.replace('{V: "PLACE"}', "{V: T + 1}").replace("small % 4", "small")
    assert [place.is_data for place in with_bounds_checks(ws.loads(text)).outputs.values()] == [False, True]


def test_accesses_that_no_output_has_room_for_are_named() -> None:
    text = (
        STEPS.replace("if: s > 1", "iterate: N")
        .replace("{N: place - s}", "{N: place + N}")
        .replace("more: {read: x, dims: [T]", "more: {read: x, dims: [T, N]")
    )
    text = text.replace("total: total + more", "total: {sum: more, dim: N, init: total}").replace(
        "axis: 0}", "axis: 0}\n  - {tiling: N, tile: 4}"
    )
    ((place, _),) = with_bounds_checks(ws.loads(text)).unchecked
    assert place.within == "x" and place.dim == "N"


def test_the_spec_that_looks_is_a_spec() -> None:
    for text in (GATHER.replace("PLACE", "row * STEP + size(V)"), STEPS):
        checked = with_bounds_checks(ws.loads(text)).spec
        assert ws.loads(dump_yaml(checked)) == checked


@pytest.mark.compiles
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", [GATHER.replace("PLACE", "row * STEP"), STEPS], ids=["gather", "steps"])
def test_kernels_that_look_are_built_for_every_target(text: str, target: str) -> None:
    artifact = build(with_bounds_checks(ws.loads(text)).spec, target)
    assert artifact.binaries


MAPPED = [
    path
    for path in sorted(SPECS.glob("*.wave.yaml"))
    if "at: {" in path.read_text(encoding="utf-8") and path.name != "attention_ragged.wave.yaml"
]


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", MAPPED, ids=lambda path: path.name.partition(".")[0])
def test_kernels_with_mappings_are_lowered_with_checks(path: Any, target: str) -> None:
    spec = ws.load(path)
    if is_for(spec, target):
        is_large = target == "cpu" and spec.name in ("conv2d_nhwc", "conv2d_grouped")
        checked = with_bounds_checks(spec_as_on(spec, target), of_data_alone=is_large)
        lower(checked.spec, machines(target)[0])
