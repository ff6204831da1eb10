"""The front end: a spec as YAML or Python goes in; a checked `KernelSpec`, or all its mistakes, comes out."""

from wavespec.schema.checking.check_spec import check_spec
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import load, load_with_warnings, loads
from wavespec.schema.resolve import constant_values, resolve_params, spec_for_target

__all__ = [
    "KernelSpec",
    "check_spec",
    "constant_values",
    "load",
    "load_with_warnings",
    "loads",
    "resolve_params",
    "spec_for_target",
]
