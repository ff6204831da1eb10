"""`wavespec run --simulate`: a kernel, sizes and tensors in; what the simulator of lanes computes and finds, out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from wavespec.cases_on_machines import cases_on
from wavespec.cli.inputs import BadSize, chosen_sizes, sizes_in_words
from wavespec.cli.numbers import whole_scalars
from wavespec.diagnostics import Diagnostic, WavespecError, quote
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import best_variant, lower
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase, case_for_sizes
from wavespec.schema.checking.case_errors import naming_case
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.scalars import Number
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.cost import operations_of
from wavespec.sim.kernels_before import simulate_before
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import numbers_of_call, simulate, strands_of
from wavespec.sim.stops import StopAt
from wavespec.sim.tensors import elements_to_tensor, tensor_to_elements

EndsIn = Callable[[dict[str, int]], int]
MOST_OPERATIONS = 200_000
"""Of all workgroups: some ten to forty seconds."""


class TooLargeToSimulate(WavespecError, code="too-large-to-simulate"):
    """The simulator would take minutes for sizes like these."""

    def __init__(self, kernel: str, sizes: Mapping[str, int], operations: int, smaller: Mapping[str, int]) -> None:
        options = " ".join(f"--dim {name}={size}" for name, size in smaller.items())
        super().__init__(
            "--dim",
            f"{kernel} does about {operations} operations for {sizes_in_words(sizes)}; at most {MOST_OPERATIONS} are "
            "simulated.",
            hints=[f"These sizes fit: {options}." if options else "Leave the simulator to a smaller kernel."],
        )


class Simulator:
    """A spec for one target, with the numbers of its scalars; each case is lowered once."""

    def __init__(self, spec: KernelSpec, target: str, scalars: Mapping[str, Number]) -> None:
        self.spec, self.scalars, self.machine = spec, scalars, best_variant(target)
        self._cases, self._lowered = cases_on(spec, target, (self.machine,)), dict[int, tuple[Kernel, ...]]()

    @property
    def file(self) -> str:
        """Of the spec."""
        return self.spec.span.file if self.spec.span else ""

    def kernels(self, sizes: Mapping[str, int]) -> tuple[Kernel, ...]:
        """All that a call of these sizes runs, one after another, after all passes; the last one writes the results."""
        number = self._cases.index(case := self._case(sizes))
        if number not in self._lowered:
            with naming_case(case):
                self._lowered[number] = tuple(lower(one, self.machine) for one in case.kernels)
        return self._lowered[number]

    def workgroups(self, sizes: Mapping[str, int], number: int = -1) -> int:
        """How many of them a call launches of one of its kernels."""
        kernel = self.kernels(sizes)[number]
        numbers = numbers_of_call(kernel, {}, self._sizes_of(number, sizes), self._numbers(sizes))
        return math.prod(int(extent.evaluate(numbers)) for extent in kernel.grid)

    def call(
        self, sizes: Mapping[str, int], inputs: Sequence[Tensor], stop_at: StopAt | None = None
    ) -> tuple[tuple[Tensor, ...], list[Diagnostic]]:
        """What a call writes (what it changes in place, then the outputs), and what is found; or what is found up to
        ``stop_at``, where nothing is written to the end."""
        tensors = self.spec.tensors
        given = [name for name, tensor in tensors.items() if tensor.role != "output"]
        arrays = {
            name: tensor_to_elements(tensor, tensors[name].dtype) for name, tensor in zip(given, inputs, strict=True)
        }
        own, scalars = self._in_case(sizes), self._numbers(sizes)
        kernels, case = self.kernels(sizes), self._case(sizes)
        last = kernels[-1] if stop_at is None else stop_at.kernel
        number = next(number for number, one in enumerate(kernels) if one is last)
        arrays, reports = simulate_before(case, kernels[:number], self.machine, arrays, own, scalars)
        read = {name: arrays[name] for name in case.kernels[number].tensors if name in arrays}
        report = simulate(last, self.machine, read, self._sizes_of(number, sizes), scalars=scalars, stop_at=stop_at)
        found = [one.diagnostic() for of in (*reports, report) for one in (*of.findings, *of.slow_accesses)]
        if stop_at is not None:
            return (), found
        written = [name for name, tensor in tensors.items() if tensor.role != "input"]
        written.sort(key=lambda name: tensors[name].role == "output")
        # A kernel that lays an output out has dims that stay side by side as one.
        shapes = {name: [sizes[dim] for dim in tensors[name].shape] for name in written}
        arrays = {**arrays, **report.tensors}
        results = tuple(elements_to_tensor(arrays[name], tensors[name].dtype).reshape(shapes[name]) for name in written)
        return results, found

    def sizes(
        self, runs: Sequence[dict[str, int]], *, is_asked: bool, ends_in: EndsIn | None = None
    ) -> list[tuple[dict[str, int], dict[str, int]]]:
        """What a run is asked for and what it is simulated with: the larger dims halved until that takes seconds, and
        each once.

        Args:
            is_asked: whether somebody wants these sizes and no others.
            ends_in: the kernel, by its number, of which only one workgroup runs and none behind it; all run where left
                out.

        Raises:
            TooLargeToSimulate: sizes that are asked for are too large, or no others fit.
            BadSize: they break an assumption of the kernel.
        """
        found: dict[tuple[int, ...], tuple[dict[str, int], dict[str, int]]] = {}
        for sizes in runs:
            if broken := self._broken_assumption(sizes):
                raise BadSize("--dim", f"{sizes_in_words(sizes)} breaks the assumption {quote(broken)}.")
            fitting = self._halved(sizes, ends_in)
            if fitting is None or (is_asked and fitting != sizes):
                free = {name: size for name, size in (fitting or {}).items() if self._is_free(name)}
                raise TooLargeToSimulate(self.spec.name, sizes, self._operations(sizes, ends_in), free)
            found.setdefault(tuple(fitting.values()), (sizes, fitting))
        return list(found.values())

    def _halved(self, sizes: dict[str, int], ends_in: EndsIn | None) -> dict[str, int] | None:
        """The first sizes that are done soon, the largest dim that may be smaller halved each time."""
        while self._operations(sizes, ends_in) > MOST_OPERATIONS:
            for name in sorted(filter(self._is_free, sizes), key=lambda name: -sizes[name]):
                divisor = self.spec.dims[name].multiple_of
                half = sizes[name] // 2 // divisor * divisor
                smaller = self._legal({**sizes, name: half}) if half else None
                if smaller is not None:
                    sizes = smaller
                    break
            else:
                return None
        return sizes

    def _operations(self, sizes: dict[str, int], ends_in: EndsIn | None) -> int:
        kernels, scalars = self.kernels(sizes), self._numbers(sizes)
        last = ends_in(sizes) if ends_in else len(kernels) - 1
        counts = [
            operations_of(one, numbers_of_call(one, {}, self._sizes_of(number, sizes), scalars), strands_of(one))
            for number, one in enumerate(kernels[: last + 1])
        ]
        return sum(counts[:-1]) + counts[-1] // (max(1, self.workgroups(sizes, last)) if ends_in else 1)

    def _legal(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """The sizes with those that follow from others, if a call may have them."""
        texts = [f"{name}={size}" for name, size in sizes.items() if self._is_free(name)]
        try:
            (whole,) = chosen_sizes(self.spec, texts, scalars=whole_scalars(self.spec, self.scalars))
        except WavespecError:
            return None
        return None if self._broken_assumption(whole) else whole

    def _numbers(self, sizes: Mapping[str, int]) -> dict[str, Number]:
        """Of all scalars in a call of these sizes."""
        return numbers_of_scalars(self.spec, sizes, self.scalars)

    def _is_free(self, name: str) -> bool:
        """Whether a call says how large a dim is."""
        return self.spec.dims[name].value is None and self.spec.dims[name].equals is None

    def _case(self, sizes: Mapping[str, int]) -> TargetCase:
        return case_for_sizes(self._cases, {**whole_scalars(self.spec, self.scalars), **sizes})

    def _in_case(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes with those that the case of a call makes of others in a way of its own."""
        free = {name: size for name, size in sizes.items() if self.spec.dims[name].equals is None}
        spec = self._case(sizes).spec
        whole = complete_sizes(spec, {**whole_scalars(self.spec, self.scalars), **free})
        return {**sizes, **{name: whole[name] for name in spec.dims}}

    def _sizes_of(self, number: int, sizes: Mapping[str, int]) -> dict[str, int]:
        """Those of the dims of one of the kernels that a call runs."""
        own, before = self._in_case(sizes), self._case(sizes).before
        if number in (-1, len(before)):
            return own
        spec = before[number]
        free = (name for name, dim in spec.dims.items() if dim.equals is None and name in own)
        return complete_sizes(spec, {name: own[name] for name in free})

    def _broken_assumption(self, sizes: Mapping[str, int]) -> str:
        """A condition that calls of the case for these sizes promise, and these sizes do not meet."""
        spec = self._case(sizes).spec
        known = {**whole_scalars(self.spec, self.scalars), **sizes}
        for assumed in (one for one in spec.constraints if isinstance(one, Assume)):
            met = TargetCase((assumed.condition,), spec)
            if case_for_sizes((met, TargetCase((), spec)), known) is not met:
                return str(assumed.condition)
        return ""
