"""The template language: what it may say, what every piece of its text was made by, and that it always ends."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.diagnostics import Source, WavespecError
from wavespec.schema.families.template import Condition, Rendered, Template
from wavespec.schema.families.template_places import TemplatePlace

VALUES: dict[str, str | int] = {"DTYPE": "f16", "HEAD": 64}
PARAMETERS = {"DTYPE": ["f16", "bf16"], "HEAD": [64]}


def place(text: str) -> TemplatePlace:
    return TemplatePlace(Source.of("t.yaml", text), text)


def render(text: str) -> Rendered:
    return Template(text, PARAMETERS, place(text)).render(VALUES)


def mistake(text: str) -> str:
    with pytest.raises(WavespecError) as raised:
        render(text)
    return str(raised.value).splitlines()[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ DTYPE }}", "f16"),
        ("{{ HEAD / 2 }} {{ HEAD // 3 }} {{ HEAD % 7 }} {{ 2 ** 10 }} {{ -HEAD }}", "32 21 1 1024 -64"),
        ("{{ {'f16': 8, 'bf16': 16}[DTYPE] }}", "8"),
        ("{% if DTYPE in ['f16'] and not HEAD > 64 %}yes{% else %}no{% endif %}", "yes"),
        ("{% for i in range(3) %}{{ i }}{{ ', ' if not loop.last }}{% endfor %}", "0, 1, 2"),
        ("{% set a = HEAD * 2 %}{{ a }}", "128"),
        ("{{ DTYPE|upper }} {{ [3, HEAD]|max }} {{ HEAD is divisibleby 16 }}", "F16 64 true"),
        ("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc\n"),
        ("{# nothing #}{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ 0.5 }} {{ true }}", "0.5 true"),
    ],
)
def test_text_is(text: str, expected: str) -> None:
    assert render(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ DTYPE.__class__ }}",
        "{{ DTYPE['__class__'] }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ DTYPE|attr('__class__') }}",
        "{{ DTYPE|max(attribute='__class__') }}",
        "{{ (DTYPE).format(1) }}",
        "{{ '%s' % DTYPE }}",
        "{{ range.__init__ }}",
        "{{ cycler('a') }}",
        "{{ self }}",
        "{{ lipsum.__globals__ }}",
        "{% include 't.yaml' %}",
        "{% import 't.yaml' as t %}",
        "{% extends 't.yaml' %}",
        "{% macro f() %}{% endmacro %}",
        "{% block a %}{% endblock %}",
        "{% filter upper %}a{% endfilter %}",
        "{% set a %}b{% endset %}",
        "{% set a.b = 1 %}",
        "{% for x in range(3) recursive %}{{ loop(x) }}{% endfor %}",
        "{% set DTYPE = 'f32' %}",
        "{{ loop.__class__ }}",
        "{% for x in range(3) %}{{ loop.cycle(1, 2) }}{% endfor %}",
    ],
)
def test_what_the_language_does_not_have_is_refused(text: str) -> None:
    assert "error[" in mistake(text) and "internal" not in mistake(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 2 ** 10 ** 10 }}",
        "{{ 'a' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ range(1000000000)|max }}",
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
        "{% for i in range(10000) %}{% for j in range(10000) %}{% if i %}{% endif %}{% endfor %}{% endfor %}",
        "{% for i in range(10000) if i > 3 %}{% endfor %}",
        "{% for i in range(10000) %}" + "x" * 1000 + "{% endfor %}",
        "".join("{% set s = [s, s] %}" if index else "{% set s = [1] %}" for index in range(64)) + "{{ s }}",
        "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40 + "{{ a == b }}",
        "{% set s = 'a' %}" + "{% set s = s ~ s %}" * 64 + "{{ s }}",
        "{% set s = 'a' %}" + "{% set s = s + s %}" * 64 + "{{ s }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "-" * 20000 + "1 }}",
        "{% for i in [1] %}" * 50 + "{% endfor %}" * 50,
        "{{ " + "9" * 10000 + " }}",
    ],
)
def test_nothing_is_endless_or_large(text: str) -> None:
    start = time.monotonic()
    assert "error[" in mistake(text)
    assert time.monotonic() - start < 5


def test_a_list_of_lists_that_share_parts_has_no_text() -> None:
    assert "cannot be written into a kernel" in mistake("{% set s = [1, [2]] %}{{ s }}")


def test_mistake_is_at_its_line_and_word() -> None:
    assert mistake("a\nb: {{ HED }}").startswith("t.yaml:2:7: error[undefined-name]")
    assert mistake("a\nb: {{ HEAD }} {{ HEAD / 0 }}").startswith("t.yaml:2:15: error[failing-template]")
    assert mistake("a\n{% if HEAD / 0 %}{% endif %}").startswith("t.yaml:2:1: error[failing-template]")
    assert mistake("a\n\n{% if %}").startswith("t.yaml:3:1: error[malformed-template]")


def test_pieces_say_what_made_the_text() -> None:
    text = "a: {{ DTYPE }}\n{% for i in range(2) %}\n- {{ i }}!\n{% endfor %}\nend\n"
    found = render(text)
    made = [
        (found.text[piece.start : piece.end], text[piece.template_start : piece.template_end]) for piece in found.pieces
    ]
    rounds = [("- ", "- "), ("0", "{{ i }}"), ("!\n", "!\n"), ("- ", "- "), ("1", "{{ i }}"), ("!\n", "!\n")]
    assert made == [("a: ", "a: "), ("f16", "{{ DTYPE }}"), ("\n", "\n"), *rounds, ("end\n", "end\n")]


@given(
    st.lists(
        st.sampled_from(["a", " ", "\n", "{{ HEAD }}", "{{- DTYPE -}}", "{% if HEAD %}", "{% endif %}", "{# c #}"])
    )
)
def test_pieces_of_text_are_those_of_the_template(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        found = render(text)
    except WavespecError:
        return
    assert "".join(found.text[piece.start : piece.end] for piece in found.pieces) == found.text
    for piece in found.pieces:
        written = text[piece.template_start : piece.template_end]
        if piece.is_text:
            assert written.startswith(found.text[piece.start : piece.end]) or written.strip() == ""
        else:
            assert written.startswith("{{") and written.endswith("}}")


@given(st.text(alphabet="{}%#-'\"[]()|.~*+ \nabiefnrstlopDTYPEHA0123456789", max_size=60))
def test_any_text_has_a_text_or_a_mistake(text: str) -> None:
    try:
        render(text)
    except WavespecError as error:
        assert error.diagnostics[0].code != "internal-error"


def test_condition_is_an_expression_of_the_language() -> None:
    def holds(text: str) -> bool:
        return Condition(text, PARAMETERS, place(text)).holds(VALUES)

    assert holds("HEAD * 2 <= 128") and not holds("DTYPE == 'bf16'")
    for wrong in ("HEAD %}{{ 1", "HEAD HEAD", "", "range(10 ** 9)", "HEAD.real", "DTYPE < 3"):
        with pytest.raises(WavespecError):
            holds(wrong)
