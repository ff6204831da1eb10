"""What generated wrappers say about kernels, and what of it no wrapper can say."""

from __future__ import annotations

import keyword as python_keywords
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from wavespec.emit.python_text import literal, tuple_text
from wavespec.runtime.artifact import Dim, Strides
from wavespec.runtime.scalars import ScalarParameter
from wavespec.runtime.size_expr import SizeExpr

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SIZE = re.compile(r"(?=.*[-+*/%(])[-+*/%(), A-Za-z0-9_]+")
"""The name of a dim that is an expression of others; it is in messages alone."""


@dataclass(frozen=True, slots=True)
class WrapperTensor:
    """One tensor argument: `dims` outermost first, dim names or literal sizes; `output` for role output, `updated` for an
    input that is changed in place, `zeroed` for an output that starts as zeros, `strides` as in the spec, and `promised` where it lists them, `folded` where a
    call may have any number of dims in place of the first one, `holds` what it is meant to hold, in words, `optional`
    where a call may leave it out."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    output: bool = False
    updated: bool = False
    zeroed: bool = False
    strides: Strides = ""
    promised: tuple[SizeExpr, ...] = ()
    folded: bool = False
    holds: str = ""
    optional: bool = False

    @property
    def type(self) -> str:
        return "Tensor | None" if self.optional else "Tensor"

    @property
    def constructed(self) -> str:
        """The parameter as Python that makes it again, as far as strides go."""
        said = [_python(self.name), _python(self.dtype), _tuple(self.dims), f"output={self.output}"]
        said += [f"strides={_python(self.strides)}", f"promised={_tuple(self.promised)}"]
        return f"TensorParameter({', '.join(said)})"

    @property
    def schema_type(self) -> str:
        """In the schema of a torch operator, without the mark of what is written."""
        return "Tensor?" if self.optional else "Tensor"

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(['...', *map(str, self.dims[1:])] if self.folded else map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class WrapperScalar:
    """One number that a call passes by name."""

    parameter: ScalarParameter
    doc: str = ""
    computed: str = ""
    """What it is where a call says nothing, if that follows from sizes, as the spec has it."""
    is_defaulted: bool = False
    """Whether the schema of the operator may say the default: all behind it have one. Torch passes no argument that is
    equal to its default, as -0.0 is to 0.0, which schemas therefore leave out."""
    optional: bool = False
    """Whether it may be None: for kernels of a family that lack it, or that have a default."""

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def type(self) -> str:
        return self.parameter.type.__name__ + (" | None" if self._may_be_none else "")

    @property
    def schema_type(self) -> str:
        """In the schema of a torch operator, where integers may be symbols."""
        name = self.parameter.type.__name__
        return ("SymInt" if name == "int" else name) + ("?" if self._may_be_none else "")

    @property
    def in_schema(self) -> str:
        return f"{self.schema_type} {self.name}" + (f"={self.default}" if self.is_defaulted else "")

    @property
    def described(self) -> str:
        """What it may be, in words."""
        one = self.parameter
        limits = [f"at least {one.least}"] if one.least is not None else []
        limits += [f"at most {one.most}"] if one.most is not None else []
        kind = {bool: "True or False", int: "a whole number"}.get(one.type, "a number")
        kind += f" of {one.dtype}" if one.dtype != "bool" else ""
        said = [text] if (text := self.doc.strip().rstrip(".")) else []
        number = self.computed or ("" if one.default is None else repr(one.default))
        absent = [f"{number} where it is None"] if self._may_be_none and number else []
        absent += ["None for kernels without it"] if self.optional else []
        return "; ".join([*said, ", ".join([kind, *limits]), *absent])

    @property
    def default(self) -> str:
        """As Python, and in the schema of an operator; empty where it has none."""
        if self._may_be_none:
            return "None"
        return "" if self.parameter.default is None else repr(self.parameter.default)

    @property
    def _may_be_none(self) -> bool:
        return self.optional or bool(self.computed)

    @property
    def constructed(self) -> str:
        """The parameter as Python that makes it again."""
        one = self.parameter
        fields = [one.name, one.dtype, one.default, one.least, one.most, one.shapes]
        fields += [] if one.computed is None else [one.computed]
        return f"ScalarParameter({', '.join(map(_python, fields))})"


def _python(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_python, cast('tuple[object, ...]', value)))})"
    return literal(value) if isinstance(value, str) else repr(value)


def _tuple(values: Sequence[object]) -> str:
    return tuple_text(map(_python, values))


def wrapper_scalars(
    parameters: Sequence[ScalarParameter], docs: Sequence[str], computed: Sequence[str] = ()
) -> tuple[WrapperScalar, ...]:
    """The scalars of a kernel in order, each with what its spec says of it: `computed` has the texts of defaults that
    follow from sizes, and empty ones."""
    texts = computed or [""] * len(parameters)
    return with_defaults([WrapperScalar(*one) for one in zip(parameters, docs, texts, strict=True)])


def with_defaults(scalars: Sequence[WrapperScalar]) -> tuple[WrapperScalar, ...]:
    """Scalars in the order of a schema, which says the defaults that it may."""
    found: list[WrapperScalar] = []
    is_defaulted = True
    for one in reversed(scalars):
        is_defaulted = is_defaulted and one.default not in ("", "0.0", "-0.0")
        found.insert(0, replace(one, is_defaulted=is_defaulted))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WrapperInput:
    """All that the wrapper says about a kernel; tensors are inputs, then outputs, as declared."""

    name: str
    doc: str
    source: str
    """Path of the spec, relative to where the command is run, with forward slashes."""
    spec_sha256: str
    tensors: tuple[WrapperTensor, ...]
    dims: tuple[Dim, ...]
    command: str = "wavespec build"
    """What to run to get the module again."""
    in_project: bool = False
    """Whether the module is in a folder of the project whose spec is at `source`, so that code can be built of it."""
    assumptions: tuple[str, ...] = ()
    scalars: tuple[WrapperScalar, ...] = ()

    @property
    def arguments(self) -> tuple[WrapperTensor | WrapperScalar, ...]:
        return (*self.inputs, *self.scalars)

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


def check_input(kernel: WrapperInput) -> None:
    """Errors: `ValueError` for what cannot be written as Python."""
    names = [kernel.name, *(one.name for one in (*kernel.tensors, *kernel.scalars))]
    for name in (*names, *(dim.name for dim in kernel.dims if not _SIZE.fullmatch(dim.name))):
        if not _IDENTIFIER.fullmatch(name) or python_keywords.iskeyword(name) or python_keywords.issoftkeyword(name):
            raise ValueError(f"{name!r:.80} cannot be a name in the generated wrapper.")
    # What the functions of the module call by these names must be that; the language reserves them.
    taken = {"PLAIN_TYPES", "any", "define_operator", "getattr", "is_dynamo_compiling", "no_backward", "no_member"}
    taken |= {
        "DirectCalls",
        "check_tensors",
        "TensorParameter",
        "given_tensors",
        "new_result",
        "no_tensor",
        "size_in",
        "torch",
    }
    for name in (*taken.intersection(names), *("out" for one in kernel.arguments if one.name == "out")):
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
