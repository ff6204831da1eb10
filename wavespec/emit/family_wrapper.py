"""What a family and its members say about their arguments goes in; the Python module that picks a member at every
call comes out, as text.

Like the wrapper of one kernel, with which it shares its parts, it is checked against what was meant before anyone
sees it.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, replace
from typing import Literal

from wavespec.emit.python_text import (
    LINE_LENGTH,
    call_text,
    literal,
    long_literal,
    signature,
    wrapped,
    written_docstring,
)
from wavespec.emit.wrapper import (
    RAISES,
    TORCH_DTYPES,
    WrapperInput,
    WrapperTensor,
    about_results,
    artifacts_directory,
    calls_of_operators,
    check_input,
    fake_function,
    header,
    how_passed,
    how_returned,
    out_name,
    out_parameter,
    promises,
    requires_grad_test,
    result_type,
    schema_parameters,
    schema_result,
    spec_argument,
    typed,
    written_type,
)

Value = str | int


@dataclass(frozen=True, slots=True)
class WrapperPick:
    """What of a call gives one value: the dtype of the input `name`, the size of its dim `axis`, which is `dim`, or
    the keyword argument `name`."""

    what: Literal["dtype", "size", "keyword"]
    name: str
    axis: int = 0
    dim: str = ""

    @property
    def words(self) -> str:
        if self.what == "dtype":
            return f"the dtype of '{self.name}'"
        return f"'{self.name}'" if self.what == "keyword" else f"the size {self.dim}"


@dataclass(frozen=True, slots=True)
class WrapperMember:
    """One kernel: `key` has a value for every pick, `folder` is below that of the family."""

    kernel: WrapperInput
    folder: str
    key: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class FamilyWrapperInput:
    """All that the wrapper says about a family, whose members have the same names of arguments."""

    name: str
    doc: str
    source: str
    sha256: str
    picks: tuple[WrapperPick, ...]
    members: tuple[WrapperMember, ...]
    command: str = "wavespec build"

    @property
    def keywords(self) -> tuple[WrapperPick, ...]:
        return tuple(pick for pick in self.picks if pick.what == "keyword")

    def values_of(self, pick: WrapperPick) -> list[Value]:
        """All values that members have for a pick."""
        index = self.picks.index(pick)
        return list(dict.fromkeys(member.key[index] for member in self.members))


def family_wrapper_module(family: FamilyWrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    first = family.members[0].kernel
    for member in family.members:
        check_input(member.kernel)
    whole = replace(first, name=family.name, doc=family.doc, source=family.source, spec_sha256=family.sha256)
    whole = replace(whole, command=family.command)
    arguments = tuple(WrapperTensor(keyword.name, "i32", ()) for keyword in family.keywords)
    check_input(replace(whole, tensors=(*whole.tensors, *arguments)))
    docstring = _docstring(family, whole)
    fakes = _fakes(family)
    definitions = [
        _function(family, whole, docstring),
        _raw_function(family, whole),
        _member(family, whole),
        _implementations(family, whole),
        *(text.replace(f"def _{family.name}_fake(", f"def {name}(", 1) for name, text in fakes.items()),
        _fake(family, whole, fakes),
        _operators(family, whole),
    ]
    parts = (header(whole, "The kernels of the family"), _imports(family), _members(family, first))
    text = "\n\n".join((*parts, "\n\n\n".join(definitions))) + "\n"
    text = text.replace(f"\n\ndef {family.name}(", f"\n\n\ndef {family.name}(", 1)
    _verify(family, text, docstring)
    return text


def _imports(family: FamilyWrapperInput) -> str:
    names = ["KernelSet", "define_operator", "no_backward", "no_member"]
    if any(pick.what == "size" for pick in family.picks):
        names.append("size_in")
    typing = "from typing import Literal\n" if family.keywords else ""
    return (
        f"from __future__ import annotations\n\nfrom pathlib import Path\n{typing}\nimport torch\n"
        f"from torch import Tensor\n\nfrom wavespec.runtime import {', '.join(names)}"
    )


def _members(family: FamilyWrapperInput, first: WrapperInput) -> str:
    rows = [
        f"    {_key([_value(family.picks[i], value) for i, value in enumerate(member.key)])}: KernelSet(\n"
        f"        {literal(member.kernel.name)},\n"
        f"        _FOLDER / {literal(member.folder)},\n"
        f"        spec_sha256={literal(member.kernel.spec_sha256)},\n"
        f"        inputs={len(first.inputs)},\n"
        f"{spec_argument(member.kernel, 8, '_FOLDER.parents[1]')}"
        f"    ),\n"
        for member in family.members
    ]
    return (
        f"__all__ = [{literal(family.name)}, {literal(family.name + '_raw')}]\n\n"
        f"_FOLDER = Path(__file__).with_name({literal(artifacts_directory(family.name))})\n"
        f"_MEMBERS = {{\n{''.join(rows)}}}"
    )


def _key(values: list[str]) -> str:
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def _value(pick: WrapperPick, value: Value) -> str:
    """A value of a pick, as Python."""
    if pick.what == "dtype":
        return f"torch.{TORCH_DTYPES[str(value)]}"
    return str(value) if isinstance(value, int) else literal(value)


def _function(family: FamilyWrapperInput, whole: WrapperInput, docstring: str) -> str:
    names = [*_names(whole), *(keyword.name for keyword in family.keywords)]
    first, requires_grad = requires_grad_test(_names(whole))
    named = [f"{name}={name}" for name in _names(whole)]
    by_name = [*_typed_keywords(family), *([out_parameter(whole)] if whole.outputs else [])]
    return (
        f"{signature(family.name, [*typed(whole.inputs), *(['*', *by_name] if by_name else [])], written_type(whole))}\n"
        f"{written_docstring(docstring)}\n"
        f"{first}"
        f"    if torch.is_grad_enabled() and {requires_grad}:\n"
        f"        raise {call_text('no_backward', [literal(family.name), *named], 8, 'raise ')}\n"
        f"{calls_of_operators(whole, names)}"
    )


def _raw_function(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    parameters = typed(whole.tensors) + (["*", *_typed_keywords(family)] if family.keywords else [])
    tensors = [tensor.name for tensor in whole.tensors]
    return (
        f"{signature(f'{family.name}_raw', parameters, 'None')}\n"
        '    """Launch without dispatcher and checks: a wrong dtype or output shape corrupts memory."""\n'
        f"    {call_text(f'{_member_call(family, whole)}.raw', tensors, keyword='')}"
    )


def _member(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    """The function that picks."""
    found = [_found(family, pick) for pick in family.picks]
    described = [f"({literal(pick.words)}, {value})" for pick, value in zip(family.picks, found, strict=True)]
    key = ", ".join(found) + ("," if len(found) == 1 else "") if found else "()"
    return (
        f"{signature('_member', _all_typed(family, whole), 'KernelSet')}\n"
        f'    """The kernels for a call with such arguments."""\n'
        f"    try:\n"
        f"        return _MEMBERS[{key}]\n"
        f"    except KeyError:\n"
        f"        raise {call_text('no_member', [literal(family.name), '_MEMBERS', *described], 8, 'raise ')} from None"
    )


def _found(family: FamilyWrapperInput, pick: WrapperPick) -> str:
    """What of the arguments a pick looks at, as Python."""
    if pick.what == "dtype":
        return f"{pick.name}.dtype"
    if pick.what == "keyword":
        return pick.name
    return f"size_in({literal(family.name)}, {pick.name}, {literal(pick.name)}, {literal(pick.dim)}, {pick.axis})"


def _implementations(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    outs = [out_name(whole, tensor) for tensor in whole.outputs]
    picked = _member_call(family, whole)
    new = (
        f"{signature('_new', _all_typed(family, whole), result_type(whole))}\n"
        f"    return {call_text(f'{picked}.new', _names(whole))}\n\n\n"
    )
    return (
        f"{new if outs else ''}"
        f"{signature('_write', [*_all_typed(family, whole), *(f'{out}: Tensor' for out in outs)], 'None')}\n"
        f"    {call_text(f'{picked}.write', [*_names(whole), *outs], keyword='')}"
    )


def _fakes(family: FamilyWrapperInput) -> dict[str, str]:
    """What gives the shapes of results, as text, by its name; members share what is the same."""
    named: dict[str, str] = {}
    for member in family.members:
        text = _fake_text(family, member)
        if text not in named.values():
            named[f"_{member.kernel.name}_fake"] = text
    return named


def _fake_text(family: FamilyWrapperInput, member: WrapperMember) -> str:
    """With the names of the family, so that the same shapes have the same text."""
    return fake_function(replace(member.kernel, name=family.name))


def _fake(family: FamilyWrapperInput, whole: WrapperInput, fakes: dict[str, str]) -> str:
    names = {text: name for name, text in fakes.items()}
    rows = [f"    {literal(member.kernel.name)}: {names[_fake_text(family, member)]},\n" for member in family.members]
    outs = [f"{out_name(whole, tensor)}: Tensor" for tensor in whole.outputs]
    made = (
        f"_FAKES = {{\n{''.join(rows)}}}\n\n\n"
        f"{signature(f'_{family.name}_fake', _all_typed(family, whole), result_type(whole))}\n"
        f"    return {call_text(f'_FAKES[{_member_call(family, whole)}.name]', _names(whole))}"
    )
    if not outs:
        return made
    return (
        f"{made}\n\n\n"
        f"{signature(f'_{family.name}_out_fake', [*_all_typed(family, whole), *outs], 'None')}\n"
        '    """Nothing to say: the results are tensors that the caller already has."""'
    )


def _operators(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    inputs, written = schema_parameters(whole)
    for keyword in family.keywords:
        is_int = isinstance(family.values_of(keyword)[0], int)
        inputs.append(f"{'int' if is_int else 'str'} {keyword.name}")
    schema = f"({', '.join(inputs)}) -> {schema_result(['Tensor' for _ in written])}"
    schema_out = f"({', '.join([*inputs, *written])}) -> ()"
    new, write = ("", "", schema, "_new"), ("out_", "_out", schema_out, "_write")
    kinds = (new, write) if written else (("", "", schema, "_write"),)
    # As for one kernel: a name per version of the specs and of the schemas keeps versions apart.
    shas = [member.kernel.spec_sha256 for member in family.members]
    version = hashlib.sha256("\n".join((family.sha256, *shas, schema, schema_out)).encode()).hexdigest()
    namespace = f"wavespec_{version[:8]}"
    parts = [
        f"_{family.name}_{op}op = define_operator(\n"
        f"    {literal(f'{namespace}::{family.name}{suffix}')},\n"
        f"    {long_literal(text)},\n"
        f"    {function},\n"
        f"    _{family.name}_{op}fake,\n"
        f")"
        for op, suffix, text, function in kinds
    ]
    return "\n".join(parts)


def _docstring(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    lines = wrapped(family.doc.strip() or f"The kernels of the family {family.name}.")
    lines += ["", "Args:"]
    for index, tensor in enumerate(whole.inputs):
        every = [member.kernel.inputs[index] for member in family.members]
        lines += _entry(f"{tensor.name}: {_described(every)}; {how_passed(tensor)}.")
    for keyword in family.keywords:
        lines += _entry(f"{keyword.name}: picks the kernel: {_either(keyword, family.values_of(keyword))}.")
    lines += about_results(whole)
    lines += ["", "Returns:"]
    lines += [f"    {tensor.name}: the argument, changed." for tensor in whole.updated]
    for index, tensor in enumerate(whole.outputs):
        every = [member.kernel.outputs[index] for member in family.members]
        partly = next((one for one in every if one.zeroed), tensor)
        lines += _entry(f"{tensor.name}: {_described(every)}{how_returned(partly)}.")
    words = [pick.words for pick in family.picks]
    by = ", ".join(words[:-1]) + (" and " if words[1:] else "") + words[-1] if words else ""
    lines += ["", *wrapped(f"Kernels, picked by {by}:" if by else "Kernels:")]
    for member in family.members:
        lines += _entry(_about(family, member))
    return "\n".join([*lines, *RAISES])


def _about(family: FamilyWrapperInput, member: WrapperMember) -> str:
    """A member in one line: what picks it, the shapes of its tensors, what it asks of sizes."""
    values = ", ".join(_shown(pick, value) for pick, value in zip(family.picks, member.key, strict=True))
    inputs, outputs = (
        ", ".join(f"{tensor.name}[{', '.join(map(str, tensor.dims))}]" for tensor in tensors)
        for tensors in (member.kernel.inputs, member.kernel.outputs)
    )
    return "; ".join([f"{values or member.kernel.name}: {inputs} -> {outputs}", *promises(member.kernel)]) + "."


def _shown(pick: WrapperPick, value: Value) -> str:
    if pick.what == "dtype":
        return TORCH_DTYPES[str(value)]
    return literal(value) if isinstance(value, str) else str(value)


def _described(every: list[WrapperTensor]) -> str:
    dtypes = " or ".join(dict.fromkeys(TORCH_DTYPES[tensor.dtype] for tensor in every))
    shapes = " or ".join(dict.fromkeys(f"[{', '.join(map(str, tensor.dims))}]" for tensor in every))
    return f"{dtypes} {shapes}"


def _either(pick: WrapperPick, values: list[Value]) -> str:
    shown = [_shown(pick, value) for value in values]
    return f"{', '.join(shown[:-1])}{' or ' if shown[1:] else ''}{shown[-1]}"


def _entry(text: str) -> list[str]:
    first, *rest = wrapped(text)
    return [f"    {first}", *(f"        {line}" for line in rest)]


def _names(whole: WrapperInput) -> list[str]:
    return [tensor.name for tensor in whole.inputs]


def _typed_keywords(family: FamilyWrapperInput) -> list[str]:
    rows: list[str] = []
    for keyword in family.keywords:
        values = [_shown(keyword, value) for value in family.values_of(keyword)]
        rows.append(f"{keyword.name}: Literal[{', '.join(values)}]")
    return rows


def _all_typed(family: FamilyWrapperInput, whole: WrapperInput) -> list[str]:
    """Parameters of the functions behind the operators: all by position."""
    kinds = ["int" if isinstance(family.values_of(one)[0], int) else "str" for one in family.keywords]
    return [*typed(whole.inputs), *(f"{one.name}: {kind}" for one, kind in zip(family.keywords, kinds, strict=True))]


def _member_call(family: FamilyWrapperInput, whole: WrapperInput) -> str:
    return f"_member({', '.join([*_names(whole), *(keyword.name for keyword in family.keywords)])})"


def _verify(family: FamilyWrapperInput, text: str, docstring: str) -> None:
    """The module has to define what is meant, with the docstring as data."""
    tree = ast.parse(text)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    assert function.name == family.name, function.name
    assert ast.get_docstring(function) == docstring, "the docstring is not what was meant"
    kinds = {type(node).__name__ for node in tree.body}
    assert kinds == {"Expr", "ImportFrom", "Import", "Assign", "FunctionDef"}, kinds
    assert max(map(len, text.splitlines())) <= 2 * LINE_LENGTH
