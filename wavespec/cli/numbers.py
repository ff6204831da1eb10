"""Texts of `--scalar` go in; the numbers of all scalars of a kernel come out, or an error that names what exists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from wavespec.diagnostics import WavespecError, listing, name_hints, quote, raise_all

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec
    from wavespec.schema.language.scalars import Number, Scalar

ScalarOption = Annotated[
    list[str] | None,
    typer.Option("--scalar", metavar="NAME=NUMBER", help="A scalar of the kernel (repeatable).  [default: its own]"),
]
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf|nan")


class UnknownScalar(WavespecError, code="unknown-scalar"):
    """A number is given for something that is no scalar of the kernel."""

    def __init__(self, place: str, name: str, kernel: str, scalars: Sequence[str]) -> None:
        hints = name_hints(name, scalars, "Its scalars are") if scalars else ["It has none."]
        super().__init__(place, f"{quote(name)} is not a scalar of {kernel}.", hints=hints)


class BadNumber(WavespecError, code="bad-number"):
    """A number of the command line that is none, or one that the scalar cannot be."""


class MissingScalar(WavespecError, code="missing-scalar"):
    """A scalar has neither a default nor a number on the command line."""

    def __init__(self, kernel: str, scalars: Sequence[str]) -> None:
        options = " ".join(f"--scalar {name}=1" for name in scalars)
        message = f"{kernel} needs a number for {listing(scalars)}."
        super().__init__("--scalar", message, hints=[f"For example: {options}"])


def chosen_scalars(spec: KernelSpec, texts: Sequence[str]) -> dict[str, Number]:
    """The number of every scalar: the one of `NAME=NUMBER`, or its default, but those that follow from sizes.

    Raises:
        WavespecError: with every mistake in `texts`.
    """
    errors: list[WavespecError] = []
    given: dict[str, Number] = {}
    for text in texts:
        place = f"--scalar {text}"
        name, _, written = text.partition("=")
        if name not in spec.scalars:
            errors.append(UnknownScalar(place, name, spec.name, list(spec.scalars)))
        elif name in given:
            message = f"{quote(name)} has a number already."
            errors.append(BadNumber(place, message, hints=["Give each scalar once."]))
        elif (number := _number(spec.scalars[name], written)) is None:
            hint = f"Write, for example, '{name}={_example(spec.scalars[name])}'."
            message = f"{quote(written)} is no number of {spec.scalars[name].dtype}."
            errors.append(BadNumber(place, message, hints=[hint]))
        else:
            given[name] = number
    raise_all(errors)
    missing = [name for name, one in spec.scalars.items() if one.default is None and name not in given]
    if missing:
        raise MissingScalar(spec.name, missing)
    _check(spec, given)
    numbers = {name: given.get(name, one.number) for name, one in spec.scalars.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def whole_scalars(spec: KernelSpec, numbers: Mapping[str, Number]) -> dict[str, int]:
    """Those that sizes may follow from."""
    return {name: int(number) for name, number in numbers.items() if not spec.scalars[name].is_float}


def default_scalars(spec: KernelSpec) -> dict[str, int]:
    """Those that sizes may follow from where a call says nothing."""
    return whole_scalars(spec, {name: one.number for name, one in spec.scalars.items() if one.number is not None})


def _check(spec: KernelSpec, given: Mapping[str, Number]) -> None:
    """What a call would refuse."""
    from wavespec.schema.language.scalars import number_problem

    problems = {name: number_problem(spec.scalars[name], number) for name, number in given.items()}
    raise_all(
        BadNumber(f"--scalar {name}={given[name]}", f"{quote(name)} is {given[name]}, {problem}.")
        for name, problem in problems.items()
        if problem and "finite" not in problem
    )


def _number(scalar: Scalar, written: str) -> Number | None:
    if scalar.dtype == "bool":
        return {"true": True, "false": False}.get(written.lower())
    if scalar.is_float:
        return float(written) if _FLOAT.fullmatch(written) else None
    return int(written) if re.fullmatch(r"[+-]?[0-9]{1,30}", written) else None


def _example(scalar: Scalar) -> str:
    return "true" if scalar.dtype == "bool" else "0.5" if scalar.is_float else "1"
