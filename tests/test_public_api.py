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


ONE = """
apiVersion: wavespec/v1
kind: Kernel
name: one
dims: {N: {}}
tensors: {x: {shape: [N], dtype: f32}, y: {shape: [N], dtype: f32, role: output}}
graph: [{part: {read: x}}, {write: part, to: y}]
"""


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sm_80", "'sm_80' is not a target"),
        ("cpu:", "'' is not a variant of cpu"),
        ("cpu:x86_64_v9", "'x86_64_v9' is not a variant of cpu"),
    ],
)
def test_a_target_that_is_none_is_an_error_with_a_code(target: str, message: str) -> None:
    """`compile` ended in a KeyError."""
    with pytest.raises(ws.WavespecError, match=message):
        ws.compile(ws.loads(ONE), target=target)


def test_what_is_passed_in_the_place_of_a_spec_is_told() -> None:
    with pytest.raises(TypeError, match=r"found a text; read it by 'ws\.loads'"):
        ws.compile(ONE)
    with pytest.raises(TypeError, match="Expected the text of a spec, found bytes"):
        ws.loads(ONE.encode())  # pyright: ignore
    with pytest.raises(TypeError, match=r"one: 'x' is of type list, expected a torch\.Tensor"):
        ws.reference(ws.loads(ONE), [1.0])  # pyright: ignore
