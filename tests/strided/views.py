"""Specs whose tensors may have any strides, and calls of them with views of larger arrays: for CPUs, the simulator and
the emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import ALIGNED_BYTES, numbers_of_tensor
from wavespec.schema import KernelSpec, load
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.sim.elements import Array

FOLDER = Path(__file__).parent
Arrays = dict[str, Array]
_BF16: Any = ml_dtypes.bfloat16


@dataclass(frozen=True, slots=True)
class Views:
    """A call: ``make`` gives its tensors, the written ones too, and ``expected`` what those hold then."""

    name: str
    spec_name: str
    make: Callable[[np.random.Generator], Arrays]
    expected: Callable[[Arrays], Arrays]
    tolerance: float = 0.0
    is_aligned: bool = True
    """Whether every row starts at a multiple of 16 bytes."""

    @property
    def spec(self) -> KernelSpec:
        return _spec(self.spec_name)

    def arrays(self) -> Arrays:
        return self.make(np.random.default_rng(0))

    def sizes(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        tensors = self.spec.tensors
        return {
            dim: size for n, array in arrays.items() for dim, size in zip(tensors[n].shape, array.shape, strict=True)
        }

    def numbers(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Offsets, strides and alignments, by their names."""
        found = {
            stride: arrays[name].strides[self.spec.tensors[name].shape.index(dim)] // arrays[name].itemsize
            for stride, (name, dim) in self.spec.named_strides.items()
        }
        for name, tensor in self.spec.tensors.items():
            if tensor.is_strided:
                array, bytes_ = arrays[name], DTYPES[tensor.dtype].bytes
                strides = [stride // bytes_ for stride in array.strides]
                found |= numbers_of_tensor(name, tensor.shape, array.shape, strides, array.ctypes.data, bytes_)
        return found

    def case(self, target: str, arrays: Mapping[str, Array]) -> TargetCase:
        """The case that the call takes."""
        return case_for_sizes(cases_for_target(self.spec, target), self.sizes(arrays) | self.numbers(arrays))

    def check(self, arrays: Arrays, results: Mapping[str, Array]) -> None:
        for name, expected in self.expected(arrays).items():
            got, right = results[name].astype(np.float64), expected.astype(np.float64)
            np.testing.assert_allclose(got, right, rtol=0, atol=self.tolerance, err_msg=f"{self.name}: {name}")


@cache
def _spec(name: str) -> KernelSpec:
    return load(FOLDER / f"{name}.wave.yaml")


def _aligned(array: Array) -> Array:
    """The same numbers at an aligned address, wherever numpy would put them."""
    memory = np.empty(array.nbytes + ALIGNED_BYTES, np.uint8)
    first = -memory.ctypes.data % ALIGNED_BYTES
    place: Array = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    place[...] = array
    return place


def _integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    return _aligned(rng.integers(-2, 3, shape).astype(dtype))


def _blank(shape: tuple[int, ...], dtype: Any) -> Array:
    return _aligned(np.full(shape, 77, dtype))


def _fused(length: int, skipped: int, *, dense: bool = False) -> Callable[[np.random.Generator], Arrays]:
    """q, k and v [B, H, S, D] of one projection [B, S, columns], behind so many of something else; o[B, S, H, D], or
    ``dense`` [B, H, S, D]."""

    def make(rng: np.random.Generator) -> Arrays:
        batch, heads, depth = 2, 2, 64
        whole = _integers(rng, (batch, length, skipped + 3 * heads * depth), _BF16)[..., skipped:]
        parts = [whole[..., n * heads * depth :][..., : heads * depth] for n in range(3)]
        sizes, bytes_ = (batch, length, heads, depth), whole.itemsize
        strides = (*whole.strides[:2], depth * bytes_, bytes_)
        q, k, v = (np.lib.stride_tricks.as_strided(one, sizes, strides).transpose(0, 2, 1, 3) for one in parts)
        o = _blank(q.shape, _BF16) if dense else _blank(sizes, _BF16).transpose(0, 2, 1, 3)
        return {"q": q, "k": k, "v": v, "o": o}

    return make


def _attention(arrays: Arrays) -> Arrays:
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return {"o": weights / weights.sum(-1, keepdims=True) @ v}


def _heads(first: int) -> Callable[[np.random.Generator], Arrays]:
    """x[T, H, D] of a projection [T, columns], from the first column on."""

    def make(rng: np.random.Generator) -> Arrays:
        rows, heads, depth = 6, 3, 32
        whole = _integers(rng, (rows, first + 3 * heads * depth), _BF16)[:, first:]
        strides = (whole.strides[0], depth * whole.itemsize, whole.itemsize)
        x = np.lib.stride_tricks.as_strided(whole, (rows, heads, depth), strides)
        turns = {name: _integers(rng, (rows, depth), _BF16) for name in ("cos", "sin")}
        return {"x": x, **turns, "y": _blank((rows, heads, depth), _BF16)}

    return make


def _rotated(arrays: Arrays) -> Arrays:
    x, cos, sin = (arrays[name].astype(np.float64) for name in ("x", "cos", "sin"))
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return {"y": x * cos[:, None] + turned * sin[:, None]}


def _batches(first: int) -> Callable[[np.random.Generator], Arrays]:
    """a: batches inside of rows, of which some rows are left out; b and c from a column on."""

    def make(rng: np.random.Generator) -> Arrays:
        a = _integers(rng, (80, 2, 56 + first), np.float16).transpose(1, 0, 2)[:, 5:75, first : first + 40]
        b = _integers(rng, (40, 96), np.float16)[:37, 2 * first : 2 * first + 40]
        return {"a": a, "b": b, "c": _blank((2, 80, 60), np.float32)[:, 2:72, first : first + 37]}

    return make


def _product(arrays: Arrays) -> Arrays:
    return {"c": arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64).T}


def _padded(first: int) -> Callable[[np.random.Generator], Arrays]:
    """a and b from a column on, of one distance from row to row; c with 8 more columns than it has."""

    def make(rng: np.random.Generator) -> Arrays:
        a, b = _integers(rng, (70, 112), np.float16), _integers(rng, (66, 112), np.float16)
        c = _blank((70, 74), np.float32)[:, :66]
        return {"a": a[:, first : first + 96], "b": b[:, 2 * first : 2 * first + 96], "c": c}

    return make


def _slices(first: int) -> Callable[[np.random.Generator], Arrays]:
    def make(rng: np.random.Generator) -> Arrays:
        x = _aligned(rng.standard_normal((12, 320)).astype(np.float32))[3:10, first : first + 260]
        return {"x": x, "y": _blank((15, 300), np.float32)[::2][:7, first : first + 260]}

    return make


def _repeated(rng: np.random.Generator) -> Arrays:
    row = _aligned(rng.standard_normal(132).astype(np.float32))
    return {"x": np.broadcast_to(row, (9, 132)), "y": _blank((9, 132), np.float32)}


def _softmax(arrays: Arrays) -> Arrays:
    x = arrays["x"].astype(np.float64)
    power = np.exp(x - x.max(1, keepdims=True))
    return {"y": power / power.sum(1, keepdims=True)}


def _half(rng: np.random.Generator) -> Arrays:
    pages, length, heads, depth = 4, 5, 2, 40
    pool = _integers(rng, (pages, 2, length, heads, depth), np.float32)
    rows = _integers(rng, (7, 3 * heads * depth + 1), np.float32)[:, 1 + heads * depth :][:, : heads * depth]
    rows = np.lib.stride_tricks.as_strided(rows, (7, heads, depth), (rows.strides[0], 4 * depth, 4))
    slots = rng.permutation(pages * length)[:7].astype(np.int64)
    return {"rows": rows, "slots": slots, "pool": pool[:, 1]}


def _appended(arrays: Arrays) -> Arrays:
    pool = arrays["pool"].copy()
    for slot, row in zip(arrays["slots"], arrays["rows"], strict=True):
        pool[divmod(int(slot), pool.shape[1])] = row
    return {"pool": pool}


def _pages(rng: np.random.Generator) -> Arrays:
    pool = _integers(rng, (6, 2, 3, 2, 72), np.float16)
    return {
        "pool": pool[:, 0],
        "pages": rng.integers(0, 6, 11).astype(np.int32),
        "y": _blank((11, 2, 2, 72), np.float16)[:, 1],
    }


def _last_rows(arrays: Arrays) -> Arrays:
    return {"y": arrays["pool"][arrays["pages"], -1] + 1}


VIEWS = (
    Views("fused", "attention_views", _fused(66, 0), _attention, 0.01),
    Views("fused behind columns", "attention_views", _fused(10, 3), _attention, 0.01, is_aligned=False),
    Views("batches", "products_of_views", _batches(8), _product),
    Views("batches at odd columns", "products_of_views", _batches(3), _product, is_aligned=False),
    Views("slices", "rows_views", _slices(4), _softmax, 1e-6),
    Views("slices at odd columns", "rows_views", _slices(5), _softmax, 1e-6, is_aligned=False),
    Views("one row for all", "rows_views", _repeated, _softmax, 1e-6),
    Views("half of a pool, written", "pool_rows", _half, _appended, is_aligned=False),
    Views("half of a pool, read", "pool_gather", _pages, _last_rows),
    Views("fused, of the project", "../../specs/attention", _fused(66, 0, dense=True), _attention, 0.01),
    Views("padded rows", "products_of_rows", _padded(8), _product),
    Views("padded rows at odd columns", "products_of_rows", _padded(3), _product, is_aligned=False),
    Views("fused heads", "../../specs/rope", _heads(8), _rotated),
    Views("fused heads at odd columns", "../../specs/rope", _heads(3), _rotated, is_aligned=False),
)
