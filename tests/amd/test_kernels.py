"""Every kernel of ``specs/`` as machine code, executed by an emulator of the instruction set: right, no race, no scratch."""

from __future__ import annotations

import pytest

from tests.amd.amd_gemms import figures, require_emulator
from tests.amd.emulated import Case
from tests.edges import EDGES, Edge
from tests.kernels import Subject, subjects
from tests.rungs import often

require_emulator()
pytestmark = pytest.mark.amd

TARGETS = ("gfx942", "gfx950")
EACH = [(target, subject) for target in TARGETS for subject in subjects(*TARGETS)]
FIRST_EDGES = [
    one for number, one in enumerate(EDGES) if one.subject not in {other.subject for other in EDGES[:number]}
]
OFTEN = {
    "gfx942": """attention attention_paged attention_ragged_causal gemm gemm_i8 linear_i4 grouped_gemm matmul_f8_blocks
        conv2d_nhwc softmax layer_norm cross_entropy cumsum topk scatter_add embedding rope dropout transpose""",
    "gfx950": "attention matmul_mxf8 matmul_mxf4 matmul_f8_blocks conv2d_nhwc",
}
"""A kernel of each kind, and those that meet what gfx942 does not have; the simulator runs all for both every time."""


def _is_often(case: tuple[str, Subject]) -> bool:
    target, subject = case
    return subject.name in OFTEN[target].split()


def _name(value: object) -> str:
    return value.name if isinstance(value, Subject) else str(value)


def test_kernels_that_run_often_are_there() -> None:
    assert all({subject.name for subject in subjects(target)} >= set(OFTEN[target].split()) for target in TARGETS)


@pytest.mark.parametrize(("target", "subject"), often(EACH, _is_often, pytest.mark.always), ids=_name)
def test_every_small_size(target: str, subject: Subject) -> None:
    # gfx950 has other copies and matrix instructions, which the first size meets; how edges are treated is the same.
    chosen = subject.row.small[:1] if target == "gfx950" else subject.row.small
    for sizes in map(subject.complete, chosen):
        case, inputs = Case(subject, target, subject.case(target, sizes)), subject.inputs(sizes)
        subject.check(inputs, case.run(sizes, inputs), sizes)
        assert (figures(case)["vgpr_spill"], figures(case)["scratch_bytes_per_lane"]) == (0, 0)


@pytest.mark.parametrize(
    "edge", often(EDGES, FIRST_EDGES, pytest.mark.always), ids=lambda edge: f"{edge.subject}-{edge.name}"
)
def test_limits_are_those_of_torch(edge: Edge) -> None:
    inputs, sizes = edge.inputs(), edge.of.complete(edge.sizes)
    case = Case(edge.of, "gfx942", edge.of.case("gfx942", sizes))
    edge.check(inputs, tuple(case.run(sizes, tuple(inputs.values()))))
