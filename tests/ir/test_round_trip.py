"""Kernels printed and read back: nothing is lost, and what is not a kernel is refused with its place."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.kernels import EVERY, thread_kernel, tile_kernel
from wavespec.ir.kernel import Kernel, Op, WaveRoles, attribute_pairs
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import attribute_text, print_kernel
from wavespec.ir.tokens import IRSyntaxError
from wavespec.ir.verifier import verify


@pytest.mark.parametrize("kernel", [tile_kernel(), thread_kernel()], ids=["tile", "thread"])
def test_print_parse_print(kernel: Kernel) -> None:
    verify(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert print_kernel(again) == text
    verify(again)


def test_roles_with_what_else_waves_do_are_read_back() -> None:
    roles = WaveRoles(1, "in_turn", (24, 240), buffers=(("bias", 1), ("mask", 3)), early_wait=True)
    kernel = tile_kernel()
    kernel = replace(kernel, distribution=replace(kernel.distribution, roles=roles))
    assert parse_kernel(print_kernel(kernel)) == kernel


def with_attribute(value: object) -> Kernel:
    kernel = tile_kernel()
    return replace(kernel, body=(*kernel.body, Op("note", attributes=(("value", value),))))


def test_attributes_of_every_kind() -> None:
    kernel = tile_kernel()
    kernel = replace(kernel, body=(*kernel.body, Op("compare", attributes=attribute_pairs(EVERY)), Op("fence")))
    assert parse_kernel(print_kernel(kernel)) == kernel


ATTRIBUTES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(ATTRIBUTES)
def test_any_plain_attribute(value: object) -> None:
    kernel = replace(tile_kernel(), memories=(), body=(Op("note", attributes=(("value", value),)), Op("fence")))
    again = parse_kernel(print_kernel(kernel))
    assert again == kernel
    assert repr(again.body[0]["value"]) == repr(value), "1, 1.0 and true stay apart"


def test_nan_is_read_back() -> None:
    value = parse_kernel(print_kernel(with_attribute(float("nan")))).body[-1]["value"]
    assert value != value


def test_attributes_without_a_text_are_refused() -> None:
    with pytest.raises(TypeError, match="no textual form"):
        attribute_text([1, 2])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tile kernel", "block kernel", "'tile' or 'thread', not 'block'"),
        ("target gfx942", "targets gfx942", "expected 'target', found 'targets'"),
        ("lanes 1", "lanes x", "expected a int, found 'x'"),
        ("%k_loop = iterate %zero", "%k_loop = iterate %zero_0", "already defined, found '%zero_0'"),
        ("[group_m*64]", "[group_k*64]", "expected a known symbol"),
        ('f32_16x16x16_f16"}', 'f32_16x16x16_f16"', "expected a name"),
        ("write %k_loop", "write ; %k_loop", "found ';'"),
        ("}\n", "}\n}\n", "expected the end"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    text = print_kernel(tile_kernel())
    at = text.rindex(old)
    with pytest.raises(IRSyntaxError) as caught:
        parse_kernel(text[:at] + new + text[at + len(old) :])
    assert message in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_text_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    text = print_kernel(data.draw(st.sampled_from([tile_kernel(), thread_kernel()])))
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.one_of(st.integers(0, 12), st.just(len(text))))
    damaged = (
        text[:at] + data.draw(st.sampled_from(["", "}", "%x", "(", "@", "99", "\x00", "name"])) + text[at + length :]
    )
    with suppress(ValueError):  # IRSyntaxError, or the refusal of a division by 0
        parse_kernel(damaged)
