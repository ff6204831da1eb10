"""What a spec says about its arguments goes in; the Python module that people import to call the kernel comes
out, as text.

Nothing from the spec is pasted into code: names are checked to be plain identifiers, every other text is
written as a literal, and the finished module is parsed again and compared with what was meant before anyone
sees it.
"""

from __future__ import annotations

import ast
import keyword as python_keywords
import re
import textwrap
from dataclasses import dataclass

_LINE_LENGTH = 110
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
# Names that the generated module uses itself.
_TAKEN = frozenset(
    {
        "KernelSet",
        "Path",
        "Tensor",
        "annotations",
        "any",
        "define_operator",
        "inputs",
        "no_backward",
        "out",
        "torch",
    }
)
_TORCH_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WrapperTensor:
    """One tensor argument: `dims` outermost first, dim names or literal sizes; `output` for role output."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    output: bool = False


@dataclass(frozen=True, slots=True)
class WrapperDim:
    """One dim: `size` where it is fixed, `multiple_of` where a call has to promise it."""

    name: str
    multiple_of: int = 1
    size: int | None = None


@dataclass(frozen=True, slots=True)
class WrapperInput:
    """All that the wrapper says about a kernel; tensors are inputs, then outputs, as declared."""

    name: str
    doc: str
    source: str
    """Path of the spec, relative to where the command is run, with forward slashes."""
    spec_sha256: str
    tensors: tuple[WrapperTensor, ...]
    dims: tuple[WrapperDim, ...]
    command: str = "wavespec build"
    """What to run to get the module again."""
    assumptions: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[WrapperTensor, ...]:
        return tuple(tensor for tensor in self.tensors if not tensor.output)

    @property
    def outputs(self) -> tuple[WrapperTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.output)


def artifacts_directory(name: str) -> str:
    """Name of the folder beside `<name>.py` that holds the compiled kernels, one manifest per target."""
    return f"{name}.artifacts"


def wrapper_module(kernel: WrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    _check(kernel)
    docstring = _docstring(kernel)
    definitions = [
        _function(kernel, docstring),
        _raw_function(kernel),
        _implementation(kernel),
        _fake(kernel),
        _implementation_out(kernel),
        _fake_out(kernel),
        _operators(kernel),
    ]
    text = "\n\n".join((_header(kernel), _IMPORTS, _kernel_set(kernel), "\n\n\n".join(definitions))) + "\n"
    # Two blank lines before a function, one elsewhere: as formatters have it.
    text = text.replace(f"\n\ndef {kernel.name}(", f"\n\n\ndef {kernel.name}(", 1)
    _verify(kernel, text, docstring)
    return text


def _check(kernel: WrapperInput) -> None:
    names = [kernel.name, *(tensor.name for tensor in kernel.tensors)]
    for name in (*names, *(dim.name for dim in kernel.dims)):
        if (
            not _IDENTIFIER.fullmatch(name)
            or python_keywords.iskeyword(name)
            or python_keywords.issoftkeyword(name)
        ):
            raise ValueError(f"{name!r:.80} cannot be a name in the generated wrapper.")
    for name in names:
        if name in _TAKEN or re.fullmatch(r"out_[0-9]+", name):
            raise ValueError(f"The name {name!r} is used by the generated wrapper itself.")
    if len(set(names)) != len(names):
        raise ValueError(f"Names repeat, or one is the kernel's: {', '.join(names)}.")
    if not kernel.inputs or not kernel.outputs:
        raise ValueError(f"{kernel.name}: a wrapper needs at least one input and one output.")
    if (
        not kernel.source.isascii()
        or not kernel.source.isprintable()
        or kernel.source.startswith(("/", "\\"))
    ):
        raise ValueError(f"{kernel.source!r:.80} is no relative path of plain characters.")
    if not re.fullmatch(r"[0-9a-f]{64}", kernel.spec_sha256) or not re.fullmatch(
        r"[ -~]{1,200}", kernel.command
    ):
        raise ValueError("The sha256 or the command of the wrapper is malformed.")


def _header(kernel: WrapperInput) -> str:
    inputs, outputs = (
        ", ".join(tensor.name for tensor in tensors) for tensors in (kernel.inputs, kernel.outputs)
    )
    origin = f"# Generated by wavespec from {kernel.source} (sha256 {kernel.spec_sha256[:12]})."
    advice = f"Do not edit; run '{kernel.command}'."
    space = " " if len(origin) + 1 + len(advice) <= _LINE_LENGTH else "\n# "
    return f'{origin}{space}{advice}\n"""The kernel {kernel.name}: takes {inputs}; gives {outputs}."""'


_IMPORTS = """\
from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from wavespec.runtime import KernelSet, define_operator, no_backward"""


def _kernel_set(kernel: WrapperInput) -> str:
    return (
        f"__all__ = [{_literal(kernel.name)}, {_literal(kernel.name + '_raw')}]\n\n"
        f"_KERNELS = KernelSet(\n"
        f"    {_literal(kernel.name)},\n"
        f"    Path(__file__).with_name({_literal(artifacts_directory(kernel.name))}),\n"
        f"    spec_sha256={_literal(kernel.spec_sha256)},\n"
        f")"
    )


def _function(kernel: WrapperInput, docstring: str) -> str:
    names = [tensor.name for tensor in kernel.inputs]
    result = _result_type(kernel)
    if len(kernel.outputs) == 1:
        with_out = f"    return {_call(f'_{kernel.name}_out_op', [*names, 'out=out'])}"
    else:
        parts = [f"out_{index}" for index in range(len(kernel.outputs))]
        pass_on = [f"{tensor.name}={part}" for tensor, part in zip(kernel.outputs, parts, strict=True)]
        with_out = (
            f"    {', '.join(parts)} = out\n    return {_call(f'_{kernel.name}_out_op', [*names, *pass_on])}"
        )
    named = [f"{name}={name}" for name in names]
    first, requires_grad = _requires_grad(names)
    return (
        f"{_signature(kernel.name, [*_typed(kernel.inputs), '*', f'out: {result} | None = None'], result)}\n"
        f"{_written_docstring(docstring)}\n"
        f"{first}"
        f"    if torch.is_grad_enabled() and {requires_grad}:\n"
        f"        raise {_call('no_backward', [_literal(kernel.name), *named], 8, 'raise ')}\n"
        f"    if out is None:\n"
        f"        return {_call(f'_{kernel.name}_op', names, 8)}\n"
        f"{with_out}"
    )


def _requires_grad(names: list[str]) -> tuple[str, str]:
    """A statement to run first, and the condition that one of the inputs requires grad."""
    if len(names) == 1:
        return "", f"{names[0]}.requires_grad"
    if len(names) <= 3:
        return "", "(" + " or ".join(f"{name}.requires_grad" for name in names) + ")"
    return (
        f"    inputs = {_call('', names, keyword='inputs = ')}\n",
        "any(tensor.requires_grad for tensor in inputs)",
    )


def _raw_function(kernel: WrapperInput) -> str:
    return (
        f"{_signature(f'{kernel.name}_raw', _typed(kernel.tensors), 'None')}\n"
        '    """Launch without dispatcher and checks: a wrong dtype or output shape corrupts memory."""\n'
        f"    {_call('_KERNELS.raw', [tensor.name for tensor in kernel.tensors], keyword='')}"
    )


def _implementation(kernel: WrapperInput) -> str:
    arguments = _tuple([tensor.name for tensor in kernel.inputs])
    head = _signature(f"_{kernel.name}", _typed(kernel.inputs), _result_type(kernel))
    return f"{head}\n    return {_call('_KERNELS.run', [arguments])}"


def _implementation_out(kernel: WrapperInput) -> str:
    arguments = _tuple([tensor.name for tensor in kernel.inputs])
    outputs = [_out_name(kernel, tensor) for tensor in kernel.outputs]
    out = outputs[0] if len(outputs) == 1 else _tuple(outputs)
    head = _signature(f"_{kernel.name}_out", _out_parameters(kernel), _result_type(kernel))
    return f"{head}\n    return {_call('_KERNELS.run', [arguments, out])}"


def _fake(kernel: WrapperInput) -> str:
    """Shapes only: what torch.compile and torch.export see instead of the kernel."""
    lines, size_of = _shape_checks(kernel)
    first = kernel.inputs[0].name
    created: list[str] = []
    for tensor in kernel.outputs:
        shape = _tuple([str(dim) if isinstance(dim, int) else size_of[dim] for dim in tensor.dims])
        created.append(f"{first}.new_empty({shape}, dtype=torch.{_TORCH_DTYPES[tensor.dtype]})")
    result = (
        created[0]
        if len(created) == 1
        else "(\n" + "".join(f"        {text},\n" for text in created) + "    )"
    )
    head = _signature(f"_{kernel.name}_fake", _typed(kernel.inputs), _result_type(kernel))
    return "\n".join([head, *lines, f"    return {result}"])


def _fake_out(kernel: WrapperInput) -> str:
    outputs = [_out_name(kernel, tensor) for tensor in kernel.outputs]
    head = _signature(f"_{kernel.name}_out_fake", _out_parameters(kernel), _result_type(kernel))
    return f"{head}\n    return {', '.join(outputs)}"


def _shape_checks(kernel: WrapperInput) -> tuple[list[str], dict[str, str]]:
    """Lines that check shapes, and for every dim the expression of its size."""
    multiple_of = {dim.name: dim.multiple_of for dim in kernel.dims if dim.size is None}
    size_of = {dim.name: str(dim.size) for dim in kernel.dims if dim.size is not None}
    first_of: dict[str, str] = {}
    checks: list[tuple[str, str]] = []
    for tensor in kernel.inputs:
        argument = f"{kernel.name}: argument '{tensor.name}'"
        checks.append(
            (f"{tensor.name}.dim() == {len(tensor.dims)}", f"{argument} needs {len(tensor.dims)} dims.")
        )
        for axis, dim in enumerate(tensor.dims):
            size = f"{tensor.name}.shape[{axis}]"
            if isinstance(dim, int):
                checks.append((f"{size} == {dim}", f"{argument} needs {dim} in dim {axis}."))
            elif dim in first_of:
                message = f"{argument} has another {dim} in dim {axis} than '{first_of[dim]}'."
                checks.append((f"{size} == {size_of[dim]}", message))
            elif dim in size_of:
                checks.append(
                    (f"{size} == {size_of[dim]}", f"{argument} needs {dim} = {size_of[dim]} in dim {axis}.")
                )
            else:
                size_of[dim], first_of[dim] = size, tensor.name
                if multiple_of[dim] > 1:
                    message = f"{argument} needs {dim} in dim {axis} to be a multiple of {multiple_of[dim]}."
                    checks.append((f"{size} % {multiple_of[dim]} == 0", message))
    calls = [
        _call("torch._check", [condition, f"lambda: {_literal(text)}"], keyword="")
        for condition, text in checks
    ]
    return [f"    {call}" for call in calls], size_of


def _operators(kernel: WrapperInput) -> str:
    # Torch keeps operators for the life of a process: a name per version of the spec keeps two versions
    # apart.
    namespace = f"wavespec_{kernel.spec_sha256[:8]}"
    inputs = ", ".join(f"Tensor {tensor.name}" for tensor in kernel.inputs)
    outs = [(chr(ord("a") + index), _out_name(kernel, tensor)) for index, tensor in enumerate(kernel.outputs)]
    written = ", ".join(f"Tensor({mark}!) {name}" for mark, name in outs)
    schema = f"({inputs}) -> {_schema_result(['Tensor' for _ in outs])}"
    schema_out = f"({inputs}, *, {written}) -> {_schema_result([f'Tensor({mark}!)' for mark, _ in outs])}"
    return (
        f"_{kernel.name}_op = define_operator(\n"
        f"    {_literal(f'{namespace}::{kernel.name}')},\n"
        f"    {_literal(schema)},\n"
        f"    _{kernel.name},\n"
        f"    _{kernel.name}_fake,\n"
        f")\n"
        f"_{kernel.name}_out_op = define_operator(\n"
        f"    {_literal(f'{namespace}::{kernel.name}_out')},\n"
        f"    {_literal(schema_out)},\n"
        f"    _{kernel.name}_out,\n"
        f"    _{kernel.name}_out_fake,\n"
        f"    writes_out=True,\n"
        f")"
    )


def _schema_result(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _docstring(kernel: WrapperInput) -> str:
    """Plain text of the docstring: what the kernel computes, shapes, promises, errors."""
    lines = [*_wrapped(kernel.doc.strip() or f"The kernel {kernel.name}."), "", "Args:"]
    for tensor in kernel.inputs:
        lines.append(f"    {tensor.name}: {_described(tensor)}; copied first where it is not contiguous.")
    if len(kernel.outputs) == 1:
        lines.append(
            "    out: written and returned where given; contiguous, and sharing no memory with an input."
        )
        lines += ["", "Returns:", f"    {kernel.outputs[0].name}: {_described(kernel.outputs[0])}."]
    else:
        names = ", ".join(tensor.name for tensor in kernel.outputs)
        lines.append(
            f"    out: ({names}), written and returned where given; contiguous, and sharing no memory."
        )
        lines += ["", "Returns:"] + [f"    {tensor.name}: {_described(tensor)}." for tensor in kernel.outputs]
    promises = [f"{dim.name} is {dim.size}." for dim in kernel.dims if dim.size is not None]
    promises += [
        f"{d.name} is a multiple of {d.multiple_of}."
        for d in kernel.dims
        if d.size is None and d.multiple_of > 1
    ]
    promises += [f"{text}." for text in kernel.assumptions]
    if promises:
        lines += ["", "Sizes:"]
        for promise in promises:
            lines += [f"    {line}" for line in _wrapped(promise)]
    lines += [
        "",
        "Raises:",
        "    ArgumentError: a shape, size or device is wrong, or an input requires grad; the text names it.",
        "    ArgumentTypeError: a dtype is wrong.",
        "    ArtifactError: nothing was built for the device.",
    ]
    return "\n".join(lines)


def _described(tensor: WrapperTensor) -> str:
    return f"{_TORCH_DTYPES[tensor.dtype]} [{', '.join(map(str, tensor.dims))}]"


def _wrapped(text: str) -> list[str]:
    # Control and direction characters would let the docstring look like something else than it is.
    clean = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    width = _LINE_LENGTH - 8
    return [
        line for paragraph in clean.split("\n") for line in textwrap.wrap(paragraph.strip(), width) or [""]
    ]


def _written_docstring(docstring: str) -> str:
    lines = [
        line if index == 0 else f"    {line}".rstrip() for index, line in enumerate(docstring.split("\n"))
    ]
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')
    # An escaped quote reads badly where it need not be one: only runs of three and the last one can end the
    # string.
    readable = (
        re.sub(r'(?<!\\)((?:\\\\)*)\\"(?!\\")(?!$)', r'\1"', escaped) if '\\"\\"' not in escaped else escaped
    )
    return f'    """{readable}\n    """'


def _result_type(kernel: WrapperInput) -> str:
    count = len(kernel.outputs)
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _out_name(kernel: WrapperInput, tensor: WrapperTensor) -> str:
    return "out" if len(kernel.outputs) == 1 else tensor.name


def _out_parameters(kernel: WrapperInput) -> list[str]:
    return [
        *_typed(kernel.inputs),
        "*",
        *(f"{_out_name(kernel, tensor)}: Tensor" for tensor in kernel.outputs),
    ]


def _typed(tensors: tuple[WrapperTensor, ...]) -> list[str]:
    return [f"{tensor.name}: Tensor" for tensor in tensors]


def _signature(name: str, parameters: list[str], result: str) -> str:
    line = f"def {name}({', '.join(parameters)}) -> {result}:"
    if len(line) <= _LINE_LENGTH:
        return line
    return f"def {name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f") -> {result}:"


def _call(name: str, arguments: list[str], indent: int = 4, keyword: str = "return ") -> str:
    """A call at `indent` after `keyword`, on one line where it fits."""
    line = f"{name}({', '.join(arguments)})"
    if indent + len(keyword) + len(line) <= _LINE_LENGTH:
        return line
    space = " " * indent
    return f"{name}(\n" + "".join(f"{space}    {argument},\n" for argument in arguments) + f"{space})"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _literal(text: str) -> str:
    """A Python string literal with double quotes, as a formatter would write it."""
    plain = ascii(text)
    return plain if '"' in plain or plain.startswith('"') else f'"{plain[1:-1]}"'


def _verify(kernel: WrapperInput, text: str, docstring: str) -> None:
    """The module has to be exactly the statements meant, with the docstring as data."""
    tree = ast.parse(text)
    shape = [type(node).__name__ for node in tree.body]
    assert (
        shape
        == ["Expr", "ImportFrom", "ImportFrom", "Import", "ImportFrom", "ImportFrom", "Assign", "Assign"]
        + ["FunctionDef"] * 6
        + ["Assign"] * 2
    ), shape
    function = tree.body[8]
    assert isinstance(function, ast.FunctionDef) and function.name == kernel.name
    assert ast.get_docstring(function) == docstring, "the docstring is not what was meant"
