"""Commands on a kernel with `dtypes`: all of its kernels where several are meant, the first one where one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command
from tests.schema.families import PRODUCT
from tests.schema.typed import SCALED
from wavespec.tune import bundle


@pytest.fixture
def scaled(tmp_path: Path) -> Path:
    """A kernel in two types, in the working directory of the commands."""
    (tmp_path / "scaled.wave.yaml").write_text(SCALED)
    return Path("scaled.wave.yaml")


def test_kernels_are_printed_with_their_types(wavespec: Command, scaled: Path) -> None:
    texts = wavespec("expand", scaled).out.split("---\n")
    assert [text.splitlines()[0] for text in texts] == ["# scaled: T=f32", "# scaled: T=bf16"]
    assert wavespec("expand", scaled, "--member", "T=bf16").out == texts[1]
    assert wavespec("expand", scaled, "-o", "out").out.splitlines() == [
        "out/scaled.wave.yaml",
        "out/scaled_bf16.wave.yaml",
    ]
    assert wavespec("check", "out", "--fast").code == 0


def test_check_looks_at_every_type(wavespec: Command, scaled: Path) -> None:
    assert wavespec("check", scaled).out == "scaled.wave.yaml: ok\n"
    scaled.write_text(SCALED.replace("T(S(part)", "(S(part)"))
    result = wavespec("check", scaled)
    assert result.code == 2 and "error[dtype-mismatch]" in result.err and "note: With T=bf16." in result.err


def test_show_prints_the_first_type_or_the_one_that_is_asked_for(wavespec: Command, scaled: Path) -> None:
    assert "@scaled " in wavespec("show", scaled).out
    assert "@scaled_bf16 " in wavespec("show", scaled, "--member", "T=bf16").out


@pytest.mark.compiles
def test_run_takes_every_type_or_one(wavespec: Command, scaled: Path) -> None:
    result = wavespec("run", scaled, "--repeats", "1", "--json")
    assert result.code == 0 and [kernel["kernel"] for kernel in result.data["kernels"]] == ["scaled", "scaled_bf16"]
    one = wavespec("run", scaled, "--member", "T=bf16", "--repeats", "1", "--json")
    assert one.code == 0 and one.data["kernel"] == "scaled_bf16"


def test_build_leaves_the_first_type_where_it_would_be_alone(wavespec: Command, scaled: Path) -> None:
    assert wavespec("build", scaled, "--target", "gfx942", "-o", "out").code == 0
    names = sorted(path.relative_to("out").as_posix() for path in Path("out").rglob("*.json"))
    assert names == ["scaled.artifacts/bf16/gfx942.json", "scaled.artifacts/gfx942.json"]
    before = Path("out/scaled.artifacts/gfx942.json").read_bytes()
    assert wavespec("build", scaled, "--member", "T=f32", "--target", "gfx942", "-o", "alone").code == 0
    assert Path("alone/scaled.artifacts/gfx942.json").read_bytes() == before


def test_template_has_no_settings_of_a_member(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "product.wave.yaml").write_text(PRODUCT)
    assert "error[not-tunable]" in wavespec("tune", "product.wave.yaml", "--member", "DTYPE=bf16").err


@pytest.mark.compiles
def test_tuned_settings_of_a_type_have_its_name(
    wavespec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_MOST_CANDIDATES", 2)
    text = SMALL.replace("dims:", "dtypes: {T: [f16, bf16]}\ndims:").replace("dtype: f16", "dtype: T")
    (tmp_path / "small.wave.yaml").write_text(text)
    arguments = ("--member", "T=bf16", "--workload", "M=8,N=48,K=32", "--budget", "60", "--json")
    result = wavespec("tune", "small.wave.yaml", *arguments)
    assert result.code == 0 and result.data["kernel"] == "small_bf16"
    assert not Path("small.tuned.yaml").exists()
    if Path("small_bf16.tuned.yaml").exists():  # nothing may be faster than the spec
        assert "kernel: small_bf16" in Path("small_bf16.tuned.yaml").read_text()
        assert wavespec("check", "small_bf16.tuned.yaml", "--fast").code == 0
