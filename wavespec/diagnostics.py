"""Meaningful errors go in; the one text form and the one JSON form that users and editors see come out.

An error is a subclass of `WavespecError`, defined beside the code that finds it. It takes meaning, and writes
its own sentence:

    class TileNotDivisible(WavespecError, code="tile-not-divisible"):
        def __init__(self, where: Where, tile: int, wave_tile: int) -> None:
            super().__init__(where, f"A tile of {tile} is not a multiple of the wave tile {wave_tile}.")

Several errors of one stage are raised together with `raise_all`.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

_LONGEST_LINE = 160
_LONGEST_QUOTE = 64
_MOST_SHOWN = 100
_MOST_LISTED = 24

Style = Literal["error", "warning", "place", "note", "hint"]
Paint = Callable[[Style, str], str]
"""Marks a part of a diagnostic for a terminal."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that spans point into; `lines` are without their line ends."""

    file: str
    lines: tuple[str, ...]
    used: Span | None = field(default=None, compare=False, repr=False)
    """Where what these spans are of is used, for a text that stands in the place of another."""

    @staticmethod
    def of(file: str, text: str) -> Source:
        return Source(file, tuple(re.split(r"\r\n|\r|\n", text)))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a file, lines and columns counted in characters from 1; the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: Source | None = field(default=None, compare=False, repr=False)

    def part(self, offset: int, length: int) -> Span:
        """The span of `length` characters at `offset` of a scalar; all of it where that is not one line."""
        if self.end_line != self.line:
            return self
        line = self.source.lines[self.line - 1] if self.source else ""
        if line[self.column - 1 : self.column] in ("'", '"'):
            offset += 1
        start = min(self.column + offset, self.end_column)
        end = min(start + max(length, 1), max(self.end_column, start + 1))
        return Span(self.file, self.line, start, self.line, end, self.source)

    def to(self, end: Span) -> Span:
        """From the start of this span to the end of `end`."""
        return Span(self.file, self.line, self.column, end.end_line, end.end_column, self.source)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


Where = Span | str | None
"""Where a mistake is: a span, or words for what was written in Python (`"gemm: tensors.a.dtype"`)."""


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that explains a diagnostic, with what is there."""

    span: Span
    label: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake: `message` says what was written and what was expected, a note states a fact."""

    code: str
    message: str
    where: Where = None
    label: str = ""
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()
    severity: Literal["error", "warning"] = "error"
    targets: tuple[str, ...] = ()
    """The machines that it stops the kernel from being built for; none where it is one on any machine."""
    about: tuple[str, ...] = ()
    """What is not as it should be, by its names: several mistakes about the same may have one cause."""

    @property
    def span(self) -> Span | None:
        return self.where if isinstance(self.where, Span) else None

    @property
    def places(self) -> tuple[Related, ...]:
        """What is related to it, and where the text that it is in is used."""
        uses: list[Related] = []
        used = self.span.source.used if self.span and self.span.source else None
        while used is not None:
            uses.append(Related(used, "used here"))
            used = used.source.used if used.source else None
        return (*self.related, *uses)

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def __str__(self) -> str:
        return render(self)


class WavespecError(Exception):
    """A mistake of the user: one diagnostic, or all those of a stage. A subclass has a kebab-case `code`."""

    code: ClassVar[str] = "error"
    severity: ClassVar[Literal["error", "warning"]] = "error"
    diagnostics: tuple[Diagnostic, ...]

    def __init_subclass__(cls, code: str = "", severity: Literal["error", "warning"] = "error") -> None:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code), f"{cls.__name__} needs a kebab-case code, not {code!r}"
        cls.code = code
        cls.severity = severity

    def __init__(
        self,
        where: Where,
        message: str,
        *,
        label: str = "",
        notes: Sequence[str] = (),
        hints: Sequence[str] = (),
        related: Sequence[Related] = (),
        about: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.diagnostics = (
            Diagnostic(
                *(self.code, message, where, label, tuple(notes), tuple(hints), tuple(related), self.severity),
                about=tuple(about),
            ),
        )

    @staticmethod
    def of(diagnostics: Iterable[Diagnostic]) -> WavespecError:
        """One exception for many diagnostics, sorted by position."""
        error = WavespecError(None, "")
        error.diagnostics = in_order(diagnostics)
        error.args = (render_all(error.diagnostics),)
        return error

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        # A subclass's own arguments are gone by now, so that worker processes send the diagnostics alone.
        return (WavespecError.of, (self.diagnostics,))


def raise_all(errors: Iterable[WavespecError]) -> None:
    """Raise one `WavespecError` with everything in `errors`; return where there is no error among them."""
    found = tuple(diagnostic for error in errors for diagnostic in error.diagnostics)
    if any(diagnostic.is_error for diagnostic in found):
        raise WavespecError.of(found)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by file and position, without repetitions; those without a position come last."""

    def position(diagnostic: Diagnostic) -> tuple[bool, str, int, int, str]:
        span = diagnostic.span
        if span is None:
            return (True, "", 0, 0, "")
        return (False, span.file, span.line, span.column, diagnostic.code)

    return tuple(sorted(dict.fromkeys(diagnostics), key=position))


def quote(text: str) -> str:
    """`text` in quotes for a message: unprintable characters escaped, long text cut."""
    return quote_path(text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…")


def quote_path(path: object) -> str:
    """Like `quote`, but whole: what matters of a path is its end."""
    shown = "".join(c if c.isprintable() else _escaped(c) for c in str(path))
    return f'"{shown}"' if "'" in shown else f"'{shown}'"


def printable(text: str) -> str:
    """`text` for a terminal, which would obey some characters, those of a file's name for example."""
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def listing(names: Iterable[str], last: str = "and") -> str:
    """`'a', 'b' and 'c'`."""
    return enumeration(map(quote, names), last)


def enumeration(words: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    every = list(words)
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} {last} {every[-1]}"


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that `name` was probably meant to be."""
    candidates = {candidate.lower(): candidate for candidate in reversed(list(allowed))}
    begun = [candidate for candidate in candidates if len(name) > 1 and candidate.startswith(name.lower())]
    if len(begun) == 1:  # Somebody wrote a part of it.
        return candidates[begun[0]]
    found = difflib.get_close_matches(name[:_LONGEST_QUOTE].lower(), candidates, n=1, cutoff=0.6)
    return candidates[found[0]] if found else None


def name_hints(name: str, allowed: Iterable[str], what: str, documented: str = "") -> tuple[str, ...]:
    """`Did you mean 'x'?`, or else the list of what exists: `what` opens it ("Its fields are"). Of many names only
    some, and the page where all of them are `documented`."""
    names = list(allowed)
    if len(names) <= _MOST_LISTED or nearest(name, names):
        return guess_hints(name, names) or ((f"{what} {listing(names)}.",) if names else ())
    near = difflib.get_close_matches(name[:_LONGEST_QUOTE], names, n=3, cutoff=0)
    page = f" {documented} has all of them." if documented else ""
    return (f"The nearest of {len(names)} names are {listing(near)}.{page}",)


def guess_hints(name: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """`Did you mean 'x'?`, for messages that list what exists themselves; nothing where no name is near."""
    guess = nearest(name, list(allowed))
    return (f"Did you mean {quote(guess)}?",) if guess else ()


def _plain(style: Style, text: str) -> str:
    return text


def render_all(diagnostics: Iterable[Diagnostic], paint: Paint = _plain) -> str:
    """All of them, or as many as somebody reads."""
    every = list(diagnostics)
    shown = [render(diagnostic, paint) for diagnostic in every[:_MOST_SHOWN]]
    if rest := len(every) - len(shown):
        shown.append(f"... and {rest} more")
    return "\n".join(shown)


def render(diagnostic: Diagnostic, paint: Paint = _plain) -> str:
    """Header, source line with carets, notes and hints; text without a line end, plain but for what `paint` adds."""
    where = paint("place", printable(f"{diagnostic.where}: ")) if diagnostic.where else ""
    kind = paint(diagnostic.severity, f"{diagnostic.severity}[{diagnostic.code}]:")
    spans = [r.span for r in diagnostic.places] + ([diagnostic.span] if diagnostic.span else [])
    width = max([len(str(span.line)) for span in spans if span.source], default=1)
    lines = [f"{where}{kind} {printable(diagnostic.message)}"]
    if span := diagnostic.span:
        lines += _snippet(span, diagnostic.label, "^", width, lambda text: paint(diagnostic.severity, text))
    for related in diagnostic.places:
        if span is None or related.span.file != span.file:
            lines.append(f"{' ' * (width + 1)}--> {printable(str(related.span))}")
        lines += _snippet(related.span, related.label, "-", width, lambda text: paint("place", text))
    gutter = " " * (width + 2)
    notes = [*diagnostic.notes, *([f"For {enumeration(diagnostic.targets)}."] if diagnostic.targets else [])]
    lines += [f"{gutter}= {paint('note', 'note:')} {printable(note)}" for note in notes]
    lines += [f"{gutter}= {paint('hint', 'hint:')} {printable(hint)}" for hint in diagnostic.hints]
    return "\n".join(lines)


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """The diagnostic as plain JSON data, for editors and `--json`."""
    span = diagnostic.span
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "span": _span_to_json(span) if span else None,
        "place": diagnostic.where if isinstance(diagnostic.where, str) else None,
        "label": diagnostic.label,
        "targets": list(diagnostic.targets),
        "notes": list(diagnostic.notes),
        "hints": list(diagnostic.hints),
        "related": [{"span": _span_to_json(r.span), "label": r.label} for r in diagnostic.places],
    }


def _span_to_json(span: Span) -> dict[str, object]:
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _snippet(span: Span, label: str, mark: str, width: int, paint: Callable[[str], str]) -> list[str]:
    if span.source is None or not 1 <= span.line <= len(span.source.lines):
        return []
    line = span.source.lines[span.line - 1]
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    first = max(0, min(start - _LONGEST_LINE // 2, len(line) - _LONGEST_LINE))
    shown = "".join(c if c.isprintable() or c == "\t" else "?" for c in line[first : first + _LONGEST_LINE])
    padding = "".join("\t" if c == "\t" else " " * _columns(c) for c in shown[: start - first])
    carets = max(1, sum(_columns(c) for c in shown[start - first : end - first]))
    gutter = " " * (width + 2) + "|"
    pointer = f"{gutter} {padding}{paint(f'{mark * carets} {printable(label)}'.rstrip())}"
    return [gutter, f" {span.line:>{width}} | {shown}".rstrip(), pointer]


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
