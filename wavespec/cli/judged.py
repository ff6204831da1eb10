"""Results of a kernel go in; how right they are, and why that may show little, comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from wavespec.cli.doubts import Doubt, doubts_about_inputs, doubts_about_sameness
from wavespec.cli.measure import accuracy, elements_of, more_results, written_by
from wavespec.cli.run_rows import Run
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.tensor_strides import copied
from wavespec.schema.old_values import Observed
from wavespec.tune.declared_inputs import held_by_inputs
from wavespec.tune.judge import Accuracy

_OTHER_INPUTS = 4
"""Drawn, at most, to see whether results depend on inputs."""


class Watched(NamedTuple):
    """The kernel of a spec that writes what every `atomic` finds as well."""

    observed: Observed
    kernel: Kernel


def judged(
    one: Run,
    kernel: Kernel,
    watched: Watched | None,
    sizes: dict[str, int],
    inputs: list[Tensor],
    written: Any,
    seed: int,
    device: str,
) -> tuple[Accuracy, list[Doubt]]:
    """How right a result is, and why that may show little: of its inputs, of itself, and beside those of others.

    What depends on the order of elements is judged by a call of the kernel that is ``watched``.
    """
    spec, scalars = one.spec, one.scalars
    names = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    held = held_by_inputs(spec, sizes, scalars)
    doubts = doubts_about_inputs(spec, held, dict(zip(names, inputs, strict=True)))
    found, of_results = accuracy(spec, inputs, written, scalars)
    if watched is not None:
        observed, other = watched
        results = other(*map(copied, inputs), **scalars)
        in_order, of_results = accuracy(observed.spec, inputs, results, scalars, observed.outputs)
        found = found.joined(in_order)
    results = dict(zip(written_by(spec), elements_of(spec, written), strict=True))
    seeds = range(seed + 1, seed + 1 + _OTHER_INPUTS) if len(one.given) < len(names) else ()
    others = more_results(spec, kernel, sizes, scalars, one.given, seeds, device)
    return found, [*doubts, *of_results, *(doubts_about_sameness(results, others) if seeds else ())]
