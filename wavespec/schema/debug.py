"""A spec and names of values go in; the spec that writes these values to outputs of their own comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import WavespecError, name_hints, quote, raise_all
from wavespec.schema.check import check_kernel
from wavespec.schema.check_graph import plain_graph
from wavespec.schema.models import KernelSpec, Tensor
from wavespec.schema.ops import AnyOp, Debug, Read, Structured, ValueOp, Write


class UnknownValueOfGraph(WavespecError, code="undefined-name"):
    def __init__(self, name: str, known: Sequence[str]) -> None:
        hints = name_hints(name, list(known), "The values are")
        super().__init__("--debug", f"{quote(name)} is not a value of the graph.", hints=hints)


def debug(spec: KernelSpec, *names: str) -> KernelSpec:
    """The spec with an output for each of `names`, and for each `debug` of its graph, behind its own outputs.

    A value `x` is written to `debug_x`, and `loop.x` to `debug_loop_x`, where it is defined: in a loop in every step.

    Raises:
        WavespecError: a name that the graph does not define.
    """
    types = plain_graph(spec)[1]
    wanted = {name: _output(spec, name) for name in (*names, *_debugged(spec.graph))}
    for name in names:
        if name not in types:
            raise UnknownValueOfGraph(name, list(types))
    tensors = {
        output: Tensor(shape=types[name].dims, dtype=types[name].dtype, role="output")
        for name, output in wanted.items()
    }
    left = dict(wanted)
    graph = tuple(_written(spec.graph, left))
    plain = spec.model_copy(update={"tensors": {**spec.tensors, **tensors}, "graph": graph})
    raise_all(check_kernel(plain))
    return plain


def _output(spec: KernelSpec, name: str) -> str:
    output = f"debug_{name.replace('.', '_')}"[:60]
    while output in spec.tensors or output in spec.dims or output in spec.params:
        output += "_"
    return output


def _debugged(body: Sequence[AnyOp]) -> Iterator[str]:
    for op in body:
        if isinstance(op, Debug):
            yield op.value
        for field in op.bodies if isinstance(op, Structured) else ():
            yield from _debugged(getattr(op, field))


def _written(body: Sequence[AnyOp], left: dict[str, str]) -> Iterator[AnyOp]:
    """The body with a write behind the last definition of each of ``left``, which those found leave."""
    last = {name: op for op in body for name in _defined(op, left)}
    here: dict[int, list[str]] = {}
    for name, op in last.items():
        here.setdefault(id(op), []).append(name)
    outputs: Mapping[str, str] = {name: left.pop(name) for name in last}
    for op in body:
        if isinstance(op, Structured):
            yield op.model_copy(update={field: tuple(_written(getattr(op, field), left)) for field in op.bodies})
        elif not isinstance(op, Debug):
            yield op
        for name in here.get(id(op), ()):
            if isinstance(op, Read):  # what a matrix product reads, it may read in pieces and as another type
                again = op.model_copy(update={"name": f"{outputs[name]}_value"})
                yield from (again, Write(value=again.name, to=outputs[name]))
            else:
                yield Write(value=name, to=outputs[name])


def _defined(op: AnyOp, names: Mapping[str, str]) -> Iterator[str]:
    if isinstance(op, Debug) and op.value in names:
        yield op.value
    elif isinstance(op, Structured):
        yield from (name for name in names if name.partition(".")[0] == op.name)
    elif isinstance(op, ValueOp) and op.name in names:
        yield op.name
