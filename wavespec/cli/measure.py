"""A kernel and sizes in; random inputs, the error against the reference, and times come out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from wavespec.cli.doubts import Doubt, doubts_about
from wavespec.diagnostics import WavespecError
from wavespec.runtime.artifact import stored_shape
from wavespec.runtime.checks import DTYPES
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.tensor_strides import laid_out
from wavespec.schema import KernelSpec
from wavespec.schema.old_values import Observed, order_dependent
from wavespec.schema.resolve import may_flush, strides_of, with_named_strides
from wavespec.schema.resolved import computation_of
from wavespec.sim.packed import unpacked
from wavespec.sim.reference import explain, results
from wavespec.tune.bench import as_list, cpu_seconds, gpu_seconds
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.held_numbers import ANYTHING, draw
from wavespec.tune.judge import Accuracy, accuracy_of, nearer

_WARM_UP = 3
_ROUNDS = 3


class NotEnoughMemory(WavespecError, code="not-enough-memory"):
    """The tensors of these sizes do not fit."""


def random_inputs(
    spec: KernelSpec,
    sizes: Mapping[str, int],
    seed: int,
    device: str,
    scalars: Mapping[str, bool | int | float] = MappingProxyType({}),
    given: Mapping[str, Tensor] | None = None,
) -> list[Tensor]:
    """Tensors in declaration order: those that are given, others as their `values` say, or as fits what the graph does
    with them; else normal numbers, and integers from the whole range up to 8 bits. Strides are those of the spec.

    Raises:
        BadValues: a bound has no value with these sizes.
        NotEnoughMemory: they do not fit.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs: list[Tensor] = []
    held, named = held_by_inputs(spec, sizes, scalars), with_named_strides(spec, sizes)
    try:
        for name, tensor in spec.tensors.items():
            if tensor.role == "output":
                continue
            shape = stored_shape(tensor.dtype, tuple(sizes[dim] for dim in tensor.shape))
            made = draw(held.get(name, ANYTHING), shape, DTYPES[tensor.dtype], generator)
            made = (given or {}).get(name, made).to(device)
            inputs.append(laid_out(made, strides_of(spec, name, named)) if tensor.promised_strides else made)
    except RuntimeError as error:
        raise NotEnoughMemory("--dim", f"{spec.name}: no memory for tensors of these sizes.") from error
    return inputs


def more_results(
    spec: KernelSpec,
    kernel: Kernel,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Any],
    given: Mapping[str, Tensor],
    seeds: Iterable[int],
    device: str,
) -> Iterator[list[Tensor]]:
    """What the kernel writes for other inputs, which the seeds draw; what is given stays."""
    for seed in seeds:
        yield elements_of(spec, kernel(*random_inputs(spec, sizes, seed, device, scalars, given), **scalars))


def elements_of(spec: KernelSpec, written: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Results of a call, elements that share bytes one by one, in the order of `written_by`."""
    types = [spec.tensors[name].dtype for name in written_by(spec)]
    return [unpacked(one, dtype) for one, dtype in zip(as_list(written), types, strict=True)]


def written_by(spec: KernelSpec) -> tuple[str, ...]:
    """The tensors that a call returns, in that order."""
    return computation_of(spec).written


def as_views(
    spec: KernelSpec, inputs: Sequence[Tensor], sizes: Mapping[str, int], columns: int
) -> tuple[list[Tensor], dict[str, Any]]:
    """Copies of inputs, and tensors for results by the name of their argument; those of any strides are views of rows
    that have so many ``columns`` more in front."""
    given, arguments, outputs = iter(inputs), list[Tensor](), list[Tensor]()
    named = _wider_rows(spec, sizes, columns)
    for name, tensor in spec.tensors.items():
        shape = stored_shape(tensor.dtype, tuple(sizes[dim] for dim in tensor.shape))
        whole = inputs[0].new_zeros(shape, dtype=DTYPES[tensor.dtype]) if tensor.role == "output" else next(given)
        if tensor.promised_strides:
            placed = laid_out(whole, strides_of(spec, name, named), columns)
            (outputs if tensor.role == "output" else arguments).append(placed)
        elif tensor.is_strided and shape:
            row = whole.new_zeros((*shape[:-1], columns + shape[-1]))[..., columns:]
            (outputs if tensor.role == "output" else arguments).append(row.copy_(whole))
        else:
            (outputs if tensor.role == "output" else arguments).append(whole.clone())
    return arguments, {"out": outputs} if outputs else {}


def _wider_rows(spec: KernelSpec, sizes: Mapping[str, int], columns: int) -> dict[str, int]:
    """What strides are made of, where those that have names leave room for so many more columns in rows."""
    dense = with_named_strides(spec, sizes)
    rows = [name for name, (tensor, dim) in spec.named_strides.items() if spec.tensors[tensor].shape[-2] == dim]
    return with_named_strides(spec, {**sizes, **{name: dense[name] + columns for name in rows}})


def accuracy(
    spec: KernelSpec,
    inputs: Sequence[Tensor],
    written: Tensor | Sequence[Tensor],
    scalars: Mapping[str, bool | int | float] = MappingProxyType({}),
    found_in: Mapping[str, tuple[str, str, str]] = MappingProxyType({}),
) -> tuple[Accuracy, list[Doubt]]:
    """How far what a kernel has `written` is from the truth, and how far torch is; and why that may show nothing.

    Where results depend on the order of elements, the truth is what follows from what the kernel found, in outputs of
    an `Observed` spec; what no order finds is infinitely far from it. Where numbers may be flushed, each element is
    compared with what it is nearer to: the truth, or that in which they are 0.
    """
    observed, outputs = Observed(spec, found_in), elements_of(spec, written)
    context = explain(observed, inputs, outputs, scalars)
    exact = as_list(results(context))
    rounded = as_list(results(explain(observed, inputs, outputs, scalars, compute=None)))
    if may_flush(spec):
        flushed = as_list(results(explain(observed, inputs, outputs, scalars, flushes=True)))
        theirs = as_list(results(explain(observed, inputs, outputs, scalars, compute=None, flushes=True)))
        exact, rounded = nearer(outputs, (exact, rounded), (flushed, theirs))
    unknown = frozenset[str]() if found_in else order_dependent(spec)
    hidden = unknown.union(name for names in found_in.values() for name in names)
    doubts = [Doubt(text) for text in context.impossible]
    doubts += [Doubt(f"'{name}' depends on the order of elements, and is not compared") for name in sorted(unknown)]
    doubts += doubts_about(context, exact, rounded, spec.tensors.keys() - hidden)
    names = written_by(spec)
    compared = [one for one in zip(outputs, exact, rounded, names, strict=True) if one[-1] not in unknown]
    found = accuracy_of(*zip(*compared, strict=True)) if compared else Accuracy(0.0, 0.0)
    return (Accuracy(float("inf"), found.torch_error) if context.impossible else found), doubts


def median_seconds(calls: Sequence[Callable[[], Any]], device: str, repeats: int) -> list[float]:
    """Median time of each call, in alternating blocks: a slow spell of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    block = -(-repeats // _ROUNDS)
    for _ in range(_ROUNDS):
        for call, found in zip(calls, times, strict=True):
            for _ in range(_WARM_UP):
                call()
            found += [gpu_seconds(call) if device == "cuda" else cpu_seconds(call) for _ in range(block)]
    return [statistics.median(found) for found in times]
