"""Tile kernel in, thread kernel out: every tile becomes registers of one lane, every operation its
instruction-sized steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ASYNC_COMMIT, BULK_COPY, COPY_ASYNC
from wavespec.ir.tile_ops import COPY, READ, WRITE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.check_shared import check_shared
from wavespec.lower.limit_code import check_steps
from wavespec.lower.thread_properties import buffers_are_in_range, is_of_lanes, lanes_are_in_reach
from wavespec.lower.tile_properties import (
    TILE_PROPERTIES,
    accesses_are_masked,
    copies_are_distributed,
    products_have_instructions,
    tiles_are_placed,
    tiles_have_layouts,
)
from wavespec.lower.whole_bytes import check_whole_bytes
from wavespec.ops import to_thread
from wavespec.ops.accesses import copy_tile
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.mapped_accesses import PlacesRead, copy_mapped, values_of_places
from wavespec.ops.tensor_views import as_matrices, as_slabs, as_windows
from wavespec.targets.machine import Machine


class TileToThread(Pass):
    """Lower to one lane's view.

    Before: tiles with layouts; accesses with origins and masked dims; copies with a layout.
    After:  the operations of ``wavespec.ir.thread_ops``; a tile is one value per fragment.  Loops that want
            straight-line code (``unroll = 0``) are gone, their bodies repeated with the induction as a constant.
    Errors: ``shared-memory-exceeded`` where values that are handed on do not fit beside the staged tiles;
            ``values-not-shared`` at a ``take``, where waves take turns; ``part-of-byte`` at a write of elements that
            share bytes with those of others; ``too-much-code`` as soon as there is too much of it.
    """

    name: ClassVar[str] = "tile-to-thread"
    requires = (
        products_have_instructions,
        tiles_are_placed,
        tiles_have_layouts,
        copies_are_distributed,
        accesses_are_masked,
    )
    ensures = (is_of_lanes, buffers_are_in_range, lanes_are_in_reach)
    drops = TILE_PROPERTIES

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        steps = 0
        most = machine.most_lines or math.inf

        def count() -> None:
            nonlocal steps
            steps += 1
            if steps > most:
                check_steps(steps, kernel, machine)

        build = ThreadBuilder(fresh_names(replace(kernel, body=())), count)
        context = ThreadContext(kernel, machine, build, _block)
        context.block(kernel.body)
        memories = (*kernel.memories, *context.memories)
        kernel = kernel.with_symbols(*context.symbols)
        kernel = replace(kernel, level="thread", body=tuple(build.ops), memories=memories)
        if context.memories:
            check_shared(kernel, machine)
        check_whole_bytes(kernel)
        return kernel


def _block(ops: tuple[Op, ...], context: ThreadContext) -> None:
    loaded: list[Callable[[], None]] = []
    places: PlacesRead = {}
    copying = False
    for op in ops:
        if op.is_(COPY):
            context.build.span, context.build.node = op.span, f"{op.node}.load"
            context.build.cached = _cached(op, op["source"])
            places = places if copying else {}  # behind something else their tensor may hold other values
            loaded += _copy(op, context, places)
            copying = True
            continue
        if copying:
            _finish_copies(loaded, context)
            copying = False
        context.build.span, context.build.node = op.span, op.node
        context.build.cached = _cached(op, op["memory"]) if op.is_(READ, WRITE) else {}
        to_thread(op, context)
    if copying:
        _finish_copies(loaded, context)


def _cached(op: Op, memory: str) -> dict[str, str]:
    cache = op.get("cache")
    return {memory: cache} if cache else {}


def _copy(op: Op, context: ThreadContext, places: PlacesRead) -> list[Callable[[], None]]:
    """Issue a copy; returns what is left to do where loads overlap only with loads that follow them."""
    source, shared = context.kernel.memory(op["source"]), context.kernel.memory(op["memory"])
    if op.get("boxes"):
        _copy_boxes(op, source, shared, context)
        return []
    loops: tuple[tuple[Expr, Expr, Expr], ...] = op["loops"]
    builders = [context.build]
    for _ in loops:
        builders.append(builders[-1].nested())
    if op.get("at"):
        store = copy_mapped(builders[-1], op, context, {} if loops else places)
    else:
        store = copy_tile(builders[-1], source, shared, op, context.origin(op), context.machine)
    if not loops and not context.machine.out_of_order:
        return [store]
    store()
    for (at, extent, step), outside, inside in reversed(list(zip(loops, builders[:-1], builders[1:], strict=True))):
        outside.loop(at.args[0], 0, extent, step, (), (), tuple(inside.ops), ())
    return []


def _copy_boxes(op: Op, source: Memory, shared: Memory, context: ThreadContext) -> None:
    """One bulk copy for each box; `SpecializeWaves` says on which signal it is counted."""
    loaded = values_of_places(op, context) if op.get("through") else {}
    origin = {dim: start.substitute(loaded) for dim, start in context.origin(op).items()}
    kernel, dims = context.kernel, tuple(origin)
    matrices = as_matrices(op, kernel, shared.dims) if op.get("at") else None
    windows = as_windows(op, kernel, shared, context.machine) if op.get("at") and not matrices else None
    slabs = as_slabs(op, kernel, shared) if op.get("at") and not matrices and not windows else None
    if op.get("at"):
        dims = matrices.memory.dims if matrices else shared.dims
    valid = op.get("valid")
    for box in op["boxes"]:
        starts = {dim: const(start) for dim, (start, _) in zip(dims, box, strict=True)}
        corner = {dim: place + starts.get(dim, 0) for dim, place in origin.items()}
        if (row := op.get("again")) and starts[row].value:
            size = source.shape[source.dims.index(row)]
            corner[row] *= minimum(1, maximum(0, size - corner[row]))
        if matrices:
            seen: dict[str, Any] = {"corner": matrices.corner(corner), "view": matrices.memory.shape}
        elif windows:
            seen = windows.attributes(corner)
        elif slabs:
            seen = {"corner": slabs.corner(corner)}
        else:
            seen = {"corner": tuple(corner[dim] for dim in dims)}
        if valid is not None:
            seen["valid"] = valid.substitute(loaded) - starts[shared.dims[0]]
        extents = tuple(extent for _, extent in box)
        context.build.add(
            "bulk_copy",
            (),
            (),
            source=source.name,
            **seen,
            box=slabs.box(extents) if slabs else extents,
            memory=shared.name,
            offset=shared.unswizzled_offset({dim: starts[dim] for dim in shared.dims}),
            buffer=const(0),
            signal="",
            index=const(0),
        )


def _finish_copies(loaded: list[Callable[[], None]], context: ThreadContext) -> None:
    """Store what was loaded, close and await a group of asynchronous copies before anything else happens;
    pipelining moves the wait."""
    here = context.build.span, context.build.node
    while loaded:  # the last load first: machines that count loads in order then wait once for all of them
        loaded.pop()()
    context.build.span, context.build.node = here[0], ""
    # The last copy of the group may have been a plain one, so its end is not where the asynchronous ones are.
    groups = (op for op in reversed(context.build.ops) if op.is_(COPY_ASYNC, BULK_COPY, ASYNC_COMMIT))
    last = next(groups, None)
    if last is not None and not last.is_(ASYNC_COMMIT):
        context.build.add("async_commit", (), ())
        context.build.add("async_wait", (), (), pending=0)
