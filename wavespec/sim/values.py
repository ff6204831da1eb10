"""Registers of all lanes in, registers out: what operations do that make values of values alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wavespec.ir.dispatch import methods_of
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import THREAD_OPS
from wavespec.sim.elements import Array, Flags, Integers, converted, elementwise, joined, numpy_dtype
from wavespec.sim.symbols import SymbolValues

ValueFunction = Callable[[Op, Sequence[Array], SymbolValues], Array]
"""Makes the result, ``[threads, elements]``, of operands of the same form."""


class Values:
    """A function for each operation, called like it: each a `ValueFunction`."""

    @staticmethod
    def _constant(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        kind = op.result.vector
        return np.full((symbols.threads, kind.elements), converted(np.asarray(op["value"]), kind.dtype))

    @staticmethod
    def _coordinates(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        places = [symbols.per_thread(place) for place in op["places"]]
        return np.stack(places, axis=1).astype(numpy_dtype(op.result.vector.dtype))

    @staticmethod
    def _elementwise(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return elementwise(op["function"], operands)

    @staticmethod
    def _cast(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        dtype = op.result.vector.dtype
        result = converted(operands[0], dtype)
        bias = op.get("bias")
        return result + numpy_dtype(dtype).type(bias) if bias else result  # -0.0 + 0 would be another zero

    @staticmethod
    def _bitcast(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return np.ascontiguousarray(operands[0]).view(numpy_dtype(op.result.vector.dtype))

    @staticmethod
    def _opaque(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return operands[0]

    @staticmethod
    def _pack(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return np.concatenate(operands, axis=1)

    @staticmethod
    def _slice(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return operands[0][:, op["start"] : op["start"] + op["size"]]

    @staticmethod
    def _transpose(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        blocks = operands[0].reshape(-1, op["rows"], op["columns"], op["unit"])
        return blocks.swapaxes(1, 2).reshape(operands[0].shape)

    @staticmethod
    def _broadcast(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return np.repeat(operands[0], op.result.vector.elements, axis=1)

    @staticmethod
    def _reduce(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        rows = operands[0].reshape(len(operands[0]) * op.result.vector.elements, -1)
        return joined(op["function"], rows).reshape(len(operands[0]), -1)

    @staticmethod
    def _dot(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        """Products and sums in f64, rounded once."""
        a, b, acc = (operand.astype(np.float64) for operand in operands)
        threads, count = acc.shape
        groups = b.reshape(threads, count, -1)
        own = a.reshape(threads, op["runs"], -1)[:, :, op["start"] : op["start"] + groups.shape[2]]
        with np.errstate(all="ignore"):
            total = acc + (own.repeat(count // op["runs"], axis=1) * groups).sum(axis=2)
        return converted(total, op.result.vector.dtype)

    @staticmethod
    def _shuffle(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        return operands[0][np.arange(symbols.threads) ^ op["bits"]]

    @staticmethod
    def _from_lane(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        lanes = np.arange(symbols.threads)
        return operands[0][lanes - lanes % op["lanes"] + op["lane"]]

    @staticmethod
    def _join_lanes(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        lanes, size = op["lanes"], op.result.vector.elements
        rows = operands[0].reshape(-1, lanes, size).swapaxes(1, 2).reshape(-1, lanes)
        return np.repeat(joined(op["function"], rows).reshape(-1, size), lanes, axis=0)

    @staticmethod
    def _pad(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        (values,) = operands
        steps: Integers = np.arange(values.shape[1], dtype=np.int64) * int(op["stride"])
        places = symbols.per_thread(op["start"])[:, None] + steps
        inside: Flags = places < symbols.per_thread(op["limit"])[:, None]
        return np.where(inside, values, converted(np.asarray(op["value"]), op.result.vector.dtype))

    @staticmethod
    def _window(op: Op, operands: Sequence[Array], symbols: SymbolValues) -> Array:
        places: Integers = symbols.per_thread(op["start"])[:, None] + np.arange(op.result.vector.elements)
        return np.take_along_axis(operands[0], places, axis=1)


VALUES: Mapping[str, ValueFunction] = methods_of(Values, THREAD_OPS)
