"""`wavespec cache`: what is in the compile cache, and emptying it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from wavespec.cli import failures
from wavespec.diagnostics import printable

app = typer.Typer(help="Look at the compile cache, or empty it.", no_args_is_help=True)

# Exactly the names that `wavespec.cache` writes: nothing else in the folder is ours to delete.
_ENTRY = re.compile(r"[0-9a-f]{64}\.bin|\..*\.tmp")
_TUNING = re.compile(r"[0-9a-f]{64}")


@app.command()
def info(
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON to stdout.")] = False,
) -> None:
    """Where the cache is, and how large."""
    from wavespec.cache import CompileCache

    failures.MODE.json = json
    cache = CompileCache()
    entries = _entries(cache.directory)
    size = sum(path.stat().st_size for path in entries)
    if json:
        directory = str(cache.directory)
        failures.write_json({"directory": directory, "enabled": cache.enabled, "entries": len(entries), "bytes": size})
        return
    print(printable(f"directory  {cache.directory}"))
    print(f"enabled    {'yes' if cache.enabled else 'no (WAVESPEC_CACHE=0)'}")
    print(f"entries    {len(entries)}")
    print(f"size       {size / 2**20:.1f} MiB")


@app.command()
def clear() -> None:
    """Delete every entry, and what interrupted runs of `wavespec tune` left to go on with."""
    from wavespec.cache import SWEPT, default_directory

    entries = _entries(default_directory())
    for path in (*entries, default_directory() / SWEPT):
        path.unlink(missing_ok=True)
    for path in (default_directory() / "tune").glob("[0-9a-f]*"):
        if _TUNING.fullmatch(path.name):
            shutil.rmtree(path)
    print(f"{len(entries)} entries deleted")


def _entries(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return [path for path in directory.iterdir() if _ENTRY.fullmatch(path.name) and path.is_file()]
