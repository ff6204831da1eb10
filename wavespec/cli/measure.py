"""A kernel and sizes in; random inputs, the error against the reference, and times come out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from wavespec.cli.doubts import Doubt, doubts_about
from wavespec.diagnostics import WavespecError
from wavespec.runtime.artifact import stored_shape
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.ops import Mma
from wavespec.sim.packed import unpacked
from wavespec.sim.reference import interpret, reference, results
from wavespec.tune.bench import as_list, cpu_seconds, gpu_seconds
from wavespec.tune.integer_inputs import meanings, walk
from wavespec.tune.judge import Accuracy, accuracy_of, random_integers, random_tensor

_WARM_UP = 3
_ROUNDS = 3


class NotEnoughMemory(WavespecError, code="not-enough-memory"):
    """The tensors of these sizes do not fit."""


def random_inputs(spec: KernelSpec, sizes: Mapping[str, int], seed: int, device: str) -> list[Tensor]:
    """Tensors in declaration order: normal numbers, integers that fit what the graph does with them, or others from the
    whole range up to 8 bits.

    Raises:
        NotEnoughMemory: they do not fit.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs: list[Tensor] = []
    meant = meanings(spec)
    try:
        for name, tensor in spec.tensors.items():
            if tensor.role == "output":
                continue
            shape = stored_shape(tensor.dtype, tuple(sizes[dim] for dim in tensor.shape))
            made = random_tensor(shape, DTYPES[tensor.dtype], generator)
            if name in meant:
                made = random_integers(meant[name].use, sizes[meant[name].dim], made, generator)
            inputs.append(made.to(device))
    except RuntimeError as error:
        raise NotEnoughMemory("--dim", f"{spec.name}: no memory for tensors of these sizes.") from error
    return inputs


def as_views(
    spec: KernelSpec, inputs: Sequence[Tensor], sizes: Mapping[str, int], columns: int
) -> tuple[list[Tensor], dict[str, Any]]:
    """Copies of inputs, and tensors for results by the name of their argument; those of any strides are views of rows
    that have so many ``columns`` more in front."""
    given, arguments, outputs = iter(inputs), list[Tensor](), list[Tensor]()
    for tensor in spec.tensors.values():
        shape = stored_shape(tensor.dtype, tuple(sizes[dim] for dim in tensor.shape))
        whole = inputs[0].new_zeros(shape, dtype=DTYPES[tensor.dtype]) if tensor.role == "output" else next(given)
        if tensor.strides == "any" and shape:
            row = whole.new_zeros((*shape[:-1], columns + shape[-1]))[..., columns:]
            (outputs if tensor.role == "output" else arguments).append(row.copy_(whole))
        else:
            (outputs if tensor.role == "output" else arguments).append(whole.clone())
    return arguments, {"out": outputs} if outputs else {}


def accuracy(
    spec: KernelSpec,
    inputs: Sequence[Tensor],
    written: Tensor | Sequence[Tensor],
    scalars: Mapping[str, bool | int | float] = MappingProxyType({}),
) -> tuple[Accuracy, list[Doubt]]:
    """How far what a kernel has `written` is from the truth, and how far torch is; and why that may show nothing."""
    context = interpret(spec, *inputs, compute=torch.float64, **scalars)
    exact, rounded = as_list(results(context)), as_list(reference(spec, *inputs, compute=None, **scalars))
    types = [spec.tensors[name].dtype for name in context.computation.written]
    elements = [unpacked(one, dtype) for one, dtype in zip(as_list(written), types, strict=True)]
    return accuracy_of(elements, exact, rounded), doubts_about(context, exact, rounded)


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


def floating_point_operations(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """Multiplications and additions of all matrix products of the graph."""
    graph, types = plain_graph(spec)
    total = 0
    for op in walk(graph):
        if isinstance(op, Mma):  # those of a loop's body work on whole dims: its tiles together are one pass over them
            total += 2 * math.prod(sizes[dim] for dim in {*types[op.lhs].dims, *types[op.rhs].dims})
    return total
