"""Write GPU and CPU kernels for PyTorch as declarative specs.

import wavespec as ws

spec = ws.load("specs/gemm.wave.yaml")
kernel = ws.compile(spec, target="cpu")
c = kernel(a, b)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wavespec.version import __version__

if TYPE_CHECKING:
    from wavespec.diagnostics import Diagnostic, WavespecError
    from wavespec.pipeline import build, compile
    from wavespec.runtime.checks import ArgumentError
    from wavespec.runtime.kernel import Kernel
    from wavespec.schema import KernelSpec, load, loads
    from wavespec.schema.builder import KernelBuilder
    from wavespec.schema.debug import debug
    from wavespec.schema.families.expand import Family, expand
    from wavespec.schema.families.family_builder import FamilyBuilder
    from wavespec.schema.families.load_family import load_family
    from wavespec.schema.language.family import FamilySpec
    from wavespec.sim.reference import reference

_HOMES = {
    "ArgumentError": "wavespec.runtime.checks",
    "Diagnostic": "wavespec.diagnostics",
    "Family": "wavespec.schema.families.expand",
    "FamilyBuilder": "wavespec.schema.families.family_builder",
    "FamilySpec": "wavespec.schema.language.family",
    "Kernel": "wavespec.runtime.kernel",
    "KernelBuilder": "wavespec.schema.builder",
    "KernelSpec": "wavespec.schema",
    "WavespecError": "wavespec.diagnostics",
    "build": "wavespec.pipeline",
    "compile": "wavespec.pipeline",
    "debug": "wavespec.schema.debug",
    "expand": "wavespec.schema.families.expand",
    "load": "wavespec.schema",
    "load_family": "wavespec.schema.families.load_family",
    "loads": "wavespec.schema",
    "reference": "wavespec.sim.reference",
}

__all__ = [
    "ArgumentError",
    "Diagnostic",
    "Family",
    "FamilyBuilder",
    "FamilySpec",
    "Kernel",
    "KernelBuilder",
    "KernelSpec",
    "WavespecError",
    "__version__",
    "build",
    "compile",
    "debug",
    "expand",
    "load",
    "load_family",
    "loads",
    "reference",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: a generated wrapper imports `wavespec.runtime` where neither compiler nor pydantic exist.
    if name not in _HOMES:
        raise AttributeError(f"module 'wavespec' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "wavespec":
            raise
        hint = "pip install 'wavespec[compiler]'"
        raise ModuleNotFoundError(f"wavespec.{name} needs {error.name}: {hint}", name=error.name) from error
    globals()[name] = value
    return value
