"""What targets and cases replace goes in; names that the kernel has not, and sizes that would differ, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_space import check_space
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.models import Case, KernelSpec, Override, TargetOverride
from wavespec.schema.resolve import UndefinedName, parameters_behind, parameters_of_sizes


class OverriddenStride(WavespecError, code="overridden-size"):
    """A target or a case replaces a parameter by which a caller lays out a tensor."""

    def __init__(self, where: Where, parameter: str, tensor: str) -> None:
        super().__init__(
            where,
            f"{quote(parameter)} decides a stride of {quote(tensor)}: strides are the same on every target and in "
            "every case.",
            hints=["Replace another parameter, or write a kernel of its own that 'extends' this one."],
        )


class OverriddenSize(WavespecError, code="overridden-size"):
    """A target or a case replaces a parameter of which a caller has to know the value."""

    def __init__(self, where: Where, parameter: str, dim: str, tensor: str | None) -> None:
        known, other = "which is asked for before the case of a call is known", "replace it for the whole target"
        if tensor is not None:
            known = f"a dim of {quote(tensor)}: shapes are the same on every target and in every case"
            other = "write a kernel of its own that 'extends' this one"
        message = f"{quote(parameter)} decides the size of {quote(dim)}, {known}."
        super().__init__(where, message, hints=[f"Replace a parameter that no size follows from, or {other}."])


def check_overrides(spec: KernelSpec, broken: frozenset[str], *, is_whole: bool) -> Iterator[WavespecError]:
    """Every mistake in what targets and their cases replace; `broken` names are defined in a way that is reported."""
    for target, settings in spec.targets.items():
        for override in (settings, *settings.cases):
            yield from _unknown(spec, override, target, broken)
            yield from _sizes(spec, settings, override, target)
            for name, tensor in override.tensors.items():
                if name in spec.tensors and is_whole:
                    yield from check_space(spec.tensors[name], tensor.space, tensor.where("space"), name)


def _unknown(spec: KernelSpec, override: Override, target: str, broken: frozenset[str]) -> Iterator[WavespecError]:
    sections: tuple[tuple[str, str, Mapping[str, object]], ...] = (
        ("params", "a parameter of the kernel", spec.params),
        ("tensors", "a tensor of the kernel", spec.tensors),
    )
    for section, what, known in sections:
        overridden: Mapping[str, object] = getattr(override, section)
        for name in overridden:
            if name not in known and name not in broken:
                yield UndefinedName(_key(override, section, name, target), name, what, list(known))


def _sizes(spec: KernelSpec, settings: TargetOverride, override: Override, target: str) -> Iterator[WavespecError]:
    """Parameters that decide shapes, and in a case also those that decide a size of which conditions speak."""
    said = set[str]()
    asked = _in_conditions(spec, settings) if isinstance(override, Case) else frozenset[str]()
    for dim, parameters in parameters_of_sizes(spec).items():
        tensor = next((name for name, one in spec.tensors.items() if dim in one.shape), None)
        if tensor is None and dim not in asked:
            continue
        for parameter in (name for name in override.params if name in parameters and name not in said):
            said.add(parameter)
            yield OverriddenSize(_key(override, "params", parameter, target), parameter, dim, tensor)
    for name, tensor in spec.tensors.items():
        behind = parameters_behind(spec, [one for stride in tensor.promised_strides for one in stride.names()])
        for parameter in (one for one in override.params if one in behind and one not in said):
            said.add(parameter)
            yield OverriddenStride(_key(override, "params", parameter, target), parameter, name)


def _in_conditions(spec: KernelSpec, settings: TargetOverride) -> frozenset[str]:
    given = (one for part in (spec, settings, *settings.cases) for one in part.constraints or ())
    promised = (one.condition for one in given if isinstance(one, Assume))
    conditions = (*promised, *(condition for case in settings.cases for condition in case.all_asked))
    return frozenset(name for condition in conditions for name in condition.names())


def _key(override: Override, section: str, name: str, target: str) -> Where:
    return override.key_span_of(section, name) or f"targets.{target}.{section}.{name}"
