"""What the operating system calls this machine's processor goes in; the one name of its architecture comes out."""

from __future__ import annotations

import functools
import platform

_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}  # Windows and macOS have names of their own


@functools.cache
def architecture() -> str:
    """`x86_64`, `aarch64`, or what else the system says."""
    name = platform.machine().lower()
    return _NAMES.get(name, name)
