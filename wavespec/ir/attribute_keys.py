"""The keys of attributes by the type of their values: what the type checker knows of ``op["memory"]`` and `op.get`.

``tests/ir/test_declarations.py`` holds them to the declarations, which say the same where it can be asked.
"""

from __future__ import annotations

from typing import Literal

Text = Literal[
    "a_major",
    "a_memory",
    "again",
    "b_major",
    "b_memory",
    "cache",
    "combine",
    "counter",
    "dim",
    "function",
    "induction",
    "instruction",
    "k",
    "kind",
    "m",
    "memory",
    "n",
    "signal",
    "source",
    "symbol",
    "target",
    "variant",
]
Integer = Literal[
    "ahead",
    "bias",
    "bits",
    "bytes",
    "columns",
    "count",
    "elements",
    "kept_bits",
    "lane",
    "lanes",
    "level",
    "number_bits",
    "pending",
    "rank",
    "registers",
    "row_step",
    "rows",
    "run",
    "runs",
    "unit",
    "unroll",
    "waves",
    "width",
]
Number = Literal["least", "most"]
Flag = Literal[
    "acquire",
    "alone",
    "awaited",
    "around",
    "asynchronous",
    "below",
    "by_lane",
    "by_unit",
    "close",
    "counts_on",
    "direct",
    "divided",
    "everywhere",
    "expected",
    "fast",
    "fresh",
    "idle",
    "landed",
    "mapped",
    "of_any",
    "of_wave",
    "once",
    "ordered",
    "products",
    "rare",
    "release",
    "reverse",
    "running",
    "skips_nan",
    "transposed",
    "unbiased",
    "uniform",
]
Expression = Literal[
    "a_buffer",
    "a_offset",
    "b_buffer",
    "b_offset",
    "buffer",
    "extent",
    "first",
    "goes_on",
    "index",
    "limit",
    "lower",
    "number",
    "offset",
    "part",
    "parts",
    "phase",
    "receiver",
    "source_offset",
    "source_stride",
    "step",
    "tile",
    "upper",
]
Extent = Literal["front", "valid"]
Mask = Literal["mask", "onto"]
Places = Literal["at", "further", "origin"]
Expressions = Literal["corner", "offsets", "outside", "places", "sizes", "view"]
Names = Literal["clamped", "over", "staged"]
Numbers = Literal["apart", "box"]
Layout = Literal["layout"]
Table = Literal["bounded", "boxes", "guard", "loops", "through", "transpose", "windows"]
Mixed = Literal["masked", "size", "start", "stride", "value"]
"""Of another type in one operation than in another: whoever asks knows which operation it is."""
