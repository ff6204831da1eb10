"""A compiled kernel goes in; a callable on torch tensors, which checks its arguments, comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import Call, Caller, Launcher
from wavespec.runtime.checks import (
    ArgumentError,
    ArgumentTypeError,
    are_plain,
    check_inputs,
    check_memory,
    check_outputs,
    check_plain,
    tracing_context,
)
from wavespec.runtime.code import ArtifactError
from wavespec.runtime.cpu_features import choose_binary, cpu_features, for_processor
from wavespec.runtime.cpu_launcher import CpuLauncher
from wavespec.runtime.kernel_operator import call_in_graph
from wavespec.runtime.large_pages import LEAST_BYTES, in_large_pages
from wavespec.runtime.launch_plan import LaunchPlan, make_plan
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import Passed
from wavespec.runtime.steps_launcher import StepsLauncher
from wavespec.runtime.tensor_strides import results_of_call
from wavespec.runtime.workgroups import are_shared_out

_SEVERAL: Final = (tuple, list)  # `tuple | list` would be made anew in each call
_DEVICE_TYPES: Final = {"cpu": "cpu", "cuda": "cuda", "hip": "cuda"}


class Kernel(Caller):
    """One kernel for one target; loads its code at the first call on a device.

    >>> kernel(a, b)           # a new tensor, or a tuple of them where the kernel has several outputs
    >>> kernel(a, b, out=c)    # writes c and returns it
    >>> kernel(a, b, eps=1e-5) # a scalar of the kernel, where it has one
    >>> kernel(b=b, a=a)       # tensors by name
    >>> kernel.raw(a, b, c)    # no checks of strides and outputs: for callers that made sure
    """

    def __init__(self, artifact: KernelArtifact) -> None:
        if artifact.backend == "cpu" and artifact.cases:
            artifact = for_processor(artifact, cpu_features())
        super().__init__(len(artifact.inputs), ScalarArguments(artifact.name, artifact.scalars))
        self.artifact = artifact
        self.namespace = ""
        """Of its operators, from the first call on that torch traced."""
        self._input_names = tuple(tensor.name for tensor in artifact.inputs)
        self._scalar_names = frozenset(scalar.name for scalar in artifact.scalars)
        self._output_count = len(artifact.outputs)
        self._updated = tuple(number for number, tensor in enumerate(artifact.inputs) if tensor.updated)
        self._device_type = _DEVICE_TYPES[artifact.backend]
        self._empty = _allocator(self._device_type)
        self._launchers: tuple[dict[torch.device, Launcher], ...] = tuple({} for _ in artifact.members)

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(str, t.dims))}]" for t in tensors)
            for tensors in (self.artifact.inputs, self.artifact.outputs)
        )
        inputs += "".join(f", {one.name}: {one.dtype}" for one in self.artifact.scalars)
        return f"<kernel {self.artifact.name}({inputs}) -> {outputs} for {self.artifact.target}>"

    def __reduce__(self) -> tuple[type[Kernel], tuple[KernelArtifact]]:
        # A copy, here or in another process, loads its code itself.
        return Kernel, (self.artifact,)

    def __call__(
        self, *inputs: Tensor, out: Tensor | Sequence[Tensor] | None = None, **named: Tensor | bool | int | float
    ) -> Any:
        """Run the kernel.

        Args:
            inputs: in declaration order; copied first where they are not contiguous, which those that are changed in
                place have to be.  Where the spec says so, they may have any strides, and are never copied.
            out: contiguous tensor for the result, or of strides as the spec has it (one per output where there are
                several), sharing no memory with the others.
            named: inputs by name, and scalars, those without a default at least: numbers of Python or numpy.

        Returns:
            What was written: the inputs that were changed in place, then the outputs, both in declaration order; a
            tuple where there are several.

        Errors: `ArgumentError`, which names the argument; `ArtifactError` where the code does not fit the
            device.
        """
        outputs: tuple[Any, ...] = () if out is None else tuple(out) if isinstance(out, _SEVERAL) else (out,)
        if is_dynamo_compiling():
            return call_in_graph(self, inputs, outputs, named)
        if named and not self._scalar_names.issuperset(named):
            inputs, named = self._in_order(inputs, named)
        numbers = self.scalars.named(named) if named or self._scalar_names else ()
        if out is None and self._output_count:
            made = self.direct.new(*inputs, scalars=numbers)
            if made is None and tracing_context() is not None:
                return self._in_graph(inputs, outputs, numbers)
            if made is None:
                made = self.new(*self._checked(inputs, ()), scalars=numbers)
            outputs = (made,) if self._output_count == 1 else made
        elif len(inputs) != self._input_count or not self.direct.write(*inputs, *outputs, scalars=numbers):
            if tracing_context() is not None:
                return self._in_graph(inputs, outputs, numbers)
            inputs = self._checked(inputs, outputs)
            if len(outputs) != self._output_count:
                self.prepare(inputs, outputs, numbers)  # says so
            self.write(*inputs, *outputs, scalars=numbers)
        written = (*(inputs[number] for number in self._updated), *outputs) if self._updated else outputs
        return written[0] if len(written) == 1 else written

    def _in_graph(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], numbers: tuple[Passed, ...]) -> Any:
        """The call by the operator of the kernel, where torch watches in place of running."""
        for name, tensor in zip(self._input_names, inputs, strict=False):
            if not isinstance(tensor, Tensor):
                message = f"{self.artifact.name}: argument '{name}' is of type {type(tensor).__name__}"
                raise ArgumentTypeError(f"{message}, expected a torch.Tensor.")
        scalars = zip(self.artifact.scalars, numbers, strict=True)
        return call_in_graph(self, inputs, outputs, {one.name: number for one, number in scalars})

    def _checked(self, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Inputs of the right number whose memory, and that of the outputs, holds their numbers."""
        if not are_plain((*inputs, *outputs)):
            inputs = self._as_plain(inputs, outputs)
        if len(inputs) != self._input_count:
            check_inputs(self.artifact, inputs)  # says so
        return inputs

    def _in_order(self, inputs: tuple[Tensor, ...], named: dict[str, Any]) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
        """All inputs in their order, those that a call passes by name behind the others, and what else it passes so."""
        names, kernel = self._input_names, self.artifact.name
        for name in named.keys() - {*names, *self._scalar_names}:
            if isinstance(named[name], Tensor):
                is_output = any(tensor.name == name for tensor in self.artifact.outputs)
                hint = "; pass tensors for results as 'out'" if is_output else ""
                raise ArgumentTypeError(f"{kernel}: got '{name}', but its tensors are {', '.join(names)}{hint}.")
        if not named.keys() & set(names):
            return inputs, named
        if twice := [name for name in names[: len(inputs)] if name in named]:
            raise ArgumentTypeError(f"{kernel}: argument '{twice[0]}' is passed by its place and by its name.")
        rest = names[len(inputs) :]
        if missing := [name for name in rest if name not in named]:
            raise ArgumentTypeError(f"{kernel}: argument '{missing[0]}' is missing; pass {missing[0]}=....")
        return (*inputs, *map(named.pop, rest)), named

    def member_for(self, *inputs: Tensor, out: Sequence[Tensor] | None = None, **scalars: bool | int | float) -> int:
        """Index in `KernelArtifact.members` of the kernel that a call with these arguments runs."""
        numbers = self.scalars.named(scalars) if scalars or self.scalars else ()
        return self.prepare(inputs, out, numbers)[1].plan.member

    def prepare(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None, scalars: tuple[Passed, ...] = ()
    ) -> tuple[Sequence[Tensor], Call]:
        sizes = check_inputs(self.artifact, inputs, outputs, self.scalars.sizes(scalars))
        device = inputs[0].device
        self._check_device(device)
        expected = zip(self.artifact.inputs, inputs, strict=True)
        inputs = [tensor if parameter.is_strided else tensor.contiguous() for parameter, tensor in expected]
        if outputs is not None:
            check_outputs(self.artifact, inputs, outputs, sizes)
        elif self._updated:
            check_memory(self.artifact, inputs, ())
        plan = make_plan(self.artifact, sizes)
        tensors = tuple(zip(self.artifact.tensors, plan.shapes, strict=True))
        made = results_of_call(self.artifact, inputs, sizes) if outputs is None else ()
        results = made if outputs is None else tuple((tuple(one.shape), one.stride(), one.dtype) for one in outputs)
        return inputs, Call(
            self.artifact,
            plan,
            self._launcher(device, plan.member) if plan.workgroups else None,
            None if device.type == "cpu" else device.index,
            self._empty_of(plan, len(inputs)),
            results,
            tuple(number for number, tensor in enumerate(self.artifact.outputs) if tensor.zeroed),
            plan.tensor_bytes(self.artifact.tensors),
            any(0 in shape for shape in plan.shapes),
            updates=self._updated,
            dense=tuple(number for number, (tensor, _) in enumerate(tensors) if not tensor.is_strided),
        )

    def _as_plain(self, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The inputs, those copied whose memory holds the negated numbers.

        Errors: `ArgumentError` where the memory of an argument is not that of its numbers at all.
        """
        names = [parameter.name for parameter in self.artifact.inputs]
        updated = {self.artifact.inputs[number].name for number in self._updated}
        for name, tensor in zip(names, inputs, strict=False):
            check_plain(f"{self.artifact.name}: argument '{name}'", tensor, written=name in updated)
        for tensor in outputs:
            check_plain(f"{self.artifact.name}: argument 'out'", tensor, written=True)
        return tuple(tensor.resolve_neg() if isinstance(tensor, Tensor) else tensor for tensor in inputs)  # pyright: ignore

    def _empty_of(self, plan: LaunchPlan, inputs: int) -> Callable[..., Tensor]:
        """What makes the outputs of a call with this plan."""
        is_large = max(plan.tensor_bytes(self.artifact.tensors)[inputs:], default=0) >= LEAST_BYTES
        return in_large_pages(self._empty) if is_large and self._device_type == "cpu" else self._empty

    def _launcher(self, device: torch.device, member: int) -> Launcher:
        launcher = self._launchers[member].get(device)
        if launcher is None:
            launcher = self._launchers[member][device] = make_launcher(self.artifact.members[member], device)
        return launcher

    def _check_device(self, device: torch.device) -> None:
        if device.type != self._device_type:
            raise ArgumentError(
                f"{self.artifact.name}: argument '{self.artifact.inputs[0].name}' is on {device}, "
                f"but this kernel was built for {self.artifact.target} (device '{self._device_type}')."
            )


def _allocator(device_type: str) -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]:
    """Makes a tensor of a shape, strides and dtype on the current device: what Inductor's code calls, which takes
    0.4 µs where torch.empty takes 1.5."""
    return getattr(torch._C._dynamo.guards, f"_empty_strided_{device_type}")  # pyright: ignore


def make_launcher(artifact: KernelArtifact, device: torch.device) -> Launcher:
    """The launcher of an artifact on a device; `ArtifactError` where none of its binaries can run."""
    if artifact.steps:
        return StepsLauncher(artifact, [make_launcher(step, device) for step in artifact.steps], device)
    if artifact.backend == "cuda":
        from wavespec.runtime.cuda_launcher import CudaLauncher

        with torch.cuda.device(device):
            return CudaLauncher(artifact, artifact.binaries, device)
    vmfbs = [binary for binary in artifact.binaries if binary.format == "vmfb"]
    if not vmfbs:
        raise ArtifactError(f"{artifact.name}: {artifact.target} was built without a vmfb.")
    features = cpu_features() if artifact.backend == "cpu" else frozenset[str]()
    binary = choose_binary(vmfbs, features, artifact.name)
    if artifact.backend == "cpu" and are_shared_out():
        return CpuLauncher(artifact, binary)
    try:
        from wavespec.runtime.iree_launcher import IreeLauncher
    except ImportError as error:
        raise ArtifactError(
            "Running on a CPU needs the package 'iree-base-runtime': pip install iree-base-runtime."
        ) from error
    return IreeLauncher(artifact, binary, device)
