"""What `wavespec tune` found to be best, as it is kept beside a spec: `gemm.wave.yaml` has `gemm.tuned.yaml`.

Its entries are cases of the kernel, in front of those that the spec itself has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.models import Case, Doc, Extent, KernelSpec, TargetOverride
from wavespec.schema.language.names import Name
from wavespec.schema.reading.source_files import SPEC_SUFFIX
from wavespec.targets.names import TargetName

TUNED_SUFFIX = ".tuned.yaml"


class TunedForAnother(WavespecError, code="tuned-for-another"):
    def __init__(self, where: Where, kernel: str, spec: str) -> None:
        super().__init__(
            where,
            f"These settings were measured for {quote(kernel)}; the spec beside them is {quote(spec)}.",
            hints=["Delete the file, or run 'wavespec tune' for this spec."],
        )


class TunedWithoutSpec(WavespecError, code="tuned-without-spec"):
    def __init__(self, where: Where, kernel: str, spec: Path | None) -> None:
        message = (
            f"There is no {quote(spec.name)} beside these settings" if spec else "These settings belong to no spec"
        )
        hint = (
            f"Put it there, or call this file like the spec of {quote(kernel)}."
            if spec
            else f"Call the file NAME{TUNED_SUFFIX} where the spec is NAME{SPEC_SUFFIX}."
        )
        super().__init__(where, f"{message}; they cannot be checked without the kernel.", hints=[hint])


class TunedAsSpec(WavespecError, code="tuned-as-spec"):
    """Tuned settings were given where a kernel has to be."""

    def __init__(self, where: Where, spec: Path | None) -> None:
        hint = f"Name the spec, {quote(spec.name)}: the settings beside it are taken." if spec else "Name the spec."
        super().__init__(where, "This file has settings of a kernel, not the kernel.", hints=[hint])


class Timing(SpecModel):
    """Median times of one workload, in microseconds."""

    sizes: dict[Name, Extent]
    """Sizes of the dims."""
    tuned: Annotated[float, Field(gt=0)]
    """With these settings."""
    untuned: Annotated[float, Field(gt=0)] | None = None
    """With the settings of the spec."""
    torch: Annotated[float, Field(gt=0)] | None = None
    """Of torch computing the same graph."""


class Measured(SpecModel):
    """Why a case was chosen."""

    machine: Doc
    """What it was measured on."""
    timings: Annotated[tuple[Timing, ...], Field(max_length=64)]
    """One entry per workload."""


class TunedCase(Case):
    """A case of the kernel, with what was measured of it."""

    measured: Measured
    """Why it was chosen; the compiler does not look at it."""


class TunedSpec(SpecModel):
    """The settings that were measured to be best for some sizes of a kernel."""

    apiVersion: Literal["wavespec/v1"]
    """The version of the language."""
    kind: Literal["Tuned"]
    """What the file describes."""
    kernel: Name
    """The kernel that was measured."""
    targets: Annotated[dict[TargetName, tuple[TunedCase, ...]], Field(max_length=16)]
    """Cases per machine; the first whose conditions hold for a call is taken."""


def tuned_path(spec: Path) -> Path | None:
    """Where the tuned settings of the spec at `spec` are kept; `None` for a file that is not called like a spec."""
    if not spec.name.endswith(SPEC_SUFFIX):
        return None
    return spec.with_name(spec.name.removesuffix(SPEC_SUFFIX) + TUNED_SUFFIX)


def spec_path(tuned: Path) -> Path | None:
    """Where the spec is whose settings are at `tuned`; `None` for a file that is not called like settings."""
    if not tuned.name.endswith(TUNED_SUFFIX):
        return None
    return tuned.with_name(tuned.name.removesuffix(TUNED_SUFFIX) + SPEC_SUFFIX)


def path_of_member(spec: Path, name: str, member: str) -> Path:
    """Where the spec of a member would be if it were one by itself: beside `spec`, the kernel `name` with `dtypes`."""
    stem = spec.name.removesuffix(SPEC_SUFFIX)
    return spec.with_name(f"{stem}{member.removeprefix(name)}{SPEC_SUFFIX}") if stem != spec.name else spec


def spec_with_tuned(spec: KernelSpec, tuned: TunedSpec, *, alone: bool = False) -> KernelSpec:
    """The spec with the tuned cases in front of its own, or (`alone`) in their place."""
    targets = dict(spec.targets)
    for target, entries in tuned.targets.items():
        settings = targets.get(target, TargetOverride())
        cases = tuple(map(_plain, entries))
        targets[target] = settings.model_copy(update={"cases": cases if alone else (*cases, *settings.cases)})
    return spec.model_copy(update={"targets": targets})


def _plain(entry: TunedCase) -> Case:
    """The case without its figures: nothing that is built depends on them."""
    case = Case.model_construct(None, **{name: getattr(entry, name) for name in Case.model_fields})
    case.was_written_at(entry.positions)
    return case
