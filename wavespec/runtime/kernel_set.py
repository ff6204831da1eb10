"""A folder of artifacts, one per target, goes in; the kernel for a tensor's device comes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from wavespec.architecture import architecture
from wavespec.runtime.caller import Call, Caller
from wavespec.runtime.code import ArtifactError
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.manifest import load_artifact, read_manifest
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import Passed, ScalarParameter


class KernelSet(Caller):
    """What a generated wrapper calls: the kernels of one spec, for every target it was built for."""

    def __init__(
        self,
        name: str,
        directory: Path,
        spec_sha256: str,
        inputs: int,
        spec: Path | None = None,
        scalars: Sequence[ScalarParameter] = (),
    ) -> None:
        """``spec``: the file, if there is one, that machine code is built of again."""
        super().__init__(inputs, ScalarArguments(name, scalars))
        self.name = name
        self._directory = directory
        self._spec_sha256 = spec_sha256
        self._spec = spec
        self._kernels: dict[torch.device, Kernel] = {}

    def prepare(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None, scalars: tuple[Passed, ...] = ()
    ) -> tuple[Sequence[Tensor], Call]:
        # torch passes None on where a tensor belongs; any kernel says so.
        device = next((one.device for one in inputs if isinstance(one, Tensor)), torch.device("cpu"))  # pyright: ignore
        return self.kernel_for(device).prepare(inputs, outputs, scalars)

    def kernel_for(self, device: torch.device) -> Kernel:
        """The kernel for `device`; `ArtifactError` says what was built where nothing fits."""
        if device not in self._kernels:
            artifact = load_artifact(self._manifest_for(device), self._spec)
            if artifact.spec_sha256 != self._spec_sha256:
                raise ArtifactError(
                    f"{self.name}: the wrapper and {self._directory.name}/{artifact.target}.json are of "
                    "different versions of the spec; run 'wavespec build' again."
                )
            self._kernels[device] = Kernel(artifact)
        return self._kernels[device]

    def _manifest_for(self, device: torch.device) -> Path:
        backend, architecture = _machine(device)
        best: tuple[int, Path] | None = None
        built: list[str] = []
        for manifest in sorted(self._directory.glob("*.json")):
            record = read_manifest(manifest)
            fit = _fit(backend, architecture, record["backend"], record["architecture"])
            if fit and (best is None or fit > best[0]):
                best = (fit, manifest)
            built.append(f"{manifest.stem} ({record['architecture']})")
        if best is None:
            there = ", ".join(built) or "nothing"
            raise ArtifactError(f"{self.name}: nothing was built for {device} ({architecture}); there is {there}.")
        return best[1]


def _machine(device: torch.device) -> tuple[str, str]:
    if device.type == "cpu":
        return "cpu", architecture()
    if device.type != "cuda":
        return device.type, device.type
    if torch.version.hip:
        name = torch.cuda.get_device_properties(device).gcnArchName  # pyright: ignore
        return "hip", str(name).split(":")[0]  # pyright: ignore[reportUnknownArgumentType]
    major, minor = torch.cuda.get_device_capability(device)
    return "cuda", f"sm_{major}{minor}"


def _fit(backend: str, architecture: str, built_backend: str, built_architecture: str) -> int:
    """How well an artifact fits a machine: 0 not at all; larger is better.

    `sm_90a` runs on compute capability 9.0 only; PTX for `sm_80` runs on 8.0 and everything later.
    """
    if backend != built_backend:
        return 0
    if backend != "cuda":
        return int(architecture in built_architecture.split("+"))
    if not built_architecture.startswith("sm_"):
        return 0
    number = built_architecture[3:]
    if not number.isdigit():
        return 10_000 if number[:-1] == architecture[3:] else 0
    return int(number) if int(number) <= int(architecture[3:]) else 0
