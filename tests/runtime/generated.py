"""Generated wrappers of the stand-in kernels, written to a folder and imported from there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from wavespec.emit.wrapper import wrapper_module
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor, artifacts_directory
from wavespec.runtime import KernelArtifact, save_artifact


def wrapper_input(artifact: KernelArtifact, doc: str = "What it computes.") -> WrapperInput:
    """What the wrapper generator needs, from the artifact instead of from a spec."""
    return WrapperInput(
        name=artifact.name,
        doc=doc,
        source=f"specs/{artifact.name}.wave.yaml",
        spec_sha256=artifact.spec_sha256,
        tensors=tuple(
            WrapperTensor(t.name, t.dtype, t.dims, t.output, t.updated, strides=t.strides) for t in artifact.tensors
        ),
        dims=artifact.dims,
        assumptions=tuple(assumption.text for assumption in artifact.assumptions),
    )


def write_wrapper(artifact: KernelArtifact, directory: Path) -> Path:
    """The wrapper module with its artifacts beside it."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{artifact.name}.py"
    path.write_text(wrapper_module(wrapper_input(artifact)), encoding="utf-8")
    save_artifact(artifact, directory / artifacts_directory(artifact.name))
    return path


def import_wrapper(path: Path) -> ModuleType:
    """The module at `path`, under a name of its own that torch.compile can import again."""
    name = f"standin_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
