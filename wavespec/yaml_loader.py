"""YAML text of ours goes in; plain data comes out. How PyYAML reads any YAML is decided here."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml, where PyYAML has it, takes a fifth of the time."""


def read_data(text: str) -> Any:
    """What one document says, of a file that comes with wavespec; those of users are read with places (`schema`)."""
    return LOADER(text).get_single_data()
