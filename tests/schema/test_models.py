"""The models are strict, closed and frozen: no field takes another type or a value out of range."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.constraints import CONSTRAINTS, HardwareSettings, Workgroup
from wavespec.schema.language.models import Dim, KernelSpec, Schedule, TargetOverride, Tensor, TensorOverride
from wavespec.schema.ops import OPS, Branch, Iterate, Mma, Read, Register, Write

READ = Read(name="x", tensor="a")
GOOD: tuple[SpecModel, ...] = (
    Dim(multiple_of=8, value=16, min=1, max=64),
    Tensor(shape=("M",), dtype="f32"),
    Schedule(stages=2),
    HardwareSettings(mma="auto"),
    TensorOverride(space="shared"),
    TargetOverride(),
    Register(name="z", shape=("M",), dtype="f32", value=0),
    READ,
    Mma(name="m", lhs="a", rhs="b", acc="c"),
    Iterate(name="l", dim="K", carry={"acc": "z"}, body=(READ,)),
    Branch.model_validate({"name": "b", "condition": "start(K) < end(M)", "carry": {"acc": "z"}, "body": (READ,)}),
    Write(value="l.acc", to="c"),
    *(
        model.model_validate(fields)
        for model, fields in zip(
            CONSTRAINTS,
            [
                {"dim": "M", "tile": 1, "axis": 0},
                {"dim": "K", "tile": "A"},
                {"dim": "M", "tile": "A / 2"},
                {"settings": HardwareSettings(mma="auto")},
                {"condition": "K > 4"},
                {"dim": "M", "tile": 1024},
            ],
            strict=True,
        )
    ),
    KernelSpec(
        apiVersion="wavespec/v1",
        kind="Kernel",
        name="k",
        dims={"M": Dim()},
        graph=(READ,),
        tensors={"a": Tensor(shape=("M",), dtype="f32")},
    ),
)
WRONG: tuple[object, ...] = (b"x", object(), {1, 2}, 1j, lambda: 1, [object()], 10**30, -(10**30), "\x00")


def fields() -> Iterator[tuple[SpecModel, str]]:
    for model in GOOD:
        for name in type(model).model_fields:
            yield model, name


@pytest.mark.parametrize(("model", "field"), list(fields()), ids=lambda part: getattr(type(part), "__name__", part))
def test_field_refuses_other_types(model: SpecModel, field: str) -> None:
    for wrong in WRONG:
        if field == "value" and isinstance(model, Register) and isinstance(wrong, int):
            continue  # A number of any size is a number to fill with; the loader caps it at 63 bits.
        with pytest.raises(ValidationError):
            type(model).model_validate({**dict(model), field: wrong})


@pytest.mark.parametrize("model", GOOD, ids=lambda model: type(model).__name__)
def test_model_is_closed_and_frozen(model: SpecModel) -> None:
    with pytest.raises(ValidationError):
        type(model).model_validate({**dict(model), "tiel": 1})
    with pytest.raises(ValidationError):
        setattr(model, next(iter(type(model).model_fields)), 1)


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (Dim, "multiple_of", "64"),
        (Dim, "multiple_of", 64.0),
        (Dim, "multiple_of", True),
        (Dim, "min", -1),
        (Schedule, "stages", 0),
        (Schedule, "stages", 33),
    ],
)
def test_pydantic_coerces_nothing(model: type[SpecModel], field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        model.model_validate({field: value})


@pytest.mark.parametrize("tile", [1.5, True, None, "1 +", "__import__('os')", 2**63, [1]])
def test_tile_is_an_integer_or_an_expression(tile: object) -> None:
    with pytest.raises(ValidationError):
        Workgroup.model_validate({"dim": "M", "tile": tile, "axis": 0})


def test_every_op_names_itself_and_is_documented() -> None:
    for word, op in OPS.items():
        assert op.model_fields["op"].default == word and op.__doc__ and op.headline


def test_model_without_a_file_has_no_span_and_says_where_in_words() -> None:
    assert READ.span is None and READ.where("tensor") == "graph.x.tensor"
    constraint = Workgroup.model_validate({"dim": "M", "tile": 1, "axis": 0})
    assert constraint.where("tile") == "constraints.{workgroup: M}.tile"
