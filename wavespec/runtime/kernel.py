"""A compiled kernel goes in; a callable on torch tensors, which checks its arguments, comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from wavespec.runtime.artifact import ArtifactError, KernelArtifact
from wavespec.runtime.checks import DTYPES, ArgumentError, check_inputs, check_outputs, no_backward
from wavespec.runtime.cpu_features import choose_binary, cpu_features
from wavespec.runtime.launch_plan import LaunchPlan, make_plan

_PLANS_KEPT: Final = 1024
_DEVICE_TYPES: Final = {"cpu": "cpu", "cuda": "cuda", "hip": "cuda"}


class Launcher(Protocol):
    """Runs one kernel on one device."""

    def launch(self, tensors: Sequence[Tensor], plan: LaunchPlan) -> None:
        """Run on inputs then outputs, all contiguous and of the sizes of `plan`."""
        ...


class Kernel:
    """One kernel for one target; loads its code at the first call on a device.

    >>> kernel(a, b)           # a new tensor, or a tuple of them where the kernel has several outputs
    >>> kernel(a, b, out=c)    # writes c and returns it
    >>> kernel.raw(a, b, c)    # no checks beyond sizes: for callers that made sure
    """

    def __init__(self, artifact: KernelArtifact) -> None:
        self.artifact = artifact
        self._device_type = _DEVICE_TYPES[artifact.backend]
        self._input_dtypes = tuple(DTYPES[tensor.dtype] for tensor in artifact.inputs)
        self._output_dtypes = tuple(DTYPES[tensor.dtype] for tensor in artifact.outputs)
        self._input_count = len(self._input_dtypes)
        self._plans: dict[tuple[torch.Size, ...], LaunchPlan] = {}
        self._launchers: dict[torch.device, Launcher] = {}

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(str, t.dims))}]" for t in tensors)
            for tensors in (self.artifact.inputs, self.artifact.outputs)
        )
        return f"<kernel {self.artifact.name}({inputs}) -> {outputs} for {self.artifact.target}>"

    def __call__(self, *inputs: Tensor, out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """Run the kernel.

        Args:
            inputs: in declaration order; copied first where they are not contiguous.
            out: contiguous tensor for the result (one per output where there are several), sharing no memory
                with the others.

        Returns:
            The output, or a tuple of the outputs.

        Errors: `ArgumentError`, which names the argument; `ArtifactError` where the code does not fit the
            device.
        """
        if torch.is_grad_enabled():
            for tensor in inputs:
                if isinstance(tensor, Tensor) and tensor.requires_grad:  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise no_backward(self.artifact.name, **self._by_name(inputs))
        return self.run(inputs, out)

    def run(self, inputs: Sequence[Tensor], out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """As a call, without looking at `requires_grad`: what the registered torch operators use."""
        plan = self._known_plan(inputs)
        if plan is None:
            plan = self._new_plan(inputs)
            inputs = [tensor.contiguous() for tensor in inputs]
        if out is None:
            device = inputs[0].device
            outputs: Sequence[Tensor] = [
                torch.empty(shape, dtype=dtype, device=device)
                for shape, dtype in zip(plan.output_shapes, self._output_dtypes, strict=True)
            ]
        else:
            outputs = (out,) if isinstance(out, Tensor) else tuple(out)
            if not self._outputs_fit(inputs, outputs, plan):
                check_outputs(self.artifact, inputs, outputs, plan.sizes)
        if plan.workgroups:
            self._launch((*inputs, *outputs), plan)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def raw(self, *tensors: Tensor) -> None:
        """Launch on inputs then outputs; wrong dtypes, devices, strides or outputs corrupt memory."""
        plan = self._plans.get(tuple([tensor.shape for tensor in tensors[: self._input_count]]))
        if plan is None:
            plan = self._new_plan(tensors[: self._input_count])
        if plan.workgroups:
            self._launch(tensors, plan)

    def _known_plan(self, inputs: Sequence[Tensor]) -> LaunchPlan | None:
        """The plan of an earlier call with these shapes, if the inputs are as they should be."""
        if len(inputs) != self._input_count:
            return None
        try:
            device = inputs[0].device
            for tensor, dtype in zip(inputs, self._input_dtypes):  # noqa: B905 (lengths are equal; strict costs time)
                if tensor.dtype is not dtype or not tensor.is_contiguous() or tensor.device != device:
                    return None
            return self._plans.get(tuple([tensor.shape for tensor in inputs]))
        except AttributeError:  # Not a tensor: the full check says so.
            return None

    def _outputs_fit(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], plan: LaunchPlan) -> bool:
        """Whether `outputs` surely pass `check_outputs`, which decides, and explains, all other cases."""
        if len(outputs) != 1 or not isinstance(outputs[0], Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            return False
        output = outputs[0]
        start = output.data_ptr()
        end = start + output.nbytes
        for tensor in inputs:
            other = tensor.data_ptr()
            if start < other + tensor.nbytes and other < end:
                return False
        return (
            output.dtype is self._output_dtypes[0]
            and output.shape == plan.output_shapes[0]
            and output.is_contiguous()
            and output.device == inputs[0].device
            and not output.requires_grad
        )

    def _new_plan(self, inputs: Sequence[Tensor]) -> LaunchPlan:
        sizes = check_inputs(self.artifact, inputs)
        self._check_device(inputs[0].device)
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        plan = make_plan(self.artifact, sizes)
        self._plans[tuple([tensor.shape for tensor in inputs])] = plan
        return plan

    def _launch(self, tensors: Sequence[Tensor], plan: LaunchPlan) -> None:
        device = tensors[0].device
        launcher = self._launchers.get(device)
        if launcher is None:
            launcher = self._load(device)
        if device.type == "cpu" or device.index == torch._C._cuda_getDevice():  # pyright: ignore[reportPrivateUsage]
            launcher.launch(tensors, plan)
            return
        with torch.cuda.device(device):
            launcher.launch(tensors, plan)

    def _load(self, device: torch.device) -> Launcher:
        # Here too: a plan made for a CPU tensor is found again for a GPU tensor of the same shape.
        self._check_device(device)
        launcher = make_launcher(self.artifact, device)
        self._launchers[device] = launcher
        return launcher

    def _check_device(self, device: torch.device) -> None:
        if device.type != self._device_type:
            raise ArgumentError(
                f"{self.artifact.name}: argument '{self.artifact.inputs[0].name}' is on {device}, "
                f"but this kernel was built for {self.artifact.target} (device '{self._device_type}')."
            )

    def _by_name(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        return {parameter.name: tensor for parameter, tensor in zip(self.artifact.inputs, inputs, strict=False)}


def make_launcher(artifact: KernelArtifact, device: torch.device) -> Launcher:
    """The launcher of an artifact on a device; `ArtifactError` where none of its binaries can run."""
    if artifact.backend == "cuda":
        from wavespec.runtime.cuda_launcher import CudaLauncher

        with torch.cuda.device(device):
            return CudaLauncher(artifact, artifact.binaries, device)
    vmfbs = [binary for binary in artifact.binaries if binary.format == "vmfb"]
    if not vmfbs:
        raise ArtifactError(f"{artifact.name}: {artifact.target} was built without a vmfb.")
    features = cpu_features() if artifact.backend == "cpu" else frozenset[str]()
    binary = choose_binary(vmfbs, features, artifact.name)
    try:
        from wavespec.runtime.iree_launcher import IreeLauncher
    except ImportError as error:
        raise ArtifactError(
            "Running on a CPU needs the package 'iree-base-runtime': pip install iree-base-runtime."
        ) from error
    return IreeLauncher(artifact, binary, device)
