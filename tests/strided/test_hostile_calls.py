"""Views that nobody should pass where any strides are taken: each is right, or refused by name, in every way to call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper, write_wrapper
from wavespec.pipeline import best_variant, build
from wavespec.runtime import ArgumentError, Kernel
from wavespec.schema import loads

pytestmark = pytest.mark.compiles

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32, strides: any}
  y: {shape: [M, N], dtype: f32, strides: contiguous}
  z: {shape: [M, N], dtype: f32, role: output, strides: any}
constraints: [{workgroup: M, tile: 2, axis: 0}, {workgroup: N, tile: 64, axis: 1}]
graph:
  - left: {read: x}
  - right: {read: y}
  - both: left + 2 * right
  - {write: both, to: z}
"""
IN_PLACE = """apiVersion: wavespec/v1
kind: Kernel
name: raised
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32, strides: any}
  y: {shape: [M, N], dtype: f32, role: inout, strides: any}
constraints: [{workgroup: M, tile: 2, axis: 0}, {workgroup: N, tile: 64, axis: 1}]
graph:
  - value: {read: x}
  - {write: value, to: y, combine: add}
"""
WAYS = ("wrapper", "operator", "kernel", "raw")
M, N = 5, 6
Call = Callable[..., Any]


def _module(text: str, folder: Any) -> tuple[Any, Kernel]:
    artifact = replace(build(loads(text), "cpu", only=best_variant("cpu")), spec_sha256="57a1de" * 10 + "0000")
    return import_wrapper(write_wrapper(artifact, folder)), Kernel(artifact)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    """z = x + 2 * y, as ``call(x, y)`` or ``call(x, y, out=z)``."""
    module, kernel = _module(SPEC, tmp_path_factory.mktemp("strided"))

    def operator(x: Any, y: Any, out: Any = None) -> Any:
        if out is None:
            return module._scaled_op(x, y)
        module._scaled_out_op(x, y, out)
        return out

    def raw(x: Any, y: Any, out: Any = None) -> Any:
        out = torch.zeros(M, N) if out is None else out
        module.scaled_raw(x, y, out)
        return out

    return {"wrapper": module.scaled, "operator": operator, "kernel": kernel, "raw": raw}


def numbers(*shape: int) -> Tensor:
    return torch.randint(-9, 10, shape).float()


def _shrunk(view: Tensor, bytes_: int) -> Tensor:
    view.untyped_storage().resize_(bytes_)
    return view


RIGHT = "right"
CASES: dict[str, tuple[Callable[[], tuple[Tensor, Tensor | None]], str]] = {
    "contiguous": (lambda: (numbers(M, N), None), RIGHT),
    "columns of longer rows": (lambda: (numbers(M, 20)[:, 3 : 3 + N], None), RIGHT),
    "every other row": (lambda: (numbers(2 * M, N)[1::2], None), RIGHT),
    "one row for all": (lambda: (numbers(1, N).expand(M, N), None), RIGHT),
    "rows that overlap": (lambda: (numbers(20).as_strided((M, N), (2, 1)), None), RIGHT),
    "columns apart": (
        lambda: (numbers(N, M).t(), None),
        r"'x' has strides \(1, 5\), expected 1 along 'N'.*x.contiguous",
    ),
    "one element for all": (lambda: (numbers(1, 1).expand(M, N), None), "'x' has strides .*expected 1 along 'N'"),
    "negated": (lambda: (torch._neg_view(numbers(M, 20)[:, :N]), None), RIGHT),
    "memory taken away": (lambda: (_shrunk(numbers(M, 20)[:, 3 : 3 + N], 300), None), "'x' needs 356 bytes .* has 300"),
    "memory that just suffices": (lambda: (_shrunk(numbers(M, 20)[:, 3 : 3 + N], 356), None), RIGHT),
    "between elements": (
        lambda: (torch.frombuffer(bytearray(4 * M * N + 1), dtype=torch.float32, offset=1).view(M, N), None),
        "'x' starts at no multiple of the 4 bytes",
    ),
    "out: columns": (lambda: (numbers(M, N), torch.zeros(M, 20)[:, 7 : 7 + N]), RIGHT),
    "out: beside x": (lambda: _halves(numbers(M, 2 * N)), RIGHT),
    "out: across x": (lambda: _across(numbers(M, 2 * N)), "'out' shares memory with 'x'"),
    "out: x itself": (lambda: (lambda x: (x, x))(numbers(M, N)), "'out' shares memory with 'x'"),
    "out: one row for all": (lambda: (numbers(M, N), torch.zeros(1, N).expand(M, N)), "'out' has .* share memory"),
    "out: rows that overlap": (
        lambda: (numbers(M, N), torch.zeros(30).as_strided((M, N), (5, 1))),
        "'out' has .* share memory",
    ),
    "out: columns apart": (lambda: (numbers(M, N), torch.zeros(N, M).t()), "'out' has .* expected 1 along 'N'"),
    "out: negated": (lambda: (numbers(M, N), torch._neg_view(torch.zeros(M, 20)[:, :N])), "'out' is a view that neg"),
    "out: another shape": (lambda: (numbers(M, N), torch.zeros(M, 20)[:, :7]), "'out' has shape"),
    "out: memory taken away": (lambda: (numbers(M, N), _shrunk(torch.zeros(M, 20)[:, :N], 300)), "'out' needs"),
}


def _halves(whole: Tensor) -> tuple[Tensor, Tensor]:
    return whole[:, :N], whole[:, N:]


def _across(whole: Tensor) -> tuple[Tensor, Tensor]:
    return whole[:, :N], whole[:, 1 : 1 + N]


# Raw calls ask nobody what memory means.
ASKED = [(case, way) for case in CASES for way in WAYS if way != "raw" or "negated" not in case]


@pytest.mark.parametrize(("case", "way"), ASKED)
def test_views(calls: dict[str, Call], case: str, way: str) -> None:
    make, outcome = CASES[case]
    call, y = calls[way], numbers(M, N)
    for warm in (False, True):  # what was found out about an earlier call hides nothing
        for _ in range(3 * warm):
            call(numbers(M, N), y)
            call(numbers(M, 20)[:, 3 : 3 + N], y, out=torch.zeros(M, 20)[:, 7 : 7 + N])
        x, out = make()
        if outcome == RIGHT:
            expected = x + 2 * y
            for _ in range(3):
                assert torch.equal(call(x, y, out=out), expected)
                assert out is None or torch.equal(out, expected)
        else:
            with pytest.raises((ArgumentError, RuntimeError), match=outcome):
                call(x, y, out=out)


@pytest.mark.parametrize("way", WAYS)
def test_what_has_to_be_contiguous_is_refused_with_the_call_to_write(calls: dict[str, Call], way: str) -> None:
    with pytest.raises(
        ArgumentError, match=r"'y' has strides \(1, 5\), expected a contiguous tensor; pass y.contiguous"
    ):
        calls[way](numbers(M, N), numbers(N, M).t())


def test_no_rows_and_no_columns(calls: dict[str, Call]) -> None:
    for shape in ((0, N), (M, 0), (0, 0)):
        x = torch.zeros(9, 9)[: shape[0], : shape[1]]
        assert calls["wrapper"](x, torch.zeros(shape)).shape == shape
        assert calls["kernel"](x, torch.zeros(shape), out=torch.zeros(9, 9)[: shape[0], : shape[1]]).shape == shape


def test_nothing_is_copied(calls: dict[str, Call], monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(*_: object) -> Tensor:
        raise AssertionError("a tensor is copied")

    x, y, out = numbers(M, 20)[:, 3 : 3 + N], numbers(M, N), torch.zeros(M, 20)[:, 7 : 7 + N]
    with monkeypatch.context() as patched:
        for name in ("clone", "contiguous", "copy_"):
            patched.setattr(Tensor, name, copied)
        for _ in range(3):
            calls["wrapper"](x, y, out=out)
    assert torch.equal(out, x + 2 * y)


def test_a_compiled_graph_passes_views_on(calls: dict[str, Call]) -> None:
    scaled = calls["wrapper"]

    def model(whole: Tensor, y: Tensor) -> Tensor:
        return scaled(whole[:, 3 : 3 + N], y) + scaled(whole[:, 4 : 4 + N], y)

    whole, y = numbers(M, 20), numbers(M, N)
    compiled = torch.compile(model, backend="aot_eager")
    assert torch.equal(compiled(whole, y), model(whole, y))


def test_halves_of_a_pool_are_changed_in_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    module, kernel = _module(IN_PLACE, tmp_path_factory.mktemp("in_place_strided"))
    for call in (module.raised, kernel):
        pool = numbers(M, 2 * N)
        before = pool.clone()
        for _ in range(3):
            call(pool[:, N:], pool[:, :N])
        assert torch.equal(pool[:, :N], before[:, :N] + 3 * before[:, N:]) and torch.equal(pool[:, N:], before[:, N:])
        with pytest.raises(ArgumentError, match="'y' shares memory with 'x'"):
            call(pool[:, :N], pool[:, 2 : 2 + N])
        with pytest.raises(ArgumentError, match=r"'y' has .* share memory"):
            call(pool[:, :N], torch.zeros(1, N).expand(M, N))
