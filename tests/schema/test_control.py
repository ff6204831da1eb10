"""Branches and bounds as YAML and as Python: the same specs, and the texts that they are written as."""

from __future__ import annotations

import pytest

from tests.ops.control import LOOPS, Product, Rows
from tests.ops.ending_loops import FIRST, ROOT
from wavespec.diagnostics import WavespecError
from wavespec.lower.spec_to_tile import spec_to_tile
from wavespec.schema import KernelSpec, loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolved import resolve
from wavespec.schema.symbols import end, size, start


@pytest.mark.parametrize("spec", [*(Rows(loop).spec for loop in LOOPS), Product(loop="branch").spec])
def test_what_is_written_reads_back(spec: KernelSpec) -> None:
    assert loads(dump_yaml(spec)) == spec


def test_python_says_bounds_and_otherwise() -> None:
    k = KernelBuilder("k")
    m, n = k.dim("M"), k.dim("N")
    x, y = k.input("x", [m, n], "f32"), k.output("y", [m, n], "f32")
    k.workgroup(m, 8, axis=0)
    k.tiling(n, 16)
    with k.iterate("rows", n, start=start(m), end=end(m) + 1):
        tile = k.read("tile", x)
        with k.branch("some", start(n) < end(m), tile=tile) as some:
            k.formula("tile", some["tile"] * 2)
        with k.otherwise(some):
            k.formula("tile", some["tile"] * 3)
        k.write(some["tile"], y)
    text = dump_yaml(k.build())
    assert "start: start(M)" in text and "end: end(M) + 1" in text and "otherwise:" in text
    assert loads(text) == k.build()


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("start(N) // M < 2", "the divisor may be 0"),
        ("start(N) / 5 < 2", "the quotient need not be a whole number"),
        ("start(N) < 2.5", "places are whole numbers"),
    ],
)
def test_what_a_kernel_cannot_compute_is_refused(condition: str, why: str) -> None:
    text = dump_yaml(Rows("branch").spec).replace("start(N) < end(M)", condition)
    with pytest.raises(WavespecError, match=why):
        spec_to_tile(resolve(loads(text), "gfx942"))


@pytest.mark.parametrize("text", [FIRST, ROOT], ids=["until", "repeat"])
def test_loops_that_end_early_read_back(text: str) -> None:
    assert loads(dump_yaml(loads(text))) == loads(text)


def test_python_says_when_loops_end() -> None:
    k = KernelBuilder("k")
    m, n = k.dim("M"), k.dim("N")
    x, y = k.input("x", [m, n], "i32"), k.output("y", [m], "i32")
    k.workgroup(m, 1, axis=0)
    k.tiling(n, 16)
    none = k.register("none", [m], "i32", 0)
    with k.iterate("rows", n, step=2, until="total > 9", total=none) as rows:
        part = k.read("part", x)
        k.reduce("sum", "total", part, n, init=rows["total"])
    with k.repeat("doubled", 9, until="total > 99", total=rows["total"]) as doubled:
        k.formula("total", doubled["total"] * 2)
    k.write(doubled["total"], y)
    text = dump_yaml(k.build())
    assert "step: 2" in text and "until: total > 9" in text and "repeat: 9" in text
    assert loads(text) == k.build()


def test_steps_have_a_number_in_python() -> None:
    k = KernelBuilder("k")
    m, t = k.dim("M"), k.dim("T")
    x, y = k.input("x", [t, m], "f32"), k.output("y", [t, m], "f32")
    k.workgroup(m, 8, axis=0)
    none = k.register("none", [m], "f32", 0)
    with k.repeat("run", size(t), index="step", h=none) as run:
        part = k.read("part", x, [m], at={"T": "step"})
        k.write(k.formula("h", run["h"] * part + 1), y, at={"T": "step"})
    text = dump_yaml(k.build())
    assert "index: step" in text and "repeat: size(T)" in text
    assert loads(text) == k.build()
