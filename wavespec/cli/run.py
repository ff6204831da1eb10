"""`wavespec run` and `wavespec bench`: a spec and sizes in; is the kernel right, and how fast is it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.given import InputOption, given_inputs, size_texts
from wavespec.cli.inputs import chosen_sizes, chosen_variants, sizes_in_words
from wavespec.cli.numbers import ScalarOption, chosen_scalars, whole_scalars
from wavespec.cli.progress import progress
from wavespec.cli.run_rows import (
    Run,
    errors_of,
    finish,
    finite,
    print_doubts,
    print_run,
    scalars_of,
    share_of_roofline,
    speed,
    verdict_of,
    with_failures,
)
from wavespec.cli.specs import MemberOption, kernels_of, spec_files
from wavespec.cli.terminal import print_diagnostics
from wavespec.diagnostics import Diagnostic, WavespecError

if TYPE_CHECKING:
    from wavespec.cli.asserted import LookedAt
    from wavespec.cli.judged import Watched
    from wavespec.runtime.kernel import Kernel
    from wavespec.schema import KernelSpec

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, or a folder of them.")]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="Size of a dim (repeatable).  [default: those of the spec's workloads]"
    ),
]
Target = Annotated[str, typer.Option(help="The machine.")]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.")]
Repeats = Annotated[int, typer.Option(min=1, max=100_000, help="Calls to take the median of.")]
Debug = Annotated[
    list[str] | None,
    typer.Option(
        "--debug", metavar="NAME", help="A value of the graph to show (repeatable), beside those of its 'debug' ops."
    ),
]
Strided = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1 << 20,
        metavar="COLUMNS",
        help="Pass tensors with 'strides: any' as views of rows that have so many columns more in front.",
    ),
]
Simulate = Annotated[
    bool,
    typer.Option(
        "--simulate", help="Run in the simulator of lanes, which reports races and accesses out of bounds; no times."
    ),
]
CheckBounds = Annotated[
    bool,
    typer.Option(
        "--check-bounds", help="Tell which accesses go outside of their tensors, by a kernel that looks at every place."
    ),
]
Break = Annotated[
    str,
    typer.Option(
        "--break", metavar="LINE|NODE", help="Stop the simulator behind this line or node, and show what lanes have."
    ),
]
Step = Annotated[int, typer.Option(min=0, help="With --break: how often to pass by before.")]
InWorkgroup = Annotated[int, typer.Option("--workgroup", min=0, help="With --break: which workgroup.")]
Wave = Annotated[int | None, typer.Option(min=0, help="With --break: which wave.", show_default="all")]
Lane = Annotated[int | None, typer.Option(min=0, help="With --break: which lane.", show_default="the first ones")]
InKernel = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="With --break: which of the kernels that a call runs; the last one with the place.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")]


class NoDevice(WavespecError, code="no-device"):
    """The machine that a kernel was asked to run on is not here."""

    def __init__(self, target: str, hint: str = "'wavespec build' compiles for it without the device.") -> None:
        super().__init__("--target", f"torch sees no device that runs {target}.", hints=[hint])


class NothingStrided(WavespecError, code="nothing-strided"):
    """Views are to be passed to a kernel that takes none without a copy."""

    def __init__(self, kernel: str) -> None:
        hint = "Write 'strides: any' in a tensor, or leave the option out."
        super().__init__("--strided", f"No tensor of {kernel} may have any strides.", hints=[hint])


class OptionsApart(WavespecError, code="options-apart"):
    """An option means nothing without another, or beside it."""


def run(
    spec: Spec,
    dim: Dims = None,
    scalar: ScalarOption = None,
    input: InputOption = None,
    member: MemberOption = "",
    target: Target = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 10,
    debug: Debug = None,
    strided: Strided = None,
    check_bounds: CheckBounds = False,
    simulate: Simulate = False,
    break_: Break = "",
    step: Step = 0,
    workgroup: InWorkgroup = 0,
    wave: Wave = None,
    lane: Lane = None,
    in_kernel: InKernel = "",
    json: Json = False,
) -> None:
    """Build a spec, run it on random tensors or those of files, or simulate that, and compare with the reference."""
    failures.MODE.json = json
    found: list[tuple[str, list[dict[str, Any]]]] = []
    selected = {"--step": step, "--workgroup": workgroup, "--kernel": in_kernel}
    selected |= {"--wave": wave is not None, "--lane": lane is not None}
    _check_together(simulate, break_, [option for option, is_used in selected.items() if is_used], strided, debug)
    asked = _asked(spec, dim, scalar, input, member, target)
    if simulate:
        from wavespec.cli.simulated_run import simulated
        from wavespec.cli.stops import BreakAt

        at = BreakAt(break_, step, workgroup, wave, lane, in_kernel) if break_ else None
        how = {"is_asked": bool(dim or input), "is_printed": not json, "are_checked": check_bounds}
        finish([(one.spec.name, simulated(one, target, seed, at, **how)) for one in asked], target, json)
        return
    if strided is not None:
        _check_strided(asked)
    for one in asked:
        kernel, device = _built(one.label, one.spec, target)
        watched = _watching(one.label, one.spec, target)
        shown = _with_debug(one.label, one.spec, debug or [], target, watched)
        looked_at = _looking(one.label, one.spec, target, check_bounds)
        rows: list[dict[str, Any]] = []
        for sizes in one.sizes:
            with progress(f"running {one.spec.name} with {sizes_in_words(sizes)}"):
                row = _measured(
                    one, kernel, watched, sizes, target, seed, repeats, device, with_torch=False, strided=strided
                )
            failed = _failed(looked_at, one, sizes, seed, device) if looked_at is not None else []
            row |= _seen(row, failed, looked_at, check_bounds) if looked_at is not None else {}
            rows.append(row)
            if not json:
                print_diagnostics(failed)
                print_run(one.spec.name, target, row)
            if shown is not None:
                row["debug"] = _debugged(shown, one, sizes, seed, device, is_printed=not json)
        found.append((one.spec.name, rows))
    finish(found, target, json)


def bench(
    spec: Spec,
    dim: Dims = None,
    scalar: ScalarOption = None,
    member: MemberOption = "",
    target: Target = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 30,
    json: Json = False,
) -> None:
    """Time a spec beside torch computing the same in the same process."""
    failures.MODE.json = json
    asked = _asked(spec, dim, scalar, None, member, target)
    found: list[tuple[str, list[dict[str, Any]]]] = []
    width = max(len(sizes_in_words(sizes)) for one in asked for sizes in one.sizes)
    for one in asked:
        kernel, device = _built(one.label, one.spec, target)
        watched = _watching(one.label, one.spec, target)
        if not json:
            if len(asked) > 1:
                print(one.spec.name)
            head = f"{'wavespec':>42}  {'torch':>42}  {'speed-up':>8}  {'error':>6}  {'roofline':>8}"
            print(f"{'sizes':<{width}}  {head}")
        rows: list[dict[str, Any]] = []
        for sizes in one.sizes:
            with progress(f"timing {one.spec.name} with {sizes_in_words(sizes)}"):
                row = _measured(one, kernel, watched, sizes, target, seed, repeats, device, with_torch=True)
            rows.append(row)
            if not json:
                mine, torchs = speed(row), speed(row, "torch_")
                ratio = "wrong" if row["verdict"] == "WRONG" else f"{row['error_ratio']:.2f}"
                words, share = f"{sizes_in_words(sizes):<{width}}", share_of_roofline(row)
                print(f"{words}  {mine:>42}  {torchs:>42}  {row['speed_up']:>7.2f}x  {ratio:>6}  {share:>8}")
                print_doubts(row)
        found.append((one.spec.name, rows))
    finish(found, target, json)


def _check_together(
    simulate: bool, break_: str, selected: list[str], strided: int | None, debug: list[str] | None
) -> None:
    """Refuse options that would do nothing; ``selected``: those that select what is shown where it stops."""
    if break_ and not simulate:
        raise OptionsApart("--break", "Only the simulator stops somewhere.", hints=["Add '--simulate'."])
    if selected and not break_:
        raise OptionsApart(
            selected[0], "There is no place to stop at.", hints=["Add '--break LINE' or '--break NODE'."]
        )
    if simulate and (strided is not None or debug):
        option = "--debug" if debug else "--strided"
        hints = ["'--break NAME' shows what lanes have of a value."] if debug else []
        raise OptionsApart(option, "The simulator takes contiguous tensors and shows no whole values.", hints=hints)


def _asked(
    path: Path,
    dims: list[str] | None,
    scalars: list[str] | None,
    inputs: list[str] | None,
    member: str,
    target: str,
) -> list[Run]:
    """Every kernel, its sizes, scalars and given inputs; wrong options are found before anything is built."""
    from wavespec.schema.resolve import NotForTarget, is_for, spec_as_on

    chosen_variants(target)
    every = [kernel for file in spec_files([path]) for kernel in kernels_of(file, member)]
    fitting = [(label, spec) for label, spec in every if is_for(spec, target)]
    if not fitting:
        raise NotForTarget(every[0][1].where("only"), target)
    for _, spec in every:
        if not is_for(spec, target):
            print(f"{spec.name}: not for {target}", file=sys.stderr)
    found: list[Run] = []
    for label, whole in fitting:
        spec = spec_as_on(whole, target)
        numbers = chosen_scalars(spec, scalars or [])
        given = given_inputs(spec, inputs or [])
        sizes = chosen_sizes(spec, size_texts(spec, given, dims or []), scalars=whole_scalars(spec, numbers))
        found.append(Run(label, spec, sizes, numbers, given))
    return found


def _built(label: str, spec: KernelSpec, target: str) -> tuple[Kernel, str]:
    """The kernel, and the torch device it runs on."""
    from wavespec.schema.families.family_errors import naming_member

    with progress(f"building {spec.name} for {target}"), naming_member(label):
        import torch

        from wavespec.pipeline import compile

        kernel = compile(spec, target)
    device = "cpu" if kernel.artifact.backend == "cpu" else "cuda"
    has_vendor = bool(torch.version.hip) == (kernel.artifact.backend == "hip")
    if device == "cuda" and not (torch.cuda.is_available() and has_vendor):
        raise NoDevice(target)
    return kernel, device


def _watching(label: str, spec: KernelSpec, target: str) -> Watched | None:
    """The kernel that hands out what every `atomic` finds; none where the graph has none."""
    from wavespec.cli.judged import Watched
    from wavespec.schema.old_values import with_old_values

    observed = with_old_values(spec)
    return Watched(observed, _built(label, observed.spec, target)[0]) if observed.outputs else None


def _with_debug(label: str, spec: KernelSpec, names: list[str], target: str, watched: Watched | None) -> Watched | None:
    """The kernel that hands out what is to be shown, behind all else; none for nothing."""
    from wavespec.cli.judged import Watched
    from wavespec.schema.debug import debug
    from wavespec.schema.old_values import Observed

    plain, outputs = watched.observed if watched is not None else Observed(spec, {})
    whole = debug(plain, *names)
    if whole.tensors == plain.tensors:
        return None
    return Watched(Observed(whole, outputs), _built(label, whole, target)[0])


def _looking(label: str, spec: KernelSpec, target: str, check_bounds: bool) -> LookedAt | None:
    """The kernel that tells where assertions fail, and accesses are outside; none where there is nothing to tell."""
    from wavespec.cli.asserted import LookedAt, watching

    looking = watching(spec, are_checked=check_bounds)
    try:
        kernel = _built(label, looking.spec, target)[0] if looking.further else None
    except WavespecError as error:
        if not looking.checked.outputs or all(one.code != "too-much-code" for one in error.diagnostics):
            raise
        looking = watching(spec, are_checked=True, of_data_alone=True)
        kernel = _built(label, looking.spec, target)[0] if looking.further else None
    return LookedAt(looking, kernel) if looking.further or check_bounds else None


def _check_strided(asked: Iterable[Run]) -> None:
    """Raise where a kernel has no tensor that could be a view."""
    for one in asked:
        if not any(tensor.is_strided for tensor in one.spec.tensors.values()):
            raise NothingStrided(one.spec.name)


def _seen(
    row: Mapping[str, Any], failed: Sequence[Diagnostic], looked_at: LookedAt, check_bounds: bool
) -> dict[str, Any]:
    """What of a row is another one with what was found by looking at its inputs."""
    bounds = {"bounds": looked_at.watching.summary(failed)} if check_bounds else {}
    return with_failures(row, failed) | bounds


def _failed(looked_at: LookedAt, one: Run, sizes: dict[str, int], seed: int, device: str) -> list[Diagnostic]:
    """What does not hold for the inputs of a run."""
    from wavespec.cli.asserted import failures
    from wavespec.cli.measure import elements_of, random_inputs
    from wavespec.runtime.tensor_strides import copied

    (looking, kernel), scalars = looked_at, one.scalars
    if kernel is None:
        return failures(looking, None, sizes)
    inputs = random_inputs(looking.spec, sizes, seed, device, scalars, one.given)
    results = elements_of(looking.spec, kernel(*map(copied, inputs), **scalars))
    return failures(looking, results, sizes)


def _debugged(
    shown: Watched,
    one: Run,
    sizes: dict[str, int],
    seed: int,
    device: str,
    *,
    is_printed: bool,
) -> dict[str, Any]:
    """How far each value is from the reference's; its numbers are printed."""
    import torch

    from wavespec.cli.measure import elements_of, random_inputs, written_by
    from wavespec.runtime.tensor_strides import copied
    from wavespec.sim.reference import explain, results

    (observed, kernel), scalars = shown, one.scalars
    inputs = random_inputs(observed.spec, sizes, seed, device, scalars, one.given)
    known = {*one.spec.tensors, *(name for names in observed.outputs.values() for name in names)}
    found: dict[str, Any] = {}
    values = elements_of(observed.spec, kernel(*map(copied, inputs), **scalars))
    truth = results(explain(observed, inputs, values, scalars, compute=torch.float64))
    for name, value, exact in zip(written_by(observed.spec), values, truth, strict=True):
        if name in known:
            continue
        difference = (value.double() - exact.double()).abs().max().item() if value.numel() else 0.0
        found[name] = {"shape": list(value.shape), "difference": finite(difference)}
        if is_printed:
            shape = ", ".join(map(str, value.shape))
            print(f"  {name}  [{shape}], at most {difference:.3g} from the reference's")
            print("    " + str(value).replace("\n", "\n    "))
    return found


def _measured(
    one: Run,
    kernel: Kernel,
    watched: Watched | None,
    sizes: dict[str, int],
    target: str,
    seed: int,
    repeats: int,
    device: str,
    *,
    with_torch: bool,
    strided: int | None = None,
) -> dict[str, Any]:
    import torch

    from wavespec.cli.judged import judged
    from wavespec.cli.measure import as_views, median_seconds, random_inputs
    from wavespec.runtime.tensor_strides import copied
    from wavespec.sim.reference import reference

    spec, scalars = one.spec, one.scalars
    inputs = random_inputs(spec, sizes, seed, device, scalars, one.given)
    if strided is None:
        arguments, outputs = [copied(tensor) for tensor in inputs], dict[str, Any]()
    else:
        arguments, outputs = as_views(spec, inputs, sizes, strided)
    written = kernel(*arguments, **outputs, **scalars)
    found, doubts = judged(one, kernel, watched, sizes, inputs, written, seed, device)
    calls = [lambda: kernel(*arguments, **outputs, **scalars)]
    if with_torch:
        calls.append(lambda: reference(spec, *inputs, compute=None, **scalars))
    seconds = median_seconds(calls, device, repeats)
    launched = kernel.member_for(*arguments, **outputs, **scalars)
    return {
        "ok": (verdict := verdict_of(found, doubts)) in ("ok", "shows little"),
        "verdict": verdict,
        "inputs": "given" if one.given else "random",
        "sizes": sizes,
        **scalars_of(scalars),
        **errors_of(found, doubts),
        "threads": torch.get_num_threads() if device == "cpu" else None,
        **_rates(one, target, sizes, device, seconds, launched),
    }


def _rates(
    one: Run, target: str, sizes: dict[str, int], device: str, seconds: list[float], launched: int
) -> dict[str, Any]:
    """What times are in operations and bytes a second, of which case, and beside what the device could do.

    The case is the one that was ``launched``: strides, and what a kernel can address, take part in the choice."""
    import torch

    from wavespec.cases_on_machines import cases_on
    from wavespec.cli.work import bytes_moved, does_a_part, floating_point_operations, roofline
    from wavespec.pipeline import best_variant
    from wavespec.targets.machine import machines

    chosen = (best_variant(target),) if target == "cpu" else machines(target)
    case = cases_on(one.spec, target, chosen)[launched]
    least = roofline(case.spec, target, torch.cuda.get_device_name(), sizes) if device == "cuda" else None
    rates: dict[str, Any] = {"case": [str(condition) for condition in case.when], "whole": not does_a_part(one.spec)}
    for who, time in zip(("", "torch_"), seconds, strict=False):
        rates |= {
            f"{who}seconds": time,
            f"{who}gflops": floating_point_operations(one.spec, sizes) / time / 1e9,
            f"{who}gbytes_per_second": bytes_moved(one.spec, sizes) / time / 1e9,
        }
    if least is not None:
        rates |= {"card": least.card, "roofline_share": least.seconds / seconds[0]}
    return rates | ({"speed_up": seconds[1] / seconds[0]} if len(seconds) > 1 else {})
