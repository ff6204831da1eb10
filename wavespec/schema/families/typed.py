"""A kernel with `dtypes` goes in; the family of its kernels, one for each of the types, comes out.

It is a family like one of a template: the template is the kernel, the parameters are the names of its types, and every
input that has one of these picks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from wavespec.diagnostics import Diagnostic, WavespecError, in_order
from wavespec.schema.families.expand import Family
from wavespec.schema.language.base import Position
from wavespec.schema.language.dtype_parameters import DtypeParameters, Types
from wavespec.schema.language.family import FamilySpec, Member, Pick, member_label
from wavespec.schema.language.models import API_VERSION, KernelSpec
from wavespec.schema.load import node_to_spec, with_tuned
from wavespec.schema.reading.dtype_members import inputs_of, member_node, name_of, name_of_all, node_to_data
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.reading.tuned import path_of_member
from wavespec.schema.reading.yaml_source import MappingNode


def expand_node(
    root: MappingNode, parameters: DtypeParameters, errors: list[WavespecError], name: str, path: Path | None
) -> Family:
    """The family of the kernel at `root`, which needs no base any more; `errors` were found before.

    Raises:
        WavespecError: with every mistake of the members, each once.
    """
    found: list[tuple[str, Diagnostic]] = []
    whole = name_of_all(name_of(root), parameters)

    def load(chosen: Types) -> KernelSpec:
        spec, warnings = node_to_spec(member_node(root, parameters, chosen), errors, name, path)
        found.extend((member_label(chosen), diagnostic) for diagnostic in warnings)
        return spec if path is None else with_tuned(spec, name, path_of_member(path, whole, spec.name))

    data = cast("dict[str, object]", node_to_data(root))
    family = family_of_members(parameters, data, [(one, partial(load, one)) for one in parameters.members()])
    title = root.get("name")
    if title is not None:
        family.spec.was_written_at({(): Position(root.span), ("name",): Position(title.span)})
    return replace(family, warnings=_each_once(found, [member.label for member in family.members]))


def family_of_members(
    parameters: DtypeParameters,
    data: Mapping[str, object],
    kernels: Iterable[tuple[Types, Callable[[], KernelSpec]]],
) -> Family:
    """The family of kernels whose common text is `data`; the first one is that of the first types.

    Args:
        kernels: for the types of each, what makes it or raises what is wrong with it.

    Raises:
        WavespecError: with every mistake of the members, each once.
    """
    found: list[tuple[str, Diagnostic]] = []
    members: list[Member] = []
    for chosen, make in kernels:
        try:
            spec = make()
        except WavespecError as error:
            found += [(member_label(chosen), diagnostic) for diagnostic in error.diagnostics]
        else:
            members.append(Member(dict(chosen), spec.name, dump_yaml(spec), spec))
    if found:
        raise WavespecError.of(_each_once(found, [member_label(chosen) for chosen in parameters.members()]))
    telling = {parameter: inputs_of(parameter, data) for parameter in parameters.choices}
    plain = members[0].spec
    # Made as it is: what YAML may write has limits, of which the text of all members knows nothing.
    spec = FamilySpec.model_construct(
        apiVersion=API_VERSION,
        kind="Family",
        name=name_of_all(str(data["name"]), parameters),
        doc=plain.doc,
        parameters=dict(parameters.choices),
        when=(),
        pick={parameter: f"dtype({inputs[0]})" for parameter, inputs in telling.items()},
        template="\n".join(member.text for member in members),
    )
    picks = tuple((parameter, Pick("dtype", name)) for parameter, inputs in telling.items() for name in inputs)
    return Family(spec, tuple(members), picks, is_typed=True)


def _each_once(found: Sequence[tuple[str, Diagnostic]], labels: Sequence[str]) -> tuple[Diagnostic, ...]:
    """What is wrong at each place, in the words of the first member that has it, and with the members that do."""
    places: dict[tuple[object, ...], list[tuple[str, Diagnostic]]] = {}
    for label, one in found:
        places.setdefault((one.code, one.where, one.severity), []).append((label, one))
    return in_order(_with_members(those, labels) for those in places.values())


def _with_members(found: Sequence[tuple[str, Diagnostic]], labels: Sequence[str]) -> Diagnostic:
    names = list(dict.fromkeys(label for label, _ in found))
    first = found[0][1]
    if len(names) == len(labels) and all((one.message, one.label) == (first.message, first.label) for _, one in found):
        return first  # It has nothing to do with the types.
    others = f", and likewise with {' and '.join(names[1:])}" if names[1:] else ""
    return replace(first, notes=(*first.notes, f"With {names[0]}{others}."))
