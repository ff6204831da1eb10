"""One mistake in a spec is one error: what follows from it is not said, however much of the spec depends on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.rungs import often
from tests.specs import FAMILIES, KERNELS
from wavespec.diagnostics import Diagnostic, WavespecError
from wavespec.schema import loads
from wavespec.schema.families.load_family import is_family_file, loads_family

# Of what others override, everything is there twice.
PATHS = {
    path.name.partition(".")[0]: path
    for path in (*KERNELS, *FAMILIES)
    if not re.search(r"\{\{|^extends:", path.read_text("utf-8"), re.M)
}
WORD = re.compile(r"[A-Za-z_]\w*")
GEMM = PATHS["gemm"].read_text("utf-8")


def scalars(node: yaml.Node, path: tuple[str, ...] = ()) -> Iterator[tuple[yaml.Node, tuple[str, ...]]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, (*path, "key")
            yield from scalars(value, (*path, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from scalars(value, path)
    else:
        yield node, path


def misspelt(text: str) -> Iterator[str]:
    """The spec with a letter too much behind one of its words, for each word that says something."""
    for node, path in scalars(yaml.compose(text)):
        if len(path) < 2 or path[0] == "doc":
            continue
        start = node.start_mark.index
        for word in WORD.finditer(text[start : node.end_mark.index]):
            yield f"{text[: start + word.end()]}x{text[start + word.end() :]}"


def errors_of(text: str, path: Path) -> list[Diagnostic]:
    read = loads_family if is_family_file(path) else loads
    try:
        read(text, f"specs/{path.name}", path.parent)
    except WavespecError as error:
        return [one for one in error.diagnostics if one.severity == "error"]
    return []


@pytest.mark.parametrize("name", often(PATHS, ["gemm", "softmax"]))
def test_misspelt_word_is_one_error(name: str) -> None:
    path = PATHS[name]
    texts = list(misspelt(path.read_text("utf-8")))
    several = {str(found) for text in texts[:: len(texts) // 40 + 1] if len(found := errors_of(text, path)) > 1}
    assert not several


CAUSES = {
    "a dim": ("\n  M: {}", "\n  R: {}", "'M' is not a dim."),
    "a parameter": ("BLOCK_M: 128", "ROWS: 128", "'BLOCK_M' is not a parameter"),
    "a tiling": ("tiling: K, tile: BLOCK_K", "tiling: L, tile: BLOCK_K", "'L' is not a dim."),
    "a tile of workgroups": ("workgroup: M,", "workgroup: R,", "'R' is not a dim."),
    "a carried name": ("carry: {acc: zero}", "carry: {sums: zero}", "'acc' is not a value"),
    "a loop": ("- k_loop:", "- loop:", "'k_loop' is not a loop"),
    "the type of a value": ("register: [M, N], dtype: f32", "register: [M, N], dtype: f16", "'acc' is f16; a product"),
    "the dims of a value": ("register: [M, N], dtype", "register: [M, K], dtype", "'acc' keeps 'K'"),
    "an operand": ("mma: [a_tile, b_tile", "mma: [zero, b_tile", "multiplies operands of one dtype"),
    "a field": ("      body:", "      bodies:", "'iterate' has no field 'bodies'"),
}


@pytest.mark.parametrize("case", CAUSES)
def test_what_follows_from_a_mistake_is_not_said(case: str) -> None:
    old, new, expected = CAUSES[case]
    assert old in GEMM
    (found,) = errors_of(GEMM.replace(old, new, 1), PATHS["gemm"])
    assert expected in found.message


def test_two_mistakes_in_one_statement_are_two_errors() -> None:
    text = GEMM.replace("mma: [a_tile, b_tile, acc]", "mma: [a_tiles, b_tiles, acc]")
    assert [one.message.split("'")[1] for one in errors_of(text, PATHS["gemm"])] == ["a_tiles", "b_tiles"]


def test_constraints_by_a_misspelt_name_are_one_error() -> None:
    # Tiles of cases are not compared with the constraints of the kernel, which are not meant there.
    text = PATHS["sum_dim"].read_text("utf-8")
    assert text.count("constraints: by_steps") > 1
    (found,) = errors_of(text.replace("  by_steps:", "  by_step:"), PATHS["sum_dim"])
    assert found.message == "Expected a list, found the text 'by_steps'."
    assert found.hints == ("No alias under 'let' is called 'by_steps'.",)
    assert found.notes and found.notes[0].startswith("It is in lines ")
