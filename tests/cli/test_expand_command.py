"""`wavespec expand`, and families and folders given to the other commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command
from tests.schema.families import PRODUCT
from wavespec.schema import load
from wavespec.schema.families.load_family import load_family


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A family in the working directory of the commands."""
    path = tmp_path / "product.wave.yaml"
    path.write_text(PRODUCT, encoding="utf-8")
    return Path(path.name)


def test_members_are_printed_as_the_template_gives_them(wavespec: Command, family: Path) -> None:
    result = wavespec("expand", family)
    assert (result.code, result.err) == (0, "")
    texts = result.out.split("---\n")
    assert [text.splitlines()[0] for text in texts] == [
        "# product: DTYPE=bf16,LAYOUT=nt",
        "# product: DTYPE=f16,LAYOUT=nn",
        "# product: DTYPE=f16,LAYOUT=nt",
    ]
    assert "# Comments of a template stay." in texts[0] and "{%" not in result.out
    assert wavespec("expand", family, "--member", "LAYOUT=nn").out == texts[1]


def test_a_broken_member_is_printed_too(wavespec: Command, family: Path) -> None:
    family.write_text(PRODUCT.replace("{read: b}", "{read: e}"))
    assert "{read: e}" in wavespec("expand", family).out
    assert wavespec("check", family).code == 2


def test_written_members_are_specs_of_their_own(wavespec: Command, family: Path) -> None:
    result = wavespec("expand", family, "-o", "out")
    assert result.out.splitlines() == [f"out/{member.name}.wave.yaml" for member in load_family(family).members]
    for member in load_family(family).members:
        assert load(f"out/{member.name}.wave.yaml") == member.spec
    assert wavespec("check", "out").code == wavespec("expand", family, "-o", "out").code == 0


def test_a_file_of_somebody_else_is_left_alone(wavespec: Command, family: Path) -> None:
    Path("product_f16_nn.wave.yaml").write_text("mine")
    result = wavespec("expand", family, "-o", ".")
    assert result.code == 2 and "error[not-expanded]" in result.err
    assert Path("product_f16_nn.wave.yaml").read_text() == "mine"
    assert not Path("product_f16_nt.wave.yaml").exists()


def test_check_reads_all_specs_of_a_folder(wavespec: Command, small: Path, family: Path) -> None:
    Path("more/.hidden").mkdir(parents=True)
    Path("more/broken.wave.yaml").write_text(SMALL.replace("{read: b}", "{raed: b}"))
    Path("more/.hidden/broken.wave.yaml").write_text("[")
    Path("more/notes.yaml").write_text("[")
    result = wavespec("check", ".")
    assert result.code == 2 and "1 mistake in 1 of 3 files." in result.err
    assert result.out == "product.wave.yaml: ok\nsmall.wave.yaml: ok\n"
    assert "more/broken.wave.yaml:" in result.err


def test_a_folder_without_specs_is_bad_input(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for command in ("check", "run"):
        result = wavespec(command, "empty")
        assert result.code == 2 and "error[no-specs]: There is no .wave.yaml file in empty." in result.err


def test_check_names_members_that_do_not_fit_a_machine(wavespec: Command, family: Path) -> None:
    assert wavespec("check", family, "--target", "all").out == "product.wave.yaml: ok\n"
    family.write_text(PRODUCT.replace("tile: 64}", "tile: {{ 4096 if LAYOUT == 'nn' else 64 }}}"))
    result = wavespec("check", family, "--target", "gfx942")
    assert result.code == 2 and "In the member DTYPE=f16,LAYOUT=nn." in result.err
    assert result.err.startswith("product.wave.yaml:")
    built = wavespec("build", family, "--target", "gfx942", "-o", "out")
    assert built.code == 2 and "In the member DTYPE=f16,LAYOUT=nn." in built.err
    assert not Path("out").exists()


def test_show_prints_one_member(wavespec: Command, family: Path) -> None:
    result = wavespec("show", family, "--member", "DTYPE=bf16")
    assert result.code == 0 and "@product_bf16_nt" in result.out
    assert "error[member-needed]" in wavespec("show", family).err
    unknown = wavespec("show", family, "--member", "DTYPE=f32")
    assert unknown.code == 2 and "--member: error[unknown-member]: 'DTYPE=f32' is no member of product." in unknown.err


def test_mlir_of_a_member_names_the_lines_of_the_template(wavespec: Command, family: Path) -> None:
    lines = PRODUCT.splitlines()
    result = wavespec("show", family, "--member", "DTYPE=bf16", "--target", "gfx942", "--after", "mlir")
    assert f'loc("product.wave.yaml":{lines.index("          - x: {read: a}") + 1}:' in result.out


def test_a_kernel_has_no_members(wavespec: Command, small: Path) -> None:
    for command in ("show", "run", "bench"):
        result = wavespec(command, small, "--member", "A=1")
        assert result.code == 2 and "--member: error[not-a-family]" in result.err


@pytest.mark.compiles
def test_run_takes_all_members_or_one(wavespec: Command, family: Path) -> None:
    result = wavespec("run", family, "--repeats", "1", "--json")
    assert result.code == 0
    assert [kernel["kernel"] for kernel in result.data["kernels"]] == [
        "product_bf16_nt",
        "product_f16_nn",
        "product_f16_nt",
    ]
    assert all(row["ok"] for kernel in result.data["kernels"] for row in kernel["results"])
    one = wavespec("bench", family, "--member", "LAYOUT=nn", "--repeats", "3", "--json")
    assert one.data["kernel"] == "product_f16_nn"


@pytest.mark.compiles
def test_run_takes_a_folder(wavespec: Command, small: Path) -> None:
    Path("gpu.wave.yaml").write_text(
        SMALL.replace("name: small", "name: gpu").replace("targets:\n  cpu: {params: {BLOCK_M: 24}}", "only: [gfx942]")
    )
    result = wavespec("run", ".", "--repeats", "1")
    assert result.code == 0 and result.out.startswith("small on cpu, M=40 N=24 K=64: ok")
    assert "gpu: not for cpu" in result.err
    assert "error[not-for-target]" in wavespec("run", "gpu.wave.yaml").err


@pytest.mark.compiles
def test_build_writes_one_wrapper_and_a_folder_per_member(wavespec: Command, family: Path) -> None:
    assert wavespec("build", family, "--target", "gfx942", "-o", "out").code == 0
    names = sorted(path.relative_to("out").as_posix() for path in Path("out").rglob("*.json"))
    assert names == [f"product.artifacts/{member}/gfx942.json" for member in ("bf16_nt", "f16_nn", "f16_nt")]
    assert "def product(" in Path("out/product.py").read_text()
    one = wavespec("build", family, "--member", "LAYOUT=nn", "--target", "gfx942", "-o", "one", "--json")
    assert one.data["kernel"] == "product_f16_nn" and Path("one/product_f16_nn.artifacts/gfx942.json").exists()
    isa = wavespec("build", family, "--target", "gfx942", "-o", "isa", "--isa")
    assert isa.code == 0 and Path("isa/product.artifacts/f16_nn/gfx942.s").exists()


def test_generate_writes_families(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "product.wave.yaml").write_text(PRODUCT.replace("only: [cpu, gfx942]", "only: [gfx942]"))
    assert wavespec("generate").code == 0
    assert Path("specs/family.schema.json").exists() and Path("generated/product.artifacts/f16_nn/gfx942.json").exists()
    assert wavespec("generate", "--check").code == 0
    Path("specs/product.wave.yaml").write_text(Path("specs/product.wave.yaml").read_text().replace("[nt, nn]", "[nt]"))
    result = wavespec("generate", "--check")
    assert result.code == 1 and "generated/product.artifacts/f16_nn/gfx942.json: no spec makes it" in result.err


def test_schema_of_families_is_printed(wavespec: Command) -> None:
    assert wavespec("schema", "--kind", "family").data["$id"] == "urn:wavespec:v1:family"


def test_kernel_is_printed_with_what_it_extends(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "small.wave.yaml").write_text(SMALL)
    name = load(tmp_path / "small.wave.yaml").name
    child = tmp_path / "child.wave.yaml"
    child.write_text("apiVersion: wavespec/v1\nkind: Kernel\nextends: small.wave.yaml\nname: child\n")
    result = wavespec("expand", child.name)
    assert result.code == 0 and "extends" not in result.out
    (tmp_path / "whole.wave.yaml").write_text(result.out)
    assert load(tmp_path / "whole.wave.yaml") == load(child)
    assert wavespec("expand", child.name, "-o", "out").out.splitlines() == ["out/child.wave.yaml"]
    assert load(tmp_path / "out/child.wave.yaml") == load(child) and name != "child"
    assert wavespec("expand", child.name, "--member", "A=1").code == 2


def test_members_that_extend_a_spec_are_printed_whole(wavespec: Command, tmp_path: Path) -> None:
    (tmp_path / "small.wave.yaml").write_text(SMALL)
    (tmp_path / "family.wave.yaml").write_text(
        "apiVersion: wavespec/v1\nkind: Family\nname: fam\nparameters: {F: [one, two]}\npick: {F: keyword(f)}\n"
        "template: |\n  extends: small.wave.yaml\n"
    )
    result = wavespec("expand", "family.wave.yaml")
    assert result.code == 0 and "extends" not in result.out and result.out.count("graph:") == 2
