"""What a run of a kernel found goes in; a row of JSON, and lines for people, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from wavespec.cli import failures
from wavespec.cli.inputs import sizes_in_words
from wavespec.diagnostics import Diagnostic, to_json

if TYPE_CHECKING:
    from torch import Tensor

    from wavespec.cli.doubts import Doubt
    from wavespec.schema import KernelSpec
    from wavespec.schema.language.scalars import Number
    from wavespec.tune.judge import Accuracy, Element


class Run(NamedTuple):
    """What is run of one kernel."""

    label: str
    """What `--member` calls it."""
    spec: KernelSpec
    sizes: tuple[dict[str, int], ...]
    scalars: dict[str, Any]
    given: dict[str, Tensor]
    """The inputs that are not drawn."""


def scalars_of(scalars: Mapping[str, Number]) -> dict[str, Any]:
    return {"scalars": {name: _json_number(number) for name, number in scalars.items()}} if scalars else {}


def errors_of(found: Accuracy, doubts: list[Doubt]) -> dict[str, Any]:
    return {
        "doubts": [doubt.text for doubt in doubts],
        "error": finite(found.error),
        "torch_error": found.torch_error,
        "error_ratio": finite(found.ratio),
        "worst": None if found.worst is None else _json_element(found.worst),
    }


def finish(found: list[tuple[str, list[dict[str, Any]]]], target: str, json: bool) -> None:
    ok = all(row["ok"] for _, rows in found for row in rows)
    if json and len(found) == 1:
        ((name, rows),) = found
        failures.write_json({"ok": ok, "kernel": name, "target": target, "results": rows})
    elif json:
        kernels = [{"kernel": name, "results": rows} for name, rows in found]
        failures.write_json({"ok": ok, "target": target, "kernels": kernels})
    if not ok:
        raise typer.Exit(failures.FAILED)


def print_run(name: str, target: str, row: dict[str, Any]) -> None:
    from wavespec.tune.judge import ALLOWED_RATIO

    scalars = "".join(f", {scalar}={number}" for scalar, number in row.get("scalars", {}).items())
    print(f"{name} on {target}, {sizes_in_words(row['sizes'])}{scalars}: {row['verdict']}")
    if "error" not in row:
        return
    ratio = "not finite" if row["error_ratio"] is None else f"{row['error_ratio']:.2f} x torch's"
    error = "not finite" if row["error"] is None else f"{row['error']:.3g}"
    print_doubts(row)
    if "bounds" in row:
        print(f"  places         {_bounds_in_words(**row['bounds'])}")
    if row["case"]:
        print(f"  case           {', '.join(row['case'])}")
    print(f"  largest error  {error}, {ratio} {row['torch_error']:.3g} (allowed: {ALLOWED_RATIO:g} x)")
    if worst := row["worst"]:
        place = f"[{', '.join(map(str, worst['index']))}]" if worst["index"] else ""
        computed, expected = (_digits(worst[one]) for one in ("computed", "expected"))
        print(f"                 in {worst['tensor']}{place}: {computed} computed, {expected} expected")
    if "seconds" in row:
        share = f", {share_of_roofline(row)} of the roofline of {row['card']}" if "card" in row else ""
        print(f"  median time    {speed(row)}{share}")


def with_failures(row: Mapping[str, Any], failed: Sequence[Diagnostic]) -> dict[str, Any]:
    """What of a row is another one with the assertions that fail, and with places outside of their tensors."""
    said: dict[str, Any] = {"assertions": [to_json(one) for one in failed]}
    is_right = row["verdict"] in ("ok", "shows little")
    if not any(one.is_error for one in failed):
        return said
    return said | {"ok": False, "verdict": "FAILED" if is_right else row["verdict"]}


def _bounds_in_words(checked: int, outside: int, unchecked: int) -> str:
    left = f", {unchecked} not checked" if unchecked else ""
    return f"{checked} checked, {outside} of them outside{left}"


def verdict_of(found: Accuracy, doubts: list[Doubt]) -> str:
    """`ok` is for runs that could have shown a mistake."""
    if not found.ok:
        return "WRONG"
    if any(doubt.shows_nothing for doubt in doubts):
        return "shows nothing"
    return "shows little" if doubts else "ok"


def print_doubts(row: dict[str, Any]) -> None:
    for doubt in row["doubts"]:
        print(f"  {row['inputs'] + ' inputs':<13}  {doubt}")


def speed(row: dict[str, Any], who: str = "") -> str:
    seconds, bandwidth = row[f"{who}seconds"], row[f"{who}gbytes_per_second"]
    time = f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
    rates = f"{row[f'{who}gflops']:.1f} GFLOP/s, {bandwidth:.1f} GB/s"
    return f"{time}, {rates}" if row["whole"] else f"{time}, up to {rates}"


def share_of_roofline(row: dict[str, Any]) -> str:
    """Of the fastest that the card could be; `-` where its peaks are not known."""
    return f"{100 * row['roofline_share']:.0f} %" if "roofline_share" in row else "-"


def _json_number(number: Number) -> Number | str:
    return number if abs(number) < float("inf") else str(number)


def _json_element(worst: Element) -> dict[str, Any]:
    """What it is, and what was expected; numbers that JSON lacks are words."""
    numbers = {"computed": _json_number(worst.computed), "expected": _json_number(worst.expected)}
    return {"tensor": worst.tensor, "index": list(worst.index), **numbers}


def _digits(number: float | str) -> str:
    """As many as tell two numbers of f32 apart."""
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if number - number == 0 else None
