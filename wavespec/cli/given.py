"""Texts of `--input` go in; the tensors of their files come out, or an error that says which is none for the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from wavespec.diagnostics import WavespecError, name_hints, quote, quote_path, raise_all

if TYPE_CHECKING:
    from torch import Tensor

    from wavespec.schema import KernelSpec

InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE",
        help="A '.pt' or '.npy' file with the tensor of an input, whose shape gives sizes (repeatable).  "
        "[default: random numbers]",
    ),
]
_READERS = (".pt", ".npy")


class UnknownInput(WavespecError, code="unknown-input"):
    """A tensor is given for something that is no input of the kernel."""

    def __init__(self, place: str, name: str, kernel: str, inputs: Sequence[str]) -> None:
        hints = name_hints(name, inputs, "Its inputs are")
        super().__init__(place, f"{quote(name)} is not an input of {kernel}.", hints=hints)


class BadInput(WavespecError, code="bad-input"):
    """A file that has no tensor, or one of another type or shape than the kernel takes."""


def given_inputs(spec: KernelSpec, texts: Sequence[str]) -> dict[str, Tensor]:
    """The tensors of `NAME=FILE`, by name.

    Raises:
        WavespecError: with every mistake in `texts`.
    """
    errors: list[WavespecError] = []
    found: dict[str, Tensor] = {}
    inputs = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    for text in texts:
        place = f"--input {text}"
        name, equals, file = text.partition("=")
        if not equals or not file:
            hint = "Write, for example, 'x=x.npy'."
            errors.append(BadInput(place, f"{quote(text)} is not 'NAME=FILE'.", hints=[hint]))
        elif name not in inputs:
            errors.append(UnknownInput(place, name, spec.name, inputs))
        elif name in found:
            message = f"{quote(name)} has a file already."
            errors.append(BadInput(place, message, hints=["Give each input once."]))
        else:
            try:
                found[name] = _fitting(spec, name, _read(Path(file), place), place)
            except WavespecError as error:
                errors.append(error)
    raise_all(errors)
    return found


def size_texts(spec: KernelSpec, given: Mapping[str, Tensor], texts: Sequence[str]) -> list[str]:
    """The sizes of `--dim`, and behind them those that the shapes of tensors give.

    Raises:
        BadInput: two of them contradict each other.
    """
    from wavespec.runtime.artifact import PACKED

    sizes = {name: (size, f"--dim {name}={size}") for name, _, size in (text.partition("=") for text in texts)}
    added: list[str] = []
    for name, tensor in given.items():
        elements, bytes_ = PACKED.get(spec.tensors[name].dtype, (1, 1))
        shape = [*tensor.shape[:-1], *(size // bytes_ * elements for size in tensor.shape[-1:])]
        for dim, size in zip(spec.tensors[name].shape, shape, strict=True):
            if dim not in sizes:
                sizes[dim] = str(size), f"'{name}'"
                added.append(f"{dim}={size}")
            elif sizes[dim][0] != str(size):
                known, where = sizes[dim]
                message = f"{quote(name)} has {dim} = {size}, but it is {known} in {where}."
                raise BadInput(f"--input {name}", message)
    return [*texts, *added]


def _read(path: Path, place: str) -> Tensor:
    import numpy as np
    import torch

    if path.suffix not in _READERS:
        message = f"{quote_path(path)} has none of the endings {' and '.join(_READERS)}."
        raise BadInput(place, message, hints=["torch.save(tensor, 'x.pt') and numpy.save('x.npy', array) write such."])
    try:
        if path.suffix == ".npy":
            found: Any = cast("Any", torch).from_numpy(np.load(path, allow_pickle=False))
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers have many, one of a module that nothing here may import
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(place, f"{quote_path(path)} cannot be read as a tensor: {reason.rstrip('.')}.") from None
    if not isinstance(found, torch.Tensor):
        raise BadInput(place, f"{quote_path(path)} has no tensor, but a {type(found).__name__}.")
    return found.detach()


def _fitting(spec: KernelSpec, name: str, tensor: Tensor, place: str) -> Tensor:
    from wavespec.runtime.checks import DTYPES

    declared, dtype = spec.tensors[name], DTYPES[spec.tensors[name].dtype]
    if tensor.dtype != dtype:
        found, expected = (str(one).removeprefix("torch.") for one in (tensor.dtype, dtype))
        raise BadInput(place, f"{quote(name)} holds {found}, not {expected}.")
    if tensor.dim() != len(declared.shape):
        dims = f"[{', '.join(declared.shape)}]"
        raise BadInput(place, f"{quote(name)} has {tensor.dim()} dims, not those of {dims}.")
    return tensor.contiguous()
