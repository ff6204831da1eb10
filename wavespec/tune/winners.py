"""Measurements go in; the text of the tuned file, with the best settings per range of sizes, comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavespec.diagnostics import WavespecError, quote, raise_all
from wavespec.schema import KernelSpec
from wavespec.schema.language.conditions import are_implied
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.models import API_VERSION
from wavespec.schema.reading.spec_to_yaml import data_to_yaml, spec_to_data
from wavespec.schema.reading.tuned import TunedSpec
from wavespec.schema.reading.yaml_source import yaml_to_nodes
from wavespec.schema.reading.yaml_to_spec import nodes_to_tuned
from wavespec.schema.resolve import constant_values, spec_for_target
from wavespec.tune.results import UNTUNED, Results

_LEAST_GAIN = 1.02
"""What is faster by less is not worth another kernel."""


class ResultsOfAnother(WavespecError, code="results-of-another"):
    """Results that were measured of another kernel, or of another version of this one."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The best candidate of a workload; `entry` is its case, or None where the spec's own settings are as good."""

    sizes: dict[str, int]
    when: list[str]
    words: str
    microseconds: float
    untuned: float | None
    spread: float
    """How far rounds of the same settings lie apart, as a part of their median: noise of the machine."""
    entry: dict[str, Any] | None


def check_results(results: Results, kernel: str, target: str, digest: str) -> None:
    """Raises:
    ResultsOfAnother: the results are not about this kernel on this target.
    """
    data = results.data
    for what, theirs, ours in (("kernel", data["kernel"], kernel), ("target", data["target"], target)):
        if theirs != ours:
            raise ResultsOfAnother(
                results.path.name, f"These are results for the {what} {quote(theirs)}, not {quote(ours)}."
            )
    if data["digest"] != digest:
        hints = ["Make a new bundle and measure that."]
        message = f"These are results for another version of {kernel}: its spec has changed since."
        raise ResultsOfAnother(results.path.name, message, hints=hints)


def winners(results: Results) -> list[Winner]:
    """The best of every workload of which something was measured."""
    found: list[Winner] = []
    for index, workload in enumerate(results.workloads):
        times = {name: results.best(index, name) for name in results.names(index)}
        measured = {name: time for name, time in times.items() if time is not None}
        if not measured:
            continue
        untuned = measured.get(UNTUNED)
        best = min(measured, key=lambda name: measured[name])
        if untuned is not None and untuned < _LEAST_GAIN * measured[best]:
            best = UNTUNED
        candidate = next(one for one in workload["candidates"] if one["name"] == best)
        timing = {"sizes": workload["sizes"], "tuned": measured[best]}
        if untuned is not None:
            timing["untuned"] = untuned
        figures = {"machine": results.data["machine"], "timings": [timing]}
        settings = candidate["settings"]
        entry = None if settings is None else {"when": workload["when"], **settings, "measured": figures}
        spread = max(results.spread(index, name) for name in {best, UNTUNED} & set(measured))
        sizes, when, words = workload["sizes"], workload["when"], candidate["words"]
        found.append(Winner(sizes, when, words, measured[best], untuned, spread, entry))
    return found


def tuned_text(spec: KernelSpec, target: str, found: Sequence[Winner], earlier: TunedSpec | None) -> str | None:
    """The tuned file: the winners for `target`, then what an earlier file has for other sizes and other targets.

    None where that is nothing.

    Raises:
        WavespecError: entries that are no cases, such as of results that were edited.
    """
    targets: dict[str, Any] = {
        name: [spec_to_data(case) for case in cases] for name, cases in (earlier.targets.items() if earlier else ())
    }
    entries = [winner.entry for winner in found if winner.entry is not None]
    targets[target] = [*entries, *_kept(spec, target, found, targets.get(target, []))]
    if not any(targets.values()):
        return None
    data = {"apiVersion": API_VERSION, "kind": "Tuned", "kernel": spec.name, "targets": targets}
    text = f"# Written by 'wavespec tune'.\n{data_to_yaml(data)}"
    node, mistakes = yaml_to_nodes(text, "results")
    _, errors = nodes_to_tuned(node)
    raise_all([*mistakes, *errors])
    return text


def _kept(
    spec: KernelSpec, target: str, found: Sequence[Winner], earlier: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of `earlier` that have sizes of their own beside those of the winners."""
    plain = spec_for_target(spec, target)
    values = constant_values(plain)
    new = [[parse_expression(condition) for condition in winner.when] for winner in found]
    kept: list[dict[str, Any]] = []
    for entry in earlier:
        when = [parse_expression(str(condition)) for condition in entry["when"]]
        if not any(are_implied(conditions, when, plain.dims, values) for conditions in new):
            kept.append(entry)
    return kept
