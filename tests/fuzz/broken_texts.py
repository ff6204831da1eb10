"""Texts of specs with something broken in them: whatever bytes there are, the outcome is a spec or diagnostics, soon."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from tests.fuzz.random_specs import random_spec
from tests.schema.families import PRODUCT, SCORES
from tests.specs import FAMILIES, KERNELS
from wavespec.diagnostics import WavespecError, render_all
from wavespec.schema import loads
from wavespec.schema.families.expand import expand
from wavespec.schema.families.load_family import loads_family
from wavespec.schema.reading.edit_list import VERBS
from wavespec.schema.reading.spec_to_yaml import dump_yaml

_KERNELS = [path.read_text(encoding="utf-8") for path in KERNELS]
_FAMILIES = [PRODUCT, SCORES, *(path.read_text(encoding="utf-8") for path in FAMILIES)]
FOLDER = Path(__file__).parents[2] / "specs"
_VALUES = (
    "zero",
    "acc * 2",
    "1",
    "{read: a}",
    "{mma: [a_tile, b_tile, acc]}",
    "{tiling: K, tile: 8}",
    "{tile: 16}",
    "{dtype: f32}",
    "{end: 3}",
    "{part: p}",
    "{params: {BLOCK_M: 64}}",
    "{when: [M > 3]}",
    "{body: [acc: zero]}",
    "{remove: [dim, schedule]}",
    "[zero]",
)
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
    "  gfx950: {like: gfx942}\n",
    "{part: online, x: y}",
    "graph: {remove: [acc]}\n",
    "{replace: {acc: zero}}",
    "let: {u: K + 1}\n",
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


def mutated(text: str, chooser: Random) -> str:
    """The text with one to four things cut, put in, repeated or swapped."""
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


def broken_kernel(chooser: Random) -> str:
    """The text of a spec of the project, of a random one, or of one that edits another, with something broken."""
    if chooser.random() < 0.2:
        text = _extension(chooser)
        return text if chooser.random() < 0.5 else mutated(text, chooser)
    return mutated(random_spec(chooser).text if chooser.random() < 0.3 else chooser.choice(_KERNELS), chooser)


def _extension(chooser: Random) -> str:
    """A spec that edits one of the project at random: what it names may be there, or not, and fit, or not."""
    path = chooser.choice(KERNELS)
    written = path.read_text(encoding="utf-8")
    text = (
        f"apiVersion: wavespec/v1\nkind: Kernel\nname: fuzz\nextends: {path.name}\nparts: {{p: {{body: [x: zero]}}}}\n"
    )
    for section in chooser.sample(("graph", "graph", "constraints", "cases", "body", "tensors"), 2):
        named = {
            "graph": re.findall(r"- (\w+):", written),
            "constraints": [*re.findall(r"\{(?:workgroup|tiling|wave)[: ]+\w+", written), "hardware"],
            "cases": ["case 1", "case 2", "case 9"],
        }.get(section, ["x", "a", "q"])
        verb, name = chooser.choice(VERBS), chooser.choice(named or ["x"]).strip("{").replace(":", "")
        value = chooser.choice(_VALUES)
        if verb in ("before", "after"):
            value = chooser.choice(([value], [f"new: {value}"], [f"{name}: {value}"], value))
        edit = f"[{name}]" if verb == "remove" else f"{{{name}: {value}}}".replace("'", "")
        around = {"cases": "targets: {sm_90: {cases", "body": "parts: {p: {body"}.get(section, section)
        if around.partition(":")[0] + ":" not in text:
            text += f"{around}: {{{verb}: {edit}}}{'}' * around.count('{')}\n"
    return text


def broken_family(chooser: Random) -> str:
    """The text of a family with something broken."""
    return mutated(chooser.choice(_FAMILIES), chooser)


def judge_kernel(text: str) -> bool:
    """Whether it is a spec all the same; asserts that it is, or that its mistakes have words and places."""
    try:
        spec = loads(text, "fuzz", directory=FOLDER)
    except WavespecError as error:
        check_diagnostics(error)
        return False
    assert loads(dump_yaml(spec)) == spec
    return True


def judge_family(text: str) -> bool:
    """The same for a family."""
    try:
        family = loads_family(text, "fuzz", FOLDER)
    except WavespecError as error:
        check_diagnostics(error)
        return False
    assert expand(family.spec, FOLDER / "fuzz").members == family.members
    return True


def check_diagnostics(error: WavespecError) -> None:
    """Assert that mistakes have words and places."""
    assert error.diagnostics and render_all(error.diagnostics)
    assert all(one.message.strip() and (one.span or one.where) for one in error.diagnostics)
