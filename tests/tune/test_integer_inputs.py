"""What the integers of an input are used for is read off the graph, and `wavespec run` draws them so."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import SPECS
from wavespec.cli.measure import random_inputs
from wavespec.cli.specs import kernels_of
from wavespec.tune.integer_inputs import meanings


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("embedding", {"token": ("places", "V")}),
        ("scatter_add", {"row": ("places", "V")}),
        ("cross_entropy", {"target": ("places", "N")}),
        ("attention_padded", {"count": ("counts", "N")}),
        ("attention_paged", {"page": ("places", "P"), "count": ("counts", "N")}),
        ("grouped_gemm", {"offsets": ("starts", "T")}),
        ("attention_ragged", {"q_starts": ("starts", "T"), "k_starts": ("starts", "S")}),
        ("attention_extend", {"starts": ("starts", "T"), "prefix_starts": ("starts", "P"), "slots": ("places", "S")}),
        ("gemm_i8", {}),
        ("dropout", {}),
    ],
)
def test_the_graph_says_what_integers_mean(spec: str, expected: dict[str, tuple[str, str]]) -> None:
    for _, kernel in kernels_of(SPECS / f"{spec}.wave.yaml"):
        assert {name: (one.use, one.dim) for name, one in meanings(kernel).items()} == expected


@pytest.mark.parametrize("length", [0, 1, 30])
def test_integers_are_drawn_for_their_use(length: int) -> None:
    (_, extend), *_ = kernels_of(SPECS / "attention_extend.wave.yaml")
    sizes = {"T": length, "P": 20, "S": 4, "H": 1, "G": 1, "D": 8, "E": 8, "L": 6}
    names = [name for name, tensor in extend.tensors.items() if tensor.role != "output"]
    drawn = dict(zip(names, random_inputs(extend, sizes, 0, "cpu"), strict=True))
    for name, end in (("starts", length), ("prefix_starts", 20)):
        assert drawn[name][0] == 0 and drawn[name][-1] == end
        assert torch.equal(drawn[name], drawn[name].sort().values)
    assert set(drawn["slots"].tolist()) == {0, 1, 2, 3}


def test_counts_reach_from_none_to_all() -> None:
    (_, padded), *_ = kernels_of(SPECS / "attention_padded.wave.yaml")
    sizes = {"B": 100, "H": 1, "M": 1, "N": 3, "D": 8, "E": 8}
    assert set(random_inputs(padded, sizes, 0, "cpu")[-1].tolist()) == {0, 1, 2, 3}
