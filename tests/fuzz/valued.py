"""A random spec goes in; the same spec, whose tensors say what they hold, comes out."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from tests.fuzz.graph import RandomSpec
from wavespec.schema.checking.check_values import HOLDING

_INPUT = re.compile(r"  \w+: \{shape: \[([\w, ]*)\], dtype: (\w+)(?!.*role:).*\}")


def valued(spec: RandomSpec, random: Random) -> RandomSpec:
    """The spec with `values` in some of its inputs, within the numbers from -3 to 3 that it computes exactly with."""
    lines = list[str]()
    for line in spec.text.splitlines():
        found = _INPUT.fullmatch(line)
        if found and found[2] in HOLDING and random.random() < 0.6:
            least = 0 if found[2] == "u8" else random.randint(-3, 2)
            fields = [f"min: {least}", f"max: {random.randint(least, 3)}"]
            dims = found[1].split(", ") if found[1] else []
            if dims and random.random() < 0.4:
                fields += ["order: sorted", *([f"along: {random.choice(dims)}"] if random.random() < 0.7 else [])]
            line = f"{line.removesuffix('}')}, values: {{{', '.join(fields)}}}}}"
        lines.append(line)
    return replace(spec, text="\n".join(lines) + "\n")
