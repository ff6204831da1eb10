"""Markdown tables of results in, a bar chart beside each as SVG out.

    python benchmarks/plot.py benchmarks/results/gemm_h200.md ...

Takes the first table that can be drawn: one with a column called ``ratio`` (of several the last), above 1 where ours is
faster than torch; or one whose cells have a peer's figure in brackets behind ours, of which it draws our share.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BAR, _GAP, _LEFT, _WIDTH, _TOP, _LETTER = 18, 10, 190, 420, 30, 7
_COLORS = ("#4878a8", "#6aa56e", "#c78a3b")
_SIZES = "M x N x K"
_SHARES = ("VGPR", "LDS bytes", "loop")
"""Columns of which less is better, and whose first number is ours."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars in groups, beside a line at 1: ``series`` has a name for each bar of a group, or none for one bar.

    Figures are texts, with the digits that they are shown with.
    """

    line: str
    series: tuple[str, ...]
    rows: list[tuple[str, list[str]]]


def main() -> None:
    """Draw the charts of results files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    paths: list[Path] = parser.parse_args().results
    for path in paths:
        path.with_suffix(".svg").write_text(svg(chart_of(path.read_text(encoding="utf-8"))), encoding="utf-8")


def chart_of(text: str) -> Chart:
    """The chart of the first table of a page that can be drawn."""
    for head, rows in tables(text):
        if "ratio" in head:
            return ratios(head, rows)
        if all(name in head for name in _SHARES):
            return shares(head, rows)
    raise SystemExit("no table with a column called 'ratio', or with a peer's figures in brackets")


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Head and rows of every table."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines())
        yield head, rows


def ratios(head: list[str], rows: list[list[str]]) -> Chart:
    """Our speed in torch's, named by what stands up to the sizes."""
    column = len(head) - 1 - head[::-1].index("ratio")
    names = head.index(_SIZES) + 1 if _SIZES in head else 1
    return Chart("torch = 1", (), [(" ".join(row[:names]), [row[column]]) for row in rows])


def shares(head: list[str], rows: list[list[str]]) -> Chart:
    """Our part of what the peer takes, of rows with figures of both."""
    found: list[tuple[str, list[str]]] = []
    for row in rows:
        cells = [re.match(r"(\d+).*\[(\d+)", row[head.index(name)]) for name in _SHARES]
        if all(cells):
            found.append((row[0], [f"{int(cell[1]) / int(cell[2]):.2f}" for cell in cells if cell]))
    return Chart("peer = 1, less is better", _SHARES, found)


def svg(chart: Chart) -> str:
    """The text of the picture: one bar a figure, and a line at 1."""
    bars = max(1, len(chart.series))
    left = max(_LEFT, *(_LETTER * len(name) + 2 * _GAP for name, _ in chart.rows))
    top = _TOP + (_BAR + _GAP) * (bars > 1)
    scale = _WIDTH / max(1.2, *(float(figure) for _, figures in chart.rows for figure in figures))
    height = top + len(chart.rows) * (bars * _BAR + _GAP) + _GAP
    one = left + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + _WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{one:.0f}" y="{top - 12}" text-anchor="middle">{chart.line}</text>',
    ]
    for number, name in enumerate(chart.series):
        x = left + number * _WIDTH // bars
        parts.append(
            f'<rect x="{x}" y="6" width="{_BAR}" height="{_BAR}" fill="{_COLORS[number]}"/>'
            f'<text x="{x + _BAR + 6}" y="20">{name}</text>'
        )
    for group, (name, figures) in enumerate(chart.rows):
        y = top + group * (bars * _BAR + _GAP)
        label = f'<text x="{left - 8}" y="{y + (bars - 1) * _BAR // 2 + 14}" text-anchor="end">{name}</text>'
        for number, figure in enumerate(figures):
            at, length = y + number * _BAR, float(figure) * scale
            hits_line = length < scale < length + _LETTER * len(figure) + 6
            parts.append(
                f'{label}<rect x="{left}" y="{at}" width="{length:.1f}" height="{_BAR}" fill="{_COLORS[number]}"/>'
                f'<text x="{left + (scale if hits_line else length) + 6:.1f}" y="{at + 14}">{figure}</text>'
            )
            label = ""
    parts.append(
        f'<line x1="{one:.0f}" y1="{top - 6}" x2="{one:.0f}" y2="{height}" stroke="black" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
