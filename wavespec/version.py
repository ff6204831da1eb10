"""The version of wavespec, and a fingerprint of the code that turns specs into kernels."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

__version__ = "0.1.0"
PACKAGES = (
    "ir",
    "schema",
    "schema/checking",
    "schema/language",
    "schema/ops",
    "ops",
    "lower",
    "schedule",
    "emit",
    "targets",
)
"""Folders whose files decide what a kernel is made of."""


@cache
def fingerprint() -> str:
    """Hex digest over the compiler's source and machine files, in a fixed order."""
    digest = hashlib.blake2b(digest_size=16)
    root = resources.files("wavespec")
    for package in PACKAGES:
        for file in sorted((root / package).iterdir(), key=lambda entry: entry.name):
            if file.name.endswith((".py", ".yaml")):
                digest.update(f"{package}/{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()
