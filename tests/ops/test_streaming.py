"""`cache: streaming`: it reaches the accesses of its statement on every target, and changes no result."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from wavespec import KernelBuilder, KernelSpec, loads
from wavespec.diagnostics import WavespecError
from wavespec.emit.ptxas import find_ptxas, with_cubins
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import build, compile, emit, lower
from wavespec.schema.cases import cases_for_target
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines
from wavespec.targets.names import TARGETS

SPEC = """\
apiVersion: wavespec/v1
kind: Kernel
name: doubled
dims: {M: {}, N: {multiple_of: 16}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: N, tile: 128, axis: 1}
graph:
  - part: {read: x, cache: streaming}
  - twice: part + part
  - {write: twice, to: y, cache: streaming}
"""
STAGED = """\
apiVersion: wavespec/v1
kind: Kernel
name: product
dims: {M: {}, N: {}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a, cache: streaming}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: loop.acc, to: c, cache: streaming}
"""
EVERY = [machine for target in TARGETS for machine in machines(target)]
PLAIN = ", cache: streaming"


def spec(text: str = SPEC, *changes: tuple[str, str]) -> KernelSpec:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return loads(text, "streamed.wave.yaml")


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_it_reaches_every_access_and_changes_no_result(machine: Machine) -> None:
    kernel = lower(spec(), machine)
    accesses = [op for op in kernel.walk() if op.name in ("load", "store") and op["memory"] in ("x", "y")]
    assert accesses and all(op.get("cache") == "streaming" for op in accesses)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    x = np.arange(6 * 48, dtype=np.float32).reshape(6, 48)
    report = simulate(kernel, machine, {"x": x}, {"M": 6, "N": 48})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], 2 * x)


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: machine.variant)
def test_what_is_staged_is_streamed_on_its_way_there_alone(machine: Machine) -> None:
    kernel = lower(spec(STAGED), machine)
    for op in kernel.walk():
        if op.get("cache"):
            assert kernel.memory(op.get("source") or op["memory"]).name in ("a", "c")
    streamed = {op.get("source") or op["memory"] for op in kernel.walk() if op.get("cache")}
    assert "a" in streamed and ("c" in streamed or machine.target == "cpu")


@pytest.mark.parametrize("target", TARGETS)
def test_machines_are_told(target: str) -> None:
    text = emit(spec(), machines(target)[0]).text
    words = {
        "cpu": ["nontemporal = true"],
        "sm_90": ["ld.global.nc.L1::no_allocate.L2::128B.v4.b32", "st.global.cs.v4.b32"],
    }.get(target, [r"buffer.load %\w+, %\w+, %\w+, 2 ", r"buffer.store %\w+, %\w+, %\w+, %\w+, 2 "])
    plain = emit(spec(SPEC, (PLAIN, "")), machines(target)[0]).text
    for word in words:
        assert re.search(word, text) and not re.search(word, plain)


def test_copies_of_lanes_are_told_where_they_can_be() -> None:
    text = emit(spec(STAGED), machines("gfx950")[0]).text
    assert text.count("aux = 2") == text.count("async.lds") / 2 or "buffer.load" in text


@pytest.mark.parametrize("dtype", ["bf16", "f64", "i8", "bool", "i64", "f8e4m3fn"])
@pytest.mark.parametrize("multiple", [1, 4, 16])
@pytest.mark.compiles
def test_every_width_of_access_assembles(dtype: str, multiple: int) -> None:
    changes = (("f32", dtype), ("  - twice: part + part\n", ""), ("write: twice", "write: part"))
    text = spec(SPEC, *changes, ("multiple_of: 16", f"multiple_of: {multiple}"))
    assert "st.global.cs" in emit(text, machines("sm_90")[0]).text
    built = build(text, "sm_90")
    if ptxas := find_ptxas():
        with_cubins(built, ptxas)


def test_a_case_may_ask_for_it() -> None:
    case = "targets: {gfx942: {cases: [{when: [N >= 4096], tensors: {y: {space: streamed}}}]}}\ngraph:"
    (machine,) = machines("gfx942")
    first, other = cases_for_target(spec(SPEC, (PLAIN, ""), ("graph:", case)), "gfx942")
    stores = [
        [op.get("cache") for op in lower(one.spec, machine).walk() if op.name == "store"] for one in (first, other)
    ]
    assert set(stores[0]) == {"streaming"} and set(stores[1]) == {None}


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("elements", [0, 4, 8, 12])
def test_results_may_begin_anywhere(dtype: torch.dtype, elements: int) -> None:
    """A store past the caches to a place that it takes for a multiple of its width would end the process."""
    name = str(dtype).removeprefix("torch.").replace("float32", "f32").replace("bfloat16", "bf16")
    kernel = compile(spec(SPEC, ("f32", name), ("multiple_of: 16", "multiple_of: 64")))
    x = torch.arange(64 * 256).remainder(100).to(dtype).reshape(64, 256)
    out = torch.zeros(64 * 256 + 16, dtype=dtype)[elements : elements + 64 * 256].view(64, 256)
    assert torch.equal(kernel(x, out=out), 2 * x) and torch.equal(out, 2 * x)


def test_sums_that_are_added_up_in_the_output_stay_in_caches() -> None:
    sums = STAGED.replace(", space: shared", "").replace("f16", "f32")
    kernel = lower(spec(sums), machines("cpu")[0])
    assert any(op.name == "accumulate" for op in kernel.walk())


def test_what_is_combined_is_not_streamed() -> None:
    changes = (("role: output", "role: inout"), ("to: y,", "to: y, combine: add,"))
    with pytest.raises(WavespecError, match=r"14:48.*nothing-to-stream.*What is combined with 'y'"):
        spec(SPEC, *changes)


def test_another_word_is_refused() -> None:
    with pytest.raises(WavespecError, match="'streaming'"):
        spec(SPEC, ("part: {read: x, cache: streaming}", "part: {read: x, cache: evict_first}"))


def test_the_builder_has_it() -> None:
    k = KernelBuilder("copied")
    m = k.dim("M")
    a, b = k.input("a", [m], "f32"), k.output("b", [m], "f32")
    k.workgroup(m, 8, axis=0)
    k.write(k.read("x", a, cache="streaming"), b, cache="streaming")
    text = dump_yaml(k.build())
    assert "{read: a, cache: streaming}" in text and "{write: x, to: b, cache: streaming}" in text
    assert loads(text) == k.build()
