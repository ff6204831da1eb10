"""A schema and two functions go in; an operator that torch.compile and torch.export understand comes out."""

# torch.library is typed in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from wavespec.runtime.checks import ArgumentError, negated_view, no_backward

_libraries: dict[str, tuple[str, torch.library.Library]] = {}
"""By the names of operators: the file of the wrapper that defined each, and what keeps it defined."""


def define_operator(
    name: str,
    schema: str,
    function: Callable[..., Any],
    fake: Callable[..., Any],
) -> Any:
    """Register `namespace::op` and return its one overload, ready to be called.

    Args:
        name: `namespace::op`; a wrapper that defines it again replaces it, as reloading does. Another copy of the
            wrapper, which may have other code beside it, gets a name of its own.
        schema: what follows the name, e.g. `(Tensor a, Tensor b) -> Tensor`.
        function: computes on real tensors, on any device that it likes; gets the arguments of the schema.
        fake: the same on tensors without data: only shapes and dtypes of the result matter.
    """
    namespace, op = name.split("::")
    home = fake.__code__.co_filename
    if name in _libraries and _libraries[name][0] != home:
        namespace += f"_{hashlib.sha256(home.encode()).hexdigest()[:8]}"
        name = f"{namespace}::{op}"
    if name in _libraries:
        _libraries.pop(name)[1]._destroy()  # pyright: ignore[reportPrivateUsage]
    # Library.define costs about 1 µs a call, torch.library.custom_op 6 (measured, torch 2.13).
    library = torch.library.Library(namespace, "FRAGMENT")
    # An op that writes has a name of its own and is not the overload `.out` of the functional one: Inductor of
    # torch 2.13 would lower to that overload by itself and fails on it with dynamic shapes (pytorch issue 185503).
    library.define(op + schema, tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        library.impl(op, function, key)
    operator = getattr(getattr(torch.ops, namespace), op).default
    arguments = [argument.name for argument in operator._schema.arguments]
    torch.library.register_fake(name, _without_gradients(op, arguments, fake), lib=library)
    # The dispatcher comes here where a transform of torch.func is at work: other calls pay nothing for it.
    library.impl(op, _refuse_transforms(op), "FuncTorchDynamicLayerFrontMode")
    # torch's own kernel for this key fails over operators that write and return nothing, with no argument named.
    library.impl(op, _resolve_negated(op, operator), "Negative")
    _libraries[name] = home, library
    return operator


def _resolve_negated(op: str, operator: Any) -> Callable[..., Any]:
    """The operator for calls in which the memory of a tensor holds the numbers with the other sign."""
    written = [argument.alias_info is not None for argument in operator._schema.arguments]
    names = [argument.name for argument in operator._schema.arguments]

    def resolve(*arguments: Any) -> Any:
        resolved = list(arguments)
        for index, one in enumerate(arguments):
            if isinstance(one, Tensor) and one.is_neg():
                if written[index]:
                    raise negated_view(f"{op}: argument '{names[index]}'")
                resolved[index] = one.resolve_neg()
        return operator(*resolved)

    return resolve


def _without_gradients(op: str, names: list[str], fake: Callable[..., Any]) -> Callable[..., Any]:
    """`fake`, which refuses as the kernel does: a graph that was traced would lose the gradient in silence."""

    @wraps(fake)
    def checked(*arguments: Any) -> Any:
        # Torch leaves out the last arguments where they are equal to their defaults.
        tensors = {name: one for name, one in zip(names, arguments, strict=False) if isinstance(one, Tensor)}
        devices = {name: tensor.device for name, tensor in tensors.items()}
        if len(set(devices.values())) > 1:
            raise ArgumentError(f"{op}: " + ", ".join(f"'{name}' is on {one}" for name, one in devices.items()) + ".")
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
            raise no_backward(op, **tensors)
        return fake(*arguments)

    return checked


def _refuse_transforms(op: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        transform = torch._C._functorch.peek_interpreter_stack().key().name.lower()  # pyright: ignore
        instead = ", with a dim for the batch in place of vmap" if transform == "vmap" else ""
        raise ArgumentError(
            f"{op}: called under a transform of torch.func ({transform}), which kernels do not have; "
            f"call it outside{instead}."
        )

    return refuse
