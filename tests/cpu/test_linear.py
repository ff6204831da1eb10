"""One family for linear with an activation, an optional bias and three types, on the CPU: what a call gives picks the
member, and what none is for is refused by name."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.families.linear import ACTIVATIONS, TYPES, arguments, check, family
from tests.runtime.generated import import_wrapper
from wavespec.cache import CompileCache
from wavespec.generate import family_files, write_files
from wavespec.runtime import ArgumentError, ArgumentTypeError


def wrapper(name: str, folder: Path) -> ModuleType:
    files = family_files(
        family(name), ["cpu"], f"specs/{name}.wave.yaml", command="wavespec build", cache=CompileCache(folder / "cache")
    )
    write_files(files, folder)
    return import_wrapper(folder / f"{name}.py")


@pytest.fixture(scope="module")
def module(one_variant: None, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Two activations and two types, in a family that extends the one of all."""
    return wrapper("small_linear", tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("leading", [(70,), (), (2, 35), (0,)], ids=str)
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_call_gets_the_member_for_what_it_gives(
    module: ModuleType, dtype: torch.dtype, activation: str, leading: tuple[int, ...]
) -> None:
    x, w, bias = arguments(dtype, leading)
    for given in (None, bias, bias, None):  # the same calls again go another way
        result = module.small_linear(x, w, given, activation=activation)
        check(result, activation, x, w, given)
        out = torch.ones_like(result)
        assert module.small_linear(x, w, bias=given, out=out, activation=activation) is out and torch.equal(out, result)
        out.fill_(1)
        module.small_linear_raw(x.reshape(-1, 90), w, given, out.view(-1, 50), activation=activation)
        assert torch.equal(out, result)


def test_arguments_with_a_default_are_left_out(module: ModuleType) -> None:
    x, w, _ = arguments(torch.float32)
    check(module.small_linear(x, w), "none", x, w)


def test_operators_pass_opcheck(module: ModuleType) -> None:
    x, w, bias = arguments(torch.bfloat16)
    for given in (None, bias):
        torch.library.opcheck(module._small_linear_op, (x, w, given, "gelu"))
        torch.library.opcheck(module._small_linear_out_op, (x, w, given, "none", x.new_empty(70, 50)))


def test_compiles_whole_with_and_without_the_optional_argument(module: ModuleType) -> None:
    def model(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        return module.small_linear(x, w, bias) * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (70, 33):
        x, w, bias = arguments(torch.float32, (rows,))
        for given in (None, bias):
            assert torch.equal(compiled(x, w, given), module.small_linear(x, w, given) * 2)


def test_calls_that_no_member_is_for_say_why(module: ModuleType) -> None:
    x, w, bias = arguments(torch.float32)
    small = module.small_linear
    with pytest.raises(ArgumentError, match=r"'w' is torch.float32, the dtype of 'bias' is torch.bfloat16; there are"):
        small(x, w, bias.bfloat16())
    with pytest.raises(ArgumentError, match=r"'w' is torch.bfloat16, the dtype of 'bias' is left out; there are"):
        small(x, w.bfloat16())
    with pytest.raises(
        ArgumentTypeError, match=r"dtype of 'bias' is torch.float64, expected .*torch.float32.*left out"
    ):
        small(x, w, bias.double())
    with pytest.raises(ArgumentError, match="'activation' is 'tanh', expected 'gelu' or 'none'"):
        small(x, w, activation="tanh")
    with pytest.raises(ArgumentError, match="'bias' has N = 4 in dim 0, but 'w' has N = 50"):
        small(x, w, bias[:4])
    with pytest.raises(ArgumentError, match="'bias' requires grad"):
        small(x, w, bias.clone().requires_grad_())
    with pytest.raises((TypeError, RuntimeError), match="'bias'"):
        small(x, w, [1.0])


@pytest.mark.rare
def test_every_activation_in_every_type(one_variant: None, tmp_path: Path) -> None:
    linear = wrapper("linear", tmp_path).linear
    for dtype in TYPES.values():
        x, w, bias = arguments(dtype, (3, 40))
        for activation in ACTIVATIONS:
            for given in (None, bias):
                check(linear(x, w, given, activation=activation), activation, x, w, given)
