"""Tensors of one call go in; the sizes of all dims come out, or an error that names the argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd import forward_ad

from wavespec.ir.strided import LARGEST_SIZE
from wavespec.runtime.argument_errors import ArgumentError, ArgumentTypeError, counted
from wavespec.runtime.artifact import PACKED, Dim, KernelArtifact, TensorParameter
from wavespec.runtime.overlap import extent_bytes, may_share_memory
from wavespec.runtime.size_expr import SizeExpr, evaluate, names_in
from wavespec.runtime.tensor_strides import (
    DTYPES,
    check_promised,
    check_strides,
    leading_shapes,
    no_value,
    numbers_of_call,
    shape_of_call,
    shape_text,
)

_ModeKey: Final[Any] = torch._C._TorchDispatchModeKey  # pyright: ignore
PLAIN_TYPES: Final = frozenset((Tensor, torch.nn.Parameter))
"""Classes of tensors whose memory holds their numbers."""

# What most calls pass: they take a tenth of a microsecond each.
_is_negated: Final = Tensor.is_neg
_watchers: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack  # pyright: ignore
_transform: Final[Callable[[], object]] = torch._C._functorch.peek_interpreter_stack  # pyright: ignore
_jit_trace: Final[Callable[[], object]] = torch._C._get_tracing_state  # pyright: ignore


def check_inputs(
    artifact: KernelArtifact,
    inputs: Sequence[Any],
    outputs: Sequence[Any] | None = None,
    scalars: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Check every input of a call and return the size of every dim, compiled-in ones included, the offset and strides
    of tensors that may have any, and the ``scalars`` that sizes depend on; of results offset and strides are those of
    ``outputs``, which are not checked here, or of new ones.

    Errors: `ArgumentTypeError` for a wrong count, type or dtype; `ArgumentError` for rank, sizes, devices,
        strides, assumptions.
    """
    expected = artifact.inputs
    if len(inputs) != len(expected):
        names = ", ".join(parameter.name for parameter in expected)
        wanted = counted(len(expected), "input tensor")
        raise ArgumentTypeError(f"{artifact.name}: takes {wanted} ({names}), got {len(inputs)}.")
    for parameter, tensor in zip(expected, inputs, strict=True):
        _check_tensor(artifact, parameter, tensor)
    for parameter, tensor in zip(expected[1:], inputs[1:], strict=True):
        if tensor.device != inputs[0].device:
            raise ArgumentError(
                f"{artifact.name}: argument '{parameter.name}' is on {tensor.device}, "
                f"but '{expected[0].name}' is on {inputs[0].device}."
            )
    for parameter, tensor in zip(expected, inputs, strict=True):
        if parameter.updated or parameter.strides:
            check_strides(f"{artifact.name}: argument '{parameter.name}'", artifact, parameter, tensor)
    sizes = _bind_dims(artifact, inputs, scalars or {})
    if artifact.numbers:
        sizes |= numbers_of_call(artifact, inputs, outputs or (), sizes)
        for parameter, tensor in zip(expected, inputs, strict=True):
            if parameter.promised:
                check_promised(artifact, parameter, tensor, inputs, sizes)
    for assumption in artifact.members[artifact.member_for(sizes)].assumptions:
        try:
            holds = evaluate(assumption.condition, sizes)
        except ArithmeticError as error:
            raise no_value(artifact, f"the kernel assumes {assumption.text}", error, sizes) from None
        if not holds:
            given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise ArgumentError(f"{artifact.name}: the kernel assumes {assumption.text}, but this call has {given}.")
    return sizes


def check_outputs(
    artifact: KernelArtifact, inputs: Sequence[Tensor], outputs: Sequence[Any], sizes: dict[str, int]
) -> None:
    """Check tensors given for the results: dtype, device, exact shape, strides; and `check_memory`."""
    expected = artifact.outputs
    labels, leading = _output_labels(artifact), leading_shapes(artifact, inputs)
    if len(outputs) != len(expected):
        names = ", ".join(parameter.name for parameter in expected) or "none: arguments are changed in place"
        raise ArgumentTypeError(f"{artifact.name}: 'out' takes {len(expected)} tensors ({names}), got {len(outputs)}.")
    for label, parameter, tensor in zip(labels, expected, outputs, strict=True):
        _check_tensor(artifact, parameter, tensor, label)
        where = f"{artifact.name}: argument '{label}'"
        shape = shape_of_call(parameter, parameter.shape(sizes), leading)
        if tuple(tensor.shape) != shape:
            raise ArgumentError(
                f"{where} has shape {shape_text(tensor.shape)}, expected {shape_text(shape)} = "
                f"{_dims(artifact, parameter)}."
            )
        if tensor.device != inputs[0].device:
            first = artifact.inputs[0].name
            raise ArgumentError(f"{where} is on {tensor.device}, but '{first}' is on {inputs[0].device}.")
        check_strides(where, artifact, parameter, tensor)
        if parameter.promised:
            check_promised(artifact, parameter, tensor, (*inputs, *outputs), sizes, label)
    check_memory(artifact, inputs, outputs)


def check_memory(artifact: KernelArtifact, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Check that inputs may be changed in place, and results written to `outputs` where these are given: no memory
    shared with another tensor, no gradient."""
    arguments = list(zip(artifact.inputs, inputs, strict=True))
    named = [(parameter.name, tensor) for parameter, tensor in arguments if not parameter.updated]
    written = [(parameter.name, tensor) for parameter, tensor in arguments if parameter.updated]
    written += zip(_output_labels(artifact), outputs, strict=True) if outputs else ()
    for label, tensor in written:
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{artifact.name}: argument '{label}' requires grad, but results are written in place without a "
                "gradient."
            )
        for other, tensor_read in named:
            if may_share_memory(tensor, tensor_read):
                raise ArgumentError(f"{artifact.name}: argument '{label}' shares memory with '{other}'.")
        named.append((label, tensor))


def _output_labels(artifact: KernelArtifact) -> list[str]:
    """What a call's arguments for the results are called."""
    names = [parameter.name for parameter in artifact.outputs]
    return ["out"] if len(names) == 1 else names


def check_tensors(kernel: str, results: tuple[str, ...], /, **arguments: Any) -> None:
    """Check that arguments are dense tensors before torch's dispatcher says in words of its own that they are not, or
    that there is none; None beside a tensor is left to others.

    Args:
        results: the names of the results, which ``out`` has where there is one among the ``arguments``.

    Errors: `ArgumentTypeError`, which names the argument.
    """
    if all(one is None for one in arguments.values()):
        name = next(iter(arguments))
        raise ArgumentTypeError(f"{kernel}: argument '{name}' is of type NoneType, expected a torch.Tensor.")
    out: Tensor | Sequence[Tensor] | None = arguments.pop("out", None) if len(results) > 1 else None
    if out is not None:
        given = tuple(out) if isinstance(out, tuple | list) else (out,)  # not the rows of one tensor
        if len(given) != len(results):
            names = ", ".join(results)
            raise ArgumentTypeError(f"{kernel}: 'out' takes {len(results)} tensors ({names}), got {len(given)}.")
        arguments |= zip(results, given, strict=True)
    for name, one in arguments.items():
        where = f"{kernel}: argument '{name}'"
        if one is not None and not isinstance(one, Tensor):
            raise ArgumentTypeError(f"{where} is of type {type(one).__name__}, expected a torch.Tensor.")
        if one is not None:
            check_dense(where, one)


def check_dense(where: str, tensor: Tensor) -> None:
    """Errors: `ArgumentTypeError` for a tensor of another layout."""
    if tensor.is_nested:
        raise ArgumentTypeError(f"{where} is a nested tensor, expected a dense one.")
    if tensor.layout != torch.strided:
        raise ArgumentTypeError(f"{where} has layout {tensor.layout}, expected a dense tensor.")


def are_plain(tensors: tuple[Tensor, ...]) -> bool:
    """Whether the memory of all tensors holds their numbers, and nobody watches: what most calls are."""
    return (
        PLAIN_TYPES.issuperset(map(type, tensors))
        and not any(map(_is_negated, tensors))
        and not _watchers()
        and _transform() is None
        and _jit_trace() is None  # pyright: ignore[reportUnnecessaryComparison]
    )


def check_plain(where: str, tensor: Any, *, written: bool) -> None:
    """Check that the memory of a tensor holds its numbers; a `Kernel` reads memory, whatever the tensor's class says.

    Errors: `ArgumentTypeError` for subclasses (fake, masked, distributed, ...); `ArgumentError` for a view that negates
        and that is written.
    """
    if not isinstance(tensor, Tensor):
        return  # The full check says so.
    if type(tensor) not in PLAIN_TYPES:
        raise ArgumentTypeError(
            f"{where} is a {type(tensor).__name__}, whose memory may hold something else than its numbers; "
            "pass a plain torch.Tensor, or call the generated wrapper, which goes through torch's dispatcher."
        )
    if written and tensor.is_neg():
        raise negated_view(where)


def negated_view(where: str) -> ArgumentError:
    """The error of writing to a tensor whose memory holds the numbers with the other sign."""
    return ArgumentError(f"{where} is a view that negates what it is of, expected a tensor of its own.")


def tracing_context() -> str | None:
    """What is recording torch's operators in place of running them, or takes derivatives of them; None if nothing."""
    transform = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore
    if transform is not None:
        return f"torch.func.{transform.key().name.lower()}"  # pyright: ignore
    if torch._C._get_tracing_state() is not None:  # pyright: ignore
        return "torch.jit.trace"
    for key in (_ModeKey.FAKE, _ModeKey.PROXY, _ModeKey.FUNCTIONAL):
        if (mode := torch._C._get_dispatch_mode(key)) is not None:  # pyright: ignore
            return type(mode).__name__  # pyright: ignore
    return None


def no_backward(kernel: str, **inputs: Tensor | None) -> ArgumentError:
    """The error of calling a kernel that has no backward with an input that requires grad; None was left out."""
    name = next(name for name, tensor in inputs.items() if tensor is not None and tensor.requires_grad)
    return ArgumentError(
        f"{kernel}: argument '{name}' requires grad, but this kernel has no backward; "
        f"call it under torch.no_grad(), pass {name}.detach(), or give it one by a torch.autograd.Function."
    )


def check_derivatives(artifact: KernelArtifact, tensors: Sequence[Tensor]) -> None:
    """Check that nobody takes a derivative of a call, which kernels do not have.

    Errors: `ArgumentError` for an argument that requires grad where that is enabled, or that has a tangent.
    """
    named = {parameter.name: tensor for parameter, tensor in zip(artifact.tensors, tensors, strict=False)}
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise no_backward(artifact.name, **named)
    for name, tensor in named.items():
        if forward_ad.unpack_dual(tensor).tangent is not None:  # pyright: ignore[reportUnknownMemberType]
            raise ArgumentError(
                f"{artifact.name}: argument '{name}' has a tangent, but this kernel has no forward-mode derivative; "
                f"call it with torch.autograd.forward_ad.unpack_dual({name}).primal."
            )


def _check_tensor(artifact: KernelArtifact, parameter: TensorParameter, tensor: Any, label: str | None = None) -> None:
    where = f"{artifact.name}: argument '{label or parameter.name}'"
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(f"{where} is of type {type(tensor).__name__}, expected a torch.Tensor.")
    dtype = DTYPES[parameter.dtype]
    if tensor.dtype != dtype:
        raise ArgumentTypeError(f"{where} has dtype {tensor.dtype}, expected {dtype}.")
    check_dense(where, tensor)
    rank = len(parameter.dims)
    is_folded = bool(artifact.leading_dims.intersection(parameter.dims))
    if tensor.dim() < rank - 1 if is_folded else tensor.dim() != rank:
        expected = f"at least {rank - 1}" if is_folded else rank
        raise ArgumentError(
            f"{where} has {counted(tensor.dim(), 'dim')} {shape_text(tensor.shape)}, "
            f"expected {expected}: {_dims(artifact, parameter)}."
        )
    if tensor.device.type != "meta" and tensor.numel():
        needed = tensor.storage_offset() * dtype.itemsize + extent_bytes(tensor)
        if (there := tensor.untyped_storage().nbytes() if tensor.data_ptr() else 0) < needed:
            raise ArgumentError(f"{where} needs {needed} bytes of its storage, which has {there}.")


def _bind_dims(artifact: KernelArtifact, inputs: Sequence[Tensor], scalars: Mapping[str, int]) -> dict[str, int]:
    declared = {dim.name: dim for dim in artifact.dims}
    sizes = {**scalars, **{dim.name: dim.size for dim in artifact.dims if dim.size is not None}}
    first: dict[str, tuple[str, str]] = {}
    for parameter, tensor in zip(artifact.inputs, inputs, strict=True):
        for axis, (name, size) in enumerate(zip(parameter.dims, _extents(artifact, parameter, tensor), strict=True)):
            axes = _axes(parameter, tensor, axis)
            where = f"{artifact.name}: argument '{parameter.name}' has {name} = {size} in {axes}"
            if isinstance(name, int):
                if size != name:
                    raise ArgumentError(
                        f"{artifact.name}: argument '{parameter.name}' has size {size} in {axes}, expected {name}."
                    )
                continue
            if name not in sizes:
                _check_size(where, size, declared[name].multiple_of)
                sizes[name], first[name] = size, (parameter.name, axes)
            elif size != sizes[name] and name in first:
                other, other_axes = first[name]
                raise ArgumentError(f"{where}, but '{other}' has {name} = {sizes[name]} in {other_axes}.")
            elif size != sizes[name]:
                raise ArgumentError(f"{where}, but this kernel was built for {name} = {sizes[name]}.")
    _check_leading(artifact, inputs)
    for dim in artifact.dims:
        if dim.equals is not None:
            _derive(artifact, dim, dim.equals, sizes, first)
    return sizes


def _axes(parameter: TensorParameter, tensor: Tensor, axis: int) -> str:
    """Where a tensor has the dim `axis` of its parameter."""
    more = tensor.dim() - len(parameter.dims)
    if axis == 0 and more:
        return f"its first {more + 1} dims"
    return f"dim {axis + more}"


def _check_leading(artifact: KernelArtifact, inputs: Sequence[Tensor]) -> None:
    """Check that inputs have the same sizes in place of a dim that stands for leading ones, not only the same
    product."""
    first: dict[str, tuple[str, tuple[int, ...]]] = {}
    for parameter, tensor in zip(artifact.inputs, inputs, strict=True):
        for dim in artifact.leading_dims.intersection(map(str, parameter.dims)):
            mine = parameter.leading(tensor.shape)
            name, other = first.setdefault(dim, (parameter.name, mine))
            if mine != other:
                raise ArgumentError(
                    f"{artifact.name}: argument '{parameter.name}' has the leading dims {shape_text(mine)} for {dim}, "
                    f"but '{name}' has {shape_text(other)}."
                )


def _extents(artifact: KernelArtifact, parameter: TensorParameter, tensor: Tensor) -> tuple[int, ...]:
    """In elements of the spec, some of which may share what torch takes for one."""
    if parameter.dtype in PACKED and tensor.shape[-1] % (whole := PACKED[parameter.dtype][1]):
        raise ArgumentError(
            f"{artifact.name}: argument '{parameter.name}' has size {tensor.shape[-1]} in dim {tensor.dim() - 1}, "
            f"expected a multiple of {whole}: so many bytes hold {PACKED[parameter.dtype][0]} elements of "
            f"{parameter.dtype}."
        )
    if not artifact.leading_dims.intersection(parameter.dims):
        return parameter.extents(tensor.shape)
    leading = parameter.leading(tensor.shape)
    return parameter.extents((prod(leading), *tensor.shape[len(leading) :]))


def _derive(
    artifact: KernelArtifact, dim: Dim, equals: SizeExpr, sizes: dict[str, int], first: Mapping[str, tuple[str, str]]
) -> None:
    """Compute the size of a dim that follows from others, or check the one that an input has, ``first`` of all."""
    for name in sorted(names_in(equals) - sizes.keys()):
        other = next(other for other in artifact.dims if other.name == name)
        assert other.equals is not None
        _derive(artifact, other, other.equals, sizes, first)
    known = {name: sizes[name] for name in sorted(names_in(equals))}
    given = ", ".join(f"{name} = {size}" for name, size in known.items())
    try:
        size = evaluate(equals, sizes)
    except ArithmeticError as error:
        raise no_value(artifact, f"{dim.name} follows from other sizes", error, known) from None
    where = f"{artifact.name}: {given} make {dim.name} = {size}"
    if sizes.get(dim.name, size) != size:
        argument, axes = first[dim.name]
        raise ArgumentError(f"{where}, but argument '{argument}' has {dim.name} = {sizes[dim.name]} in {axes}.")
    if size < 0:
        raise ArgumentError(f"{where}, expected at least 0.")
    _check_size(where, size, dim.multiple_of)
    sizes[dim.name] = size


def _check_size(where: str, size: int, multiple_of: int) -> None:
    if size > LARGEST_SIZE:
        raise ArgumentError(f"{where}, expected at most {LARGEST_SIZE}.")
    if size % multiple_of:
        raise ArgumentError(f"{where}, expected a multiple of {multiple_of}.")


def _dims(artifact: KernelArtifact, parameter: TensorParameter) -> str:
    """`[M, N]`; `[*M, N]` where any number of dims is in place of M."""
    marked = (f"*{dim}" if dim in artifact.leading_dims else str(dim) for dim in parameter.dims)
    return "[" + ", ".join(marked) + "]"
