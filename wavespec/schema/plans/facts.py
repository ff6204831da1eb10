"""A kernel and the roles of its dims go in; what conditions and numbers of the tables ask of it comes out, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.constraints import Hardware
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Mma, Read, Repeat, every
from wavespec.schema.plans.roles import Roles

_ALONG_ANY: Final = 16
"""Bits of elements that matrix units read themselves along any dim; of fewer bits, along steps."""
OPEN: Final = (None, "auto")
"""What leaves it to the compiler which instruction multiplies."""

Of = Callable[[KernelSpec, Roles], object]
"""A dim, as its name; a number; or a flag, 1 where it is so."""

SIZES: Final[Mapping[str, tuple[str, Of]]] = {
    "rows": ("the dim of results along the first side", lambda _, roles: roles.rows or "1"),
    "columns": ("that along the second one, whose elements lie side by side", lambda _, roles: roles.columns or "1"),
    "steps": ("the dim of the main loop", lambda _, roles: roles.steps[0] if roles.steps else "1"),
    "walked": ("that of the loop around it", lambda _, roles: roles.walked[0] if roles.walked else "1"),
    "whole": ("a dim that a value needs all of, outside of loops; of two the longer", lambda _, roles: _whole(roles)),
    "batch": ("workgroups that further dims of results make", lambda _, roles: " * ".join(roles.alone)),
    "bins": ("elements of the tensor in which elements are counted", lambda _, roles: " * ".join(roles.counted) or "0"),
    "shared": (
        "neighbours that share what is read, as heads do keys",
        lambda _, roles: f"ceildiv({roles.heads[0]}, {roles.heads[1]})" if roles.heads else "1",
    ),
    "rows_divisor": (
        "the least of the sizes that take places along rows apart, 0: none",
        lambda _, roles: roles.least_divisor("rows"),
    ),
    "columns_divisor": ("the same along columns", lambda _, roles: roles.least_divisor("columns")),
}
"""What a call decides."""

FACTS: Final[Mapping[str, tuple[str, Of]]] = {
    # of elements
    "bits": ("bits of an element of what is multiplied, else of what is read most", lambda _, roles: roles.bits),
    "narrow": ("bits of an element of the smallest type", lambda spec, _: _narrowest(spec)),
    "f8": ("all operands are of f8", lambda spec, roles: _are_f8(spec, roles)),
    # of products
    "products": ("sums of products beside each other", lambda _, roles: roles.products),
    "named": ("the spec says what multiplies", lambda spec, _: names_instruction(spec)),
    "direct": (
        "the matrix unit may read operands as they lie",
        lambda _, roles: roles.bits == _ALONG_ANY or (roles.bits < _ALONG_ANY and roles.pixels),
    ),
    "contiguous": ("operands lie side by side along steps", lambda _, roles: roles.contiguous),
    "rows_last": ("an operand lies side by side along rows", lambda _, roles: roles.rows in roles.last),
    "columns_last": ("an operand lies side by side along columns", lambda _, roles: roles.columns in roles.last),
    "mapped": ("elements of an operand are found by a mapping", lambda _, roles: bool(roles.mapped)),
    "pixels": ("those lie side by side along steps, maybe not along all", lambda _, roles: roles.pixels),
    "shifted": ("taps that are rows further down, if rows have room; 0: none", lambda _, roles: roles.shifted),
    "looked_up": ("places of what is read are values beside it", lambda _, roles: roles.looked_up),
    "beside": ("lanes compute with an operand as well", lambda _, roles: roles.beside),
    "behind": ("products behind the loop take what it has summed", lambda _, roles: roles.behind),
    "joined": ("ops join columns of a product, all of which a workgroup has", lambda _, roles: roles.joined),
    "row_words": (
        "words of 32 bits of the largest value that is made of a row then",
        lambda _, roles: roles.row_words if roles.joined or roles.apart else 0,
    ),
    "common": (
        "operands of different products are the same elements",
        lambda _, roles: len(roles.units_stage) < len(roles.staged),
    ),
    "split": ("workgroups may share out the steps of products", lambda _, roles: roles.split),
    # of products whose operands are made
    "decoded": ("an operand, or its places, are computed, or it is scaled", lambda _, roles: roles.decoded),
    "made": ("how many operands are decoded", lambda _, roles: roles.made),
    "across": ("what is decoded lies side by side along another dim than steps", lambda _, roles: roles.across),
    "scaled": ("sums of blocks along steps are scaled", lambda _, roles: roles.block > 0),
    "round": ("scales are turned round, so that their rows are aligned", lambda _, roles: roles.round),
    "once": (
        "bits of what kernels before could decode, which for these sizes is not done; 0: nothing",
        lambda _, roles: roles.decoded_once.bits if roles.decoded_once else 0,
    ),
    "summed": ("loops carry sums that kernels before could make", lambda _, roles: roles.with_sums is not None),
    "rows_laid": ("operands of rows are laid out before", lambda spec, roles: roles.rows in _laid(spec, roles)),
    "columns_laid": ("those of columns are", lambda spec, roles: roles.columns in _laid(spec, roles)),
    "alone": ("the product is a kernel, and another one joins its columns", lambda _, roles: bool(roles.apart)),
    # of loops without products
    "sums": ("loops do nothing but join elements, in any order", lambda _, roles: roles.sums),
    "single": ("loops are over all of one dim, and nothing decides what runs", lambda _, roles: roles.single),
    "loops": ("how many loops there are", lambda _, roles: roles.loops),
    "sweeps": ("how many of them are over `steps`", lambda _, roles: roles.sweeps),
    "parted": ("a kernel before may join parts of the dim of the loop", lambda _, roles: roles.parted),
    "walk_parted": ("it may join parts of `walked`", lambda _, roles: roles.walk_parted),
    "walks": ("loops have a further dim, `walked`", lambda _, roles: bool(roles.walked)),
    "ragged": ("values say where loops begin and end", lambda _, roles: bool(roles.uniform)),
    "largest": ("how many largest elements are looked for, at most", lambda _, roles: roles.largest),
    "along": ("what is read lies side by side along a dim that is whole", lambda _, roles: roles.along),
    "line": ("tensors have one dim, so that rows start where they do", lambda spec, _: _are_lines(spec)),
    "counted": ("elements are combined with integers at computed places", lambda _, roles: bool(roles.counted)),
    "recurs": ("steps of a 'repeat' read inputs at their own number", lambda spec, _: _recurs(spec)),
    # of results, and of windows over what is read
    "sides": ("how many of rows and columns there are", lambda _, roles: bool(roles.rows) + bool(roles.columns)),
    "moved": ("along how many dims of results windows move", lambda _, roles: len(roles.moved)),
    "channels": ("columns are none of these", lambda _, roles: roles.columns not in roles.moved),
    "taps": (
        "elements of a window; 0: a call says",
        lambda _, roles: prod(roles.fixed.get(dim, 0) for dim in roles.steps),
    ),
}  # fmt: skip
"""What is known of a kernel."""


def words_of_tables(spec: KernelSpec, roles: Roles) -> dict[str, str]:
    """What each name means for one kernel, as text of an expression."""
    sizes = {name: str(of(spec, roles)) for name, (_, of) in SIZES.items()}
    return sizes | {name: str(int(of(spec, roles))) for name, (_, of) in FACTS.items()}  # pyright: ignore


def names_instruction(spec: KernelSpec) -> bool:
    """Whether the spec says what multiplies, which may want other tiles."""
    settings = [one.settings for one in spec.constraints if isinstance(one, Hardware)]
    return any(one.mma not in OPEN for one in settings) or any(one.variant for one in every(Mma, spec.graph))


def _whole(roles: Roles) -> str:
    whole = [dim for dim in roles.whole if dim not in roles.fixed]
    return f"max({whole[0]}, {whole[1]})" if len(whole) == 2 else whole[0] if whole else "1"


def _narrowest(spec: KernelSpec) -> int:
    return min(max(DTYPES[one.dtype].bits, 8) for one in spec.tensors.values())


def _are_lines(spec: KernelSpec) -> bool:
    return all(len(one.shape) < 2 for one in spec.tensors.values())


def _recurs(spec: KernelSpec) -> bool:
    """Whether what a step reads is known steps before it."""
    known, inputs = {*spec.dims, *spec.params}, {name for name, one in spec.tensors.items() if one.role == "input"}
    for loop in every(Repeat, spec.graph):
        for op in loop.body if loop.index is not None and loop.until is None else ():
            if isinstance(op, Read) and op.tensor in inputs:
                names = {name for place in op.at.values() for name in place.names()}
                if loop.index in names <= known | {loop.index}:
                    return True
    return False


def _are_f8(spec: KernelSpec, roles: Roles) -> bool:
    return all(spec.tensors[name].dtype.startswith("f8") for name in roles.operands)


def _laid(spec: KernelSpec, roles: Roles) -> set[str]:
    return {spec.tensors[name].shape[-1] for name in roles.laid_out}
