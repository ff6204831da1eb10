"""The compile cache: keys, damage, poisoning, switches, and many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wavespec.cache import CompileCache, cache_key, default_directory
from wavespec.version import PACKAGES

_PARTS = {
    "spec": "name: gemm",
    "target": {"name": "cpu"},
    "wavespec": "0.1",
    "iree": "3.13.0",
    "flags": ["-O3"],
}
_KEY = cache_key(_PARTS)


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache", enabled=True)


@pytest.mark.parametrize("part", sorted(_PARTS))
def test_key_changes_with_every_part(part: str) -> None:
    assert cache_key(_PARTS | {part: "other"}) != _KEY
    assert cache_key({name: value for name, value in _PARTS.items() if name != part}) != _KEY


def test_key_does_not_depend_on_the_order_of_parts() -> None:
    assert cache_key(dict(reversed(_PARTS.items()))) == _KEY


@pytest.mark.parametrize("value", [b"bytes", {1: "a"}, object(), float("nan"), {"a": [Path()]}])
def test_key_refuses_what_has_no_one_json_text(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        cache_key({"part": value})


def test_entry_comes_back_and_counts_as_hit(cache: CompileCache) -> None:
    assert cache.get(_KEY) is None
    cache.put(_KEY, b"code")
    assert cache.get(_KEY) == b"code"
    assert (cache.hits, cache.misses) == (1, 1)


def test_build_runs_once(cache: CompileCache) -> None:
    builds: list[int] = []
    for _ in range(3):
        assert cache.get_or_build(_KEY, lambda: builds.append(1) or b"code") == b"code"
    assert len(builds) == 1


def test_every_flipped_byte_is_found(cache: CompileCache) -> None:
    cache.put(_KEY, b"machine code" * 4)
    path = cache.directory / f"{_KEY}.bin"
    whole = path.read_bytes()
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 0x10]) + whole[index + 1 :])
        assert cache.get(_KEY) is None, index
        assert not path.exists()


@pytest.mark.parametrize("damage", [b"", b"WSCACHE1", b"x" * 100])
def test_truncated_or_foreign_entry_is_built_again(cache: CompileCache, damage: bytes) -> None:
    cache.put(_KEY, b"code")
    (cache.directory / f"{_KEY}.bin").write_bytes(damage)
    assert cache.get_or_build(_KEY, lambda: b"code") == b"code"
    assert cache.get(_KEY) == b"code"


def test_entry_copied_to_another_key_is_not_believed(cache: CompileCache) -> None:
    cache.put(_KEY, b"code")
    other = cache_key({"spec": "other"})
    (cache.directory / f"{other}.bin").write_bytes((cache.directory / f"{_KEY}.bin").read_bytes())
    assert cache.get(other) is None


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, _KEY + "\n"])
def test_only_keys_are_file_names(cache: CompileCache, key: str) -> None:
    with pytest.raises(ValueError, match="no cache key"):
        cache.put(key, b"code")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_folder_is_private_and_a_shared_one_is_refused(tmp_path: Path) -> None:
    private = CompileCache(tmp_path / "private", enabled=True)
    private.put(_KEY, b"code")
    assert private.directory.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    refused = CompileCache(shared, enabled=True)
    with pytest.warns(RuntimeWarning, match="others may write"):
        assert refused.get_or_build(_KEY, lambda: b"built") == b"built"
    assert list(shared.iterdir()) == []


def test_symlink_and_fifo_in_place_of_an_entry_are_a_miss(cache: CompileCache) -> None:
    cache.put(_KEY, b"code")
    path = cache.directory / f"{_KEY}.bin"
    moved = path.rename(cache.directory / "elsewhere")
    path.symlink_to(moved)
    assert cache.get(_KEY) is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get(_KEY) is None


def test_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVESPEC_CACHE_DIR", str(tmp_path / "chosen"))
    assert default_directory() == tmp_path / "chosen"
    monkeypatch.setenv("WAVESPEC_CACHE", "0")
    cache = CompileCache()
    cache.put(_KEY, b"code")
    assert cache.get(_KEY) is None and not (tmp_path / "chosen").exists()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG folders")
def test_default_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAVESPEC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "wavespec"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == Path.home() / ".cache" / "wavespec"


def test_sweep_removes_old_temporaries_and_unused_entries(cache: CompileCache) -> None:
    cache.put(_KEY, b"code")
    left, fresh = cache.directory / ".wavespec-left.tmp", cache.directory / ".wavespec-fresh.tmp"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (0, time.time() - 7200))
    assert cache.sweep() == 1 and fresh.exists() and cache.get(_KEY) == b"code"
    os.utime(cache.directory / f"{_KEY}.bin", (0, 0))
    assert cache.sweep() == 1 and cache.get(_KEY) is None


def test_a_cache_is_swept_by_who_writes_once_a_day(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps: list[CompileCache] = []

    def noted(cache: CompileCache) -> int:
        sweeps.append(cache)
        return 0

    monkeypatch.setattr(CompileCache, "sweep", noted)
    cache.put(_KEY, b"code")
    assert CompileCache(cache.directory, enabled=True).get(_KEY) == b"code"
    CompileCache(cache.directory, enabled=True).put(_KEY, b"code")
    assert sweeps == [cache]
    (mark,) = (path for path in cache.directory.iterdir() if path.suffix != ".bin")
    os.utime(mark, (0, time.time() - 25 * 3600))
    tomorrow = CompileCache(cache.directory, enabled=True)
    tomorrow.put(_KEY, b"code")
    assert sweeps == [cache, tomorrow]


def test_sweep_leaves_files_that_the_cache_did_not_make(cache: CompileCache) -> None:
    cache.put(_KEY, b"code")
    names = ("thesis.txt", "notes.tmp", ".hidden.tmp", "0123.bin", f"{_KEY}.bin.old", f"copy-{_KEY}.bin", _KEY)
    for name in names:
        (cache.directory / name).write_bytes(b"the user's")
        os.utime(cache.directory / name, (0, 0))
    assert cache.sweep() == 0
    assert all((cache.directory / name).exists() for name in names)


def test_a_disk_that_cannot_be_written_costs_only_a_warning(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert cache.get_or_build(_KEY, lambda: b"code") == b"code"
    assert [path.name for path in cache.directory.iterdir()] == []


_WORKER = """
import sys, time, random
from pathlib import Path
from wavespec.cache import CompileCache, cache_key
cache = CompileCache(Path(sys.argv[1]), enabled=True)
keys = [cache_key({"n": n}) for n in range(3)]
reads = wrong = 0
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    n = random.randrange(3)
    expected = bytes([n]) * 100_000
    if random.random() < 0.4:
        cache.put(keys[n], expected)
    else:
        payload = cache.get(keys[n])
        reads += payload is not None
        wrong += payload is not None and payload != expected
print(reads, wrong, cache.misses)
"""


def test_processes_that_share_the_folder_and_die_never_read_a_torn_entry(tmp_path: Path) -> None:
    """Two readers and writers for 1.5 s, beside writers that are killed at work: no read is torn or wrong."""

    def start(seconds: float) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", _WORKER, str(tmp_path / "cache"), str(seconds)]
        root = str(Path(__file__).resolve().parents[1])
        environment = os.environ | {"PYTHONPATH": root}
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)

    survivors = [start(1.5) for _ in range(2)]
    deadline = time.monotonic() + 1.2
    while time.monotonic() < deadline:
        victim = start(10)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(0.05)
        victim.kill()
        victim.communicate()
    results = [survivor.communicate(timeout=20)[0].split()[1:] for survivor in survivors]
    reads, wrong, _ = (sum(int(result[column]) for result in results) for column in range(3))
    assert reads > 100 and wrong == 0
    # A torn entry would have been removed as damaged: after the first write of all three keys nothing may be
    # missing.
    left = sorted(path.suffix for path in (tmp_path / "cache").iterdir())
    assert left.count(".bin") == 3


def test_nothing_is_ever_unpickled() -> None:
    package = Path(__file__).resolve().parents[1] / "wavespec"
    for path in [package / "cache.py", *(package / "runtime").glob("*.py")]:
        for word in ("pickle", "eval(", "exec(", "marshal"):
            assert word not in path.read_text(), (path.name, word)


def test_all_that_turns_specs_into_kernels_is_in_the_key() -> None:
    """Folders in these too; what reads and plans specs, and unfolds families, is not: the key has the spec that comes of it."""
    package = Path(__file__).resolve().parents[1] / "wavespec"
    inside = {str(file.parent.relative_to(package)) for name in PACKAGES for file in (package / name).rglob("*.py")}
    assert {"ir", "schema", "ops", "lower", "schedule", "emit", "targets"} <= set(PACKAGES)
    assert inside - set(PACKAGES) == {"schema/families", "schema/plans", "schema/reading", "schema/residues"}
