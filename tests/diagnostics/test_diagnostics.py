"""The error base class, and the text and JSON forms of a diagnostic."""

from __future__ import annotations

import json
import pickle

import pytest

from wavespec.diagnostics import (
    Diagnostic,
    Related,
    Source,
    Span,
    WavespecError,
    Where,
    listing,
    nearest,
    quote,
    quote_path,
    raise_all,
    render,
    to_json,
)

TEXT = "one: 1\ntwo: [a, b]\n\tthree\nvier: 日本 x\n"
SOURCE = Source.of("s.yaml", TEXT)


def at(line: int, column: int, end: int) -> Span:
    return Span("s.yaml", line, column, line, end, SOURCE)


class TooLong(WavespecError, code="too-long"):
    def __init__(self, where: Where, length: int) -> None:
        super().__init__(where, f"{length} is too long.", label="here", notes=["A fact."], hints=["An action."])


def test_error_renders_source_line_carets_label_notes_and_hints() -> None:
    assert str(TooLong(at(2, 7, 8), 3)) == (
        "s.yaml:2:7: error[too-long]: 3 is too long.\n"
        "   |\n"
        " 2 | two: [a, b]\n"
        "   |       ^ here\n"
        "   = note: A fact.\n"
        "   = hint: An action."
    )


def test_python_place_is_words_without_a_snippet() -> None:
    text = render(Diagnostic("x", "Wrong.", "gemm.tensors.a"))
    assert text == "gemm.tensors.a: error[x]: Wrong."


def test_span_without_source_has_a_header_only() -> None:
    assert render(Diagnostic("x", "Wrong.", Span("f", 1, 2, 1, 3))) == "f:1:2: error[x]: Wrong."


def test_carets_stand_below_wide_characters_and_behind_tabs() -> None:
    assert render(Diagnostic("x", "W.", at(4, 10, 11))).splitlines()[-1] == "   |            ^"
    assert render(Diagnostic("x", "W.", at(3, 2, 7))).splitlines()[-1] == "   | \t^^^^^"


def test_span_of_several_lines_marks_its_first() -> None:
    span = Span("s.yaml", 1, 1, 2, 5, SOURCE)
    assert render(Diagnostic("x", "W.", span)).splitlines()[-1] == "   | ^^^^^^"


def test_long_line_is_cut_around_the_caret() -> None:
    source = Source.of("f", "a" * 5000 + "B" + "c" * 5000)
    lines = render(Diagnostic("x", "W.", Span("f", 1, 5001, 1, 5002, source))).splitlines()
    assert max(map(len, lines)) < 200
    assert lines[2][lines[3].index("^")] == "B"


def test_related_place_of_another_file_is_named() -> None:
    other = Span("t.yaml", 1, 1, 1, 2, Source.of("t.yaml", "x"))
    text = render(Diagnostic("x", "W.", at(1, 1, 4), related=(Related(other, "first"),)))
    assert "  --> t.yaml:1:1\n   |\n 1 | x\n   | - first" in text


def test_terminal_escapes_in_a_source_line_are_not_printed() -> None:
    source = Source.of("f", "a\x1b[31mb")
    assert "\x1b" not in render(Diagnostic("x", "W.", Span("f", 1, 1, 1, 2, source)))


def test_terminal_escapes_in_names_and_words_are_not_printed() -> None:
    escape, turned = "\x1b[31m", "\u202e"
    span = Span(f"{escape}.yaml", 1, 1, 1, 2, Source.of("", "x"))
    related = (Related(Span(f"{turned}.yaml", 1, 1, 1, 2), escape),)
    text = render(Diagnostic("code", escape, span, escape, (escape,), (escape,), related))
    assert escape not in text and turned not in text
    assert text.startswith("\\x1b[31m.yaml:1:1: error[code]: \\x1b[31m\n") and "--> \\u202e.yaml:1:1" in text


def test_paths_are_quoted_whole() -> None:
    path = f"/{'a' * 300}/b.yaml"
    assert quote_path(path) == f"'{path}'" and "b.yaml" not in quote(path)


def test_as_many_diagnostics_are_printed_as_somebody_reads() -> None:
    error = WavespecError.of(Diagnostic("code", f"mistake {number}") for number in range(40_000))
    assert len(error.diagnostics) == 40_000
    assert str(error).splitlines()[99:] == ["error[code]: mistake 99", "... and 39900 more"]


def test_raise_all_sorts_and_drops_repetitions() -> None:
    with pytest.raises(WavespecError) as raised:
        raise_all([TooLong(at(2, 1, 2), 2), TooLong(at(1, 1, 2), 1), TooLong(at(2, 1, 2), 2), TooLong(None, 0)])
    assert [d.message[0] for d in raised.value.diagnostics] == ["1", "2", "0"]


def test_raise_all_lets_warnings_pass() -> None:
    class Odd(WavespecError, code="odd", severity="warning"):
        pass

    raise_all([Odd(None, "Odd.")])
    assert str(Odd(None, "Odd.")) == "warning[odd]: Odd."


def test_error_survives_pickling() -> None:
    error = TooLong(at(2, 7, 8), 3)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_code_must_be_kebab_case() -> None:
    with pytest.raises(AssertionError):

        class Bad(WavespecError, code="Bad_Code"):
            pass


def test_json_form_is_plain_data() -> None:
    data = to_json(TooLong(at(2, 7, 8), 3).diagnostics[0])
    assert json.loads(json.dumps(data)) == data
    assert data["span"] == {"file": "s.yaml", "line": 2, "column": 7, "end_line": 2, "end_column": 8}


def test_part_of_a_quoted_scalar_skips_the_quote() -> None:
    source = Source.of("f", 'k: "a + b"')
    assert Span("f", 1, 4, 1, 11, source).part(4, 1) == Span("f", 1, 9, 1, 10)


def test_words_of_messages() -> None:
    assert quote("a\x00") == "'a\\x00'" and len(quote("x" * 999)) < 70 and quote("'") == '"\'"'
    assert listing(["a"]) == "'a'" and listing(["a", "b", "c"], "or") == "'a', 'b' or 'c'"
    assert nearest("BLOKM", ["BLOCK_M", "x"]) == "BLOCK_M" and nearest("zzz", ["abc"]) is None
