"""A kernel and sizes in; random inputs, the error against the reference, and times come out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wavespec.diagnostics import WavespecError
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec
from wavespec.schema.ops import AnyOp, Iterate, Mma, Read, Register, ValueOp
from wavespec.sim.reference import reference

ALLOWED_RATIO = 2.0
"""How many times torch's own error in the same dtypes a kernel may have."""

_WARM_UP = 3
_ROUNDS = 3


class NotEnoughMemory(WavespecError, code="not-enough-memory"):
    """The tensors of these sizes do not fit."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Largest absolute errors against the f64 reference."""

    error: float
    torch_error: float
    """Of torch computing the same graph in the dtypes of the spec; at least half a unit in the last place."""

    @property
    def ratio(self) -> float:
        return 0.0 if self.error == 0 else self.error / self.torch_error if self.torch_error else float("inf")

    @property
    def ok(self) -> bool:
        return self.ratio <= ALLOWED_RATIO


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
            dtype, shape = DTYPES[tensor.dtype], [sizes[dim] for dim in tensor.shape]
            if dtype.is_floating_point:
                value = torch.randn(shape, generator=generator, dtype=torch.float32)
            elif dtype == torch.bool:
                value = torch.randint(0, 2, shape, generator=generator)
            else:
                least, most = max(torch.iinfo(dtype).min, -128), min(torch.iinfo(dtype).max, 127)
                value = torch.randint(least, most + 1, shape, generator=generator)
            inputs.append(value.to(device=device, dtype=dtype))
    except RuntimeError as error:
        raise NotEnoughMemory("--dim", f"{spec.name}: no memory for tensors of these sizes.") from error
    return inputs


def accuracy(spec: KernelSpec, inputs: Sequence[Tensor], results: Tensor | Sequence[Tensor]) -> Accuracy:
    """How far `results` are from the truth, and how far torch is."""
    outputs = _as_list(results)
    exact = _as_list(reference(spec, *inputs))
    rounded = _as_list(reference(spec, *inputs, compute=None))
    worst = Accuracy(0.0, 0.0)
    for output, truth, torch_output in zip(outputs, exact, rounded, strict=True):
        error, torch_error = _largest_error(output, truth), _largest_error(torch_output, truth)
        if output.dtype.is_floating_point and truth.numel():
            least = torch.finfo(output.dtype).eps / 2 * float(truth.abs().max())
            torch_error = max(torch_error, least)
        one = Accuracy(error, torch_error)
        worst = max(worst, one, key=lambda accuracy: accuracy.ratio)
    return worst


def median_seconds(calls: Sequence[Callable[[], Any]], device: str, repeats: int) -> list[float]:
    """Median time of each call, in alternating blocks: a slow spell of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    block = -(-repeats // _ROUNDS)
    for _ in range(_ROUNDS):
        for call, found in zip(calls, times, strict=True):
            for _ in range(_WARM_UP):
                call()
            found += [_gpu_seconds(call) if device == "cuda" else _cpu_seconds(call) for _ in range(block)]
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
            case _:
                assert not isinstance(op, ValueOp), f"'{op.word}' makes a value of unknown dims"
    return total


def _largest_error(actual: Tensor, truth: Tensor) -> float:
    if not truth.numel():
        return 0.0
    difference = (actual.to(torch.float64) - truth.to(torch.float64)).abs()
    largest = float(difference.max())
    return largest if largest == largest else float("inf")


def _as_list(results: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def _cpu_seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _gpu_seconds(call: Callable[[], Any]) -> float:
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3
