"""``python -m tests.independent.counts``: writes `counts.json`, how many cases of others run, and why the rest does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.independent.cases import (
    IREE_ATTENTIONS,
    IREE_CONVOLUTIONS,
    IREE_PRODUCTS,
    Case,
    onnx_cases,
    opinfo_cases,
)

COUNTS = Path(__file__).with_name("counts.json")


def count(cases: Iterable[Case]) -> dict[str, Any]:
    """By operator: how many run, and how many are left out for which reason; and both in all."""
    run, left_out = Counter[str](), dict[str, Counter[str]]()
    for case in cases:
        if case.plan is not None:
            run[case.operator] += 1
        else:
            left_out.setdefault(case.operator, Counter())[case.left_out] += 1
    operators = {
        name: {"run": run[name], "left out": dict(sorted(left_out.get(name, Counter[str]()).items()))}
        for name in sorted({*run, *left_out})
    }
    return {"run": run.total(), "left out": sum(one.total() for one in left_out.values()), "operators": operators}


def main() -> None:
    counts = {
        "opinfo": count(opinfo_cases()),
        "onnx": count(onnx_cases()),
        "iree": {
            "products": len(IREE_PRODUCTS),
            "attentions": len(IREE_ATTENTIONS),
            "convolutions": len(IREE_CONVOLUTIONS),
        },
    }
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    for suite in ("opinfo", "onnx"):
        print(f"{suite}: {counts[suite]['run']} run, {counts[suite]['left out']} left out")


if __name__ == "__main__":
    main()
