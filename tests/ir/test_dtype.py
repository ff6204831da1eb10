"""The one table of element types agrees with numpy and torch, and with the words of the language."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from wavespec.ir.dtype import DTYPES, DType
from wavespec.schema.language.dtypes import DTYPES as WORDS

FLOATS = [dtype for dtype in DTYPES.values() if dtype.is_float]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda dtype: pickle.loads(pickle.dumps(dtype))])
def test_there_is_one_of_each_name(again: Callable[[DType], DType]) -> None:
    assert all(again(dtype) is dtype for dtype in DTYPES.values())


def test_the_language_has_these_types_in_this_order() -> None:
    assert tuple(DTYPES) == WORDS


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floating_point_is_as_ml_dtypes_has_it(dtype: DType) -> None:
    info = ml_dtypes.finfo(np.dtype(dtype.number))
    assert (dtype.bits, float(info.max), info.nmant) == (info.bits, dtype.largest, dtype.mantissa)
    with np.errstate(over="ignore"):
        assert dtype.has_infinity == np.isinf(np.array(np.inf).astype(dtype.number))


@pytest.mark.parametrize("dtype", [one for one in DTYPES.values() if one.kind in ("int", "uint")], ids=str)
def test_whole_numbers_are_as_ml_dtypes_has_them(dtype: DType) -> None:
    info = ml_dtypes.iinfo(np.dtype(dtype.number))
    assert (dtype.smallest, dtype.largest) == (info.min, info.max)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_torch_keeps_as_many_bytes(dtype: DType) -> None:
    assert getattr(torch, dtype.torch).itemsize == (1 if dtype.is_packed else dtype.bytes)


def test_products_are_summed_in_types_of_the_table() -> None:
    assert {dtype.summed_in for dtype in DTYPES.values()} - {""} <= DTYPES.keys()
