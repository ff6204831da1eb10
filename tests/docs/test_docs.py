"""The pages in docs/: examples load, links lead somewhere, generated parts are there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.pipeline import STAGES
from wavespec.schema import loads
from wavespec.schema.families.load_family import loads_family
from wavespec.schema.language.constraints import CONSTRAINTS
from wavespec.schema.ops import OPS
from wavespec.schema.ops.argmax import ARG_REDUCE
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.ops.reduce import REDUCE
from wavespec.schema.ops.scan import SCAN

NAMES = {op.word for op in (*ELEMENTWISE, *REDUCE, *SCAN, *ARG_REDUCE)}
_DOCS = Path(__file__).parents[2] / "docs"
_PAGES = sorted(_DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    specification = importlib.util.spec_from_file_location("docs_generate", _DOCS / "generate.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_specs_in_the_language_page_load() -> None:
    text = (_DOCS / "language.md").read_text(encoding="utf-8")
    specs = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "apiVersion" in block]
    assert specs
    for spec in specs:
        loads(spec)


def test_a_capped_window_of_groups_is_three_lines() -> None:
    """Of the trial, and the same in the page."""
    trial = (_DOCS.parent / "tests" / "specs" / "attention_capped_window.wave.yaml").read_text(encoding="utf-8")
    own = trial[trial.index("\nparams:") :].strip().splitlines()
    assert len(own) == 3
    text = (_DOCS / "language.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\nextends: attention_gqa.*?\n(params:.*?)```", text, re.DOTALL)
    assert shown.splitlines() == own


def test_family_in_the_page_about_families_and_the_mistake_shown_there() -> None:
    text = (_DOCS / "families.md").read_text(encoding="utf-8")
    family = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    (shown,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert [member.name for member in loads_family(family).members] == [
        "scores_bf16_64",
        "scores_f16_64",
        "scores_f16_128",
    ]
    wrong = family.replace("{read: q}", "{read: {{ 'p' if HEAD == 128 else 'q' }}}")
    with pytest.raises(WavespecError) as raised:
        loads_family(wrong, "scores.wave.yaml")
    assert str(raised.value) == shown


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(_DOCS).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)
    }
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif "://" not in link:
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_every_record_is_listed() -> None:
    listed = (_DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    for record in (_DOCS / "decisions").glob("0*.md"):
        assert record.name in listed


def test_every_op_and_constraint_has_a_section() -> None:
    text = (_DOCS / "language.md").read_text(encoding="utf-8")
    for word in (*OPS, *(constraint.word for constraint in CONSTRAINTS)):
        assert f"### `{word}`" in text or (word in NAMES and f"| `{word}` |" in text)


def test_every_stage_is_shown() -> None:
    text = (_DOCS / "architecture.md").read_text(encoding="utf-8")
    assert [stage for stage in STAGES if f"\n### {stage}\n" not in text] == []


def test_an_error_is_described_by_its_sentence(generate: ModuleType) -> None:
    assert "| `unknown-op` | ‹name› is not an op. |" in generate.errors()


def test_generated_parts_are_replaced_and_the_rest_is_kept(generate: ModuleType) -> None:
    page = "before\n<!-- generated: passes -->\nstale\n<!-- end generated -->\nafter\n"
    text = generate.page_text(page)
    assert text.startswith("before\n<!-- generated: passes -->\n| pass |")
    assert text.endswith("<!-- end generated -->\nafter\n")
    assert "stale" not in text
    assert generate.page_text(text) == text
