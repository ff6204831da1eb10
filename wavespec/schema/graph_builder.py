"""Calls of Python go in; the statements of a graph that they stand for come out, with their bodies."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wavespec.schema.language.errors import UnknownOp, WrongOperandCount
from wavespec.schema.language.expressions import Expression
from wavespec.schema.ops import FUNCTIONS, OPS, REDUCTIONS, SCANS, Elementwise, Reduction
from wavespec.schema.ops.scan import ScanRow
from wavespec.schema.symbols import Formula, IndexMap, Loop, Symbol, Value, as_symbol


@dataclass(slots=True)
class GraphBuilder:
    """Collects the statements of a graph in the order of the calls, each in the body that is open."""

    name: str
    doc: str = ""
    _bodies: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])

    def register(self, name: str, shape: Sequence[Symbol | str], dtype: str, value: float) -> Value:
        return self._op("register", name, shape=tuple(map(str, shape)), dtype=dtype, value=value)

    def read(
        self,
        name: str,
        tensor: Value,
        dims: Sequence[Symbol | str] | None = None,
        at: IndexMap | None = None,
        cache: str | None = None,
    ) -> Value:
        """`at`: dim of the tensor: index, as in YAML; `size(M)` is the size of a dim. `cache`: `"streaming"` of what is
        not read again soon."""
        shape = {} if dims is None else {"dims": tuple(map(str, dims))}
        return self._op("read", name, tensor=str(tensor), **shape, at=_index_map(at), cache=cache)

    def take(
        self, name: str, value: Value, dims: Sequence[Symbol | str] | None = None, at: IndexMap | None = None
    ) -> Value:
        """`at`: dim of the value: index, as in YAML; `size(M)` is the size of a dim."""
        shape = {} if dims is None else {"dims": tuple(map(str, dims))}
        return self._op("take", name, value=str(value), **shape, at=_index_map(at))

    def mma(
        self,
        name: str,
        lhs: Value,
        rhs: Value,
        acc: Value,
        variant: str = "",
        scales: tuple[Value, Value] | None = None,
    ) -> Value:
        """A product; `variant` is its own matrix instruction, in place of that of the kernel, and `scales` what the
        elements of `lhs` and of `rhs` are multiplied by first."""
        chosen: dict[str, Any] = {"variant": variant} if variant else {}
        if scales is not None:
            chosen["scales"] = (str(scales[0]), str(scales[1]))
        return self._op("mma", name, lhs=str(lhs), rhs=str(rhs), acc=str(acc), **chosen)

    def cast(self, name: str, value: Value | Symbol, dtype: str) -> Value:
        return self._op("cast", name, value=str(value), dtype=dtype)

    def bitcast(self, name: str, value: Value, dtype: str) -> Value:
        return self._op("bitcast", name, value=str(value), dtype=dtype)

    def index(self, name: str, dim: Symbol | str, dtype: str = "i32") -> Value:
        return self._op("index", name, dim=str(dim), dtype=dtype)

    def size(self, name: str, dim: Symbol | str, dtype: str = "i32") -> Value:
        return self._op("size", name, dim=str(dim), dtype=dtype)

    def random(self, name: str, seed: Value | Symbol | int, dims: Sequence[Symbol | str], dtype: str = "f32") -> Value:
        key = seed if isinstance(seed, int) else str(seed)
        return self._op("random", name, seed=key, dims=tuple(map(str, dims)), dtype=dtype)

    def formula(self, name: str, expression: Formula | str) -> Value:
        """An expression by the name of its value: `k.formula("y", x * 2 + 1)`, or its text, `"where(x > 0, x, 0)"`."""
        return self._op("formula", name, text=str(expression))

    def elementwise(self, function: str, name: str, *operands: Value | Symbol | float) -> Value:
        """An elementwise op by its word: `k.elementwise("add", "y", x, bias)`, `k.elementwise("mul", "y", x, 0.5)`."""
        model = OPS.get(function)
        if model is None or not issubclass(model, Elementwise):
            raise UnknownOp(f"{self.name}.graph.{name}", function, [row.word for row in FUNCTIONS])
        fields = model.headline
        if len(operands) != len(fields):
            raise WrongOperandCount(f"{self.name}.graph.{name}", function, fields, len(operands))
        written = [str(operand) if isinstance(operand, Value | Symbol) else operand for operand in operands]
        return self._op(function, name, **dict(zip(fields, written, strict=True)))

    def reduce(
        self,
        word: str,
        name: str,
        value: Value | Sequence[Value],
        dim: Symbol | str | Sequence[Symbol | str],
        init: Value | None = None,
    ) -> Value:
        """Elements along a dim, or several dims, of a value, or several values, joined to one:
        `k.reduce("sum", "total", x, n, init=loop["total"])`."""
        values = str(value) if isinstance(value, Value) else tuple(map(str, value))
        dims = str(dim) if isinstance(dim, Symbol | str) else tuple(map(str, dim))
        return self._along(REDUCTIONS, word, name, values, dims, init)

    def scan(
        self,
        word: str,
        name: str,
        value: Value,
        dim: Symbol | str,
        init: Value | None = None,
        *,
        reverse: bool = False,
    ) -> Value:
        """Every element along a dim joined with all before it: `k.scan("cumsum", "running", x, n)`."""
        backwards = {"reverse": True} if reverse else {}
        return self._along(SCANS, word, name, str(value), str(dim), init, **backwards)

    @contextmanager
    def joined(
        self,
        word: str,
        name: str,
        dim: Symbol | str,
        identity: Mapping[str, int | float],
        *,
        init: Mapping[str, Value] | None = None,
        last: Mapping[str, str] | None = None,
        reverse: bool = False,
        **carry: Value,
    ) -> Generator[Loop, None, None]:
        """A `scan` or a `reduce` by what is called inside the `with`: there `run["h"]` is what is joined so far, and
        the value that is carried as `h` the element that comes next."""
        run = Loop(name)
        self._bodies.append([])
        yield run
        run.is_open = False
        combine = tuple(self._bodies.pop())
        fields: dict[str, Any] = {"dim": str(dim), "identity": dict(identity), "combine": combine}
        fields |= {"init": {key: str(value) for key, value in init.items()}} if init else {}
        fields |= ({"last": dict(last)} if last else {}) | ({"reverse": True} if reverse else {})
        self._op(word, name, carry={key: str(value) for key, value in carry.items()}, **fields)

    def argmax(
        self,
        name: str,
        value: Value,
        dim: Symbol | str,
        *,
        extreme: str = "",
        init: tuple[Value, Value] | None = None,
        dtype: str = "i64",
        word: str = "argmax",
    ) -> tuple[Value, Value]:
        """The place of the largest element along a dim (`word="argmin"`: the smallest), and under the name `extreme`,
        if that is there, the element."""
        fields = {"extreme": extreme} if extreme else {}
        start = {} if init is None else {"init": tuple(map(str, init))}
        place = self._op(word, name, value=str(value), dim=str(dim), dtype=dtype, **fields, **start)
        return place, Value(extreme)

    def topk(
        self,
        name: str,
        value: Value,
        dim: Symbol | str,
        k: Symbol | str,
        *,
        indices: str = "",
        places: Value | None = None,
        init: tuple[Value, Value] | None = None,
        dtype: str = "i64",
        largest: bool = True,
    ) -> tuple[Value, Value]:
        """As many elements along a dim as `k`, a dim, has, the largest first, and under the name `indices`, if that is
        there, their places: along the dim, or those of `places`."""
        fields = {"indices": indices} if indices else {}
        fields |= {} if places is None else {"places": str(places)}
        start = {} if init is None else {"init": tuple(map(str, init))}
        how = {"dim": str(dim), "k": str(k), "dtype": dtype, "largest": largest}
        return self._op("topk", name, value=str(value), **how, **fields, **start), Value(indices)

    def write(
        self,
        value: Value,
        to: Value,
        at: IndexMap | None = None,
        combine: str | None = None,
        cache: str | None = None,
    ) -> None:
        """`cache`: `"streaming"` of what is not read soon."""
        where = {"value": str(value), "to": str(to), "at": _index_map(at)}
        self._bodies[-1].append({"op": "write", **where, "combine": combine, "cache": cache})

    def atomic(
        self,
        name: str,
        value: Value,
        to: Value,
        combine: str,
        at: IndexMap | None = None,
        expected: Value | None = None,
    ) -> Value:
        """What elements of a tensor were right before each was combined with one of `value`:
        `ticket = k.atomic("ticket", one, counts, "add", at={x: expert})`."""
        what = {"expected": str(expected)} if expected is not None else {}
        return self._op("atomic", name, value=str(value), to=str(to), at=_index_map(at), combine=combine, **what)

    def assert_that(self, value: Value, message: str = "") -> None:
        """What `wavespec run` looks at: a bool, which has to hold for every element."""
        self._bodies[-1].append({"op": "assert", "value": str(value), **({"message": message} if message else {})})

    def debug(self, value: Value) -> None:
        self._bodies[-1].append({"op": "debug", "value": str(value)})

    @contextmanager
    def iterate(
        self,
        name: str,
        dim: Symbol | str,
        *,
        start: Symbol | int | None = None,
        end: Symbol | int | None = None,
        step: Symbol | int | None = None,
        until: Symbol | str | None = None,
        **carry: Value,
    ) -> Generator[Loop, None, None]:
        """The body is what is called inside the `with`; `until` compares values by their names: `"total > 9"`."""
        loop = Loop(name)
        self._bodies.append([])
        yield loop
        loop.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        written = {"start": start, "end": end, "step": step}
        bounds: dict[str, Any] = {
            key: as_symbol(value).expression for key, value in written.items() if value is not None
        }
        bounds |= _until(until)
        self._op("iterate", name, dim=str(dim), **bounds, carry=carried, body=body)

    @contextmanager
    def repeat(
        self,
        name: str,
        steps: Symbol | int,
        *,
        index: str | None = None,
        until: Symbol | str | None = None,
        **carry: Value,
    ) -> Generator[Loop, None, None]:
        """The body is what is called inside the `with`; `index` names the number of the step: `at={"T": "t"}`."""
        loop = Loop(name)
        self._bodies.append([])
        yield loop
        loop.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        count = as_symbol(steps).expression
        self._op("repeat", name, steps=count, index=index, **_until(until), carry=carried, body=body)

    @contextmanager
    def branch(self, name: str, condition: Symbol, **carry: Value) -> Generator[Loop, None, None]:
        """An `if`: the body is what is called inside the `with`; `otherwise` right behind it adds the other one."""
        branch = Loop(name)
        self._bodies.append([])
        yield branch
        branch.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        self._op("if", name, condition=condition.expression, carry=carried, body=body)

    @contextmanager
    def otherwise(self, branch: Loop) -> Generator[Loop, None, None]:
        """What is done where the condition of `branch` does not hold."""
        statement = next(one for one in self._bodies[-1] if one.get("name") == branch.name)
        self._bodies.append([])
        branch.is_open = True
        yield branch
        branch.is_open = False
        statement["otherwise"] = tuple(self._bodies.pop())

    def _along(
        self,
        rows: Sequence[Reduction | ScanRow],
        word: str,
        name: str,
        value: str | tuple[str, ...],
        dim: str | tuple[str, ...],
        init: Value | None,
        **fields: Any,
    ) -> Value:
        words = [row.word for row in rows]
        if word not in words:
            raise UnknownOp(f"{self.name}.graph.{name}", word, words)
        start = {} if init is None else {"init": str(init)}
        return self._op(word, name, value=value, dim=dim, **start, **fields)

    def _op(self, word: str, name: str, **fields: Any) -> Value:
        self._bodies[-1].append({"op": word, "name": name, **fields})
        return Value(name)


def _until(until: Symbol | str | None) -> dict[str, Expression | str]:
    return {} if until is None else {"until": until.expression if isinstance(until, Symbol) else until}


def _index_map(at: IndexMap | None) -> dict[str, str | int]:
    return {str(dim): index if isinstance(index, int) else str(index) for dim, index in (at or {}).items()}
