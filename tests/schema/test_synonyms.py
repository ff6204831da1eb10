"""Words of other languages are told with what they are called here, not with what they look like."""

from __future__ import annotations

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.schema import loads
from wavespec.schema.language import synonyms
from wavespec.schema.ops import OPS

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: row
dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: {dtype}}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 64, axis: 0}}]
graph:
  - a: {{read: x}}
  - b: {statement}
  - {{write: b, to: y}}
"""


def hints(statement: str, dtype: str = "f32") -> str:
    with pytest.raises(WavespecError) as raised:
        loads(TEXT.format(statement=statement, dtype=dtype))
    return " ".join(hint for diagnostic in raised.value.diagnostics for hint in diagnostic.hints)


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("swish(a)", "It is said with 'silu'."),
        ("{swish: a}", "It is said with 'silu'."),
        ("sigm(a) + 1", "It is said with 'sigmoid'."),
        ("gelu_new(a)", "It is said with 'gelu_tanh'."),
        ("matmul(a, a)", "It is said with 'mma', a statement of its own."),
        ("{dot: [a, a]}", "It is said with 'mma'."),
        ("softmax(a)", "It is said with 'max', 'exp2' and 'sum' (specs/softmax.wave.yaml)."),
        ("{Softmax: a}", "It is said with 'max', 'exp2' and 'sum' (specs/softmax.wave.yaml)."),
        ("tahn(a)", "Did you mean 'tan'?"),
    ],
)
def test_an_op_of_other_languages(statement: str, hint: str) -> None:
    assert hint in hints(statement)


@pytest.mark.parametrize(
    ("written", "here"), [("float32", "f32"), ("half", "f16"), ("int", "i32"), ("fp8", "f8e4m3fn")]
)
def test_an_element_type_of_other_languages(written: str, here: str) -> None:
    assert hints("relu(a)", written).startswith(f"Did you mean '{here}'?")


def test_every_synonym_leads_to_a_word_that_is_there_and_is_none_itself() -> None:
    called = synonyms._CALLED_HERE  # pyright: ignore[reportPrivateUsage]
    types = synonyms._ELEMENT_TYPES  # pyright: ignore[reportPrivateUsage]
    assert set(called.values()) <= set(OPS) and not set(called) & set(OPS)
    assert set(types.values()) <= set(DTYPES) and not set(types) & set(DTYPES)
    assert not set(synonyms._SAID_BY_SEVERAL) & {*OPS, *called}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("where(a > 0 and a < 1, a, 0)", "'&' joins conditions in parentheses: '(x > 0) & (y > 0)'."),
        ("a if a > 0 else 0", "'where(condition, x, y)' chooses one of two."),
        ("not (a > 0)", "It is said with 'logical_not'."),
        ("a ^ 2", "The power is 'x ** 2'; bits are joined by 'bitwise_xor(x, y)'."),
        ("a << 2", "Bits are moved by 'bitwise_left_shift(x, 2)'."),
        ("a + 2 >> 1", "Bits are moved by 'bitwise_right_shift(x, 2)'."),
        ("where(0 < a < 1, a, 0)", "Join one condition for each comparison: '(0 < x) & (x < 1)'."),
        ("a[0]", "Elements at other places are a statement of their own: '- name: {take: x, at: {N: ...}}'."),
        ("a * .5", "A number begins with a digit: '0.5'."),
        ("a * .nan", "It is written 'nan'."),
        ("a * 0x10", "Numbers are decimal digits alone."),
    ],
)
def test_signs_of_python_are_told_with_what_says_it(expression: str, hint: str) -> None:
    assert hints(f'"{expression}"') == hint
