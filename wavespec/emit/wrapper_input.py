"""What generated wrappers say about kernels, and what of it no wrapper can say."""

from __future__ import annotations

import keyword as python_keywords
import re
from dataclasses import dataclass
from typing import ClassVar

from wavespec.runtime.artifact import Dim

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class WrapperTensor:
    """One tensor argument: `dims` outermost first, dim names or literal sizes; `output` for role output, `updated` for an
    input that is changed in place, `zeroed` for an output that starts as zeros, `folded` where a call may have any
    number of dims in place of the first one."""

    type: ClassVar[str] = "Tensor"
    name: str
    dtype: str
    dims: tuple[str | int, ...]
    output: bool = False
    updated: bool = False
    zeroed: bool = False
    folded: bool = False

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(['...', *map(str, self.dims[1:])] if self.folded else map(str, self.dims))}]"


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
    names = [kernel.name, *(tensor.name for tensor in kernel.tensors)]
    for name in (*names, *(dim.name for dim in kernel.dims)):
        if not _IDENTIFIER.fullmatch(name) or python_keywords.iskeyword(name) or python_keywords.issoftkeyword(name):
            raise ValueError(f"{name!r:.80} cannot be a name in the generated wrapper.")
    # What the functions of the module call by these names must be that; the language reserves them.
    taken = {"PLAIN_TYPES", "any", "define_operator", "getattr", "is_dynamo_compiling", "no_backward", "no_member"}
    taken |= {"size_in", "torch"}
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
