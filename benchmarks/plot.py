"""A Markdown table of ratios in, a bar chart beside it as SVG out.

    python benchmarks/plot.py benchmarks/results/gemm_h200.md

Takes the first table that has a column called ``ratio``; its first column names the bars.
"""

from __future__ import annotations

import argparse
from pathlib import Path

_BAR, _GAP, _LEFT, _WIDTH, _TOP = 18, 10, 190, 420, 30


def main() -> None:
    """Draw the chart of a results file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path)
    path: Path = parser.parse_args().results
    path.with_suffix(".svg").write_text(chart(ratios(path.read_text(encoding="utf-8"))), encoding="utf-8")


def ratios(text: str) -> list[tuple[str, float]]:
    """Name and ratio of every row of the first table of ratios."""
    rows: list[tuple[str, float]] = []
    column: int | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split("|")]
        if column is None:
            column = cells.index("ratio") if "ratio" in cells else None
        elif not line.startswith("|"):
            break
        elif not set(line) <= set("|-: "):
            rows.append((cells[0], float(cells[column])))
    if not rows:
        raise SystemExit("no table with a column called 'ratio'")
    return rows


def chart(rows: list[tuple[str, float]]) -> str:
    """The SVG: one bar a row, and a line at 1."""
    scale = _WIDTH / max(1.2, *(ratio for _, ratio in rows))
    height = _TOP + len(rows) * (_BAR + _GAP) + _GAP
    one = _LEFT + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{one:.0f}" y="18" text-anchor="middle">torch = 1</text>',
    ]
    for number, (name, ratio) in enumerate(rows):
        y = _TOP + number * (_BAR + _GAP)
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>'
            f'<rect x="{_LEFT}" y="{y}" width="{ratio * scale:.1f}" height="{_BAR}" fill="#4878a8"/>'
            f'<text x="{_LEFT + ratio * scale + 6:.1f}" y="{y + 14}">{ratio:.3f}</text>'
        )
    parts.append(
        f'<line x1="{one:.0f}" y1="{_TOP - 6}" x2="{one:.0f}" y2="{height}" stroke="black" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
