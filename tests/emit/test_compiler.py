"""The compiler behind its cache: the same text is compiled once, and text that is wrong never."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import wavespec.pipeline
from tests.lower.gemms import Gemm
from wavespec.cache import CompileCache
from wavespec.emit import compiler
from wavespec.emit.compiler import Compiled, CompilerFailure, compile_module
from wavespec.emit.host_module import HOST_PHASE
from wavespec.pipeline import best_variant, build


@pytest.mark.parametrize("dumped", [{}, {"a.ptx": b"", "b.hsaco": bytes(range(256))}])
def test_compiled_is_what_was_packed(dumped: dict[str, bytes]) -> None:
    compiled = Compiled(b"module", dumped)
    assert Compiled.unpack(compiled.pack()) == compiled


@pytest.mark.compiles
def test_kernel_whose_code_did_not_change_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, cache = best_variant("cpu"), CompileCache(tmp_path / "cache", enabled=True)
    first = build(Gemm().spec, "cpu", only=machine, cache=cache)

    monkeypatch.setattr(wavespec.pipeline, "fingerprint", lambda: "sources of another day")

    def compile_again(*_: object) -> Compiled:
        pytest.fail("compiled again")

    monkeypatch.setattr(compiler, "_compile", compile_again)
    assert build(Gemm().spec, "cpu", only=machine, cache=cache) == first


@pytest.mark.compiles
def test_what_else_a_compilation_depends_on_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[object, ...]] = []

    def compile_text(*asked: object) -> Compiled:
        compiled.append(asked)
        return Compiled(b"", {})

    monkeypatch.setattr(compiler, "_compile", compile_text)
    cache = CompileCache(tmp_path / "cache", enabled=True)
    for _ in range(2):
        compile_module("text", HOST_PHASE, cache=cache)
        compile_module("text", "flow", cache=cache)
        compile_module("text", "flow", intermediates=True, cache=cache)
        compiler.compile_executable("text", cache=cache)
    assert len(compiled) == 4


@pytest.mark.compiles
def test_text_that_no_pass_may_see_is_refused() -> None:
    """Passes do not verify what they read; the parser has to."""
    text = 'func.func @f() { %y = "arith.constant"() {value = 1.0 : f64} : () -> f32\n return }'
    with pytest.raises(CompilerFailure) as raised:
        compile_module(text, HOST_PHASE)
    assert "value, result" in str(raised.value)


@pytest.mark.compiles
def test_a_compilation_that_fails_is_closed_without_a_search_for_cycles() -> None:
    from iree.compiler.api import Session

    gc.disable()
    try:
        with pytest.raises(CompilerFailure):
            compile_module("func.func @f() -> i32 { return }", "")
        assert not [one for one in gc.get_objects() if type(one) is Session and one._session_p]
    finally:
        gc.enable()
