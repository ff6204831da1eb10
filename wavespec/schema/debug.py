"""A spec and names of values go in; the spec that writes these values to outputs of their own comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import WavespecError, name_hints, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.further_outputs import unused_name, with_outputs
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import AnyOp, Cast, Debug, Read, Register, Repeat, Structured, ValueOp, Write, every
from wavespec.schema.ops.base import ValueType


class UnknownValueOfGraph(WavespecError, code="undefined-name"):
    def __init__(self, name: str, known: Sequence[str]) -> None:
        hints = name_hints(name, list(known), "The values are")
        super().__init__("--debug", f"{quote(name)} is not a value of the graph.", hints=hints, about=[name])


class NotCarriedOut(WavespecError, code="not-carried-out"):
    def __init__(self, name: str, loop: Repeat) -> None:
        super().__init__(
            loop.where("op"),
            f"{quote(name)} cannot be shown: it is made in a loop or a branch in the 'repeat' {quote(loop.name)}, "
            "which leaves what is carried out of it alone.",
            hints=["Carry it out of there, and show what is carried."],
        )


def debug(spec: KernelSpec, *names: str) -> KernelSpec:
    """The spec with an output for each of `names`, and for each `debug` of its graph, behind its own outputs.

    A value `x` is written to `debug_x`, and `loop.x` to `debug_loop_x`, where it is defined: in a loop in every step.
    A `repeat` carries what is made in it, from 0 on, and it is written behind the loop.

    Raises:
        WavespecError: a name that the graph does not define.
    """
    types = plain_graph(spec)[1]
    wanted = {name: _output(spec, name) for name in (*names, *(op.value for op in every(Debug, spec.graph)))}
    for name in names:
        if name not in types or name in spec.scalars:
            raise UnknownValueOfGraph(name, [one for one in types if one not in spec.scalars])
    outputs = {output: types[name] for name, output in wanted.items()}
    return with_outputs(spec, outputs, tuple(_written(spec.graph, dict(wanted), types)))


def _output(spec: KernelSpec, name: str) -> str:
    return unused_name(f"debug_{name.replace('.', '_')}"[:60], {*spec.tensors, *spec.dims, *spec.params, *spec.scalars})


def _written(body: Sequence[AnyOp], left: dict[str, str], types: Mapping[str, ValueType]) -> Iterator[AnyOp]:
    """The body with a write behind the last definition of each of ``left``, which those found leave."""
    last = {name: op for op in body for name in _defined(op, left)}
    here: dict[int, list[str]] = {}
    for name, op in last.items():
        here.setdefault(id(op), []).append(name)
    outputs: Mapping[str, str] = {name: left.pop(name) for name in last}
    for op in body:
        if isinstance(op, Repeat):
            yield from _carried_out(op, left, types)
        elif isinstance(op, Structured):
            yield op.with_bodies(lambda body: _written(body, left, types))
        elif not isinstance(op, Debug):
            yield op
        for name in here.get(id(op), ()):
            if isinstance(op, Read):  # what a matrix product reads, it may read in pieces and as another type
                again = op.model_copy(update={"name": f"{outputs[name]}_value"})
                yield from (again, Write(value=again.name, to=outputs[name]))
            else:
                yield Write(value=name, to=outputs[name])


def _carried_out(loop: Repeat, left: dict[str, str], types: Mapping[str, ValueType]) -> Iterator[AnyOp]:
    """The loop with what is made in it carried beside the rest, between the zeros it starts from and the writes."""
    shown = {name: left.pop(name) for op in loop.body for name in tuple(_defined(op, left))}
    for op in loop.body:
        for name in _defined_below(op, left):
            raise NotCarriedOut(name, loop)
    body: list[AnyOp] = [op for op in loop.body if not isinstance(op, Debug)]
    body += [Cast(name=f"{output}_value", value=name, dtype=types[name].dtype) for name, output in shown.items()]
    for name, output in shown.items():
        yield Register(name=f"{output}_before", shape=types[name].dims, dtype=types[name].dtype, value=0)
    carry = loop.carry | {f"{output}_value": f"{output}_before" for output in shown.values()}
    yield loop.model_copy(update={"carry": carry, "body": tuple(body)})
    for output in shown.values():
        yield Write(value=f"{loop.name}.{output}_value", to=output)


def _defined_below(op: AnyOp, names: Mapping[str, str]) -> Iterator[str]:
    for field in op.bodies if isinstance(op, Structured) else ():
        for inner in getattr(op, field):
            yield from _defined(inner, names)
            yield from _defined_below(inner, names)


def _defined(op: AnyOp, names: Mapping[str, str]) -> Iterator[str]:
    if isinstance(op, Debug) and op.value in names:
        yield op.value
    elif isinstance(op, Structured):
        yield from (name for name in names if name.partition(".")[0] == op.name)
    elif isinstance(op, ValueOp) and op.name in names:
        yield op.name
