"""What `import wavespec` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wavespec as ws

DOCUMENTED = [
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


def test_all_is_what_is_documented_and_sorted() -> None:
    assert ws.__all__ == DOCUMENTED == sorted(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(ws, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wavespec' has no attribute 'lode'"):
        getattr(ws, "lode")  # noqa: B009 (what a user would write)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("wavespec", ["torch", "pydantic", "yaml", "sympy", "numpy", "iree"]),
        (
            "wavespec.runtime",
            ["pydantic", "yaml", "sympy", "iree.compiler", "wavespec.schema", "wavespec.lower", "wavespec.emit"],
        ),
        ("wavespec.lower.order", ["torch", "sympy", "iree", "numpy"]),
    ],
)
def test_import_is_light(modules: str, heavy: list[str]) -> None:
    program = f"import sys, {modules}; print([name for name in {heavy!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
