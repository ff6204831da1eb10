"""Registers of a value with fewer dims, repeated as a wider layout has them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import TileType, Value, VectorType
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.broadcast import broadcast_fragments

WIDE = Layout(
    (("m", const(0)), ("n", const(0))),
    (
        RegisterAxis(2, (("m", 8),)),
        RegisterAxis(2, (("n", 4),)),
        RegisterAxis(3, (("m", 2),)),
        RegisterAxis(2, (("n", 2),)),
        RegisterAxis(2, (("m", 1),)),
        RegisterAxis(2, (("n", 1),)),
    ),
    4,
)


@pytest.mark.parametrize("dims", [("m",), ("n",), (), ("m", "n"), ("n", "m")], ids=str)
def test_every_register_holds_the_element_at_its_place(dims: tuple[str, ...]) -> None:
    narrow = WIDE if len(dims) == 2 else WIDE.projected(dims)
    count = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    places = [tuple(at[dim] for dim in sorted(dims)) for at in narrow.register_offsets()]
    size = narrow.fragment_elements
    kind = VectorType(DTYPES["f32"], size)
    fragments = [Value(f"x{start}", kind) for start in range(0, len(places), size)]
    tile = Value("x", TileType(dims, (0,) * len(dims), DTYPES["f32"]))
    spread = broadcast_fragments(build, tile, fragments, WIDE)
    held = {f"x{start}": np.arange(start, start + size) for start in range(0, len(places), size)}
    for op in build.ops:
        values = [held[value.name] for value in op.operands]
        if op.name == "pack":
            held[op.result.name] = np.concatenate(values)
        elif op.name == "slice":
            held[op.result.name] = values[0][op["start"] : op["start"] + op["size"]]
        else:
            assert op.name == "broadcast" and len(values[0]) == 1
            held[op.result.name] = np.repeat(values[0], op.result.vector.elements)
    actual = [places[number] for value in spread for number in held[value.name]]
    assert actual == [tuple(at[dim] for dim in sorted(dims)) for at in WIDE.register_offsets()]
