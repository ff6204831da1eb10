"""The map: a spec in, and out comes the kernel after any stage, its MLIR, its machine code, or something to call.

specs/*.wave.yaml -> KernelSpec -> ResolvedKernel -> tile kernel -> passes -> thread kernel -> MLIR -> IREE
    -> KernelArtifact -> Kernel
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from wavespec.cache import CompileCache, cache_key
from wavespec.cases_on_machines import cases_on, machines_of
from wavespec.chosen_machines import chosen_machines
from wavespec.collector import without_collecting
from wavespec.diagnostics import WavespecError, enumeration
from wavespec.emit.compiler import Compiled, compiler_name, compiler_version
from wavespec.emit.function import KernelFunction
from wavespec.emit.interface import case_conditions, launch_interface, shaped_by
from wavespec.emit.mlir_text import TooLong
from wavespec.emit.ptxas import find_ptxas, ptxas_version, with_cubins
from wavespec.emit.targets import EmittedModule, function_to_module, module_to_binaries, thread_to_function
from wavespec.ir.comparing import is_same
from wavespec.ir.kernel import Kernel as IRKernel
from wavespec.ir.verifier import verify
from wavespec.lower.check_arguments import check_arguments
from wavespec.lower.check_shared import check_shared
from wavespec.lower.contracts import are_checked
from wavespec.lower.limit_code import check_lines, too_much_code
from wavespec.lower.narrowed_machine import differ_in_name, narrowed_for, written_for
from wavespec.lower.order import PASSES
from wavespec.lower.spec_to_tile import ENSURES, spec_to_tile
from wavespec.lower.tile_to_thread import TileToThread
from wavespec.part_cache import get_part, put_part
from wavespec.runtime.artifact import ArtifactCase, Assumption, KernelArtifact
from wavespec.runtime.manifest import FORMAT_VERSION
from wavespec.runtime.size_expr import SizeExpr, with_expression
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase
from wavespec.schema.checking.case_errors import naming_case, naming_target
from wavespec.schema.families.kernel_meant import kernel_meant
from wavespec.schema.load import loads_plain
from wavespec.schema.reading.spec_to_yaml import dump_yaml, spec_to_data
from wavespec.schema.resolved import ResolvedKernel, resolve
from wavespec.targets.machine import Machine, machines
from wavespec.version import __version__, fingerprint

if TYPE_CHECKING:
    from wavespec.runtime.kernel import Kernel
    from wavespec.schema.families.expand import Family

T = TypeVar("T")
FIRST_STAGE = "spec-to-tile"
STAGES: tuple[str, ...] = (FIRST_STAGE, *(one.name for one in PASSES), "mlir", "isa")
"""Where ``wavespec show --after`` can stop."""
_LAST_OF_TILES = STAGES[STAGES.index(TileToThread.name) - 1]


@dataclass(slots=True)
class Timings:
    """Seconds per stage, in the order they ran; pass one to the functions below to have it filled."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def run(self, stage: str, work: Callable[[], T]) -> T:
        """``work()``, its time added to ``stage``."""
        start = time.perf_counter()
        result = work()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        return result


def lower(spec: KernelSpec, machine: Machine, *, after: str = "", timings: Timings | None = None) -> IRKernel:
    """The kernel after the stage ``after`` (default: all passes).

    Raises:
        WavespecError: the spec does not fit the machine, at the line that says so.
    """
    with naming_target(machine.target), without_collecting():
        return _lowered(resolve(spec, machine.target), machine, timings or Timings(), after=after)


class Stage(NamedTuple):
    """A kernel after one stage; ``changed``: whether that did anything to it; ``machine``: as later ones, and behind
    the last one the emitters, see it."""

    name: str
    kernel: IRKernel
    changed: bool
    machine: Machine

    def is_like(self, other: Stage) -> bool:
        """Whether all that follows is the same, up to the name of the machine, which is in messages."""
        return differ_in_name(self.machine, other.machine) and is_same(self.kernel, other.kernel)


def stages_of(spec: KernelSpec, machine: Machine) -> Iterator[Stage]:
    """The kernel after each stage up to the last pass, one after the other; errors as in `lower`."""
    with naming_target(machine.target):
        timings = Timings()
        yield from _stages(_first_stage(resolve(spec, machine.target), timings), machine, timings)


def _lowered(resolved: ResolvedKernel, machine: Machine, timings: Timings, *, after: str = "") -> IRKernel:
    for stage in _stages(_first_stage(resolved, timings), machine, timings):
        if stage.name == (after or PASSES[-1].name):
            return stage.kernel
    raise ValueError(f"there is no stage '{after}'")


def _first_stage(resolved: ResolvedKernel, timings: Timings) -> IRKernel:
    kernel = timings.run(FIRST_STAGE, lambda: spec_to_tile(resolved))
    verify(kernel)
    return kernel


def _stages(kernel: IRKernel, machine: Machine, timings: Timings) -> Iterator[Stage]:
    """What follows from the first stage, which is the same for all machines of a target."""
    check_arguments(kernel, machine)
    whole = machine
    yield Stage(FIRST_STAGE, kernel, True, machine)
    held = ENSURES
    for one in PASSES:
        before = kernel
        kernel = timings.run(one.name, lambda one=one, of=(kernel, machine, held): one(*of))
        held = one.holding(held, machine)
        if one is PASSES[-1] and not are_checked():  # else it was verified after each pass
            verify(kernel)
        if one.name == _LAST_OF_TILES:
            machine = narrowed_for(kernel, machine)
        if one is PASSES[-1]:
            machine = written_for(kernel, machine, whole)
        yield Stage(one.name, kernel, kernel is not before, machine)


def emit(spec: KernelSpec, machine: Machine, *, timings: Timings | None = None) -> EmittedModule:
    """The MLIR module of a spec for one machine, and its launch interface."""
    return Variants(spec, machine.target).emit(machine, timings=timings)


class _Made(NamedTuple):
    """The last stage at the level of tiles, the last one at that of lanes, and the functions that were written of it,
    each for a machine as the emitters see it."""

    tile: Stage
    last: Stage
    functions: list[tuple[Machine, KernelFunction]]

    def function_for(self, machine: Machine) -> KernelFunction:
        """That for a variant whose last stage at the level of tiles is like this one's."""
        seen = written_for(self.last.kernel, self.last.machine, machine)
        known = next((function for one, function in self.functions if differ_in_name(one, seen)), None)
        if known is None:
            known = _function(self.last.kernel, replace(seen, variant=machine.variant))
            self.functions.append((seen, known))
        return known


class Variants:
    """A kernel for the variants of one target: what several of them have in common is done once."""

    def __init__(self, spec: KernelSpec, target: str) -> None:
        self._spec, self._target = spec, target
        self._made: list[_Made] = []
        self._first: IRKernel | None = None

    @cached_property
    def _resolved(self) -> ResolvedKernel:
        return resolve(self._spec, self._target)

    def emit(self, machine: Machine, *, timings: Timings | None = None) -> EmittedModule:
        """The MLIR module for one machine, and its launch interface: the same, whichever others there were before."""
        timings = timings or Timings()
        with naming_target(self._target), without_collecting():
            made = self._made_for(machine, timings)
            function = timings.run("mlir", lambda: made.function_for(machine))
            interface = launch_interface(made.last.kernel, machine, self._resolved)
            module = timings.run("mlir", lambda: function_to_module(function, machine, interface))
            return _checked(module, made.last.kernel, machine)

    def _made_for(self, machine: Machine, timings: Timings) -> _Made:
        if self._first is None:
            self._first = _first_stage(self._resolved, timings)
        stages = _stages(self._first, machine, timings)
        tile = next(stage for stage in stages if stage.name == _LAST_OF_TILES)
        for one in self._made:
            if one.tile.is_like(tile):
                return one
        (last,) = deque(stages, maxlen=1)  # kernels on the way are gone as soon as the next one is there
        self._made.append(_Made(tile, last, []))
        return self._made[-1]


def kernel_to_module(kernel: IRKernel, machine: Machine, resolved: ResolvedKernel) -> EmittedModule:
    """What `emit` makes, of the kernel after all passes."""
    interface = launch_interface(kernel, machine, resolved)
    return _checked(function_to_module(_function(kernel, machine), machine, interface), kernel, machine)


def _function(kernel: IRKernel, machine: Machine) -> KernelFunction:
    try:
        return thread_to_function(kernel, machine)
    except TooLong as error:
        raise too_much_code(error.lines, kernel, machine) from None


def _checked(module: EmittedModule, kernel: IRKernel, machine: Machine) -> EmittedModule:
    """The module, which the compiler behind takes in good time and the machine has room for."""
    check_lines(module.text, kernel, machine)
    if machine.concurrent_waves:
        check_shared(kernel, machine, module.interface.shared_memory_bytes)
    return module


def emit_variant(spec: KernelSpec, machine: Machine) -> KernelArtifact:
    """What `build_variant` makes, without the machine code: the compiler does not run."""
    return emit_variants(spec, (machine,))


def emit_variants(spec: KernelSpec, chosen: Sequence[Machine]) -> KernelArtifact:
    """The same for several variants of one target, joined."""
    variants = Variants(spec, chosen[0].target)
    modules = [variants.emit(machine) for machine in chosen]
    return join_variants(
        [replace(module.interface, binaries=(module.binary(),), compiler=compiler_name()) for module in modules]
    )


def build_variant(
    spec: KernelSpec,
    machine: Machine,
    *,
    intermediates: bool = False,
    timings: Timings | None = None,
    cache: CompileCache | None = None,
) -> tuple[KernelArtifact, Compiled]:
    """Machine code for one machine, and what the compiler dumped on the way; MLIR that ``cache`` knows is not
    compiled again."""
    timings = timings or Timings()
    module = emit(spec, machine, timings=timings)
    with naming_target(machine.target):
        binaries, compiled = timings.run(
            "iree", lambda: module_to_binaries(module, intermediates=intermediates, cache=cache)
        )
    return replace(module.interface, binaries=binaries, compiler=compiler_name()), compiled


def build(
    spec: KernelSpec,
    target: str,
    *,
    cache: CompileCache | None = None,
    only: Machine | None = None,
    cubins: bool = False,
) -> KernelArtifact:
    """The compiled kernel for a target, with all cases and every variant of it (or ``only`` one).

    The cache keeps each case for each machine, whoever asks for it. ``cubins`` adds machine code to PTX where
    ``ptxas`` is found: another one writes other bytes.

    Raises:
        WavespecError: unknown target, or a spec that does not fit the machine.
    """
    chosen = chosen_machines(target) if only is None else (only,)
    cases = cases_on(spec, target, chosen)
    ptxas = find_ptxas() if cubins and chosen[0].backend == "cuda" else None
    cache = cache or CompileCache()

    def of(case: TargetCase) -> list[KernelArtifact]:
        with naming_case(case):
            own = machines_of(case, chosen)
            return [join_variants([build_part(one, machine, cache, ptxas) for machine in own]) for one in case.kernels]

    # The kernel for all sizes comes first: what is wrong with it is no mistake of a case.
    whole = of(cases[-1])
    return join_cases(cases, [*map(of, cases[:-1]), whole])


def part_key(digest: str, machine: Machine, ptxas: str = "", *, code: bool = True) -> str:
    """What the cache keeps the kernel of one case for one machine under.

    Args:
        digest: `spec_digest` of the case.
        ptxas: what assembled it, if any did.
        code: whether it was compiled.
    """
    return cache_key(
        {
            "spec": digest,
            "target": machine.target,
            "variant": machine.variant,
            "wavespec": __version__,
            "sources": fingerprint(),
            "iree": compiler_version(),
            "ptxas": ptxas,
            "code": code,
            "format": FORMAT_VERSION,
        }
    )


def spec_digest(spec: KernelSpec) -> str:
    """64 hex digits that change with what the spec says, its order included, and not with where it was written."""
    text = json.dumps(spec_to_data(spec), separators=(",", ":"))  # half the time that its YAML takes
    return hashlib.sha256(text.encode()).hexdigest()


def build_part(spec: KernelSpec, machine: Machine, cache: CompileCache, ptxas: Path | None = None) -> KernelArtifact:
    """The kernel of one case for one machine, through ``cache``."""
    key = part_key(spec_digest(spec), machine, ptxas_version(ptxas) if ptxas else "")
    part = get_part(cache, key)
    if part is None:
        if ptxas is None:
            part = _build_as_written_out(spec, machine, cache)
        else:
            part = with_cubins(build_part(spec, machine, cache), ptxas)
        put_part(cache, key, part)
    return part


def _build_as_written_out(spec: KernelSpec, machine: Machine, cache: CompileCache) -> KernelArtifact:
    """The bytes that workers make, who have the spec as text in which every statement has a place of its own.

    Those of a part that a graph uses twice share theirs, and machine code for CPUs and AMD says how many there are.
    """
    try:
        return build_variant(loads_plain(dump_yaml(spec)), machine, cache=cache)[0]
    except WavespecError:  # The mistake is shown where it was written.
        return build_variant(spec, machine, cache=cache)[0]


class LaunchedApart(WavespecError, code="launched-apart"):
    def __init__(self, kernel: str, variants: Sequence[str]) -> None:
        names = enumeration(variants)
        super().__init__(
            None,
            f"'{kernel}' is launched in different ways on {names}, and what is built together has one.",
            hints=["Build it for each of them on its own: '--target TARGET:VARIANT'."],
        )


def join_variants(built: Sequence[KernelArtifact]) -> KernelArtifact:
    """One artifact of the same kernel for several variants of its target, best first; a call has to promise what any of
    them relies on.

    Errors: ``launched-apart`` for variants that are launched in different ways.
    """
    if len({replace(one, binaries=(), architecture="", assumptions=()) for one in built}) > 1:
        raise LaunchedApart(built[0].name, [binary.label for one in built for binary in one.binaries])
    return replace(
        built[0],
        architecture="+".join(dict.fromkeys(one.architecture for one in built)),
        assumptions=tuple(dict.fromkeys(assumption for one in built for assumption in one.assumptions)),
        binaries=tuple(binary for one in built for binary in one.binaries),
    )


def join_cases(cases: Sequence[TargetCase], built: Sequence[Sequence[KernelArtifact]]) -> KernelArtifact:
    """One artifact of what was built for each of `cases`, whose last one is for all sizes: of each its kernels, in
    order."""
    *some, (every,) = built
    limits = [_limits(kernels[-1], every) for kernels in built]
    conditions = [(*case_conditions(case, every), *own) for case, own in zip(cases, limits, strict=True)]
    scalars = shaped_by(every.scalars, cases)
    # What a case is chosen by needs no second check, and which outputs start as zeros follows from all sizes.
    joined = [
        replace(
            _joined(kernels, every),
            tensors=every.tensors,
            assumptions=tuple(a for a in _in_dims_of_all(kernels[-1], every) if a not in chosen and not a.of_machine),
            scalars=scalars,
        )
        for kernels, chosen in zip(some, conditions, strict=False)
    ]
    return replace(every, cases=tuple(map(ArtifactCase, conditions, joined)), scalars=scalars)


def _limits(kernel: KernelArtifact, every: KernelArtifact) -> tuple[Assumption, ...]:
    """What the machine that runs a case is limited to, in terms of the dims of all cases."""
    return tuple(one for one in _in_dims_of_all(kernel, every) if one.of_machine)


def _in_dims_of_all(kernel: KernelArtifact, every: KernelArtifact) -> tuple[Assumption, ...]:
    """What a case relies on, in terms of the dims of all cases."""
    known = {dim.name for dim in every.dims}
    sizes: dict[str, SizeExpr] = {dim.name: dim.size for dim in kernel.dims if dim.size is not None}
    own = {name: equals for name, equals in (sizes | kernel.following()).items() if name not in known}
    found: tuple[Assumption, ...] = kernel.assumptions
    for name in reversed(own):  # behind what it follows from
        found = tuple(replace(one, condition=with_expression(one.condition, name, own[name])) for one in found)
    return found


def _joined(kernels: Sequence[KernelArtifact], every: KernelArtifact) -> KernelArtifact:
    """The kernels of a case as one, with the dims of a call."""
    *before, last = kernels
    if not before:
        return last
    known = {dim.name for dim in last.dims}
    dims = (*last.dims, *(dim for dim in every.dims if dim.name not in known))
    # An output of the call is one of all sizes to the step that writes it, too.
    outputs = {tensor.name: tensor for tensor in every.outputs}
    steps = tuple(
        replace(one, tensors=tuple(outputs.get(t.name, t) if t.output else t for t in one.tensors)) for one in kernels
    )
    return replace(last, tensors=every.tensors, dims=dims, binaries=(), tensor_maps=(), steps=steps)


def compile(
    spec: KernelSpec | Family | str | os.PathLike[str],
    target: str = "cpu",
    *,
    member: str = "",
    cache: CompileCache | None = None,
) -> Kernel:
    """A callable on torch tensors: inputs in declaration order or by name, ``out=`` optional.

    On the CPU only the variant that this machine runs best is built.

    Args:
        spec: a spec, the path of one, or a family; of a spec with `dtypes` the kernel of the first types is meant.
        member: of a family the kernel that is meant, `DTYPE=f16,HEAD=64`.

    Returns:
        The kernel. A call returns what it writes: the inputs that it changes in place (`role: inout`), then the
        outputs, both in declaration order; a tuple where there are several.
    """
    from wavespec.runtime.kernel import Kernel

    only = best_variant(target) if target == "cpu" else None
    return Kernel(build(kernel_meant(spec, member), target, cache=cache, only=only, cubins=True))


def best_variant(target: str) -> Machine:
    """The best of `machines` whose features this machine has; the last one where it lacks some of each."""
    from wavespec.runtime.cpu_features import cpu_features

    features = cpu_features()
    every = machines(target)
    return next((machine for machine in every if features.issuperset(machine.requires)), every[-1])
