"""A compiled kernel goes in; the operator that graphs of torch call in its place comes out.

A `Kernel` reads memory, which tensors without data do not have. Where torch traces (`torch.compile`, `torch.export`,
`make_fx`, `torch.jit.trace`, fake tensors), a call of it is one of an operator, which is defined when the first one is
traced and kept, as torch keeps all operators, with the kernel.
"""

# torch.library and symbolic sizes are typed in part only, and `torch._check` is private by its name alone.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from wavespec.runtime.argument_errors import ArgumentError, ArgumentTypeError, counted
from wavespec.runtime.artifact import KernelArtifact, TensorParameter, stored_shape
from wavespec.runtime.scalars import ScalarParameter
from wavespec.runtime.size_expr import OPERATIONS, SizeExpr, as_text
from wavespec.runtime.tensor_strides import DTYPES, new_result
from wavespec.runtime.torch_ops import define_operator

if TYPE_CHECKING:
    from wavespec.runtime.kernel import Kernel

_SYMBOLIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **OPERATIONS,
    "div": OPERATIONS["floordiv"],
    "min": torch.sym_min,
    "max": torch.sym_max,
}
"""What `OPERATIONS` mean for sizes that torch traces: `int` and `min` would make constants of them."""
_TYPES: Final = {bool: "bool", int: "SymInt", float: "float"}

_defined: dict[str, Kernel] = {}
"""By the namespaces of operators, the kernels that they run."""
_defining: Final = threading.Lock()
"""torch takes an operator once; threads may trace first calls of one kernel at the same time."""


def define_operators(kernel: Kernel) -> str:
    """Define the operators of a kernel where there are none, and tell their namespace, which is the kernel's from then
    on: Dynamo guards it, so that a graph is made anew for another kernel in the place of this one."""
    if not kernel.namespace:
        namespace = f"wavespec_kernel_{_identity(kernel.artifact)}"
        with _defining:
            if namespace not in _defined:
                _define(kernel, namespace)
                _defined[namespace] = kernel
        kernel.namespace = namespace
    return kernel.namespace


# What `torch.compiler.assume_constant_result` does, which imports all of Dynamo for it.
define_operators._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def _identity(artifact: KernelArtifact) -> str:
    """What tells kernels apart: how they are called, what they take of that, and their machine code."""
    told = hashlib.sha256(repr((artifact.name, [case.conditions for case in artifact.cases])).encode())
    for member in artifact.members:
        parts = [(part.tensors, part.grid, [binary.sha256 for binary in part.binaries]) for part in member.parts]
        called = (member.target, member.tensors, member.dims, member.scalars, member.assumptions)
        told.update(repr((*called, parts)).encode())
    return told.hexdigest()[:16]


def call_in_graph(
    kernel: Kernel, inputs: Sequence[Tensor], outputs: tuple[Tensor, ...], named: Mapping[str, Any]
) -> Any:
    """A call of the operator of a kernel, which Dynamo traces through; returns what the call of the kernel does.

    Args:
        named: inputs and scalars that the call passes by name.
    """
    artifact = kernel.artifact
    tensors = list(inputs)
    for parameter in artifact.inputs[: len(inputs)]:
        if parameter.name in named:
            raise ArgumentTypeError(
                f"{artifact.name}: argument '{parameter.name}' is passed by its place and by its name."
            )
    for parameter in artifact.inputs[len(inputs) :]:
        if parameter.name not in named:
            raise ArgumentTypeError(f"{artifact.name}: argument '{parameter.name}' is missing.")
        tensors.append(named[parameter.name])
    if len(tensors) != len(artifact.inputs):
        wanted = counted(len(artifact.inputs), "input tensor")
        raise ArgumentTypeError(f"{artifact.name}: takes {wanted}, got {len(tensors)}.")
    numbers: list[Any] = []
    for one in artifact.scalars:
        if one.name not in named and one.default is None and one.computed is None:
            raise ArgumentTypeError(f"{artifact.name}: argument '{one.name}' has no default; pass {one.name}=....")
        numbers.append(named.get(one.name, one.default))
    for name in named:
        if all(name != one.name for one in (*artifact.inputs, *artifact.scalars)):
            raise ArgumentTypeError(f"{artifact.name}: got '{name}', which is none of its arguments.")
    if outputs and len(outputs) != len(artifact.outputs):
        results = ", ".join([one.name for one in artifact.outputs])
        raise ArgumentTypeError(
            f"{artifact.name}: 'out' takes {len(artifact.outputs)} tensors ({results}), got {len(outputs)}."
        )
    define_operators(kernel)
    operators = getattr(torch.ops, kernel.namespace)
    if outputs:
        getattr(operators, f"{artifact.name}_out").default(*tensors, *outputs, *numbers)
    else:
        made = getattr(operators, artifact.name).default(*tensors, *numbers)
        outputs = () if made is None else (made,) if isinstance(made, Tensor) else tuple(made)
    changed = [tensor for parameter, tensor in zip(artifact.inputs, tensors, strict=True) if parameter.updated]
    written = (*changed, *outputs)
    return written[0] if len(written) == 1 else written


def _define(kernel: Kernel, namespace: str) -> None:
    artifact, count = kernel.artifact, len(kernel.artifact.inputs)
    updated = [tensor.name for tensor in artifact.updated]
    written = {
        name: f"({chr(ord('a') + i)}!)" for i, name in enumerate([*updated, *(t.name for t in artifact.outputs)])
    }
    taken = [f"Tensor{written.get(tensor.name, '')} {tensor.name}" for tensor in artifact.inputs]
    numbers = [f"{_type(one)} {one.name}" for one in artifact.scalars]
    results = "Tensor" if len(artifact.outputs) == 1 else f"({', '.join('Tensor' for _ in artifact.outputs)})"

    def new(*arguments: Any) -> Any:
        return kernel.new(*arguments[:count], scalars=arguments[count:])

    def write(*arguments: Any) -> None:
        tensors = len(artifact.tensors)
        kernel.write(*arguments[:tensors], scalars=arguments[tensors:])

    def fake(*arguments: Any) -> Any:
        return results_in_graph(artifact, arguments[:count], arguments[count:])

    def fake_of_out(*_: Any) -> None:
        """Nothing to say: the results are tensors that the caller already has."""

    name = f"{namespace}::{artifact.name}"
    function = new if artifact.outputs else write
    define_operator(name, f"({', '.join([*taken, *numbers])}) -> {results}", function, fake)
    if artifact.outputs:
        outs = [f"Tensor{written[tensor.name]} {tensor.name}" for tensor in artifact.outputs]
        define_operator(f"{name}_out", f"({', '.join([*taken, *outs, *numbers])}) -> ()", write, fake_of_out)


def _type(scalar: ScalarParameter) -> str:
    """In a schema; what follows from sizes is None where a call does not say it."""
    return _TYPES[scalar.type] + ("?" if scalar.computed is not None else "")


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What is known of the sizes of a traced call, which may be symbols."""

    artifact: KernelArtifact
    of: dict[str, Any]
    first: dict[str, str]
    """The input that a size was found at."""

    def bind(self, parameter: TensorParameter, tensor: Tensor) -> None:
        """Find out the sizes of an input, or check them."""
        where = f"{self.artifact.name}: argument '{parameter.name}'"
        for dim, size in zip(parameter.dims, _extents(self.artifact, parameter, tensor), strict=True):
            if isinstance(dim, int):
                torch._check(size == dim, partial("{} has another size than {}.".format, where, dim))
            elif dim in self.of:
                other = f"'{self.first[dim]}' has" if dim in self.first else "this kernel was built for"
                torch._check(size == self.of[dim], partial("{} has another {} than {}.".format, where, dim, other))
            else:
                self.of[dim], self.first[dim] = size, parameter.name
                multiple = next(one.multiple_of for one in self.artifact.dims if one.name == dim)
                if multiple > 1:
                    torch._check(size % multiple == 0, partial(_no_multiple, where, dim, multiple))

    def value(self, expression: SizeExpr) -> Any:
        """The value of an expression of sizes, itself a symbol where they are."""
        if isinstance(expression, int):
            return expression
        if isinstance(expression, str):
            if expression not in self.of:
                self.derive(expression)
            return self.of[expression]
        operation, left, right = expression[0], self.value(expression[1]), self.value(expression[2])
        if operation == "div":
            text = f"{self.artifact.name}: {as_text(expression)} is no whole number."
            torch._check(left % right == 0, lambda: text)
        return _SYMBOLIC[operation](left, right)

    def derive(self, name: str) -> None:
        """Find out the size of a dim that follows from others, or check it."""
        dim = next(one for one in self.artifact.dims if one.name == name)
        assert dim.equals is not None, name
        size = self.value(dim.equals)
        if name in self.of:
            text = f"{self.artifact.name}: {name} is not {as_text(dim.equals)}."
            torch._check(self.of[name] == size, lambda: text)
        self.of[name] = size


def results_in_graph(artifact: KernelArtifact, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
    """Tensors as a call makes them; sizes of ``inputs``, and scalars that sizes follow from, may be symbols.

    Errors: `ArgumentError` and `ArgumentTypeError`, which name the argument; of sizes `RuntimeError`, as torch raises
        for such a check.
    """
    shaping = {one.name: value for one, value in zip(artifact.scalars, scalars, strict=True) if one.shapes}
    constant = {dim.name: dim.size for dim in artifact.dims if dim.size is not None}
    sizes = _Sizes(artifact, {**shaping, **constant}, {})
    for parameter, tensor in zip(artifact.inputs, inputs, strict=True):
        _check_described(artifact, parameter, tensor)
        sizes.bind(parameter, tensor)
    for dim in artifact.dims:
        if dim.equals is not None:
            sizes.derive(dim.name)
    made = tuple(_result(artifact, parameter, inputs, sizes.of) for parameter in artifact.outputs)
    return None if not made else made[0] if len(made) == 1 else made


def _result(
    artifact: KernelArtifact, parameter: TensorParameter, inputs: Sequence[Tensor], sizes: Mapping[str, Any]
) -> Tensor:
    shape = tuple(dim if isinstance(dim, int) else sizes[dim] for dim in parameter.dims)
    shape = stored_shape(parameter.dtype, shape)
    if artifact.leading_dims.intersection(parameter.dims):
        pairs = zip(artifact.inputs, inputs, strict=True)
        outer = next(one.leading(tensor.shape) for one, tensor in pairs if one.dims[:1] == parameter.dims[:1])
        shape = (*outer, *shape[1:])
    dtype = DTYPES[parameter.dtype]
    if not parameter.promised:
        return inputs[0].new_empty(shape, dtype=dtype)
    placed = [(one, tensor) for one, tensor in zip(artifact.inputs, inputs, strict=True) if one.promised]
    described = (*(one for one, _ in placed), *(one for one in artifact.outputs if one.promised))
    number = described.index(parameter)
    return new_result(inputs[0], shape, dtype, number, described, [tensor for _, tensor in placed], sizes)


def _check_described(artifact: KernelArtifact, parameter: TensorParameter, tensor: Tensor) -> None:
    """Check what torch knows of a tensor while it traces: its type, how many dims it has, and where it is."""
    where = f"{artifact.name}: argument '{parameter.name}'"
    if tensor.dtype != DTYPES[parameter.dtype]:
        raise ArgumentTypeError(f"{where} has dtype {tensor.dtype}, expected {DTYPES[parameter.dtype]}.")
    folded, rank = bool(artifact.leading_dims.intersection(parameter.dims)), len(parameter.dims)
    if tensor.dim() < rank - 1 if folded else tensor.dim() != rank:
        expected = f"at least {rank - 1}" if folded else str(rank)
        raise ArgumentError(f"{where} has {tensor.dim()} dims, expected {expected}.")
    device = "cpu" if artifact.backend == "cpu" else "cuda"
    if tensor.device.type not in (device, "meta"):
        raise ArgumentError(f"{where} is on {tensor.device}, but this kernel was built for {artifact.target}.")


def _extents(artifact: KernelArtifact, parameter: TensorParameter, tensor: Tensor) -> tuple[Any, ...]:
    """The sizes of the dims of the kernel, in elements."""
    shape = tuple(tensor.shape)
    if artifact.leading_dims.intersection(parameter.dims):
        outer = parameter.leading(shape)
        shape = (prod(outer), *shape[len(outer) :])
    return parameter.extents(shape)


def _no_multiple(where: str, dim: str, multiple: int) -> str:
    return f"{where} needs {dim} to be a multiple of {multiple}."
