"""What generated wrappers import; needs torch and a launcher, never the compiler."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavespec.runtime.artifact import ArtifactCase, Assumption, Dim, KernelArtifact, TensorMap, TensorParameter
    from wavespec.runtime.checks import (
        PLAIN_TYPES,
        ArgumentError,
        ArgumentTypeError,
        check_tensors,
        no_backward,
    )
    from wavespec.runtime.code import ArtifactError, Binary
    from wavespec.runtime.direct_calls import DirectCalls
    from wavespec.runtime.family import given_tensors, no_member, no_tensor, size_in
    from wavespec.runtime.kernel import Kernel
    from wavespec.runtime.kernel_set import KernelSet
    from wavespec.runtime.manifest import load_artifact, pack_artifact, save_artifact, unpack_artifact
    from wavespec.runtime.scalars import ScalarParameter
    from wavespec.runtime.size_expr import SizeExpr
    from wavespec.runtime.tensor_strides import new_result
    from wavespec.runtime.torch_ops import define_operator

_HOMES = {
    "ArgumentError": "wavespec.runtime.checks",
    "ArgumentTypeError": "wavespec.runtime.checks",
    "ArtifactCase": "wavespec.runtime.artifact",
    "ArtifactError": "wavespec.runtime.code",
    "Assumption": "wavespec.runtime.artifact",
    "Binary": "wavespec.runtime.code",
    "Dim": "wavespec.runtime.artifact",
    "DirectCalls": "wavespec.runtime.direct_calls",
    "Kernel": "wavespec.runtime.kernel",
    "KernelArtifact": "wavespec.runtime.artifact",
    "KernelSet": "wavespec.runtime.kernel_set",
    "PLAIN_TYPES": "wavespec.runtime.checks",
    "ScalarParameter": "wavespec.runtime.scalars",
    "SizeExpr": "wavespec.runtime.size_expr",
    "TensorMap": "wavespec.runtime.artifact",
    "TensorParameter": "wavespec.runtime.artifact",
    "check_tensors": "wavespec.runtime.checks",
    "define_operator": "wavespec.runtime.torch_ops",
    "given_tensors": "wavespec.runtime.family",
    "load_artifact": "wavespec.runtime.manifest",
    "new_result": "wavespec.runtime.tensor_strides",
    "no_backward": "wavespec.runtime.checks",
    "no_member": "wavespec.runtime.family",
    "no_tensor": "wavespec.runtime.family",
    "pack_artifact": "wavespec.runtime.manifest",
    "save_artifact": "wavespec.runtime.manifest",
    "size_in": "wavespec.runtime.family",
    "unpack_artifact": "wavespec.runtime.manifest",
}

__all__ = [
    "PLAIN_TYPES",
    "ArgumentError",
    "ArgumentTypeError",
    "ArtifactCase",
    "ArtifactError",
    "Assumption",
    "Binary",
    "Dim",
    "DirectCalls",
    "Kernel",
    "KernelArtifact",
    "KernelSet",
    "ScalarParameter",
    "SizeExpr",
    "TensorMap",
    "TensorParameter",
    "check_tensors",
    "define_operator",
    "given_tensors",
    "load_artifact",
    "new_result",
    "no_backward",
    "no_member",
    "no_tensor",
    "pack_artifact",
    "save_artifact",
    "size_in",
    "unpack_artifact",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: the compiler reads and writes artifacts without torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'wavespec.runtime' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
