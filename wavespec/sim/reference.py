"""A spec and tensors in, the whole-tensor meaning of its graph out: what every compiled kernel is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from wavespec.ops import reference_of
from wavespec.ops.contexts import Found, ReferenceContext
from wavespec.ops.scalar import reference as define_scalar
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import ScalarParameter
from wavespec.schema import KernelSpec
from wavespec.schema.old_values import Observed
from wavespec.schema.resolved import computation_of
from wavespec.sim.packed import unpacked


def reference(
    spec: KernelSpec, /, *inputs: Tensor, compute: torch.dtype | None = torch.float64, **scalars: bool | int | float
) -> Any:
    """Run the graph on whole tensors.

    Args:
        spec: a checked spec.
        inputs: tensors in declaration order; on any device.
        compute: dtype for all floating point, ``torch.float64`` by default; ``None`` computes in the spec's own types.
        scalars: numbers by name, as in a call; like tensors, they are rounded to the types that the spec gives them.

    Returns:
        What the kernel writes, one tensor or a tuple: what the tensors that it changes in place hold behind it, then
        the outputs. Floating point has the dtype ``compute``; no input is changed.

    Raises:
        TypeError: an input that is no tensor.
        ValueError: wrong number of inputs, sizes that contradict each other, or a scalar that no call takes.
    """
    plain, leading = _folded(spec, inputs)
    context = interpret(spec, *plain, compute=compute, **scalars)
    names = context.computation.written
    outputs = [_unfolded(context.output(name), spec.tensors[name].shape, leading) for name in names]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _folded(spec: KernelSpec, inputs: Sequence[Tensor]) -> tuple[list[Tensor], dict[str, tuple[int, ...]]]:
    """Inputs with one dim in place of those of a call that a dim with `fold` stands for; and these, by that dim."""
    shapes = [tensor.shape for tensor in spec.tensors.values() if tensor.role != "output"]
    plain, leading = [*inputs], dict[str, tuple[int, ...]]()
    for place, (shape, value) in enumerate(zip(shapes, inputs, strict=False)):  # `interpret` says what is too many
        is_folded = bool(shape) and spec.dims[shape[0]].fold == "leading"
        if is_folded and isinstance(value, Tensor) and 0 <= (kept := value.dim() - len(shape) + 1) != 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            leading[shape[0]] = tuple(value.shape[:kept])
            plain[place] = value.reshape(prod(value.shape[:kept]), *value.shape[kept:])
    return plain, leading


def _unfolded(value: Tensor, shape: Sequence[str], leading: Mapping[str, tuple[int, ...]]) -> Tensor:
    if not shape or shape[0] not in leading:
        return value
    return value.reshape(*leading[shape[0]], *value.shape[1:])


def interpret(
    spec: KernelSpec, /, *inputs: Tensor, compute: torch.dtype | None = torch.float64, **scalars: bool | int | float
) -> ReferenceContext:
    """Like `reference`; returns everything that came up."""
    return _interpret(spec, inputs, compute, scalars, {})


def explain(
    observed: Observed,
    inputs: Sequence[Tensor],
    written: Sequence[Tensor],
    scalars: Mapping[str, bool | int | float],
    compute: torch.dtype | None = torch.float64,
    *,
    flushes: bool = False,
) -> ReferenceContext:
    """Like `interpret`, with the order of elements that a call has found, where the graph has `atomic`.

    Args:
        observed: a spec with outputs for what is found.
        written: the results of its call, in the order of `reference`.
        flushes: whether numbers of f32 below the smallest normal one count as 0.

    Returns:
        Everything that came up; ``impossible`` says what no order of elements finds.
    """
    spec, outputs = observed
    by_name = dict(zip(computation_of(spec).written, written, strict=True))
    found = {name: Found(*(by_name[output] for output in of)) for name, of in outputs.items()}
    return _interpret(spec, inputs, compute, scalars, found, flushes=flushes)


def _interpret(
    spec: KernelSpec,
    inputs: Sequence[Tensor],
    compute: torch.dtype | None,
    scalars: Mapping[str, bool | int | float],
    found: Mapping[str, Found],
    *,
    flushes: bool = False,
) -> ReferenceContext:
    computation = computation_of(spec)
    names = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    if len(names) != len(inputs):
        raise ValueError(f"{spec.name} takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}.")
    for name, tensor in zip(names, inputs, strict=True):
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{spec.name}: '{name}' is of type {type(tensor).__name__}, expected a torch.Tensor.")
    tensors = {name: unpacked(tensor, spec.tensors[name].dtype) for name, tensor in zip(names, inputs, strict=True)}
    context = ReferenceContext(computation, tensors, compute, reference_of)
    context.found, context.flushes = found, flushes
    context.sizes = {name: dim.value for name, dim in spec.dims.items() if dim.value is not None}
    for name, value in context.tensors.items():
        if value.dim() != (rank := len(spec.tensors[name].shape)):
            raise ValueError(f"{spec.name}: '{name}' has {value.dim()} dims, expected {rank}.")
        for dim, size in zip(spec.tensors[name].shape, value.shape, strict=True):
            if context.sizes.setdefault(dim, size) != size:
                raise ValueError(f"{spec.name}: '{name}' has {dim} = {size}, but {dim} is {context.sizes[dim]}.")
    numbers = numbers_of_scalars(spec, context.sizes, scalars)
    whole = {name: int(number) for name, number in numbers.items() if not spec.scalars[name].is_float}
    context.sizes, context.params = computation.complete(context.sizes | whole), dict(computation.params)
    context.types = dict(computation.types)
    for name, number in numbers.items():
        define_scalar(name, number, context)
    context.run(computation.statements)
    return context


def numbers_of_scalars(
    spec: KernelSpec, sizes: Mapping[str, int], given: Mapping[str, bool | int | float]
) -> dict[str, bool | int | float]:
    """What a kernel has for each of its scalars in a call that passes some: rounded to their types.

    Args:
        sizes: of the dims that arguments have, from which defaults may follow.

    Raises:
        ArgumentError: one that no call takes, or that has no number.
    """
    parameters = [
        ScalarParameter(name, one.dtype, one.number, one.min, one.max, computed=one.computed)
        for name, one in spec.scalars.items()
    ]
    arguments = ScalarArguments(spec.name, parameters)
    return dict(zip(spec.scalars, arguments.as_held(arguments.named(given), sizes), strict=True))


def results(context: ReferenceContext) -> Any:
    """What the kernel writes, of a graph that was run."""
    outputs = [context.output(name) for name in context.computation.written]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
