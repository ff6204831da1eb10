"""Whatever bytes a spec has, the outcome is a spec or diagnostics, soon."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.schema.families import PRODUCT, SCORES
from tests.specs import FAMILIES, KERNELS
from wavespec.diagnostics import WavespecError, render_all
from wavespec.schema import loads
from wavespec.schema.expand import expand
from wavespec.schema.load_family import loads_family
from wavespec.schema.spec_to_yaml import dump_yaml

SEEDS = [path.read_text() for path in KERNELS]
FOLDER = Path(__file__).parents[2] / "specs"
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "'",
    '"',
    "&a ",
    "*a",
    "!t ",
    "<<: ",
    "#",
    "|",
    ">",
    "\t",
    "? ",
    "null",
    "~",
    "true",
    "1e9",
    "-1",
    "0",
    "9" * 25,
    "K",
    "BLOCK_M",
    "zero",
    "k_loop.acc",
    "mma",
    "read",
    "**",
    "__import__",
    "(",
    ")",
    "/",
    "//",
    "%",
    "é",
    "\x00",
    "\u202e",
    ".",
    "..",
    "extends: gemm.wave.yaml\n",
    "targets:",
    "iterate",
    "{}",
    "[]",
    "%YAML 1.2\n",
    "---\n",
    "{{ ",
    " }}",
    "{% for x in [1, 2] %}",
    "{% if K %}",
    "{% set K = DTYPE %}",
    "{% endif %}",
    "{% endfor %}",
    "{# ",
    "...\n",
]


def mutated(text: str, chooser: random.Random) -> str:
    for _ in range(chooser.randrange(1, 5)):
        start = chooser.randrange(len(text) + 1)
        match chooser.randrange(6):
            case 0:
                text = text[:start] + text[start + chooser.randrange(1, 12) :]
            case 1:
                text = text[:start] + chooser.choice(PIECES) + text[start:]
            case 2:
                text = text[:start] + chr(chooser.randrange(0x250)) + text[start + 1 :]
            case 3:
                lines = text.split("\n")
                lines.insert(chooser.randrange(len(lines)), chooser.choice(lines))
                text = "\n".join(lines)
            case 4:
                words = text.split(" ")
                first, second = (chooser.randrange(len(words)) for _ in range(2))
                words[first], words[second] = words[second], words[first]
                text = " ".join(words)
            case _:
                text = text[: max(start, 5)]
    return text


def test_any_text_gives_a_spec_or_diagnostics() -> None:
    chooser = random.Random(2026)
    accepted = 0
    for _ in range(1500):
        text = mutated(chooser.choice(SEEDS), chooser)
        start = time.perf_counter()
        try:
            spec = loads(text, "fuzz", directory=FOLDER)
        except WavespecError as error:
            assert error.diagnostics and render_all(error.diagnostics)
            assert all(d.message.strip() and (d.span or d.where) for d in error.diagnostics), text
        else:
            accepted += 1
            assert loads(dump_yaml(spec)) == spec
        assert time.perf_counter() - start < 5
    assert accepted > 20


def test_any_text_gives_a_family_or_diagnostics() -> None:
    chooser = random.Random(2026)
    seeds = [PRODUCT, SCORES, *(path.read_text() for path in FAMILIES)]
    accepted = 0
    for _ in range(400):
        text = mutated(chooser.choice(seeds), chooser)
        start = time.perf_counter()
        try:
            family = loads_family(text, "fuzz", FOLDER)
        except WavespecError as error:
            assert error.diagnostics and render_all(error.diagnostics)
            assert all(d.message.strip() and (d.span or d.where) for d in error.diagnostics), text
        else:
            accepted += 1
            assert expand(family.spec).members == family.members
        assert time.perf_counter() - start < 5
    assert accepted > 5
