"""`wavespec show`: a spec and a stage in, the text of the kernel after that stage out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavespec.cli.inputs import chosen_case, chosen_stage, chosen_step, chosen_variants
from wavespec.cli.progress import progress
from wavespec.cli.specs import MemberOption, kernel_of

if TYPE_CHECKING:
    from wavespec.runtime import KernelArtifact
    from wavespec.schema import KernelSpec
    from wavespec.targets.machine import Machine


def show(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec.")],
    target: Annotated[str, typer.Option(help="The machine.")] = "cpu",
    after: Annotated[
        str,
        typer.Option(help="Stage to stop after; 'mlir' and 'isa' come last.", show_default="the last pass"),
    ] = "",
    variant: Annotated[str, typer.Option(help="Variant of the target.", show_default="the best here")] = "",
    case: Annotated[
        int | None,
        typer.Option(help="Case of the target, counted from 0.", show_default="that of --dim, else the one for all"),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=SIZE", help="Size of a dim (repeatable): chooses the case."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(help="Kernel that a call of the case runs, counted from 0.", show_default="the last one"),
    ] = None,
    member: MemberOption = "",
    stages: Annotated[bool, typer.Option("--stages", help="List the stages and stop.")] = False,
    check_passes: Annotated[
        bool, typer.Option("--check-passes", help="Check what each pass requires and ensures, as tests do.")
    ] = False,
) -> None:
    """Print the kernel as IR, MLIR or ISA at any point on its way."""
    from wavespec.lower.contracts import CHECK_PASSES
    from wavespec.pipeline import STAGES
    from wavespec.schema.checking.case_errors import naming_case
    from wavespec.schema.families.family_errors import naming_member

    if stages:
        print("\n".join(STAGES))
        return
    if check_passes:
        os.environ[CHECK_PASSES] = "1"
    stage = chosen_stage(after or STAGES[-3], STAGES)
    machine = machine_of(chosen_variants(target), variant)
    label, kernel = kernel_of(spec, member)
    chosen = chosen_case(kernel, target, machine, case, dim or [])
    with naming_member(label), naming_case(chosen):
        print(stage_text(chosen_step(chosen, step), machine, stage), end="")


def machine_of(target: str, variant: str) -> Machine:
    """The variant called `variant`; the best one for this machine where that is empty."""
    from wavespec.pipeline import best_variant
    from wavespec.schema.language.errors import UnknownVariant
    from wavespec.targets.machine import variants
    from wavespec.targets.names import target_of

    if not variant:
        return best_variant(target)
    for machine in variants(target_of(target)):
        if machine.variant == variant:
            return machine
    raise UnknownVariant("--variant", variant, target_of(target))


def stage_text(spec: KernelSpec, machine: Machine, stage: str) -> str:
    """The kernel as text after `stage` of `pipeline.STAGES`."""
    from wavespec.generate import isa_text
    from wavespec.ir.printer import print_kernel
    from wavespec.pipeline import build_variant, emit, lower

    with progress(f"{spec.name} for {machine.target}"):
        if stage == "mlir":
            return emit(spec, machine).text.rstrip() + "\n"
        if stage == "isa":
            artifact, compiled = build_variant(spec, machine, intermediates=True)
            return assembler_notes(artifact) + isa_text(compiled.dumped)[1].rstrip() + "\n"
        return print_kernel(lower(spec, machine, after=stage))


def assembler_notes(artifact: KernelArtifact) -> str:
    """Comment lines for above PTX: what NVIDIA's assembler, where there is one, makes of it."""
    from wavespec.emit.ptxas import assemble, find_ptxas

    ptxas = find_ptxas()
    texts = [binary.data for binary in artifact.binaries if binary.format == "ptx"]
    if ptxas is None or not texts:
        return ""
    lines = str(assemble(texts[0], artifact.architecture, ptxas)).splitlines()
    return "".join(f"// ptxas: {line}\n" for line in lines)
