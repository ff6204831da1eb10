"""Texts of options go in; targets, sizes of dims and stages come out, or an error that names what exists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wavespec.cli.numbers import default_scalars
from wavespec.diagnostics import WavespecError, guess_hints, listing, name_hints, quote, raise_all

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec
    from wavespec.schema.cases import TargetCase
    from wavespec.schema.language.models import Dim
    from wavespec.targets.machine import Machine

ALL = "all"
"""As a target: every target."""


class UnknownDim(WavespecError, code="unknown-dim"):
    """A size is given for something that is no dim of the kernel."""

    def __init__(self, option: str, name: str, kernel: str, dims: Sequence[str]) -> None:
        super().__init__(
            option, f"{quote(name)} is not a dim of {kernel}.", hints=name_hints(name, dims, "Its dims are")
        )


class BadSize(WavespecError, code="bad-size"):
    """A size that is no number, or one that the spec excludes."""


class MissingSize(WavespecError, code="missing-size"):
    """A dim has neither a size in the spec nor one on the command line."""

    def __init__(self, kernel: str, dims: Mapping[str, int], option: str) -> None:
        """``dims``: with a size each that it may have."""
        sizes = [f"{dim}={size}" for dim, size in dims.items()]
        example = " ".join(f"--dim {size}" for size in sizes) if option == "--dim" else ",".join(sizes)
        super().__init__(option, f"{kernel} needs a size for {listing(dims)}.", hints=[f"For example: {example}"])


class UnknownStage(WavespecError, code="unknown-stage"):
    """`show --after` names no stage of the pipeline."""

    def __init__(self, name: str, stages: Sequence[str]) -> None:
        super().__init__(
            "--after",
            f"{quote(name)} is not a stage.",
            notes=[f"The stages are {', '.join(stages)}."],
            hints=guess_hints(name, stages),
        )


class UnknownCase(WavespecError, code="unknown-case"):
    """A target has no case of that number."""

    def __init__(self, number: int, kernel: str, target: str, count: int) -> None:
        has = f"cases 0 to {count - 1}" if count > 1 else "case 0 only" if count else "no cases"
        super().__init__("--case", f"{kernel} has {has} on {target}, not {number}.")


class UnknownStep(WavespecError, code="unknown-step"):
    """A call of a case runs no kernel of that number."""

    def __init__(self, number: int, kernel: str, count: int) -> None:
        has = f"kernels 0 to {count - 1}" if count > 1 else "one kernel, which is number 0"
        super().__init__("--step", f"A call of this case of {kernel} runs {has}, not {number}.")


def chosen_targets(names: Sequence[str]) -> tuple[str, ...]:
    """The targets that `names` mean, each once; `all` is every one.  Of one whose variants are named, those of all its
    names, as `TARGET:VARIANT+VARIANT`.

    Raises:
        WavespecError: for every name that is none of a target, or of a variant.
    """
    from wavespec.chosen_machines import wrong_names
    from wavespec.targets.machine import machines
    from wavespec.targets.names import TARGETS, target_of

    raise_all(error for name in names if name != ALL for error in wrong_names(name, "--target", (*TARGETS, ALL)))
    every = [one for name in names for one in (TARGETS if name == ALL else (name,))]
    chosen: dict[str, list[str]] = {}
    for name in every:
        chosen.setdefault(target_of(name), []).append(name)

    def together(target: str, names: list[str]) -> str:
        if set(names) == {target}:
            return target
        return f"{target}:{'+'.join(dict.fromkeys(one.variant for name in names for one in machines(name)))}"

    return tuple(together(target, names) for target, names in chosen.items())


def chosen_variants(name: str) -> str:
    """`name`, if it is a target, or names variants of one."""
    from wavespec.chosen_machines import wrong_names
    from wavespec.targets.names import TARGETS

    raise_all(wrong_names(name, "--target", TARGETS))
    return name


def chosen_target(name: str) -> str:
    """`name`, if it is a target."""
    from wavespec.schema.language.errors import UnknownTarget
    from wavespec.targets.names import TARGETS

    if name not in TARGETS:
        raise UnknownTarget("--target", name, TARGETS)
    return name


def chosen_sizes(
    spec: KernelSpec, texts: Sequence[str], option: str = "--dim", scalars: Mapping[str, int] | None = None
) -> tuple[dict[str, int], ...]:
    """Sizes of all dims, once per workload of the spec; those of `M=512 N=512 ...` take the place of its own.

    Args:
        option: where the texts are from; a `--workload` has all sizes itself.
        scalars: what sizes may follow from as well; absent: the defaults.

    Raises:
        WavespecError: with every mistake in `texts`.
    """
    from wavespec.schema.resolve import complete_sizes

    fixed = {name: dim.value for name, dim in spec.dims.items() if dim.value is not None}
    known = default_scalars(spec) if scalars is None else scalars

    def complete(sizes: dict[str, int]) -> dict[str, int]:
        try:
            whole = complete_sizes(spec, {**known, **sizes})
        except ValueError as error:
            raise BadSize(option, str(error)) from None
        return {name: whole[name] for name in spec.dims}

    if not texts and spec.workloads:
        return tuple(complete({**fixed, **workload}) for workload in spec.workloads)
    given = _given_sizes(spec, texts, option)
    free = [name for name, dim in spec.dims.items() if dim.equals is None]
    known_sizes = [{name: workload[name] for name in free if name in workload} for workload in spec.workloads]
    every = [{**fixed, **sizes, **given} for sizes in (known_sizes if option == "--dim" else [])] or [
        {**fixed, **given}
    ]
    errors = _size_errors(spec, given, option)
    if missing := [name for name in free if name not in every[0]]:
        errors.append(MissingSize(spec.name, {name: _example(spec.dims[name]) for name in missing}, option))
    raise_all(errors)
    whole = [complete(sizes) for sizes in every]
    raise_all(error for sizes in whole for error in _size_errors(spec, sizes, option))
    return tuple(dict(sizes) for sizes in dict.fromkeys(tuple(sizes.items()) for sizes in whole))


def _given_sizes(spec: KernelSpec, texts: Sequence[str], option: str) -> dict[str, int]:
    """The numbers of `NAME=SIZE`, by name."""
    errors: list[WavespecError] = []
    given: dict[str, int] = {}
    for text in texts:
        place = f"{option} {text}"
        name, equals, number = text.partition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,18}", number):
            errors.append(BadSize(place, f"{quote(text)} is not 'NAME=SIZE'.", hints=["Write, for example, 'M=512'."]))
        elif name in given:
            errors.append(BadSize(place, f"{quote(name)} has a size already.", hints=["Give each size once."]))
        elif name not in spec.dims:
            errors.append(UnknownDim(place, name, spec.name, list(spec.dims)))
        else:
            given[name] = int(number)
    raise_all(errors)
    return given


def _example(dim: Dim) -> int:
    """A size that a dim may have: 512, or as near as it gets."""
    most = 512 if dim.max is None else min(512, dim.max)
    return max(most // dim.multiple_of * dim.multiple_of, -(-dim.min // dim.multiple_of) * dim.multiple_of)


def chosen_case(
    spec: KernelSpec, target: str, machine: Machine, number: int | None, texts: Sequence[str]
) -> TargetCase:
    """The case `number` of those that `machine` has; else the one for the sizes `texts`, else the one for all sizes.

    Raises:
        UnknownCase: the target has no such case.
    """
    from wavespec.cases_on_machines import cases_on
    from wavespec.schema.cases import case_for_sizes
    from wavespec.schema.resolve import spec_as_on

    cases = cases_on(spec, target, (machine,))
    if number is None:
        known = default_scalars(spec)
        return case_for_sizes(cases, known | chosen_sizes(spec_as_on(spec, target), texts)[0]) if texts else cases[-1]
    if not 0 <= number < len(cases) - 1:
        raise UnknownCase(number, spec.name, target, len(cases) - 1)
    return cases[number]


def chosen_step(case: TargetCase, number: int | None) -> KernelSpec:
    """Of what a call of the case runs the kernel `number`; the last one where that is none.

    Raises:
        UnknownStep: the case has no such kernel.
    """
    if number is None:
        return case.spec
    if not 0 <= number < len(case.kernels):
        raise UnknownStep(number, case.spec.name, len(case.kernels))
    return case.kernels[number]


def chosen_stage(name: str, stages: Sequence[str]) -> str:
    """`name`, if it is a stage."""
    if name not in stages:
        raise UnknownStage(name, stages)
    return name


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """`M=512 N=512 K=64`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _size_errors(spec: KernelSpec, sizes: Mapping[str, int], option: str) -> list[WavespecError]:
    from wavespec.schema.checking.check_spec import size_problem

    return [
        BadSize(f"{option} {name}={size}", f"{quote(name)} is {size}, {problem}.")
        for name, size in sizes.items()
        if (problem := size_problem(spec.dims[name], size))
    ]
