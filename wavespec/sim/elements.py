"""Element types in, numpy arrays of them out: dtypes, poison, bit patterns and conversions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wavespec.ir.dtype import DType

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NUMPY: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of one element; bf16 is the one of ``ml_dtypes``."""
    return _NUMPY[dtype.name]


def poisoned(dtype: DType, elements: int) -> Array:
    """Memory that nobody wrote: NaN, or the largest integer, so that using it shows."""
    if dtype.is_float:
        return np.full(elements, np.nan, numpy_dtype(dtype))
    if dtype.kind == "bool":
        return np.ones(elements, np.bool_)
    return np.full(elements, np.iinfo(numpy_dtype(dtype)).max, numpy_dtype(dtype))


def bits(values: Array) -> Array:
    """The bit patterns, so that NaN equals itself and -0.0 differs from 0.0."""
    return np.ascontiguousarray(values).view(_BITS[values.dtype.itemsize])


def converted(values: Array, dtype: DType) -> Array:
    """The values in another type: rounded to nearest even, truncated to integers, non-zero to true."""
    target = numpy_dtype(dtype)
    if dtype.kind == "bool":
        return values != values.dtype.type(0)
    with np.errstate(all="ignore"):
        if dtype.name == "bf16" and values.dtype.kind in "iu":
            return values.astype(np.float32).astype(target)
        return values.astype(target)
