"""A dim without a tile, or split where it is joined: the lines that the hints name make a kernel of the spec."""

from __future__ import annotations

import re

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

HEAD = """\
apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {}, K: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  places: {shape: [M, K], dtype: i32}
  y: {shape: [M], dtype: f32, role: output}
  z: {shape: [M, N], dtype: f32, role: output}
  w: {shape: [M, K], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
"""
TARGETS = ("cpu", "sm_90", "gfx942", "gfx950")


def spec(graph: str, *tensors: str, split: str = "") -> str:
    """A kernel that has, beside x, the tensors named."""
    unused = {"places", "y", "z", "w"} - set(tensors)
    lines = [line for line in HEAD.splitlines() if line.strip().partition(":")[0] not in unused]
    text = "\n".join([*lines, *([f"  - {split}"] if split else []), "graph:", *graph.strip("\n").splitlines()]) + "\n"
    return text if "places" in tensors or "w" in tensors else text.replace(", K: {}", "")


SUM = """
  - part: {read: x}
  - total: {sum: part, dim: N}
  - {write: total, to: y}
"""
TAKE = """
  - row: {read: x}
  - at: {read: places}
  - one: {take: row, dims: [M, K], at: {N: at}}
  - {write: one, to: w}
"""
DOUBLED = """
  - part: {read: x}
  - two: part * 2
  - {write: two, to: z}
"""
FROM_ELSEWHERE = """
  - one: {read: x, dims: [M, K], at: {N: K}}
  - {write: one, to: w}
"""
SOFTMAX = """
  - part: {read: x}
  - top: {max: part, dim: N}
  - power: exp(part - top)
  - {write: power, to: z}
"""
SPLIT = "{workgroup: N, tile: 64, axis: 1}"


def hints(text: str) -> list[str]:
    """Of the one mistake that every target has."""
    found: set[tuple[str, ...]] = set()
    for target in TARGETS:
        with pytest.raises(WavespecError) as raised:
            lower(loads(text), machines(target)[0])
        (diagnostic,) = raised.value.diagnostics
        found.add(diagnostic.hints)
    ((*said,),) = found
    return said


def build(text: str) -> None:
    """The kernel for every target."""
    for target in TARGETS:
        lower(loads(text), machines(target)[0])


def with_constraint(text: str, line: str) -> str:
    return text.replace("graph:\n", f"  - {line}\ngraph:\n")


def whole(text: str, hint: str) -> str:
    """With the largest size and the one tile that a hint names."""
    match = re.search(
        r"\{(\w+): (\{max: \d+\})\} in 'dims' and, where there are 'constraints', (\{tiling: \w+, tile: \d+\})", hint
    )
    assert match, hint
    dim, largest, tile = match.groups()
    return with_constraint(text.replace(f"{dim}: {{}}", f"{dim}: {largest}"), tile)


def in_a_loop(text: str, hint: str) -> str:
    """With the tiling and the statements that a hint names, in the place of the first two."""
    (tile,) = re.findall(r"\{tiling: \w+, tile: \d+\}", hint)
    start, steps = re.findall(r"'(- .*?)'", hint)
    (last,) = re.findall(r"and '(steps\.\w+)' behind it", hint)
    before, _, graph = text.partition("graph:\n")
    first, _, *rest = graph.splitlines()
    loop = [f"  {start}", f"  {steps.replace('...', first.strip().removeprefix('- '))}"]
    name = last.removeprefix("steps.")
    rest = [line.replace(f"write: {name},", f"write: {last},") for line in rest]
    before = "\n".join(line for line in before.splitlines() if SPLIT not in line)
    return with_constraint("\n".join([before, "graph:", *loop, *rest]), tile)


def test_what_is_joined_takes_a_loop_or_one_tile() -> None:
    loop, one_tile = hints(text := spec(SUM, "y"))
    build(in_a_loop(text, loop))
    build(whole(text, one_tile))


def test_what_is_joined_and_written_takes_two_loops_or_one_tile() -> None:
    loop, second, one_tile = hints(text := spec(SOFTMAX, "z"))
    assert "'- start: {register: [M], dtype: f32, value: -.inf}'" in loop and "softmax.wave.yaml" in second
    build(whole(text, one_tile))


def test_what_is_taken_takes_one_tile() -> None:
    one_tile, read = hints(text := spec(TAKE, "places", "w", split="{workgroup: K, tile: 64, axis: 1}"))
    build(whole(text, one_tile))
    assert "'read' has 'at'" in read


@pytest.mark.parametrize(("graph", "tensors"), [(DOUBLED, ("z",)), (FROM_ELSEWHERE, ("w", "K"))])
def test_what_is_only_written_is_split(graph: str, tensors: tuple[str, ...]) -> None:
    text = spec(graph, *tensors).replace("K: {}", "K: {equals: N}")
    (hint,) = hints(text)
    (line,) = re.findall(r"\{workgroup: \w+, tile: 64, axis: 1\}", hint)
    build(with_constraint(text, line))


def test_what_workgroups_have_parts_of_takes_a_loop_or_a_combining_write() -> None:
    loop, parts = hints(text := spec(SUM, "y", split=SPLIT))
    build(in_a_loop(text, loop))
    assert "docs/splitting.md" in parts
    text = text.replace("role: output", "role: inout").replace("to: y}", "to: y, combine: add}")
    _, combined, _ = hints(text)
    (write,) = re.findall(r"\{write: .*combine: add\}", combined)
    lines = [line for line in text.splitlines() if "total" not in line]
    build("\n".join([*lines, f"  - {write}"]))
