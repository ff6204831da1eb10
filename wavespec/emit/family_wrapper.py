"""What a family and its members say about their arguments goes in; the Python module that picks a member at every
call comes out, as text: `templates/family.py.jinja`, which reads like it, with what is computed here.

It shares the parts of its template, its context and its guards with the wrapper of one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from wavespec.emit.python_text import literal, render, tuple_text
from wavespec.emit.shape_checks import TORCH_DTYPES, Shapes, promises, shapes_of
from wavespec.emit.wrapper import call_context, operators
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor, check_input

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


@dataclass(frozen=True, slots=True)
class Keyword:
    """An argument that picks a member: all values that it may have."""

    name: str
    values: tuple[Value, ...]

    @property
    def type(self) -> str:
        return "int" if isinstance(self.values[0], int) else "str"


def family_wrapper_module(family: FamilyWrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    name, kernels = family.name, [member.kernel for member in family.members]
    whole = replace(
        kernels[0], name=name, doc=family.doc, source=family.source, spec_sha256=family.sha256, command=family.command
    )
    keywords = [
        Keyword(pick.name, tuple(dict.fromkeys(member.key[index] for member in family.members)))
        for index, pick in enumerate(family.picks)
        if pick.what == "keyword"
    ]
    arguments = tuple(WrapperTensor(keyword.name, "i32", ()) for keyword in keywords)
    for kernel in (*kernels, replace(whole, tensors=(*whole.tensors, *arguments))):
        check_input(kernel)
    if strangers := {pick.name for pick in family.picks} - {one.name for one in (*whole.inputs, *keywords)}:
        raise ValueError(f"{name} is picked by what is no input: {', '.join(sorted(strangers)):.80}.")

    # Members whose shapes are found the same way share what finds them.
    shapes: dict[Shapes, str] = {}
    fakes = [shapes.setdefault(shapes_of(kernel, name), f"_fake_of_{kernel.name}") for kernel in kernels]
    of_call = [_of_call(name, pick) for pick in family.picks]
    context = call_context(whole, kernels, keywords) | {
        "picks": [{"words": pick.words, "code": code} for pick, code in zip(family.picks, of_call, strict=True)],
        "looked_at": list(dict.fromkeys(pick.name for pick in family.picks if pick.what != "keyword")),
        "sizes_pick": any(pick.what == "size" for pick in family.picks),
        "key": tuple_text(of_call)[1:-1] or "()",
        "of_one_dtype": _dtypes_of_one(family),
        "members": [
            {
                "kernel": member.kernel,
                "folder": member.folder,
                "key": tuple_text(_values(family, member, "torch.")),
                "label": ", ".join(_values(family, member)) or member.kernel.name,
                "promises": promises(member.kernel),
                "fake": fake,
            }
            for member, fake in zip(family.members, fakes, strict=True)
        ],
        "fakes": {function: found for found, function in shapes.items()},
    }
    new = ["_new"] if whole.outputs else []
    defines = ["__all__", "_FOLDER", "_MEMBERS", name, f"{name}_raw", "_member", *new, "_write"]
    defines += [*shapes.values(), "_FAKES", f"_{name}_fake", *operators(whole)]
    return render("family.py.jinja", defines, context)


def _dtypes_of_one(family: FamilyWrapperInput) -> list[str]:
    """The dtypes that torch has for the members, where they differ in nothing else; all arguments that pick are of one."""
    alike = {(tuple(map(str, one.kernel.tensors)), tuple(promises(one.kernel))) for one in family.members}
    if len(alike) > 1 or any(pick.what != "dtype" for pick in family.picks):
        return []
    if any(len(set(one.key)) != 1 for one in family.members):
        return []
    return [TORCH_DTYPES[str(one.key[0])] for one in family.members]


def _of_call(name: str, pick: WrapperPick) -> str:
    """What of the arguments of the function `name` a pick looks at, as Python."""
    if pick.what == "dtype":
        return f"{pick.name}.dtype"
    if pick.what == "keyword":
        return pick.name
    return f"size_in({literal(name)}, {pick.name}, {literal(pick.name)}, {literal(pick.dim)}, {pick.axis})"


def _values(family: FamilyWrapperInput, member: WrapperMember, module: str = "") -> list[str]:
    """What picks a member, as Python; dtypes are those of `module`."""
    pairs = zip(family.picks, member.key, strict=True)
    return [module + TORCH_DTYPES[str(value)] if pick.what == "dtype" else literal(value) for pick, value in pairs]
