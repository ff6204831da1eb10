"""PTX in, PTX out: a kernel whose launch may begin before the launch in front of it has ended.

It waits for that one right before it first touches memory that others see.  The workgroups of a launch then take the
places of those in front of them as soon as the last of these is through, and set up barriers in shared memory, and
numbers that sizes and places are made of, while what those wrote goes to memory.

It is done to the text, since compilers may move loads of what a kernel never writes over an instruction that they do
not know:
https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-griddepcontrol
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WAIT = "\tgriddepcontrol.wait;"

# Of memory that nobody writes while the kernel is there: assemblers move those that no loop keeps over the wait.
_CONSTANT_LOAD, _LOAD = "ld.global.nc", "ld.global"

_OWN = re.compile(
    r"(mov|cvt|cvta|ld\.param|and|or|xor|not|shl|shr|shf|add|sub|mul|mad|div|rem|min|max|neg|abs|setp|selp|prmt|lop3|bfe|bfi|"
    r"fma|shfl\.sync|mapa|mbarrier\.init|fence\.mbarrier_init|fence\.proxy|bar\.sync|bar\.warp\.sync|barrier\.cluster|"
    r"prefetch\.tensormap)\b|\.reg\b"
)
"""Instructions that touch registers, parameters and shared memory alone, or wait for waves of the same launch; descriptors
are parameters."""
_BRANCH = re.compile(r"@!?%p\d+ bra(?:\.uni)?\s+(?P<label>\$\w+)$")
_JUMP = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)")
_LABEL = re.compile(r"(?P<label>\$\w+):$")
_GUARD = re.compile(r"@!?%p\d+\s+")


def with_launch_overlap(ptx: str) -> str:
    """``ptx`` of one kernel, which waits for the launch in front of it.

    Raises:
        ValueError: a text without a kernel.
    """
    lines = ptx.split("\n")
    start = _first_instruction(lines)
    wait = start + _shared_by_all(lines[start:])
    loop = wait + _first_loop(lines[wait:])
    in_front = (line.replace(_CONSTANT_LOAD, _LOAD) for line in lines[wait:loop])
    return "\n".join([*lines[:wait], WAIT, *in_front, *lines[loop:]])


def _first_instruction(lines: Sequence[str]) -> int:
    entry = next((number for number, line in enumerate(lines) if ".entry" in line), None)
    if entry is None:
        raise ValueError("The PTX has no kernel.")
    body = lines.index("{", entry) + 1
    return body + next(n for n, line in enumerate(lines[body:]) if line.strip() and not line.lstrip().startswith("."))


def _shared_by_all(lines: Sequence[str]) -> int:
    """How many lines each lane has behind it, or has jumped over, before one touches memory that others see."""
    passed, ahead = 0, set[str]()
    for number, line in enumerate(lines):
        for statement in _statements(line):
            if branch := _BRANCH.match(statement):
                ahead.add(branch["label"])
            elif label := _LABEL.match(statement):
                if label["label"] not in ahead:
                    return passed  # it is jumped to from behind
                ahead.discard(label["label"])
            elif not _OWN.match(_GUARD.sub("", statement)):
                return passed
        if not ahead:
            passed = number + 1
    return passed


def _first_loop(lines: Sequence[str]) -> int:
    """How many lines stand in front of the first label that is jumped to from behind."""
    labels = {found["label"]: number for number, line in enumerate(lines) if (found := _LABEL.match(line.strip()))}
    jumps = ((number, found[1]) for number, line in enumerate(lines) if (found := _JUMP.search(line)))
    back = (labels[label] for number, label in jumps if label in labels and labels[label] < number)
    return min(back, default=len(lines))


def _statements(line: str) -> Iterator[str]:
    return (one.strip() for one in line.partition("//")[0].split(";") if one.strip())
