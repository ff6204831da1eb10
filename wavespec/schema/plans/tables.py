"""The kind of a kernel and a target go in; the entries of its table, groups written out and words known, come out.

`tables/KIND.yaml` has, for each target, lists of *entries*: tiles, and what goes with them, of kernels that say none.
`cases` are looked at in their order, and a call takes the first whose conditions hold; the sizes that are left take the
first of `every` that is for the kernel.  An entry has

    when      conditions, all of which have to hold: on sizes (`SIZES`) and on the kernel (`FACTS`), both in facts.py,
              on names of `let`, on `processors` and `lanes` of the target, and on `window`, each dim of windows;
              `{any: [rows <= 64, tiles <= processors]}` is a condition of which one part has to hold
    least     what a call takes by the entry, as of cases: of neighbours that have it the least one is taken
    tile      elements of a workgroup's tile, by role, of `batch` its last dim; `tile_rows` in `let` and `least`
    wave, vector                    those of a wave, and of neighbours of a lane
    aligned   whose rows start where a widest access may: of `all` tensors, of `operands`; `either`: two entries, for
              all and for rows that start anywhere; `most`: two, for all and for operands; `staged`: of operands, and
              of scales; `before`: of operands also before they are laid out; `boxes`: and tensors have elements
    pixels    what is mapped has a multiple of so many elements beside each other, and steps have no others
    staged    `false`: lanes read operands where they are; `rows`: only tensors of rows are staged; `columns`:
              only those of columns
    share     workgroups of a cluster share out the steps of tiles that have so many `steps`, `by` the first number for
              which the clusters of all tiles run at once: a workgroup for each processor, or so many `workgroups`
    mma, schedule                   as in a spec, by role; `pack: true`: rows are those of all heads that share keys;
              `shift: 64`: taps are rows further down, of so many channels at a time
    words     of a value, where rows fill more registers than the limit; `short`: of a wave's part of one
    room      bytes of staged tiles; `waiting: once`: operands that no step has a part of have one buffer
    columns_first                   the grid counts columns first
    variants                        of the target that it is for alone, as of cases

and where it is a group, `cases`, which have its conditions and all else that they do not say themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from wavespec.schema.plans.facts import FACTS, SIZES
from wavespec.schema.plans.roles import Kind
from wavespec.targets.names import VARIANTS
from wavespec.yaml_loader import read_data

Entry = Mapping[str, Any]

_ROLES: Final = ("rows", "columns", "lines", "batch", "walked", "steps", "whole")
_FIELDS: Final = frozenset(
    (
        *("when", "least", "tile", "wave", "vector", "aligned", "pixels", "staged", "share", "mma", "schedule"),
        *("words", "short", "room", "waiting", "columns_first", "variants"),
    )
)
OF_TARGET: Final = ("processors", "lanes")
"""Limits that conditions and numbers may name."""
_FUNCTIONS: Final = ("min", "max", "ceildiv")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_ANY: Final = re.compile(r"(.+) <= (.+)")


@dataclass(frozen=True, slots=True)
class Table:
    """Entries for one kind of kernel on one target, and for which sizes kernels of their own come before them."""

    limits: Entry
    """What a workgroup of the target has room for, as `limits.yaml` says."""
    every: tuple[Entry, ...]
    """For the sizes that are left; the first that is for the kernel."""
    cases: tuple[Entry, ...] = ()
    let: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names for expressions of sizes, facts and each other."""
    decoded_once: tuple[str, ...] | None = None
    """Sizes for which kernels of their own write what is decoded, where they can; None for none."""
    decoded_across: int | None = None
    """What is decoded across steps meets at most so many elements of the other side in the loop that decodes it,
    whatever `decoded_once` says."""
    columns_once: tuple[str, ...] | None = None
    """Those for which one writes columns that lie across steps, where rows are decoded too."""
    sums_before: tuple[str, ...] | None = None
    """Those for which kernels of their own make the sums of rows and of columns that the loop of a product carries."""
    product_beside: tuple[str, ...] | None = None
    """Those for which kernels of their own make products of the same rows and few columns beside another one."""
    product_before: tuple[str, ...] | None = None
    """Those for which a kernel makes the product alone, and another one joins its columns, a row in each wave."""
    product_before_narrow: tuple[str, ...] = ()
    """Further conditions for 16 bits and short rows."""
    along_steps: tuple[str, ...] | None = None
    """Those for which kernels of their own lay out bytes along the steps."""
    laid_out: tuple[Entry, ...] = ()
    """For what is multiplied then."""
    vectors: tuple[Entry, ...] = ()
    """For products whose results, and one operand, lie side by side along columns: lanes multiply what they read."""
    turned: tuple[Entry, ...] = ()
    """For products that decode their columns in registers."""
    grouped: tuple[Entry, ...] = ()
    """For specs without products whose sums are such of neighbours that share what is read, which are rows."""


_LISTS: Final = ("every", "cases", "laid_out", "vectors", "turned", "grouped")
_SIZES_FOR: Final = (
    *("decoded_once", "columns_once", "sums_before", "product_beside", "product_before", "product_before_narrow"),
    "along_steps",
)


@cache
def table_of(kind: Kind, target: str) -> Table | None:
    """Its table; None where the target has none, and other tables are for such kernels.

    Raises:
        ValueError: of a table with a field, a role or a word that means nothing.
    """
    written = _read(kind).get(target)
    if written is None:
        return None
    lists = {name: tuple(_entries(written.get(name, ()))) for name in _LISTS}
    sizes = {name: tuple(map(_condition, written[name])) for name in _SIZES_FOR if name in written}
    let = {name: str(text) for name, text in written.get("let", {}).items()}
    fields: Mapping[str, Any] = {**lists, **sizes, "let": let, "decoded_across": written.get("decoded_across")}
    table = Table(_read("limits")[target], **fields)
    _check(kind, target, written, table)
    return table


def _read(name: str) -> Mapping[str, Any]:
    text = (resources.files("wavespec.schema.plans") / "tables" / f"{name}.yaml").read_text("utf-8")
    return read_data(text)


def _entries(written: Iterable[Entry], around: Entry | None = None) -> Iterator[Entry]:
    """Entries without groups; those for rows of several kinds are one for each."""
    for one in written:
        own = {**one, "when": [*map(_condition, one.get("when", ()))]}
        entry = _over(around or {}, {name: value for name, value in own.items() if name != "cases"})
        if "cases" in one:
            yield from _entries(one["cases"], entry)
        elif entry.get("aligned") == "either":
            yield {**entry, "aligned": "all"}
            yield {name: value for name, value in entry.items() if name != "aligned"}
        elif entry.get("aligned") == "most":
            yield {**entry, "aligned": "all"}
            yield {**entry, "aligned": "operands"}
        else:
            yield entry


def _over(around: Entry, own: Entry) -> dict[str, Any]:
    """What a group says with what an entry in it says over it, key by key; its conditions come first."""
    made = dict(around)
    for name, value in own.items():
        if name == "when":
            made[name] = [*around.get(name, ()), *value]
        else:
            both = isinstance(value, dict) and isinstance(around.get(name), dict)
            made[name] = _over(around[name], cast("Entry", value)) if both else value
    return made


def _condition(written: str | Mapping[str, Sequence[str]]) -> str:
    """As text: one of several holds where the least of how far each is from that is not above 0."""
    if not isinstance(written, Mapping):
        return str(written)
    sides = [_ANY.fullmatch(one) for one in written["any"]]
    assert all(sides), f"parts of {written} are 'x <= y'"
    return f"min({', '.join(f'{side[1]} - ({side[2]})' for side in sides if side)}) <= 0"


def _check(kind: Kind, target: str, written: Entry, table: Table) -> None:
    known = {*FACTS, *SIZES, *_FUNCTIONS, *OF_TARGET, *table.let, "window", *(f"tile_{role}" for role in _ROLES)}
    entries = [entry for name in _LISTS for entry in getattr(table, name)]
    texts = [text for name in _SIZES_FOR for text in getattr(table, name) or ()]
    texts += [*table.let.values(), *(str(text) for one in entries for text in (*one["when"], one.get("least", 0)))]
    strange = {word for text in texts for word in _WORD.findall(text)} - known
    strange |= {name for one in entries for name in one} - _FIELDS | written.keys() - {
        *_LISTS,
        *_SIZES_FOR,
        "let",
        "decoded_across",
    }
    strange |= {role for one in entries for role in one.get("tile", {})} - {*_ROLES}
    strange |= {name for one in entries for name in one.get("variants", ())} - {*VARIANTS[target]}
    if strange:
        raise ValueError(f"table of {kind} on {target}: {', '.join(sorted(strange))}")
