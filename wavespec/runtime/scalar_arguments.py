"""Numbers of one call go in; Python numbers that kernels take, and their words, come out, or an error that names the
argument."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from operator import is_
from typing import Any, Final, NoReturn, cast

import torch
from torch import Tensor

from wavespec.runtime.checks import ArgumentError, ArgumentTypeError
from wavespec.runtime.number_expr import dims_in_number, evaluate_number
from wavespec.runtime.scalars import FORMATS, SCALAR_WORDS, Number, Passed, ScalarParameter, rounded

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
_WORDS: Final = {float: "a number", int: "a whole number", bool: "True or False"}
_SMALL: Final = ("f16", "bf16")
_DEFAULTS_KEPT: Final = 1024
_NoneType: Final = type(None)
_OF_PYTHON: Final = frozenset((bool, int, float))


class ScalarArguments:
    """The scalars of one kernel: what calls may pass for them."""

    def __init__(self, kernel: str, parameters: Sequence[ScalarParameter] = ()) -> None:
        self.parameters = tuple(parameters)
        self._kernel = kernel
        self._names = tuple(one.name for one in parameters)
        self._constants = tuple(one.default for one in parameters)
        self._types = tuple(one.type for one in parameters)
        self._left_out = tuple(one.type if one.computed is None else _NoneType for one in parameters)
        """The types where a call says nothing of scalars whose defaults are computed."""
        computed = [dims_in_number(one.computed) for one in parameters if one.computed is not None]
        self._dims = tuple(sorted(frozenset[str]().union(*computed)))
        self._defaults: dict[tuple[int, ...], tuple[Passed, ...]] = {}
        """By the sizes of these dims: computed defaults, None where there is no such number."""
        self._limited = any(one.least is not None or one.most is not None for one in parameters)
        self._rounds = any(one.dtype in _SMALL for one in parameters)
        self._shaping = tuple(number for number, one in enumerate(parameters) if one.shapes)
        self._last: tuple[tuple[str, ...] | None, tuple[Any, ...], tuple[Any, ...]] = (None, (), ())
        """What the last call passed by name, where that never changes, and its numbers."""
        self.shape = bool(self._shaping)
        """Whether sizes, assumptions or cases depend on one."""
        self._packed = struct.Struct("<" + "".join(FORMATS[one.dtype] for one in parameters))
        self._words = struct.Struct(f"<{sum(SCALAR_WORDS[one.dtype] for one in parameters)}i")

    def __bool__(self) -> bool:
        return bool(self.parameters)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The same as Python's own numbers, one for each scalar in order; those that torch traces stay, and None where
        the default is computed.

        Errors: `ArgumentTypeError` for another type; `ArgumentError` for an integer that no float holds.
        """
        types = tuple(map(type, values))
        if types == self._types or types == self._left_out:
            return values
        if len(values) != len(self.parameters):
            names = ", ".join(one.name for one in self.parameters)
            message = f"{self._kernel}: takes {len(self.parameters)} scalars ({names}), got {len(values)}."
            raise ArgumentTypeError(message)
        return tuple(self._number(one, value) for one, value in zip(self.parameters, values, strict=True))

    def named(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """The numbers of a call that passes some by name, with the defaults of the others; None for computed ones."""
        names, values, numbers = self._last  # as one, since other threads may write it
        if tuple(given) == names and all(map(is_, given.values(), values)):
            return numbers
        for name in given.keys() - {*self._names}:
            raise self._lacks(name)
        for one in self.parameters:
            if one.default is None and one.computed is None and one.name not in given:
                raise self._needs(one.name)
        numbers = self(*(given.get(one.name, one.default) for one in self.parameters))
        if _OF_PYTHON.issuperset(map(type, given.values())):
            self._last = tuple(given), tuple(given.values()), numbers
        return numbers

    def chosen(self, **given: Any) -> tuple[Any, ...]:
        """The numbers of a call of a family, which has None for what it does not say: these kernels may lack some."""
        values = tuple(map(given.pop, self._names))
        for name, value in given.items():
            if value is not None:
                raise self._lacks(name)
        if _NoneType in map(type, values):
            pairs = zip(values, self._constants, strict=True)
            values = tuple([own if value is None else value for value, own in pairs])
        return self(*values)

    def check(self, values: tuple[Passed, ...]) -> None:
        """Errors: as of `words`, for what a call passed."""
        given = [(one, value) for one, value in zip(self.parameters, self(*values), strict=True) if value is not None]
        ScalarArguments(self._kernel, [one for one, _ in given]).words(tuple(value for _, value in given), {})

    def complete(self, values: tuple[Passed, ...], sizes: Mapping[str, int]) -> tuple[Number, ...]:
        """The numbers with the defaults that follow from the sizes of the call.

        Errors: `ArgumentError` for one that these sizes give none.
        """
        if None not in values:
            return cast("tuple[Number, ...]", values)
        key = tuple(map(sizes.__getitem__, self._dims))
        known = self._defaults.get(key)
        if known is None:
            if len(self._defaults) >= _DEFAULTS_KEPT:
                self._defaults.clear()
            known = self._defaults[key] = tuple(_default(one, sizes) for one in self.parameters)
        found = tuple(default if value is None else value for value, default in zip(values, known, strict=True))
        if None in found:
            self._refuse_default(found.index(None), sizes)
        return cast("tuple[Number, ...]", found)

    def are_exact(self, values: tuple[Any, ...]) -> bool:
        """Whether they are of Python's own types, which never change, as `__call__` gives them."""
        return tuple(map(type, values)) in (self._types, self._left_out)

    def is_symbolic(self, values: tuple[Any, ...]) -> bool:
        """Whether torch traces one of the numbers, which has no value yet."""
        return tuple(map(type, values)) != self._types and any(isinstance(value, _SYMBOLIC) for value in values)

    def words(self, values: tuple[Any, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """What a kernel gets for numbers that `__call__` gave, in a call of these sizes.

        Errors: `ArgumentError` for one out of limits, or beyond the numbers of its type.
        """
        if tuple(map(type, values)) != self._types:
            values = self.complete(self(*values), sizes)
        try:
            if self._limited:
                self._check_limits(values)
            if self._rounds:
                values = tuple(rounded(value, one.dtype) for one, value in zip(self.parameters, values, strict=True))
            return self._words.unpack(self._packed.pack(*values))
        except (OverflowError, struct.error):
            raise self._beyond(values) from None

    def shaping(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Those of the numbers that sizes, assumptions and cases depend on."""
        return tuple([values[number] for number in self._shaping]) if self._shaping else ()

    def sizes(self, values: tuple[Any, ...]) -> dict[str, int]:
        """The same by name, as integers."""
        return {self.parameters[number].name: int(values[number]) for number in self._shaping}

    def as_held(self, values: tuple[Any, ...], sizes: Mapping[str, int]) -> tuple[Number, ...]:
        """The numbers as the kernel has them: rounded to their types; errors as of `words`."""
        values = self.complete(values, sizes)
        self.words(values, sizes)
        return tuple(rounded(value, one.dtype) for one, value in zip(self.parameters, values, strict=True))

    def _number(self, parameter: ScalarParameter, value: Any) -> Any:
        """The number as Python's own, if it is one that the scalar takes."""
        where = f"{self._kernel}: argument '{parameter.name}'"
        kind: Callable[[Any], Any] = parameter.type
        if isinstance(value, _SYMBOLIC) or (value is None and parameter.computed is not None):
            return value
        if value is None and parameter.default is None:
            raise self._needs(parameter.name)
        wanted = Integral if kind is int else Real
        is_right = _is_bool(value) if kind is bool else isinstance(value, wanted) and not _is_bool(value)
        if not is_right:
            hint = f"; pass {parameter.name}.item(), which waits for its device" if isinstance(value, Tensor) else ""
            message = f"{where} is of type {type(value).__name__}, expected {_WORDS[parameter.type]}{hint}."
            raise ArgumentTypeError(message)
        number: Any = value
        try:
            return kind(number)
        except OverflowError:
            raise ArgumentError(f"{where} is beyond the numbers of {parameter.dtype}.") from None

    def _lacks(self, name: str) -> ArgumentTypeError:
        has = f"has the scalars {', '.join(self._names)}" if self._names else "has no scalars"
        return ArgumentTypeError(f"{self._kernel}: got '{name}', but it {has}.")

    def _needs(self, name: str) -> ArgumentTypeError:
        return ArgumentTypeError(f"{self._kernel}: argument '{name}' has no default; pass {name}=....")

    def _refuse_default(self, number: int, sizes: Mapping[str, int]) -> NoReturn:
        name = self.parameters[number].name
        shown = ", ".join(f"{dim} = {sizes[dim]}" for dim in self._dims)
        raise ArgumentError(f"{self._kernel}: argument '{name}' has no default for {shown}; pass it.")

    def _check_limits(self, values: tuple[Any, ...]) -> None:
        for one, value in zip(self.parameters, values, strict=True):
            if one.least is not None and not value >= one.least:
                expected = f"expected at least {one.least}"
            elif one.most is not None and not value <= one.most:
                expected = f"expected at most {one.most}"
            else:
                continue
            raise ArgumentError(f"{self._kernel}: argument '{one.name}' is {value}, {expected}.")

    def _beyond(self, values: tuple[Any, ...]) -> ArgumentError:
        for one, value in zip(self.parameters, values, strict=True):
            try:
                struct.pack("<" + FORMATS[one.dtype], rounded(value, one.dtype))
            except (OverflowError, struct.error):
                message = f"{self._kernel}: argument '{one.name}' is {value!r:.40}, beyond the numbers of {one.dtype}."
                return ArgumentError(message)
        raise AssertionError("every number fits its type")


def _is_bool(value: object) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _default(parameter: ScalarParameter, sizes: Mapping[str, int]) -> Passed:
    if parameter.computed is None:
        return None
    try:
        return evaluate_number(parameter.computed, sizes)
    except (ArithmeticError, ValueError):
        return None
