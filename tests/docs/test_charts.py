"""The charts of benchmarks/results/ show what the tables beside them say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.plot import chart_of, svg

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
CHARTS = sorted(RESULTS.glob("*.svg"))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.stem)
def test_chart_is_that_of_the_table_and_stands_beside_it(chart: Path) -> None:
    page = chart.with_suffix(".md").read_text(encoding="utf-8")
    assert chart.read_text(encoding="utf-8") == svg(chart_of(page))
    assert f"]({chart.name})" in page


def test_charts_of_the_readme_exist() -> None:
    readme = (RESULTS.parents[1] / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[[^]]*\]\(benchmarks/results/(\w+\.svg)\)", readme))
    assert shown == {"amd.svg", "cpu_zen4.svg", "gemm_h200.svg"} <= {chart.name for chart in CHARTS}


def test_of_several_ratios_the_last_is_drawn() -> None:
    table = (
        "| dtype | M x N x K | ratio | ratio | peak |\n|---|---|---|---|---|\n| f32 | 1 x 2 x 3 | 2 (3) | 1.25 | 9 |\n"
    )
    assert chart_of(f"Text.\n\n{table}\nMore.").rows == [("f32 1 x 2 x 3", ["1.25"])]


def test_shares_of_a_peer_are_of_rows_with_both_figures() -> None:
    table = (
        "| case | VGPR | LDS bytes | loop |\n|---|---|---|---|\n| x | 90 [120] | 8 [10] | 50 (32/0) [100 (32/1)] |\n"
    )
    rows = chart_of(f"{table}| y | 9 [-] | 8 [-] | 50 [-] |\n").rows
    assert rows == [("x", ["0.75", "0.80", "0.50"])]
