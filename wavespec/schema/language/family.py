"""The model of a family: a template of a kernel, the grid of its parameters, and how a call finds its member."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.models import Doc, KernelSpec
from wavespec.schema.language.names import Name, name_problem

MOST_MEMBERS = 256
WORD_PATTERN = r"^[A-Za-z0-9_]{1,32}$"
PICK_PATTERN = (
    r"^((dtype|size)\([A-Za-z][A-Za-z0-9_]{0,63}\)|keyword\([A-Za-z][A-Za-z0-9_]{0,63}(=[A-Za-z0-9_]{1,32})?\))$"
)
# Words that the template language uses itself.
_TEMPLATE_WORDS = frozenset(("caller", "false", "loop", "none", "self", "true", "varargs", "kwargs"))


def _valid_value(value: str | int) -> str | int:
    if isinstance(value, str) and not re.fullmatch(WORD_PATTERN, value):
        problem = "is not a value of a parameter; that is an integer, or a word of letters, digits and underscores"
        raise PydanticCustomError("bad_name", "{problem}", {"problem": problem})
    return value


def _valid_parameter(name: str) -> str:
    if name in _TEMPLATE_WORDS:
        raise PydanticCustomError("bad_name", "{problem}", {"problem": "is a word of the template language"})
    return name


def _printable(text: str) -> str:
    if not all(character.isprintable() or character in "\t\n" for character in text):
        raise PydanticCustomError("bad_name", "{problem}", {"problem": "has an unprintable character"})
    return text


Value = Annotated[
    Annotated[int, Field(ge=0, lt=2**31)] | str,
    AfterValidator(_valid_value),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": WORD_PATTERN}]}),
]
"""One value of a parameter: a word, such as a dtype, or an integer."""
Parameter = Annotated[Name, AfterValidator(_valid_parameter)]
PickText = Annotated[str, WithJsonSchema({"type": "string", "pattern": PICK_PATTERN})]
Line = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_printable)]
Template = Annotated[str, Field(min_length=1, max_length=2**16), AfterValidator(_printable)]


class FamilySpec(SpecModel):
    """Kernels that differ in a few words, and one Python function that picks the right one at every call."""

    apiVersion: Literal["wavespec/v1"]
    """The version of the language."""
    kind: Literal["Family"]
    """What the file describes."""
    extends: Annotated[str, WithJsonSchema({"type": "string", "pattern": r"\.wave\.yaml$"})] = ""
    """A kernel or a family to start from, each member from that of the same values: a relative path in the project."""
    name: Name
    """The name of the family and of its Python function; a member is called like it, with its values behind."""
    doc: Doc = ""
    """What the function computes."""
    parameters: Annotated[
        dict[Parameter, Annotated[tuple[Value, ...], Field(min_length=1, max_length=64)]],
        Field(min_length=1, max_length=8),
    ]
    """The grid: every combination of the values is a member."""
    when: Annotated[tuple[Line, ...], Field(max_length=64)] = ()
    """Conditions on the parameters, as in `{% if %}`: a combination is a member where all of them hold."""
    pick: Annotated[dict[Parameter, PickText], Field(max_length=8)] = Field(default_factory=dict[str, str])
    """What of a call gives a value: `dtype(a)`, `size(D)`, or an argument `keyword(layout)`, `keyword(layout=nt)`."""
    template: Template = ""
    """A kernel with `{{ PARAMETER }}`, `{% if %}` and `{% for %}` in it, without `apiVersion`, `kind` and `name`."""

    def in_words(self, *path: str | int) -> str:
        return ".".join([self.name, *map(str, path)])

    def __eq__(self, other: object) -> bool:
        # The order of the picks is the order of the keyword arguments; that of the parameters means nothing.
        return super().__eq__(other) and isinstance(other, FamilySpec) and list(self.pick) == list(other.pick)


@dataclass(frozen=True, slots=True)
class Pick:
    """`dtype(a)`: the dtype of an argument. `size(D)`: the size of a dim. `keyword(layout)`: an argument of its own."""

    what: Literal["dtype", "size", "keyword"]
    name: str
    default: str = ""
    """Of a keyword, as it was written: what it is where a call does not say."""


@dataclass(frozen=True, slots=True)
class Member:
    """One kernel of a family."""

    values: Mapping[str, str | int]
    """Of the parameters."""
    name: str
    text: str
    """The YAML of the kernel, as the template gives it."""
    spec: KernelSpec

    @property
    def label(self) -> str:
        """`DTYPE=f16,LAYOUT=nt`, as `--member` takes it."""
        return member_label(self.values)

    def suffix(self, family: str) -> str:
        """What the name has behind that of the family; nothing where it is the same."""
        return self.name.removeprefix(family).removeprefix("_")


class MalformedPick(WavespecError, code="malformed-pick"):
    def __init__(self, where: Where, found: str) -> None:
        super().__init__(
            where,
            f"{quote(found)} is no way to pick a member.",
            hints=[
                "Write 'dtype(TENSOR)', 'size(DIM)', or 'keyword(NAME)' for an argument of its own, "
                "'keyword(NAME=VALUE)' with a default."
            ],
        )


def parse_pick(text: str) -> Pick | None:
    """What a value of `pick` says; `None` where it is malformed."""
    found = re.fullmatch(r"(dtype|size|keyword)\(\s*([^()\s=]+)\s*(?:=\s*([A-Za-z0-9_]+)\s*)?\)", text.strip())
    if found is None or name_problem(found[2]) is not None or (found[3] and found[1] != "keyword"):
        return None
    what: Literal["dtype", "size", "keyword"] = (
        "dtype" if found[1] == "dtype" else "size" if found[1] == "size" else "keyword"
    )
    return Pick(what, found[2], found[3] or "")


def member_label(values: Mapping[str, str | int]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def member_name(family: str, values: Mapping[str, str | int]) -> str:
    """The name of the kernel: parameters in the order of the alphabet, so that the order of the grid means nothing."""
    return "_".join([family, *(str(values[name]) for name in sorted(values))])
