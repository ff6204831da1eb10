"""Names become Python names in generated code: only harmless ones pass."""

from __future__ import annotations

import builtins
import keyword
import unicodedata

import pytest

from wavespec.schema.language.names import name_problem


@pytest.mark.parametrize("name", ["a", "M", "BLOCK_M", "k_loop", "x1", "gemm_f32", "a" * 64, "tensor", "shape"])
def test_good_name(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1a",
        "_a",
        "__init__",
        "a b",
        "a-b",
        "a.b",
        "é",
        "ﬁ",
        "ａ",
        "a" * 65,
        "a\n",
        "a\x00",
        "a;b",
        "a'",
        'a"',
        "a(",
        "self",
        "torch",
        "ceildiv",
        "__import__('os')",
        "{{x}}",
        "$x",
        "%s",
        "a\u200db",
        "match",
        "type",
        "print",
        "None",
        "int",
    ],
)
def test_bad_name(name: str) -> None:
    assert name_problem(name)


def test_all_keywords_and_builtins_of_this_python_are_refused() -> None:
    ours = {name for name in dir(builtins) if not name.startswith("_")}
    named = {*keyword.kwlist, *keyword.softkwlist, *ours}
    assert {name for name in named if name_problem(name) is None} == set()


def test_accepted_names_are_what_python_reads() -> None:
    for code in range(0x3000):
        name = f"a{chr(code)}"
        if name_problem(name) is None:
            assert name.isidentifier() and unicodedata.normalize("NFKC", name) == name
