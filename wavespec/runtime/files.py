"""Files that others may see, change or damage: read only where they are plain files, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """The bytes of a file; `OSError` for what is none (a FIFO would hang, a device never end), or is larger."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is no regular file")
        if status.st_size > most_bytes:
            raise OSError(f"{path.name} has {status.st_size} bytes, expected at most {most_bytes}")
        return file.read()


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, with its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
