"""Kernels in several element types, of any number of leading dims, on the CPU: the function picks by the types of the
tensors, results have the leading dims, and what does not go together is refused by name."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from tests.runtime.generated import import_wrapper
from tests.schema.typed import SCALED
from wavespec.cache import CompileCache
from wavespec.generate import family_files, write_files
from wavespec.pipeline import compile
from wavespec.runtime import ArgumentError
from wavespec.schema import loads
from wavespec.schema.families.load_family import loads_family

DTYPES = (torch.float32, torch.bfloat16)
LEADING = [(5,), (), (2, 3), (2, 1, 3), (2, 0, 3), (0,), (1, 1, 1, 1)]


@pytest.fixture(scope="module")
def module(one_variant: None, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder, name = tmp_path_factory.mktemp("scaled"), "specs/scaled.wave.yaml"
    family = loads_family(SCALED, name)
    files = family_files(family, ["cpu"], name, command="wavespec build", cache=CompileCache(folder / "cache"))
    write_files(files, folder)
    return import_wrapper(folder / "scaled.py")


def inputs(leading: tuple[int, ...], dtype: torch.dtype, n: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    x, weight, bias = (torch.randint(-4, 5, shape, generator=generator) for shape in ((*leading, n), (n,), leading))
    return x.to(dtype), weight.to(dtype), bias.float()


def expected(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return x * weight + bias[..., None].to(x.dtype), x.amax(-1)


def same(results: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> bool:
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(results, others, strict=True))


@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_pick_and_leading_dims_come_back(
    module: ModuleType, dtype: torch.dtype, leading: tuple[int, ...]
) -> None:
    for n in (40, 37):
        args = inputs(leading, dtype, n)
        results = module.scaled(*args)
        assert all(same(one, expected(*args)) for one in (results, module.scaled(*args), module.scaled(*args)))
        out = tuple(map(torch.ones_like, results))
        assert module.scaled(*args, out=out) is out and same(out, results)
        raw = tuple(map(torch.ones_like, results))
        module.scaled_raw(*args, *raw)
        assert same(raw, results)


def test_what_is_not_contiguous_is_copied(module: ModuleType) -> None:
    x, weight, bias = inputs((3, 4), torch.bfloat16)
    turned = x.transpose(0, 1)
    assert same(module.scaled(turned, weight, bias.T), expected(turned, weight, bias.T))


def test_calls_like_earlier_ones_ask_no_dispatcher(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with parameters of a module, which weights mostly are."""
    calls = [
        (x, Parameter(weight, requires_grad=False), bias)
        for dtype in DTYPES
        for x, weight, bias in (inputs(leading, dtype) for leading in ((6,), (2, 3), (3, 2)))
    ]
    for args in calls * 2:
        module.scaled(*args)
    monkeypatch.setattr(module, "_scaled_op", None)
    for args in calls:
        assert same(module.scaled(*args), expected(*args))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operators_pass_opcheck(module: ModuleType, dtype: torch.dtype) -> None:
    for leading in ((5,), (2, 3), ()):
        args = inputs(leading, dtype)
        torch.library.opcheck(module._scaled_op, args)
        torch.library.opcheck(module._scaled_out_op, (*args, *module.scaled(*args)))


def test_compiles_whole_with_dynamic_shapes(module: ModuleType) -> None:
    def model(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return tuple(one.clone() for one in module.scaled(x * 2, weight, bias))

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for dtype in DTYPES:
        for leading in ((5,), (7,), (2, 3), (3, 5), (2, 3, 4)):
            x, weight, bias = inputs(leading, dtype)
            assert same(compiled(x, weight, bias), expected(x * 2, weight, bias))


def test_fakes_refuse_what_calls_refuse(module: ModuleType) -> None:
    x, weight, bias = (tensor.to("meta") for tensor in inputs((2, 3), torch.float32))
    results = module.scaled(x, weight, bias)
    assert [tuple(one.shape) for one in results] == [(2, 3, 40), (2, 3)]
    with pytest.raises(RuntimeError, match="scaled: argument 'bias' has other leading dims for M than 'x'"):
        module.scaled(x, weight, bias.reshape(6))
    with pytest.raises(RuntimeError, match="scaled: argument 'x' needs at least 1 dims"):
        module.scaled(x[0, 0, 0], weight, bias)
    with pytest.raises(ArgumentError, match=r"no member is for a call where the dtype of 'x' is torch.float32"):
        module.scaled(x, weight.bfloat16(), bias)


def test_mixed_and_other_types_are_refused_with_what_there_is(module: ModuleType) -> None:
    x, weight, bias = inputs((2, 3), torch.float32)
    there = r"there are torch.float32, torch.float32; torch.bfloat16, torch.bfloat16"
    with pytest.raises(ArgumentError, match=rf"'x' is torch.float32, the dtype of 'weight' is torch.bfloat16; {there}"):
        module.scaled(x, weight.bfloat16(), bias)
    with pytest.raises(TypeError, match=r"the dtype of 'x' is torch.float16, expected torch.float32 or torch.bfloat16"):
        module.scaled(x.half(), weight, bias)
    with pytest.raises(TypeError, match=r"argument 'bias' has dtype torch.bfloat16, expected torch.float32"):
        module.scaled(x, weight, bias.bfloat16())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3, 40), (40,), (6,)), r"argument 'bias' has the leading dims \[6\] for M, but 'x' has \[2, 3\]"),
        (((2, 3, 40), (40,), (2, 4)), r"'bias' has M = 8 in its first 2 dims, but 'x' has M = 6 in its first 2 dims"),
        (((2, 3, 40), (41,), (2, 3)), r"'weight' has N = 41 in dim 0, but 'x' has N = 40 in dim 2"),
        (((), (40,), ()), r"argument 'x' has 0 dims \[\], expected at least 1: \[\*M, N\]"),
        (((2, 40), (1, 40), (2,)), r"argument 'weight' has 2 dims \[1, 40\], expected 1: \[N\]"),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(
    module: ModuleType, shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        module.scaled(*map(torch.zeros, shapes))


def test_out_has_the_leading_dims_of_the_call(module: ModuleType) -> None:
    args = inputs((2, 3), torch.float32)
    with pytest.raises(ArgumentError, match=r"argument 'y' has shape \[6, 40\], expected \[2, 3, 40\] = \[\*M, N\]"):
        module.scaled(*args, out=(torch.zeros(6, 40), torch.zeros(6)))


def test_kernel_without_a_wrapper_folds_too(one_variant: None) -> None:
    kernel = compile(loads(SCALED))
    args = inputs((2, 3), torch.float32)
    for _ in range(3):
        assert same(kernel(*args), expected(*args))
