"""A path goes in; the text of that spec, or an error, comes out. None lies outside the project."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wavespec.diagnostics import WavespecError, Where, quote, quote_path
from wavespec.schema.reading.yaml_source import LARGEST_FILE_BYTES, YamlTooLarge

SPEC_SUFFIX = ".wave.yaml"
_ROOT_MARKS = ("pyproject.toml", ".git")


class UnreadableFile(WavespecError, code="unreadable-file"):
    def __init__(self, where: Where, file: str, reason: str) -> None:
        super().__init__(where, f"{quote_path(file)} cannot be read: {reason}.")


class UnsafePath(WavespecError, code="unsafe-path"):
    """``root``: the project, where the path leads out of it."""

    def __init__(self, where: Where, path: str, reason: str, root: Path | None = None) -> None:
        marks = " or ".join(quote(mark) for mark in _ROOT_MARKS)
        project = f"The project is {quote_path(root)}: the nearest folder above the spec with {marks}, else its own."
        super().__init__(
            where,
            f"{quote(path)} {reason}.",
            notes=[project] if root else [],
            hints=[f"'extends' is a relative path to a {SPEC_SUFFIX} file inside the project."],
        )


def read_text(path: Path, where: Where, *, follow_links: bool) -> str:
    """The text of a regular file of at most 1 MiB.

    Raises:
        WavespecError: at `where`: missing, not a regular file, too large, not UTF-8.
    """
    # Without O_NONBLOCK, opening a FIFO waits for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path is not valid"
        raise UnreadableFile(where, str(path), reason.lower()) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableFile(where, str(path), "it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise YamlTooLarge(where, f"A spec has at most {LARGEST_FILE_BYTES} bytes; {quote_path(path)} has more.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFile(where, str(path), f"byte {error.start} is not UTF-8") from None


def project_root(spec: Path) -> Path:
    """The nearest folder above the spec with a `pyproject.toml` or `.git`, else the spec's own folder."""
    folder = spec.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in _ROOT_MARKS):
            return candidate
    return folder


def extended_path(text: str, where: Where, spec: Path, root: Path) -> Path:
    """The file that `extends: text` of the file `spec` means.

    Raises:
        UnsafePath: absolute, an address, not a spec, or (through `..` or links) outside `root`.
    """
    if not text.endswith(SPEC_SUFFIX):
        raise UnsafePath(where, text, f"does not end in {SPEC_SUFFIX}")
    if os.path.isabs(text) or "\\" in text or ":" in text or text.startswith("~"):
        raise UnsafePath(where, text, "is not a relative path")
    real = (spec.parent / text).resolve()
    if not real.is_relative_to(root.resolve()):
        raise UnsafePath(where, text, "is outside the project", root.resolve())
    return real
