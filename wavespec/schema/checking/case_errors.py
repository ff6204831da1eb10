"""What is found wrong with the kernel of a case, for a machine, goes in; the same, naming both, comes out."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from wavespec.diagnostics import Diagnostic, Related, Span, WavespecError, in_order
from wavespec.schema.cases import TargetCase
from wavespec.schema.language.models import Case
from wavespec.schema.resolve import names_behind


@contextmanager
def naming_case(one: TargetCase) -> Generator[None]:
    """Mistakes that are found inside say which case they are of, at its lines where it has the words that count."""
    try:
        yield
    except WavespecError as error:
        error.diagnostics = in_order(in_case(found, one) for found in error.diagnostics)
        raise


@contextmanager
def naming_target(target: str) -> Generator[None]:
    """Mistakes that are found inside say that they are of the kernel for ``target``."""
    try:
        yield
    except WavespecError as error:
        error.diagnostics = tuple(replace(found, targets=found.targets or (target,)) for found in error.diagnostics)
        raise


def in_case(found: Diagnostic, one: TargetCase) -> Diagnostic:
    """`found` of the kernel of `one` as a mistake of the case; with a note alone where that is the default case.

    1. At a line of the case: there.
    2. At an expression that is made of parameters which the case sets: at the parameter.
    3. Elsewhere: at the conditions of the case.
    """
    case, span = one.case, found.span
    if case is None:
        note = "In the default case, for the sizes that no 'when' is for."
        return replace(found, notes=(*found.notes, note)) if one.is_default else found
    conditions = ", ".join(map(str, case.when))
    if case.span is None or span is None:
        return replace(found, notes=(*found.notes, f"In the case when [{conditions}]."))
    note = f"In the case at line {case.span.line}: when [{conditions}]."
    found = replace(found, notes=(*found.notes, note))
    if _is_inside(span, case.span):
        return found
    place = _parameter_in(span, one, case) or case.span_of("when")
    return replace(found, where=place, label="", related=(Related(span, found.label), *found.related))


def _parameter_in(span: Span, one: TargetCase, case: Case) -> Span | None:
    """Where the case sets a parameter that what is written at `span` is made of."""
    if span.source is None or span.line != span.end_line:
        return None
    text = span.source.lines[span.line - 1][span.column - 1 : span.end_column - 1]
    reached = names_behind(one.spec, re.findall(r"[A-Za-z_]\w*", text))
    return next((case.span_of("params", name) for name in case.params if name in reached), None)


def _is_inside(inner: Span, outer: Span) -> bool:
    start, end = (inner.line, inner.column), (inner.end_line, inner.end_column)
    return (
        inner.file == outer.file and (outer.line, outer.column) <= start and end <= (outer.end_line, outer.end_column)
    )
