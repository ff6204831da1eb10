"""A random spec goes in; whether every machine computes what the reference does comes out."""

from __future__ import annotations

import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tests.fuzz.graph import RandomSpec
from tests.fuzz.strided import array_of, outputs_of, view_of
from tests.kernels import TORCH, array_to_tensor, check_error, tensors_of
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, build, emit, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.held_numbers import draw, problem

SIMULATED = [*machines("gfx942"), *machines("sm_90")]
SECONDS = 5
"""Within which a text is a spec, or its mistakes are found."""
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
        if tensor.role == "input":
            shape, dtype = [sizes[dim] for dim in tensor.shape], TORCH[tensor.dtype]
            if tensor.values is not None:
                made.append(draw(held[name], shape, dtype, random, whole=whole))
                assert problem(held[name], name, made[-1]) is None
                continue
            numbers = torch.randint(-3, 4, shape, generator=random) if whole else torch.randn(shape, generator=random)
            made.append(numbers.to(dtype))
    return tuple(made)


def check(spec: KernelSpec, inputs: tuple[Tensor, ...], results: list[Tensor], *, whole: bool) -> None:
    """Assert that results are those of the reference, or nearly."""
    exact, theirs = tensors_of(reference(spec, *inputs)), tensors_of(reference(spec, *inputs, compute=None))
    for name, result, right, own in zip(_names(spec, "output"), results, exact, theirs, strict=True):
        if whole or not result.dtype.is_floating_point:
            assert torch.equal(result.double(), right.to(result.dtype).double()), f"{name} is wrong"
        else:
            check_error(name, result, right, own, least_ulps=8)


def judge(random: RandomSpec, *, cpu: bool) -> str:
    """The outcome: ``right``, or ``refused (why)`` where no machine of those asked takes it; raises where it is wrong."""
    with time_limit(SECONDS):
        spec = loads(random.text, "random.wave.yaml")
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
            named = zip(_names(spec, "input"), inputs, strict=True)
            columns = random.columns
            arrays: dict[str, Any] = {
                name: array_of(one, columns.get(name), spec.tensors[name].dtype)
                for name, one in (*named, *outputs_of(spec, sizes, columns).items())
            }
            report = simulate(kernel, machine, arrays, sizes)
            assert report.ok, f"{machine.variant} {sizes}: {report.render()}"
            outputs = _names(spec, "output")
            results = [array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in outputs]
            _with_place(f"{machine.variant} {sizes}", spec, inputs, results, whole=random.whole)
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
            for given in random.sizes:
                sizes = complete_sizes(spec, given)
                inputs = inputs_of(spec, sizes, whole=random.whole)
                results = _called(compiled, spec, inputs, sizes, random.columns)
                _with_place(f"cpu {sizes}", spec, inputs, results, whole=random.whole)
    return "right" if taken else f"refused ({', '.join(sorted(refusals))})"


def _called(
    kernel: Kernel, spec: KernelSpec, inputs: tuple[Tensor, ...], sizes: dict[str, int], columns: Mapping[str, int]
) -> list[Tensor]:
    views = [view_of(one, columns.get(name)) for name, one in zip(_names(spec, "input"), inputs, strict=True)]
    results = tensors_of(kernel(*views))
    if given := outputs_of(spec, sizes, columns):
        names = _names(spec, "output")
        into = [given.get(name, torch.zeros_like(one)) for name, one in zip(names, results, strict=True)]
        for made, written in zip(results, tensors_of(kernel(*views, out=into)), strict=True):
            assert torch.equal(made.double(), written.double()) or made.isnan().any()
    return list(results)


def _with_place(
    place: str, spec: KernelSpec, inputs: tuple[Tensor, ...], results: list[Tensor], *, whole: bool
) -> None:
    try:
        check(spec, inputs, results, whole=whole)
    except AssertionError as error:
        raise AssertionError(f"{place}: {error}") from error


def _names(spec: KernelSpec, role: str) -> list[str]:
    return [name for name, tensor in spec.tensors.items() if tensor.role == role]
