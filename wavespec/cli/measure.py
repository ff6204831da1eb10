"""A kernel and sizes in; random inputs, the error against the reference, and times come out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from wavespec.diagnostics import WavespecError
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec
from wavespec.schema.ops import AnyOp, Cast, Elementwise, Iterate, Mma, Read, Reduce, Register, ValueOp
from wavespec.sim.reference import reference
from wavespec.tune.bench import as_list, cpu_seconds, gpu_seconds
from wavespec.tune.judge import Accuracy, accuracy_of, random_tensor

_WARM_UP = 3
_ROUNDS = 3


class NotEnoughMemory(WavespecError, code="not-enough-memory"):
    """The tensors of these sizes do not fit."""


def random_inputs(spec: KernelSpec, sizes: Mapping[str, int], seed: int, device: str) -> list[Tensor]:
    """Tensors in declaration order: normal numbers, or integers from the whole range up to 8 bits.

    Raises:
        NotEnoughMemory: they do not fit.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs: list[Tensor] = []
    try:
        for tensor in spec.tensors.values():
            if tensor.role != "input":
                continue
            shape = [sizes[dim] for dim in tensor.shape]
            inputs.append(random_tensor(shape, DTYPES[tensor.dtype], generator).to(device))
    except RuntimeError as error:
        raise NotEnoughMemory("--dim", f"{spec.name}: no memory for tensors of these sizes.") from error
    return inputs


def accuracy(spec: KernelSpec, inputs: Sequence[Tensor], results: Tensor | Sequence[Tensor]) -> Accuracy:
    """How far `results` are from the truth, and how far torch is."""
    return accuracy_of(
        as_list(results), as_list(reference(spec, *inputs)), as_list(reference(spec, *inputs, compute=None))
    )


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
    return _operations(spec, spec.graph, sizes, {})


def _operations(
    spec: KernelSpec, body: Sequence[AnyOp], sizes: Mapping[str, int], dims: dict[str, tuple[str, ...]]
) -> int:
    total = 0
    for op in body:
        match op:
            case Register():
                dims[op.name] = op.shape
            case Read():
                dims[op.name] = spec.tensors[op.tensor].shape
            case Mma():
                product = 2
                for dim in {*dims[op.lhs], *dims[op.rhs]}:
                    product *= sizes[dim]
                total += product
                dims[op.name] = dims[op.acc]
            case Iterate():
                carried = {name: dims[first] for name, first in op.carry.items()}
                # Ops of the body work on whole dims: its tiles together are one pass over them.
                total += _operations(spec, op.body, sizes, {**dims, **carried})
                dims |= {f"{op.name}.{name}": shape for name, shape in carried.items()}
            case Cast():
                dims[op.name] = dims[op.value]
            case Reduce():
                dims[op.name] = tuple(dim for dim in dims[op.value] if dim != op.dim)
            case Elementwise():
                operands = (getattr(op, field) for field in op.headline)
                dims[op.name] = max((dims[name] for name in operands if isinstance(name, str)), key=len)
            case _:
                assert not isinstance(op, ValueOp), f"'{op.word}' makes a value of unknown dims"
    return total
