"""The text of wrappers of families: as a formatter would write it, in torch's terms, and data stays data."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.module_text import HOSTILE, check_format, shape
from wavespec.emit.family_wrapper import FamilyWrapperInput, WrapperMember, WrapperPick, family_wrapper_module
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor
from wavespec.runtime.artifact import Dim


def kernel(name: str, dtype: str, *, updated: bool = False) -> WrapperInput:
    tensors = (
        WrapperTensor("inputs", dtype, ("M", "K")),
        WrapperTensor("weights_of_the_layer", dtype, ("N", "K")),
        WrapperTensor("sums_so_far", "f32", ("M", "N"), updated=updated),
        *(() if updated else (WrapperTensor("sums", "f32", ("M", "N"), output=True, zeroed=dtype == "f16"),)),
    )
    dims = (Dim("M"), Dim("N"), Dim("K", multiple_of=16))
    return WrapperInput(name, "", "specs/sums.wave.yaml", "ab" * 32, tensors, dims)


def family(*dtypes: str, updated: bool = False) -> FamilyWrapperInput:
    """Picked by a dtype, a size and two keywords."""
    return FamilyWrapperInput(
        name="sums_of",
        doc="Sums.",
        source="specs/sums.wave.yaml",
        sha256="cd" * 32,
        picks=(
            WrapperPick("dtype", "inputs"),
            WrapperPick("size", "weights_of_the_layer", 1, "K"),
            WrapperPick("keyword", "layout"),
            WrapperPick("keyword", "stages"),
        ),
        members=tuple(
            WrapperMember(kernel(f"sums_of_{dtype}", dtype, updated=updated), dtype, (dtype, 64, "nt", 2))
            for dtype in dtypes
        ),
    )


@pytest.mark.parametrize("updated", [False, True], ids=["out", "in place"])
@pytest.mark.parametrize("dtypes", [["f16"], ["f16", "bf16", "f4e2m1fn"]], ids=len)
def test_text_is_as_a_formatter_would_write_it(dtypes: list[str], updated: bool, tmp_path: Path) -> None:
    check_format(family_wrapper_module(family(*dtypes, updated=updated)), tmp_path)


def optional(*dtypes: str) -> FamilyWrapperInput:
    """Picked by a dtype, and by a keyword with a default; half of the members have two inputs more."""
    plain = family(*dtypes)
    extra = (WrapperTensor("mask", "bool", ("M", "N")), WrapperTensor("scales_of_the_layer", "f32", ("N",)))
    members: list[WrapperMember] = []
    for dtype, member in zip(dtypes, plain.members, strict=True):
        kernel = member.kernel
        more = (*kernel.inputs, *extra, *kernel.outputs)
        for name, tensors in ((kernel.name, kernel.tensors), (f"{kernel.name}_more", more)):
            members.append(WrapperMember(replace(kernel, name=name, tensors=tensors), name, (dtype, "nt")))
    inputs = tuple(tensor.name for tensor in members[1].kernel.inputs)
    picks = (WrapperPick("dtype", "inputs"), WrapperPick("keyword", "layout", default="nt"))
    return replace(plain, picks=picks, members=tuple(members), inputs=inputs)


@pytest.mark.parametrize("dtypes", [["f16"], ["f16", "bf16", "f4e2m1fn"]], ids=len)
def test_text_with_optional_arguments_is_as_a_formatter_would_write_it(dtypes: list[str], tmp_path: Path) -> None:
    check_format(family_wrapper_module(optional(*dtypes)), tmp_path)


def test_inputs_that_not_all_members_have_are_optional_and_pick() -> None:
    text = " ".join(family_wrapper_module(optional("f16", "bf16")).split())
    assert "sums_so_far: Tensor, mask: Tensor | None = None, scales_of_the_layer: Tensor | None = None, *," in text
    assert 'layout: Literal["nt"] = "nt"' in text
    assert "_MEMBERS[inputs.dtype, layout, mask is not None, scales_of_the_layer is not None]" in text
    assert "Tensor? mask, Tensor? scales_of_the_layer, str layout" in text.replace('" "', "")
    assert "mask: None, or bool [M, N]; copied" in text


def test_shapes_of_packed_types_are_those_of_torch() -> None:
    text = " ".join(family_wrapper_module(family("f16", "f4e2m1fn")).split())
    packed = "float4_e2m1fn_x2 [M, K] or [M, K // 2], 2 elements of f4e2m1fn in a byte, the first in the lowest bits;"
    assert f"inputs: float16 or {packed} copied first" in text
    assert "sums: float32 [M, N]; elements that nothing is written to are 0" in text


def test_members_with_the_same_shapes_share_their_check() -> None:
    module = ast.parse(family_wrapper_module(family("f16", "bf16", "f4e2m1fn")))
    functions = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    expected = ["_fake_of_sums_of_f16", "_fake_of_sums_of_f4e2m1fn", "_sums_of_fake", "_sums_of_out_fake"]
    assert [name for name in functions if "_fake" in name] == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_changes_what_the_module_does(text: str) -> None:
    plain = family("f16")
    (member,) = plain.members
    expected = shape(family_wrapper_module(plain))
    assert shape(family_wrapper_module(replace(plain, doc=text))) == expected
    for other in (replace(member, folder=text or member.folder), replace(member, key=("f16", 64, text, 2))):
        assert shape(family_wrapper_module(replace(plain, members=(other,)))) == expected
    other = replace(member, kernel=replace(member.kernel, assumptions=(text,)))
    assert shape(family_wrapper_module(replace(plain, members=(other,)))) == expected


@pytest.mark.parametrize("name", ["a b", "out", "torch", "weights_of_the_layer", "sums_of"])
def test_keywords_need_a_plain_name_of_their_own(name: str) -> None:
    picks = (*family("f16").picks[:2], WrapperPick("keyword", name), WrapperPick("keyword", "stages"))
    with pytest.raises(ValueError, match=r"name|Name"):
        family_wrapper_module(replace(family("f16"), picks=picks))


def test_what_picks_is_an_argument() -> None:
    picks = (WrapperPick("dtype", "__import__('os')"), *family("f16").picks[1:])
    with pytest.raises(ValueError, match="no input"):
        family_wrapper_module(replace(family("f16"), picks=picks))
