"""The specs of the project: files with one kernel, and files with a family."""

from __future__ import annotations

import re
from pathlib import Path

_FILES = sorted((Path(__file__).parents[2] / "specs").glob("*.wave.yaml"))
FAMILIES = [path for path in _FILES if "\nkind: Family\n" in path.read_text(encoding="utf-8")]
KERNELS = [path for path in _FILES if path not in FAMILIES]


def without_target(text: str, target: str) -> str:
    """A spec without what it says of one target, whose cases may not suit other dims."""
    return re.sub(rf"^  {target}:.*\n(?:    .*\n|      .*\n)*", "", text, flags=re.M)
