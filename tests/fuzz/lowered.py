"""A text goes in; whether it is a spec, and whether each machine takes it or says why not, comes out."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.fuzz.broken_texts import FOLDER, check_diagnostics
from tests.fuzz.judge import SECONDS, time_limit
from tests.fuzz.mutations import nodes, parent
from wavespec.check_builds import Part, problems
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import spec_digest
from wavespec.schema import loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.resolve import targets_of
from wavespec.targets.machine import machines

_MOST_TRIES = 60
"""Of making a text smaller."""


BUILDS: set[str] = set()
"""Keys of parts that became MLIR: what is changed for one target leaves those of the others as they were."""


@dataclass(slots=True)
class Found:
    """Failures by the place that they come from; of each the shortest text."""

    counts: Counter[str] = field(default_factory=Counter[str])
    texts: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, place: str, text: str) -> None:
        self.counts[place] += 1
        if place not in self.texts or len(text) < len(self.texts[place]):
            self.texts[place] = text


def judge_text(text: str) -> str:
    """The outcome in a word; raises where neither a kernel nor a diagnostic comes out, or too late."""
    try:
        with time_limit(SECONDS):
            spec = loads(text, "fuzz", directory=FOLDER)
    except WavespecError as error:
        check_diagnostics(error)
        return "diagnosed"
    built = 0
    for target in targets_of(spec):
        with time_limit(SECONDS):
            cases = cases_for_target(spec, target)
        # Variants of a machine differ in instructions: the last one is what most people have.
        for case in cases[-2:]:
            part = Part(case, case.spec, machines(target)[-1], spec_digest(case.spec))
            if (key := part.key) in BUILDS:
                built += 1
                continue
            with time_limit(SECONDS):
                found = problems(part)
            assert all(one.message.strip() and (one.span or one.where) for one in found)
            if not found:
                built += 1
                BUILDS.add(key)
    return "builds" if built else "refused"


def failure_of(text: str, judge: Callable[[str], object] = judge_text) -> str | None:
    """Where the failure of a text comes from, as ``KeyError in indices.py, compute``; None where it has an outcome."""
    try:
        judge(text)
    except Exception as error:  # whatever it is, it is what is searched for
        return place_of(error)
    return None


def place_of(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, TimeoutError | MemoryError | RecursionError):
        return name
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "wavespec" in Path(one.filename).parts]
    where = f"{Path(frames[-1].filename).name}, {frames[-1].name}" if frames else "the fuzzer"
    words = str(error).split(":")[0] if name == "VerificationError" else ""
    return f"{name} in {where}" + (f" ({words})" if words else "")


def smaller(text: str, place: str, judge: Callable[[str], object] = judge_text) -> str:
    """The text with all nodes taken out without which it fails in the same place."""
    tree, tries = yaml.safe_load(text), 0
    if place == "TimeoutError":
        return text
    again = True
    while again and tries < _MOST_TRIES:
        again = False
        for path, _ in sorted(nodes(tree), key=lambda node: len(node[0])):
            tries += 1
            if tries > _MOST_TRIES:
                break
            try:
                kept = yaml.safe_load(yaml.safe_dump(tree, sort_keys=False))
                del parent(kept, path)[path[-1]]
            except (KeyError, IndexError, TypeError):
                continue
            if failure_of(yaml.safe_dump(kept, sort_keys=False), judge) == place:
                tree, again = kept, True
    return yaml.safe_dump(tree, sort_keys=False)
