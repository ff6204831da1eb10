"""Parts in the cache: machine code once, by its own sha256, and a part only where all of it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.standins import gemm_interface
from wavespec.cache import CompileCache, cache_key
from wavespec.part_cache import get_part, put_part
from wavespec.runtime import Binary

KEY, OTHER = cache_key({"spec": "gemm"}), cache_key({"spec": "other"})
CODE = b"machine code" * 1000
PART = replace(
    gemm_interface(), binaries=(Binary("x86_64_v3", "vmfb", CODE, ("avx2",), "0" * 64, (("code_bytes", 3),)),)
)


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache", enabled=True)


def test_a_part_comes_out_as_it_went_in(cache: CompileCache) -> None:
    assert get_part(cache, KEY) is None
    put_part(cache, KEY, PART)
    assert get_part(cache, KEY) == PART


def test_parts_share_the_code_that_is_the_same(cache: CompileCache) -> None:
    put_part(cache, KEY, PART)
    put_part(cache, OTHER, replace(PART, entry_point="other"))
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) < 2 * len(CODE)


@pytest.mark.parametrize("name", [PART.binaries[0].sha256, KEY])
def test_a_part_of_which_something_is_gone_is_missing(name: str, cache: CompileCache) -> None:
    put_part(cache, KEY, PART)
    (cache.directory / f"{name}.bin").unlink()
    assert get_part(cache, KEY) is None


def test_a_part_with_other_code_is_missing(cache: CompileCache) -> None:
    put_part(cache, KEY, PART)
    cache.put(PART.binaries[0].sha256, b"planted")
    assert get_part(cache, KEY) is None
