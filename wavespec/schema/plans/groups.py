"""What an entry of a table says of a spec whose rows are neighbours goes in; what it says of the spec that a call has,
in which these are elements of one dim, comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wavespec.schema.language.constraints import AnyConstraint, Assume, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.plans.roles import Roles


def asked_of_groups(roles: Roles, texts: Iterable[str]) -> Iterator[str]:
    """Conditions in dims that a call has; the first one is that groups are whole."""
    if roles.neighbours is None:
        yield from texts
        return
    yield _whole(roles.neighbours)
    for text in texts:
        for name, size in roles.following.items():
            text = re.sub(rf"\b{name}\b", f"({size})", text)
        yield text


def override_of_groups(roles: Roles, override: Mapping[str, Any]) -> dict[str, Any]:
    """What replaces parts of the spec, with the rows as the schedule packs them."""
    if roles.neighbours is None:
        return {**override}
    of, shared = roles.neighbours
    schedule = {**override.get("schedule", {}), "pack": {of: (of, shared)}}
    constraints = (
        *_constraints(roles, override["constraints"]),
        Assume(condition=parse_expression(_whole((of, shared)))),
    )
    return {**override, "constraints": constraints, "schedule": schedule}


def _whole(neighbours: tuple[str, str]) -> str:
    of, shared = neighbours
    return f"{of} % {shared} == 0"


def _constraints(roles: Roles, constraints: Iterable[AnyConstraint]) -> Iterator[AnyConstraint]:
    """Those of dims that both specs have, with the rows under the name of what they are of."""
    assert roles.neighbours is not None
    of, shared = roles.neighbours
    for one in constraints:
        if isinstance(one, Workgroup | Wave) and one.dim == roles.rows:
            yield one.model_copy(update={"dim": of})
        elif not isinstance(one, Workgroup | Wave) or one.dim not in (shared, *roles.following):
            yield one
