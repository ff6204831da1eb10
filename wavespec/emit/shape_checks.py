"""The tensors and dims of a kernel go in; what a call has to keep to, and the shapes of its results, come out: as
Python, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wavespec.emit.python_text import listed, tuple_text
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor
from wavespec.ir.dtype import DTYPES
from wavespec.runtime.artifact import PACKED
from wavespec.runtime.size_expr import SizeExpr

TORCH_DTYPES = {name: dtype.torch for name, dtype in DTYPES.items()}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "floordiv": "//", "mod": "%"}


class ShapeCheck(NamedTuple):
    """`condition` as Python, and what is wrong where it does not hold."""

    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class Shapes:
    """What is checked, and the Python that makes tensors like the results."""

    checks: tuple[ShapeCheck, ...]
    made: tuple[str, ...]


def shapes_of(kernel: WrapperInput, name: str) -> Shapes:
    """Of a call of `kernel` by the function `name`."""
    checks, size_of, first_of = _sizes_of_inputs(kernel, name)
    for one in kernel.dims:
        for left, right in _quotients(one.equals):
            message = f"{name}: {size_text(('div', left, right), {})} is no whole number."
            checks.append(ShapeCheck(f"{size_text(('mod', left, right), size_of)} == 0", message))
        if one.equals is not None and one.name not in size_of:
            size_of[one.name] = size_text(one.equals, size_of)
        elif one.equals is not None:
            message = f"{name}: {one.name} is not {size_text(one.equals, {})}."
            if not one.name.isidentifier():
                message = f"{name}: argument '{first_of[one.name]}' has another size where it needs {one.name}."
            checks.append(ShapeCheck(f"{size_of[one.name]} == {size_text(one.equals, size_of)}", message))
    first = kernel.inputs[0].name
    # The sizes of leading dims one by one, where their product is what the dim is.
    leading = {str(one.dims[0]): f"*{_leading(one)}" for one in reversed(kernel.inputs) if one.folded}
    placed = [tensor for tensor in (*kernel.inputs, *kernel.outputs) if tensor.promised]

    def made(tensor: WrapperTensor) -> str:
        shape, dtype = tuple_text(_stored(tensor, size_of | leading)), f"torch.{TORCH_DTYPES[tensor.dtype]}"
        if not tensor.promised:
            return f"{first}.new_empty({shape}, dtype={dtype})"
        described = tuple_text([one.constructed for one in placed])
        given = tuple_text([one.name for one in placed if not one.output])
        sizes = ", ".join(f'"{dim}": {text}' for dim, text in size_of.items())
        return f"new_result({first}, {shape}, {dtype}, {placed.index(tensor)}, {described}, {given}, {{{sizes}}})"

    return Shapes(tuple(checks), tuple(made(tensor) for tensor in kernel.outputs))


def _sizes_of_inputs(kernel: WrapperInput, name: str) -> tuple[list[ShapeCheck], dict[str, str], dict[str, str]]:
    """What shapes of inputs have to be, and for every dim of them the Python of its size and the first input with it."""
    multiple_of = {dim.name: dim.multiple_of for dim in kernel.dims if dim.size is None}
    size_of = {dim.name: str(dim.size) for dim in kernel.dims if dim.size is not None}
    first_of: dict[str, str] = {}
    checks: list[ShapeCheck] = []
    for tensor in kernel.inputs:
        argument = f"{name}: argument '{tensor.name}'"
        rank = len(tensor.dims)
        if tensor.folded:
            checks += _leading_checks(kernel, tensor, argument, size_of, first_of)
        else:
            checks.append(ShapeCheck(f"{tensor.name}.dim() == {rank}", f"{argument} needs {rank} dims."))
        # Behind leading dims, places are counted from the end.
        for axis, dim in enumerate(tensor.dims[1:], 1 - rank) if tensor.folded else enumerate(tensor.dims):
            size = f"{tensor.name}.shape[{axis}]"
            if tensor.dtype in PACKED and axis in (rank - 1, -1):
                elements, bytes_ = PACKED[tensor.dtype]
                if bytes_ > 1:
                    message = f"{argument} needs a multiple of {bytes_} in dim {axis}."
                    checks.append(ShapeCheck(f"{size} % {bytes_} == 0", message))
                size += f" // {bytes_} * {elements}" if bytes_ > 1 else f" * {elements}"
            if isinstance(dim, int):
                checks.append(ShapeCheck(f"{size} == {dim}", f"{argument} needs {dim} in dim {axis}."))
            elif dim in first_of:
                message = f"{argument} has another {dim} in dim {axis} than '{first_of[dim]}'."
                checks.append(ShapeCheck(f"{size} == {size_of[dim]}", message))
            elif dim in size_of:
                message = f"{argument} needs {dim} = {size_of[dim]} in dim {axis}."
                checks.append(ShapeCheck(f"{size} == {size_of[dim]}", message))
            else:
                size_of[dim], first_of[dim] = size, tensor.name
                if multiple_of[dim] > 1:
                    message = f"{argument} needs {dim} in dim {axis} to be a multiple of {multiple_of[dim]}."
                    checks.append(ShapeCheck(f"{size} % {multiple_of[dim]} == 0", message))
    return checks, size_of, first_of


def _leading_checks(
    kernel: WrapperInput, tensor: WrapperTensor, argument: str, size_of: dict[str, str], first_of: dict[str, str]
) -> Iterator[ShapeCheck]:
    """What the dims of a call have to be that are in place of the first one of a tensor."""
    dim, least = str(tensor.dims[0]), len(tensor.dims) - 1
    if least:
        yield ShapeCheck(f"{tensor.name}.dim() >= {least}", f"{argument} needs at least {least} dims.")
    if dim in first_of:
        first = next(one for one in kernel.inputs if one.name == first_of[dim])
        message = f"{argument} has other leading dims for {dim} than '{first.name}'."
        yield ShapeCheck(f"{_leading(tensor)} == {_leading(first)}", message)
        return
    size_of[dim], first_of[dim] = f"{_leading(tensor)}.numel()", tensor.name
    multiple = next(one.multiple_of for one in kernel.dims if one.name == dim)
    if multiple > 1:
        message = f"{argument} needs the product of its leading dims, {dim}, to be a multiple of {multiple}."
        yield ShapeCheck(f"{size_of[dim]} % {multiple} == 0", message)


def _leading(tensor: WrapperTensor) -> str:
    """The dims of a call that are in place of the first one, as Python."""
    behind = len(tensor.dims) - 1
    return f"{tensor.name}.shape[:-{behind}]" if behind else f"{tensor.name}.shape"


def _quotients(expression: SizeExpr | None) -> Iterator[tuple[SizeExpr, SizeExpr]]:
    """What is divided exactly, and by what, inner divisions first."""
    if isinstance(expression, tuple):
        operation, *operands = expression
        for operand in operands:
            yield from _quotients(operand)
        if operation == "div":
            yield expression[1], expression[2]


def size_text(expression: SizeExpr, names: Mapping[str, str]) -> str:
    """The Python of a size, whose dims are called as `names` says; without names as a spec has it."""
    if isinstance(expression, int):
        return str(expression)
    if isinstance(expression, str):
        return names.get(expression, expression)
    operation, *operands = expression
    texts = [f"({text})" if " " in (text := size_text(one, names)) else text for one in operands]
    if operation == "ceildiv":
        return f"-(-{texts[0]} // {texts[1]})"
    if operation in ("min", "max"):
        return f"torch.sym_{operation}({', '.join(texts)})" if names else f"{operation}({', '.join(texts)})"
    sign = "/" if operation == "div" and not names else _SIGNS[operation]
    return f"{texts[0]} {sign} {texts[1]}"


def promises(kernel: WrapperInput) -> list[str]:
    """What a call has to keep to, beyond shapes."""
    sizes = [f"{dim.name} is {dim.size}" for dim in kernel.dims if dim.size is not None]
    sizes += [f"{d.name} is a multiple of {d.multiple_of}" for d in kernel.dims if d.size is None and d.multiple_of > 1]
    sizes += [
        f"{dim.name} is the product of the leading dims, of any number of them" for dim in kernel.dims if dim.leading
    ]
    sizes += [
        f"{dim.name} is {size_text(dim.equals, {})}"
        for dim in kernel.dims
        if dim.equals is not None and dim.name.isidentifier()
    ]
    dims, named = {dim.name for dim in kernel.dims}, dict[str, str]()
    for tensor in kernel.tensors:
        for one in tensor.promised:
            if isinstance(one, str) and one not in dims:
                named.setdefault(one, tensor.name)
    sizes += [f"{name} is the stride that a call has, the same wherever it stands" for name in named]
    return [*sizes, *kernel.assumptions]


def described(tensors: Sequence[WrapperTensor]) -> str:
    """The types and shapes that torch has for an argument, which is one of `tensors`."""
    dtypes = listed(dict.fromkeys(TORCH_DTYPES[tensor.dtype] for tensor in tensors), "or")
    shapes = " or ".join(dict.fromkeys(f"[{', '.join(_shown(tensor))}]" for tensor in tensors))
    return ", ".join(
        [f"{dtypes} {shapes}", *dict.fromkeys(_packing(one.dtype) for one in tensors if one.dtype in PACKED)]
    )


def _shown(tensor: WrapperTensor) -> list[str]:
    sizes = _stored(tensor, {})
    return ["...", *sizes[1:]] if tensor.folded else sizes


def _packing(dtype: str) -> str:
    elements, bytes_ = PACKED[dtype]
    where = "a byte" if bytes_ == 1 else f"{bytes_} bytes"
    return f"{elements} elements of {dtype} in {where}, the first in the lowest bits"


def _stored(tensor: WrapperTensor, names: Mapping[str, str]) -> list[str]:
    """The sizes that torch has for a tensor, as Python; without names as a spec has it."""
    sizes = [size_text(dim, names) for dim in tensor.dims]
    if tensor.dtype in PACKED:
        elements, bytes_ = PACKED[tensor.dtype]
        last = f"({sizes[-1]})" if " " in sizes[-1] else sizes[-1]
        sizes[-1] = f"{last} // {elements}" + (f" * {bytes_}" if bytes_ > 1 else "")
    return sizes
