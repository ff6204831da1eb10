"""Every property of tile kernels, in a kernel that has it and in one that does not."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.ir.kernel import Kernel
from wavespec.lower import tile_properties as properties
from wavespec.lower.contracts import ContractError, Property, check
from wavespec.lower.tile_properties import TILE_PROPERTIES

TILES = Text("""
    tile kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 8
    symbol wg0 in 0..127 by 1
    symbol at_K in 0..4064 by 32
    split workgroup M 32 0
    split loop K 32 0
    plan "auto" stages 1 group 0
    grid [(M + 31)//32]
    memory @a : f16 (M: [M], K: [K]) global input
    memory @b : f16 (N: [N], K: [K]) global input
    memory @c : f32 (M: [M], N: [N]) global output
    memory @s : f16 (M: [32], K: [32]) shared [M/1: 32 by 32, K/1: 32 by 1]
""")
WHOLE = TILES.changed(("M in 0..4096 by 1", "M in 0..4096 by 32"), ("K in 0..4096 by 8", "K in 0..4096 by 32"))
FIXED = TILES.changed(("symbol K in 0..4096 by 8\n", ""), ("K: [K]", "K: [100]"))
SPLIT = TILES.changed(("group 0", "group 0 split 2"))
BATCHES = TILES.changed(("workgroup M 32", "workgroup M 1"))
NAMED = TILES.changed(
    (
        "group 0\n",
        "group 0\n    schedule {"
        'loop = "k_loop", stages = 1, auto = "", nodes = (), clusters = (), buffers = 0, unroll = 0}\n',
    )
)

A = '%a = read {memory = "a"} : tile<M, K, f16>\n'
B = '%b = read {memory = "b"} : tile<N, K, f16>\n'
SUM = "%acc = register {value = 0.0} : tile<M, N, f32>\n"
MMA = "%c = mma %a, %b, %acc : tile<M, N, f32>\n"
CHOSEN = MMA.replace(" :", ' {instruction = "mma_m16n8k16_f16", k = "K", m = "M", n = "N"} :')

SHARING = TILES.changed(
    ("    grid [", "    wave wave_K 2\n    grid ["), ("symbol at_K", "symbol wave_K in 0..1 by 1\n    symbol at_K")
)
CHOSEN_OF_TILES = (
    "%a = register {value = 1.0} : tile<M: 32, K: 32, f16>\n"
    "%b = register {value = 1.0} : tile<N: 32, K: 32, f16>\n"
    "%acc = register {value = 0.0} : tile<M: 32, N: 32, f32>\n"
    '%c = mma %a, %b, %acc {instruction = "mma_m16n8k16_f16", k = "K", m = "M", n = "N"} : tile<M: 32, N: 32, f32>\n'
)
WAVE_SUM = '%total = wave_sum %c {dim = "K"} : tile<M: 32, N: 32, f32>\n'
CLUSTER_SUM = (
    '%all = cluster_sum %c {{{}index = [0], memory = "s", origin = (("M", [0],),), signal = "s", width = 4}} : '
    "tile<M: 32, N: 32, f32>\n"
)
USED = "%used = cast {} : tile<M: 32, N: 32, f16>\n"

PLACED = '(("M", [wg0*32],), ("K", [at_K],),)'
PART = f'%a = read {{memory = "a", origin = {PLACED}}} : tile<M: 32, K: 32, f16>\n'
STAGED = '%a = read {memory = "s", origin = (("M", [0],), ("K", [0],),)} : tile<M: 32, K: 32, f16>\n'
ONES = "%one = register {value = 1.0} : tile<M: 32, K: 32, f16>\n"
OTHER = '%b = read {memory = "s", origin = (("M", [0],), ("K", [0],),)} : tile<N: 32, K: 32, f16>\n'
ACC = "%acc = register {value = 0.0} : tile<M: 32, N: 32, f32>\n"
PRODUCT = CHOSEN.replace("tile<M, N, f32>", "tile<M: 32, N: 32, f32>")


def masked(dims: str, *, end: str = "K", extra: str = "") -> str:
    """A loop along K that reads a tile in each step."""
    return (
        f'iterate {{dim = "K", extent = [{end}], induction = "at_K", {extra}step = [32], unroll = 1}} () do\n'
        f'  %a = read {{masked = {dims}, memory = "a", origin = {PLACED}}} : tile<M: 32, K: 32, f16>\n'
        f"  yield\nend\n"
    )


def steps(extent: str) -> str:
    return (
        f'iterate {{dim = "K", extent = [{extent}], induction = "at_K", step = [32], unroll = 1}} () do\n  yield\nend'
    )


def summed(first: str) -> str:
    """A loop whose product adds to `first`."""
    return (
        f'{ACC}%sum = iterate %acc {{dim = "K", extent = [K], induction = "at_K", step = [32], unroll = 1}} : '
        f"tile<M: 32, N: 32, f32> (%carried : tile<M: 32, N: 32, f32>) do\n{STAGED}{OTHER}"
        '%twice = elementwise %carried, %carried {function = "add"} : tile<M: 32, N: 32, f32>\n'
        f"{PRODUCT.replace('%acc', first)}yield %c\nend\n"
    )


def around(*, inside: str, before: str = "") -> str:
    """A loop over steps of a product, and what stands in front of it."""
    return (
        f'{ACC}{before}%sum = iterate %acc {{dim = "K", extent = [32], induction = "at_K", step = [16], unroll = 0}} : '
        f"tile<M: 32, N: 32, f32> (%carried : tile<M: 32, N: 32, f32>) do\n{inside}"
        f"{PRODUCT.replace('%acc', '%carried')}yield %c\nend\n"
    )


def joined(function: str) -> str:
    """A loop that carries parts of sums along K, and what joins the rest by `function`."""
    return (
        f'%start = register {{value = 0.0}} : tile<M: 32, K: 32, f16>\n%parts = iterate %start {{dim = "K", extent = [K], '
        'induction = "at_K", step = [32], unroll = 1} : tile<M: 32, K: 32, f16> (%part : tile<M: 32, K: 32, f16>) do\n'
        f'{PART}%part.1 = join %part, %a {{dim = "K", function = "add", masked = false, origin = (("K", [at_K],),), '
        "size = [K]} : tile<M: 32, K: 32, f16>\nyield %part.1\nend\n"
        f'%sum = reduce %parts {{dim = "K", divided = false, function = "{function}", size = [K]}} : tile<M: 32, f16>\n'
    )


def shared_out(used: str) -> str:
    """A loop of which each workgroup has some steps, the sum of all of them, and a use of one or the other."""
    loop = summed("%carried").replace("extent", "lower = [wg0*32], extent")
    return (
        f'{loop}%all = cluster_sum %sum {{index = [0], memory = "s", origin = (("M", [0],),), signal = "s", width = 4}} : '
        f'tile<M: 32, N: 32, f32>\nwrite {used} {{memory = "c", origin = (("M", [wg0*32],), ("N", [0],),)}}\n'
    )


LAYOUT = "{M = lane; 32 by K 1 | }"
COPY = f'copy {{memory = "s", origin = {PLACED}, source = "a"}}'

CASES: dict[Property, tuple[Kernel, Kernel, str]] = {
    properties.is_of_tiles: (
        TILES.kernel(A),
        Text(TILES.head.replace("tile kernel", "thread kernel")).kernel("barrier"),
        "kernel 'k': it is at thread level",
    ),
    properties.products_have_three_operands: (
        TILES.kernel(A + B + SUM + MMA),
        TILES.kernel(A + B + SUM + MMA.replace("%acc", "%acc, %a, %b")),
        "operation 'mma': it has 5 operands",
    ),
    properties.unit_dims_are_dropped: (
        BATCHES.kernel('%a = read {memory = "a"} : tile<K, f16>'),
        BATCHES.kernel(A),
        "operation 'read': %a has dim 'M', of which a workgroup has one",
    ),
    properties.products_are_of_matrices: (
        TILES.kernel(A + B + SUM + MMA),
        TILES.kernel((A + B + SUM + MMA).replace("<M, K, ", "<wg, M, K, ")),
        "operation 'mma': %a is tile<wg, M, K, f16>",
    ),
    properties.products_have_instructions: (
        TILES.kernel(A + B + SUM + CHOSEN),
        TILES.kernel(A + B + SUM + CHOSEN.replace("mma_m16n8k16_f16", "f32_16x16x16_f16")),
        "operation 'mma': sm_90 has no 'f32_16x16x16_f16'",
    ),
    properties.reads_are_for_one_use: (
        TILES.kernel(A + B + SUM + CHOSEN),
        TILES.kernel(A + B + SUM + CHOSEN + "%wide = cast %a : tile<M, K, f32>"),
        "operation 'read': %a is used in 2 ways",
    ),
    properties.tiles_have_extents: (
        TILES.kernel(PART),
        TILES.kernel(PART.replace("K: 32", "K")),
        "operation 'read': %a is tile<M: 32, K, f16>",
    ),
    properties.tiles_are_placed: (
        TILES.kernel(PART + steps("K")),
        TILES.kernel(PART + steps("K").replace('induction = "at_K", ', "")),
        "operation 'iterate': it lacks 'induction'",
    ),
    properties.loops_have_several_steps: (
        TILES.kernel(steps("K")),
        TILES.kernel(steps("32")),
        "operation 'iterate': its extent is 32, at most 32, and its step 32",
    ),
    properties.staged_tensors_are_copied: (
        TILES.changed(("global input", "global input staged")).kernel(STAGED + PART.replace("%a", "%d").replace("{", "{direct = true, ")),
        TILES.changed(("global input", "global input staged")).kernel(PART),
        "operation 'read': %a is read from '@a' itself",
    ),
    properties.products_read_their_operands: (
        TILES.kernel(ACC + STAGED + OTHER + PRODUCT),
        TILES.kernel(ACC + ONES + OTHER + PRODUCT.replace("%a,", "%one,")),
        "operation 'mma': %one is made by 'register'",
    ),
    properties.parts_are_joined: (
        TILES.kernel(joined("add")),
        TILES.kernel(joined("max")),
        "operation 'reduce': %parts is joined in parts",
    ),
    properties.shares_are_summed_up: (
        SPLIT.kernel(shared_out("%all")),
        SPLIT.kernel(shared_out("%sum")),
        "operation 'write': %sum is the sum of some steps",
    ),
    properties.waves_are_summed_up: (
        SHARING.kernel(CHOSEN_OF_TILES + WAVE_SUM + USED.format("%total")),
        SHARING.kernel(CHOSEN_OF_TILES + WAVE_SUM + USED.format("%c")),
        "operation 'cast': %c is the sum of one wave",
    ),
    properties.sums_start_apart: (
        TILES.kernel(summed("%carried")),
        TILES.kernel(summed("%twice")),
        "operation 'mma': it adds to %twice",
    ),
    properties.operands_are_read_beside_products: (
        TILES.kernel(around(inside=STAGED + OTHER)),
        TILES.kernel(around(before=STAGED, inside=OTHER)),
        "operation 'mma': %a is read in another block",
    ),
    properties.tiles_have_layouts: (
        TILES.changed(("symbol at_K", "symbol lane in 0..31 by 1\n    symbol at_K")).kernel(ONES.replace("f16>", f"f16, {LAYOUT}>")),
        TILES.kernel(ONES),
        "operation 'register': %one is tile<M: 32, K: 32, f16>",
    ),
    properties.copies_are_distributed: (
        TILES.kernel(COPY.replace("memory", "boxes = (((0, 32,), (0, 32,),),), memory")),
        TILES.kernel(COPY),
        "operation 'copy': it has neither 'layout' nor 'boxes'",
    ),
    properties.edges_are_masked: (
        TILES.kernel(masked('("M", "K",)')),
        TILES.kernel(masked('("M",)')),
        "operation 'read': it checks no bounds along 'K'",
    ),
    properties.accesses_are_masked: (
        TILES.kernel(masked('("M", "K",)')),
        TILES.kernel(masked('("M",)')),
        "operation 'read': it checks no bounds along 'K'",
    ),
    properties.whole_steps_check_nothing: (
        TILES.kernel(masked('("M",)', end="K - K%32") + masked('("M", "K",)', extra="lower = [K - K%32], ").replace("%a ", "%b ")),
        TILES.kernel(masked('("M", "K",)')),
        "operation 'read': it checks bounds along 'K' in every step",
    ),
    properties.nothing_is_computed_twice: (
        TILES.kernel(PART + PART.replace("%a", "%other").replace("at_K", "at_K + 32")),
        TILES.kernel(PART + PART.replace("%a", "%other")),
        "operation 'read': %other is there already",
    ),
}  # fmt: skip


def test_every_property_is_here() -> None:
    assert set(CASES) == set(TILE_PROPERTIES)


@pytest.mark.parametrize("one", TILE_PROPERTIES, ids=str)
def test_a_kernel_that_has_it_and_one_that_has_not(one: Property) -> None:
    holds, broken, message = CASES[one]
    check(holds, NVIDIA, [one], "here")
    with pytest.raises(ContractError) as caught:
        check(broken, NVIDIA, [one], "here")
    assert message in str(caught.value) and one.doc in str(caught.value)


@pytest.mark.parametrize(
    ("one", "kernel"),
    [
        (properties.unit_dims_are_dropped, BATCHES.kernel(A + B + SUM + MMA)),
        (properties.waves_are_summed_up, SHARING.kernel(CHOSEN_OF_TILES + CLUSTER_SUM.format('dim = "K", '))),
        (properties.unit_dims_are_dropped, BATCHES.kernel(A + '%r = reduce %a {dim = "M", divided = false, function = "add"} : tile<K, f16>')),
        (properties.reads_are_for_one_use, TILES.kernel(A + B + SUM + CHOSEN + CHOSEN.replace("%c", "%d"))),
        (properties.loops_have_several_steps, TILES.kernel(steps("33"))),
        (properties.edges_are_masked, TILES.kernel(masked('("M",)', end="K - K%32"))),
        (properties.edges_are_masked, TILES.kernel(masked('("M",)', end="min(K, wg0 + 1) - min(K, wg0 + 1)%32"))),
        (properties.edges_are_masked, WHOLE.kernel(masked("()"))),
        (properties.edges_are_masked, FIXED.kernel(masked('("M",)', end="96"))),
        (properties.whole_steps_check_nothing, TILES.kernel(masked('("M", "K",)', extra="lower = [64], "))),
        (properties.nothing_is_computed_twice, NAMED.kernel(ONES + ONES.replace("%one", "%two"))),
    ],
    ids=lambda given: str(given) if isinstance(given, Property) else "",
)  # fmt: skip
def test_what_it_leaves_alone(one: Property, kernel: Kernel) -> None:
    check(kernel, NVIDIA, [one], "here")


@pytest.mark.parametrize(
    ("one", "kernel", "message"),
    [
        (properties.products_have_instructions, TILES.kernel(A + B + SUM + MMA), "it names no instruction"),
        (properties.waves_are_summed_up, SHARING.kernel(CHOSEN_OF_TILES + CLUSTER_SUM.format("")), "'cluster_sum': %c is the sum of one wave"),
        (properties.edges_are_masked, TILES.kernel(masked('("K",)')), "no bounds along 'M'"),
        (properties.edges_are_masked, TILES.kernel(masked('("M",)', end="K - K%16")), "no bounds along 'K'"),
        (properties.edges_are_masked, FIXED.kernel(masked('("M",)', end="100")), "no bounds along 'K'"),
        (properties.edges_are_masked, FIXED.kernel(masked('("M",)', end="128")), "no bounds along 'K'"),
        (properties.products_read_their_operands, TILES.kernel(ACC + STAGED.replace("{", "{direct = true, ") + OTHER + PRODUCT), "%a is made by 'read'"),
        (properties.nothing_is_computed_twice, TILES.kernel(ONES + masked('("M", "K",)').replace("  yield", ONES.replace("%one", "%two") + "  yield")), "%two is there already"),
    ],
)  # fmt: skip
def test_other_ways_to_break_it(one: Property, kernel: Kernel, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        check(kernel, NVIDIA, [one], "here")
    assert message in str(caught.value)
