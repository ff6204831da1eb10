"""An order of tiles goes in; tiles that it leaves out, or what keeps that from being seen, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.checking.permutations import COUNT, INDEX, Clash, Undecided, clash_of
from wavespec.schema.language.constraints import Workgroup
from wavespec.schema.language.expressions import EvaluationError, Expression, Name
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.resolve import NoConstantValue, UndefinedName, part_of


class NotAnOrder(WavespecError, code="not-an-order"):
    def __init__(self, where: Where, dim: str, order: Expression, clash: Clash) -> None:
        values, tiles = clash.values, f"{clash.count} tiles" if clash.count > 1 else "one tile"
        beyond = next((at for at, tile in enumerate(values) if not 0 <= tile < clash.count), None)
        if beyond is not None:
            why = f"place {beyond} has tile {values[beyond]}"
        else:
            again = next(at for at, tile in enumerate(values) if tile in values[:at])
            why = f"places {values.index(values[again])} and {again} both have tile {values[again]}"
        super().__init__(
            where,
            f"{quote(str(order))} is no order of the tiles of {quote(dim)}: of {tiles}, {why}, and none has tile "
            f"{clash.missed}.",
            hints=["Every tile has to come once, whatever their count, as in 'count - 1 - index'."],
        )


class OrderUnknown(WavespecError, code="order-unknown"):
    def __init__(self, where: Where, dim: str, why: str) -> None:
        super().__init__(
            where,
            f"Whether every tile of {quote(dim)} comes once cannot be seen: {why}.",
            hints=[
                "Use sums, and '//' and '%' by small numbers, "
                "as in 'index // 2 + index % 2 * (count - 1 - index // 2 * 2)', "
                f"or give {quote(dim)} one size."
            ],
        )


class TornCluster(WavespecError, code="torn-cluster"):
    def __init__(self, where: Where, constraint: Workgroup, cluster: int, first: Span | None) -> None:
        super().__init__(
            where,
            f"A cluster computes {cluster} tiles of {quote(constraint.dim)} that follow each other; this order has "
            "others follow each other.",
            hints=["Leave out 'order', or 'cluster', or write another dim of axis 0 before this one."],
            related=[Related(first, "the cluster")] if first else [],
        )


class EndOfLaunch(WavespecError, code="end-of-launch"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"Where the tiles of {quote(dim)} end is known to workgroups that walk over tiles; here one is launched "
            "for each tile of the dim.",
            hints=["Add 'persistent: true' to 'workgroups' of the schedule, or leave out 'end'."],
        )


class UselessOrder(WavespecError, code="useless-order", severity="warning"):
    def __init__(self, where: Where, dim: str, why: str) -> None:
        super().__init__(
            where, f"The order of the tiles of {quote(dim)} changes nothing: {why}.", hints=["Leave it out."]
        )


def check_clusters(kernel: KernelSpec) -> Iterator[WavespecError]:
    """Orders of tiles that a cluster, which takes neighbours, cannot follow."""
    workgroups = kernel.schedule.workgroups if kernel.schedule else None
    first = next((one for one in kernel.constraints if isinstance(one, Workgroup) and one.axis == 0), None)
    if workgroups is None or workgroups.cluster == 1 or first is None or first.order is None:
        return
    yield TornCluster(first.where("order"), first, workgroups.cluster, workgroups.key_span_of("cluster"))


def check_ends(kernel: KernelSpec) -> Iterator[WavespecError]:
    """Ends of tiles that no workgroup asks for."""
    workgroups = kernel.schedule.workgroups if kernel.schedule else None
    if workgroups is not None and workgroups.persistent:
        return
    for constraint in kernel.constraints:
        if isinstance(constraint, Workgroup) and constraint.end is not None:
            yield EndOfLaunch(constraint.where("end"), constraint.dim)


def check_order_names(
    spec: KernelSpec, order: Expression, where: Where, broken: frozenset[str]
) -> Iterator[WavespecError]:
    """Names in an order that stand for no number."""
    for node in order.walk():
        name = getattr(node, "name", None)
        if name is not None and name not in {INDEX, COUNT, *spec.params, *spec.dims, *broken}:
            yield UndefinedName(
                part_of(where, node), name, "'index', 'count' or a parameter", [INDEX, COUNT, *spec.params]
            )


def order_problem(
    spec: KernelSpec, constraint: Workgroup, tile: int, constants: Mapping[str, int]
) -> WavespecError | None:
    """What is wrong with the order of a constraint whose tiles have `tile` elements, for the constants of a target."""
    order, where = constraint.order, constraint.where("order")
    assert order is not None
    if order.is_condition:
        return NoConstantValue(where, f"{quote(str(order))} is a condition; a tile is a number.")
    unknown = {*order.names()} - {INDEX, COUNT, *constants}
    if unknown - spec.dims.keys():
        return None  # reported by `check_order_names`
    for node in order.walk():
        if (name := getattr(node, "name", None)) in unknown:
            why = f"{quote(str(name))} is known only when the kernel is called"
            return OrderUnknown(part_of(where, node), constraint.dim, why)
    counts = _counts(spec.dims[constraint.dim], tile)
    if counts is not None and not any(count > 1 for count in counts[-1:]):
        return UselessOrder(where, constraint.dim, "it has one tile")
    try:
        clash = clash_of(order, constants, counts)
    except Undecided as undecided:
        return OrderUnknown(part_of(where, undecided.node), constraint.dim, str(undecided))
    except EvaluationError as error:
        return NoConstantValue(part_of(where, error.node), f"{quote(str(order))} has no integer value: {error}.")
    if clash is None and isinstance(order, Name):
        return UselessOrder(where, constraint.dim, "tiles come like this anyway")
    return NotAnOrder(where, constraint.dim, order, clash) if clash else None


def _counts(dim: Dim, tile: int) -> range | None:
    """How many tiles a dim may have, where it has a largest size."""
    if dim.value is not None:
        return range(count := -(-dim.value // tile), count + 1)
    if dim.max is None:
        return None
    step = dim.multiple_of // tile if dim.multiple_of % tile == 0 else 1
    least = -(-dim.min // tile)
    return range(-(-least // step) * step, -(-dim.max // tile) + 1, step)
