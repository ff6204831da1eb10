"""Expressions in shapes: dims that are called by them, in files, in Python, in `dims`, in parts and in conditions."""

from __future__ import annotations

import pytest

import wavespec as ws
from tests.ops.sizes_in_shapes import HALVES, SPECS, UNPACK
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import lower
from wavespec.schema.cases import cases_for_target
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import complete_sizes
from wavespec.targets.machine import machines


def test_an_expression_is_a_dim_of_that_size() -> None:
    spec = ws.loads(UNPACK)
    assert spec.tensors["w"].shape == ("M", "K // 2")
    assert list(spec.dims) == ["M", "K", "K // 2", "M + 1", "ceildiv(K, 3)"]
    assert str(spec.dims["M + 1"].equals) == "M + 1"
    assert complete_sizes(spec, {"M": 2, "K": 7}) == {"M": 2, "K": 7, "K // 2": 3, "M + 1": 3, "ceildiv(K, 3)": 3}


def test_however_it_is_written_it_is_one_dim() -> None:
    assert ws.loads(UNPACK.replace("at: {K // 2:", "at: {(K)//2:")) == ws.loads(UNPACK)


def test_it_is_where_the_shape_has_it() -> None:
    place = ws.loads(UNPACK).where("dims", "K // 2", "equals")
    assert str(place).startswith("<text>:7:18")


@pytest.mark.parametrize("name", SPECS)
def test_specs_survive_yaml_json_and_ir(name: str) -> None:
    spec = ws.loads(SPECS[name])
    assert "ceildiv(K, 3):" not in dump_yaml(spec).partition("tensors:")[0]
    assert ws.loads(dump_yaml(spec)) == spec
    assert KernelSpec.model_validate_json(spec.model_dump_json()) == spec
    kernel = lower(spec, machines("gfx942")[0])
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_dims_may_promise_more_of_it() -> None:
    text = UNPACK.replace("dims: {M: {}, K: {}}", "dims: {M: {}, K: {}, K//2: {multiple_of: 8}}")
    spec = ws.loads(text)
    assert spec.dims["K // 2"] == ws.loads(UNPACK).dims["K // 2"].model_copy(update={"multiple_of": 8})
    assert "  K // 2: {multiple_of: 8}\n" in dump_yaml(spec)
    assert ws.loads(dump_yaml(spec)) == spec


def test_conditions_on_it_are_promises_of_a_case() -> None:
    case, _ = cases_for_target(ws.loads(HALVES), "sm_90")
    assert case.spec.dims["K // 2"].multiple_of == 4
    assert ws.loads(dump_yaml(case.spec)).dims == case.spec.dims


@pytest.mark.parametrize("dim", ["K // 2", "H"])
def test_a_case_may_be_for_one_size_of_what_follows_from_others(dim: str) -> None:
    """The plain spec of such a case was no spec where it was read again, in the process that compiles it."""
    text = HALVES if dim != "H" else HALVES.replace("K // 2", "H").replace("2}}\n", "2}, H: {equals: K // 2}}\n")
    case, _ = cases_for_target(ws.loads(text.replace(f"{dim} % 4 == 0", f"{dim} == 32")), "sm_90")
    assert case.spec.dims[dim].value == 32
    assert loads_plain(dump_yaml(case.spec)).dims == case.spec.dims
    with pytest.raises(ws.WavespecError, match="contradictory-dim"):
        ws.loads(dump_yaml(case.spec))


def test_aliases_stand_for_it() -> None:
    aliased = UNPACK.replace("graph:", "let: {pair: {K // 2: K // 2}}\ngraph:")
    aliased = aliased.replace("at: {K // 2: K // 2}", "at: pair")
    assert ws.loads(aliased) == ws.loads(UNPACK)


def test_the_builder_takes_symbols() -> None:
    k = ws.KernelBuilder("pairs")
    m, n = k.dim("M"), k.dim("N")
    x, w = k.input("x", [m, n], "f32"), k.input("w", [m, n // 2], "f32")
    y = k.output("y", [m, n], "f32")
    k.workgroup(m, 8, axis=0)
    k.workgroup(n, 64, axis=1)
    pair = k.read("pair", w, dims=[m, n], at={str(n // 2): n // 2})
    k.write(k.formula("product", k.read("part", x) * pair), y)
    spec = k.build()
    assert spec.dims["N // 2"] == Dim(equals=(n // 2).expression)
    assert ws.loads(dump_yaml(spec)) == spec


@pytest.mark.parametrize("dim", ["K.x // 2", "K / size(M)", "K < 2", "K * 0.5", "K ** 2"])
def test_what_can_be_no_dim_is_told_where_a_function_takes_one(dim: str) -> None:
    with pytest.raises(ws.WavespecError, match=r"19:62: error\[malformed-expression\]: 'size' takes the name of a dim"):
        ws.loads(UNPACK.replace("f32(size(K // 2))", f"f32(size({dim}))"))
