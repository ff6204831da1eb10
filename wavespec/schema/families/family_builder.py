"""Calls of Python go in; the family that the same YAML would give comes out.

family = FamilyBuilder("scale", doc="b = a · 2")
family.parameter("DTYPE", "f16", "f32", pick="dtype(a)")
family.template('''
    dims: {M: {}}
    ...
''')
kernels = family.build().members
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from wavespec.diagnostics import WavespecError
from wavespec.schema.families.expand import Family, expand
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.language.models import API_VERSION
from wavespec.schema.reading.pydantic_to_error import pydantic_to_error


@dataclass
class FamilyBuilder:
    """Collects the parts of a family; `build` checks them, and every member."""

    name: str
    doc: str = ""
    _parameters: dict[str, tuple[str | int, ...]] = field(default_factory=dict[str, tuple[str | int, ...]])
    _pick: dict[str, str] = field(default_factory=dict[str, str])
    _when: list[str] = field(default_factory=list[str])
    _template: str = ""

    def parameter(self, name: str, *values: str | int, pick: str = "") -> None:
        """A parameter and its values; `pick` is what of a call gives it: `dtype(a)`, `size(D)` or `keyword(x)`."""
        self._parameters[name] = values
        if pick:
            self._pick[name] = pick

    def when(self, condition: str) -> None:
        """Leave out all members for which `condition`, an expression of the template language, is false."""
        self._when.append(condition)

    def template(self, text: str) -> None:
        """The kernel, as in YAML; what all of its lines are indented by does not count."""
        self._template = textwrap.dedent(text).lstrip("\n")

    def build(self) -> Family:
        """The family and its members.

        Raises:
            WavespecError: with everything that is wrong in it.
        """
        data: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "Family",
            "name": self.name,
            "doc": self.doc,
            "parameters": self._parameters,
            "when": tuple(self._when),
            "pick": self._pick,
            "template": self._template,
        }
        try:
            spec = FamilySpec.model_validate(data)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            found = (
                pydantic_to_error(one, ".".join([self.name, *map(str, one["loc"])]), str(one["loc"][-1]), "A family")
                for one in problems
            )
            raise WavespecError.of(diagnostic for one in found for diagnostic in one.diagnostics) from None
        return expand(spec)
