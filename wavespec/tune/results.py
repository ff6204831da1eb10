"""What is to be measured, and what was measured so far: one JSON file, whole after every measurement.

A bundle has ``plan.json``: the kernel, its workloads, and the candidates of each. ``results.json`` is the same with
the machine and the measurements, so that it says by itself what it is about.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wavespec.runtime.files import replace_file
from wavespec.tune.held_numbers import Held

FORMAT: Final = 3
PLAN: Final = "plan.json"
RESULTS: Final = "results.json"
UNTUNED: Final = "untuned"
"""The candidate with the settings of the spec itself."""
FINAL_ROUNDS: Final = 3
"""Rounds in which the best candidates are measured again, in turns, on fresh inputs; round 0 measures every one."""
FINALISTS: Final = 4


class ResultsError(Exception):
    """A file that is no plan and no results; the text says why."""


@dataclass(frozen=True, slots=True)
class Results:
    """The file at `path`, as far as it was written."""

    path: Path
    data: dict[str, Any]

    @property
    def workloads(self) -> list[dict[str, Any]]:
        return self.data["workloads"]

    def names(self, workload: int) -> list[str]:
        """Candidates of a workload, most promising first."""
        return [candidate["name"] for candidate in self.workloads[workload]["candidates"]]

    def begin(self, workload: int, candidate: str) -> None:
        """Note what is about to run, for whoever finds that the process is gone."""
        self.data["running"] = {"workload": workload, "candidate": candidate}
        self.save()

    def add(self, workload: int, candidate: str, **found: Any) -> None:
        """Keep a measurement (`round`, `microseconds`) or a `problem`."""
        self.data["running"] = None
        self.data["measurements"].append({"workload": workload, "candidate": candidate, **found})
        self.save()

    def problem(self, workload: int, candidate: str) -> str | None:
        found = self._of(workload, candidate, "problem")
        return found[0] if found else None

    def has(self, workload: int, candidate: str, number: int) -> bool:
        """Whether nothing is left to do for a candidate in a round."""
        return self.problem(workload, candidate) is not None or any(
            entry["round"] == number for entry in self._entries(workload, candidate)
        )

    def best(self, workload: int, candidate: str) -> float | None:
        """Microseconds: the smallest median of the rounds that count; `None` where there is none."""
        if self.problem(workload, candidate) is not None:
            return None
        rounds = {entry["round"]: entry["microseconds"] for entry in self._entries(workload, candidate)}
        finals = [time for number, time in rounds.items() if number > 0]
        return min(finals or rounds.values(), default=None)

    def finalists(self, workload: int) -> list[str]:
        """The candidates that were fastest in round 0, and the settings of the spec."""
        first = {
            entry["candidate"]: entry["microseconds"]
            for entry in self.data["measurements"]
            if entry["workload"] == workload and entry.get("round") == 0
        }
        ranked = [name for name in sorted(first, key=lambda name: first[name]) if not self.problem(workload, name)]
        chosen = ranked[:FINALISTS]
        return chosen + [name for name in ranked[FINALISTS:] if name == UNTUNED]

    def spread(self, workload: int, candidate: str) -> float:
        """How far the rounds of a candidate lie apart, as a part of their median."""
        times = [entry["microseconds"] for entry in self._entries(workload, candidate) if entry["round"] > 0]
        return (max(times) - min(times)) / statistics.median(times) if times else 0.0

    def _entries(self, workload: int, candidate: str) -> list[dict[str, Any]]:
        return [
            entry
            for entry in self.data["measurements"]
            if (entry["workload"], entry["candidate"]) == (workload, candidate) and "round" in entry
        ]

    def _of(self, workload: int, candidate: str, key: str) -> list[Any]:
        return [
            entry[key]
            for entry in self.data["measurements"]
            if (entry["workload"], entry["candidate"]) == (workload, candidate) and key in entry
        ]

    def save(self) -> None:
        """Write the file, whole or not at all."""
        replace_file(self.path, (json.dumps(self.data, indent=1) + "\n").encode())


def load_results(path: Path) -> Results:
    """Results or a plan, checked in form.

    Raises:
        ResultsError: it cannot be read, or is something else.
    """
    try:
        data: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not _is_complete(data):  # pyright: ignore
        raise ResultsError(f"{path.name} is not what 'wavespec tune' of this version writes")
    return Results(path, data)  # pyright: ignore[reportUnknownArgumentType]


def start_or_resume(folder: Path) -> Results:
    """The results of the bundle in `folder`; what an earlier run measured of the same plan is kept."""
    plan = load_results(folder / PLAN)
    path = folder / RESULTS
    if path.exists():
        earlier = load_results(path)
        if earlier.data["key"] == plan.data["key"]:
            # The plan may have grown since.
            kept = {name: earlier.data[name] for name in ("machine", "measurements")}
            return Results(path, {**plan.data, **kept})
    return Results(path, plan.data)


def _is_complete(data: dict[str, Any]) -> bool:
    try:
        texts = (data["key"], data["kernel"], data["target"], data["machine"])
        workloads = [
            (dict(workload["sizes"]), list(workload["when"]), [str(one["name"]) for one in workload["candidates"]])
            for workload in data["workloads"]
        ]
        for entry in (entry for workload in data["workloads"] for entry in dict(workload["holds"]).values()):
            Held(**entry)
        names = [(set(found), len(found)) for _, _, found in workloads]
        return (
            all(isinstance(text, str) for text in texts)
            and all(len(distinct) == count for distinct, count in names)
            and all(_is_measurement(entry, [found for _, _, found in workloads]) for entry in data["measurements"])
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _is_measurement(entry: dict[str, Any], candidates: list[list[str]]) -> bool:
    known = 0 <= entry["workload"] < len(candidates) and entry["candidate"] in candidates[entry["workload"]]
    timed = isinstance(entry.get("round"), int) and isinstance(entry.get("microseconds"), int | float)
    return known and ((timed and entry["microseconds"] > 0) or isinstance(entry.get("problem"), str))
