"""A kernel with `dtypes` goes in; the family of its kernels, one for each of the types, comes out.

It is a family like one of a template: the template is the kernel, the parameters are the names of its types, and every
input that has one of these picks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wavespec.diagnostics import Diagnostic, WavespecError, in_order
from wavespec.schema.families.expand import Family
from wavespec.schema.language.base import Position
from wavespec.schema.language.dtype_parameters import DtypeParameters, Types
from wavespec.schema.language.family import FamilySpec, Member, Pick, member_label
from wavespec.schema.language.models import API_VERSION, KernelSpec
from wavespec.schema.load import node_to_spec
from wavespec.schema.reading.dtype_members import inputs_of, member_node, node_to_data
from wavespec.schema.reading.spec_to_yaml import data_to_yaml, dump_yaml
from wavespec.schema.reading.yaml_source import MappingNode, ScalarNode


def expand_node(
    root: MappingNode, parameters: DtypeParameters, errors: list[WavespecError], name: str, path: Path | None
) -> Family:
    """The family of the kernel at `root`, which needs no base any more; `errors` were found before.

    Raises:
        WavespecError: with every mistake of the members, each once.
    """
    found: list[tuple[str, Diagnostic]] = []
    kernels: list[tuple[Types, KernelSpec]] = []
    for chosen in parameters.members():
        try:
            spec, warnings = node_to_spec(member_node(root, parameters, chosen), errors, name, path)
        except WavespecError as error:
            found += [(member_label(chosen), diagnostic) for diagnostic in error.diagnostics]
        else:
            found += [(member_label(chosen), diagnostic) for diagnostic in warnings]
            kernels.append((chosen, spec))
    notes = _each_once(found, [member_label(chosen) for chosen in parameters.members()])
    if any(diagnostic.is_error for diagnostic in notes):
        raise WavespecError.of(notes)
    data = node_to_data(root)
    assert isinstance(data, dict)
    family = family_of_kernels(parameters, data, kernels, notes)
    title = root.get("name")
    if isinstance(title, ScalarNode):
        family.spec.was_written_at({(): Position(root.span), ("name",): Position(title.span)})
    return family


def family_of_kernels(
    parameters: DtypeParameters,
    data: Mapping[str, object],
    kernels: Sequence[tuple[Types, KernelSpec]],
    warnings: tuple[Diagnostic, ...] = (),
) -> Family:
    """The family of `kernels`, whose common text is `data`; the first one is that of the first types."""
    plain = kernels[0][1]
    telling = {parameter: inputs_of(parameter, data) for parameter in parameters.choices}
    spec = FamilySpec.model_construct(
        apiVersion=API_VERSION,
        kind="Family",
        name=plain.name,
        doc=plain.doc,
        parameters=dict(parameters.choices),
        when=(),
        pick={parameter: f"dtype({inputs[0]})" for parameter, inputs in telling.items()},
        template=data_to_yaml(dict(data)),  # pyright: ignore[reportArgumentType]
    )
    members = tuple(Member(dict(chosen), one.name, dump_yaml(one), one) for chosen, one in kernels)
    picks = tuple((parameter, Pick("dtype", name)) for parameter, inputs in telling.items() for name in inputs)
    return Family(spec, members, picks, warnings)


def _each_once(found: Sequence[tuple[str, Diagnostic]], labels: Sequence[str]) -> tuple[Diagnostic, ...]:
    """What is wrong at each place, in the words of the first member that has it, and with the members that do."""
    places: dict[tuple[object, ...], list[tuple[str, Diagnostic]]] = {}
    for label, one in found:
        places.setdefault((one.code, one.where, one.severity), []).append((label, one))
    return in_order(_with_members(those, labels) for those in places.values())


def _with_members(found: Sequence[tuple[str, Diagnostic]], labels: Sequence[str]) -> Diagnostic:
    names = list(dict.fromkeys(label for label, _ in found))
    first = found[0][1]
    if len(names) == len(labels) and all(one == first for _, one in found):
        return first  # It has nothing to do with the types.
    others = f", and with {' and '.join(names[1:])}" if names[1:] else ""
    return replace(first, notes=(*first.notes, f"With {names[0]}{others}."))
