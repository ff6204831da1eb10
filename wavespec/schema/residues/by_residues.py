"""A spec with sums of which a remainder leaves few terms goes in; the one that sums up these terms alone comes out.

A transposed convolution with a stride is one: `where((row + pad - r) % stride == 0, pixel, 0)`. Of each residue of the
rows, every so manieth `r` is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Formula, Iterate, every
from wavespec.schema.residues.conditions_of_reads import with_conditions_of_reads
from wavespec.schema.residues.guards import Guard, Terms, guard_of, is_known, summed_dims
from wavespec.schema.residues.read_graph import ReadGraph
from wavespec.schema.residues.split_dims import NotSplit
from wavespec.schema.residues.without_guard import WithoutGuard

_MOST = 4
"""Guards of one spec."""


def by_residues(spec: KernelSpec) -> KernelSpec:
    """The spec itself where no sum has such terms, or it is not clear that all others add nothing to it."""
    if not _may_have_guards(spec):
        return spec
    try:
        found = prepared = with_conditions_of_reads(ReadGraph(spec))
        for _ in range(_MOST):
            found = _with_one_less(found) or found
    except WavespecError:  # checks report it
        return spec
    return spec if found is prepared else found


def _may_have_guards(spec: KernelSpec) -> bool:
    """Whether there are divisions in formulas, and nothing that names dims for a plan."""
    has_own = spec.schedule is not None or any(one.schedule or one.cases or one.params for one in spec.targets.values())
    inputs = all(tensor.role != "inout" for tensor in spec.tensors.values())
    return inputs and not has_own and any("%" in op.text or "//" in op.text for op in every(Formula, spec.graph))


def _with_one_less(spec: KernelSpec) -> KernelSpec | None:
    """With one guard less; none where there is none that may go."""
    graph = ReadGraph(spec)
    if not graph.has_one_meaning or not is_known(graph.ops):
        return None
    walked = {loop.dim for loop in every(Iterate, spec.graph)}
    for guard in _guards(graph):
        if guard.kept.dim in walked:
            continue
        zeros = {
            name
            for name, choice in graph.choices.items()
            if any(guard_of(one, graph.indices, (guard.term.dim,)) == guard for one in choice.conditions)
        }
        if not Terms(graph.ops, graph.types, guard.term.dim, zeros).may_be_left_out():
            continue
        try:
            found = WithoutGuard(graph, guard).spec()
            ReadGraph(found)
        except (NotSplit, WavespecError):
            continue
        return found
    return None


def _guards(graph: ReadGraph) -> Iterator[Guard]:
    """Those of values, each once, of dims that all results have, and that are summed over."""
    summed = summed_dims(graph.ops, graph.types)
    conditions = (one for choice in graph.choices.values() for one in choice.conditions)
    found = (guard_of(one, graph.indices, summed) for one in conditions)
    yield from dict.fromkeys(one for one in found if one is not None)
