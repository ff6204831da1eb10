"""What generated wrappers import; needs torch and a launcher, never the compiler."""

from wavespec.runtime.artifact import (
    ArtifactError,
    Assumption,
    Binary,
    Dim,
    KernelArtifact,
    TensorParameter,
    load_artifact,
    pack_artifact,
    save_artifact,
    unpack_artifact,
)
from wavespec.runtime.checks import ArgumentError, ArgumentTypeError, no_backward
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.kernel_set import KernelSet
from wavespec.runtime.size_expr import SizeExpr
from wavespec.runtime.torch_ops import define_operator

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArtifactError",
    "Assumption",
    "Binary",
    "Dim",
    "Kernel",
    "KernelArtifact",
    "KernelSet",
    "SizeExpr",
    "TensorParameter",
    "define_operator",
    "load_artifact",
    "no_backward",
    "pack_artifact",
    "save_artifact",
    "unpack_artifact",
]
