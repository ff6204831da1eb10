"""Joins that people write, in tiles and at their edges, beside folds of the same elements in f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.joinings import HEADER
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

TILE = 16
SIZES = (1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE + 9)
Element = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """``names``: the type of each carried name, its identity, and what is drawn for it."""

    names: Mapping[str, tuple[str, str, str]]
    combine: tuple[str, ...]
    fold: Callable[[Element, Element], Element]

    @property
    def spec(self) -> KernelSpec:
        """A scan and a reduction over tiles of N, each from what is joined in front of the tile."""

        def each(text: str) -> str:
            return ", ".join(text.format(name) for name in self.names)

        def lines(text: str) -> str:
            return "".join(text.format(name, *row) for name, row in self.names.items())

        joined = f"carry: {{{each('{0}: next_{0}')}}}\n            identity: {{{each('{0}: @{0}')}}}"
        for name, (_, identity, _) in self.names.items():
            joined = joined.replace(f"@{name}", identity)
        body = "".join(f"\n              - {line}" for line in self.combine)
        return loads(f"""{HEADER}dims: {{M: {{}}, N: {{}}}}
tensors:
{lines("  in_{0}: {{shape: [M, N], dtype: {1}}}" + chr(10))}\
{lines("  run_{0}: {{shape: [M, N], dtype: {1}, role: output}}" + chr(10))}\
{lines("  all_{0}: {{shape: [M], dtype: {1}, role: output}}" + chr(10))}\
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{tiling: N, tile: {TILE}}}
graph:
{lines("  - first_{0}: {{register: [M], dtype: {1}, value: {2}}}" + chr(10))}\
  - steps:
      iterate: N
      carry: {{{each("before_{0}: first_{0}")}, {each("sum_{0}: first_{0}")}}}
      body:
{lines("        - next_{0}: {{read: in_{0}}}" + chr(10))}\
        - run:
            scan: N
            {joined}
            init: {{{each("{0}: before_{0}")}}}
            last: {{{each("{0}: end_{0}")}}}
            combine:{body}
        - total:
            reduce: N
            {joined}
            init: {{{each("{0}: sum_{0}")}}}
            combine:{body}
{lines("        - before_{0}: run.end_{0}" + chr(10) + "        - sum_{0}: total.{0}" + chr(10))}\
{lines("        - {{write: run.{0}, to: run_{0}}}" + chr(10))}\
{lines("  - {{write: steps.sum_{0}, to: all_{0}}}" + chr(10))}""")

    def inputs(self, rows: int, columns: int) -> dict[str, Any]:
        random = np.random.default_rng(columns)
        drawn = {
            "normal": lambda: random.standard_normal((rows, columns)),
            "large": lambda: 300 * random.standard_normal((rows, columns)),
            "none": lambda: np.where(random.random((rows, columns)) < 0.5, -math.inf, random.normal()),
            "few": lambda: random.integers(0, 3, (rows, columns)),
            "flags": lambda: random.random((rows, columns)) < 0.2,
            "ones": lambda: np.ones((rows, columns)),
            "zeros": lambda: np.zeros((rows, columns)),
            "places": lambda: np.tile(np.arange(columns), (rows, 1)),
        }
        kinds = {"f32": np.float32, "i32": np.int32}
        return {f"in_{name}": drawn[how]().astype(kinds[dtype]) for name, (dtype, _, how) in self.names.items()}

    def expected(self, inputs: Mapping[str, Any]) -> Any:
        """What is joined up to each element: name, row, column."""
        numbers = np.stack([array.astype(np.float64) for array in inputs.values()])
        first = tuple(float(identity.replace(".inf", "inf")) for _, identity, _ in self.names.values())
        found = np.empty_like(numbers)
        for row in range(numbers.shape[1]):
            joined = first
            for column in range(numbers.shape[2]):
                joined = self.fold(joined, tuple(numbers[:, row, column]))
                found[:, row, column] = joined
        return found


def _powers(one: Element, two: Element) -> Element:
    top = max(one[0], two[0])
    return top, sum(s if m == top else s * math.exp(m - top) for m, s in (one, two))


def _moments(one: Element, two: Element) -> Element:
    count, apart = one[0] + two[0], two[1] - one[1]
    return count, one[1] + apart * two[0] / count, one[2] + two[2] + apart**2 * one[0] * two[0] / count


def _matrices(one: Element, two: Element) -> Element:
    return tuple((np.reshape(one, (2, 2)) @ np.reshape(two, (2, 2))).ravel())


_POWERS = ("top: maximum(m, next_m)", 'old: "where(m == top, 1.0, exp(m - top))"')
_POWERS += ('new: "where(next_m == top, 1.0, exp(next_m - top))"', "s: s * old + next_s * new", "m: top")
_PLACE = ('place: "where(larger, next_place, place)"', 'top: "where(larger, next_top, top)"')
JOINS = {
    "log_sum_exp": Join({"m": ("f32", "-.inf", "large"), "s": ("f32", "0", "ones")}, _POWERS, _powers),
    "log_sum_exp_of_nothing": Join({"m": ("f32", "-.inf", "none"), "s": ("f32", "0", "ones")}, _POWERS, _powers),
    "moments": Join(
        {"n": ("f32", "0", "ones"), "mid": ("f32", "0", "large"), "m2": ("f32", "0", "zeros")},
        (
            *("both: n + next_n", "share: next_n / maximum(both, 1)", "apart: next_mid - mid"),
            *("m2: m2 + next_m2 + apart * apart * n * share", "mid: mid + apart * share", "n: both"),
        ),
        _moments,
    ),
    "first_largest": Join(
        {"top": ("f32", "-.inf", "few"), "place": ("i32", "2147483647", "places")},
        ("larger: next_top > top", *_PLACE),
        lambda one, two: two if two[0] > one[0] else one,
    ),
    "last_largest": Join(
        {"top": ("f32", "-.inf", "few"), "place": ("i32", "-1", "places")},
        ("larger: next_top >= top", *_PLACE),
        lambda one, two: two if two[0] >= one[0] else one,
    ),
    "max_plus": Join(
        {"a": ("f32", "0", "normal"), "b": ("f32", "-.inf", "normal")},
        ("b: maximum(b + next_a, next_b)", "a: a + next_a"),
        lambda one, two: (one[0] + two[0], max(one[1] + two[0], two[1])),
    ),
    "matrices": Join(
        {name: ("f32", "1" if name in "ad" else "0", "normal") for name in "abcd"},
        (
            *("w: a * next_a + b * next_c", "x: a * next_b + b * next_d", "y: c * next_a + d * next_c"),
            *("z: c * next_b + d * next_d", "a: w", "b: x", "c: y", "d: z"),
        ),
        _matrices,
    ),
    "segments": Join(
        {"new": ("i32", "0", "flags"), "total": ("f32", "0", "normal")},
        ('total: "where(next_new != 0, next_total, total + next_total)"', "new: new | next_new"),
        lambda one, two: (max(one[0], two[0]), two[1] if two[0] else one[1] + two[1]),
    ),
}


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.target)
@pytest.mark.parametrize("name", JOINS)
def test_it_is_what_a_fold_makes(name: str, machine: Machine) -> None:
    given = JOINS[name]
    kernel = lower(given.spec, machine)
    for size in SIZES:
        inputs = given.inputs(5, size)
        report = simulate(kernel, machine, inputs, {"M": 5, "N": size})
        assert report.ok, report.render()
        for (one, (dtype, _, _)), right in zip(given.names.items(), given.expected(inputs), strict=True):
            # 41 steps round by 2^-24 of what they make each, once for a product and once for a sum.
            largest = np.max(np.abs(right), initial=1, where=np.isfinite(right))
            allowed = 0 if dtype == "i32" else 41 * 2.0**-23 * largest
            np.testing.assert_allclose(
                report.tensors[f"run_{one}"], right, rtol=0, atol=allowed, err_msg=f"{one} {size}"
            )
            np.testing.assert_allclose(report.tensors[f"all_{one}"], right[:, -1], rtol=0, atol=allowed)
