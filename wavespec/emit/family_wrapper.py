"""What a family and its members say about their arguments goes in; the Python module that picks a member at every
call comes out, as text: `templates/family.py.jinja`, which reads like it, with what is computed here.

It shares the parts of its template, its context and its guards with the wrapper of one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from wavespec.emit.python_text import literal, render, tuple_text
from wavespec.emit.shape_checks import TORCH_DTYPES, Shapes, promises, shapes_of
from wavespec.emit.wrapper import call_context, operators
from wavespec.emit.wrapper_input import WrapperInput, WrapperScalar, WrapperTensor, check_input, with_defaults

Value = str | int


@dataclass(frozen=True, slots=True)
class WrapperPick:
    """What of a call gives one value: the dtype of the input `name`, the size of its dim `axis`, which is `dim`, the
    keyword argument `name`, or whether the input `name` is given."""

    what: Literal["dtype", "size", "keyword", "given"]
    name: str
    axis: int = 0
    dim: str = ""
    default: str = ""
    """Of a keyword that a call may leave out, as text."""

    @property
    def words(self) -> str:
        if self.what == "given":
            return f"argument '{self.name}'"
        if self.what == "dtype":
            return f"the dtype of '{self.name}'"
        return f"'{self.name}'" if self.what == "keyword" else f"the size {self.dim}"


@dataclass(frozen=True, slots=True)
class WrapperMember:
    """One kernel: `key` has a value for every pick, None for the dtype of an input that it does not have; `folder` is
    below that of the family."""

    kernel: WrapperInput
    folder: str
    key: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class FamilyWrapperInput:
    """All that the wrapper says about a family. Members may lack inputs that others have: those come last in `inputs`,
    which are all of them."""

    name: str
    doc: str
    source: str
    sha256: str
    picks: tuple[WrapperPick, ...]
    members: tuple[WrapperMember, ...]
    inputs: tuple[str, ...] = ()
    """Absent: those of each member."""
    scalars: tuple[str, ...] = ()
    """As of inputs: those that not all members have come last."""
    command: str = "wavespec build"


@dataclass(frozen=True, slots=True)
class Keyword:
    """An argument that picks a member: all values that it may have."""

    name: str
    values: tuple[Value, ...]
    default: Value | None = None

    @property
    def type(self) -> str:
        return "int" if isinstance(self.values[0], int) else "str"

    @property
    def equals_default(self) -> str:
        """Behind the type, as Python."""
        return "" if self.default is None else f" = {literal(self.default)}"


@dataclass(frozen=True, slots=True)
class Fake:
    """What torch.compile calls in place of a member: a function of `inputs` and `numbers`."""

    function: str
    shapes: Shapes
    inputs: tuple[WrapperTensor, ...]
    numbers: tuple[WrapperScalar, ...]


def family_wrapper_module(family: FamilyWrapperInput) -> str:
    """The generated module: same input, same bytes.

    Errors: `ValueError` for a name that cannot be written as Python, or a kernel that a torch operator cannot
        express.
    """
    family = _with_given(family)
    name, kernels = family.name, [member.kernel for member in family.members]
    whole = replace(
        kernels[0],
        name=name,
        doc=family.doc,
        source=family.source,
        spec_sha256=family.sha256,
        command=family.command,
        tensors=_tensors(family),
        scalars=_scalars(family),
    )
    keywords = [_keyword(family, index) for index, pick in enumerate(family.picks) if pick.what == "keyword"]
    arguments = tuple(WrapperTensor(keyword.name, "i32", ()) for keyword in keywords)
    for kernel in (*kernels, replace(whole, tensors=(*whole.tensors, *arguments))):
        check_input(kernel)
    if strangers := {pick.name for pick in family.picks} - {one.name for one in (*whole.inputs, *keywords)}:
        raise ValueError(f"{name} is picked by what is no input: {', '.join(sorted(strangers)):.80}.")

    fakes = _fakes(kernels, whole)
    different = {fake.function: fake for fake in fakes}
    optional = [tensor.name for tensor in whole.inputs if tensor.optional]
    looked_at = list(dict.fromkeys(pick.name for pick in family.picks if pick.what != "keyword"))
    of_call = [_of_call(name, pick, pick.name in optional) for pick in family.picks]
    # What picks the member, and what shapes a call, is seen by who knows the calls of tensors.
    is_lacked = any(one.optional for one in (*whole.inputs, *whole.scalars))
    is_told = not (keywords or is_lacked or any(one.parameter.shapes for kernel in kernels for one in kernel.scalars))
    context = call_context(whole, kernels, keywords) | {
        "picks": [{"words": pick.words, "code": code} for pick, code in zip(family.picks, of_call, strict=True)],
        "looked_at": looked_at,
        "needed": [name for name in looked_at if name not in optional],
        "is_told": is_told,
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
                "fake": fake.function,
            }
            for member, fake in zip(family.members, fakes, strict=True)
        ],
        "fakes": different.values(),
    }
    direct = ["_DIRECT"] if is_told else []
    new = ["_new"] if whole.outputs else []
    defines = ["__all__", "_FOLDER", "_MEMBERS", name, f"{name}_raw", "_member", *direct, *new, "_write"]
    defines += [*different, "_FAKES", f"_{name}_fake", *operators(whole)]
    return render("family.py.jinja", defines, context)


def _with_given(family: FamilyWrapperInput) -> FamilyWrapperInput:
    """The family, picked as well by which of its optional inputs are given, where no pick looks at them already."""
    every = [{tensor.name for tensor in member.kernel.inputs} for member in family.members]
    seen = {pick.name for pick in family.picks if pick.what == "dtype"}
    for name in family.inputs:
        if name in seen or all(name in inputs for inputs in every):
            continue
        members = tuple(
            replace(member, key=(*member.key, name in inputs))
            for member, inputs in zip(family.members, every, strict=True)
        )
        family = replace(family, picks=(*family.picks, WrapperPick("given", name)), members=members)
    return family


def _tensors(family: FamilyWrapperInput) -> tuple[WrapperTensor, ...]:
    """The tensors of the function: each as the first member that has it says."""
    kernels = [member.kernel for member in family.members]
    if not family.inputs:
        return kernels[0].tensors
    found = {tensor.name: tensor for kernel in reversed(kernels) for tensor in kernel.inputs}
    lacked = {name for kernel in kernels for name in found.keys() - {one.name for one in kernel.inputs}}
    inputs = (replace(found[name], optional=name in lacked) for name in family.inputs)
    return (*inputs, *kernels[0].outputs)


def _scalars(family: FamilyWrapperInput) -> tuple[WrapperScalar, ...]:
    """The scalars of the function: each as the first member that has it says."""
    kernels = [member.kernel for member in family.members]
    if not family.scalars:
        return kernels[0].scalars
    every = [{scalar.name: scalar for scalar in kernel.scalars} for kernel in kernels]
    found = {name: scalar for scalars in reversed(every) for name, scalar in scalars.items()}
    lacked = {name for name in found if any(name not in scalars for scalars in every)}
    return with_defaults([replace(found[name], optional=name in lacked) for name in family.scalars])


def _fakes(kernels: Sequence[WrapperInput], whole: WrapperInput) -> list[Fake]:
    """Of each member; those whose shapes are found the same way share one."""
    is_lacked = any(scalar.optional for scalar in whole.scalars)
    found: dict[tuple[Shapes | str, ...], Fake] = {}
    fakes: list[Fake] = []
    for kernel in kernels:
        # Where members lack scalars, those are passed that shapes follow from.
        numbers = tuple(scalar for scalar in kernel.scalars if scalar.parameter.shapes or not is_lacked)
        fake = Fake(f"_fake_of_{kernel.name}", shapes_of(kernel, whole.name), kernel.inputs, numbers)
        key = (fake.shapes, *(one.name for one in (*kernel.inputs, *numbers)))
        fakes.append(found.setdefault(key, fake))
    return fakes


def _keyword(family: FamilyWrapperInput, index: int) -> Keyword:
    """The argument that is the pick number ``index``."""
    pick = family.picks[index]
    values = tuple(dict.fromkeys(value for member in family.members if (value := member.key[index]) is not None))
    return Keyword(pick.name, values, next((one for one in values if pick.default and str(one) == pick.default), None))


def _dtypes_of_one(family: FamilyWrapperInput) -> list[str]:
    """The dtypes that torch has for the members, where all arguments that pick by theirs have the same one, and there is
    a member for each of them with all else that picks; members then differ in nothing that the docstring does not say.
    """
    tensors = {str(tensor) for one in family.members for tensor in one.kernel.tensors}
    named = {tensor.name for one in family.members for tensor in one.kernel.tensors}
    if len(tensors) > len(named) or len({tuple(promises(one.kernel)) for one in family.members}) > 1:
        return []
    if any(pick.what == "size" for pick in family.picks):
        return []
    if len({tuple(scalar.name for scalar in one.kernel.scalars) for one in family.members}) > 1:
        return []
    typed = [pick.what == "dtype" for pick in family.picks]
    every: list[dict[Value | None, None]] = []
    found: set[tuple[object, ...]] = set()
    for one in family.members:
        pairs = list(zip(one.key, typed, strict=True))
        dtypes = {value for value, is_dtype in pairs if is_dtype and value is not None}
        if len(dtypes) != 1:
            return []
        row = (*dtypes, *((value is None) if is_dtype else value for value, is_dtype in pairs))
        every = every or [{} for _ in row]
        for values, value in zip(every, row, strict=True):
            values[value] = None
        found.add(row)
    return [TORCH_DTYPES[str(dtype)] for dtype in every[0]] if len(found) == prod(map(len, every)) else []


def _of_call(name: str, pick: WrapperPick, is_optional: bool) -> str:
    """What of the arguments of the function `name` a pick looks at, as Python."""
    if pick.what == "given":
        return f"{pick.name} is not None"
    if pick.what == "dtype":
        return f"None if {pick.name} is None else {pick.name}.dtype" if is_optional else f"{pick.name}.dtype"
    if pick.what == "keyword":
        return pick.name
    return f"size_in({literal(name)}, {pick.name}, {literal(pick.name)}, {literal(pick.dim)}, {pick.axis})"


def _values(family: FamilyWrapperInput, member: WrapperMember, module: str = "") -> list[str]:
    """What picks a member, as Python; dtypes are those of `module`."""
    return [
        str(value)
        if value is None or pick.what == "given"
        else module + TORCH_DTYPES[str(value)]
        if pick.what == "dtype"
        else literal(value)
        for pick, value in zip(family.picks, member.key, strict=True)
    ]
