"""A random spec goes in; whether every machine computes what the reference does comes out."""

from __future__ import annotations

import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from tests.fuzz.graph import RandomSpec
from tests.fuzz.machines_here import is_here
from tests.fuzz.strided import array_of, outputs_of, view_of
from tests.kernels import TORCH, array_to_tensor, check_error, tensors_of
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.ops.contexts import ReferenceContext
from wavespec.pipeline import best_variant, build, emit, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.old_values import Observed, with_old_values
from wavespec.schema.ops.reduce import Reduce
from wavespec.schema.ops.scan import Scan
from wavespec.schema.ops.structured import walk
from wavespec.schema.resolve import complete_sizes
from wavespec.schema.resolved import computation_of
from wavespec.sim.reference import explain, results
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines, variants
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.held_numbers import draw, problem

SIMULATED = [*machines("gfx942"), *machines("sm_90")]
SECONDS = 5
"""Within which a text is a spec, or its mistakes are found."""
_ULPS = 8
MOST_LINES = 10_000
"""Of MLIR for the CPU, which take half a minute to compile; what is accessed element by element has more in large tiles."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """`TimeoutError` in what takes a processor longer, whatever else the machine does."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def inputs_of(spec: KernelSpec, sizes: dict[str, int], *, whole: bool) -> tuple[Tensor, ...]:
    """What tensors are meant to hold; else whole numbers from -3 to 3, or normal ones."""
    random = torch.Generator().manual_seed(sum(sizes.values()))
    held = held_by_inputs(spec, sizes)
    made: list[Tensor] = []
    for name, tensor in spec.tensors.items():
        if tensor.role != "output":
            shape, dtype = [sizes[dim] for dim in tensor.shape], TORCH[tensor.dtype]
            if tensor.values is not None:
                made.append(draw(held[name], shape, dtype, random, whole=whole))
                assert problem(held[name], name, made[-1]) is None
                continue
            numbers = torch.randint(-3, 4, shape, generator=random) if whole else torch.randn(shape, generator=random)
            made.append(numbers.to(dtype))
    return tuple(made)


def check(observed: Observed, inputs: tuple[Tensor, ...], written: list[Tensor], *, whole: bool) -> None:
    """Assert that results are those of the reference, or nearly, and old values those of some order.

    Sums and scans err as the largest of them does, and so may what is made of them, however small that is: a sine.
    """
    context = explain(observed, inputs, written, {})
    assert not context.impossible, context.impossible
    exact = tensors_of(results(context))
    theirs = tensors_of(results(explain(observed, inputs, written, {}, compute=None)))
    joined = {op.name for op in walk(observed.spec.graph) if isinstance(op, Reduce | Scan)}
    known = max((_error(value, context, name) for name, value in context.names.items() if name in joined), default=0.0)
    for name, result, right, own in zip(_written(observed.spec), written, exact, theirs, strict=True):
        if whole or not result.dtype.is_floating_point:
            assert torch.equal(result.double(), right.to(result.dtype).double()), f"{name} is wrong"
        else:
            check_error(name, result, right, own, least_ulps=_ULPS, known=known)


def _error(value: Tensor, context: ReferenceContext, name: str) -> float:
    """What a sum may err in its type."""
    finite, dtype = value[value.isfinite()], context.plain(context.types[name])
    is_float = dtype.is_floating_point and finite.numel()
    return _ULPS * torch.finfo(dtype).eps * float(finite.abs().max()) if is_float else 0.0


def judge(random: RandomSpec, *, cpu: bool) -> str:
    """The outcome: ``right``, or ``refused (why)`` where no machine of those asked takes it; raises where it is wrong."""
    with time_limit(SECONDS):
        observed = with_old_values(loads(random.text, "random.wave.yaml"))
    spec = observed.spec
    taken, refusals = 0, set[str]()
    for machine in SIMULATED:
        try:
            kernel = lower(spec, machine)
        except WavespecError as error:
            assert error.diagnostics, random.text
            refusals |= {one.code for one in error.diagnostics}
            continue
        taken += 1
        for given in random.sizes:
            sizes = complete_sizes(spec, given)
            inputs = inputs_of(spec, sizes, whole=random.whole)
            named = zip(_given(spec), inputs, strict=True)
            columns = random.columns
            arrays: dict[str, Any] = {
                name: array_of(one, columns.get(name), spec.tensors[name].dtype)
                for name, one in (*named, *outputs_of(spec, sizes, columns).items())
            }
            report = simulate(kernel, machine, arrays, sizes)
            assert report.ok, f"{machine.variant} {sizes}: {report.render()}"
            written = [array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in _written(spec)]
            _with_place(f"{machine.variant} {sizes}", observed, inputs, written, whole=random.whole)
        if is_here(machine):
            compiled = Kernel(build(spec, machine.target, only=machine, cache=CompileCache(enabled=False)))
            _judge_calls(f"{machine.variant} itself", "cuda", compiled, observed, random)
    if cpu or not taken:
        machine = best_variant("cpu")
        try:
            if emit(spec, machine).text.count("\n") > MOST_LINES:
                return "too long for the CPU"
            compiled = Kernel(build(spec, "cpu", only=machine, cache=CompileCache(enabled=False)))
        except WavespecError as error:
            refusals |= {one.code for one in error.diagnostics}
            assert error.diagnostics and "compiler-failure" not in refusals, str(error)
        else:
            taken += 1
            _write_code_of_others(spec, machine)
            _judge_calls("cpu", "cpu", compiled, observed, random)
    return "right" if taken else f"refused ({', '.join(sorted(refusals))})"


def _write_code_of_others(spec: KernelSpec, run: Machine) -> None:
    """For each kind of CPU but the one that runs it: what has no bug there is written, or refused by name."""
    for other in variants("cpu"):
        if other != run:
            with suppress(WavespecError):
                emit(spec, other)


def _judge_calls(place: str, device: str, kernel: Kernel, observed: Observed, random: RandomSpec) -> None:
    """Assert that calls with tensors of a device are right, at all sizes."""
    spec = observed.spec
    for given in random.sizes:
        sizes = complete_sizes(spec, given)
        inputs = inputs_of(spec, sizes, whole=random.whole)
        written = _called(kernel, spec, tuple(one.to(device) for one in inputs), sizes, random.columns)
        _with_place(f"{place} {sizes}", observed, inputs, [one.cpu() for one in written], whole=random.whole)


def _called(
    kernel: Kernel, spec: KernelSpec, inputs: tuple[Tensor, ...], sizes: dict[str, int], columns: Mapping[str, int]
) -> list[Tensor]:
    views = [view_of(one.clone(), columns.get(name)) for name, one in zip(_given(spec), inputs, strict=True)]
    made = tensors_of(kernel(*views))
    if given := outputs_of(spec, sizes, columns, made[0].device):
        into = [given.get(name, torch.zeros_like(one)) for name, one in zip(_written(spec), made, strict=True)]
        for one, other in zip(made, tensors_of(kernel(*views, out=into)), strict=True):
            assert torch.equal(one.double(), other.double()) or one.isnan().any()
    return list(made)


def _with_place(
    place: str, observed: Observed, inputs: tuple[Tensor, ...], written: list[Tensor], *, whole: bool
) -> None:
    try:
        check(observed, inputs, written, whole=whole)
    except AssertionError as error:
        raise AssertionError(f"{place}: {error}") from error


def _given(spec: KernelSpec) -> list[str]:
    return [name for name, tensor in spec.tensors.items() if tensor.role != "output"]


def _written(spec: KernelSpec) -> tuple[str, ...]:
    return computation_of(spec).written
