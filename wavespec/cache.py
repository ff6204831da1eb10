"""A key made of everything that decides a build goes in; the bytes that an earlier build left, checked, come
out.

One entry is one file, `<key>.bin`: magic, payload length, sha256 of key and payload, payload. It appears
whole, by a rename, and is verified whenever it is read, so processes may share the folder, be killed while
writing, and meet a failing disk.

Environment: `WAVESPEC_CACHE=0` switches the cache off, `WAVESPEC_CACHE_DIR` moves it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = b"WSCACHE1"
_HEADER_BYTES: Final = len(_MAGIC) + 8 + 32
_LARGEST_ENTRY_BYTES: Final = 1 << 28
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_TEMPORARY_PREFIX, _TEMPORARY_SUFFIX = ".wavespec-", ".tmp"
# The names that the cache itself makes: nothing else in its folder, which a user may have chosen, is ours to remove.
_ENTRY: Final = re.compile(r"[0-9a-f]{64}\.bin")
_TEMPORARY: Final = re.compile(r"\.wavespec-[A-Za-z0-9_]+\.tmp")
# A writer that takes longer than this is taken for dead, and its file is removed.
_TEMPORARY_SECONDS: Final = 3600.0
_UNUSED_SECONDS: Final = 90 * 24 * 3600.0
# A look at every file costs a second for some hundred thousand: whoever writes has one a day, and who only reads none.
SWEPT: Final = ".wavespec-swept"
_SWEEP_SECONDS: Final = 24 * 3600.0


def cache_key(parts: Mapping[str, Any]) -> str:
    """64 hex digits that change with any part; parts are JSON values (keys of mappings are strings), else
    `TypeError`.

    A compile key names at least the spec, the target, the versions of wavespec and IREE, and the compiler
    flags.
    """
    _require_json(parts)
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=32, person=b"wavespec-cache").hexdigest()


def default_directory() -> Path:
    """`WAVESPEC_CACHE_DIR`, or the folder `wavespec` in the user's cache folder of this system."""
    chosen = os.environ.get("WAVESPEC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "wavespec" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "wavespec"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path there is invalid and to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "wavespec"


class CompileCache:
    """Entries by key in one folder, which only this user may write.

    A folder that belongs to somebody else, or that others may write, is not used: whoever can write entries
    chooses the machine code that runs here. A cache that cannot work warns once, and every lookup misses.
    """

    def __init__(self, directory: Path | None = None, *, enabled: bool | None = None) -> None:
        self.directory = directory if directory is not None else default_directory()
        self.enabled = os.environ.get("WAVESPEC_CACHE", "1") != "0" if enabled is None else enabled
        self.hits = 0
        self.misses = 0
        self._ready = False
        self._swept = False

    def get_or_build(self, key: str, build: Callable[[], bytes]) -> bytes:
        """The payload of `key`; where there is no whole one, what `build` returns, kept for next time."""
        payload = self.get(key)
        if payload is None:
            payload = build()
            self.put(key, payload)
        return payload

    def get(self, key: str) -> bytes | None:
        """The payload of `key`, or None; an entry that is not exactly what was written is removed."""
        if not self._usable():
            return None
        path = self._path(key)
        try:
            data = _read_regular_file(path)
        except OSError:
            self.misses += 1
            return None
        payload = data[_HEADER_BYTES:]
        if data[:_HEADER_BYTES] != _header(key, payload):
            self.misses += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self.hits += 1
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload` under `key`; a full or read-only disk costs a warning, not the build."""
        path = self._path(key)
        if not self._usable() or len(payload) + _HEADER_BYTES > _LARGEST_ENTRY_BYTES:
            return
        try:
            handle, temporary = tempfile.mkstemp(dir=self.directory, prefix=_TEMPORARY_PREFIX, suffix=_TEMPORARY_SUFFIX)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_header(key, payload) + payload)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            self._sweep_in_turn()
        except OSError as error:
            self._give_up(f"cannot write an entry: {error}")

    def environment(self) -> dict[str, str]:
        """Variables that have another process use this cache."""
        return {"WAVESPEC_CACHE": str(int(self.enabled)), "WAVESPEC_CACHE_DIR": str(self.directory)}

    def sweep(self) -> int:
        """Remove files of dead writers and entries unread for 90 days; returns how many went.

        What has another name than the cache gives its files stays, however old it is.
        """
        removed = 0
        now = time.time()
        with os.scandir(self.directory) as files:
            for file in files:
                if _TEMPORARY.fullmatch(file.name):
                    keep = _TEMPORARY_SECONDS
                elif _ENTRY.fullmatch(file.name):
                    keep = _UNUSED_SECONDS
                else:
                    continue
                with contextlib.suppress(OSError):
                    if file.is_file(follow_symlinks=False) and now - file.stat(follow_symlinks=False).st_mtime > keep:
                        os.unlink(file.path)
                        removed += 1
        return removed

    def _sweep_in_turn(self) -> None:
        """`sweep`, where none of this day is marked; the mark comes first, so that of many writers one sweeps."""
        if self._swept:
            return
        self._swept = True
        mark = self.directory / SWEPT
        with contextlib.suppress(FileNotFoundError):
            if abs(time.time() - mark.stat(follow_symlinks=False).st_mtime) < _SWEEP_SECONDS:
                return
            os.unlink(mark)
        mark.touch(exist_ok=True)
        self.sweep()

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r:.80} is no cache key.")
        return self.directory / f"{key}.bin"

    def _usable(self) -> bool:
        if self._ready or not self.enabled:
            return self.enabled
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = _distrust(self.directory.stat())
        except OSError as error:
            problem = str(error)
        if problem:
            self._give_up(problem)
        self._ready = not problem
        return self.enabled

    def _give_up(self, problem: str) -> None:
        self.enabled = False
        warnings.warn(f"wavespec compiles without its cache {self.directory}: {problem}", RuntimeWarning, stacklevel=4)


def _header(key: str, payload: bytes) -> bytes:
    # The key is part of the sum: an entry that was copied to another name is not believed.
    digest = hashlib.sha256(key.encode() + payload).digest()
    return _MAGIC + len(payload).to_bytes(8, "little") + digest


def _read_regular_file(path: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_ENTRY_BYTES:
            raise OSError("not an entry")
        return file.read()


def _distrust(status: os.stat_result) -> str:
    """Why a folder cannot be trusted with machine code; empty where it can."""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if sys.platform == "win32":
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}, not to {os.geteuid()}"
    if status.st_mode & 0o022:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700 helps"
    return ""


def _require_json(value: Any) -> None:
    # json.dumps would write the keys 1 and "1" alike, and two different builds must not share a key.
    if isinstance(value, Mapping):
        for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(name, str):
                raise TypeError(f"A part of a cache key is named {name!r:.40}, expected a string.")
            _require_json(item)
    elif isinstance(value, list | tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _require_json(item)
    elif value is not None and not isinstance(value, str | int | float | bool):
        raise TypeError(f"A part of a cache key is {value!r:.40}, expected a JSON value.")
