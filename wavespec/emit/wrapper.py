"""What a spec says about its arguments goes in; the Python module that people import to call the kernel comes
out, as text.

Nothing from the spec is pasted into code: names are checked to be plain identifiers, every other text is
written as a literal, and the finished module is parsed again and compared with what was meant before anyone
sees it.
"""

from __future__ import annotations

import ast
import hashlib
import keyword as python_keywords
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wavespec.emit.python_text import (
    LINE_LENGTH,
    call_text,
    literal,
    long_literal,
    signature,
    tuple_text,
    wrapped,
    written_docstring,
)
from wavespec.ir.dtype import DTYPES
from wavespec.runtime.artifact import PACKED
from wavespec.runtime.size_expr import SizeExpr

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
TORCH_DTYPES = {name: dtype.torch for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class WrapperTensor:
    """One tensor argument: `dims` outermost first, dim names or literal sizes; `output` for role output, `updated` for an
    input that is changed in place, `zeroed` for an output that starts as zeros."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    output: bool = False
    updated: bool = False
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class WrapperDim:
    """One dim: `size` where it is fixed, `multiple_of` where a call has to promise it, `equals` where it follows from
    others (behind which it comes)."""

    name: str
    multiple_of: int = 1
    size: int | None = None
    equals: SizeExpr | None = None


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
    in_project: bool = False
    """Whether the module is in a folder of the project whose spec is at `source`, so that code can be built of it."""
    assumptions: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[WrapperTensor, ...]:
        return tuple(tensor for tensor in self.tensors if not tensor.output)

    @property
    def updated(self) -> tuple[WrapperTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.updated)

    @property
    def outputs(self) -> tuple[WrapperTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.output)


def artifacts_directory(name: str) -> str:
    """Name of the folder beside `<name>.py` that holds the compiled kernels, one manifest per target."""
    return f"{name}.artifacts"


RAISES = (
    "",
    "Raises:",
    "    ArgumentError: a shape, size or device is wrong, or an input requires grad; the text names it.",
    "    ArgumentTypeError: a dtype is wrong.",
    "    ArtifactError: nothing was built for the device.",
)
"""The end of every docstring."""


def wrapper_module(kernel: WrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    check_input(kernel)
    docstring = _docstring(kernel)
    definitions = [
        _function(kernel, docstring),
        _raw_function(kernel),
        fake_function(kernel),
        *([_fake_out(kernel)] if kernel.outputs else []),
        _operators(kernel),
    ]
    text = "\n\n".join((header(kernel), _IMPORTS, _kernel_set(kernel), "\n\n\n".join(definitions))) + "\n"
    # Two blank lines before a function, one elsewhere: as formatters have it.
    text = text.replace(f"\n\ndef {kernel.name}(", f"\n\n\ndef {kernel.name}(", 1)
    _verify(kernel, text, docstring)
    return text


def check_input(kernel: WrapperInput) -> None:
    """Errors: `ValueError` for what cannot be written as Python."""
    names = [kernel.name, *(tensor.name for tensor in kernel.tensors)]
    for name in (*names, *(dim.name for dim in kernel.dims)):
        if not _IDENTIFIER.fullmatch(name) or python_keywords.iskeyword(name) or python_keywords.issoftkeyword(name):
            raise ValueError(f"{name!r:.80} cannot be a name in the generated wrapper.")
    # What the functions of the module call by these names must be that; the language reserves them.
    taken = {"any", "define_operator", "getattr", "no_backward", "no_member", "size_in", "torch"}
    for name in (*taken.intersection(names), *("out" for tensor in kernel.inputs if tensor.name == "out")):
        raise ValueError(f"The name {name!r} is used by the generated wrapper itself.")
    if len(set(names)) != len(names):
        raise ValueError(f"Names repeat, or one is the kernel's: {', '.join(names)}.")
    if not kernel.inputs or not (kernel.outputs or kernel.updated):
        raise ValueError(
            f"{kernel.name}: a wrapper needs at least one input and one output, or an input that is changed."
        )
    if not kernel.source.isascii() or not kernel.source.isprintable() or kernel.source.startswith(("/", "\\")):
        raise ValueError(f"{kernel.source!r:.80} is no relative path of plain characters.")
    if not re.fullmatch(r"[0-9a-f]{64}", kernel.spec_sha256) or not re.fullmatch(r"[ -~]{1,200}", kernel.command):
        raise ValueError("The sha256 or the command of the wrapper is malformed.")


def header(kernel: WrapperInput, what: str = "The kernel") -> str:
    """The comment that says where the module is from, and its docstring."""
    origin = f"# Generated by wavespec from {kernel.source} (sha256 {kernel.spec_sha256[:12]})."
    advice = f"Do not edit; run '{kernel.command}'."
    space = " " if len(origin) + 1 + len(advice) <= LINE_LENGTH else "\n# "
    return f'{origin}{space}{advice}\n"""{what} {kernel.name}, to be called with torch tensors."""'


_IMPORTS = """\
from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from wavespec.runtime import KernelSet, define_operator, no_backward"""


def _kernel_set(kernel: WrapperInput) -> str:
    return (
        f"__all__ = [{literal(kernel.name)}, {literal(kernel.name + '_raw')}]\n\n"
        f"_KERNELS = KernelSet(\n"
        f"    {literal(kernel.name)},\n"
        f"    Path(__file__).with_name({literal(artifacts_directory(kernel.name))}),\n"
        f"    spec_sha256={literal(kernel.spec_sha256)},\n"
        f"    inputs={len(kernel.inputs)},\n"
        f"{spec_argument(kernel, 4, 'Path(__file__).parents[1]')}"
        f")"
    )


def spec_argument(kernel: WrapperInput, indent: int, root: str) -> str:
    """The line that says which spec the machine code of a `KernelSet` is built of, if it is."""
    return f"{' ' * indent}spec={root} / {literal(kernel.source)},\n" if kernel.in_project else ""


def _function(kernel: WrapperInput, docstring: str) -> str:
    names = [tensor.name for tensor in kernel.inputs]
    named = [f"{name}={name}" for name in names]
    first, requires_grad = requires_grad_test(names)
    parameters = [*typed(kernel.inputs), *(["*", out_parameter(kernel)] if kernel.outputs else [])]
    return (
        f"{signature(kernel.name, parameters, written_type(kernel))}\n"
        f"{written_docstring(docstring)}\n"
        f"{first}"
        f"    if torch.is_grad_enabled() and {requires_grad}:\n"
        f"        raise {call_text('no_backward', [literal(kernel.name), *named], 8, 'raise ')}\n"
        f"{calls_of_operators(kernel, names)}"
    )


def calls_of_operators(kernel: WrapperInput, names: list[str]) -> str:
    """The end of the function: the call of one operator or the other, and what was written.

    Args:
        names: all arguments of the operator that makes new tensors.
    """
    updated = [tensor.name for tensor in kernel.updated]
    if not kernel.outputs:
        call = call_text(f"_{kernel.name}_op", names, keyword="")
        return f"    {call}\n    return {', '.join(updated)}"
    several = len(kernel.outputs) > 1
    call = call_text(f"_{kernel.name}_out_op", [*names, "*out" if several else "out"], keyword="")
    made, given = call_text(f"_{kernel.name}_op", names, 8), "out"
    if updated:
        made, given = (", ".join([*updated, f"{'*' if several else ''}{one}"]) for one in (made, given))
    return f"    if out is None:\n        return {made}\n    {call}\n    return {given}"


def requires_grad_test(names: list[str]) -> tuple[str, str]:
    """A statement to run first, and the condition that one of the inputs requires grad."""
    if len(names) == 1:
        return "", f'getattr({names[0]}, "requires_grad", False)'
    if len(names) <= 2:
        wanted = " or ".join(f'getattr({name}, "requires_grad", False)' for name in names)
        return "", f"({wanted})"
    local = "_inputs" if "inputs" in names else "inputs"
    return (
        f"    {local} = {call_text('', names, keyword=f'{local} = ')}\n",
        f'any(getattr(tensor, "requires_grad", False) for tensor in {local})',
    )


def _raw_function(kernel: WrapperInput) -> str:
    return (
        f"{signature(f'{kernel.name}_raw', typed(kernel.tensors), 'None')}\n"
        '    """Launch without dispatcher and checks: a wrong dtype or output shape corrupts memory."""\n'
        f"    {call_text('_KERNELS.raw', [tensor.name for tensor in kernel.tensors], keyword='')}"
    )


def fake_function(kernel: WrapperInput) -> str:
    """Shapes only: what torch.compile and torch.export see instead of the kernel."""
    lines, size_of = _shape_checks(kernel)
    first = kernel.inputs[0].name
    head = signature(f"_{kernel.name}_fake", typed(kernel.inputs), result_type(kernel))
    if not kernel.outputs:
        return "\n".join([head, *(lines or ["    return None"])])
    created: list[str] = []
    for tensor in kernel.outputs:
        sizes = [str(dim) if isinstance(dim, int) else size_of[dim] for dim in tensor.dims]
        if tensor.dtype in PACKED:
            sizes[-1] = _stored(f"({sizes[-1]})" if " " in sizes[-1] else sizes[-1], tensor.dtype)
        created.append(f"{first}.new_empty({tuple_text(sizes)}, dtype=torch.{TORCH_DTYPES[tensor.dtype]})")
    result = created[0] if len(created) == 1 else "(\n" + "".join(f"        {text},\n" for text in created) + "    )"
    return "\n".join([head, *lines, f"    return {result}"])


def _fake_out(kernel: WrapperInput) -> str:
    head = signature(f"_{kernel.name}_out_fake", _out_parameters(kernel), "None")
    return f'{head}\n    """Nothing to say: the results are tensors that the caller already has."""'


def _shape_checks(kernel: WrapperInput) -> tuple[list[str], dict[str, str]]:
    """Lines that check shapes, and for every dim the expression of its size."""
    multiple_of = {dim.name: dim.multiple_of for dim in kernel.dims if dim.size is None}
    size_of = {dim.name: str(dim.size) for dim in kernel.dims if dim.size is not None}
    first_of: dict[str, str] = {}
    checks: list[tuple[str, str]] = []
    for tensor in kernel.inputs:
        argument = f"{kernel.name}: argument '{tensor.name}'"
        checks.append((f"{tensor.name}.dim() == {len(tensor.dims)}", f"{argument} needs {len(tensor.dims)} dims."))
        for axis, dim in enumerate(tensor.dims):
            size = f"{tensor.name}.shape[{axis}]"
            if tensor.dtype in PACKED and axis == len(tensor.dims) - 1:
                elements, bytes_ = PACKED[tensor.dtype]
                if bytes_ > 1:
                    checks.append(
                        (f"{size} % {bytes_} == 0", f"{argument} needs a multiple of {bytes_} in dim {axis}.")
                    )
                size += f" // {bytes_} * {elements}" if bytes_ > 1 else f" * {elements}"
            if isinstance(dim, int):
                checks.append((f"{size} == {dim}", f"{argument} needs {dim} in dim {axis}."))
            elif dim in first_of:
                message = f"{argument} has another {dim} in dim {axis} than '{first_of[dim]}'."
                checks.append((f"{size} == {size_of[dim]}", message))
            elif dim in size_of:
                checks.append((f"{size} == {size_of[dim]}", f"{argument} needs {dim} = {size_of[dim]} in dim {axis}."))
            else:
                size_of[dim], first_of[dim] = size, tensor.name
                if multiple_of[dim] > 1:
                    message = f"{argument} needs {dim} in dim {axis} to be a multiple of {multiple_of[dim]}."
                    checks.append((f"{size} % {multiple_of[dim]} == 0", message))
    for one in kernel.dims:
        for left, right in quotients(one.equals):
            whole = ("mod", left, right)
            message = f"{kernel.name}: {size_text(('div', left, right), {})} is no whole number."
            checks.append((f"{size_text(whole, size_of)} == 0", message))
        if one.equals is not None and one.name not in size_of:
            size_of[one.name] = size_text(one.equals, size_of)
        elif one.equals is not None:
            message = f"{kernel.name}: {one.name} is not {size_text(one.equals, {})}."
            checks.append((f"{size_of[one.name]} == {size_text(one.equals, size_of)}", message))
    calls = [
        call_text("torch._check", [condition, f"lambda: {literal(text)}"], keyword="") for condition, text in checks
    ]
    return [f"    {call}" for call in calls], size_of


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "floordiv": "//", "mod": "%"}


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


def quotients(expression: SizeExpr | None) -> Iterator[tuple[SizeExpr, SizeExpr]]:
    """What is divided exactly, and by what, inner divisions first."""
    if isinstance(expression, tuple):
        operation, *operands = expression
        for operand in operands:
            yield from quotients(operand)
        if operation == "div":
            yield expression[1], expression[2]


def _operators(kernel: WrapperInput) -> str:
    inputs, written = schema_parameters(kernel)
    schema = f"({', '.join(inputs)}) -> {schema_result(['Tensor' for _ in kernel.outputs])}"
    # It returns nothing: torch before 2.13 does not know operators that return what they write. Its outputs are
    # positional: keywords cost 0.8 µs a call.
    schema_out = f"({', '.join([*inputs, *written])}) -> ()"
    # Torch keeps operators for the life of a process, and Inductor the code that calls them from one process to the
    # next: a name per version of the spec and of the schemas keeps versions apart.
    version = hashlib.sha256("\n".join((kernel.spec_sha256, schema, schema_out)).encode()).hexdigest()
    new = ("", "", schema, "_KERNELS.new")
    kinds = (
        (new, ("out_", "_out", schema_out, "_KERNELS.write"))
        if kernel.outputs
        else (("", "", schema, "_KERNELS.write"),)
    )
    return "\n".join(
        f"_{kernel.name}_{op}op = define_operator(\n"
        f"    {literal(f'wavespec_{version[:8]}::{kernel.name}{suffix}')},\n"
        f"    {long_literal(text)},\n"
        f"    {function},\n"
        f"    _{kernel.name}_{op}fake,\n"
        f")"
        for op, suffix, text, function in kinds
    )


def schema_parameters(kernel: WrapperInput) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of an operator, as its schema has them: what is written has a letter of its own."""
    marks = {tensor.name: chr(ord("a") + index) for index, tensor in enumerate((*kernel.updated, *kernel.outputs))}
    inputs = [f"Tensor({marks[t.name]}!) {t.name}" if t.updated else f"Tensor {t.name}" for t in kernel.inputs]
    return inputs, [f"Tensor({marks[t.name]}!) {out_name(kernel, t)}" for t in kernel.outputs]


def schema_result(types: list[str]) -> str:
    """What a schema says of results of these types."""
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _docstring(kernel: WrapperInput) -> str:
    """Plain text of the docstring: what the kernel computes, shapes, promises, errors."""
    lines = [*wrapped(kernel.doc.strip() or f"The kernel {kernel.name}."), "", "Args:"]
    lines += [f"    {tensor.name}: {described(tensor)}; {how_passed(tensor)}." for tensor in kernel.inputs]
    lines += about_results(kernel)
    lines += ["", "Returns:"]
    lines += [f"    {tensor.name}: the argument, changed." for tensor in kernel.updated]
    lines += [f"    {tensor.name}: {described(tensor)}{how_returned(tensor)}." for tensor in kernel.outputs]
    if promised := promises(kernel):
        lines += ["", "Sizes:"]
        for promise in promised:
            lines += [f"    {line}" for line in wrapped(f"{promise}.")]
    return "\n".join([*lines, *RAISES])


def how_passed(tensor: WrapperTensor) -> str:
    """What happens to an input of a call."""
    if tensor.updated:
        return "changed in place; contiguous, not overlapping another argument"
    return "copied first where it is not contiguous"


def how_returned(tensor: WrapperTensor) -> str:
    """What a result holds that no value of the call becomes."""
    return "; elements that nothing is written to are 0, in out what they were" if tensor.zeroed else ""


def about_results(kernel: WrapperInput) -> list[str]:
    """The lines of a docstring on `out`, if there is one."""
    if not kernel.outputs:
        return []
    if len(kernel.outputs) == 1:
        return ["    out: written and returned where given; contiguous, not overlapping an input."]
    names = ", ".join(tensor.name for tensor in kernel.outputs)
    return [f"    out: ({names}), written and returned where given; contiguous, not overlapping."]


def promises(kernel: WrapperInput) -> list[str]:
    """What a call has to keep to, beyond shapes."""
    sizes = [f"{dim.name} is {dim.size}" for dim in kernel.dims if dim.size is not None]
    sizes += [f"{d.name} is a multiple of {d.multiple_of}" for d in kernel.dims if d.size is None and d.multiple_of > 1]
    sizes += [f"{dim.name} is {size_text(dim.equals, {})}" for dim in kernel.dims if dim.equals is not None]
    return [*sizes, *kernel.assumptions]


def described(tensor: WrapperTensor) -> str:
    dims = [str(dim) for dim in tensor.dims]
    if tensor.dtype not in PACKED:
        return f"{TORCH_DTYPES[tensor.dtype]} [{', '.join(dims)}]"
    elements, bytes_ = PACKED[tensor.dtype]
    dims[-1] = _stored(dims[-1], tensor.dtype)
    return (
        f"{TORCH_DTYPES[tensor.dtype]} [{', '.join(dims)}], {elements} elements of {tensor.dtype} in {_bytes(bytes_)}"
    )


def _stored(size: str, dtype: str) -> str:
    """How many elements torch has where a tensor of a packed type has ``size``."""
    elements, bytes_ = PACKED[dtype]
    return f"{size} // {elements}" + (f" * {bytes_}" if bytes_ > 1 else "")


def _bytes(count: int) -> str:
    return "a byte, the first in the lowest bits" if count == 1 else f"{count} bytes, the first in the lowest bits"


def result_type(kernel: WrapperInput) -> str:
    """Of the operator that makes new tensors."""
    return _tensors(len(kernel.outputs))


def written_type(kernel: WrapperInput) -> str:
    """Of the function: what is changed in place, then the outputs."""
    return _tensors(len(kernel.updated) + len(kernel.outputs))


def out_parameter(kernel: WrapperInput) -> str:
    """The parameter `out`, typed."""
    return f"out: {result_type(kernel)} | None = None"


def _tensors(count: int) -> str:
    if count == 0:
        return "None"
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def out_name(kernel: WrapperInput, tensor: WrapperTensor) -> str:
    return "out" if len(kernel.outputs) == 1 else tensor.name


def _out_parameters(kernel: WrapperInput) -> list[str]:
    return [*typed(kernel.inputs), *(f"{out_name(kernel, tensor)}: Tensor" for tensor in kernel.outputs)]


def typed(tensors: tuple[WrapperTensor, ...]) -> list[str]:
    return [f"{tensor.name}: Tensor" for tensor in tensors]


def _verify(kernel: WrapperInput, text: str, docstring: str) -> None:
    """The module has to be exactly the statements meant, with the docstring as data."""
    tree = ast.parse(text)
    shape = [type(node).__name__ for node in tree.body]
    assert shape == ["Expr", "ImportFrom", "ImportFrom", "Import", "ImportFrom", "ImportFrom", "Assign", "Assign"] + [
        "FunctionDef"
    ] * (4 if kernel.outputs else 3) + ["Assign"] * (2 if kernel.outputs else 1), shape
    function = tree.body[8]
    assert isinstance(function, ast.FunctionDef) and function.name == kernel.name
    assert ast.get_docstring(function) == docstring, "the docstring is not what was meant"
