"""A kernel of ``specs/`` in; the same with other tiles, waves, stages, roles, orders of tiles and memories, out.

Nothing that is varied changes a result: a variation is right, or a diagnostic says why it cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeVar

import yaml
from torch import Tensor

from tests.kernels import Row, Sizes, Subject, elements_to_tensor, row_of, tensor_to_elements
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines
from wavespec.yaml_loader import read_data

T = TypeVar("T")
Choose = Callable[[Sequence[T]], T]
"""One of some possibilities: drawn by hypothesis, or by a random number."""

SCHEDULES: tuple[dict[str, Any], ...] = (
    {},
    {"stages": 1},
    {"stages": 2},
    {"stages": 3},
    {"stages": 4},
    {"auto": "prefetch"},
    {"waves": {"order": "ping_pong"}},
    {"stages": 2, "waves": {"producers": 1}},
    {"stages": 3, "waves": {"producers": 2}},
)
WORKGROUPS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"group": 2},
    {"persistent": True, "count": 3},
    {"persistent": True, "count": 2, "group": 2},
    {"persistent": True},
    {"split": 2},
    {"persistent": True, "cluster": 2},
)
_TURNS = {"waves": {"producers": 1, "order": "ping_pong"}, "workgroups": {"persistent": True}}
_FACTORS = (1, 1, 1, 1, 2, 4, 8, 0.5, 0.5, 0.25, 0.125)


@dataclass(frozen=True, slots=True)
class Variation:
    """A spec as YAML, for one target."""

    subject: Subject
    target: str
    text: str

    @property
    def params(self) -> dict[str, Any]:
        """As written."""
        return yaml.safe_load(self.text).get("params", {})

    def with_(self, schedule: dict[str, Any], params: dict[str, int]) -> Variation:
        """The same with another schedule, and other values of some params."""
        spec = yaml.safe_load(self.text) | {"schedule": schedule}
        return replace(self, text=yaml.safe_dump(spec | {"params": self.params | params}, sort_keys=False))

    def with_staged(self, tensor: str) -> Variation:
        """The same with a tensor that goes through shared memory."""
        spec = yaml.safe_load(self.text)
        spec["tensors"][tensor]["space"] = "shared"
        return replace(self, text=yaml.safe_dump(spec, sort_keys=False))

    @property
    def spec(self) -> KernelSpec:
        """Checked and resolved, of the case for all sizes."""
        return cases_for_target(loads(self.text, f"{self.subject.name}.wave.yaml"), self.target)[-1].spec

    @property
    def machine(self) -> Machine:
        return machines(self.target)[0]

    def lowered(self) -> Kernel | WavespecError:
        """The thread kernel, whose MLIR can be written as well, or why not."""
        try:
            spec = self.spec
            kernel = lower(spec, self.machine)
            emit(spec, self.machine)
        except WavespecError as error:
            return error
        return kernel

    def check(self, kernel: Kernel, sizes: Sizes) -> None:
        """Assert that there is no race, and that the results are right."""
        inputs = self.subject.inputs(sizes)
        self.subject.check(inputs, simulated(self.subject, kernel, self.machine, sizes, inputs), sizes)


@dataclass(frozen=True, slots=True)
class Varied(Subject):
    """A kernel of the table whose spec is another: what it is given, and what is right, is as the table says."""

    text: str

    @property
    def spec(self) -> KernelSpec:
        return _spec(self.text)

    @property
    def row(self) -> Row:
        """What is known of the kernel; a plan may add up all products of a sum in one chain, which torch does in
        sixteen where a matrix has one row or column, so that errors of three units are nobody's mistake."""
        row = row_of(self.file, self.name)
        return replace(row, least_ulps=max(row.least_ulps, 3.0)) if "mma:" in self.text else row


@lru_cache(64)
def _spec(text: str) -> KernelSpec:
    return loads(text, "varied.wave.yaml")


def simulated(
    subject: Subject, kernel: Kernel, machine: Machine, sizes: Sizes, inputs: Sequence[Tensor], **scalars: float
) -> list[Tensor]:
    """What a call that passes `scalars` writes; asserts that there is no race."""
    tensors = subject.spec.tensors
    names = (name for name, tensor in tensors.items() if tensor.role != "output")
    arrays = {name: tensor_to_elements(tensor, tensors[name].dtype) for name, tensor in zip(names, inputs, strict=True)}
    report = simulate(kernel, machine, arrays, sizes, scalars=numbers_of_scalars(subject.spec, sizes, scalars))
    assert report.ok, f"{dict(sizes)}:\n{report.render()}"
    return [elements_to_tensor(report.tensors[name], tensors[name].dtype) for name in subject.written]


@cache
def _base(subject: Subject, target: str) -> str:
    """The kernel for all sizes, as text."""
    return dump_yaml(subject.cases(target)[-1].spec)


def variation(subject: Subject, target: str, choose: Choose[Any]) -> Variation:
    """One of the kernel for all sizes."""
    spec = read_data(_base(subject, target))
    spec.pop("targets", None)
    meant = str([spec[part] for part in ("dims", "tensors", "graph")])
    for name, value in spec.get("params", {}).items():
        if isinstance(value, int) and not re.search(rf"\b{name}\b", meant):
            spec["params"][name] = max(1, int(value * choose(_FACTORS)))
    for tensor in spec["tensors"].values():
        if choose((False,) * 9 + (True,)):
            tensor["space"] = "global" if tensor.get("space") == "shared" else "shared"
    if choose((False, True)):
        workgroups = choose(WORKGROUPS)
        spec["schedule"] = dict(choose(SCHEDULES)) | ({"workgroups": workgroups} if workgroups else {})
        if choose((False,) * 7 + (True,)):
            spec["schedule"] = _TURNS
    return Variation(subject, target, yaml.safe_dump(spec, sort_keys=False))
