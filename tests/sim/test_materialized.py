"""Cases whose operands kernels before make: every such case of the specs in the simulator, all of its kernels, partial tiles
included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import Sizes, Subject, subjects
from tests.rungs import often
from tests.sim.cases import lowered_case, run_case
from wavespec.ir.kernel import Op, rewrite
from wavespec.ir.thread_ops import STORE
from wavespec.schema.cases import TargetCase
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
_MANY, _ROWS_OF_ODD_SCALES = (*[70] * 12, 130), (9, 9, 40, 70, 70, 130)
_BY_LANES = ({"M": 5, "N": 80, "K": 2048}, {"M": 5, "N": 80, "K": 1024}, {"M": 1, "N": 80, "K": 1024})
_OTHERS = (*({"M": rows, "N": 80, "K": 288} for rows in _ROWS_OF_ODD_SCALES), {"M": 70, "N": 72, "K": 96})
_F4, _F8 = (5, 9, 9, 9, 30, 20, 30, 30, 30, 40, 40, 40), (9, 5, 9, 9, 9, 9, 9, 30, 20, 30, 30, 20, 30, 40, 40, 40)
_MX_F4, _MX_F8 = (
    (*_BY_LANES, *({"M": rows, "N": 72, "K": 1024} for rows in (*few, *_MANY)), *_OTHERS) for few in (_F4, _F8)
)
_WEIGHTS = tuple({"M": rows, "N": 72, "K": 288} for rows in (9, 9, 9, 30, 40, 60, *[70] * 4, 130))
_IMAGES = {"N": 2, "H": 6, "W": 10, "R": 3, "S": 3}
_ODD = {"N": 1, "H": 5, "W": 7, "R": 3, "S": 2}
_POINTS = {"R": 1, "S": 1}
SIZES: dict[str, tuple[Sizes, ...]] = {
    "linear_i4": _WEIGHTS,
    "matmul_mxf4": _MX_F4,
    "matmul_mxf8": _MX_F8,
    "conv2d_nchw": (
        {**_ODD, **_POINTS, "W": 8, "C": 40, "O": 72},
        {**_ODD, **_POINTS, "C": 43, "O": 72},
        *[{**_ODD, "C": 64, "O": 72}] * 9,  # each tile that the least is taken of, of rows of even length,
        *[{**_IMAGES, "W": 9, "C": 64, "O": 72}] * 7,  # and of odd length
        *({**_ODD, "C": channels, "O": 72} for channels in (88, 83, 12)),
        *({**_ODD, "C": channels, "O": 72} for channels in (104, 99, 35, 98, 97)),
        *({**_ODD, "W": 8, "C": channels, "O": 72} for channels in (88, 11, 90)),
        *({**_ODD, "W": 8, "C": channels, "O": 72} for channels in (104, 102, 103, 101)),
        {**_ODD, "C": 21, "O": 72},
        {**_ODD, "C": 43, "O": 72},
    ),
    "conv2d_nhwc": (
        *({**_ODD, "C": channels, "O": filters} for channels, filters in ((13, 40), (12, 136), (35, 40))),
        *({**_ODD, "C": channels, "O": 136} for channels in (9, 20, 67, 130)),
        {**_ODD, "C": 36, "O": 21},
    ),
    "conv2d_nchw_f32": (
        {**_IMAGES, **_POINTS, "C": 160, "O": 40},
        {**_ODD, "C": 64, "O": 72},
        {**_ODD, "C": 64, "O": 72},
    ),
    "conv2d_grouped": (
        {**_ODD, "C": 160, "O": 80, "D": 16},
        {**_ODD, "C": 160, "O": 80, "D": 16},
        {**_ODD, "C": 72, "O": 24, "D": 24},
        {**_ODD, "C": 80, "O": 16, "D": 40},
        {**_IMAGES, "C": 128, "O": 128, "D": 64},
    ),
    "conv2d_grouped_f32": (
        {**_IMAGES, "C": 80, "O": 80, "D": 16},
        {**_ODD, "C": 72, "O": 24, "D": 24},
        {**_ODD, "C": 80, "O": 16, "D": 40},
        {**_ODD, "C": 64, "O": 16, "D": 32},
        {**_ODD, "C": 72, "O": 72, "D": 4},
    ),
    # Parts: the last of those that have elements is not whole
    "sum_dim": (
        {"A": 1, "N": 65544, "B": 1},
        {"A": 1, "N": 65541, "B": 1},
        {"A": 1, "N": 65600, "B": 3},
        {"A": 1, "N": 32800, "B": 8},
        {"A": 1, "N": 32800, "B": 5},
        {"A": 2, "N": 1030, "B": 131},
        {"A": 2, "N": 1030, "B": 131},
    ),
    "cross_entropy_mean": ({"M": 131108}, {"M": 131109}),
    "cumsum": (
        {"M": 1, "N": 65544},
        {"M": 9, "N": 65544},
        {"M": 17, "N": 65544},
        {"M": 2, "N": 16392},
        {"M": 1, "N": 65541},
        {"M": 9, "N": 65541},
        {"M": 17, "N": 65541},
        {"M": 2, "N": 16391},
    ),
    "topk": (
        {"M": 1, "N": 65544},
        {"M": 2, "N": 16392},
        {"M": 3, "N": 4104},
        {"M": 1, "N": 65541},
        {"M": 2, "N": 16391},
        {"M": 3, "N": 4099},
    ),
}
"""Of each case that has kernels before, sizes such as it is for."""
LONG = ("sum_dim", "cross_entropy_mean", "cumsum", "topk")
"""Of which one type is enough: what is added takes long, and is the same in all."""
CASES = [
    (subject, number, case)
    for subject in subjects("sm_90")
    for number, case in enumerate(case for case in subject.cases("sm_90") if case.before)
    if subject.file not in LONG or subject.name == subject.file
]


@pytest.mark.parametrize(
    ("subject", "number", "case"),
    often(CASES, lambda one: one[0].is_first_type, pytest.mark.always),
    ids=[f"{subject.name}-{number}" for subject, number, _ in CASES],
)
def test_every_case_is_right_without_a_race(subject: Subject, number: int, case: TargetCase) -> None:
    sizes = subject.complete(SIZES[subject.name.removesuffix("_f16")][number])
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, HOPPER), HOPPER, sizes, inputs), sizes)


def test_all_that_is_materialized_is_tried() -> None:
    tried = {(name, number) for name, sizes in SIZES.items() for number in range(len(sizes))}
    assert {(subject.name.removesuffix("_f16"), number) for subject, number, _ in CASES} == tried


def test_what_a_kernel_before_leaves_out_is_found() -> None:
    """The kernel reads what was never written, which is no number, and its results are not those of the reference."""
    subject, _, case = next(one for one in reversed(CASES) if one[0].name == "matmul_mxf8")
    first, *others = lowered_case(case, HOPPER)

    def dropped(op: Op) -> tuple[Op, ...]:
        return () if op["memory"] == "a_tile_made" else (op,)

    without = replace(first, body=rewrite(first.body, dropped, STORE))
    sizes = subject.complete({"M": 70, "N": 72, "K": 96})
    inputs = subject.inputs(sizes)
    with pytest.raises(AssertionError, match="No workgroup writes element"):
        run_case(subject, case, (without, *others), HOPPER, sizes, inputs)
