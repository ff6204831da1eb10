"""Each Markdown file here holds a broken spec and, to the letter, what is printed about it.

`UPDATE_DIAGNOSTICS=1` rewrites the texts; read the difference before committing it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from pathlib import Path

import pytest

import wavespec.schema
from wavespec.diagnostics import WavespecError
from wavespec.schema import loads
from wavespec.schema.families.load_family import loads_family

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*.md"))
PAGE = re.compile(r"```yaml\n(.*?)```\n\n```text\n(.*?)```\n", re.DOTALL)

# Mistakes that need files, a large text, or names of values to show; tests/schema has them.
NOT_ON_A_PAGE = {
    "extends-cycle",
    "family-as-kernel",
    "not-carried-out",
    "not-for-target",
    "tuned-for-another",
    "tuned-without-spec",
    "unreadable-file",
    "yaml-too-large",
}


@pytest.mark.parametrize("page", CASES, ids=lambda page: page.stem)
def test_message_is_exactly(page: Path) -> None:
    match = PAGE.fullmatch(page.read_text())
    assert match, "a page is a yaml block and a text block"
    spec, expected = match.groups()
    read = loads_family if "\nkind: Family\n" in spec or "\ndtypes:" in spec else loads
    with pytest.raises(WavespecError) as raised:
        read(spec, "gemm.wave.yaml", directory=FOLDER)
    actual = f"{raised.value}\n".replace(str(FOLDER.parents[1]), "/home/me/project")
    if os.environ.get("UPDATE_DIAGNOSTICS"):
        page.write_text(f"```yaml\n{spec}```\n\n```text\n{actual}```\n")
    else:
        assert actual == expected


def test_every_code_of_the_front_end_has_a_page() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(wavespec.schema.__path__, "wavespec.schema.")
    ]
    errors = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    codes = {error.code for error in errors if issubclass(error, WavespecError)} - {"error"}
    shown = set(re.findall(r"(?:error|warning)\[([a-z0-9-]+)\]", "".join(page.read_text() for page in CASES)))
    assert codes - shown - NOT_ON_A_PAGE == set()
