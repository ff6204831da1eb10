"""`wavespec run` and `wavespec bench`: a spec and sizes in; is the kernel right, and how fast is it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import chosen_sizes, chosen_target, sizes_in_words
from wavespec.cli.numbers import ScalarOption, chosen_scalars, whole_scalars
from wavespec.cli.progress import progress
from wavespec.cli.specs import MemberOption, kernels_of, spec_files
from wavespec.cli.terminal import print_diagnostics
from wavespec.diagnostics import Diagnostic, WavespecError, to_json

if TYPE_CHECKING:
    from wavespec.cli.doubts import Doubt
    from wavespec.cli.simulate import Simulator
    from wavespec.cli.stops import BreakAt
    from wavespec.runtime.kernel import Kernel
    from wavespec.schema import KernelSpec
    from wavespec.schema.language.scalars import Number
    from wavespec.tune.judge import Accuracy

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, or a folder of them.")]
Run = tuple[str, "KernelSpec", tuple[dict[str, int], ...], dict[str, "Number"]]
"""What `--member` calls a kernel, the kernel, its sizes, and the numbers of its scalars."""
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="Size of a dim (repeatable).  [default: the workloads of the spec]"
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
    member: MemberOption = "",
    target: Target = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 10,
    debug: Debug = None,
    strided: Strided = None,
    simulate: Simulate = False,
    break_: Break = "",
    step: Step = 0,
    workgroup: InWorkgroup = 0,
    wave: Wave = None,
    lane: Lane = None,
    json: Json = False,
) -> None:
    """Build a spec, run it on random tensors, or simulate that, and compare the result with the reference."""
    failures.MODE.json = json
    found: list[tuple[str, list[dict[str, Any]]]] = []
    selected = {"--step": step, "--workgroup": workgroup, "--wave": wave is not None, "--lane": lane is not None}
    _check_together(simulate, break_, [option for option, is_used in selected.items() if is_used], strided, debug)
    asked = _asked(spec, dim, scalar, member, target)
    if simulate:
        from wavespec.cli.stops import BreakAt

        at = BreakAt(break_, step, workgroup, wave, lane) if break_ else None
        for one in asked:
            rows = _simulated(one, target, seed, at, is_asked=bool(dim), is_printed=not json)
            found.append((one[1].name, rows))
        _finish(found, target, json)
        return
    for _, kernel_spec, _, _ in asked if strided is not None else ():
        if all(tensor.strides != "any" for tensor in kernel_spec.tensors.values()):
            raise NothingStrided(kernel_spec.name)
    for label, kernel_spec, runs, scalars in asked:
        kernel, device = _built(label, kernel_spec, target)
        shown = _with_debug(label, kernel_spec, debug or [], target)
        rows: list[dict[str, Any]] = []
        for sizes in runs:
            with progress(f"running {kernel_spec.name} with {sizes_in_words(sizes)}"):
                row = _measured(
                    kernel_spec, kernel, sizes, scalars, seed, repeats, device, with_torch=False, strided=strided
                )
            rows.append(row)
            if not json:
                _print_run(kernel_spec.name, target, row)
            if shown is not None:
                row["debug"] = _debugged(shown, kernel_spec, sizes, scalars, seed, device, is_printed=not json)
        found.append((kernel_spec.name, rows))
    _finish(found, target, json)


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
    asked = _asked(spec, dim, scalar, member, target)
    found: list[tuple[str, list[dict[str, Any]]]] = []
    width = max(len(sizes_in_words(sizes)) for _, _, runs, _ in asked for sizes in runs)
    for label, kernel_spec, runs, scalars in asked:
        kernel, device = _built(label, kernel_spec, target)
        if not json:
            if len(asked) > 1:
                print(kernel_spec.name)
            print(f"{'sizes':<{width}}  {'wavespec':>22}  {'torch':>22}  {'speed-up':>8}  {'error':>6}")
        rows: list[dict[str, Any]] = []
        for sizes in runs:
            with progress(f"timing {kernel_spec.name} with {sizes_in_words(sizes)}"):
                row = _measured(kernel_spec, kernel, sizes, scalars, seed, repeats, device, with_torch=True)
            rows.append(row)
            if not json:
                mine, torchs = (_speed(row[f"{who}seconds"], row[f"{who}gflops"]) for who in ("", "torch_"))
                ratio = "wrong" if row["verdict"] == "WRONG" else f"{row['error_ratio']:.2f}"
                words = f"{sizes_in_words(sizes):<{width}}"
                print(f"{words}  {mine:>22}  {torchs:>22}  {row['speed_up']:>7.2f}x  {ratio:>6}")
                _print_doubts(row)
        found.append((kernel_spec.name, rows))
    _finish(found, target, json)


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


def _asked(path: Path, dims: list[str] | None, scalars: list[str] | None, member: str, target: str) -> list[Run]:
    """Every kernel, its sizes and its scalars; wrong options are found before anything is built."""
    from wavespec.schema.resolve import NotForTarget, targets_of

    chosen_target(target)
    every = [kernel for file in spec_files([path]) for kernel in kernels_of(file, member)]
    fitting = [(label, spec) for label, spec in every if target in targets_of(spec)]
    if not fitting:
        raise NotForTarget(every[0][1].where("only"), target)
    for _, spec in every:
        if target not in targets_of(spec):
            print(f"{spec.name}: not for {target}", file=sys.stderr)
    found: list[Run] = []
    for label, spec in fitting:
        numbers = chosen_scalars(spec, scalars or [])
        sizes = chosen_sizes(spec, dims or [], scalars=whole_scalars(spec, numbers))
        found.append((label, spec, sizes, numbers))
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


def _with_debug(label: str, spec: KernelSpec, names: list[str], target: str) -> tuple[KernelSpec, Kernel] | None:
    """The kernel that hands out what is to be shown; none for nothing."""
    from wavespec.schema.debug import debug

    whole = debug(spec, *names)
    return None if whole.tensors == spec.tensors else (whole, _built(label, whole, target)[0])


def _debugged(
    shown: tuple[KernelSpec, Kernel],
    spec: KernelSpec,
    sizes: dict[str, int],
    scalars: dict[str, Any],
    seed: int,
    device: str,
    *,
    is_printed: bool,
) -> dict[str, Any]:
    """How far each value is from the reference's; its numbers are printed."""
    import torch

    from wavespec.cli.measure import random_inputs
    from wavespec.sim.reference import reference

    whole, kernel = shown
    inputs = random_inputs(whole, sizes, seed, device)
    own = sum(tensor.role != "input" for tensor in spec.tensors.values())
    names = [name for name in whole.tensors if name not in spec.tensors]
    found: dict[str, Any] = {}
    values = kernel(*(tensor.clone() for tensor in inputs), **scalars)[own:]
    truth = reference(whole, *inputs, compute=torch.float64, **scalars)[own:]
    for name, value, exact in zip(names, values, truth, strict=True):
        difference = (value.double() - exact.double()).abs().max().item() if value.numel() else 0.0
        found[name] = {"shape": list(value.shape), "difference": _finite(difference)}
        if is_printed:
            shape = ", ".join(map(str, value.shape))
            print(f"  {name}  [{shape}], at most {difference:.3g} from the reference's")
            print("    " + str(value).replace("\n", "\n    "))
    return found


def _simulated(
    asked: Run, target: str, seed: int, at: BreakAt | None, *, is_asked: bool, is_printed: bool
) -> list[dict[str, Any]]:
    """What the simulator finds in every run, or what lanes have where it stops; diagnostics are printed."""
    from wavespec.cli.simulate import Simulator
    from wavespec.schema.families.family_errors import naming_member

    label, spec, runs, scalars = asked
    rows: list[dict[str, Any]] = []
    with naming_member(label):
        simulator = Simulator(spec, target, scalars)
        fitting = simulator.sizes(runs, is_asked=is_asked, one_workgroup=at is not None)
    for wanted, sizes in fitting:
        if wanted != sizes:
            print(f"{spec.name}: {sizes_in_words(sizes)} in place of {sizes_in_words(wanted)}", file=sys.stderr)
        with progress(f"simulating {spec.name} with {sizes_in_words(sizes)}"):
            row, diagnostics, text = _simulated_run(simulator, sizes, seed, at)
        if is_printed:
            print_diagnostics(diagnostics)
            _print_run(spec.name, f"{target}, simulated", row)
            print(text)
        rows.append(row | {"findings": [to_json(diagnostic) for diagnostic in diagnostics]})
    return rows


def _simulated_run(
    simulator: Simulator, sizes: dict[str, int], seed: int, at: BreakAt | None
) -> tuple[dict[str, Any], list[Diagnostic], str]:
    """A row, what was found, and what is to be printed below the row."""
    from wavespec.cli.measure import accuracy, random_inputs

    inputs = random_inputs(simulator.spec, sizes, seed, "cpu")
    stop_at = at.stop_at(simulator, sizes) if at is not None else None
    results, diagnostics = simulator.call(sizes, inputs, stop_at)
    errors = sum(diagnostic.is_error for diagnostic in diagnostics)
    row: dict[str, Any] = {"ok": not errors, "verdict": "stopped", "sizes": sizes, **_scalars(simulator.scalars)}
    if at is not None and stop_at is not None:
        if errors and not stop_at.stops:
            return row | {"verdict": "UNSAFE"}, diagnostics, "  ended before '--break'"
        stops = at.seen(stop_at)
        return row | {"stops": at.json(stops, stop_at.kernel)}, diagnostics, at.text(stops, stop_at.kernel)
    found, doubts = accuracy(simulator.spec, inputs, results, simulator.scalars)
    verdict = _verdict(found, doubts)
    is_right = verdict in ("ok", "shows little")
    row |= {"ok": is_right and not errors, "verdict": "UNSAFE" if is_right and errors else verdict}
    row |= _errors(found, doubts)
    warnings = len(diagnostics) - errors
    words = [f"{n} {what}{'s' * (n != 1)}" for n, what in ((errors, "error"), (warnings, "warning")) if n]
    return row, diagnostics, f"  found          {' and '.join(words) or 'nothing'}"


def _measured(
    spec: KernelSpec,
    kernel: Kernel,
    sizes: dict[str, int],
    scalars: dict[str, Any],
    seed: int,
    repeats: int,
    device: str,
    *,
    with_torch: bool,
    strided: int | None = None,
) -> dict[str, Any]:
    import torch

    from wavespec.cli.measure import accuracy, as_views, floating_point_operations, median_seconds, random_inputs
    from wavespec.sim.reference import reference

    inputs = random_inputs(spec, sizes, seed, device)
    if strided is None:
        arguments, outputs = [tensor.clone() for tensor in inputs], dict[str, Any]()
    else:
        arguments, outputs = as_views(spec, inputs, sizes, strided)
    found, doubts = accuracy(spec, inputs, kernel(*arguments, **outputs, **scalars), scalars)
    calls = [lambda: kernel(*arguments, **outputs, **scalars)]
    if with_torch:
        calls.append(lambda: reference(spec, *inputs, compute=None, **scalars))
    seconds = median_seconds(calls, device, repeats)
    operations = floating_point_operations(spec, sizes)
    row: dict[str, Any] = {
        "ok": (verdict := _verdict(found, doubts)) in ("ok", "shows little"),
        "verdict": verdict,
        "sizes": sizes,
        **_scalars(scalars),
        **_errors(found, doubts),
        "seconds": seconds[0],
        "gflops": operations / seconds[0] / 1e9,
        "threads": torch.get_num_threads() if device == "cpu" else None,
    }
    if with_torch:
        row |= {
            "torch_seconds": seconds[1],
            "torch_gflops": operations / seconds[1] / 1e9,
            "speed_up": seconds[1] / seconds[0],
        }
    return row


def _scalars(scalars: Mapping[str, Number]) -> dict[str, Any]:
    return {"scalars": {name: _json_number(number) for name, number in scalars.items()}} if scalars else {}


def _errors(found: Accuracy, doubts: list[Doubt]) -> dict[str, Any]:
    return {
        "doubts": [doubt.text for doubt in doubts],
        "error": _finite(found.error),
        "torch_error": found.torch_error,
        "error_ratio": _finite(found.ratio),
    }


def _finish(found: list[tuple[str, list[dict[str, Any]]]], target: str, json: bool) -> None:
    ok = all(row["ok"] for _, rows in found for row in rows)
    if json and len(found) == 1:
        ((name, rows),) = found
        failures.write_json({"ok": ok, "kernel": name, "target": target, "results": rows})
    elif json:
        kernels = [{"kernel": name, "results": rows} for name, rows in found]
        failures.write_json({"ok": ok, "target": target, "kernels": kernels})
    if not ok:
        raise typer.Exit(failures.FAILED)


def _print_run(name: str, target: str, row: dict[str, Any]) -> None:
    from wavespec.tune.judge import ALLOWED_RATIO

    scalars = "".join(f", {scalar}={number}" for scalar, number in row.get("scalars", {}).items())
    print(f"{name} on {target}, {sizes_in_words(row['sizes'])}{scalars}: {row['verdict']}")
    if "error" not in row:
        return
    ratio = "not finite" if row["error_ratio"] is None else f"{row['error_ratio']:.2f} x torch's"
    error = "not finite" if row["error"] is None else f"{row['error']:.3g}"
    _print_doubts(row)
    print(f"  largest error  {error}, {ratio} {row['torch_error']:.3g} (allowed: {ALLOWED_RATIO:g} x)")
    if "seconds" in row:
        print(f"  median time    {_speed(row['seconds'], row['gflops'])}")


def _verdict(found: Accuracy, doubts: list[Doubt]) -> str:
    """`ok` is for runs that could have shown a mistake."""
    if not found.ok:
        return "WRONG"
    if any(doubt.shows_nothing for doubt in doubts):
        return "shows nothing"
    return "shows little" if doubts else "ok"


def _print_doubts(row: dict[str, Any]) -> None:
    for doubt in row["doubts"]:
        print(f"  random inputs  {doubt}")


def _speed(seconds: float, gflops: float) -> str:
    time = f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
    return f"{time}, {gflops:.1f} GFLOP/s"


def _json_number(number: Number) -> Number | str:
    return number if abs(number) < float("inf") else str(number)


def _finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if number - number == 0 else None
